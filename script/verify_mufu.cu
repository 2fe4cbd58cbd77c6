// The integer model of MUFU (docs/adr, design rules in core/isa/mufu_tables.py) beside the instruction itself, for
// script/verify_mufu.py. The coefficient tables come from core/isa/mufu_tables.json through a generated header:
// TABLE_<name> macros, each a braced list of C0, C1, C2.
//
//   A = (C0[i] << s0) + C1[i] * x + ((C2[i] * S(x)) << s2) + bias
#include <stdint.h>
#include "mufu_header.h"

typedef unsigned int u32;
typedef long long s64;
typedef unsigned long long u64;

#define TABLE(name) __device__ const int name##_table[] = TABLE_##name;
TABLE(rcp) TABLE(rsq) TABLE(sqrt) TABLE(ex2) TABLE(lg2) TABLE(sin) TABLE(tanh)

#define NAN32 0x7fffffffu
#define INF32 0x7f800000u
#define SIGN32 0x80000000u

// Every partial product of the squarer is truncated before the sum: 17 bits in, 15 out.
__device__ static s64 square(u32 x) {
  u32 sum = 0;
  for (int i = 2; i < 17; i++) sum += (x >> i & 1) * (x >> (18 - i));
  return sum >> 1;
}

__device__ static s64 poly(const int *table, int row, u32 x, u32 squared, int s0, int s2) {
  const int *c = table + 3 * row;
  return ((s64)c[0] << s0) + (s64)c[1] * x + (((s64)c[2] * square(squared)) << s2);
}

// v > 0: its 24 leading bits, truncated, as a float of v * 2^scale.
__device__ static u32 pack(s64 v, int scale) {
  int top = 63 - __clzll(v);
  u32 bits = (u32)(top >= 23 ? v >> (top - 23) : v << (23 - top));
  return ((u32)(top + scale + 127) << 23) + (bits & 0x7fffff);
}

struct Parts { u32 sign; int e; u32 m; bool nan; };
__device__ static Parts split(u32 u) {
  Parts p = {u & SIGN32, (int)(u >> 23 & 255), u & 0x7fffff, (u & 0x7fffffff) > INF32};
  return p;
}

__device__ static u32 model_rcp(u32 u) {
  Parts p = split(u);
  if (p.nan) return NAN32;
  if (p.e == 255) return p.sign;
  if (p.e == 0) return p.sign | INF32;
  u32 x = p.m & 0xffff;
  u32 f = (u32)((poly(rcp_table, p.m >> 16, x, x << 1, 13, 0) + 0x47e7) >> 15);
  int e = 253 - p.e, carry = f >> 24;
  return e + carry <= 0 ? p.sign : p.sign | (u32)(e + carry) << 23 | (f >> carry & 0x7fffff);
}

__device__ static u32 model_rsq(u32 u) {
  Parts p = split(u);
  if (p.nan) return NAN32;
  if (p.e == 0) return p.sign | INF32;
  if (p.sign) return NAN32;
  if (p.e == 255) return 0;
  u32 f = p.m | (u32)(p.e + 1 & 1) << 23, x = f & 0x1ffff;
  int half = (p.e - 127) >> 1;
  if (f == 0) return (u32)(127 - half) << 23;
  u32 y = (u32)((poly(rsq_table, f >> 17, x, x, 14, 2) + 0x7fff) >> 16);
  return (u32)(126 - half) << 23 | (y & 0x7fffff);
}

__device__ static u32 model_sqrt(u32 u) {
  Parts p = split(u);
  if (p.nan) return NAN32;
  if (p.e == 0) return p.sign;
  if (p.sign) return NAN32;
  if (p.e == 255) return u;
  u32 f = p.m | (u32)(p.e + 1 & 1) << 23, x = f & 0x1ffff;
  u32 y = (u32)((poly(sqrt_table, f >> 17, x, x, 15, 1) + 0x7fff) >> 17);
  return (u32)(127 + ((p.e - 127) >> 1)) << 23 | (y & 0x7fffff);
}

__device__ static u32 model_ex2(u32 u) {
  Parts p = split(u);
  if (p.nan) return NAN32;
  if (p.e >= 134) return p.sign ? 0 : INF32;
  s64 v = 0;  // |x| with 23 fraction bits, truncated
  if (p.e >= 127) v = (s64)(p.m | 0x800000) << (p.e - 127);
  else if (p.e > 103) v = (p.m | 0x800000) >> (127 - p.e);
  if (p.sign) v = v & 0x7fffff ? ~v : -v;
  int e = (int)(v >> 23) + 127;
  u32 f = (u32)v & 0x7fffff, x = f & 0x1ffff;
  u32 y = (u32)((poly(ex2_table, f >> 17, x, x, 13, 0) + 0x77e2) >> 15);
  return e <= 0 ? 0 : (u32)e << 23 | (y & 0x7fffff);
}

