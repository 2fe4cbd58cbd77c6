"""Small shaders that use every feature of the SPIR-V builder; unit tests validate them, a device test runs one."""

from __future__ import annotations

from collections.abc import Callable

from phobos_sim.spirv.builder import DONT_UNROLL, UNROLL, Builder, Value


def _lane(b: Builder) -> Value:
    return b.builtin("WorkgroupId", 0) * b.local_size[0] + b.builtin("LocalInvocationId", 0)


def copy() -> bytes:
    """out[i] = in[i] + push[1] + the opaque zero."""
    b = Builder(local_size=(16, 1, 1))
    b.push_constants(2)
    i = _lane(b)
    b.buffer(1).store(i, b.buffer(0, readonly=True).load(i) + b.push(1) + b.opaque_zero())
    return b.module()


# what `words` computes of two u32 x and y, in this order: name -> device expression
WORDS: dict[str, Callable[[Builder, Value, Value], Value]] = {
    "add": lambda b, x, y: x + y,
    "sub": lambda b, x, y: x - y,
    "rsub": lambda b, x, y: 7 - x,
    "mul": lambda b, x, y: x * y,
    "udiv": lambda b, x, y: x // (y | 1),
    "umod": lambda b, x, y: x % (y | 1),
    "sdiv": lambda b, x, y: (x.i // (y >> 8 | 1).i).u,
    "and": lambda b, x, y: x & y,
    "or": lambda b, x, y: x | y,
    "xor": lambda b, x, y: x ^ y,
    "not": lambda b, x, y: ~x,
    "neg": lambda b, x, y: -x,
    "shl": lambda b, x, y: x << (y & 31),
    "shr": lambda b, x, y: x >> (y & 31),
    "sar": lambda b, x, y: (x.i >> (y & 31)).u,
    "ult": lambda b, x, y: b.select(x < y, b.u32(1), 0),
    "sle": lambda b, x, y: b.select(x.i <= y.i, b.u32(1), 0),
    "sgt": lambda b, x, y: b.select(x.i > y.i, b.u32(1), 0),
    "uge": lambda b, x, y: b.select(x >= y, b.u32(1), 0),
    "bools": lambda b, x, y: b.select((~(x.eq(y)) & (x < y)) | (x.ne(y) ^ (y < x)), x, y),
    "umax": lambda b, x, y: b.max(x, y),
    "smin": lambda b, x, y: b.min(x.i, y.i).u,
    "msb": lambda b, x, y: b.find_msb(x),
    "hi": lambda b, x, y: b.mul_hi(x, y)[1],
    "lo": lambda b, x, y: b.mul_hi(x, y)[0],
    "bit": lambda b, x, y: b.bit(x, 5),
    "nan": lambda b, x, y: b.select(b.is_nan(x.f), b.u32(1), 0),
    "absmax": lambda b, x, y: b.max((x & 0x7FFFFFFF).f, (y & 0x3FFFFFFF).f).bits,
}


def words() -> bytes:
    """All of WORDS on buffers 0 (x) and 1 (y) of 64 words each; results in buffer 2, one row of 64 words per name."""
    b = Builder(local_size=(16, 1, 1))
    b.push_constants(1)
    i = _lane(b)
    x, y = b.buffer(0).load(i), b.buffer(1).load(i)
    for row, expression in enumerate(WORDS.values()):
        b.buffer(2).store(i + 64 * row, expression(b, x, y))
    return b.module()


def floats() -> bytes:
    """Float arithmetic, conversions and extended instructions; odd constants."""
    b = Builder(local_size=(8, 1, 1))
    b.push_constants(1)
    i = _lane(b)
    x, y = b.buffer(0, "f32").load(i), b.buffer(1, "f32").load(i)
    z = b.ext("Fma", "f32", x, y, b.f32_bits(0x7FFFFFFF)) / (x - y * -x)
    z = b.ext("Sqrt", "f32", b.min(z, b.f32(0.1))) + b.opaque_zero("f32") + b.f32_bits(1) + b.f32_bits(0xFF800000)
    n = b.convert(z, "i32").u + b.convert(z, "u32")
    back = b.convert(n.i, "f32") + b.convert(n, "f32")
    b.buffer(2, "f32").store(i, b.select(back < z, back, z))
    b.buffer(2).store(i + 8, b.select(back.ne(z), back.bits, n))
    return b.module()


def wide() -> bytes:
    """64-bit integers and floats."""
    b = Builder(local_size=(8, 1, 1))
    b.push_constants(1)
    i = _lane(b)
    x = b.buffer(0, "u64").load(i)
    d = b.convert(b.convert(x, "u32").i, "f64") * b.bitcast(x, "f64") + b.const_bits(0x7FF0000000000000, "f64")
    d = b.convert(b.convert(d, "f32"), "f64") - b.const(0.5, "f64")
    y = b.select(b.is_nan(d), x >> 3, (x.i >> 1).u | 0x123456789ABCDEF)
    b.buffer(1, "u64").store(i, y + b.bitcast(d, "u64") + b.convert(b.u32(5).i, "i64").u)
    b.buffer(1, "u64x4").store(i + 2, b.vector(x, y, x, y))
    return b.module()


def narrow() -> bytes:
    """16- and 8-bit storage and float16."""
    b = Builder(local_size=(8, 1, 1))
    b.push_constants(1)
    i = _lane(b)
    h, c = b.buffer(0, "u16").load(i), b.buffer(1, "u8").load(i)
    f = b.convert(b.bitcast(h, "f16"), "f32") * b.f32(1.5) + b.convert(b.const(0.375, "f16"), "f32")
    b.buffer(0, "u16").store(i, b.bitcast(b.convert(f, "f16"), "u16"))
    b.buffer(1, "u8").store(i, b.convert(b.convert(c, "u32") + b.convert(h, "u32"), "u8"))
    return b.module()


def control() -> bytes:
    """Every kind of loop and branch, Function variables and arrays."""
    b = Builder(local_size=(8, 1, 1))
    b.push_constants(3)
    i = _lane(b)
    total, scratch = b.variable("u32", 0), b.array("u32", 4)
    b.loop(4, lambda k: scratch.store(k, k * i), DONT_UNROLL)
    b.loop(4, lambda k: total.store(total.load() + scratch.load(k)), UNROLL)
    b.loop_while(b.i32(0), b.push(1).i, b.i32(2), lambda k: total.store(total.load() ^ k.u), DONT_UNROLL)

    def trip() -> Value:
        total.store(total.load() * 3)
        return total.load() < 1000

    b.do_while(trip)
    with b.if_(total.load() > b.push(2)):
        total.store(7)
    b.if_else(total.load().eq(7), lambda: total.store(8), lambda: b.loop(1, lambda k: total.store(k)))
    b.buffer(0).store(i, total.load())
    return b.module()


def cooperation() -> bytes:
    """Workgroup memory, barriers, subgroup operations, vectors."""
    b = Builder(local_size=(32, 1, 1))
    b.push_constants(1)
    local = b.builtin("LocalInvocationIndex")
    tile = b.shared("u32x4", 32)
    tile.store(local, b.buffer(0, "u32x4").load(local))
    b.barrier()
    b.barrier("subgroup", "both")
    v = tile.load(31 - local)
    lane, size, group = (b.builtin(f"Subgroup{name}") for name in ("LocalInvocationId", "Size", "Id"))
    x = b.shuffle(b.extract(v, 0), (lane + 1) % size) + b.shuffle_xor(b.extract(v, 3), 1)
    x = b.select(b.subgroup_any(x > 5), x, group)
    b.buffer(1, "u32x4").store(local, b.vector(x, b.extract(v, 1), b.extract(v, 2), local))
    return b.module()


SAMPLES: dict[str, Callable[[], bytes]] = {
    f.__name__: f for f in (copy, words, floats, wide, narrow, control, cooperation)
}
