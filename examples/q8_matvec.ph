// y = W x with 8-bit weights and activations, a scale for every 32 of them: Q8_0 as language models store it.
//
// One row of outputs cannot fill an 8-row block of the integer tensor cores, so dp4a sums each block exactly; the scaled
// blocks are added in f32 in ascending order: part * ws, * xs, then the sum, each rounded.
// Grid: (N / BN,).

@autotune(BN in [32])
@launch(128)
@aligned(N = BN, K = 32)
kernel q8_matvec(W: tensor<i8>[N, K], WS: tensor<f32>[N, KB], X: tensor<i8>[1, K], XS: tensor<f32>[1, KB], Y: tensor<f32>[1, N]) {
  let n = ctx.block.x * BN
  var acc: tile<f32>[1, BN] = 0.0
  for k in range(0, K, 32) {
    let w = W[n :+ BN, k :+ 32]
    let x = X[0 :+ 1, k :+ 32]
    let part = dot_t(x, w)
    var ws = WS[n :+ BN, k / 32 :+ 1]
    var xs = XS[0 :+ 1, k / 32 :+ 1]
    acc += f32(part) * transpose(ws) * xs
  }
  Y[0 :+ 1, n :+ BN] = acc
}
