"""The coefficients of any linear program: exact at infinite width, in floats or in rationals.

Source: Tensor Programs VI, Definition C.1 [tensor_programs_vi/definition_c1], Lemma D.1 [tensor_programs_vi/lemma_d1]
and appendix F, without anything that is special to one network.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Iterable, Mapping

import numpy as np
import sympy as sp

from .._types import ProgramData, Sizes, Value
from ..errors import NotCovered
from ..data.losses import AnyLoss
from .. import _checks
from .._checks import symbolic
from ..calculus.kets import Dot, Hat
from ..programs.by_position import HeadTable, HeadTurn
from ..programs.language import HeadSum, Matrix, MatVec, Mean, NonlinearOuter, Transpose, Vector, kind
from ..optimizers.spectral import Spectral
from ..programs.special import Mask, NormRatio, Quantile
from ..programs.program import Program
from .execution import RULES, Execution, MatrixOperator, ProgramInterpreter, is_number
from .given import Number
from .kets import KetVector, Space
from .registry import Registry

KETS = Registry("read_program_coefficients", RULES)
LINEAR_ALONE = "not linear, and coefficients are those of linear programs; run_program takes it"
ONE = sp.S.One  # the constant vector, as a base ket: a mean is a bracket with it


class _Kets(Execution):
    """An interpreter of programs whose vectors are kets."""

    registry = KETS

    def __init__(self, program: Program, sizes: Sizes, data: ProgramData, loss: AnyLoss, exact: bool) -> None:
        super().__init__(program, sizes, data, loss, exact)
        self.space = Space(self.numbers.dtype)
        self.complete = False
        products = sum(len(s.value.atoms(MatVec)) for s in self.statements)
        _checks.memory(16.0 * products * products, f"program {program.name} with {products} products",
                       "take fewer steps or layers")

    def bra(self, vector: KetVector) -> np.ndarray:
        return self.space.bra(vector)

    def against(self, bra: np.ndarray, vector: KetVector) -> Number:
        c = vector.coefficients
        return self.numbers.of(bra[:len(c)] @ c)

    def initial_vector(self, vector: Vector) -> KetVector:
        return self.space.base(vector)

    def product(self, matrix: Matrix, turned: bool, expression: sp.Expr, vector: KetVector,
                bra: np.ndarray) -> KetVector:
        name = Hat(MatVec(Transpose(matrix) if turned else matrix, expression))
        if self.complete and name not in self.space.names:
            raise NotCovered(f"{name.vector} is not a product that program {self.program.name} makes")
        return self.space.hat(name, matrix, turned, vector, bra) + self.space.dot(matrix, turned, vector)

    def constant(self, value: Number) -> KetVector:
        return value * self.space.base(ONE) if value else KetVector(np.zeros(0, dtype=self.space.dtype))

    def is_finite(self, value: Value) -> bool:
        if self.numbers.exact or isinstance(value, MatrixOperator):
            return True  # rationals always are, and a matrix is made of what was looked at
        return bool(np.all(np.isfinite(value.coefficients if isinstance(value, KetVector) else value)))

    def multiplied(self, node: sp.Expr, vectors: list[Value]) -> KetVector:
        self.refuse(node, f"a product of vectors is {LINEAR_ALONE}")

    def entrywise(self, node: sp.Expr, values: Mapping[sp.Expr, Value]) -> KetVector:
        self.refuse(node, f"this function of a vector is {LINEAR_ALONE}")


KETS.refuse("its update is a matrix of full rank, and coefficients are those of linear programs; run_program takes it",
            NonlinearOuter)
KETS.refuse("its weights are functions of whole Gram matrices, and coefficients are those of linear programs; "
            "run_program takes it", Spectral)
KETS.refuse("what it compares may tie at infinite width; run_program takes it", Mask, Quantile)
KETS.refuse("it sums over the coordinates of a head, of which coefficients know one; run_program takes it", HeadSum)
KETS.refuse("it knows coordinates of a head, of which coefficients know one; run_program takes it", HeadTurn, HeadTable)
KETS.refuse("coefficients are those of infinite width, where ratios of norms are 1; at_infinite_width leaves them out",
            NormRatio)


@KETS.rule(Mean)
def _moment(run: _Kets, node: Mean) -> Number:
    return _mean(run, node.args[0])


def _mean(run: _Kets, node: sp.Expr) -> Number:
    """The mean of a polynomial of degree at most 2 in vectors: brackets, and brackets with the constant 1."""
    if kind(node) == "scalar":
        return run.value(node)
    if isinstance(node, sp.Add):
        return sum((_mean(run, part) for part in node.args), run.numbers.of(0))
    factors: list[sp.Expr] = []
    for factor in sp.Mul.make_args(node):
        is_power = isinstance(factor, sp.Pow) and factor.exp.is_Integer and factor.exp > 0
        factors += [factor.base] * int(factor.exp) if is_power else [factor]
    scalar, vectors = run.numbers.of(1), []
    for factor in factors:
        value = run.value(factor)
        if is_number(value):
            scalar = scalar * value
        else:
            vectors.append(value)
    if len(vectors) > 2:
        run.refuse(node, "a mean of more than two vectors multiplied is not linear algebra; run_program takes it")
    left, right = vectors if len(vectors) == 2 else (vectors[0], run.constant(run.numbers.of(1)))
    return scalar * run.against(run.bra(left), right)


@KETS.rule(Hat)
def _hat(run: _Kets, node: Hat) -> KetVector:
    if node not in run.space.names:
        raise NotCovered(f"{node}: program {run.program.name} does not make that product")
    return run.space.base(node)


@KETS.rule(Dot)
def _dot(run: _Kets, node: Dot) -> KetVector:
    return run.value(node.vector) + (-1) * run.value(Hat(node.vector))


@dataclass(frozen=True)
class ProgramCoefficients(ProgramInterpreter):
    """A linear program's scalars and kets at infinite width.

    scalars: by member, floats or ``fractions.Fraction``; bases: the base kets in the order in which they arose:
    initial vectors, ``Hat(W y)`` for products with initial matrices, the number 1 for the constant vector;
    vectors: the members that have kets, initial or assigned.
    """

    bases: tuple[sp.Expr, ...]
    vectors: tuple[Vector, ...]
    execution: _Kets = field(repr=False)

    @property
    def covariance(self) -> np.ndarray:
        """The covariance of the base kets, shape (bases, bases)."""
        return self.execution.space.covariance()

    def ket(self, vector: sp.Expr) -> np.ndarray:
        """The coefficients over ``bases``, shape (bases,), of a vector of the program, a combination of such, a
        product ``MatVec(W, y)`` that it makes, or its parts ``Hat(MatVec(W, y))`` and ``Dot(MatVec(W, y))`` with W
        initial. Raises ``ValueError`` for a product that the program does not make."""
        c: np.ndarray = np.zeros(len(self.bases), dtype=self.execution.space.dtype)
        found = self._ket(vector).coefficients
        c[:len(found)] = found
        return c

    def value(self, expression: sp.Expr) -> np.ndarray:
        """The coefficients of a vector expression, as ``ket`` gives them, or a scalar expression's number, shape ()."""
        found = self.execution.value(symbolic(expression))
        return np.asarray(found) if is_number(found) else self.ket(expression)

    def bracket(self, u: sp.Expr, v: sp.Expr) -> Number:
        """<u|v> of what ``ket`` takes."""
        return self.execution.against(self.execution.bra(self._ket(u)), self._ket(v))

    def with_products(self, products: Iterable[MatVec]) -> "ProgramCoefficients":
        """The reading with base kets for these products of initial matrices too. A program does not make a product
        whose coefficient happens to be zero, as where weights decay at once."""
        self.execution.complete = False
        for made in products:
            self.execution.value(made)
        self.execution.complete = True
        return replace(self, bases=tuple(self.execution.space.names))

    def _ket(self, vector: sp.Expr) -> KetVector:
        return self.execution.lifted(self.execution.value(symbolic(vector)), "vector")


