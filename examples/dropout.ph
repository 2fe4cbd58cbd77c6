// Dropout with a counter-based generator written in the language: no state, the same mask for the same seed anywhere.
//
// The counter is the element's index plus a seed; `mix` is the 32-bit integer finalizer with constants 7feb352d and
// 846ca68b. 32-bit integers wrap; their right shift is arithmetic, so a mask makes it logical.
// Grid: (ceil(M / R),).

fn mix(x) {
  let a = (x ^ ((x >> 16) & 65535)) * 2146121005
  let b = (a ^ ((a >> 15) & 131071)) * 2221713035
  return b ^ ((b >> 16) & 65535)
}

fn uniform(x) {
  return f32((x >> 8) & 16777215) * 0.00000005960464477539063
}

@autotune(R in [4], W in [256])
@launch(128)
kernel dropout(X: tensor<f32>[M, W], Y: tensor<f32>[M, W], p: f32, seed: i32) {
  let r = ctx.block.x * R
  var x = X[r :+ R, :]
  let row = transpose(iota(R)) + r
  let counter = row * W + iota(W)
  let u = uniform(mix(mix(counter) + seed))
  Y[r :+ R, :] = where(u >= p, x / (1.0 - p), 0.0)
}
