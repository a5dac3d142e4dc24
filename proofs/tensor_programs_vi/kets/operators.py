"""Initial matrices as operators on kets, and their adjoints."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from tpcalc.calculus import Derivation
from tpcalc.calculus.kets import Bracket, Dot, Hat, Ket, Response
from tpcalc.ledger import Entry, Equation, Equations, Proof
from tpcalc.programs.language import Family, Matrix, MatVec, Transpose, Vector

from ..._line import relative
from ..._rewriting import Rewriting, of_nodes

SOURCE = "Tensor Programs VI, definition F.1"
i, k = sp.symbols("i k", integer=True, positive=True)
x, W, z = Family(Vector, "x")(), Family(Matrix, "W")(), Family(Vector, "z")
y = z[k]
PRODUCTS = (i, 1, k)  # W z_1, ..., W z_k are the products with W that x may depend on


class ProductMean(sp.Expr):
    """The expectation of a product of random variables."""

    is_commutative = True

    def _latex(self, printer: Any) -> str:
        return rf"\mathbb{{E}}\left[{' '.join(printer.doprint(part) for part in self.args)}\right]"


HAT_EQUATION, DOT_EQUATION = ProductMean(Ket(x), Hat(MatVec(W, y))), ProductMean(Dot(MatVec(Transpose(W), x)), Ket(y))


def _by_stein(mean: ProductMean) -> sp.Expr:
    """E[|x> hat|W y>] = sum over products W z_i of E[d|x> / d hat|W z_i>] <z_i|y>."""
    ket, other = mean.args
    if not isinstance(other, Hat):
        return mean
    return sp.Sum(Response(ket.vector, Hat(MatVec(W, z[i]))) * Bracket(z[i], other.vector.vector), PRODUCTS)


def _folded(expression: sp.Expr) -> sp.Expr:
    """The sum of <z_i|y> times derivatives in hat|W z_i> is the mean of the dot of W^T x, times |y>."""
    dot = sp.Sum(Ket(z[i]) * Response(x, Hat(MatVec(W, z[i]))), PRODUCTS)  # |W^T x> without its hat
    return expression.subs(sp.Sum(dot.function.subs(Ket(z[i]), Bracket(z[i], y)), PRODUCTS), DOT_EQUATION)


STEIN = Rewriting("Stein's lemma", "the hats of W are jointly Gaussian with covariances $\\langle z_i | y \\rangle$",
                  "Stein (1981) [gaussian/stein]", of_nodes(ProductMean, _by_stein))
FOLD = Rewriting("the dot is a sum", "read backwards, inside an expectation with $|y\\rangle$",
                 "Tensor Programs VI, definition C.1", _folded)


def derive() -> Proof:
    derivation = Derivation()
    derivation.through((STEIN, FOLD), HAT_EQUATION, HAT_EQUATION)

    def numbers(rng: np.random.Generator) -> float:
        """x a random cubic of three hats h = A g; every mean is a Gaussian quadrature that is exact for it."""
        gram = rng.standard_normal((3, 3))
        covariance = gram @ gram.T
        nodes, weights = np.polynomial.hermite_e.hermegauss(6)
        grid = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 3)
        weight = np.prod(np.stack(np.meshgrid(weights, weights, weights, indexing="ij"), -1).reshape(-1, 3), axis=1)
        h, weight = grid @ np.linalg.cholesky(covariance).T, weight / weight.sum()
        names = sp.symbols("h1 h2 h3")
        cubic = sum(float(rng.uniform(-1, 1)) * m for m in sp.itermonomials(names, 3))

        def mean(polynomial: sp.Expr) -> float:
            return float(weight @ np.broadcast_to(sp.lambdify(names, polynomial)(*h.T), weight.shape))

        response = [mean(sp.diff(cubic, name)) for name in names]
        return max(relative(mean(cubic * names[j]), sum(response[m] * covariance[m, j] for m in range(3)))
                   for j in range(3))

    return Proof(derivation.steps, numbers, "random cubics of three correlated hats, by exact quadrature")


ENTRY = Entry(
    key="tensor_programs_vi/operators",
    kind="rule",
    title="the adjoint of a hat is the transposed dot",
    source=SOURCE,
    says="An initial matrix acts on kets as its hat plus its dot. The adjoint of the hat operator of $W$ is the dot "
         "operator of $W^\\top$, so that the adjoint of $W$ is $W^\\top$.",
    statement=lambda: Equations((Equation(HAT_EQUATION, DOT_EQUATION),)),
    assumptions=("$|x\\rangle$ is a smooth function of the hats of $W z_1, \\ldots, W z_k$, and of kets that are "
                 "independent of them",),
    uses=("tensor_programs_vi/definition_c1", "gaussian/stein"),
    derive=derive,
)
