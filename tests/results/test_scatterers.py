"""The algebra of scatterers against one large system of linear equations for a chain of random layers."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from support.closeness import assert_close
from tpcalc.results.scatterers import Scatterer, close, layer, nothing, star

N, LAYERS = 3, 5
RNG = np.random.default_rng(7)


def spread(size: int) -> np.ndarray:
    root = RNG.normal(size=(size, size))
    return root @ root.T


A, B = (np.tril(RNG.normal(size=(LAYERS, N, N)), -1) for _ in range(2))
F, G = (np.array([spread(N) for _ in range(LAYERS)]) for _ in range(2))
CHAIN = [layer(*one) for one in zip(A, B, F, G)]
LEFT, RIGHT = (np.tril(RNG.normal(size=(N, N)), -1) for _ in range(2))  # what the surroundings send back
S, R = spread(N), spread(N)


def solve(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """All signals, (2, LAYERS + 1, N, sources), with x^0 = left delta^0 + source, delta^L = right x^L + source.

    Sources: x^0, delta^L, then the noises of x and delta of every layer.
    """
    size = 2 * (LAYERS + 1) * N
    at = lambda kind, node: slice((kind * (LAYERS + 1) + node) * N, (kind * (LAYERS + 1) + node + 1) * N)
    equations, sources = np.eye(size), np.zeros((size, (2 + 2 * LAYERS) * N))
    where = [at(0, 0), at(1, LAYERS), *(at(0, l) for l in range(1, LAYERS + 1)), *(at(1, l) for l in range(LAYERS))]
    for k, rows in enumerate(where):
        sources[rows, k * N:(k + 1) * N] = np.eye(N)
    equations[at(0, 0), at(1, 0)] = -left
    equations[at(1, LAYERS), at(0, LAYERS)] = -right
    for l in range(LAYERS):
        equations[at(0, l + 1), at(0, l)] -= np.eye(N)
        equations[at(0, l + 1), at(1, l + 1)] -= A[l]
        equations[at(1, l), at(1, l + 1)] -= np.eye(N)
        equations[at(1, l), at(0, l)] -= B[l]
    return np.linalg.solve(equations, sources).reshape(2, LAYERS + 1, N, -1)


def covariance_of_sources() -> np.ndarray:
    blocks = [S, R, *F, *G]
    whole = np.zeros((len(blocks) * N, len(blocks) * N))
    for k, block in enumerate(blocks):
        whole[k * N:(k + 1) * N, k * N:(k + 1) * N] = block
    return whole


def test_a_chain_of_layers_is_their_star_product() -> None:
    signals = solve(np.zeros((N, N)), np.zeros((N, N)))
    leaving = np.concatenate([signals[0, -1], signals[1, 0]])
    whole = reduce(star, CHAIN)
    assert_close(whole.response + np.eye(2 * N), leaving[:, :2 * N], 1e-13)
    noise = leaving[:, 2 * N:]
    assert_close(whole.noise, noise @ covariance_of_sources()[2 * N:, 2 * N:] @ noise.T, 1e-13)


def test_the_star_product_is_associative_and_has_a_unit() -> None:
    a, b, c = CHAIN[:3]
    for one, two in ((star(star(a, b), c), star(a, star(b, c))), (star(nothing(N), a), a), (star(a, nothing(N)), a)):
        assert_close(one.response, two.response, 1e-13)
        assert_close(one.noise, two.noise, 1e-13)


def test_stacks_compose_piece_by_piece() -> None:
    stack = layer(A, B, F, G)
    pairs = star(stack[0:4:2], stack[1:4:2])
    for k in (0, 1):
        one = star(CHAIN[2 * k], CHAIN[2 * k + 1])
        assert_close(pairs[k].response, one.response, 1e-14)
        assert_close(pairs[k].noise, one.noise, 1e-14)


@pytest.mark.parametrize("m, l", [(0, LAYERS), (1, 4), (2, 2), (0, 1)])
def test_a_piece_in_its_surroundings(m: int, l: int) -> None:
    """Surroundings of further layers are given by what they send back: here, found from the large system."""
    signals = solve(LEFT, RIGHT)
    left, s = reduce(_from_left, range(m), (LEFT, S))
    right, r = reduce(_from_right, range(LAYERS - 1, l - 1, -1), (RIGHT, R))
    ends = close(reduce(star, CHAIN[m:l], nothing(N)), left, s, right, r)
    exact = np.concatenate([signals[:, m].reshape(2 * N, -1), signals[:, l].reshape(2 * N, -1)])
    found = np.concatenate([ends.start, ends.end])
    assert_close(found @ ends.sources @ found.T, exact @ covariance_of_sources() @ exact.T, 1e-11)
    assert_close(ends.change, ends.end - ends.start, 1e-12)


def _from_left(below: tuple[np.ndarray, np.ndarray], l: int) -> tuple[np.ndarray, np.ndarray]:
    """x = P delta + x_left one layer further, straight from the layer's two equations."""
    p, s = below
    h = np.linalg.inv(np.eye(N) - p @ B[l])
    return A[l] + h @ p, F[l] + h @ (s + p @ G[l] @ p.T) @ h.T


def _from_right(above: tuple[np.ndarray, np.ndarray], l: int) -> tuple[np.ndarray, np.ndarray]:
    q, r = above
    k = np.linalg.inv(np.eye(N) - q @ A[l])
    return B[l] + k @ q, G[l] + k @ (r + q @ F[l] @ q.T) @ k.T


def test_small_pieces_have_small_increments_to_full_accuracy() -> None:
    """Layers of size 1e-9: the response of two is the sum, up to their product."""
    small = [Scatterer(1e-9 * one.response, 1e-9 * one.noise) for one in CHAIN[:2]]
    both = star(*small)
    assert_close(both.response, small[0].response + small[1].response, 1e-8)
    pa, qb = small[0].response[:N, N:], small[1].response[N:, :N]
    np.testing.assert_allclose(both.response[:N, :N], pa @ qb, rtol=1e-8)  # two reflections, of size 1e-18
