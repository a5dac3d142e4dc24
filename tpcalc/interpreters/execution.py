"""Running an unrolled program, whatever its vectors are: the rules that all such readings share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import reduce
from operator import add, mul
from typing import Callable, Iterator, Mapping, NoReturn

import numpy as np
import sympy as sp
from sympy.core.function import Application

from .._types import ProgramData, Sizes, Value
from ..data.losses import AnyLoss
from .. import _checks
from .._checks import symbolic
from ..errors import Divergence, NotCovered
from ..models.activations import UNREAL
from ..programs.apart import Apart, Listed
from ..programs.language import LossDerivative, Matrix, MatVec, Member, Outer, Scalar, Transpose, Vector, kind
from ..programs.special import Mask
from ..programs.program import Assign, Program
from .given import Data, Number, Numbers, sizes_of
from .registry import Registry, UnhandledNode

RULES = Registry("execution")
PER_STATEMENT = 1700  # bytes, measured
VALUELESS = (sp.DiracDelta, sp.Derivative, *map(type, UNREAL))


@dataclass(frozen=True)
class MatrixOperator:
    """A matrix as sum of c W or c W^T over initial matrices, of c u v^T / n over pairs of vectors, and of c M.

    initial: (W, transposed) -> c; outers: triples (c, u, v); full: pairs (c, M), M an array of shape (n, n).
    """

    initial: Mapping[tuple[Matrix, bool], Number] = field(default_factory=dict)
    outers: tuple[tuple[Number, Value, Value], ...] = ()
    full: tuple[tuple[Number, Value], ...] = ()

    def __add__(self, other: "MatrixOperator") -> "MatrixOperator":
        keys = {**self.initial, **other.initial}
        initial = {key: self.initial.get(key, 0) + other.initial.get(key, 0) for key in keys}
        return MatrixOperator(initial, _joined(self.outers + other.outers), self.full + other.full)

    def __rmul__(self, factor: Number) -> "MatrixOperator":
        return MatrixOperator({key: factor * c for key, c in self.initial.items()},
                              tuple((factor * c, u, v) for c, u, v in self.outers),
                              tuple((factor * c, m) for c, m in self.full))

    def transposed(self) -> "MatrixOperator":
        return MatrixOperator({(matrix, not turned): c for (matrix, turned), c in self.initial.items()},
                              tuple((c, v, u) for c, u, v in self.outers), tuple((c, m.T) for c, m in self.full))


def _joined(outers: tuple[tuple[Number, Value, Value], ...]) -> tuple[tuple[Number, Value, Value], ...]:
    """One term for every pair of vectors: momentum adds the same pairs at every step."""
    total: dict[tuple[int, int], tuple[Number, Value, Value]] = {}
    for c, u, v in outers:
        before = total[id(u), id(v)][0] if (id(u), id(v)) in total else 0
        total[id(u), id(v)] = (before + c, u, v)
    return tuple(total.values())


class ProgramDivergence(Divergence):
    """target: the member whose value is not finite."""

    def __init__(self, message: str, target: Member) -> None:
        super().__init__(message)
        self.target = target

    def __reduce__(self) -> tuple[Value, ...]:  # executors send errors between processes
        return type(self), (str(self), self.target)


class Execution(ABC):
    """A program being run statement by statement; vectors are of a type with +, and * by numbers on the left.

    statement: the one that is being run; assigned: the values so far.
    """

    registry: Registry

    def __init__(self, program: Program, sizes: Sizes, data: ProgramData, loss: AnyLoss, exact: bool = False) -> None:
        if not isinstance(program, Program):
            raise ValueError(f"program: got {program!r}; expected a tp.Program")
        self.program, self.numbers = program, Numbers(exact)
        numeric = sizes_of(program, sizes)
        self.data = Data(program, data, loss, self.numbers)
        count = program.count(numeric)
        _checks.memory(PER_STATEMENT * count, f"program {program.name} with {count} statements", "take smaller sizes")
        self.statements: tuple[Assign, ...] = tuple(program.unroll(numeric))
        self.statement: Assign | None = None
        self.assigned: dict[Member, Value] = {}
        known: set[Member] = set()
        for self.statement in self.statements:
            self.data.check(self.statement)
            self._check(self.statement, known)
            known.add(self.statement.target)

    def _check(self, statement: Assign, known: set[Member]) -> None:
        """Raise before the work for what is read and not there yet at these sizes, and for what has no value."""
        among = (*self.program.vectors, *self.program.matrices, *self.program.data)
        for member in statement.value.atoms(Member):
            if member not in known and not self.given(member, among):
                raise self._missing(member)
        for node in statement.value.atoms(*VALUELESS):
            self.refuse(node, "it is no real number, or the derivative of a function that has none")

    def run(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Execute every statement; raises ``Divergence`` naming the first value that is not finite.

        progress: called with (statements done, statements).
        """
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for done, self.statement in enumerate(self.statements, 1):
                target = self.statement.target
                value = self.lifted(self.value(self.statement.value), kind(target))
                if not self.is_finite(value):
                    raise ProgramDivergence(f"program {self.program.name} diverges: {target} is not finite", target)
                self.assigned[target] = value
                self.after(self.statement)
                if progress is not None:
                    progress(done, len(self.statements))
        self.statement = None

    def after(self, statement: Assign) -> None:
        """Called when a statement is done: readings may forget what is not read again."""

    def value(self, node: sp.Basic) -> Value:
        return self.registry.value(self, node)

    def of_kind(self, wanted: str) -> dict[Value, Value]:
        """The values of all scalars, vectors or matrices so far."""
        return {member: value for member, value in self.assigned.items() if kind(member) == wanted}

    def refuse(self, node: sp.Basic, reason: str) -> NoReturn:
        raise UnhandledNode(self.registry.name, node, reason, self.statement)

    def lifted(self, value: Value, wanted: str) -> Value:
        """A number as the constant vector, or 0 as the matrix, where one is wanted."""
        if not is_number(value) or wanted == "scalar":
            return value
        return self.constant(value) if wanted == "vector" else MatrixOperator()

    def given(self, member: Member, among: tuple[Value, ...]) -> bool:
        """Is it one of the program's initial vectors or matrices, or of its data?"""
        return any(g.same_family(member) and all(i == j for i, j in zip(g.indices, member.indices) if i.is_number)
                   for g in among)

    def read(self, member: Member, among: tuple[Value, ...], first: Callable[[Value], Value]) -> Value:
        """The value assigned to a member, else what it is given as."""
        if member in self.assigned:
            return self.assigned[member]
        if not self.given(member, among):
            raise self._missing(member)
        return first(member)

    def _missing(self, member: Member) -> NotCovered:
        location = "" if self.statement is None else f"{self.statement} reads "
        return NotCovered(f"program {self.program.name}: {location}{member}, which is neither given nor assigned "
                          "before")

    def apply(self, operator: MatrixOperator, vector: Value, expression: sp.Expr) -> Value:
        """The matrix times the vector, which ``expression`` stands for: (u v^T / n) y = u <v|y>."""
        bra = self.bra(vector)
        terms = [c * self.product(matrix, turned, expression, vector, bra)
                 for (matrix, turned), c in operator.initial.items()]
        terms += [(c * self.against(bra, v)) * u for c, u, v in operator.outers]
        terms += [c * (m @ vector) for c, m in operator.full]
        return reduce(add, terms, self.constant(0))

    def bra(self, vector: Value) -> Value:
        """What ``against`` needs of a vector, made once for many brackets."""
        return vector

    @abstractmethod
    def against(self, bra: Value, vector: Value) -> Number:
        """<u|v>, from the bra of u."""

    @abstractmethod
    def initial_vector(self, vector: Vector) -> Value:
        """An initial vector when it is first read."""

    @abstractmethod
    def product(self, matrix: Matrix, turned: bool, expression: sp.Expr, vector: Value, bra: Value) -> Value:
        """An initial matrix, or its transpose where ``turned``, times a vector."""

    @abstractmethod
    def constant(self, value: Number) -> Value:
        """The vector with one value in all coordinates."""

    @abstractmethod
    def is_finite(self, value: Value) -> bool:
        """Is a number, a vector or a matrix finite?"""

    @abstractmethod
    def multiplied(self, node: sp.Expr, vectors: list[Value]) -> Value:
        """A product of vectors, entrywise."""

    @abstractmethod
    def entrywise(self, node: sp.Expr, values: Mapping[sp.Expr, Value]) -> Value:
        """A function or power of vectors, from the values of its leaves."""


