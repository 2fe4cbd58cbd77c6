// Gated linear attention of one head, in chunks: the state S [D, BV] carries over, the rest is matrix products.
//
// G holds the logarithm of each position's gate. Within a chunk, position i sees j <= i with weight
// exp(b_i - b_j), b the running sum of G; the state decays by exp(b_last). The tail of N is zero-filled.
// Grid: (DV / BV,).

@autotune(BC in [16], D in [32], BV in [32])
@launch(128)
@aligned(DV = BV)
kernel gated_linear_attention(Q: tensor<f32>[N, D], K: tensor<f32>[N, D], V: tensor<f32>[N, DV], G: tensor<f32>[N, 1], O: tensor<f32>[N, DV]) {
  let j = ctx.block.x * BV
  var state: tile<f32>[D, BV] = 0.0
  for c in range(0, N, BC) {
    var q = Q[c :+ BC, :]
    var k = K[c :+ BC, :]
    var v = V[c :+ BC, j :+ BV]
    var g = G[c :+ BC, :]
    let b = cumsum(g)
    var weights: tile<f32>[BC, BC] = dot_t(q, k)
    weights = weights * exp(b - transpose(b))
    weights = tril(weights)
    var o: tile<f32>[BC, BV] = dot(q, state)
    o = o * exp(b)
    o += dot(weights, v)
    O[c :+ BC, j :+ BV] = o
    let last = b[BC - 1 :+ 1, :]
    k = k * exp(last - b)
    state = state * exp(last)
    state += dot(transpose(k), v)
  }
}
