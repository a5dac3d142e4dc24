"""Checks of what users give: raise before any work, with what was given and what is allowed.

Numbers are what their users mean: floats simple fractions, text fractions, never code.
"""

from __future__ import annotations

import math
import numbers
import os
import sys
import tempfile
from decimal import Decimal
from fractions import Fraction
from functools import singledispatch
from pathlib import Path
from typing import Any, Callable, Iterable, NoReturn

import numpy as np
import sympy as sp

from ._numbers import LONGEST, from_text
from ._types import Value

NEAR = Fraction(1, 2**52)  # two floats in [0, 2) that differ by rounding alone are no farther apart


def least_denominator(value: Fraction, within: Fraction = NEAR) -> Fraction:
    """The fraction of least denominator in [value - within, value + within], the nearest one of several.

    It is found along the continued fraction, whose whole parts are what both ends of the interval share.

    >>> least_denominator(Fraction(2 / 3)), least_denominator(1 - Fraction(2 / 3))
    (Fraction(2, 3), Fraction(1, 3))
    """
    denominator = _simplest(value - within, value + within).denominator
    return Fraction(round(value * denominator), denominator)


def _simplest(low: Fraction, high: Fraction) -> Fraction:
    """The fraction of least denominator in [low, high], low < high."""
    whole = math.ceil(low)
    if whole <= high:
        return Fraction(whole)
    below = whole - 1
    return below + 1 / _simplest(1 / (high - below), 1 / (low - below))


LARGEST = 2**53        # whole numbers up to here are floats
MOST_BITS = 2**14      # of a number that is written out; floats end at 2^10, floats of more digits at 2^14
TEXT = "; text is read as fractions.Fraction reads it, such as '1/2'"


def short(value: object) -> str:
    """``repr`` of what was given, cut to 120 characters; "a whole number of N bits" for integers of more than 256."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return f"a whole number of {value.bit_length()} bits"
    try:
        text = repr(value)
    except ValueError:  # of whole numbers with thousands of digits
        return f"a {type(value).__name__} that is too long to print"
    return text if len(text) <= 120 else text[:117] + "..."


def positive_integer(name: str, value: object) -> int:
    """``value`` as an int >= 1."""
    return whole_number(name, value, 1)


def size(name: str, value: object) -> int | None:
    """``value`` as an int >= 1, or ``None`` for infinity."""
    infinite = value is sp.oo or isinstance(value, float) and value == np.inf
    return None if infinite else whole_number(name, value, 1, ", or tp.oo")


def whole_number(name: str, value: Value, least: int = 0, besides: str = "") -> int:
    """``value`` as an int from ``least`` up to 2^53, what floats count to; besides: what else its caller takes."""
    integral = isinstance(value, (numbers.Integral, sp.Integer)) and not isinstance(value, bool)
    if not integral or not least <= int(value) <= LARGEST:
        allowed = f"a whole number of at least {least}" + (
            " and at most 2^53" if integral and int(value) > LARGEST else "")
        raise ValueError(f"{name}: got {short(value)}; expected {allowed}{besides}")
    return int(value)


def choice(name: str, value: object, allowed: Iterable[str]) -> str:
    """The one of the allowed words that ``value`` is, in any case."""
    known = {word.lower(): word for word in allowed}
    if not isinstance(value, str) or value.lower() not in known:
        raise ValueError(f"{name}: got {short(value)}; expected {', '.join(map(repr, known.values()))}")
    return known[value.lower()]


def flag(name: str, value: object) -> bool:
    """``value``, which must be one of the two."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name}: got {short(value)}; expected False and True")
    return bool(value)


def sizes(name: str, value: object, least: int = 1, infinite: bool = False, growing: bool = False) -> list[Any]:
    """``value`` as a list of whole numbers, ``least`` of them or more, each once; None stands for infinity, which is
    taken where ``infinite``."""
    allowed = (f"{('no', 'one', 'two', 'three', 'four')[least]} or more {'growing ' if growing else ''}{name}, a list "
               f"of whole numbers{', or tp.oo' if infinite else ''}, each once")
    if not isinstance(value, (list, tuple, range, np.ndarray)) or np.ndim(value) != 1:
        raise ValueError(f"{name}: got {short(value)}; expected {allowed}")
    found = [(size if infinite else positive_integer)(name, one) for one in value]
    if len(found) < least or len(set(found)) < len(found) or growing and found != sorted(found):  # type: ignore
        raise ValueError(f"{name}: got {short(value)}; expected {allowed}")
    return found


