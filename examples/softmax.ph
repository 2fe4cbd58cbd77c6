// Softmax along rows, fused: every CTA reads R rows once and writes them once.
//
// The row width W is a constant. The sum of a row runs over 32 strided partial sums joined by a butterfly, because 128
// threads serve 4 rows; another thread count gives other bits.
// Grid: (M / R,).

@autotune(R in [4], W in [1024])
@launch(128)
@aligned(M = R)
kernel softmax(X: tensor<f32>[M, W], Y: tensor<f32>[M, W]) {
  let r = ctx.block.x * R
  var x = X[r :+ R, :]
  var top: tile<f32>[R, 1] = rowmax(x)
  x = exp(x - top)
  var total: tile<f32>[R, 1] = rowsum(x)
  Y[r :+ R, :] = x / total
}
