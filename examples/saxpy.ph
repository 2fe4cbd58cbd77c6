// Z = alpha X + Y on vectors: one FMUL and one FADD an element, never fused.
//
// Grid: (ceil(N / BLOCK),).

@autotune(BLOCK in [1024])
@launch(256)
kernel saxpy(X: tensor<f32>[N], Y: tensor<f32>[N], Z: tensor<f32>[N], alpha: f32) {
  let at = ctx.block.x * BLOCK
  Z[at :+ BLOCK] = alpha * X[at :+ BLOCK] + Y[at :+ BLOCK]
}