def instance(name: str, value: object, kind: type, what: str = "") -> None:
    """Raise ``ValueError`` unless ``value`` is of a public class of the package; what: how one gets it."""
    if not isinstance(value, kind):
        raise ValueError(f"{name}: got {short(value)}; expected {what or f'a tp.{kind.__name__}'}")


def function(name: str, value: object, what: str, optional: bool = True) -> None:
    """Raise ``ValueError`` for what cannot be called; what: what it is."""
    if not callable(value) and not (optional and value is None):
        raise ValueError(f"{name}: got {short(value)}; expected {what}{', or None' if optional else ''}")


def folder(name: str, value: object) -> Path:
    """``value`` as the path of a folder, made where it is not there; raises ``ValueError`` where it cannot be written
    to, which is tried."""
    if not isinstance(value, (str, os.PathLike)) or not str(value):
        raise ValueError(f"{name}: got {short(value)}; expected the path of a folder")
    path = Path(value)
    try:
        path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        raise ValueError(f"{name}: got {short(str(value))}, where nothing can be written ({error.strerror}); expected "
                         "a folder that can be written to, or made") from None
    return path


def writable(name: str, value: object) -> Path:
    """``value`` as the path of a file that can be written; raises ``ValueError`` for any other, before there is
    anything to write."""
    if not isinstance(value, (str, os.PathLike)) or not str(value):
        raise ValueError(f"{name}: got {short(value)}; expected the path of a file")
    path = Path(value)
    try:
        there = path.exists()
        open(path, "ab").close()
        if not there:
            path.unlink()
    except OSError as error:
        raise ValueError(f"{name}: got {short(str(value))}, where nothing can be written ({error.strerror}); expected "
                         "a file in a folder that is there") from None
    return path


def rule(name: str, value: Any, allowed: str) -> Any:
    """A function that users wrote, whose errors say its name: what it cannot do with what it is given is no error of
    the package."""
    function(name, value, allowed, optional=False)

    def asked(*arguments: Any) -> Any:
        try:
            return value(*arguments)
        except Exception as error:
            raise ValueError(f"{name}: got {short(value)}, which raised {type(error).__name__} ({error}); expected "
                             f"{allowed}") from error

    return asked


def progress(value: object) -> None:
    """Raise ``ValueError`` for what cannot be told how far the work is."""
    function("progress", value, "a function of two numbers, what is done and what there is to do")


def axes(name: str, value: object) -> None:
    """Raise ``ValueError`` for what is neither None nor matplotlib's axes."""
    with_methods(name, value, ("plot", "fill", "set_xlabel"), "matplotlib axes, as plt.subplots()[1] is")


def with_methods(name: str, value: object, methods: tuple[str, ...], allowed: str) -> None:
    """Raise ``ValueError`` unless ``value`` is None or has these methods."""
    if value is not None and not all(callable(getattr(value, method, None)) for method in methods):
        raise ValueError(f"{name}: got {short(value)}; expected {allowed}, or None")


def finite_array(name: str, value: object) -> np.ndarray:
    """``value`` as a new float64 array without NaN or infinity; text is read as ``fractions.Fraction`` reads it."""
    try:
        detach = getattr(value, "detach", None)
        if callable(detach):  # a tensor, perhaps with a gradient, perhaps on a device
            value = detach().cpu()
            if getattr(value, "is_floating_point", bool)():  # of a type that NumPy may lack, such as bfloat16
                value = getattr(value, "double")()
        given = np.asarray(value)
        if np.ma.is_masked(value):
            raise TypeError("some of its entries are masked")
        if given.dtype.kind not in "biufUO":
            raise TypeError(f"its entries are of type {given.dtype}")
        if given.dtype.kind in "UO":
            given = np.reshape([real_number(name, entry, finite=False) for entry in given.ravel().tolist()],
                               given.shape)
        array = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise ValueError(f"{name}: got {short(value)} ({error}); expected real numbers, one or an array of "
                         "them") from None
    bad = np.argwhere(~np.isfinite(array))
    if len(bad) and not array.ndim:
        raise ValueError(f"{name}: got {short(value)}, which is NaN or infinite; expected finite numbers")
    if len(bad):
        location = tuple(int(i) for i in bad[0])
        raise ValueError(f"{name}: {len(bad)} values are NaN or infinite (the first at index {location}); "
                         "expected finite numbers")
    return array


