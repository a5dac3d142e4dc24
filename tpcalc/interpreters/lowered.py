"""Running a lowered program: what all its readings share, and what they give back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any, Callable, Collection, Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike
import sympy as sp
from sympy.utilities.lambdify import lambdify

from .._types import ProgramData, Sizes, Value
from ..errors import NotCovered
from .. import _checks
from ..lowering.array_backends import Arrays
from ..lowering.plan import LoweringPlan, program_numbers, plan_memory
from ..lowering.source import Lowered, lower
from ..programs.language import Matrix, Member, Scalar, Vector
from ..data.losses import AnyLoss, derivative
from ..programs.program import Program
from .execution import ProgramDivergence, series_of
from .given import Data, Numbers, require_heads, sizes_of
from .spectral import spectral_part

PART = 2**15  # entries at a time: what is computed from them stays in a processor's cache
PLANNED = 200  # bytes of a plan for a statement, at least

Location = tuple[int, tuple[int, ...]]
Progress = Callable[[int, int], None]


class ArrayExecution(ABC):
    """A lowered program that is being run; what its code calls are the attributes and methods here.

    F: of every family the arrays by the indices that are no axes. keep: names of families that are kept to the end
    besides scalars; others are forgotten after their last use. A reading says what matrices are.
    """

    entries: bool
    named = "width"  # what the number of coordinates is called where it is given

    def __init__(self, program: Program, sizes: Sizes, data: ProgramData, loss: AnyLoss, width: int,
                 arrays: Arrays, keep: Collection[str]) -> None:
        if not isinstance(program, Program):
            raise ValueError(f"program: got {program!r}; expected a tp.Program")
        self.program, self.width, self.arrays = program, width, arrays
        numeric = sizes_of(program, sizes)
        statements = program.count(numeric)
        _checks.memory(float(PLANNED) * statements, f"program {program.name} of {statements} statements",
                       "smaller sizes fit")
        self.data = Data(program, data, loss, Numbers(False))
        self.sizes = {str(size): value for size, value in numeric.items()}
        self.lowered: Lowered = lower(program, self.entries)
        values: dict[sp.Symbol, Value] = {
            **numeric, **{s: float(self.data.arrays[s.name]) for s in self._parameters(numeric)}}
        self.values = values
        self.functions: dict[str, Callable[..., Value]] = {}
        self.numbers = self.lowered.known_numbers.setdefault(tuple(values.items()), [])
        self._meet()
        self.plan = self._plan(values, keep)
        self.ends = self.plan.ends
        self.first: dict[int, tuple[int, ...]] = {}
        for (number, _), ends in self.plan.given.items():
            lows = tuple(low for low, _ in ends)
            before = self.first.get(number, lows)
            self.first[number] = tuple(map(min, before, lows))
        self.numbers_of = {name: array for name, array in self.data.arrays.items()}
        self.arrays_of = {name: arrays.asarray(array) for name, array in self.data.arrays.items() if array.ndim}
        self.F: list[dict[tuple[int, ...], Value]] = [{} for _ in self.lowered.names.families]
        self.spectra: dict[Member, np.ndarray] = {}
        self.known: dict[tuple[int, ...], list[Any]] = {}
        self.progress: Progress | None = None

    def _parameters(self, sizes: Mapping[sp.Symbol, int]) -> Iterator[sp.Symbol]:
        found = {s for expression, used in self.lowered.names.numbers for s in expression.free_symbols - set(used)}
        for symbol in sorted(found - set(sizes), key=str):
            array = self.data.arrays.get(symbol.name)
            if array is not None:
                self.data.at(symbol.name, ())
                yield symbol

    def _plan(self, values: Mapping[sp.Symbol, Value], keep: Collection[str]) -> LoweringPlan:
        shapes = {name: array.shape for name, array in self.data.arrays.items()}
        key = (tuple(self.sizes.items()), tuple(sorted(keep)), tuple(sorted(shapes.items())),
               tuple(values.items()) if "int(" in self.lowered.reads else ())
        if key not in self.lowered.plans:
            self.lowered.plans[key] = plan_memory(self.lowered, self.sizes, self.numbers, shapes, keep)
        return self.lowered.plans[key]

    def _function(self, name: str, func: type | None, arguments: int) -> Callable[..., Value]:
        """From the table, or as NumPy's where sympy knows how; raises ``NotCovered`` naming what has no arrays."""
        found = self.arrays.function(name)
        if found is not None:
            return found
        names = sp.symbols(f"x:{arguments}", real=True)
        if self.arrays.is_numpy and func is not None:
            function = lambdify(names, func(*names), ["scipy", "numpy"])
            try:
                function(*(np.ones(1) for _ in names))
            except (NameError, TypeError, AttributeError):  # sympy wrote what NumPy and SciPy do not have
                pass
            else:
                return function
        raise NotCovered(f"{name}: a function that the table of operations of {self.arrays.name!r} lacks; expected "
                         f"{', '.join(sorted(self.arrays.functions))}")

    def run(self, progress: Progress | None = None) -> None:
        """Execute the nest; raises ``Divergence`` naming the first value that is not finite.

        progress: called with (iterations done, iterations) of the longest outer loop, that over training steps.
        """
        require_heads(self.program, self.width, self.named)
        self.progress = progress
        for location, ends in self.plan.given.items():
            self.F[location[0]][location[1]] = self._given(location, ends)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            self.lowered.functions[0](self)

    def _given(self, location: Location, ends: tuple[tuple[int, int], ...]) -> Value:
        kind = self.lowered.names.families[location[0]][0]
        if kind is Matrix:
            return self.initial_matrix(self.lowered.member(location, ()))
        members = [self.lowered.member(location, at) for at in product(*(range(a, b + 1) for a, b in ends))]
        if kind is Scalar:
            found: Value = [self.data.at(m.name, m.indices) for m in members]
            return self.arrays.asarray(np.reshape(found, [b - a + 1 for a, b in ends])) if ends else float(found[0])
        drawn = [self.arrays.numpy(self.initial_vector(m)) for m in members]
        if not ends:
            return self.arrays.asarray(drawn[0])
        return self.arrays.asarray(np.reshape(drawn, [*(b - a + 1 for a, b in ends), self.width]))

    # what the code calls

    @cached_property
    def parts(self) -> tuple[slice, ...]:
        """Rows of a matrix whose entries are computed at a time: few on a processor, all in other namespaces."""
        step = max(PART // self.width, 1) if self.arrays.is_numpy else self.width
        return tuple(slice(start, min(start + step, self.width)) for start in range(0, self.width, step))

    def step_done(self, done: int, steps: int) -> None:
        if self.progress is not None:
            self.progress(done, steps)

    def forget(self, at: tuple[int, ...]) -> None:
        for number, key in self.ends[at]:
            self.F[number].pop(key, None)

    def not_finite(self, at: tuple[int, ...], value: Value) -> None:
        """Raise, naming the first member that is not finite."""
        target = self.lowered.target(at)
        leaf, _ = self.lowered.leaves[at[0]]
        bad = np.argwhere(~np.isfinite(self.arrays.numpy(value)))[0]
        symbols = [i for i in leaf.assign.target.indices if any(loop.index == i for loop in leaf.axes)]
        layout = self.lowered.names.layouts[self.lowered.names.number_of(leaf.assign.target)]
        lows = [int(axis[0].subs(self.sizes)) for axis in layout if axis is not None]
        numbers = {size: sp.Integer(self.sizes[str(size)]) for size in self.program.sizes}
        numbers |= {i: sp.Integer(low + int(k)) for i, low, k in zip(symbols, lows, bad)}
        target = target.xreplace(numbers)
        raise ProgramDivergence(f"program {self.program.name} diverges: {target} is not finite", target)

    def chi(self, outputs: Value, targets: ArrayLike) -> Value:
        """The loss derivative of single outputs, numbers or arrays."""
        f, y = self.arrays.numpy(outputs), np.asarray(targets)
        found = np.reshape([self.data.loss(float(a), float(b)) for a, b in zip(f.ravel(), y.ravel())] if
                           self.data.whole is None else
                           derivative(self.data.whole, f.reshape(-1, 1), y.reshape(-1, 1)), f.shape)
        return float(found) if not f.ndim else self.arrays.asarray(found)

    def chis(self, outputs: Value, targets: ArrayLike) -> Value:
        """The loss derivatives in all outputs, which are along the last axis."""
        f = self.arrays.numpy(outputs)
        y = np.broadcast_to(targets, f.shape).reshape(-1, f.shape[-1])
        rows = f.reshape(-1, f.shape[-1])
        found = (derivative(self.data.whole, rows, y) if self.data.whole is not None else
                 [self.data.loss(a, b) for a, b in zip(rows, y)])
        return self.arrays.asarray(np.reshape(found, f.shape))

    def advanced(self, before: Value, ratio: float, new: Value) -> Value:
        """ratio before + new, where ``before`` is not needed any more."""
        before *= ratio
        before += new
        return before

    @abstractmethod
    def initial_vector(self, vector: Vector) -> np.ndarray:
        """The draws of an initial vector."""

    @abstractmethod
    def initial_matrix(self, matrix: Matrix) -> Value:
        """An initial matrix, as the reading holds matrices."""

    @abstractmethod
    def matvec(self, matrix: Value, turned: bool, vectors: Value) -> Value:
        """A matrix, or its transpose where ``turned``, times vectors of shape (..., width)."""

    @abstractmethod
    def combine(self, members: list, outers: list, functions: list, ended: tuple[Location, ...]) -> Value:
        """The sum of c M (or its transpose) over (c, M, turned), of c sum_k u_k v_k^T / n over (c, u, v), of c phi / n
        over (c, phi); ended: places of matrices that nothing reads again."""

    def spectral(self, number: int, now: list, past: list, at: tuple[int, ...]) -> tuple[Value, Value]:
        """Blocks u and v of function ``number`` of whole matrices, sum_k u_k v_k^T / n, of sums of c u v^T / n over
        (c, u, v), by part and of the past by step, for the statement at a place."""
        node = self.lowered.spectral[number]
        known = self.known.setdefault((number, *self.lowered.beside(at, node)), [])
        left, right, values = spectral_part(self.arrays, node, now, past, known)
        self.spectra[self.lowered.target(at)] = values
        return left, right

    def norm_ratio(self, above: list, below: list) -> float:
        """The Frobenius norm of some matrices together over that of others."""
        raise NotCovered(f"program {self.program.name}: it has a ratio of norms, and matrices are known here by their "
                         "products alone; expected run_dense or run_program")

    @abstractmethod
    def entry_product(self, function: Value, vectors: Value) -> Value:
        """A function of entries over n, times vectors."""

    def entry_function(self, terms: tuple[list, list, list], c: float, number: int, at: tuple[int, ...]) -> None:
        """Add c times function of entries ``number`` to a matrix's terms, where ``entries`` is not set."""
        raise NotImplementedError

    def _meet(self) -> None:
        """Numbers and functions of the program's code, and later of what was written since."""
        self.numbers += program_numbers(self.lowered, self.values, len(self.numbers))
        for code, what in self.lowered.names.functions.items():
            if code not in self.functions:
                self.functions[code] = self._function(*what)

    def result(self) -> "LoweredRun":
        """What was kept, as NumPy arrays."""
        values: dict[str, dict[tuple[int, ...], np.ndarray]] = {}
        axes: dict[str, tuple[type, tuple, tuple[int | None, ...]]] = {}
        for (kind, name, *rest), layout, found in zip(self.lowered.names.families, self.lowered.names.layouts, self.F):
            if kind is Matrix or not found:
                continue
            number = len(values)
            only_given = kind is Vector and (kind, name, *rest) not in self.lowered.axes.layouts
            lows = iter(self.first.get(self.lowered.names.families.index((kind, name, *rest)), ()))
            low = tuple(None if axis is None else next(lows) if only_given else int(axis[0].subs(self.sizes))
                        for axis in layout)
            label = str(name) if str(name) not in values else f"{name} {number}"
            values[label] = {key: self.arrays.numpy(value) for key, value in found.items()}
            axes[label] = (kind, (name, *rest), low)
        return LoweredRun(self.program, self.width, values, axes, self.spectra)


@dataclass(frozen=True)
class LoweredRun:
    """A program's scalars and kept vectors at one width and seed.

    values: by name of a family and by the indices that are no axes, arrays of shape (axes..., width) for vectors and
    (axes...) for scalars; families: by name the kind, the rest of what names members, and of every index None or the
    first index on its axis; spectra: by matrix that moved along a function of whole matrices, what that divides
    by and is not 0, falling: singular values, of an orthogonal factor.
    """

    program: Program
    width: int
    values: Mapping[str, Mapping[tuple[int, ...], np.ndarray]] = field(repr=False)
    families: Mapping[str, tuple[type, tuple, tuple[int | None, ...]]] = field(repr=False)
    spectra: Mapping[Member, np.ndarray] = field(repr=False)

    def series(self, name: str) -> np.ndarray:
        """A family of scalars as an array over its indices from 0 on. Raises ``ValueError`` for a name that the
        program assigns no scalars to, or not to all such indices."""
        names = {label for label, (kind, *_) in self.families.items() if kind is Scalar}
        return series_of(self.program, name, names, dict(self._entries(name)) if name in names else {})

    def stack(self, name: str, *key: int) -> np.ndarray:
        """A family of vectors at indices that are no axes, shape (axes..., width)."""
        return self.values[name][key]

    @cached_property
    def scalars(self) -> Mapping[Member, float]:
        """The scalars of the run by member, such as f[0]."""
        return {member: float(value) for name, (kind, *_) in self.families.items() if kind is Scalar
                for member, value in self._members(name)}

    @cached_property
    def vectors(self) -> Mapping[Member, np.ndarray]:
        """The vectors that the run kept by member, of shape (width,)."""
        return {member: value for name, (kind, *_) in self.families.items() if kind is Vector
                for member, value in self._members(name)}

    def _members(self, name: str) -> Iterator[tuple[Member, Value]]:
        kind, rest, _ = self.families[name]
        return ((kind(*rest, *map(sp.Integer, indices)), value) for indices, value in self._entries(name))

    def _entries(self, name: str) -> Iterator[tuple[tuple[int, ...], Value]]:
        kind, _, lows = self.families[name]
        for key, value in self.values[name].items():
            for at in np.ndindex(*(value.shape[:-1] if kind is Vector else value.shape)):
                keys, axes = iter(key), iter(at)
                yield tuple(next(keys) if low is None else low + next(axes) for low in lows), value[at]
