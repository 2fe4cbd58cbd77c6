"""The interpreter of tile programs: every operation, control flow, CTA order, races, barriers, limits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import oracle
import pytest
from helpers import assert_codes
from phobos_sim import isa
from phobos_sim.errors import KernelError, LoopLimitError, Source, Span
from phobos_sim.formats import BF16, F16, F32, PRED, S8, S32, S64, Format, dtype_of
from phobos_sim.reference import execute
from phobos_sim.reference.program import run
from phobos_sim.tile import program as tile
from phobos_sim.tile.program import Block, Program, TensorParam, TileType, Value

SPAN = Span(Source("kernel.py", "C[0] = a\n"), 1, 1, 1, 5)


class Builder:
    """Writes a tile program: each method appends an operation and returns its result."""

    def __init__(self, **tensors: tuple[Format, tuple[int | str, ...]]) -> None:
        self.tensors = tuple(TensorParam(name, fmt, dims, SPAN) for name, (fmt, dims) in tensors.items())
        self.block = Block()
        self.body = self.block

    def value(self, fmt: Format, shape: tuple[int, ...] = ()) -> Value:
        return Value(TileType(fmt, shape))

    def add(self, kind: type[tile.Op], result: Value, *args: object, **named: object) -> Value:
        self.block.ops.append(kind(SPAN, result, *args, **named))  # type: ignore[call-arg]
        return result

    def int(self, number: int) -> Value:
        return self.add(tile.Constant, self.value(S64), number % (1 << 64))

    def block_index(self, axis: int = 0) -> Value:
        return self.add(tile.BlockIndex, self.value(S64), axis)

    def map(self, name: str, *args: Value, shape: tuple[int, ...] | None = None, fmt: Format | None = None) -> Value:
        result = fmt or isa.lookup(name).result or args[-1].element
        size = max((a.shape for a in args), key=len) if shape is None else shape
        return self.add(tile.Map, self.value(result, size), name, args)

    def load(self, tensor: str, starts: Sequence[Value], sizes: Sequence[int | None]) -> Value:
        fmt = next(t.element for t in self.tensors if t.name == tensor)
        shape = tuple(size for size in sizes if size is not None)
        return self.add(tile.Load, self.value(fmt, shape), tensor, tuple(starts), tuple(sizes))

    def store(self, tensor: str, starts: Sequence[Value], sizes: Sequence[int | None], value: Value) -> None:
        self.block.ops.append(tile.Store(SPAN, tensor, tuple(starts), tuple(sizes), value))

    def program(self) -> Program:
        dims = tuple(dict.fromkeys(d for t in self.tensors for d in t.dims if isinstance(d, str)))
        names = tuple(t.name for t in self.tensors)
        return Program("k", self.tensors, (), names, {}, dims, 128, (), self.body)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32).view(np.uint32)


def apply_to_tile(kind: type[tile.Op], codes: np.ndarray, fmt: Format, result: TileType, *args: object) -> np.ndarray:
    """Loads a whole tensor, applies one operation on it, stores the whole result."""
    b = Builder(A=(fmt, codes.shape), C=(result.element, result.shape))
    zero = b.int(0)
    a = b.load("A", [zero] * codes.ndim, codes.shape)
    out = b.add(kind, Value(result), *(a if arg == "A" else arg for arg in args))
    b.store("C", [zero] * len(result.shape), result.shape, out)
    arrays = {"A": codes, "C": np.zeros(result.shape, dtype_of(result.element))}
    run(b.program(), arrays, {}, (1, 1, 1))
    return arrays["C"]


def test_slices_are_masked() -> None:
    """Reads outside give zero, stores outside are dropped, over the whole grid; scalars are stretched."""
    b = Builder(X=(F32, ("N",)), Y=(F32, ("N",)))
    at = b.map("mul.lo.s64", b.block_index(), b.int(4))
    x = b.load("X", [at], [4])
    one = b.add(tile.Constant, b.value(F32), 0x3F800000)
    b.store("Y", [at], [4], b.map("FADD", x, one))
    arrays = {"X": f32(*range(10)), "Y": f32(*[0] * 10)}
    run(b.program(), arrays, {}, (3, 1, 1))
    assert_codes(arrays["Y"], f32(*range(1, 11)))


def test_windows_may_start_before_the_tensor_or_far_behind_it() -> None:
    far = [(start, [0] * 4) for start in (-9, 4, 1 << 40, -(1 << 62))]
    for start, expected in [(-2, [0, 0, 1, 2]), (3, [4, 0, 0, 0]), *far]:
        b = Builder(X=(S32, (4,)), Y=(S32, (4,)))
        b.store("Y", [b.int(0)], [4], b.load("X", [b.int(start)], [4]))
        arrays = {"X": np.arange(1, 5, dtype=np.uint32), "Y": np.full(4, 9, np.uint32)}
        run(b.program(), arrays, {}, (1, 1, 1))
        assert arrays["Y"].tolist() == expected


def test_points_and_dims() -> None:
    b = Builder(X=(F32, ("M", "N")), Y=(S64, (2,)))
    dims = [b.add(tile.Dim, b.value(S64), name) for name in ("M", "N")]
    for at, value in enumerate(dims):
        b.store("Y", [b.int(at)], [None], value)
    row = b.load("X", [b.int(1), b.int(0)], [None, 3])
    b.store("X", [b.int(0), b.int(0)], [None, 3], row)
    arrays = {"X": np.arange(6, dtype=np.uint32).reshape(2, 3), "Y": np.zeros(2, np.uint64)}
    run(b.program(), arrays, {}, (1, 1, 1))
    assert arrays["Y"].tolist() == [2, 3] and arrays["X"][0].tolist() == [3, 4, 5]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("name", "element"),
    [("HMMA.16816.F32", F16), ("FFMA", F32), ("FFMA", F16), ("HFMA2", F16), ("HFMA2.BF16_V2", BF16), ("IMAD", S8),
     ("IMMA.8816.S8.S8", S8), ("IDP.4A.S8.S8", S8), ("IMMA.16832.S8.S8.SAT", S8)],
)  # fmt: skip
def test_a_loop_carries_a_contraction(name: str, element: Format, transposed: bool) -> None:
    """acc += dot over k slices equals one chain over the whole of K, seeded with acc."""
    row = isa.lookup(name)
    acc_format = row.result or S32
    m, n, k, step = 5, 3, 64, 32
    rng = np.random.default_rng(1)
    a, b_codes = (_codes(rng, shape, element) for shape in ((m, k), (n, k) if transposed else (k, n)))
    seed = _codes(rng, (m, n), acc_format)
    b = Builder(A=(element, a.shape), B=(element, b_codes.shape), C=(acc_format, seed.shape))
    zero = b.int(0)
    bounds = (zero, b.int(k), b.int(step))
    start = b.load("C", [zero, zero], seed.shape)
    at, carried = b.value(S64), b.value(acc_format, seed.shape)
    body = Block([at, carried])
    b.block = body
    left = b.load("A", [zero, at], (m, step))
    right = b.load("B", [zero, at] if transposed else [at, zero], (n, step) if transposed else (step, n))
    result = b.value(acc_format, seed.shape)
    body.yields = [b.add(tile.Contract, result, name, left, right, carried, transposed, name, "test")]
    out = b.value(acc_format, seed.shape)
    b.block = b.body
    b.block.ops.append(tile.For(SPAN, *bounds, (start,), body, (out,)))
    b.store("C", [zero, zero], seed.shape, out)
    arrays = {"A": a, "B": b_codes, "C": seed.copy()}
    run(b.program(), arrays, {}, (1, 1, 1))
    wide = row.operands[0]
    left, right = a, b_codes.T if transposed else b_codes
    if wide not in (element, None) and wide.name != "u32":
        left, right = (execute.apply(isa.lookup(f"cvt.{wide.name}.{element.name}"), x) for x in (left, right))
    assert_codes(arrays["C"], execute.chain(row, left, right, seed), name)


def _codes(rng: np.random.Generator, shape: tuple[int, ...], fmt: Format) -> np.ndarray:
    if not fmt.is_float:
        return rng.integers(0, 1 << fmt.bits, shape, dtype=np.uint64).astype(dtype_of(fmt))
    single = rng.standard_normal(shape).astype(np.float32).view(np.uint32)
    return single if fmt == F32 else execute.apply(isa.lookup(f"cvt.rn.{fmt.name}.f32"), single)


def _reduce_by_the_rule(row: list[int], lanes: int | None, identity: int, fmt: Format, combine: str) -> int:
    """phobos-language.md D.6 as it stands there, one element at a time."""

    def op(a: int, b: int) -> int:
        return (a if oracle.compare(a, b, fmt, "gt") else b) if combine == "max" else oracle.add(a, b, fmt)

    if lanes is None:
        acc = identity
        for x in row:
            acc = op(acc, x)
        return acc
    p = []
    for lane in range(lanes):
        acc = identity
        for j in range(lane, len(row), lanes):
            acc = op(acc, row[j])
        p.append(acc)
    m = lanes // 2
    while m >= 1:
        p = [op(p[i], p[i ^ m]) for i in range(lanes)]
        m //= 2
    return p[0]


@pytest.mark.parametrize("fmt", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize("lanes", [None, 2, 4, 8, 32])
@pytest.mark.parametrize("combine", ["sum", "max"])
def test_reductions_follow_the_prescribed_order(fmt: Format, lanes: int | None, combine: str) -> None:
    rng = np.random.default_rng(4)
    codes = _codes(rng, (6, 41), fmt)
    one, nan = fmt.bias << fmt.fraction_bits, fmt.infinity | 1
    codes[1] = one | fmt.sign_bit & 0
    codes[2, ::2] = fmt.sign_bit | (one + (20 << fmt.fraction_bits if fmt != F16 else 9 << fmt.fraction_bits))
    codes[3, 7], codes[4, 0], codes[5] = nan, nan, fmt.infinity | fmt.sign_bit
    lowest = {"f32": 0xFF61B1E6, "f16": 0xFBFF, "bf16": 0xFF62}[fmt.name]
    identity = 0 if combine == "sum" else lowest
    key = "max" if combine == "max" else f"add.rn.{fmt.name}"
    out = apply_to_tile(tile.Reduce, codes, fmt, TileType(fmt, (6, 1)), key, "A", lanes, identity)
    right = [[_reduce_by_the_rule(row, lanes, identity, fmt, combine)] for row in codes.tolist()]
    assert_codes(out, np.array(right, codes.dtype), f"{combine} over {lanes} lanes")


def test_the_order_of_a_sum_shows() -> None:
    """The comparison above can fail: lanes change the bits of these sums."""
    row = f32(*[1e8, 1, -1e8, 1] * 8)[None]
    sums = {
        lanes: int(apply_to_tile(tile.Reduce, row, F32, TileType(F32, (1, 1)), "FADD", "A", lanes, 0).item())
        for lanes in (None, 2, 4, 32)
    }
    assert len(set(sums.values())) > 1, sums


@pytest.mark.parametrize("position", range(8))
def test_a_nan_is_not_lost_in_a_sum(position: int) -> None:
    """C4: bf16 [NaN, 2, 3, ...] with the NaN in every lane position."""
    row = (np.arange(1, 9, dtype=np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)[None]
    row[0, position] = 0x7FC1
    for lanes in (None, 2, 4, 8):
        out = apply_to_tile(tile.Reduce, row, BF16, TileType(BF16, (1, 1)), "add.rn.bf16", "A", lanes, 0)
        assert out.item() == 0x7FFF


def test_scan_keeps_every_prefix() -> None:
    codes = f32(*range(1, 9)).reshape(4, 2)
    out = apply_to_tile(tile.Scan, codes, F32, TileType(F32, (4, 2)), "FADD", "A")
    assert_codes(out, f32(1, 2, 4, 6, 9, 12, 16, 20).reshape(4, 2))
    minus = f32(-0.0, -0.0).reshape(2, 1)
    assert apply_to_tile(tile.Scan, minus, F32, TileType(F32, (2, 1)), "FADD", "A").tolist() == [[0], [0]]


def test_argmax_takes_the_first_of_equals() -> None:
    codes = np.stack([f32(1, 3, 3, 2), f32(-0.0, 0.0, -1, 0.0), f32(np.nan, 1, 2, 3), f32(1, np.nan, 5, 2)])
    out = apply_to_tile(tile.ArgMax, codes, F32, TileType(S32, (4, 1)), "A")
    assert out.ravel().tolist() == [1, 0, 0, 2]


def test_data_movement() -> None:
    codes = np.arange(6, dtype=np.uint32).reshape(2, 3)
    assert_codes(apply_to_tile(tile.Transpose, codes, S32, TileType(S32, (3, 2)), "A"), codes.T.copy())
    assert_codes(apply_to_tile(tile.Reshape, codes, S32, TileType(S32, (1, 6)), "A"), codes.reshape(1, 6))
    assert_codes(apply_to_tile(tile.Iota, codes, S32, TileType(S32, (2, 3)), 1), np.uint32([[0, 1, 2]] * 2))
    assert_codes(apply_to_tile(tile.Iota, codes, S32, TileType(S32, (2, 3)), 0), np.uint32([[0] * 3, [1] * 3]))
    assert_codes(apply_to_tile(tile.Broadcast, codes[:1], S32, TileType(S32, (4, 3)), "A"), np.repeat(codes[:1], 4, 0))


def test_gather_reads_zero_outside_its_table() -> None:
    b = Builder(T=(F32, (2, 3)), I=(S32, (1, 4)), C=(F32, (1, 4)))
    zero = b.int(0)
    table, index = b.load("T", [zero, zero], (2, 3)), b.load("I", [zero, zero], (1, 4))
    b.store("C", [zero, zero], (1, 4), b.add(tile.Gather, b.value(F32, (1, 4)), table, index))
    where = np.int32([[5, 0, 6, -1]]).view(np.uint32)
    arrays = {"T": f32(*range(1, 7)).reshape(2, 3), "I": where, "C": np.full((1, 4), 9, np.uint32)}
    run(b.program(), arrays, {}, (1, 1, 1))
    assert_codes(arrays["C"], f32(6, 1, 0, 0)[None])


def test_tiles_are_sliced_and_replaced() -> None:
    b = Builder(A=(S32, (3, 3)), C=(S32, (3, 3)), D=(S32, (2, 2)))
    zero, one, two = b.int(0), b.int(1), b.int(2)
    a = b.load("A", [zero, zero], (3, 3))
    corner = b.add(tile.Extract, b.value(S32, (2, 2)), a, (two, one), (2, 2))
    b.store("D", [zero, zero], (2, 2), corner)
    b.store("C", [zero, zero], (3, 3), b.add(tile.Insert, b.value(S32, (3, 3)), a, (one, two), (2, 2), corner))
    arrays = {name: np.zeros((n, n), np.uint32) for name, n in (("A", 3), ("C", 3), ("D", 2))}
    arrays["A"][...] = np.arange(9).reshape(3, 3)
    run(b.program(), arrays, {}, (1, 1, 1))
    assert arrays["D"].tolist() == [[7, 8], [0, 0]]
    assert arrays["C"].tolist() == [[0, 1, 2], [3, 4, 7], [6, 7, 0]]
    assert arrays["A"].ravel().tolist() == list(range(9)), "an operand was changed in place"


def _counting_while(limit: int) -> tuple[Builder, Value]:
    """while i < limit: i += 1, from 0."""
    b = Builder(C=(S64, (1,)))
    start, end, one = b.int(0), b.int(limit), b.int(1)
    seen, i, out = b.value(S64), b.value(S64), b.value(S64)
    condition, body = Block([seen]), Block([i])
    b.block = condition
    condition.yields = [b.map("setp.lt.s64", seen, end)]
    b.block = body
    body.yields = [b.map("add.s64", i, one)]
    b.block = b.body
    b.block.ops.append(tile.While(SPAN, (start,), condition, body, (out,)))
    b.store("C", [start], [None], out)
    return b, out


def test_while_counts() -> None:
    b, _ = _counting_while(37)
    arrays = {"C": np.zeros(1, np.uint64)}
    run(b.program(), arrays, {}, (1, 1, 1))
    assert arrays["C"].tolist() == [37]


def test_endless_loops_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHOBOS_MAX_TRIPS", "20")
    b, _ = _counting_while(21)
    with pytest.raises(LoopLimitError, match="kernel.py:1:1: this loop runs more than 20 times.*PHOBOS_MAX_TRIPS"):
        run(b.program(), {"C": np.zeros(1, np.uint64)}, {}, (1, 1, 1))
    b, _ = _counting_while(20)
    run(b.program(), {"C": np.zeros(1, np.uint64)}, {}, (1, 1, 1))


@pytest.mark.parametrize(
    ("lo", "hi", "step", "trips"), [(0, 5, 2, 3), (5, 0, 1, 0), (0, 5, 0, 0), (0, 5, -1, 0), (-4, 0, 3, 2)]
)
def test_for_trips(lo: int, hi: int, step: int, trips: int) -> None:
    b = Builder(C=(S64, (2,)))
    zero, one = b.int(0), b.int(1)
    bounds = b.int(lo), b.int(hi), b.int(step)
    v, count, last, out, end = (b.value(S64) for _ in range(5))
    body = Block([v, count, last])
    b.block = body
    body.yields = [b.map("add.s64", count, one), v]
    b.block = b.body
    b.block.ops.append(tile.For(SPAN, *bounds, (zero, zero), body, (out, end)))
    b.store("C", [zero], [None], out)
    b.store("C", [one], [None], end)
    arrays = {"C": np.zeros(2, np.uint64)}
    run(b.program(), arrays, {}, (1, 1, 1))
    assert arrays["C"].view(np.int64).tolist() == [trips, list(range(lo, hi, step))[-1] if trips else 0]


def test_if_takes_one_branch() -> None:
    b = Builder(C=(S64, (4,)))
    x, two = b.block_index(), b.int(2)
    condition = b.map("setp.lt.s64", x, two)
    out = b.value(S64)
    then, orelse = Block(), Block()
    for block, number in ((then, 10), (orelse, 20)):
        b.block = block
        block.yields = [b.int(number)]
    b.block = b.body
    b.block.ops.append(tile.If(SPAN, condition, then, orelse, (out,)))
    b.store("C", [x], [None], out)
    arrays = {"C": np.zeros(4, np.uint64)}
    run(b.program(), arrays, {}, (4, 1, 1))
    assert arrays["C"].tolist() == [10, 10, 20, 20]
    assert condition.element == PRED


def test_block_indices_run_x_fastest_and_every_order_gives_the_same() -> None:
    b = Builder(C=(S64, (4, 3, 2)))
    x, y, z = (b.block_index(axis) for axis in range(3))
    number = b.map("add.s64", x, b.map("mul.lo.s64", b.int(10), b.map("add.s64", y, b.map("mul.lo.s64", b.int(10), z))))
    b.store("C", [x, y, z], [None] * 3, number)
    results = []
    for order, races in ((None, False), (1, False), (2, True), (None, True)):
        seen: list[tuple[int, int]] = []
        arrays = {"C": np.zeros((4, 3, 2), np.uint64)}
        watching = {"order": order, "races": races, "progress": lambda *done, log=seen: log.append(done)}
        run(b.program(), arrays, {}, (4, 3, 2), **watching)
        assert seen[-1] == (24, 24) and len(seen) == 24
        results.append(arrays["C"].tolist())
    assert results[0][3][2][1] == 123
    assert all(result == results[0] for result in results)


def _racing() -> Builder:
    """Every CTA writes its number to the same two elements."""
    b = Builder(C=(S64, (4,)))
    x = b.block_index()
    b.store("C", [b.int(1)], [2], x)
    return b


def test_two_ctas_that_write_one_element_are_reported() -> None:
    said = r"CTA \(1, 0, 0\) writes C\[1\] \(and 1 more of its elements\), which CTA \(0, 0, 0\) wrote at line 1"
    with pytest.raises(KernelError, match=said):
        run(_racing().program(), {"C": np.zeros(4, np.uint64)}, {}, (3, 1, 1), races=True)


def test_a_shuffled_order_exposes_a_race() -> None:
    results = set()
    for order in (None, 1, 2, 3, 4):
        arrays = {"C": np.zeros(4, np.uint64)}
        run(_racing().program(), arrays, {}, (3, 1, 1), order=order)
        results.add(int(arrays["C"][1]))
    assert len(results) > 1


def _barrier(conditional: bool) -> Builder:
    """Each CTA writes A[x], waits, and copies its mirror element."""
    b = Builder(A=(S64, (4,)), B=(S64, (4,)))
    x, three = b.block_index(), b.int(3)
    b.store("A", [x], [None], b.map("add.s64", x, three))
    if conditional:
        then = Block([], [tile.GridBarrier(SPAN)])
        b.block.ops.append(tile.If(SPAN, b.map("setp.lt.s64", x, three), then, Block(), ()))
    else:
        b.block.ops.append(tile.GridBarrier(SPAN))
    mirror = b.map("sub.s64", three, x)
    b.store("B", [x], [None], b.load("A", [mirror], [None]))
    return b


def test_a_grid_barrier_waits_for_all_ctas() -> None:
    for order in (None, 7):
        arrays = {"A": np.zeros(4, np.uint64), "B": np.zeros(4, np.uint64)}
        run(_barrier(False).program(), arrays, {}, (4, 1, 1), order=order)
        assert arrays["B"].tolist() == [6, 5, 4, 3]


def test_a_grid_barrier_that_not_all_reach_is_an_error() -> None:
    for order in (None, 1, 2, 3):
        arrays = {"A": np.zeros(4, np.uint64), "B": np.zeros(4, np.uint64)}
        with pytest.raises(KernelError, match="not every CTA reaches this grid barrier"):
            run(_barrier(True).program(), arrays, {}, (4, 1, 1), order=order)


def test_two_names_of_one_memory() -> None:
    """A store through one parameter is seen by a load through the other."""
    b = Builder(A=(S64, (2,)), B=(S64, (2,)))
    zero, one = b.int(0), b.int(1)
    b.store("A", [zero], [None], b.int(42))
    b.store("B", [one], [None], b.load("B", [zero], [None]))
    memory = np.zeros(2, np.uint64)
    run(b.program(), {"A": memory, "B": memory}, {}, (1, 1, 1))
    assert memory.tolist() == [42, 42]


def test_scalar_parameters_and_arch() -> None:
    s = Value(TileType(F16))
    b = Builder(A=(F16, (1, 16)), B=(F16, (16, 1)), C=(F32, (1, 1)))
    zero = b.int(0)
    left, right = b.load("A", [zero, zero], (1, 16)), b.load("B", [zero, zero], (16, 1))
    scaled = b.map("HMUL2", left, s)
    seed = b.load("C", [zero, zero], (1, 1))
    dot = b.add(tile.Contract, b.value(F32, (1, 1)), "HMMA.16816.F32", scaled, right, seed, False, "HMMA.16816.F32", "")
    b.store("C", [zero, zero], (1, 1), dot)
    program = b.program()
    program.scalars = (tile.ScalarParam("s", s, SPAN),)
    outcomes = []
    for arch in ("sm_86", "sm_90"):
        a = np.zeros((1, 16), np.uint16)
        a[0, :4] = 0x0800
        arrays = {"A": a, "B": a.T.copy(), "C": f32(1)[None]}
        run(program, arrays, {"s": 0x4000}, (1, 1, 1), arch=arch)
        outcomes.append(int(arrays["C"].item()))
    assert outcomes == [0x3F800000, 0x3F800001]