def growing_numbers(name: str, value: object) -> np.ndarray:
    """``value`` as an array of positive numbers, each larger than the one before."""
    found = finite_array(name, value)
    if found.ndim != 1 or not len(found) or found[0] <= 0 or np.any(np.diff(found) <= 0):
        raise ValueError(f"{name}: got {short(value)}; expected growing positive numbers")
    return found


def real_number(name: str, value: object, finite: bool = True) -> float:
    """``value`` as a float; raises ``ValueError`` for what is complex, no number, or (``finite``) not finite."""
    try:
        value = _unwrapped(value)
        if isinstance(value, str):
            number = float(from_text(value))
        elif isinstance(value, (numbers.Real, sp.Expr, Decimal)) and not isinstance(value, (bool, np.bool_)):
            number = float(value)
        else:
            raise TypeError
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name}: got {short(value)}; expected a real number"
                         + TEXT * isinstance(value, str)) from None
    if finite and not math.isfinite(number):
        raise ValueError(f"{name}: got {short(value)}; expected a finite number")
    return number


def _unwrapped(value: object) -> Any:
    """What an array without axes holds; raises ``ValueError`` for an entry that is masked."""
    if value is np.ma.masked:
        raise ValueError
    return value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value


def exact(name: str, value: object) -> sp.Expr:
    """A real constant, exactly: 0.1 means 1/10, the decimal that a float prints as; symbols stay symbols."""
    return _exactly(name, value, _printed)


def exponent(name: str, value: object) -> sp.Expr:
    """A power of the depth, exactly: a float is the fraction of least denominator within 2^-52, absolutely.

    So a and 1 - a are read alike, and alpha + gamma = 1 is met by floats. Floats of fewer digits are read within the
    distance of theirs from 1 to the next. Text is read as ``fractions.Fraction`` reads it; symbols stay symbols.
    """
    power = _exactly(name, value, _simple)
    if power.is_number and not abs(power) <= sys.float_info.max:
        raise ValueError(f"{name}: got {short(value)}; expected a number that a float can hold")
    return power


def symbolic(value: object) -> sp.Basic:
    """``value`` as sympy has it; raises ``ValueError`` for text, which sympy would evaluate as code."""
    if isinstance(value, sp.Basic):
        return value
    if isinstance(value, (tuple, list)):
        return sp.Tuple(*map(symbolic, value))
    if not isinstance(value, (numbers.Number, Decimal)) or isinstance(value, np.bool_):
        raise ValueError(f"got {short(value)}; expected numbers and sympy expressions")
    return sp.sympify(value, strict=True)


def _bounded(expression: sp.Basic) -> None:
    """Raise ``ValueError`` for an expression with a number in it whose digits would take all memory: sympy has floats
    of any exponent, and powers that nobody has multiplied out."""
    for one in sp.postorder_traversal(expression):
        if isinstance(one, sp.Float):
            bits = _bits(one)
        elif isinstance(one, sp.Pow) and isinstance(one.base, sp.Number) and one.exp.is_number:
            bits = one.exp * _bits(one.base)
        else:
            continue
        if not abs(sp.N(bits)) <= MOST_BITS:
            raise ValueError("a number in it is beyond all floats")


def _bits(number: sp.Number) -> int:
    """How many bits a rational number has, or a float beside its exponent."""
    return max(int(number.p).bit_length(), int(number.q).bit_length()) if number.is_Rational else abs(
        number._mpf_[2] + number._mpf_[3])


