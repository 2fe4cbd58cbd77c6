"""Kernels of test_kernels_numbers.py: operators and conversions of every type, bool tiles, iota, scalars.

Arguments are [1, N] rows, results [K, N]: row k holds operation k. Grid: N / W, rounded up.
"""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.autotune(W=[64])
@ph.launch(64)
def f32_ops(A: ph.tensor[ph.f32][1, N], B: ph.tensor[ph.f32][1, N], C: ph.tensor[ph.f32][K, N]):
    at: ph.let = ph.ctx.block.x * W
    a: ph.var = A[0:+1, at:+W]
    b: ph.var = B[0:+1, at:+W]
    C[0:+1, at:+W] = a + b
    C[1:+1, at:+W] = a - b
    C[2:+1, at:+W] = a * b
    C[3:+1, at:+W] = a / b
    C[4:+1, at:+W] = a % b
    C[5:+1, at:+W] = -a
    C[6:+1, at:+W] = ph.tmax(a, b)
    C[7:+1, at:+W] = ph.where(a != b, a, b)
    C[8:+1, at:+W] = a * b + a
    C[9:+1, at:+W] = 1.0 / b
    C[10:+1, at:+W] = a


@ph.kernel
@ph.autotune(W=[64])
@ph.launch(64)
def f16_ops(A: ph.tensor[ph.f16][1, N], B: ph.tensor[ph.f16][1, N], C: ph.tensor[ph.f16][K, N]):
    at: ph.let = ph.ctx.block.x * W
    a: ph.var = A[0:+1, at:+W]
    b: ph.var = B[0:+1, at:+W]
    C[0:+1, at:+W] = a + b
    C[1:+1, at:+W] = a - b
    C[2:+1, at:+W] = a * b
    C[3:+1, at:+W] = a / b
    C[4:+1, at:+W] = a % b
    C[5:+1, at:+W] = -a
    C[6:+1, at:+W] = ph.tmax(a, b)
    C[7:+1, at:+W] = ph.exp(a - b) * b
    sum: ph.var = a + b
    C[8:+1, at:+W] = sum * a
    C[9:+1, at:+W] = a * 0.1
    C[10:+1, at:+W] = a


@ph.kernel
@ph.autotune(W=[64])
@ph.launch(64)
def bf16_ops(A: ph.tensor[ph.bf16][1, N], B: ph.tensor[ph.bf16][1, N], C: ph.tensor[ph.bf16][K, N]):
    at: ph.let = ph.ctx.block.x * W
    a: ph.var = A[0:+1, at:+W]
    b: ph.var = B[0:+1, at:+W]
    C[0:+1, at:+W] = a + b
    C[1:+1, at:+W] = a - b
    C[2:+1, at:+W] = a * b
    C[3:+1, at:+W] = a / b
    C[4:+1, at:+W] = a % b
    C[5:+1, at:+W] = ph.tmax(a, b)
    C[6:+1, at:+W] = ph.bf16(ph.f16(a)) + b


@ph.kernel
@ph.autotune(W=[64])
@ph.launch(64)
def f64_ops(A: ph.tensor[ph.f64][1, N], B: ph.tensor[ph.f64][1, N], C: ph.tensor[ph.f64][K, N]):
    at: ph.let = ph.ctx.block.x * W
    a: ph.var = A[0:+1, at:+W]
    b: ph.var = B[0:+1, at:+W]
    C[0:+1, at:+W] = a + b
    C[1:+1, at:+W] = a - b
    C[2:+1, at:+W] = a * b
    C[3:+1, at:+W] = a / b
    C[4:+1, at:+W] = a % b
    C[5:+1, at:+W] = ph.tmax(a, b)


@ph.kernel
@ph.autotune(W=[64])
@ph.launch(64)
def functions(A: ph.tensor[ph.f32][1, N], C: ph.tensor[ph.f32][K, N]):
    at: ph.let = ph.ctx.block.x * W
    a: ph.var = A[0:+1, at:+W]
    C[0:+1, at:+W] = ph.exp(a)
    C[1:+1, at:+W] = ph.log(a)
    C[2:+1, at:+W] = ph.sqrt(a)
    C[3:+1, at:+W] = ph.tanh(a)
    C[4:+1, at:+W] = ph.round(a)
    C[5:+1, at:+W] = ph.pow(a, a)
    C[6:+1, at:+W] = ph.exp(ph.log(a))