__device__ static u32 model_lg2(u32 u) {
  Parts p = split(u);
  if (p.nan) return NAN32;
  if (p.e == 0) return SIGN32 | INF32;
  if (p.sign) return NAN32;
  if (p.e == 255) return u;
  if (u == 0x3f800000) return 0;
  u32 x = p.m & 0x1ffff;
  s64 a = ((poly(lg2_table, p.m >> 17, x, x, 12, 1) + 0x3345) >> 2) + ((s64)(p.e - 127) << 36);
  u32 sign = a < 0 ? SIGN32 : 0;
  if (a < 0) a = ~a;
  return a == 0 ? sign : sign | pack(a, -36);
}

__device__ static u32 turns(u32 u, bool cosine) {
  Parts p = split(u);
  if (p.e == 255) return NAN32;
  u32 f = 0;  // |x| in quarter turns with 23 fraction bits, truncated, modulo 2^32
  if (p.e >= 125) f = p.e < 157 ? (p.m | 0x800000) << (p.e - 125) : 0;
  else if (p.e > 101) f = (p.m | 0x800000) >> (125 - p.e);
  u32 quadrant = (f >> 23) + cosine, sign = cosine ? 0 : p.sign;
  if (quadrant & 1) f = ~f;
  f &= 0x7fffff;
  sign ^= (quadrant & 2) << 30;
  u32 x = f & 0x1ffff;
  s64 a = poly(sin_table, f >> 17, x, x, 11, 0);
  return a <= 0 ? sign : sign | pack(a, -37);
}

// FMUL.RZ by 3e22f983, subnormal products as zero of their sign
__device__ static u32 revolutions(u32 u) {
  Parts p = split(u);
  if (p.nan) return NAN32;
  if (p.e == 255) return u;
  u64 product = (u64)(p.m | 0x800000) * 0xa2f983;
  int carry = (int)(product >> 47), e = p.e - 3 + carry;
  return e <= 0 || p.e == 0 ? p.sign : p.sign | (u32)e << 23 | ((u32)(product >> (23 + carry)) & 0x7fffff);
}

__device__ static u32 model_sin(u32 u) { return turns(revolutions(u), false); }
__device__ static u32 model_cos(u32 u) { return turns(revolutions(u), true); }

__device__ static u32 model_tanh(u32 u) {
  const signed char first[] = {0, 1, 2, 3, 5, 7, 11, 15, 19, 27, 43}, bits[] = {0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3},
                    unit[] = {4, 4, 4, 4, 4, 4, 5, 6, 5, 3, 5};
  Parts p = split(u);
  if (p.nan) return NAN32;
  if (p.e < 119) return u;
  if (p.e >= 130) return p.sign | 0x3f800000;
  int k = p.e - 119, n = bits[k];
  u32 x = p.m >> (6 - n) & 0x1ffff;
  s64 a = poly(tanh_table, first[k] + (int)(p.m >> (23 - n)), x, x, 14, 0);
  return p.sign | pack(a, unit[k] - 42);
}

// fetch_<name>: instruction results for inputs base ... ; check_<name>: instruction against model.
// counts: [0] mismatches, [1] first mismatch as input << 32 | result, [2] checksum of the results
#define FUNCTION(name, ptx)                                                                                            \
  extern "C" __global__ void fetch_##name(u32 base, u32 *out) {                                                        \
    u32 i = blockIdx.x * blockDim.x + threadIdx.x, y;                                                                  \
    asm volatile("{.reg .f32 a, d; mov.b32 a, %1; " ptx " d, a; mov.b32 %0, d;}" : "=r"(y) : "r"(base + i));           \
    out[i] = y;                                                                                                        \
  }                                                                                                                    \
  extern "C" __global__ void check_##name(u32 base, u64 *counts) {                                                     \
    u32 i = base + blockIdx.x * blockDim.x + threadIdx.x, y;                                                           \
    asm volatile("{.reg .f32 a, d; mov.b32 a, %1; " ptx " d, a; mov.b32 %0, d;}" : "=r"(y) : "r"(i));                  \
    u64 v = (u64)y * 0x9E3779B97F4A7C15ull ^ (u64)i * 0xC2B2AE3D27D4EB4Full;                                           \
    v = (v ^ v >> 29) * 0xBF58476D1CE4E5B9ull;                                                                         \
    for (int lane = 16; lane; lane >>= 1) v += __shfl_xor_sync(~0u, v, lane);                                          \
    if (!(threadIdx.x & 31)) atomicAdd(counts + 2, v);                                                                 \
    if (y != model_##name(i) && atomicAdd(counts, 1ull) == 0) counts[1] = (u64)i << 32 | y;                            \
  }
FUNCTION(ex2, "ex2.approx.ftz.f32")
FUNCTION(lg2, "lg2.approx.ftz.f32")
FUNCTION(rcp, "rcp.approx.ftz.f32")
FUNCTION(rsq, "rsqrt.approx.ftz.f32")
FUNCTION(sqrt, "sqrt.approx.ftz.f32")
FUNCTION(tanh, "tanh.approx.f32")
FUNCTION(sin, "sin.approx.ftz.f32")
FUNCTION(cos, "cos.approx.ftz.f32")
