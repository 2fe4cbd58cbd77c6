// Layer norm along rows, forward, with mean and reciprocal deviation stored.
//
// Y = (X - mean) * rstd * G + B: four operations, four roundings, as written. inv_w is 1 / W.
// Grid: (M / R,).

@autotune(R in [4], W in [1024])
@launch(128)
@aligned(M = R)
kernel layer_norm(X: tensor<f32>[M, W], G: tensor<f32>[1, W], B: tensor<f32>[1, W], Y: tensor<f32>[M, W], Mean: tensor<f32>[M, 1], Rstd: tensor<f32>[M, 1], inv_w: f32, eps: f32) {
  let r = ctx.block.x * R
  var x = X[r :+ R, :]
  let g = G[0 :+ 1, :]
  let b = B[0 :+ 1, :]
  var mean: tile<f32>[R, 1] = rowsum(x)
  mean = mean * inv_w
  x = x - mean
  var squares: tile<f32>[R, 1] = rowsum(x * x)
  var rstd: tile<f32>[R, 1] = 1.0 / sqrt(squares * inv_w + eps)
  Mean[r :+ R, :] = mean
  Rstd[r :+ R, :] = rstd
  Y[r :+ R, :] = x * rstd * g + b
}