def read_program_coefficients(program: Program, sizes: Sizes, data: ProgramData = {},
                              loss: AnyLoss = "mse", exact: bool = False) -> ProgramCoefficients:
    """Evaluate a program whose vectors are linear in its matrices, exactly at infinite width.

    sizes: of the program's size symbols (or their names). data: by name, its given scalars (an array over their
    indices, or a number), its parameters such as alpha, and the targets "y" where a loss is derived; rationals may be
    given as strings such as "4/5". loss: chi(f, y), or a loss as ``tp.Task`` takes it. exact: compute in rationals (a
    float 0.1 is read as 1/10); identities that then hold are proved for these sizes and data.

    Any number of matrices, reused or not, and of transposes; time O(K^2 G) and memory O(K^2) for K products, of which
    at most G with one matrix. Raises ``UnhandledNode`` for what is not linear, naming the statement, ``ValueError``
    for data that does not fit or is not rational where ``exact``, ``Divergence`` naming the first value that is not
    finite. Source: Tensor Programs VI, Definition C.1 [tensor_programs_vi/definition_c1] and appendix F.
    """
    run = _Kets(program, sizes, data, loss, exact)
    run.run()
    run.space.base(ONE)  # so that any mean can be asked for
    for vector in program.vectors:
        if all(index.is_number for index in vector.indices):
            run.value(vector)
    run.complete = True
    vectors = tuple(run.of_kind("vector"))
    return ProgramCoefficients(program, run.of_kind("scalar"), tuple(run.space.names), vectors, run)
