// C = A B with f16 operands on the tensor cores, an f32 accumulator and one rounding to f16 at the store.
//
// CTA (x, y) owns a BM x BN tile of C. Each turn of the loop takes a panel of A and of B and adds their product to the
// accumulator, which stays in f32. The promises make every slice whole.
// Grid: (M / BM, N / BN).

@autotune(BM in [64], BN in [64], BK in [32])
@launch(256)
@tensorcore
@aligned(M = BM, N = BN, K = BK)
kernel matmul(A: tensor<f16>[M, K], B: tensor<f16>[K, N], C: tensor<f16>[M, N]) {
  let i = ctx.block.x * BM
  let j = ctx.block.y * BN
  var acc: tile<f32>[BM, BN] = 0.0
  for k in range(0, K, BK) {
    var a = A[i :+ BM, k :+ BK]
    var b = B[k :+ BK, j :+ BN]
    acc += dot(a, b)
  }
  C[i :+ BM, j :+ BN] = acc
}
