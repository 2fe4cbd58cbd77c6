// C = alpha A B + beta C with f16 operands and an f16 accumulator: HMMA.16816.F16 rounds to f16 after every 8 products.
//
// This is the GEMM loop that the language recognizes: its epilogue is computed in f32 and rounded once, at the store.
// Without the promises the tail would be masked, the pattern lost, and the sum an HFMA2 chain: other bits.
// Grid: (M / BM, N / BN).

@autotune(BM in [64], BN in [64], BK in [32])
@launch(256)
@tensorcore
@aligned(M = BM, N = BN, K = BK)
kernel matmul_f16(A: tensor<f16>[M, K], B: tensor<f16>[K, N], C: tensor<f16>[M, N], alpha: f32, beta: f32) {
  let i = ctx.block.x * BM
  let j = ctx.block.y * BN
  var acc: tile<f16>[BM, BN] = 0.0
  for k in range(0, K, BK) {
    var a = A[i :+ BM, k :+ BK]
    var b = B[k :+ BK, j :+ BN]
    acc += dot(a, b)
  }
  let c = C[i :+ BM, j :+ BN]
  C[i :+ BM, j :+ BN] = alpha * acc + beta * c
}
