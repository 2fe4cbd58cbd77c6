// C = alpha A B + beta C in f32: one FFMA chain for each output, k ascending over all of K.
//
// The tile sizes change nothing about the bits. beta C is computed for beta = 0 too, so a NaN in C spreads.
// Grid: (ceil(M / BM), ceil(N / BN)).

@autotune(BM in [64, 128], BN in [64, 128], BK in [16])
@launch(256)
kernel matmul_f32(A: tensor<f32>[M, K], B: tensor<f32>[K, N], C: tensor<f32>[M, N], alpha: f32, beta: f32) {
  let i = ctx.block.x * BM
  let j = ctx.block.y * BN
  var acc: tile<f32>[BM, BN] = 0.0
  for k in range(0, K, BK) {
    var a = A[i :+ BM, k :+ BK]
    var b = B[k :+ BK, j :+ BN]
    acc += dot(a, b)
  }
  let c = C[i :+ BM, j :+ BN]
  C[i :+ BM, j :+ BN] = alpha * acc + beta * c
}
