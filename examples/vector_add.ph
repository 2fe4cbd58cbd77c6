// Z = X + Y on vectors: one FADD an element.
//
// The length is neither known when compiling nor promised to be a multiple of BLOCK: reads past the end give zero and
// stores past it are dropped.
// Grid: (ceil(N / BLOCK),).

@autotune(BLOCK in [1024])
@launch(256)
kernel vector_add(X: tensor<f32>[N], Y: tensor<f32>[N], Z: tensor<f32>[N]) {
  let at = ctx.block.x * BLOCK
  Z[at :+ BLOCK] = X[at :+ BLOCK] + Y[at :+ BLOCK]
}
