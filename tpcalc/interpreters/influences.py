"""What every coordinate of a wide network adds to its outputs: covariances over initializations, by one pass back.

A network of width n is a function of averages over coordinates alone, once products with Gaussian matrices are drawn
one by one [gaussian/conditioning]: f_n = Phi(P_n), with P_n the empirical law of n independent coordinates. Its
derivative in the weight of a coordinate is that coordinate's influence psi, and n Cov(f_n) goes to Cov(psi). Adjoints
of all averages, found backward through the statements as in ``backpropagation``, give it: linear in the program.

Source: [tpcalc/finite_width]; the conditioned draws are those of ``conditioned_blocks``.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, Callable, Mapping, Sequence

import numpy as np
import sympy as sp
from sympy.core.function import Application

from .._types import ProgramData, Sizes, Value
from .._checks import symbolic
from ..data.losses import AnyLoss
from ..errors import NotCovered
from ..programs.language import LossDerivative, Mean, Scalar
from ..programs.special import Mask
from ..programs.program import Program
from .drawn_products import NOTHING, DrawnProducts
from .execution import RULES, MatrixOperator, is_number, leaves, with_leaves
from .given import Number
from .registry import Registry
from .vectors import numpy_function

INFLUENCES = Registry("influences of coordinates", RULES)
SLOPE = 1e-5     # in outputs, of central differences of a loss derivative
TOGETHER = 8     # outputs in one pass back, which takes an array for each of what was made

Partials = Sequence[tuple["Traced", Value]]  # what was read, and the derivative in it


class AdjointTape:
    """All that was computed, in order; n: coordinates."""

    def __init__(self, n: int) -> None:
        self.n, self.nodes = n, list[Traced]()

    def influences(self, outputs: list[Value]) -> np.ndarray:
        """psi of every output, (outputs, n)."""
        count = len(outputs)
        for node in self.nodes:
            node.adjoint = 0.0
        for k, one in enumerate(outputs):
            if isinstance(one, Traced):
                one.adjoint = one.adjoint + np.eye(count)[k]
        found = np.zeros((count, self.n))
        for node in reversed(self.nodes):
            if np.isscalar(node.adjoint):
                continue
            if isinstance(node, TracedAverage):
                found += np.multiply.outer(node.adjoint, node.left.value * node.right.value)
                for one, other in ((node.left, node.right), (node.right, node.left)):
                    one.adjoint = one.adjoint + np.multiply.outer(node.adjoint / self.n, other.value)
            for parent, slope in node.partials:
                parent.adjoint = parent.adjoint + parent.received(node.adjoint, slope)
            node.adjoint = 0.0
        return found - found.mean(axis=1, keepdims=True)


class Traced:
    """What was computed, with its derivatives."""

    tape: AdjointTape
    partials: Partials
    adjoint: Value

    def _keep(self, tape: AdjointTape, partials: Partials) -> None:
        self.tape, self.partials, self.adjoint = tape, partials, 0.0
        tape.nodes.append(self)

    def received(self, adjoint: np.ndarray, slope: Value) -> np.ndarray:
        """What the adjoint of a function makes of this one's."""
        raise NotImplementedError


class TracedNumber(float, Traced):
    """A number, which averages over coordinates decide."""

    @staticmethod
    def of(value: float, partials: Partials, tape: AdjointTape) -> TracedNumber:
        found = TracedNumber(value)
        found._keep(tape, partials)
        return found

    def received(self, adjoint: np.ndarray, slope: Value) -> np.ndarray:
        return np.asarray(adjoint @ slope if adjoint.ndim == 2 else adjoint * slope)

    def __add__(self, other: Value) -> Value:
        partials = [(self, 1.0)] + ([(other, 1.0)] if isinstance(other, TracedNumber) else [])
        return TracedNumber.of(float(self) + float(other), partials, self.tape)

    def __mul__(self, other: Value) -> Value:
        if isinstance(other, (TracedVector, MatrixOperator)):
            return NotImplemented
        partials = [(self, float(other))] + ([(other, float(self))] if isinstance(other, TracedNumber) else [])
        return TracedNumber.of(float(self) * float(other), partials, self.tape)

    __radd__, __rmul__ = __add__, __mul__

    def power(self, exponent: float) -> TracedNumber:
        value = float(self)
        return TracedNumber.of(value**exponent, [(self, exponent * value ** (exponent - 1))], self.tape)


