// The two programs of the source document on dot: the i8 kernel, and the k loop with what it needs around it.

@launch(256)
@autotune(TM in [16], TN in [32])
@aligned(M = TM, K = 32, N = TN)
kernel i8_gemm(A: tensor<i8>[M, K], W: tensor<i8>[N, K], C: tensor<i32>[M, N]) {
  let pm = ctx.block.x
  let pn = ctx.block.y
  let a = A[pm * TM :+ TM, 0 :+ 32]
  let w = W[pn * TN :+ TN, 0 :+ 32]
  C[pm * TM :+ TM, pn * TN :+ TN] = dot_t(a, w)
}

@autotune(TILE_M in [64], TILE_N in [64], TILE_K in [16])
kernel k_loop(A: tensor<f32>[M, K], B: tensor<f32>[K, N], C: tensor<f32>[M, N]) {
  let pm = ctx.block.x
  let pn = ctx.block.y
  var acc: tile<f32>[TILE_M, TILE_N] = 0.0
  for kt in range(0, K, TILE_K) {
    var a = A[pm * TILE_M :+ TILE_M, kt :+ TILE_K]
    var b = B[kt :+ TILE_K, pn * TILE_N :+ TILE_N]
    acc += dot(a, b)
  }
  C[pm * TILE_M :+ TILE_M, pn * TILE_N :+ TILE_N] = acc
}

@launch(128)
@autotune(BR in [16], BC in [16], D in [16])
kernel epilogues(Q: tensor<f32>[BR, D], K: tensor<f32>[BC, D], V: tensor<f32>[BC, D], O: tensor<f32>[BR, D],
                 scale: f32, corr: f32) {
  let q = Q[:, :]
  let k = K[:, :]
  let v = V[:, :]
  var s: tile<f32>[BR, BC] = dot_t(q, k)
  s = s * scale                     // applied as s is written
  var acc: tile<f32>[BR, D] = O[:, :]
  acc = acc * corr + dot(s, v)      // one pass over acc
  O[:, :] = acc
}