def is_number(value: Value) -> bool:
    return not isinstance(value, MatrixOperator) and np.isscalar(value)


def leaves(node: sp.Basic) -> Iterator[sp.Expr]:
    """The expressions that a function's arguments are, those in the pieces and conditions of a Piecewise too."""
    for part in node.args:
        if isinstance(part, sp.Expr):
            yield part
        else:
            yield from leaves(part)


def with_leaves(node: sp.Basic, values: Mapping[sp.Expr, sp.Expr]) -> sp.Basic:
    """The function of other arguments."""
    parts = [values[p] if isinstance(p, sp.Expr) else with_leaves(p, values) if p.args else p for p in node.args]
    return node.func(*parts)


@RULES.rule(sp.Number, sp.NumberSymbol)
def _constant(run: Execution, node: sp.Expr) -> Number:
    return run.numbers.of(node)


@RULES.rule(sp.Symbol)
def _parameter(run: Execution, node: sp.Symbol) -> Number:
    return run.data.at(node.name, ())


@RULES.rule(Scalar)
def _scalar(run: Execution, node: Scalar) -> Number:
    return run.read(node, run.program.data, lambda s: run.data.at(s.name, s.indices))


@RULES.rule(Vector)
def _vector(run: Execution, node: Vector) -> Value:
    def first(vector: Vector) -> Value:
        run.assigned[vector] = run.initial_vector(vector)
        return run.assigned[vector]
    return run.read(node, run.program.vectors, first)


