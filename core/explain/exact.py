"""The true value of each MUFU function, to hundreds of digits, and its code when rounded once to nearest even.

Rationals are exact (RCP, EX2 of an integer, whole quarter turns); the rest is `decimal` at 400 digits, far more than
any f32 operand needs: a value that is not exactly representable lies farther than 10^-100 from every tie.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache

from ..formats import Format
from . import numbers
from .numbers import Number

DIGITS = 400
_WORK = Context(prec=DIGITS, Emin=-999999, Emax=999999)


def value(function: str, x: Number) -> Fraction | None:
    """The function's value at a finite operand as a rational (exact, or right to 300 digits); None where it has
    none.
    """
    return _FUNCTIONS[function](numbers.fraction_of(x)) if x.finite else None


def code(function: str, x: Number, fmt: Format) -> int:
    """The correctly rounded result, with IEEE 754's special cases."""
    if x.kind == "nan":
        return fmt.canonical_nan
    special = _special(function, x, fmt)
    if special is not None:
        return special
    exact = value(function, x)
    assert exact is not None, (function, x)
    if exact == 0:  # the sine of whole half turns has the operand's sign
        return fmt.sign_bit if function == "sin" and x.negative else 0
    return numbers.round_fraction(exact, fmt)


def _special(function: str, x: Number, fmt: Format) -> int | None:
    """Results at infinities, zeros and outside the domain; None elsewhere."""
    sign = fmt.sign_bit if x.negative else 0
    one = numbers.round_fraction(Fraction(1), fmt)
    if function in ("lg2", "rsq", "sqrt") and x.negative and x.kind != "zero":
        return fmt.canonical_nan
    if x.kind == "infinity":
        return {
            "ex2": 0 if x.negative else fmt.infinity, "lg2": fmt.infinity, "rcp": sign, "rsq": 0, "sqrt": fmt.infinity,
            "tanh": one | sign, "sin": fmt.canonical_nan, "cos": fmt.canonical_nan,
        }[function]  # fmt: skip
    if x.kind == "zero":
        return {
            "ex2": one, "lg2": fmt.infinity | fmt.sign_bit, "rcp": fmt.infinity | sign, "rsq": fmt.infinity | sign,
            "sqrt": sign, "tanh": sign, "sin": sign, "cos": one,
        }[function]  # fmt: skip
    return None


def _decimal(x: Fraction) -> Decimal:
    return _WORK.divide(Decimal(x.numerator), Decimal(x.denominator))


def _fraction(x: Decimal) -> Fraction:
    return Fraction(x)


@cache
def _ln2() -> Decimal:
    return _WORK.ln(Decimal(2))


@cache
def _pi() -> Decimal:
    """Machin's formula in integers, with 20 guard digits."""
    one = 10 ** (DIGITS + 20)

    def arctan(inverse: int) -> int:
        total, power, n = 0, one // inverse, 1
        while power:
            total += power // n if n % 4 == 1 else -(power // n)
            power //= inverse * inverse
            n += 2
        return total

    return _WORK.divide(Decimal(4 * (4 * arctan(5) - arctan(239))), Decimal(one))


def _ex2(x: Fraction) -> Fraction:
    if x.denominator == 1:
        return Fraction(2) ** int(x) if abs(x) < 4096 else Fraction(2) ** (4096 if x > 0 else -4096)
    whole = x.numerator // x.denominator
    power = _WORK.exp(_WORK.multiply(_decimal(x - whole), _ln2()))
    return _fraction(power) * Fraction(2) ** max(-4096, min(4096, whole))


def _lg2(x: Fraction) -> Fraction | None:
    if x <= 0:
        return None
    if x.numerator & (x.numerator - 1) == 0 and x.denominator & (x.denominator - 1) == 0:
        return Fraction(x.numerator.bit_length() - x.denominator.bit_length())
    return _fraction(_WORK.divide(_WORK.ln(_decimal(x)), _ln2()))


def _rcp(x: Fraction) -> Fraction | None:
    return None if x == 0 else 1 / x


def _sqrt(x: Fraction) -> Fraction | None:
    return None if x < 0 else _fraction(_WORK.sqrt(_decimal(x)))


def _rsq(x: Fraction) -> Fraction | None:
    return None if x <= 0 else _fraction(_WORK.divide(Decimal(1), _WORK.sqrt(_decimal(x))))


def _tanh(x: Fraction) -> Fraction:
    if abs(x) < Fraction(1, 1 << 60):  # x - x^3 / 3: the next term is below 2^-240 of it
        return x - x**3 / 3
    power = _WORK.exp(_decimal(-2 * abs(x)))
    result = _fraction(_WORK.divide(_WORK.subtract(Decimal(1), power), _WORK.add(Decimal(1), power)))
    return -result if x < 0 else result


def _sin(turns: Fraction) -> Fraction:
    """Sine of a number of turns, reduced exactly to a quarter of one."""
    quarters = 4 * turns
    whole = quarters.numerator // quarters.denominator
    rest = quarters - whole  # in [0, 1)
    if whole % 2:
        rest = 1 - rest
    result = _quarter_sine(rest)
    return -result if whole % 4 >= 2 else result


def _quarter_sine(rest: Fraction) -> Fraction:
    """sin(pi/2 * rest) for rest in [0, 1], by its series."""
    if rest in (0, 1):
        return rest
    angle = _WORK.multiply(_decimal(rest), _WORK.divide(_pi(), Decimal(2)))
    turned = _WORK.multiply(angle, angle).copy_negate()  # a unary minus would round to 28 digits
    term, total, n = angle, angle, 1
    limit = Decimal(10).scaleb(-DIGITS - 10)
    while term.copy_abs() > limit:
        term = _WORK.divide(_WORK.multiply(term, turned), Decimal((n + 1) * (n + 2)))
        total = _WORK.add(total, term)
        n += 2
    return _fraction(total)


def _cos(turns: Fraction) -> Fraction:
    return _sin(turns + Fraction(1, 4))


_FUNCTIONS: dict[str, Callable[[Fraction], Fraction | None]] = {
    "ex2": _ex2, "lg2": _lg2, "rcp": _rcp, "rsq": _rsq, "sqrt": _sqrt, "tanh": _tanh, "sin": _sin, "cos": _cos,
}  # fmt: skip
