"""Many networks of a width at once, and what a mean over networks of width n differs from the limit by, times n.

A network of width n is a function Phi(P_n) of the empirical law of its coordinates. Weights that are not equal give it
other laws: the second derivative of Phi, in the direction of one coordinate, is what the fluctuation of P_n about P
adds to the mean, E Phi(P_n) = Phi(P) + E Phi''(x, x) / (2 n) + O(1/n^2). Of signs s_i, as many + as -, the second
difference of Phi at weights 1 + eps s_i, over eps^2, has this as its mean.

Updates of one size see the fluctuation f_0 of the first outputs at every width, and what it does alone is known. With
h(w, w') for weights w and first outputs that weights w' make, in loss derivatives, the second difference of h(w, w) -
h(1, w') has what is left as its mean: the bias of the rest, and how the rest fluctuates with first outputs.

Source: [tpcalc/finite_width].
"""

from __future__ import annotations

from collections import Counter
from functools import partial, reduce
from numbers import Number as AnyNumber
from operator import mul
from typing import Any, Callable, Mapping, Sequence

import numpy as np
import sympy as sp
from sympy.core.function import Application

from .._types import ProgramData, Sizes, Value
from ..data.losses import AnyLoss, derivative, loss_of
from ..lowering.array_backends import Arrays
from ..optimizers.spectral import Spectral
from ..programs.language import LossDerivative, Matrix, Mean, Scalar
from ..programs.program import Program
from ..programs.special import Mask
from .common_draws import Refinement, SharedDraws
from .drawn_products import NOTHING, DrawnProducts
from .execution import RULES, MatrixOperator, is_number, leaves, with_leaves
from .given import Number, require_heads
from .registry import Registry
from .spectral import Outers, spectral_part
from .vectors import numpy_function

NETWORKS = Registry("many networks", RULES)
EPS = 0.1  # of weights, whose fourth order is seen in EPS^2 / coordinates
SIGNS = np.array([[1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]])  # orthogonal to each other and to equal weights


@AnyNumber.register
class OfNetworks:
    """A number of every network, (networks, 1)."""

    __array_ufunc__ = None  # arrays leave products with it to it

    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    def __add__(self, other: Value) -> OfNetworks:
        return OfNetworks(self.value + values_of(other))

    def __mul__(self, other: Value) -> Value:
        if isinstance(other, MatrixOperator):
            return NotImplemented
        return self.value * other if isinstance(other, np.ndarray) else OfNetworks(self.value * values_of(other))

    __radd__, __rmul__ = __add__, __mul__


def values_of(one: Value) -> Value:
    """The values of a number, or of a vector, as NumPy takes them."""
    return one.value if isinstance(one, OfNetworks) else one


