"""A fast exact reading of linear programs: each statement becomes Python once, not once for every step and layer.

It knows what ``read_program_coefficients`` knows, for less: floats, one number a scalar, squared loss, means of
products of two vectors. Laws of deep programs ask for a thousand layers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import singledispatchmethod
from typing import Callable, Mapping

import numpy as np
import sympy as sp

from tpcalc._types import Fields, Sizes, Value
from tpcalc.errors import Divergence
from tpcalc.interpreters.execution import MatrixOperator
from tpcalc.interpreters.given import sizes_of
from tpcalc.programs.language import LossDerivative, MatVec, Member, Mean, Outer, Transpose, kind
from tpcalc.programs.program import Assign, Loop, Program, Statement

ZERO = {"scalar": "0", "vector": "zero", "matrix": "Operator()"}
MOST_KETS = 9000  # base kets: arrays of their square are kept


@dataclass
class _Group:
    """The hats of one initial matrix, or of its transpose: their places and the vectors that were multiplied."""

    locations: list[int] = field(default_factory=list)
    vectors: list[np.ndarray] = field(default_factory=list)


class _Space:
    """Kets as coefficients over ``size`` base kets, made one by one; hats of one group correlate."""

    def __init__(self, size: int) -> None:
        self.size, self.used = size, 0
        self.groups: dict[tuple[Value, bool], _Group] = {}
        self.partners = np.zeros((size, 1), dtype=np.intp)   # of each base ket, those it correlates with
        self.covariance = np.zeros((size, 1))

    def base(self) -> np.ndarray:
        """A new base ket, orthonormal to the others."""
        ket = np.zeros(self.size)
        ket[self.used] = self.covariance[self.used, 0] = 1.0
        self.partners[self.used, 0] = self.used
        self.used += 1
        return ket

    def bra(self, ket: np.ndarray) -> np.ndarray:
        """Its brackets with all base kets."""
        return np.einsum("ij,ij->i", self.covariance, ket[self.partners])

    def product(self, key: tuple[Value, bool], ket: np.ndarray, bra: np.ndarray) -> np.ndarray:
        """hat + dot of an initial matrix times a vector."""
        group = self.groups.setdefault(key, _Group())
        total, location = self.base(), self.used - 1
        group.locations.append(location)
        group.vectors.append(ket)
        self._widen(len(group.locations))
        row = np.array([bra @ z for z in group.vectors])
        count = len(row)
        self.partners[location, :count], self.covariance[location, :count] = group.locations, row
        self.partners[group.locations, count - 1], self.covariance[group.locations, count - 1] = location, row
        other = self.groups.get((key[0], not key[1]), _Group())
        for b, z in zip(other.locations, other.vectors):
            if ket[b] != 0.0:
                total = total + ket[b] * z
        return total

    def _widen(self, count: int) -> None:
        have = self.partners.shape[1]
        if count > have:
            more = max(count, 2 * have) - have
            self.partners = np.pad(self.partners, ((0, 0), (0, more)))
            self.covariance = np.pad(self.covariance, ((0, 0), (0, more)))


class _Members(dict):
    """Values by (name, *indices); what is not assigned is given."""

    def __init__(self, given: Callable[[tuple[Value, ...]], Value]) -> None:
        super().__init__()
        self.given = given

    def __missing__(self, key: tuple[Value, ...]) -> Value:
        self[key] = value = self.given(key)
        return value


@dataclass(frozen=True)
class RolledReading:
    """Scalars and kets of a linear program at infinite width."""

    program: Program
    members: Mapping[tuple[Value, ...], Value]
    space: _Space

    def series(self, name: str) -> np.ndarray:
        """A family of scalars over its step, from 0 on."""
        steps = sorted(key[1] for key in self.members if key[0] == name and len(key) == 2)
        return np.array([self.members[name, step] for step in steps])

    def vector(self, name: str, *location: int) -> np.ndarray:
        """The coefficients of one vector."""
        return self.members[(name, *location)]

    def size(self, ket: np.ndarray) -> float:
        """The root mean square over coordinates."""
        return float(np.sqrt(max(self.space.bra(ket) @ ket, 0.0)))


def read_rolled(program: Program, sizes: Sizes, data: Mapping[str, Value]) -> RolledReading:
    """Evaluate a linear program exactly at infinite width, as ``read_program_coefficients`` does, with squared loss.

    data: parameters, inputs and targets "y" over steps, by name. Time O(K^2) for K products where few have one matrix.
    Raises ``ValueError`` for what is not linear or not covered, ``MemoryError`` for more than 9000 products,
    ``Divergence`` for outputs that are not finite.
    """
    return _Run(program, sizes_of(program, sizes), data).read()


class _Run:
    def __init__(self, program: Program, sizes: Mapping[sp.Symbol, int], data: Mapping[str, Value]) -> None:
        self.program, self.data = program, data
        self.names: Fields = {str(size): value for size, value in sizes.items()}
        self.names |= {name: float(value) for name, value in data.items() if np.ndim(value) == 0}
        count = len(program.vectors) + self._products(program.body, dict(self.names))
        if count > MOST_KETS:
            raise MemoryError(f"program {program.name}: got {count} products; expected {MOST_KETS}")
        self.space = _Space(count)
        self.members = _Members(self._given)
        self.arrays = {name: [float(v) for v in value] for name, value in data.items() if np.ndim(value) == 1}

    def read(self) -> RolledReading:
        lines: list[str] = []
        self._write(self.program.body, lines, 1)
        source = "def run():\n" + "\n".join(lines)
        inside = {**self.names, "M": self.members, "apply": self._apply, "mean": self._mean, "outer": _outer,
                  "zero": np.zeros(self.space.size), "Operator": MatrixOperator,
                  "target": lambda step: self.arrays["y"][step], "half_down": lambda a: int(np.floor(a))}
        exec(compile(source, f"<{self.program.name}>", "exec"), inside)
        with np.errstate(over="ignore", invalid="ignore"):
            inside["run"]()
        scalars = {key: value for key, value in self.members.items() if isinstance(value, float)}
        for key, value in scalars.items():
            if not np.isfinite(value):
                raise Divergence(f"program {self.program.name} diverges: {key} is not finite", step=key[1])
        return RolledReading(self.program, self.members, self.space)

    def _given(self, key: Value) -> Value:
        name = key[0]
        if any(v.name == name for v in self.program.vectors):
            return self.space.base()
        if any(m.name == name for m in self.program.matrices):
            return MatrixOperator({(key, False): 1.0})
        return self.arrays[name][key[1]]

    def _apply(self, matrix: MatrixOperator, ket: np.ndarray) -> np.ndarray:
        bra = self.space.bra(ket)
        total = np.zeros(self.space.size)
        for key, c in matrix.initial.items():
            if c:
                total += c * self.space.product(key, ket, bra)
        for c, u, v in matrix.outers:
            total += (c * float(bra @ v)) * u
        return total

    def _mean(self, u: np.ndarray, v: np.ndarray) -> float:
        return float(self.space.bra(u) @ v)

    def _products(self, body: tuple[Statement, ...], values: Fields) -> int:
        """How many products with matrices a body makes."""
        total = 0
        for statement in body:
            if isinstance(statement, Assign):
                total += len([node for node in sp.preorder_traversal(statement.value) if isinstance(node, MatVec)])
                continue
            first, last = (int(end.subs({s: values[s.name] for s in end.free_symbols})) for end in statement.bounds)
            index = str(statement.index)
            nested = any(isinstance(s, Loop) for s in statement.body)
            if nested and first <= last:
                total += sum(self._products(statement.body, {**values, index: k}) for k in range(first, last + 1))
            else:
                total += max(0, last - first + 1) * self._products(statement.body, values)
        return total

    def _write(self, body: tuple[Statement, ...], lines: list[str], depth: int) -> None:
        pad = "  " * depth
        for statement in body:
            if isinstance(statement, Assign):
                value = self._source(statement.value) if statement.value != 0 else ZERO[kind(statement.target)]
                lines.append(f"{pad}{self._source(statement.target)} = {value}")
                continue
            first, last = map(_index, statement.bounds)
            order = f"range({first}, {last} + 1)"
            lines.append(f"{pad}for {statement.index} in {f'reversed({order})' if statement.descending else order}:")
            self._write(statement.body, lines, depth + 1)

    @singledispatchmethod
    def _source(self, node: sp.Expr) -> str:
        if not (node.is_number and node.is_real):
            raise ValueError(f"program {self.program.name}: {node} has no rule; expected linear programs")
        return f"({node})" if node.is_Integer else repr(float(node))

    @_source.register(Member)
    def _member(self, node: Member) -> str:
        location = "".join(f", {_index(i)}" for i in node.indices)
        return f"M[{node.name!r}{location or ','}]"

    @_source.register(MatVec)
    def _product(self, node: MatVec) -> str:
        return f"apply({self._source(node.matrix)}, {self._source(node.vector)})"

    @_source.register(Transpose)
    def _transposed(self, node: Transpose) -> str:
        return f"{self._source(node.args[0])}.transposed()"

    @_source.register(Outer)
    def _outer_product(self, node: Outer) -> str:
        return f"outer({self._source(node.left)}, {self._source(node.right)})"

    @_source.register(Mean)
    def _moment(self, node: Mean) -> str:
        factors = sp.Mul.make_args(node.args[0])
        vectors = [f for f in factors if kind(f) == "vector"]
        numbers = sp.Mul(*(f for f in factors if f not in vectors))
        if len(vectors) != 2:
            raise ValueError(f"{node}; expected means of the products of two vectors")
        return f"{self._source(numbers)} * mean({', '.join(map(self._source, vectors))})"

    @_source.register(LossDerivative)
    def _loss_derivative(self, node: LossDerivative) -> str:
        return f"({self._source(node.args[0])} - target({_index(node.args[1])}))"

    @_source.register(sp.Sum)
    def _sum(self, node: sp.Sum) -> str:
        (index, first, last), = node.limits
        terms = f"{self._source(node.function)} for {index} in range({_index(first)}, {_index(last)} + 1)"
        return f"sum(({terms}), {ZERO[kind(node)]})"

    @_source.register(sp.Add)
    @_source.register(sp.Mul)
    def _combined(self, node: sp.Add | sp.Mul) -> str:
        if node.is_Mul and sum(kind(f) != "scalar" for f in node.args) > 1:
            raise ValueError(f"{node}: a product of vectors is not linear")
        ordered = sorted(node.args, key=lambda part: kind(part) != "scalar")  # numbers first: less to multiply
        return f"({(' * ' if node.is_Mul else ' + ').join(map(self._source, ordered))})"

    @_source.register(sp.Pow)
    def _power(self, node: sp.Pow) -> str:
        if kind(node) != "scalar":
            raise ValueError(f"program {self.program.name}: {node} has no rule; expected linear programs")
        return f"({self._source(node.base)} ** {self._source(node.exp)})"

    @_source.register(sp.Symbol)
    def _symbol(self, node: sp.Symbol) -> str:
        return str(node)


def _index(value: sp.Expr) -> str:
    return str(value).replace("floor", "half_down")


def _outer(left: np.ndarray, right: np.ndarray) -> MatrixOperator:
    return MatrixOperator({}, ((1.0, left, right),))
