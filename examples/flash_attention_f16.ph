// Attention of one head with f16 operands on the tensor cores, forward, with a running maximum.
//
// Scores and output accumulate in f32; the weights are rounded to f16 when they become operands. With 128 threads both
// products pass the tensor-core gate; with BR = BC = 16 the scores would fall back to FFMA, and other bits.
// Grid: (Nq / BR,).

@autotune(BR in [32], BC in [32], D in [64])
@launch(128)
@tensorcore
@aligned(Nq = BR, Nk = BC)
kernel flash_attention_f16(Q: tensor<f16>[Nq, D], K: tensor<f16>[Nk, D], V: tensor<f16>[Nk, D], O: tensor<f16>[Nq, D], scale: f32) {
  let r = ctx.block.x * BR
  let q = Q[r :+ BR, :]
  var o: tile<f32>[BR, D] = 0.0
  var top: tile<f32>[BR, 1] = -300000000.0
  var total: tile<f32>[BR, 1] = 0.0
  for c in range(0, Nk, BC) {
    let k = K[c :+ BC, :]
    let v = V[c :+ BC, :]
    var s: tile<f32>[BR, BC] = dot_t(q, k)
    s = s * scale
    var new: tile<f32>[BR, 1] = tmax(top, rowmax(s))
    s = exp(s - new)
    var fix: tile<f32>[BR, 1] = exp(top - new)
    total = total * fix + rowsum(s)
    o = o * fix
    o += dot(s, v)
    top = new
  }
  O[r :+ BR, :] = o / total
}