class ManyNetworks(DrawnProducts):
    """Vectors are arrays (networks, n), numbers (networks, 1).

    weights: of coordinates in averages, a row for every group of networks with the same draws, with a mean of 1: 1 for
    real networks; so many draws of width n."""

    registry = NETWORKS

    def __init__(self, program: Program, sizes: Sizes, data: ProgramData, loss: AnyLoss, weights: np.ndarray,
                 draws: int, seed: int) -> None:
        super().__init__(program, sizes, data, loss)
        self.rng, self.draws, self.weights = np.random.default_rng(seed), draws, np.repeat(weights, draws, axis=0)
        self.loss, self.shape = loss_of(loss) if isinstance(loss, str) else loss, self.weights.shape
        require_heads(program, self.shape[1])

    def drawn(self) -> np.ndarray:
        return self.of_groups(self.rng.standard_normal((self.draws, self.shape[1])))

    def of_groups(self, values: np.ndarray) -> np.ndarray:
        """Draws of one group, for every group."""
        return np.tile(values, (self.shape[0] // self.draws, 1))

    def against(self, bra: np.ndarray, vector: np.ndarray) -> OfNetworks:  # type: ignore[override]  # of every network
        return OfNetworks(np.einsum("ij,ij,ij->i", self.weights, bra, vector)[:, None] / self.shape[1])

    def combined(self, terms: Sequence[tuple[Number, np.ndarray]]) -> np.ndarray:
        return np.asarray(reduce(np.add, (c * vector for c, vector in terms)))

    def seen(self, node: LossDerivative, outputs: np.ndarray) -> np.ndarray:
        """Outputs, (networks, k), as a loss derivative sees them."""
        return outputs

    def new_part(self, rest: np.ndarray, vector: np.ndarray) -> tuple[Number, np.ndarray] | None:
        """What is new, with the sign that it has by the first weights, so that it does not turn where it passes through
        0; in a network with nothing new it is 0."""
        square, whole = self.against(rest, rest).value, self.against(vector, vector).value
        there = square > NOTHING * whole
        if not np.any(there):
            return None
        first = np.tile(rest[:self.draws], (len(rest) // self.draws, 1))
        size = np.sqrt(square) * np.where(np.einsum("ij,ij->i", first, rest) < 0, -1.0, 1.0)[:, None]
        return OfNetworks(size * there), rest * there / np.where(there, size, 1.0)  # type: ignore[return-value]

    def constant(self, value: Number) -> np.ndarray:
        return np.broadcast_to(np.asarray(values_of(value), dtype=np.float64), self.shape)

    def is_finite(self, value: Value) -> bool:
        return isinstance(value, MatrixOperator) or bool(np.all(np.isfinite(values_of(value))))

    def multiplied(self, node: sp.Expr, vectors: list[Value]) -> np.ndarray:
        return np.asarray(reduce(mul, vectors))

    def entrywise(self, node: sp.Expr, values: Mapping[sp.Expr, Value]) -> np.ndarray:
        return np.broadcast_to(self.function(node, values), self.shape)

    def function(self, node: sp.Expr, values: Mapping[sp.Expr, Value]) -> np.ndarray:
        """A function of numbers and vectors."""
        names = {leaf: sp.Symbol(f"x{i}", real=True) for i, leaf in enumerate(values)}
        function = numpy_function(with_leaves(node, names), tuple(names.values()))
        return np.asarray(function(*map(values_of, values.values())), dtype=np.float64)


class CommonNetworks(ManyNetworks):
    """Networks of the depth of a refinement, which share their draws with those of one seed at other depths."""

    def __init__(self, program: Program, sizes: Sizes, data: ProgramData, loss: AnyLoss, weights: np.ndarray,
                 draws: int, seed: int, refinement: Refinement) -> None:
        super().__init__(program, sizes, data, loss, weights, draws, seed)
        self.refinement, self.shared = refinement, SharedDraws(self.draws * self.shape[1], np.float64, (seed, 1))
        self.calls = Counter[tuple[Matrix, bool]]()

    def _product(self, c: Any, matrix: Matrix, turned: bool, vector: Value) -> list[tuple[Number, Value]]:
        self.calls[matrix, turned] += 1  # of all vectors, new or not, so that layers number theirs alike
        return super()._product(c, matrix, turned, vector)

    def drawn_image(self, matrix: Matrix, turned: bool) -> np.ndarray:
        key, level, layer = self.refinement.location(matrix, self.program.matrices)
        values = self.shared.row((*key, int(turned), self.calls[matrix, turned]), level, layer)
        return self.of_groups(values.reshape(self.draws, -1))


@NETWORKS.rule(Mean)
def _mean(run: ManyNetworks, node: Mean) -> Value:
    value = run.value(node.args[0])
    return value if is_number(value) else OfNetworks(np.mean(run.weights * value, axis=1, keepdims=True))


@NETWORKS.rule(LossDerivative)
def _loss_derivative(run: ManyNetworks, node: LossDerivative) -> OfNetworks:
    shape = run.shape[0], 1
    outputs = np.concatenate([np.broadcast_to(values_of(run.value(one)), shape) for one in node.outputs], axis=1)
    outputs = run.seen(node, outputs)
    targets: Value = (run.data.row("y", node.indices[:-1], outputs.shape[1]) if node.several
                      else run.data.at("y", node.indices))
    found = derivative(run.loss, outputs, np.broadcast_to(targets, outputs.shape))
    at = int(node.indices[-1]) if node.several else 0
    return OfNetworks(found[:, at:at + 1])


@NETWORKS.rule(sp.Pow, Application, Mask)
def _function(run: ManyNetworks, node: sp.Expr) -> Value:
    values = {leaf: run.value(leaf) for leaf in leaves(node)}
    if not all(map(is_number, values.values())):
        return run.entrywise(node, values)
    if not any(isinstance(value, OfNetworks) for value in values.values()):
        return run.numbers.of(float(run.function(node, values)), str(node))
    return OfNetworks(np.broadcast_to(run.function(node, values), (run.shape[0], 1)))


@NETWORKS.rule(Spectral)
def _spectral(run: ManyNetworks, node: Spectral) -> MatrixOperator:
    """Network by network: by weights averages are those of vectors times the roots of these."""
    roots = np.sqrt(run.weights)

    def outers(matrix: sp.Expr) -> list[Outers]:
        """The outer products of every network."""
        terms = [(np.broadcast_to(values_of(c), (len(roots), 1)), roots * u, roots * v)
                 for c, u, v in run.value(matrix).outers]
        return [[(float(c[k, 0]), u[k], v[k]) for c, u, v in terms] for k in range(len(roots))]

    now, past = [outers(one) for one in node.now], [[outers(one) for one in steps.args] for steps in node.past]
    found = [spectral_part(Arrays("numpy", np.float64), node, [one[k] for one in now],
                           [[one[k] for one in steps] for steps in zip(*past)])[:2] for k in range(len(roots))]
    most = max(len(left) for left, _ in found)
    left, right = (np.stack([np.pad(pair[side], ((0, most - len(pair[side])), (0, 0))) for pair in found]) /
                   roots[:, None, :] for side in (0, 1))
    return MatrixOperator({}, tuple((run.numbers.of(1), left[:, j], right[:, j]) for j in range(most)))


Outputs = Callable[[Mapping[Scalar, Any]], list[Value]]  # some of a program's scalars, which are given by member


class MovedFirstOutputs(ManyNetworks):
    """By equal weights in the first half and by others in the second, where loss derivatives of step 0 see, in both,
    what these weights move the first outputs by."""

    def seen(self, node: LossDerivative, outputs: np.ndarray) -> np.ndarray:
        if int(node.indices[0]) > 0:
            return outputs
        equal, by_weights = np.split(outputs, 2)
        return np.tile(by_weights - equal, (2, 1))


def networks_at_once(program: Program, sizes: Sizes, data: ProgramData, loss: AnyLoss, weights: np.ndarray, draws: int,
                     seed: int, outputs: Outputs, execution: Callable[..., ManyNetworks] = ManyNetworks) -> np.ndarray:
    """Outputs of networks by weights of coordinates (groups, n), the same draws for every group, (groups, draws, k).

    execution: of these networks. Raises ``UnhandledNode`` for statements that are not read here, ``Divergence`` for
    values that are not finite.
    """
    run = execution(program, sizes, data, loss, weights, draws, seed)
    run.run()
    values = [np.broadcast_to(values_of(one), (len(run.weights), 1)) for one in outputs(run.of_kind("scalar"))]
    return np.concatenate(values, axis=1).reshape(len(weights), draws, -1)


def sampled_bias(program: Program, sizes: Sizes, data: ProgramData, loss: AnyLoss, coordinates: int, draws: int,
                 seed: int, outputs: Outputs, refinement: Refinement | None = None) -> np.ndarray:
    """What every one of so many draws of ``coordinates`` says of the biases of k outputs, (draws, k), to be averaged.

    refinement: the depth as doublings of another, with which draws are shared. The mean is off by O(1/coordinates).
    Raises as ``networks_at_once``.
    """
    execution = ManyNetworks if refinement is None else partial(CommonNetworks, refinement=refinement)
    moves = _moves(coordinates)
    weights = 1 + np.concatenate([0 * moves[:1], moves])
    middle, *moved = networks_at_once(program, sizes, data, loss, weights, draws, seed, outputs, execution)
    return np.asarray((np.mean(moved, axis=0) - middle) * (coordinates / EPS**2))


def sampled_bias_of_update(program: Program, sizes: Sizes, data: ProgramData, loss: AnyLoss, coordinates: int,
                           draws: int, seed: int, outputs: Outputs) -> np.ndarray:
    """What every draw says of n (mean - E F) of k outputs after the first update, (draws, k), to be averaged: E F is
    the mean over the fluctuation of first outputs of what the update does at infinite width. Of first outputs, whose
    mean is 0, it is noise, which is in later ones, too. As ``sampled_bias``."""
    moves = _moves(coordinates)
    equal, by_weights = np.split(networks_at_once(program, sizes, data, loss, 1 + np.concatenate([0 * moves, moves]),
                                                  draws, seed, outputs, MovedFirstOutputs), 2)
    return np.asarray(np.mean(by_weights - equal, axis=0) * (coordinates / EPS**2))


def _moves(coordinates: int) -> np.ndarray:
    """What weights are moved by, (moves, coordinates)."""
    signs = EPS * np.repeat(SIGNS, coordinates // SIGNS.shape[1], axis=1)
    return np.concatenate([signs, -signs])
