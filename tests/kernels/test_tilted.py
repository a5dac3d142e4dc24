"""The kernels of the tilted recursion against power series evaluated at numbers, and against the action itself."""

from __future__ import annotations

import numpy as np
import pytest

from support.closeness import assert_close
from tpcalc.kernels import tilted

ROWS, ORDERS = 3, 4


def symmetric(rng: np.random.Generator, *shape: int) -> np.ndarray:
    a = rng.normal(size=(*shape, 2 * ROWS, 2 * ROWS)) / 4
    return a + np.swapaxes(a, -1, -2)


def action(X: np.ndarray, Y: np.ndarray, noise: np.ndarray, drift: np.ndarray) -> float:
    """Psi of one layer, from overlaps of (x, dhat) before it and of (xhat, delta) behind it."""
    c0, d, n1 = X[:ROWS, :ROWS], X[:ROWS, ROWS:], X[ROWS:, ROWS:]
    n0, e, c1 = Y[:ROWS, :ROWS], Y[ROWS:, :ROWS], Y[ROWS:, ROWS:]
    return float(np.sum(noise * (n0 * c0 / 2 + n1 * c1 / 2 + d * e.T)) - np.sum(drift * (c0 * e.T + c1 * d.T)))


@pytest.mark.parametrize("forward", [True, False])
def test_densities_are_derivatives_of_the_action(forward: bool) -> None:
    """exp(n Psi) linearized in the overlaps of one side leaves a Gaussian weight exp(1/2 fields . density . fields)."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(ROWS, ROWS))
    noise += noise.T
    drift = np.tril(rng.normal(size=(ROWS, ROWS)), -1)
    X, Y = symmetric(rng), symmetric(rng)
    found = np.zeros((2 * ROWS, 2 * ROWS))
    tilted.added_density(X if forward else Y, noise, drift, 0 if forward else ROWS, found)
    for i in range(2 * ROWS):
        for j in range(i, 2 * ROWS):
            unit = np.zeros((2 * ROWS, 2 * ROWS))
            unit[i, j] = unit[j, i] = 1.0
            slope = action(X, unit, noise, drift) if forward else action(unit, Y, noise, drift)
            assert_close(found[i, j], slope if i != j else 2 * slope, 1e-13, 1.0)
            assert found[i, j] == found[j, i]


def test_resolvents_are_power_series() -> None:
    """F(t) = (1 - A(t) B(t))^-1 A(t) at a small number t, from four orders: what is left falls like t^4."""
    rng = np.random.default_rng(1)
    A, B = symmetric(rng, ORDERS, 2), symmetric(rng, ORDERS, 2)
    inverse = np.zeros((1, 2 * ROWS, 2 * ROWS))
    product, F = np.zeros((2, ORDERS, 1, 2 * ROWS, 2 * ROWS))
    for order in range(ORDERS):
        tilted.resolvent_coefficient(order, 0, inverse, product, F, A, 1, B, 0)

    def error(t: float) -> float:
        a, b, f = (np.tensordot(t ** np.arange(ORDERS), series, 1) for series in (A[:, 1], B[:, 0], F[:, 0]))
        return float(np.max(np.abs(np.linalg.solve(np.eye(2 * ROWS) - a @ b, a) - f)))

    assert 12 < error(2e-3) / error(1e-3) < 20


@pytest.mark.parametrize("forward", [True, False])
def test_a_sweep_is_its_equations(forward: bool) -> None:
    """Order 0 through two layers, with whole matrices; and the change that it reports."""
    rng = np.random.default_rng(2)
    depth, n = 2, 2 * ROWS
    noise, drift = np.full((ROWS, ROWS), 0.3), np.tril(np.full((ROWS, ROWS), 0.2), -1)
    own, other, theirs = symmetric(rng, 1, depth + 1), symmetric(rng, 1, depth + 1), symmetric(rng, 1, depth)
    C, mine, node_product, layer_product, F = np.zeros((5, 1, depth, n, n))
    at_node, through = np.zeros((2, depth, n, n))
    start = own.copy()
    changed, largest = tilted.sweep_tilted(forward, 0, noise, drift, own, other, C, mine, theirs, at_node, node_product,
                                           through, layer_product, F)
    law = start[0, 0 if forward else depth]
    worst = 0.0
    for step in range(depth):
        l = step if forward else depth - 1 - step
        old, new = (l, l + 1) if forward else (l + 1, l)
        overlaps = np.linalg.inv(np.linalg.inv(law) - other[0, old])
        added = np.zeros((n, n))
        tilted.added_density(overlaps, noise, drift, 0 if forward else ROWS, added)
        law = added + np.linalg.inv(np.linalg.inv(law) - theirs[0, l])
        assert_close(C[0, l], overlaps, 1e-11)
        assert_close(own[0, new], law, 1e-11)
        worst = max(worst, float(np.max(np.abs(law - start[0, new]))))
    assert_close([changed, largest], [worst, np.max(np.abs(own[0, 1:] if forward else own[0, :-1]))], 1e-11)


def test_a_sweep_stops_where_values_are_not_finite() -> None:
    n = 2 * ROWS
    own, other, theirs = np.zeros((3, 1, 3, n, n))
    own[0, 0, 0, 0] = np.inf
    C, mine, node_product, layer_product, F = np.zeros((5, 1, 2, n, n))
    at_node, through = np.zeros((2, 2, n, n))
    one = np.ones((ROWS, ROWS))
    with np.errstate(invalid="ignore"):
        changed, _ = tilted.sweep_tilted(True, 0, one, one, own, other, C, mine, theirs, at_node, node_product, through,
                                         layer_product, F)
    assert np.isnan(changed)


def test_conjugations_act_on_entries_of_symmetric_matrices() -> None:
    """From some order of the upper triangle to another, and the gradient of a weighted sum by differences in K."""
    rng = np.random.default_rng(3)
    K, X = rng.normal(size=(2, 4, 4))
    X = X + X.T
    i, j = np.triu_indices(4)
    mixed = rng.permutation(len(i))
    k, l = i[mixed], j[mixed]
    assert_close(tilted.packed_conjugation(K, i, j, k, l) @ X[k, l], (K @ X @ K.T)[i, j], 1e-14)
    weights = rng.normal(size=(len(k), len(i)))
    weights[rng.uniform(size=weights.shape) < 0.4] = 0.0
    found = tilted.packed_conjugation_gradient(weights, K, i, j, k, l)
    expected = np.zeros((4, 4))
    for a, b in np.ndindex(4, 4):
        unit = np.zeros((4, 4))
        unit[a, b] = 0.5  # a quadratic function has no error of central differences
        more, less = (np.sum(weights.T * tilted.packed_conjugation(K + move, i, j, k, l)) for move in (unit, -unit))
        expected[a, b] = more - less
    assert_close(found, expected, 1e-13)
