"""Kernels of blocks: hand formulas, Price's theorem, blocks that do not close."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.action.block_kernels import C, P, Q, R, RP, RQ, derive_block_kernels
from tpcalc.gaussian import Expectation
from tpcalc.gaussian.rules import gaussian_mean, overlap
from tpcalc.models.activations import H
from tpcalc.programs.blocks import Branch
from tpcalc.programs.indices import t
from tpcalc.programs.language import Family, Matrix, MatVec, Mean

TANH, SHIFTED = sp.tanh(H), sp.sin(H + sp.Rational(1, 2))


def dual(f: sp.Expr, j: int, k: int) -> sp.Expr:
    """<f^(j)(u_a) f^(k)(u_b)> with u = W x."""
    return overlap(f, f, j, k, R * C, RP * P, RQ * Q)


def test_linear_block() -> None:
    kernels = derive_block_kernels(tp.ResNet())
    assert kernels.forward == (R * C, R, C) and kernels.backward == (R, 0, 1) and kernels.diagonal == (0, 0, 0)
    two = derive_block_kernels(tp.ResNet("linear", "mlp"))
    assert two.kappa == R**2 * C and two.thetas == {"W1": R * C, "W2": R * C} and two.diagonal == (0, 0, 0)


def test_post_is_the_table_s_row() -> None:
    """kappa = Cov(phi, phi), theta = V C0; a and b enter their own means."""
    kernels = derive_block_kernels(tp.ResNet(SHIFTED))
    covariance = dual(SHIFTED, 0, 0) - gaussian_mean(SHIFTED, 0, RP * P) * gaussian_mean(SHIFTED, 0, RQ * Q)
    assert sp.expand(kernels.kappa - covariance) == 0
    assert kernels.thetas == {"W": C * dual(SHIFTED, 1, 1)}
    assert sp.expand(kernels.forward[1] - R * dual(SHIFTED, 1, 1)) == 0
    assert sp.expand(kernels.backward[1] - R**2 * dual(SHIFTED, 2, 2)) == 0
    centered = dual(SHIFTED, 2, 0) - gaussian_mean(SHIFTED, 2, RP * P) * gaussian_mean(SHIFTED, 0, RQ * Q)
    assert sp.expand(kernels.diagonal[0] - RP * centered) == 0
    assert sp.expand(kernels.diagonal[1] - RP * R * dual(SHIFTED, 3, 1)) == 0


def test_mlp_is_the_table_s_row() -> None:
    kernels = derive_block_kernels(tp.ResNet("tanh", "mlp"))
    assert kernels.kappa == R * dual(TANH, 0, 0)
    assert kernels.thetas == {"W1": R * C * dual(TANH, 1, 1), "W2": dual(TANH, 0, 0)}
    assert sp.expand(kernels.backward[2] - 2 * R * dual(TANH, 1, 1) - R**2 * C * dual(TANH, 2, 2)) == 0
    assert sp.expand(kernels.diagonal[2] - RP * (R * C * dual(TANH, 3, 1) + dual(TANH, 2, 0))) == 0


def test_gated_and_normalized_blocks() -> None:
    """Distinct matrices multiply; the root mean square is that of each slot."""
    gated = derive_block_kernels(tp.ResNet("tanh", "glu"))
    assert gated.kappa == R**2 * C * dual(TANH, 0, 0)
    assert gated.thetas == {"W1": R**2 * C**2 * dual(TANH, 1, 1), "W2": R * C * dual(TANH, 0, 0),
                            "W3": R * C * dual(TANH, 0, 0)}
    normed = derive_block_kernels(tp.ResNet("tanh", "mlp", norm="rms"))
    correlation = C / sp.sqrt(P * Q)
    assert sp.expand(normed.thetas["W2"] - overlap(TANH, TANH, 0, 0, R * correlation, RP, RQ)) == 0
    assert sp.expand(normed.thetas["W1"] - R * correlation * overlap(TANH, TANH, 1, 1, R * correlation, RP, RQ)) == 0
    assert normed.thetas["W2"].diff(P) != 0


@pytest.mark.parametrize("phi", ["silu", "gelu", "relu"])
def test_normalized_outputs_have_no_mean_and_size_one(phi: str) -> None:
    """The norm divides what is left without its mean: every layer adds 1 / L to the variance of the stream."""
    net = tp.ResNet(phi, norm="rms", norm_position="output")
    nngp = tp.kernel_fn(net, depth=tp.oo)(np.array([[0.5], [-1.2]]), get="nngp")
    assert np.diag(nngp) == pytest.approx([0.25 + 1, 1.44 + 1], abs=1e-9)


def test_three_matrices_compose() -> None:
    """The second layer's covariance is the first one's kernel, at both slots too."""
    kernels = derive_block_kernels(tp.ResNet("tanh", "mlp", matrices=3))
    inner = R * dual(TANH, 0, 0)
    own = [RP * overlap(TANH, TANH, 0, 0, *3 * (RP * P,)), RQ * overlap(TANH, TANH, 0, 0, *3 * (RQ * Q,))]
    outer, slope = (overlap(TANH, TANH, k, k, inner, *own) for k in (0, 1))
    assert kernels.thetas["W3"] == outer and kernels.kappa == R * outer
    assert sp.expand(kernels.thetas["W2"] - inner * slope) == 0
    assert sp.expand(kernels.thetas["W1"] - R**2 * C * dual(TANH, 1, 1) * slope) == 0


def test_price() -> None:
    """Of polynomials overlaps are polynomials, and the derivatives of the unevaluated ones are overlaps."""
    f, g = sp.Function("f")(H), H**3 + H**2
    assert overlap(g, g, 0, 0, C, P, Q).diff(C) == sp.expand(overlap(g, g, 1, 1, C, P, Q))
    assert sp.expand(2 * overlap(g, g, 0, 0, C, P, Q).diff(P) - overlap(g, g, 2, 0, C, P, Q)) == 0
    assert overlap(f, g, 0, 1, C, P, Q).diff(C) == overlap(f, g, 1, 2, C, P, Q)
    assert overlap(f, g, 0, 0, C, P, Q).diff(P) == overlap(f, g, 2, 0, C, P, Q) / 2
    assert overlap(f, f, 0, 0, C, P, Q).diff(Q) == overlap(f, f, 0, 2, C, P, Q) / 2
    assert gaussian_mean(f, 0, P).diff(P) == gaussian_mean(f, 2,
                                                           P) / 2 and gaussian_mean(TANH, 2,
                                                                                    P) == 0 and gaussian_mean(H**2, 0,
                                                                                                              P) == P


def own_gate(branch: Branch) -> sp.Expr:
    """A sum of functions of one product, a product of two, and a number."""
    u, v = (branch.let(n, MatVec(branch.weights(m), branch.x)) for n, m in (("u", "A"), ("v", "B")))
    z = branch.let("z", 2 * sp.tanh(u) * sp.cos(v) + u / 3 + sp.Rational(1, 5))
    return MatVec(branch.weights("O"), z - Mean(z))


def test_a_user_s_block_against_a_wide_network() -> None:
    """kappa and theta of A against means over the coordinates of drawn weights."""
    kernels = derive_block_kernels(tp.ResNet(block=own_gate))
    draw = np.random.default_rng(0)
    covariance = np.array([[1.2, 0.5], [0.5, 0.8]])
    u, v = (draw.multivariate_normal([0, 0], covariance, 10**6).T for _ in range(2))
    z = 2 * np.tanh(u) * np.cos(v) + u / 3 + 0.2
    slope = 2 / np.cosh(u)**2 * np.cos(v) + 1 / 3

    def number(e: sp.Expr) -> float:
        values = {C: .5, P: 1.2, Q: .8, R: 1, RP: 1, RQ: 1}
        nodes, weights = np.polynomial.hermite_e.hermegauss(80)
        weights = weights / weights.sum()

        def overlap(f: Any, g: Any, j: Any, k: Any, c: Any, p: Any, q: Any) -> sp.Expr:
            first, second = (sp.lambdify(H, e.diff(H, int(o)) + 0 * H, "numpy") for e, o in ((f, j), (g, k)))
            c, p, q = map(float, (c, p, q))
            a, b = np.sqrt(p) * nodes[:, None], c / np.sqrt(p) * nodes[:, None] + np.sqrt(q - c * c / p) * nodes
            return sp.Float(np.sum(weights[:, None] * weights * first(a) * second(b)))

        def mean(f: Any, j: Any, p: Any) -> sp.Expr:
            return sp.Float(np.sum(weights * sp.lambdify(H, f.diff(H, int(j)), "numpy")(np.sqrt(float(p)) * nodes)))
        given = e.xreplace({k: sp.Float(x) for k, x in values.items()})

        def of(node: Expectation) -> sp.Expr:
            (heads, orders), entries = zip(*node.functions), node.entries
            return overlap(*heads, *orders, *entries) if len(heads) == 2 else mean(*heads, *orders, *entries)
        return float(given.replace(lambda e: isinstance(e, Expectation), of))

    assert abs(number(kernels.kappa) - np.cov(z)[0, 1]) < 5e-3
    assert abs(number(kernels.thetas["A"]) - 0.5 * np.mean(slope[0] * slope[1])) < 5e-3


def twice(branch: Branch) -> sp.Expr:
    h = branch.let("h", MatVec(branch.weights(), branch.x))
    return MatVec(branch.weights(), branch.let("z", branch.phi(h)))


def shared(branch: Branch) -> sp.Expr:
    return MatVec(Family(Matrix, "W")[t], branch.x)


def uncentered(branch: Branch) -> sp.Expr:
    return branch.let("z", sp.cos(branch.let("h", MatVec(branch.weights(), branch.x))))


def with_stream(branch: Branch) -> sp.Expr:
    return MatVec(branch.weights(), branch.x) - branch.x


def gated_by_stream(branch: Branch) -> sp.Expr:
    return MatVec(branch.weights("O"), branch.let("z", branch.x * branch.phi(branch.let("h", MatVec(
        branch.weights(), branch.x)))))


def mixed(branch: Branch) -> sp.Expr:
    u, v = (branch.let(n, MatVec(branch.weights(m), branch.x)) for n, m in (("u", "A"), ("v", "B")))
    return MatVec(branch.weights("O"), branch.let("z", sp.tanh(u + v)))


@pytest.mark.parametrize("block, reason", [
    ("pre_nonlin", "acts on the stream before a fresh random matrix"), (twice, "W.* multiplies two vectors"),
    (shared, "weights shared between layers"), (uncentered, "a mean that is not zero"),
    (with_stream, "contains the stream itself"), (gated_by_stream, "acts on the stream"),
    (mixed, "mixes several products")])
def test_blocks_that_do_not_close_say_why(block: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        derive_block_kernels(tp.ResNet("tanh", block))
