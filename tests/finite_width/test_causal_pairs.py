"""Causal order of pairs: the linearized equations are triangular in it, and their algebra is that of matrices."""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp
from scipy.sparse import csr_matrix
from support.closeness import assert_close
from tpcalc.finite_width.causal_pairs import causal_pairs
from tpcalc.finite_width.tilted import base_solution, tilted_network
from tpcalc.finite_width.tilted_determinant import DIRECTIONS_OF, LinearizedLayer, ReadOut, at_read_out, density_map

# steps, batch, probes, trained ends, optimizer
CASES = {"one input a step": (4, 1, 0, False, tp.SGD(0.5)),
         "batch, momentum, decay, trained ends": (3, 2, 0, True, tp.SGD(0.4, momentum=0.5, weight_decay=0.3)),
         "probes": (3, 1, 2, False, tp.SGD(0.6))}


def test_pairs_are_ordered_by_when_their_later_field_is_known() -> None:
    """Of two steps, x = 0, 1 and response fields 2, 3 in Pi; in R the other way round."""
    pairs = causal_pairs(2, 1)
    p = list(zip(*(array.tolist() for array in pairs.p)))
    assert [{*p[:4]}, {*p[4:6]}, {*p[6:7]}, {*p[7:]}] == [
        {(3, 3), (2, 3), (1, 3), (0, 3)}, {(2, 2), (0, 2)}, {(0, 0)}, {(0, 1), (1, 1), (1, 2)}]
    swapped = [tuple(sorted(((a + 2) % 4, (b + 2) % 4))) for a, b in p]
    assert swapped == list(zip(*(array.tolist() for array in pairs.q)))


@pytest.mark.parametrize("rows, per_step", [(1, 1), (6, 2), (8, 1)])
def test_products_and_resolvents_are_those_of_matrices(rows: int, per_step: int) -> None:
    rng = np.random.default_rng(0)
    pairs = causal_pairs(rows, per_step)
    one, two, three = np.tril(rng.normal(size=(3, 2, pairs.size, pairs.size))) / pairs.size**0.5
    assert_close(pairs.product(one, two, three), one @ two @ three, 1e-13)
    assert_close(pairs.product(one[0], two), one[0] @ two, 1e-13)
    strict = np.tril(one[0], -1)
    assert_close(pairs.resolvent(strict) @ (np.eye(pairs.size) - strict), np.eye(pairs.size), 1e-13)


@pytest.mark.parametrize("name", CASES)
def test_all_maps_of_a_layer_and_all_reflections_are_triangular(name: str) -> None:
    """What stands above the diagonal, or on it in what goes from R to Pi, is round-off."""
    steps, batch, held_out, train_embedding_readout, opt = CASES[name]
    rng = np.random.default_rng(1)
    task = tp.Task(rng.normal(size=(steps, batch, 2)) / 2, rng.normal(size=(steps, batch, 1)))
    depth = 3
    network = tilted_network(task, opt, depth, 1 / depth, 1 / depth, train_embedding_readout,
                             rng.normal(size=(held_out, 2)) if held_out else None)
    base = base_solution(network)
    maps = csr_matrix(density_map(network, "p")), csr_matrix(density_map(network, "q"))
    seen: list[tuple[np.ndarray, bool]] = [(matrix.toarray(), False) for matrix in maps]
    sigma = ReadOut(network, at_read_out(base)).sigma()
    rho = np.zeros_like(sigma)
    for l in reversed(range(depth)):
        layer = LinearizedLayer(base, l, *maps)
        seen += [(sigma, False), *((matrix, DIRECTIONS_OF[side] == ("p", "q")) for side, matrix in layer.maps.items())]
        sigma = layer.reflected(layer.facing(sigma, "q", "p"), "q", "p")
    for l in range(depth):
        layer = LinearizedLayer(base, l, *maps)
        rho = layer.reflected(layer.facing(rho, "p", "q"), "p", "q")
        seen += [(rho, True)]
    pairs = causal_pairs(network.rows, network.per_step)
    i, j = pairs.p
    turn = np.array([_turn(a, b, network.rows, network.per_step) for a, b in zip(i, j)])
    for matrix, strictly in seen:
        above = turn[:, None] <= turn[None, :] if strictly else turn[:, None] < turn[None, :]
        assert np.max(np.abs(matrix[above])) < 1e-14 * max(1.0, np.max(np.abs(matrix)))
        assert np.max(np.abs(matrix)) > 0.01
    assert np.all(np.diff(turn) >= 0)


def _turn(a: int, b: int, rows: int, per_step: int) -> int:
    """Of a pair of fields of Pi: the step of the later one, or -1 less it for a response field."""
    fields = [(field % rows // per_step, field >= rows) for field in (a, b)]
    step, response = max(fields)
    return -1 - step if response else step