class TracedAverage(TracedNumber):
    """<u|v>, an average over coordinates, which have their influence here."""

    left: TracedVector
    right: TracedVector

    @staticmethod
    def between(left: TracedVector, right: TracedVector) -> TracedAverage:
        found = TracedAverage(left.value @ right.value / left.tape.n)
        found.left, found.right = left, right
        found._keep(left.tape, [])
        return found


class TracedVector(Traced):
    """A vector of n coordinates."""

    def __init__(self, tape: AdjointTape, value: np.ndarray, partials: Partials) -> None:
        self.value = value
        self._keep(tape, partials)

    def received(self, adjoint: np.ndarray, slope: Value) -> np.ndarray:
        return np.asarray(adjoint * slope)

    def __add__(self, other: TracedVector) -> TracedVector:
        return combined([(1.0, self), (1.0, other)])

    def __rmul__(self, factor: float) -> TracedVector:
        return combined([(factor, self)])

    def times(self, other: TracedVector) -> TracedVector:
        return TracedVector(self.tape, self.value * other.value, [(self, other.value), (other, self.value)])


def combined(terms: Sequence[tuple[Number, TracedVector]]) -> TracedVector:
    """A sum of vectors times numbers."""
    partials: list[tuple[Traced, Value]] = [(vector, float(c)) for c, vector in terms]
    partials += [(c, vector.value) for c, vector in terms if isinstance(c, TracedNumber)]
    value = sum(float(c) * vector.value for c, vector in terms)
    return TracedVector(terms[0][1].tape, np.asarray(value), partials)


class InfluenceExecution(DrawnProducts):
    """Vectors and numbers remember what they were made of; of matrices products are known."""

    registry = INFLUENCES

    def __init__(self, program: Program, sizes: Sizes, data: ProgramData, loss: AnyLoss, width: int, seed: int) -> None:
        super().__init__(program, sizes, data, loss)
        self.tape, self.rng = AdjointTape(width), np.random.default_rng(seed)
        self.ones = TracedVector(self.tape, np.ones(width), [])

    def drawn(self) -> TracedVector:
        return TracedVector(self.tape, self.rng.standard_normal(self.tape.n), [])

    def against(self, bra: TracedVector, vector: TracedVector) -> TracedAverage:
        return TracedAverage.between(bra, vector)

    def combined(self, terms: Sequence[tuple[Number, TracedVector]]) -> TracedVector:
        return combined(terms)

    def new_part(self, rest: TracedVector, vector: TracedVector) -> tuple[Number, TracedVector] | None:
        square = self.against(rest, rest)
        if float(square) <= NOTHING * float(np.mean(vector.value**2)):
            return None
        return square.power(0.5), combined([(square.power(-0.5), rest)])

    def constant(self, value: Number) -> TracedVector:
        return combined([(float(value) if not isinstance(value, TracedNumber) else value, self.ones)])

    def is_finite(self, value: Value) -> bool:
        return isinstance(value, MatrixOperator) or bool(np.all(np.isfinite(
            value.value if isinstance(value, TracedVector) else value)))

    def multiplied(self, node: sp.Expr, vectors: list[Value]) -> TracedVector:
        return reduce(TracedVector.times, vectors)

    def entrywise(self, node: sp.Expr, values: Mapping[sp.Expr, Value]) -> TracedVector:
        names = {leaf: sp.Symbol(f"x{i}", real=True) for i, leaf in enumerate(values)}
        of = with_leaves(node, names)
        arguments = [one.value if isinstance(one, TracedVector) else float(one) for one in values.values()]

        def function(expression: sp.Expr) -> np.ndarray:
            found = numpy_function(expression, tuple(names.values()))(*arguments)
            return np.broadcast_to(np.asarray(found, dtype=np.float64), self.tape.n)

        partials: Partials = [(one, function(slope_of(of, names[leaf]))) for leaf, one in values.items()
                              if isinstance(one, Traced)]
        return TracedVector(self.tape, function(of), partials)


