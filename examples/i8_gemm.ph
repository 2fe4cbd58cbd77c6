// C = A W^T on 8-bit integers with 32-bit sums, exact and wrapping.
//
// 16 x 32 outputs are whole 8 x 8 blocks and 32 is a multiple of 16, so IMMA.8816 runs it; with BM = 1 it is dp4a, and
// the same bits.
// Grid: (M / BM, N / BN).

@autotune(BM in [16], BN in [32])
@launch(256)
@aligned(M = BM, K = 32, N = BN)
kernel i8_gemm(A: tensor<i8>[M, K], W: tensor<i8>[N, K], C: tensor<i32>[M, N]) {
  let i = ctx.block.x * BM
  let j = ctx.block.y * BN
  var acc: tile<i32>[BM, BN] = 0
  for k in range(0, K, 32) {
    let a = A[i :+ BM, k :+ 32]
    let w = W[j :+ BN, k :+ 32]
    acc += dot_t(a, w)
  }
  C[i :+ BM, j :+ BN] = acc
}