@ph.kernel
@ph.autotune(W=[64])
@ph.launch(64)
def i32_ops(A: ph.tensor[ph.i32][1, N], B: ph.tensor[ph.i32][1, N], C: ph.tensor[ph.i32][K, N]):
    at: ph.let = ph.ctx.block.x * W
    a: ph.var = A[0:+1, at:+W]
    b: ph.var = B[0:+1, at:+W]
    C[0:+1, at:+W] = a + b
    C[1:+1, at:+W] = a - b
    C[2:+1, at:+W] = a * b
    C[3:+1, at:+W] = a / b
    C[4:+1, at:+W] = a % b
    C[5:+1, at:+W] = a & b
    C[6:+1, at:+W] = a | b
    C[7:+1, at:+W] = a ^ b
    C[8:+1, at:+W] = a << b
    C[9:+1, at:+W] = a >> b
    C[10:+1, at:+W] = ~a
    C[11:+1, at:+W] = -a
    C[12:+1, at:+W] = ph.tmax(a, b)
    C[13:+1, at:+W] = ph.where(a <= b, a, b)
    C[14:+1, at:+W] = a * 65537 + 1


@ph.kernel
@ph.autotune(W=[64])
@ph.launch(64)
def i8_ops(A: ph.tensor[ph.i8][1, N], B: ph.tensor[ph.i8][1, N], C: ph.tensor[ph.i8][K, N]):
    at: ph.let = ph.ctx.block.x * W
    a: ph.var = A[0:+1, at:+W]
    b: ph.var = B[0:+1, at:+W]
    C[0:+1, at:+W] = a + b
    C[1:+1, at:+W] = a - b
    C[2:+1, at:+W] = a * b
    C[3:+1, at:+W] = a / b
    C[4:+1, at:+W] = a % b
    C[5:+1, at:+W] = a & b
    C[6:+1, at:+W] = a << b
    C[7:+1, at:+W] = a >> b
    C[8:+1, at:+W] = ph.tmax(a, b)
    C[9:+1, at:+W] = -a
    C[10:+1, at:+W] = (a + b) >> 1


@ph.kernel
@ph.autotune(W=[64])
@ph.launch(64)
def u8_ops(A: ph.tensor[ph.u8][1, N], B: ph.tensor[ph.u8][1, N], C: ph.tensor[ph.u8][K, N]):
    at: ph.let = ph.ctx.block.x * W
    a: ph.var = A[0:+1, at:+W]
    b: ph.var = B[0:+1, at:+W]
    C[0:+1, at:+W] = a + b
    C[1:+1, at:+W] = a - b
    C[2:+1, at:+W] = a * b
    C[3:+1, at:+W] = a / b
    C[4:+1, at:+W] = a % b
    C[5:+1, at:+W] = a ^ b
    C[6:+1, at:+W] = a << b
    C[7:+1, at:+W] = a >> b
    C[8:+1, at:+W] = ph.tmax(a, b)


@ph.kernel
@ph.autotune(W=[64])
@ph.launch(64)
def i64_ops(A: ph.tensor[ph.i64][1, N], B: ph.tensor[ph.i64][1, N], C: ph.tensor[ph.i64][K, N]):
    at: ph.let = ph.ctx.block.x * W
    a: ph.var = A[0:+1, at:+W]
    b: ph.var = B[0:+1, at:+W]
    C[0:+1, at:+W] = a + b
    C[1:+1, at:+W] = a - b
    C[2:+1, at:+W] = a * b
    C[3:+1, at:+W] = a / b
    C[4:+1, at:+W] = a % b
    C[5:+1, at:+W] = a << b
    C[6:+1, at:+W] = a >> b
    C[7:+1, at:+W] = ph.tmax(a, b)


@ph.kernel
@ph.autotune(W=[64])
@ph.launch(64)
def from_f32(
    A: ph.tensor[ph.f32][1, N], H: ph.tensor[ph.f16][1, N], B: ph.tensor[ph.bf16][1, N], D: ph.tensor[ph.f64][1, N],
    I8: ph.tensor[ph.i8][1, N], U8: ph.tensor[ph.u8][1, N], I32: ph.tensor[ph.i32][1, N], I64: ph.tensor[ph.i64][1, N],
    Back: ph.tensor[ph.f32][K, N],
):
    at: ph.let = ph.ctx.block.x * W
    a: ph.var = A[0:+1, at:+W]
    H[0:+1, at:+W] = a
    B[0:+1, at:+W] = a
    D[0:+1, at:+W] = a
    I8[0:+1, at:+W] = a
    U8[0:+1, at:+W] = a
    I32[0:+1, at:+W] = a
    I64[0:+1, at:+W] = a
    Back[0:+1, at:+W] = ph.f32(ph.f16(a))
    Back[1:+1, at:+W] = ph.f32(ph.bf16(a))
    Back[2:+1, at:+W] = ph.f32(ph.f64(a))
    Back[3:+1, at:+W] = ph.f32(ph.i8(a))
    Back[4:+1, at:+W] = ph.f32(ph.u8(a))
    Back[5:+1, at:+W] = ph.f32(ph.i32(a))
    Back[6:+1, at:+W] = ph.f32(ph.i64(a))
    Back[7:+1, at:+W] = ph.f32(ph.i8(ph.i32(ph.round(a))))