@RULES.rule(Matrix)
def _matrix(run: Execution, node: Matrix) -> MatrixOperator:
    return run.read(node, run.program.matrices, lambda m: MatrixOperator({(m, False): run.numbers.of(1)}))


@RULES.rule(Transpose)
def _transpose(run: Execution, node: Transpose) -> MatrixOperator:
    return run.value(node.args[0]).transposed()


@RULES.rule(Outer)
def _outer(run: Execution, node: Outer) -> MatrixOperator:
    left, right = (run.lifted(run.value(v), "vector") for v in node.args)
    return MatrixOperator({}, ((run.numbers.of(1), left, right),))


@RULES.rule(MatVec)
def _matvec(run: Execution, node: MatVec) -> Value:
    return run.apply(run.value(node.matrix), run.value(node.vector), node.vector)


@RULES.rule(LossDerivative)
def _loss_derivative(run: Execution, node: LossDerivative) -> Number:
    values, location = [run.value(one) for one in node.outputs], node.indices
    if not node.several:
        return run.numbers.of(run.data.loss(values[0], run.data.at("y", location)), str(node))
    outputs: np.ndarray = np.array(values, dtype=run.numbers.dtype)
    targets = run.data.row("y", location[:-1], len(outputs))
    return run.numbers.of(run.data.loss(outputs, targets)[int(location[-1])], str(node))


@RULES.rule(sp.Add)
def _add(run: Execution, node: sp.Add) -> Value:
    wanted = kind(node)
    return reduce(add, (run.lifted(run.value(part), wanted) for part in node.args))


@RULES.rule(sp.Mul)
def _mul(run: Execution, node: sp.Mul) -> Value:
    parts = [run.value(part) for part in node.args]
    number = reduce(mul, filter(is_number, parts), run.numbers.of(1))
    rest = [part for part in parts if not is_number(part)]
    if not rest:
        return number
    return number * (rest[0] if len(rest) == 1 else run.multiplied(node, rest))


@RULES.rule(sp.Sum)
def _sum(run: Execution, node: sp.Sum) -> Value:
    (index, first, last), inner, wanted = node.limits[-1], node.limits[:-1], kind(node)
    body = sp.Sum(node.function, *inner) if inner else node.function
    terms = (run.lifted(run.value(body.subs(index, i)), wanted) for i in range(int(first), int(last) + 1))
    return reduce(add, terms, run.lifted(run.numbers.of(0), wanted))


RULES.refuse("matrices step by step are not added, and stand in functions of whole matrices alone", Apart, Listed)


@RULES.rule(sp.Pow, Application, Mask)
def _function(run: Execution, node: sp.Expr) -> Value:
    values = {leaf: run.value(leaf) for leaf in leaves(node)}
    if all(map(is_number, values.values())):
        numbers = {leaf: symbolic(value) for leaf, value in values.items()}
        return run.numbers.of(with_leaves(node, numbers), str(node))
    return run.entrywise(node, values)


@dataclass(frozen=True)
class ProgramInterpreter:
    """What a program computes: scalars by member, such as ``f[0]``."""

    program: Program
    scalars: Mapping[Scalar, Number]

    def series(self, name: str) -> np.ndarray:
        """A family of scalars as an array over its indices from 0 on (float64, or rationals in an object array).
        Raises ``ValueError`` for a name that the program assigns no scalars to, or not to all such indices."""
        return series_of(self.program, name, {s.name for s in self.scalars}, {
            tuple(map(int, s.indices)): value for s, value in self.scalars.items() if s.name == name})


def series_of(program: Program, name: str, names: set[str], found: Mapping[tuple[int, ...], Value]) -> np.ndarray:
    """The scalars of one name, by their indices, as an array over these from 0 on; names: of all that there are.
    Raises ``ValueError`` for a name that the program assigns no scalars to, or not to all such indices."""
    if name not in names:
        raise ValueError(f"name: got {name!r}; expected a scalar that program {program.name} assigns: {sorted(names)}")
    shape = tuple(max(location) + 1 for location in zip(*found))
    if len(found) != int(np.prod(shape)) or any(i < 0 for location in found for i in location):
        raise ValueError(f"name: got {name!r}, which has no scalar at some indices; expected one of .scalars that has")
    values = np.empty(shape, dtype=np.array(list(found.values())).dtype)
    for location, value in found.items():
        values[location] = value
    return values