def slope_of(expression: sp.Expr, name: sp.Symbol) -> sp.Expr:
    """The derivative; of a jump it is a density, which no sample has: that raises ``NotCovered``."""
    slope = sp.diff(expression, name)
    if slope.has(sp.DiracDelta):
        raise NotCovered(f"{expression}: it jumps, as derivatives of functions with kinks do, and what an average of "
                         "it changes by is the density at the jump; expected smooth functions")
    return slope


@INFLUENCES.rule(Mean)
def _mean(run: InfluenceExecution, node: Mean) -> Number:
    value = run.value(node.args[0])
    return value if is_number(value) else TracedAverage.between(value, run.constant(1.0))


@INFLUENCES.rule(LossDerivative)
def _loss_derivative(run: InfluenceExecution, node: LossDerivative) -> Number:
    values, location = [run.value(one) for one in node.outputs], node.indices

    def loss(outputs: np.ndarray) -> float:
        if not node.several:
            return float(run.data.loss(float(outputs[0]), run.data.at("y", location)))
        return float(run.data.loss(outputs, run.data.row("y", location[:-1], len(outputs)))[int(location[-1])])

    at = np.array(values, dtype=float)
    nearby = SLOPE * np.eye(len(at))
    partials: Partials = [(one, (loss(at + step) - loss(at - step)) / (2 * SLOPE))
                          for one, step in zip(values, nearby) if isinstance(one, Traced)]
    return TracedNumber.of(loss(at), partials, run.tape)


@INFLUENCES.rule(sp.Pow, Application)
def _function(run: InfluenceExecution, node: sp.Expr) -> Value:
    values = {leaf: run.value(leaf) for leaf in leaves(node)}
    if not all(map(is_number, values.values())):
        return run.entrywise(node, values)
    numbers = {leaf: symbolic(float(value)) for leaf, value in values.items()}
    result = float(run.numbers.of(with_leaves(node, numbers), str(node)))
    if not any(isinstance(value, Traced) for value in values.values()):
        return result
    names = {leaf: sp.Symbol(f"x{i}", real=True) for i, leaf in enumerate(values)}
    at = {names[leaf]: number for leaf, number in numbers.items()}
    partials: Partials = [(value, float(slope_of(with_leaves(node, names), names[leaf]).xreplace(at)))
                          for leaf, value in values.items() if isinstance(value, Traced)]
    return TracedNumber.of(result, partials, run.tape)


INFLUENCES.refuse("what is chosen jumps, and has no derivative in averages", Mask)


def influence_covariance(program: Program, sizes: Sizes, data: ProgramData, loss: AnyLoss, samples: int, seed: int,
                         outputs: Callable[[Mapping[Scalar, Any]], list[Value]]) -> np.ndarray:
    """The covariance (k, k) of the influences of ``samples`` coordinates on k outputs of a program.

    outputs: picks these from the program's scalars by member. Off by O(samples^(-1/2)). Raises ``UnhandledNode`` for
    statements that are no functions of averages and of coordinates, ``Divergence`` for values that are not finite.
    """
    run = InfluenceExecution(program, sizes, data, loss, samples, seed)
    run.run()
    wanted = outputs(run.of_kind("scalar"))
    found = np.concatenate([run.tape.influences(wanted[at:at + TOGETHER]) for at in range(0, len(wanted), TOGETHER)])
    return np.asarray(found @ found.T / samples)