@ph.kernel
@ph.autotune(W=[64])
@ph.launch(64)
def from_i32(
    A: ph.tensor[ph.i32][1, N], H: ph.tensor[ph.f16][1, N], B: ph.tensor[ph.bf16][1, N], F: ph.tensor[ph.f32][1, N],
    D: ph.tensor[ph.f64][1, N], I8: ph.tensor[ph.i8][1, N], U8: ph.tensor[ph.u8][1, N], I64: ph.tensor[ph.i64][1, N],
):
    at: ph.let = ph.ctx.block.x * W
    a: ph.var = A[0:+1, at:+W]
    H[0:+1, at:+W] = a
    B[0:+1, at:+W] = a
    F[0:+1, at:+W] = a
    D[0:+1, at:+W] = a
    I8[0:+1, at:+W] = a
    U8[0:+1, at:+W] = a
    I64[0:+1, at:+W] = a


@ph.kernel
@ph.autotune(W=[64])
@ph.launch(64)
def bools(
    A: ph.tensor[ph.f32][1, N], B: ph.tensor[ph.f32][1, N], Flags: ph.tensor[ph.bool][1, N],
    Out: ph.tensor[ph.bool][K, N], Count: ph.tensor[ph.i32][1, N], F: ph.tensor[ph.f32][1, N],
):
    """Bool tensors, tiles of conditions, what carries them through a loop."""
    at: ph.let = ph.ctx.block.x * W
    a: ph.var = A[0:+1, at:+W]
    b: ph.var = B[0:+1, at:+W]
    f: ph.var = Flags[0:+1, at:+W]
    Out[0:+1, at:+W] = a < b
    Out[1:+1, at:+W] = (a == b) | f
    Out[2:+1, at:+W] = (a > b) ^ f
    Out[3:+1, at:+W] = (a >= b) & (a != b)
    Out[4:+1, at:+W] = f
    g: ph.var = f
    n: ph.var[ph.tile[ph.i32][1, W]] = 0
    for i in range(0, 3):
        n = n + ph.i32(g)
        g = g ^ (a <= b)
    Count[0:+1, at:+W] = n
    F[0:+1, at:+W] = ph.where(g, a, 0.5) + ph.f32(f)


@ph.kernel
@ph.autotune(W=[64])
@ph.launch(64)
def rank_1(A: ph.tensor[ph.f32][N], H: ph.tensor[ph.f16][N], C: ph.tensor[ph.f32][N]):
    at: ph.let = ph.ctx.block.x * W
    x: ph.var = A[at:+W]
    x += H[at:+W]
    x *= 1.5
    x -= 0.25
    C[at:+W] = x


@ph.kernel
@ph.autotune(W=[16])
@ph.launch(32)
def scalars(
    X: ph.tensor[ph.f32][W], Y: ph.tensor[ph.f32][W], L: ph.tensor[ph.i64][8], f: ph.f32, h: ph.f16, d: ph.f64,
    i: ph.i32, l: ph.i64, b: ph.bool,
):
    """Scalar arguments of every type, arithmetic on them, and what memory keeps of 64-bit ones."""
    y: ph.var = X[:] * f + ph.f32(h) + ph.f32(d)
    if b:
        y = y + ph.f32(i)
    s: ph.var = f * f - 1.0
    s = s / f
    Y[:] = y + s + ph.f32(l)
    L[0] = l
    L[1] = l * 3 + i
    L[2] = ph.i64(f)
    L[3] = ph.i64(ph.i32(l))
    L[4] = l / 7 % 1000
    L[5] = i
    L[6] = ph.i64(d)
    L[7] = l - l + 1


@ph.kernel
@ph.autotune(W=[64])
@ph.launch(64)
def indices(C: ph.tensor[ph.i32][K, N], n: ph.i32):
    """iota against a scalar, an index and another iota; integer arithmetic of CTA coordinates."""
    at: ph.let = ph.ctx.block.x * W
    own: ph.var = ph.iota(W)
    C[0:+1, at:+W] = own + at
    C[1:+1, at:+W] = ph.where(own < n, own, 0 - own)
    C[2:+1, at:+W] = own * own % 7
    C[3:+1, at:+W] = ph.where((own + at) % 2 == 0, 1, 0)
    C[4:+1, at:+W] = at / 3 + n


@ph.kernel
@ph.launch(32)
def stored(L: ph.tensor[ph.i64][2], F: ph.tensor[ph.f32][1], l: ph.i64):
    """A 64-bit argument that no index depends on."""
    L[0] = l
    F[0] = ph.f32(l)
