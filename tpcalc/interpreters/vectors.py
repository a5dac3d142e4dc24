"""A program run with real vectors and matrices of finite width, seeded."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import mul
from typing import Callable, Mapping

import numpy as np
import sympy as sp
from sympy.core.sorting import default_sort_key

from .._types import ProgramData, Sizes, Value
from ..data.losses import AnyLoss
from .. import _checks
from .._checks import symbolic
from ..errors import Divergence
from ..lowering.array_backends import Arrays
from ..programs.by_position import HeadTable, HeadTurn, table_entry
from ..programs.language import HeadSum, Matrix, Member, Mean, NonlinearOuter, Outer, Scalar, Vector
from ..optimizers.spectral import Spectral
from ..programs.special import NormRatio, Quantile
from ..programs.program import Program
from .execution import RULES, Execution, MatrixOperator, ProgramInterpreter, is_number, with_leaves
from .given import Number, require_heads
from .spectral import Outers, spectral_part
from .registry import Registry

VECTORS = Registry("run_program", RULES)


class VectorExecution(Execution):
    """Vectors are arrays of length n."""

    registry = VECTORS
    dtype: type = np.float64

    def __init__(self, program: Program, sizes: Sizes, data: ProgramData, loss: AnyLoss, width: int,
                 seed: int) -> None:
        super().__init__(program, sizes, data, loss)
        require_heads(program, width)
        self.width, self.seed = width, seed
        self.matrices: dict[Matrix, Value] = {}
        self.require_memory()

    def require_memory(self) -> None:
        """Raise ``MemoryError`` where the matrices cannot fit."""
        read = {m for s in self.statements for m in s.value.atoms(Matrix) if self.given(m, self.program.matrices)}
        full = [node for s in self.statements for node in s.value.atoms(NonlinearOuter)]
        count = len(read) + len(full) + max((len(node.atoms(Outer)) for node in full), default=0)
        _checks.memory(8.0 * count * self.width**2,
                       f"program {self.program.name} with {count} matrices of width {self.width}",
                       "take a smaller width or depth")

    def generator(self, member: Member) -> np.random.Generator:
        """The generator of a member's draws, by the seed and its name alone: programs that share names share draws."""
        return np.random.default_rng([self.seed, *str(member).encode()])

    def normal(self, member: Member, shape: tuple[int, ...]) -> np.ndarray:
        """Draws of N(0, 1) for a member."""
        return self.generator(member).standard_normal(shape)

    def against(self, bra: np.ndarray, vector: np.ndarray) -> Number:
        return float(bra @ vector) / self.width

    def initial_vector(self, vector: Vector) -> np.ndarray:
        return self.normal(vector, (self.width,))

    def initial_matrix(self, matrix: Matrix) -> np.ndarray:
        if matrix not in self.matrices:
            self.matrices[matrix] = self.normal(matrix, (self.width, self.width))
            self.matrices[matrix] /= np.sqrt(self.width)
        dense: np.ndarray = self.matrices[matrix]
        return dense

    def product(self, matrix: Matrix, turned: bool, expression: sp.Expr, vector: np.ndarray, bra: Value) -> np.ndarray:
        dense = self.initial_matrix(matrix)
        return (dense.T if turned else dense) @ vector

    def entries(self, operator: MatrixOperator) -> np.ndarray:
        """The n x n entries of a matrix."""
        total = np.zeros((self.width, self.width))
        for (matrix, turned), c in operator.initial.items():
            dense = self.initial_matrix(matrix)
            total += float(c) * (dense.T if turned else dense)
        for c, u, v in operator.outers:
            total += float(c) * np.outer(self.lifted(u, "vector"), self.lifted(v, "vector")) / self.width
        for c, m in operator.full:
            total += float(c) * m
        return total

    def constant(self, value: Number) -> np.ndarray:
        return np.full(self.width, float(value), dtype=self.dtype)

    def is_finite(self, value: Value) -> bool:
        return isinstance(value, MatrixOperator) or bool(np.all(np.isfinite(value)))

    def multiplied(self, node: sp.Expr, vectors: list[Value]) -> np.ndarray:
        return reduce(mul, vectors)

    def entrywise(self, node: sp.Expr, values: Mapping[sp.Expr, Value]) -> np.ndarray:
        names = {leaf: sp.Symbol(f"x{i}", real=True) for i, leaf in enumerate(values)}
        function = numpy_function(with_leaves(node, names), tuple(names.values()))
        return np.asarray(function(*values.values()), dtype=self.dtype)


@lru_cache(maxsize=256)
def numpy_function(expression: sp.Expr, names: tuple[sp.Symbol, ...]) -> Callable[..., Value]:
    return sp.lambdify(names, expression, ["scipy", "numpy"])


@VECTORS.rule(Mean)
def _moment(run: VectorExecution, node: Mean) -> Number:
    value = run.value(node.args[0])
    return value if is_number(value) else float(np.mean(value))


@VECTORS.rule(Quantile)
def _quantile(run: VectorExecution, node: Quantile) -> Number:
    return float(Arrays("numpy", run.dtype).quantile(run.lifted(run.value(node.body), "vector"), float(node.share)))


