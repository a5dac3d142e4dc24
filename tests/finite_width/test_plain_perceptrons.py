"""The tangent kernel of real perceptrons of relu without skips, as a program of one's own, against published moments.

Hanin and Nica, "Finite Depth and Width Corrections to the Neural Tangent Kernel": the mean of the diagonal over
initializations is that of infinite width at every width, and E[K^2] / E[K]^2 grows as exp(5 beta), beta = sum of
1 / n_l over layers, up to factors that do not grow. Here with d layers of width n whose matrices are trained, each a
term of K. The term of one layer has that exponent, 1 + 5/n for every layer and 1 + 2/n for the inputs, which are
Gaussian here; two layers' terms share all factors but those between them, where only 1/n is left of 5/n.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

from tpcalc.interpreters.many_networks import networks_at_once
from tpcalc.programs.language import Family, Matrix, MatVec, Mean, Scalar, Transpose, Vector
from tpcalc.programs.program import Assign, Loop, Program

L, l = sp.Symbol("L", integer=True, positive=True), sp.Symbol("l", integer=True, nonnegative=True)
h, x, delta, e = (Family(Vector, name, layered=True) for name in ("h", "x", "delta", "e"))
W, U, V, K = Family(Matrix, "W", layered=True), Family(Vector, "U")(), Family(Vector, "nV")(), Family(Scalar, "K")
ONE = sp.Integer(1)
PERCEPTRON = Program("perceptron", (U, V), (W[l],), (), (
    Assign(x[0], U),
    Loop(l, ONE, L, (Assign(h[l], MatVec(W[l], x[l - 1])), Assign(x[l], sp.sqrt(2) * sp.Max(0, h[l])))),
    Assign(delta[L], V),
    Loop(l, L, ONE, (Assign(e[l], sp.sqrt(2) * sp.Heaviside(h[l], 0) * delta[l]),
                     Assign(delta[l - 1], MatVec(Transpose(W[l]), e[l]))), descending=True),
    Loop(l, ONE, L, (Assign(K[l], Mean(x[l - 1]**2) * Mean(e[l]**2)),))), (L,))


def terms(n: int, depth: int, networks: int) -> np.ndarray:
    """(networks, layers)"""
    found = [networks_at_once(PERCEPTRON, {L: depth}, {}, "mse", np.ones((1, n)), 1000, seed,
                              lambda scalars: [scalars[K[k]] for k in range(1, depth + 1)])[0]
             for seed in range(networks // 1000)]
    return np.concatenate(found)


def plain_terms(n: int, depth: int, networks: int) -> np.ndarray:
    """The same of whole matrices, one network after the other."""
    rng, found = np.random.default_rng(3), np.zeros((networks, depth))
    for one in found:
        weights, u, v = rng.standard_normal((depth, n, n)) / np.sqrt(n), *rng.standard_normal((2, n))
        stream, active = [u], []
        for matrix in weights:
            active.append(matrix @ stream[-1] > 0)
            stream.append(np.sqrt(2) * active[-1] * (matrix @ stream[-1]))
        for k in reversed(range(depth)):
            back = np.sqrt(2) * active[k] * v
            one[k], v = np.mean(stream[k]**2) * np.mean(back**2), weights[k].T @ back
    return found


def ratio(values: np.ndarray) -> tuple[float, float]:
    """E[K^2] / E[K]^2 and its standard error."""
    relative = values / values.mean()
    return float(np.mean(relative**2)), float(np.std(relative**2 - 2 * relative) / len(values)**0.5)


@pytest.mark.parametrize("n, depth", [(20, 3)])
def test_the_program_is_the_network(n: int, depth: int) -> None:
    ours, plain = terms(n, depth, 4000), plain_terms(n, depth, 2000)
    for one, other in ((ours, plain), (ours**2, plain**2), (ours.prod(axis=1) ** 0.5, plain.prod(axis=1) ** 0.5)):
        error = np.hypot(np.std(one, axis=0) / len(ours)**0.5, np.std(other, axis=0) / len(plain)**0.5)
        assert np.all(np.abs(one.mean(axis=0) - other.mean(axis=0)) < 4 * error)


@pytest.mark.slow
@pytest.mark.parametrize("n, depth", [(20, 2), (20, 5), (40, 5), (40, 10), (100, 10)])
def test_moments_of_the_tangent_kernel(n: int, depth: int) -> None:
    """Prints them. The mean has no correction; a layer's term has the exponent of 5 beta, and all together less."""
    found, beta = terms(n, depth, 20000), depth / n
    whole = found.sum(axis=1)
    assert abs(whole.mean() - depth) < 4 * whole.std() / len(whole)**0.5
    of_one, errors = zip(*map(ratio, found.T))
    expected = (1 + 2 / n) * (1 + 5 / n)**depth
    all_of_them, error = ratio(whole)
    print(f"n {n}, d {depth}: E K / d {whole.mean() / depth:.3f}, E K_l^2 / E[K_l]^2 {np.round(of_one, 2)} against "
          f"{expected:.2f}, of K {all_of_them:.3f}({error:.3f}), exp(5 beta) {np.exp(5 * beta):.2f}")
    assert np.all(np.abs(np.array(of_one) - expected) < 4.5 * np.array(errors))
    assert np.exp(3 * beta) < all_of_them < np.exp(5 * beta)


@pytest.mark.slow
def test_the_variance_of_the_tangent_kernel_to_first_order() -> None:
    """n times the relative variance of K: 2 + 5 d for one layer's term, less 4 for every layer between two, whose
    number is (d^2 - 1) / (3 d) on average."""
    for depth in (2, 5):
        (near, a), (far, b) = (ratio(terms(n, depth, 20000).sum(axis=1)) for n in (200, 400))
        found, error = 2 * 400 * (far - 1) - 200 * (near - 1), np.hypot(800 * b, 200 * a)
        expected = 2 + 5 * depth - 4 * (depth**2 - 1) / (3 * depth)
        print(f"d {depth}: {found:.2f}({error:.2f}) against {expected:.2f}")
        assert abs(found - expected) < 3.5 * error and error < 0.05 * expected
