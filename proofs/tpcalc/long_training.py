"""How the product of all layers moves: what neighbors keep, and the mean of powers that is left at infinite depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

import numpy as np
import sympy as sp
from scipy.integrate import quad

from tpcalc.horizon import OutputCurve
from tpcalc.horizon.end_to_end import velocity
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Proof, Rate
from tpcalc.ledger.proof import Identity

from ._steps import InTheLimit, PutIn

ABOVE, UPPER, LOWER, BELOW, PULL = (sp.Symbol(name, commutative=False) for name in ("A", "W_{l+1}", "W_l", "B", "G"))
OF_UPPER, OF_LOWER = sp.Symbol(r"\partial_t (W_{l+1}^\top W_{l+1})"), sp.Symbol(r"\partial_t (W_l W_l^\top)")
UPPER_MOVES, LOWER_MOVES = (sp.Symbol(rf"\partial_t {layer}", commutative=False) for layer in (UPPER, LOWER))
MEAN, IN_THE_LIMIT = sp.Symbol(r"\kappa^L_{ij}"), sp.Symbol(r"\kappa_{ij}")
FIRST, SECOND, DEPTH, LAYER = sp.symbols("a b L l", positive=True)
DEPTHS, SMALL = (16, 32, 64, 128), 1e-3


def moved_by(above: sp.Expr, below: sp.Expr) -> sp.Expr:
    """What a layer moves by, of what stands above and below it."""
    return sp.transpose(above) * PULL * sp.transpose(below) / DEPTH


def changes() -> tuple[sp.Expr, sp.Expr]:
    """What W^T W of the layer above changes by, and W W^T of the one below it."""
    return (sp.transpose(UPPER) * UPPER_MOVES + sp.transpose(UPPER_MOVES) * UPPER,
            LOWER_MOVES * sp.transpose(LOWER) + LOWER * sp.transpose(LOWER_MOVES))


def power(layer: sp.Expr) -> sp.Expr:
    """What layers above and below one do to an entry of G, of the squares of singular values of all of them."""
    return FIRST ** ((DEPTH - layer) / DEPTH) * SECOND ** ((layer - 1) / DEPTH)


@dataclass(frozen=True)
class Telescoped(Identity):
    """A step from a sum over layers to what is left of it where every term is a difference of neighbors."""

    def check(self) -> bool:
        roots = FIRST ** (1 / DEPTH), SECOND ** (1 / DEPTH)

        def reached(layer: sp.Expr) -> sp.Expr:
            return -roots[0] * power(layer) / (roots[0] - roots[1])

        (term, (layer, first, last)), = (one.args for one in self.before.atoms(sp.Sum))
        total = reached(last + 1) - reached(first)
        return bool(sp.simplify(reached(layer + 1) - reached(layer) - term) == 0 and sp.simplify(
            self.before.xreplace({sp.Sum(term, (layer, first, last)): total}) - self.after) == 0)


def statement() -> Equations:
    outer = sp.transpose(ABOVE * UPPER) * PULL * sp.transpose(LOWER * BELOW) / DEPTH
    both = outer + sp.transpose(outer)
    mean = (FIRST - SECOND) / (DEPTH * (FIRST ** (1 / DEPTH) - SECOND ** (1 / DEPTH)))
    ratio = sp.log(FIRST) - sp.log(SECOND)
    return Equations((Equation(OF_UPPER, both), Equation(OF_LOWER, both), Equation(MEAN, mean),
                      Equation(IN_THE_LIMIT, FIRST / ratio + SECOND / -ratio)))


def derive() -> Proof:
    upper, lower, mean, limit = (equation.value for equation in statement().equations)
    said = "a layer moves by what is above and below it, transposed, and its neighbor is a part of one of them"
    known = (UPPER_MOVES, moved_by(ABOVE, LOWER * BELOW)), (LOWER_MOVES, moved_by(ABOVE * UPPER, BELOW))
    layers = sp.Sum(power(LAYER), (LAYER, 1, DEPTH)) / DEPTH
    steps = (PutIn(1, OF_UPPER, changes()[0], upper, "both layers move", said, known=known),
             PutIn(2, OF_LOWER, changes()[1], lower, "both layers move", said, known=known),
             Telescoped(3, MEAN, layers, mean, "telescoping sum", "neighbors that keep what they are away from each "
                        "other, which is nothing at first, have the same singular values: roots of those of M"),
             InTheLimit(4, IN_THE_LIMIT, mean, limit, "limit", "L grows"))
    return Proof(steps, numbers, "layers that move, sums over layers, and integrals, at random numbers")


def value(expression: sp.Expr, known: Mapping[sp.Symbol, Any]) -> Any:
    """Sums and products of matrices and their transposes, in the order in which they are written."""
    if expression in known:
        return known[expression]
    if expression.is_Add:
        return sum(value(term, known) for term in expression.args)
    if expression.is_Mul:
        first, *rest = (value(factor, known) for factor in expression.args)
        for factor in rest:
            first = first * factor if np.ndim(first) == 0 or np.ndim(factor) == 0 else first @ factor
        return first
    if isinstance(expression, sp.transpose):
        return value(expression.args[0], known).T
    return float(expression.subs(DEPTH, known[DEPTH]))


def numbers(rng: np.random.Generator) -> float:
    """What three layers change by a small step to both sides, and means of powers by sums and quadrature."""
    above, upper, lower, below, pull = rng.normal(size=(5, 3, 3))
    put = {ABOVE: above, UPPER: upper, LOWER: lower, BELOW: below, PULL: pull, DEPTH: 3.0}
    upper_moves = above.T @ pull @ (lower @ below).T / 3
    lower_moves = (above @ upper).T @ pull @ below.T / 3
    moved = [(upper + sign * SMALL * upper_moves, lower + sign * SMALL * lower_moves) for sign in (1, -1)]
    made = [(one.T @ one, two @ two.T) for one, two in moved]
    a, b, depth = *rng.uniform(0.5, 4.0, 2), int(rng.integers(2, 9))
    means = (sum(a ** (1 - l / depth) * b ** ((l - 1) / depth) for l in range(1, depth + 1)) / depth,
             quad(lambda s: a ** (1 - s) * b**s, 0, 1, epsabs=1e-13)[0])
    worst = max(abs(mean / float(equation.value.subs({FIRST: a, SECOND: b, DEPTH: depth})) - 1)
                for mean, equation in zip(means, statement().equations[2:]))
    for equation, plus, minus in zip(statement().equations, *made):
        said = value(equation.value, put)
        worst = max(worst, float(np.max(np.abs((plus - minus) / (2 * SMALL) - said)) / np.max(np.abs(said))))
    return worst


def evidence() -> Evidence:
    """Layers that are moved one by one, a small step at a time, and the curve at finite and infinite depth."""
    rng, depth, step = np.random.default_rng(0), 6, 1e-5
    pull, root = rng.normal(size=(3, 3)), np.eye(3)
    layers = [root + step * pull / depth] * depth
    moved = (np.linalg.matrix_power(layers[0], depth) - root) / step
    error = float(np.max(np.abs(moved - velocity(root, pull, depth))))
    limit = OutputCurve(1.0).at_values(np.array(1.0))
    distances = tuple(float(abs(OutputCurve(1.0, size).at_values(np.array(1.0)).z - limit.z)) for size in DEPTHS)
    return Evidence((MeasuredNumber("first step of six layers, against the equation", error, step * 10, 0.0),),
                    (Rate("z at output 1, at finite depth and in the limit", "L", 1.0, DEPTHS, distances,
                          allowance=0.1),))


ENTRY = Entry(
    key="tpcalc/long_training",
    kind="proposition",
    title="the product of all layers moves by itself",
    source="tpcalc (new)",
    says="$\\alpha > 1/2$, $\\gamma = 1 - \\alpha$, frozen embedding and readout: initial matrices are nothing in the "
         "limit, and layers $W_l = 1 + A_l / L$ start at 1. Under gradient flow a layer moves by $A^\\top G B^\\top / "
         "L$, $A$ and $B$ the products above and below it and $G = -\\partial \\mathcal{L} / \\partial M$. Neighbors "
         "keep $W_{l+1}^\\top W_{l+1} = W_l W_l^\\top$, so that products above are powers of $M M^\\top$ and those "
         "below of $M^\\top M$, and $M' = \\int_0^1 (M M^\\top)^{1-s} G (M^\\top M)^s ds$. In singular vectors of $M$ "
         "an entry of $G$ is multiplied by $\\kappa_{ij}$, of the squares $a$ and $b$ of two singular values, at "
         "finite depth by $\\kappa^L_{ij}$.",
    statement=statement,
    assumptions=("gradient flow; initial matrices that are 0, or infinite depth above alpha = 1/2",),
    derive=derive,
    evidence=evidence,
)
