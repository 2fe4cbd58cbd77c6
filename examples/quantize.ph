// Row-wise 8-bit quantization and its inverse into bf16: two kernels of one source.
//
// quantize: scale = max |x| / 127 (at least 1e-30 / 127), q = round(x / scale), ties to even.
// dequantize: y = q * scale in f32, rounded once to bf16.
// Grid: (M / R,) for both.

@autotune(R in [4], W in [256])
@launch(128)
@aligned(M = R)
kernel quantize(X: tensor<f32>[M, W], Q: tensor<i8>[M, W], S: tensor<f32>[M, 1]) {
  let r = ctx.block.x * R
  var x = X[r :+ R, :]
  let top = rowmax(tmax(x, 0.0 - x))
  let scale = tmax(top, 0.000000000000000000000000000001) / 127.0
  Q[r :+ R, :] = i8(round(x / scale))
  S[r :+ R, :] = scale
}

@autotune(R in [4], W in [256])
@launch(128)
@aligned(M = R)
kernel dequantize(Q: tensor<i8>[M, W], S: tensor<f32>[M, 1], Y: tensor<bf16>[M, W]) {
  let r = ctx.block.x * R
  var q = Q[r :+ R, :]
  var s = S[r :+ R, :]
  Y[r :+ R, :] = f32(q) * s
}
