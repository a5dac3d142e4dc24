"""A program run at any finite width: Gaussian matrices are sampled through their products, exactly in law."""

from __future__ import annotations

from typing import Callable, Collection

import numpy as np
import sympy as sp
from sympy.core.sorting import default_sort_key

from tpcalc._types import DType, ProgramData, Sizes, Value
from tpcalc import _checks
from tpcalc.lowering.array_backends import precision
from tpcalc.data.losses import AnyLoss
from tpcalc.programs.language import Matrix, Mean, NonlinearOuter, Outer, Scalar, Vector
from tpcalc.programs.special import NormRatio
from tpcalc.programs.program import Assign, Program
from tpcalc.interpreters.conditioned_blocks import Block, BlockMatrix, BlockProducts, OrthonormalBlock
from reference.conditioned_needs import last_reads, most_vectors, products
from reference.entry_functions import EntryFunction
from tpcalc.lowering.rank_one import separated, split_outer_products
from tpcalc.interpreters.execution import MatrixOperator
from tpcalc.interpreters.given import Number
from tpcalc.interpreters.lowered_conditioned import ADVICE
from tpcalc.interpreters.registry import Registry
from tpcalc.interpreters.vectors import VECTORS, ProgramRun, VectorExecution

CONDITIONED = Registry("run_conditioned", VECTORS)
CONDITIONED.refuse("of a matrix only products are known, no norms", NormRatio)


class ConditionedInterpreter(VectorExecution):
    """Vectors are arrays of length n; of a matrix only products are known.

    keep: names of the families of vectors that are kept to the end, or "all", which keeps trained matrices and products
    too; others are forgotten when the last statement that reads them is done.
    """

    registry = CONDITIONED
    rows_per_product = 2  # a basis vector and its image
    unit, advice = "width {}", ADVICE  # what coordinates are in messages

    def __init__(self, program: Program, sizes: Sizes, data: ProgramData, loss: AnyLoss, width: int,
                 seed: int, dtype: type = np.float64, keep: str | Collection[str] = "all") -> None:
        self.dtype, self.keep = dtype, keep
        super().__init__(program, sizes, data, loss, width, seed)

    def require_memory(self) -> None:
        self.factors: dict[sp.Expr, np.ndarray] = {}
        self.statements = tuple(Assign(s.target, separated(s.value)) for s in self.statements)
        names = kept_names(self.statements, self.keep)
        ends = last_reads(self.statements, lambda member: member.name in names)
        self._ends = {s.target: ending for s, ending in zip(self.statements, ends)}
        self.met = products(self.statements)
        self.closed = False
        products_made, row = sum(self.met.values()), float(np.dtype(self.dtype).itemsize) * self.width
        self.needed = row * (self.rows_per_product * products_made + most_vectors(self.statements, ends))
        self.left = self.needed if self.keep == "all" else row * sum(s.target.name in names for s in self.statements)
        self.what = f"program {self.program.name} with {products_made} products of {self.unit.format(self.width)}"
        _checks.memory(self.needed, self.what, self.advice)

    def after(self, statement: Assign) -> None:
        for member in self._ends[statement.target]:
            if not self.given(member, self.program.vectors):  # they would be drawn again
                self.assigned.pop(member, None)

    def initial_vector(self, vector: Vector) -> np.ndarray:
        return self.normal(vector, (self.width,)).astype(self.dtype)

    def product(self, matrix: Matrix, turned: bool, expression: sp.Expr, vector: np.ndarray, bra: Value) -> np.ndarray:
        if matrix not in self.matrices:
            if self.closed:
                raise ValueError(f"{matrix}: its products were not kept; expected those of runs with keep='all'")
            self.matrices[matrix] = self.unmet(matrix)
        return self.matrices[matrix].product(turned, vector[None])[0]

    def unmet(self, matrix: Matrix) -> BlockMatrix:
        """A matrix before its first product."""
        generator = self.generator(matrix)

        def draw(shunned: OrthonormalBlock, number: int) -> np.ndarray:
            return shunned.split(generator.standard_normal((number, self.width), dtype=self.dtype))[1]

        one, two = (BlockProducts(basis, image, basis) for basis, image in zip(*self.rooms(matrix)))
        return BlockMatrix(draw, (one, two))

    def factor(self, expression: sp.Expr) -> np.ndarray:
        """A vector of an outer product inside a function: the updates of all later steps read it again."""
        if expression not in self.factors:
            self.factors[expression] = self.lifted(self.value(expression), "vector")
        return self.factors[expression]

    def rooms(self, matrix: Matrix) -> tuple[list[OrthonormalBlock], list[Block]]:
        """Empty, for what a matrix and its transpose meet, and for what they make of it."""
        room = self.width, self.dtype, self.met[matrix]
        return [OrthonormalBlock(*room) for _ in (0, 1)], [Block(*room) for _ in (0, 1)]

    def result(self) -> ProgramRun:
        """The reading of a run that is done; what was not asked to be kept is let go."""
        if self.keep != "all":
            self.closed, self.matrices, self.factors = True, {}, {}
        return ProgramRun(self.program, self.of_kind("scalar"), self.width, self.of_kind("vector"), self)