def _exactly(name: str, value: object, of_float: Callable[..., Fraction]) -> sp.Expr:
    try:
        value = _unwrapped(value)
        expression = symbolic(_as_fraction(value, of_float))
        _bounded(expression)
    except (TypeError, ValueError, OverflowError, sp.SympifyError):
        raise ValueError(f"{name}: got {short(value)}; expected a real number or a sympy expression"
                         + TEXT * isinstance(value, str)) from None
    if not isinstance(expression, sp.Expr) or expression.is_real is False or expression.has(sp.nan, sp.oo, sp.zoo) \
            or expression.is_number and not expression.is_real:
        raise ValueError(f"{name}: got {short(value)}; expected a finite real number or a real symbol")
    return expression.replace(lambda e: isinstance(e, sp.Float), lambda e: sp.Rational(
        of_float(Fraction(int(sp.Rational(e).p), int(sp.Rational(e).q)), Fraction(2, 2**e._prec), float(e)))
    ) if expression.has(sp.Float) else expression


@singledispatch
def _as_fraction(value: object, of_float: Callable[..., Fraction]) -> object:
    """Text, decimals and floats as fractions, others as they are; raises ``ValueError`` for what is no real number."""
    return value


_as_fraction.register(str)(lambda value, of_float: from_text(value))


@_as_fraction.register(Decimal)
def _of_decimal(value: Decimal, of_float: Callable[..., Fraction]) -> Fraction:
    if not value.is_finite() or abs(value.adjusted()) > LONGEST and value:
        raise ValueError(f"{short(value)} is beyond all floats")
    return Fraction(value or 0)


@_as_fraction.register(float)
@_as_fraction.register(np.floating)
def _of_float(value: float | np.floating, of_float: Callable[..., Fraction]) -> Fraction:
    return of_float(Fraction(*value.as_integer_ratio()), _spacing(value), value)


@_as_fraction.register(bool)
@_as_fraction.register(np.bool_)
@_as_fraction.register(complex)
@_as_fraction.register(np.complexfloating)
def _no_real(value: object, of_float: Callable[..., Fraction]) -> NoReturn:
    raise ValueError


def _spacing(value: float | np.floating) -> Fraction:
    """The distance of 1 to the next number of this float's type."""
    return Fraction(*np.finfo(type(value)).eps.as_integer_ratio())


def _simple(value: Fraction, spacing: Fraction, given: object) -> Fraction:
    return least_denominator(value, max(NEAR, spacing))


def _printed(value: Fraction, spacing: Fraction, given: object) -> Fraction:
    return Fraction(str(given))


def learning_rate(name: str, value: object, symbols: bool = False) -> Any:
    """A float, or a tuple of floats, one a step; a sympy expression stays one where ``symbols``."""
    if symbols and isinstance(value, sp.Expr):
        exact(name, value)
        return value
    if isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name}: got {value!r}; expected a number or one number a step")
    rates = finite_array(name, value)
    if rates.ndim > 1:
        raise ValueError(f"{name}: got an array of shape {rates.shape}; expected a number or one number a step")
    return float(rates) if rates.ndim == 0 else tuple(float(r) for r in rates)


def rates_by_step(lr: object, steps: int) -> np.ndarray:
    """The learning rate of every step, shape (steps,), from one number or one a step."""
    if isinstance(lr, sp.Expr) and not lr.is_number:
        raise ValueError(f"lr: got {lr}; expected a number, or one number a step")
    steps = whole_number("steps", steps, 1)
    rates = np.asarray(lr, dtype=np.float64)
    if rates.ndim == 1 and len(rates) != steps:
        raise ValueError(f"lr: got {len(rates)} learning rates for a task of {steps} steps; expected one "
                         "number, or one a step")
    return np.broadcast_to(rates, (steps,)).copy()


def nonnegative_number(name: str, value: object) -> float:
    number = real_number(name, value, finite=False)
    if not 0 <= number < math.inf:
        raise ValueError(f"{name}: got {value!r}; expected a finite number of at least 0")
    return number


def positive_number(name: str, value: object) -> float:
    number = real_number(name, value)
    if not number > 0:
        raise ValueError(f"{name}: got {short(value)}; expected a positive number")
    return number


def memory(needed: float, what: str, advice: str) -> None:
    """Refuse before the work what cannot fit: ``needed`` bytes against the machine's physical memory."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else math.inf
    if needed > physical:
        raise MemoryError(f"{what} needs {needed / 2**30:.1f} GiB, this machine has {physical / 2**30:.1f} GiB; "
                          f"{advice}")
