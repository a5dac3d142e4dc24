"""What a reading of a program is given: sizes, data, parameters and the loss; floats or exact rationals."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from math import lcm
from typing import Any, Callable, Mapping, Union

import numpy as np
import sympy as sp

from .._types import ProgramData, Sizes, Value
from .. import _checks
from .._numbers import from_text
from ..programs.by_position import HeadTable, HeadTurn
from ..programs.language import HeadSum, LossDerivative, Scalar
from ..data.losses import AnyLoss, LogisticLoss, Loss, SoftmaxLoss, loss_of
from ..programs.program import Assign, Program

Number = Union[float, Fraction]
LossRule = Callable[[Value, Value], Value]


class NotRational(ValueError):
    """Exact evaluation met a number that is not rational."""


@dataclass(frozen=True)
class Numbers:
    """float64, or exact rationals where ``exact``."""

    exact: bool

    @property
    def dtype(self) -> type:
        return object if self.exact else np.float64

    def of(self, value: Value, what: str = "") -> Number:
        """A number or a constant sympy expression; raises ``ValueError`` for what is not real, ``NotRational``."""
        if type(value) is (Fraction if self.exact else float):  # not NumPy's, which would widen float32 vectors
            return value
        if isinstance(value, (complex, np.complexfloating)):
            raise ValueError(f"{what or value}: {value} is not a real number")
        if self.exact:
            known = isinstance(value, (int, sp.Rational))
            number = sp.Rational(value) if known else _checks.exact(what or str(value), value)
            if not number.is_Rational:
                raise NotRational(f"{what or value}: {number} is not rational; exact evaluation takes rational numbers "
                                  "and, of a size such as L, powers that are rational (L = 4 for L^(1/2)); exact=False "
                                  "takes all")
            return Fraction(number)
        try:
            return float(value)
        except TypeError:
            raise ValueError(f"{what or value}: {value} is not a real number") from None


def sizes_of(program: Program, sizes: Sizes) -> dict[sp.Symbol, int]:
    """Sizes by symbol, from sizes by symbol or name; each a whole number of at least 1."""
    return {size: _checks.positive_integer(str(size), value) for size, value in program.numeric_sizes(sizes).items()}


def require_heads(program: Program, width: int, name: str = "width") -> None:
    """Raise ``ValueError`` unless coordinates, or particles, are whole heads; name: what their number is called."""
    for size in sorted(head_sizes(program)):
        if width % size:
            raise ValueError(f"{name}: got {width}; program {program.name} has sums over groups of {size} coordinates, "
                             f"as heads and experts are; expected multiples of {size}")


def whole_heads(program: Program, least: int) -> int:
    """The fewest particles from ``least`` on that are whole heads."""
    size = lcm(*head_sizes(program))
    return -(-least // size) * size


def head_sizes(program: Program) -> set[int]:
    """How many coordinates heads have, or groups of heads that share."""
    return {size for location in program.locations() for size in _heads_in(location.statement.value)}


@lru_cache(maxsize=4096)
def _heads_in(value: sp.Expr) -> frozenset[int]:
    return frozenset(node.coordinates for node in value.atoms(HeadSum, HeadTurn, HeadTable))


@lru_cache(maxsize=4096)
def _symbols_in(value: sp.Expr) -> frozenset[sp.Symbol]:
    return frozenset(value.free_symbols)


class Data:
    """Given scalars, parameters and targets by name; loss: chi of an output and its target.

    whole: the loss of whole batches, where it is one.
    """

    def __init__(self, program: Program, data: ProgramData, loss: AnyLoss, numbers: Numbers) -> None:
        self.program, self.numbers, self.loss = program, numbers, _loss_rule(loss)
        self.whole: Loss | None = None if _is_rule(loss) else loss_of(loss)
        if not isinstance(data, Mapping):
            raise ValueError(f"data: got {_checks.short(data)}; expected a mapping from names to numbers or arrays")
        given = {getattr(name, "name", str(name)): value for name, value in data.items()}
        needed = {member.name for member in program.data} | {symbol.name for symbol in program_parameters(program)}
        if any(location.statement.value.has(LossDerivative) for location in program.locations()):
            needed.add("y")
        if set(given) != needed:
            raise ValueError(f"data: got {sorted(given)}; expected {sorted(needed)}, what program "
                             f"{program.name} needs")
        self.arrays = {name: self._array(name, value) for name, value in given.items()}
        named = loss_of(loss) if isinstance(loss, str) else loss
        if isinstance(named, (LogisticLoss, SoftmaxLoss)) and "y" in self.arrays:
            several = any(node.several for location in program.locations()
                          for node in location.statement.value.atoms(LossDerivative))
            y = self.arrays["y"].astype(np.float64)
            named.require(y if several else y[..., None])

    def _array(self, name: str, value: Value) -> np.ndarray:
        array = np.array(value, dtype=object)
        entries = [_from_text(name, entry) if isinstance(entry, str) else entry for entry in array.ravel()]
        if not self.numbers.exact:
            return _checks.finite_array(name, entries).reshape(array.shape)
        filled = np.empty(len(entries), dtype=object)
        filled[:] = [self.numbers.of(entry, name) for entry in entries]
        return filled.reshape(array.shape)

    def at(self, name: str, indices: tuple[sp.Expr, ...]) -> Number:
        """One given number; raises ``ValueError`` where the data does not reach."""
        array, location = self.arrays[name], tuple(int(i) for i in indices)
        if len(location) != array.ndim or any(not 0 <= i < n for i, n in zip(location, array.shape)):
            wanted = f"{name}[{', '.join(map(str, location))}]" if location else f"{name}, a single number,"
            raise ValueError(f"{name}: got data of shape {array.shape}; expected {wanted}")
        return self.numbers.of(array[location], name)

    def row(self, name: str, indices: tuple[sp.Expr, ...], size: int) -> np.ndarray:
        """All given numbers over a last index of so many values, shape (size,)."""
        array = self.arrays[name]
        if array.ndim and array.shape[-1] != size:
            raise ValueError(f"{name}: got data of shape {array.shape}; expected {size} along the last axis")
        return np.array([self.at(name, (*indices, sp.Integer(last))) for last in range(size)], dtype=array.dtype)

    def check(self, statement: Assign) -> None:
        """Raise before the work where a statement reads data that is not there."""
        read = [(node.name, node.indices) for node in statement.value.atoms(Scalar)
                if any(node.same_family(m) for m in self.program.data)]
        losses = [node for node in statement.value.atoms(LossDerivative) if all(i.is_number for i in node.indices)]
        for name, indices in (*read, *(("y", node.indices) for node in losses)):
            if all(i.is_number for i in indices):
                self.at(name, indices)
        for node in losses:
            if node.several:
                self.row("y", node.indices[:-1], len(node.outputs))


def _from_text(name: str, text: str) -> Fraction:
    try:
        return from_text(text)
    except ValueError:
        raise ValueError(f"{name}: got {_checks.short(text)}; expected real numbers, or their text as "
                         "fractions.Fraction reads it") from None


def _is_rule(loss: Any) -> bool:
    return callable(loss) and not callable(getattr(loss, "derivative", None))


def _loss_rule(loss: Any) -> LossRule:
    """chi(f, y), from such a function, or a loss as ``tp.Task`` takes it: of numbers, or arrays of several outputs."""
    if _is_rule(loss):
        return partial(_asked, loss)
    return partial(_chi, loss_of(loss))


def _asked(loss: LossRule, f: Any, y: Any) -> Any:
    found: Any = _checks.rule("loss", loss, "a function of an output and a target")(f, y)
    return found


def _chi(loss: Loss, f: Any, y: Any) -> Any:
    if np.ndim(f) == 1:
        return loss.derivative(f[None], y[None])[0]
    return loss.derivative(np.array([[f]]), np.array([[y]]))[0, 0]


def program_parameters(program: Program) -> set[sp.Symbol]:
    """The symbols that are neither sizes nor indices, such as alpha, gamma and a learning rate."""
    return {symbol for location in program.locations() for symbol in _symbols_in(location.statement.value)
            - {*program.sizes, *location.indices}}