@VECTORS.rule(HeadSum)
def _head_sum(run: VectorExecution, node: HeadSum) -> np.ndarray:
    """The constant matrix of a group of coordinates, for every group."""
    to, of = (np.arange(node.size) < (1 if first else node.size) for first in (node.first_written, node.first_read))
    groups = run.lifted(run.value(node.body), "vector").reshape(-1, node.coordinates)
    return (groups @ np.kron(np.outer(of, to), np.eye(node.apart))).ravel()


@VECTORS.rule(HeadTurn)
def _head_turn(run: VectorExecution, node: HeadTurn) -> np.ndarray:
    """The rotation of a head as a matrix, for every head."""
    angles, half = float(node.position) * np.array(node.angles), len(node.angles)
    turn = np.zeros((2 * half, 2 * half))
    for j, angle in enumerate(angles):
        turn[np.ix_([j, j + half], [j, j + half])] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return (run.lifted(run.value(node.body), "vector").reshape(-1, 2 * half) @ turn.T).ravel()


@VECTORS.rule(HeadTable)
def _head_table(run: VectorExecution, node: HeadTable) -> np.ndarray:
    each = table_entry(node.values, *map(int, node.positions)).repeat(node.head_dim)
    return np.tile(each, run.width // len(each))


@VECTORS.rule(NonlinearOuter)
def _nonlinear_outer(run: VectorExecution, node: NonlinearOuter) -> MatrixOperator:
    """phi of the n x n arrays u v^T, over n: nothing smaller holds it."""
    outers = {o: sp.Symbol(f"m{i}", real=True) for i, o in enumerate(sorted(node.atoms(Outer), key=default_sort_key))}
    phi = node.body.xreplace(outers)
    parameters = phi.free_symbols - set(outers.values())
    numbers = sorted(phi.atoms(Scalar, Mean) | parameters, key=default_sort_key)
    names = {number: sp.Symbol(f"x{i}", real=True) for i, number in enumerate(numbers)}
    function = numpy_function(phi.xreplace(names), (*outers.values(), *names.values()))
    arrays = (np.multiply.outer(*(run.lifted(run.value(v), "vector") for v in o.args)) for o in outers)
    entries = np.asarray(function(*arrays, *map(run.value, names)), dtype=np.float64)
    if not np.all(np.isfinite(entries)):
        assert run.statement is not None
        raise Divergence(f"program {run.program.name} diverges: {run.statement.target} is not finite")
    return MatrixOperator(full=((1.0, entries / run.width),))


@VECTORS.rule(NormRatio)
def _norm_ratio(run: VectorExecution, node: NormRatio) -> float:
    above, below = (np.sqrt(sum(np.sum(run.entries(run.value(one)) ** 2) for one in part))
                    for part in (node.above, node.below))
    return float(above / below)


@VECTORS.rule(Spectral)
def _spectral(run: VectorExecution, node: Spectral) -> MatrixOperator:
    """Outer products of the same vectors, whose weights are functions of their overlaps."""
    def outers(matrix: sp.Expr) -> Outers:
        return run.value(matrix).outers

    past = zip(*(map(outers, steps.args) for steps in node.past))
    left, right, _ = spectral_part(Arrays("numpy", run.dtype), node, [outers(one) for one in node.now], list(past))
    return MatrixOperator({}, tuple((run.numbers.of(1), u, v) for u, v in zip(left, right)))


@dataclass(frozen=True)
class ProgramRun(ProgramInterpreter):
    """A program's scalars and vectors at one width and seed; vectors: by member, shape (width,) each."""

    width: int
    vectors: Mapping[Vector, np.ndarray]
    execution: VectorExecution = field(repr=False)

    def vector(self, expression: sp.Expr) -> np.ndarray:
        """Any vector expression over the program's members, products with its matrices included, shape (width,)."""
        return self.execution.lifted(self.execution.value(symbolic(expression)), "vector")

    def bracket(self, u: sp.Expr, v: sp.Expr) -> float:
        """The average over coordinates of u v."""
        return float(np.mean(self.vector(u) * self.vector(v)))


def run_program(program: Program, sizes: Sizes, data: ProgramData = {}, width: int = 1024,
                seed: int = 0, loss: AnyLoss = "mse", progress: Callable[[int, int], None] | None = None) -> ProgramRun:
    """Run any program with real vectors of length ``width`` n and n x n matrices, in float64.

    Initial vectors have entries N(0, 1), initial matrices N(0, 1/n), drawn from ``seed`` and their names;
    ``Outer(u, v)`` is u v^T / n, kept as u and v; of a ``NonlinearOuter`` all n^2 entries are kept. sizes, data, loss:
    as in ``read_program_coefficients``; progress: called with (statements done, statements). A scalar differs from its
    limit by O(n^-1/2). Time O(K n^2) for K products with initial matrices and outer products inside functions.

    Raises ``UnhandledNode`` naming a statement, ``ValueError`` for data that does not fit, ``MemoryError`` before
    the work, ``Divergence`` naming the first value that is not finite. Source: Tensor Programs VI, appendix E.
    """
    n = _checks.positive_integer("width", width)
    run = VectorExecution(program, sizes, data, loss, n, seed)
    run.run(progress)
    return ProgramRun(program, run.of_kind("scalar"), n, run.of_kind("vector"), run)