@CONDITIONED.rule(NonlinearOuter)
def _nonlinear_outer(run: ConditionedInterpreter, node: NonlinearOuter) -> MatrixOperator:
    """What it takes to evaluate the entries again for every product."""
    phi, sums = split_outer_products(node.body)
    numbers = sorted(phi.atoms(Scalar, Mean) | (phi.free_symbols - set(sums)), key=default_sort_key)
    names = {number: sp.Symbol(f"x{i}", real=True) for i, number in enumerate(numbers)}

    def term(number: sp.Expr, outer: Outer) -> tuple[Number, np.ndarray, np.ndarray]:
        return run.value(number), run.factor(outer.left), run.factor(outer.right)

    matrix = EntryFunction(phi.xreplace(names), (*names.values(), *sums), tuple(map(run.value, names)),
                           tuple(tuple(term(*one) for one in terms) for terms in sums.values()))
    return MatrixOperator(full=((run.numbers.of(1), matrix),))


def kept_names(statements: Collection[Assign], keep: str | Collection[str]) -> frozenset[str]:
    """The names of families of vectors to keep; raises ``ValueError`` for those that are not assigned."""
    names = {s.target.name for s in statements if isinstance(s.target, Vector)}
    if isinstance(keep, str) and keep == "all":
        return frozenset(s.target.name for s in statements)
    if isinstance(keep, str) or not set(keep) <= names:
        raise ValueError(f"keep: got {keep!r}; expected 'all' or some of the names {sorted(names)}")
    return frozenset(keep)


def run_conditioned(program: Program, sizes: Sizes, data: ProgramData = {}, width: int = 1024,
                    seed: int = 0, loss: AnyLoss = "mse", dtype: DType = "float64",
                    keep: str | Collection[str] = "all",
                    progress: Callable[[int, int], None] | None = None) -> ProgramRun:
    """Run any program at width n as ``run_program`` does, without n x n matrices: equal in law, not draw by draw.

    An initial matrix W with entries N(0, 1/n) is met only through its products. Given those made so far, W p for a new
    direction p is known on what the transpose has met, <q|W p> = <W^T q|p>, and N(0, 1) beyond: exact at every n. Time
    and memory O(n K) a product, K the products with one matrix; trained matrices are the initial one and a list of
    outer products. A ``NonlinearOuter``, the update of SignSGD, Lion and Adam, is evaluated again for every product, in
    blocks of rows: O(n^2) a product and step before it, O(n) where it is of rank one (SignSGD on one sample).

    sizes, data, loss: as in ``read_program_coefficients``. dtype: "float32" or "float64". keep: names of the families
    of vectors to keep in ``vectors``, or "all" (products and trained matrices too, so that any expression can be asked
    for afterwards); the others are forgotten after their last use. Initial vectors are those of ``run_program`` with
    the same seed. progress: called with (statements done, statements).

    Raises ``UnhandledNode`` naming a statement, ``ValueError`` for data that does not fit, ``MemoryError`` before the
    work, ``Divergence`` naming the first value that is not finite (of a trained matrix: in its first product).
    Source: conditioning of Gaussian vectors [gaussian/conditioning]; Tensor Programs VI, appendix E
    [tensor_programs_vi/nonlinear_outer_product].
    """
    n = _checks.positive_integer("width", width)
    run = ConditionedInterpreter(program, sizes, data, loss, n, seed, precision(dtype), keep)
    run.run(progress)
    return run.result()
