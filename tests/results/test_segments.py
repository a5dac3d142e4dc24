"""Differences between two places: which layers, tiny pieces, what is refused, what is solved again."""

from __future__ import annotations

import os
from functools import reduce
from typing import Any

import numpy as np
import pytest

import tpcalc as tp
from support.closeness import assert_close
from support.propagators import reflect
from tpcalc.propagators import layer_time
from tpcalc.propagators.collocation import solve_limit
from tpcalc.propagators.covariances import inverse
from tpcalc.propagators.mesh import Mesh
from tpcalc.optimizers import SGD
from tpcalc.results import segments
from tpcalc.results.details import PropagatorDetails
from tpcalc.results.scatterers import nothing, star
from tpcalc.results.segments import IN_CACHE, LayerSegments, TimeSegments

NET, OPT, SCALE = tp.ResNet(), tp.SGD(0.5), tp.DepthScaling()
TASK = tp.Task((1, .8, -.6, 1.1), (1, -.7, .5, 1.2))
RNG = np.random.default_rng(3)
BATCH = tp.Task(RNG.normal(size=(3, 2, 2)) / 2, RNG.normal(size=(3, 2, 1)))
SCALINGS = [tp.DepthScaling(), tp.DepthScaling(0.75, 0.25), tp.DepthScaling(1, 0)]
IDS = ["1/2", "3/4", "1"]


@pytest.mark.parametrize("scale", SCALINGS, ids=IDS)
def test_one_layer_of_many_has_relative_accuracy(scale: tp.DepthScaling) -> None:
    """x^l - x^(l-1) = eps rho F^l + A^l delta^l, with <F_t|delta_s> = sum_b C0_tb d delta_s/dF_b: nothing is
    subtracted. A difference of covariances would be off by 1e-11 at alpha = 1/2 and by 1e-8 at alpha = 1."""
    depth, opt = 2**14, SGD(0.5, momentum=0.5, weight_decay=0.1)
    _, propagator = reflect(TASK, opt, scale, depth, "plain")
    details = PropagatorDetails(propagator, TASK.inputs[:, 0], np.zeros((4, 1)))
    for l in (1, 5000, depth):
        P, Q, A = propagator.P[l], propagator.Q[l], propagator.A[l - 1]
        C0, C1 = propagator.C0[l - 1], propagator.C1[l - 1]
        noise = propagator.eps * np.diag(propagator.rho)
        mixed = noise @ C0 @ noise @ inverse(P, Q).T @ Q.T @ A.T
        exact = noise @ C0 @ noise + mixed + mixed.T + A @ C1 @ A.T
        found = [details.difference(row, 0, (l - 1) / depth, 1 / depth) for row in range(4)]
        np.testing.assert_allclose(found, np.sqrt(np.diag(exact)), rtol=1e-12)


@pytest.mark.parametrize("noise", [1.0, 0.0])
@pytest.mark.parametrize("p", [0.0, 0.3, 0.5])
def test_a_short_piece_of_layer_time_has_relative_accuracy(noise: float, p: float) -> None:
    """d^2 = eps N0 + O(eps^2), or eps^2 A C1 A^T + O(eps^3) without noise: at eps = 1e-6 the next term, from 2e-6."""
    propagator = solve_limit(TASK, OPT, noise, 1.0, "plain").propagator
    details = PropagatorDetails(propagator, TASK.inputs[:, 0], np.zeros((4, 1)))
    at = lambda values: propagator.mesh.evaluate(values, p)
    A = at(propagator.A)
    rate = np.diag(at(propagator.left.N) if noise else A @ at(propagator.C1) @ A.T)[1:]
    squares = [np.array([details.difference(row, 0, p, eps) for row in (1, 2, 3)])**2 / eps**(1 if noise else 2)
               for eps in (1e-6, 2e-6)]
    np.testing.assert_allclose(2 * squares[0] - squares[1], rate, rtol=3e-11)
    tiny = details.difference(3, 0, p, 1e-15)**2 / 1e-15**(1 if noise else 2)
    assert tiny == pytest.approx(rate[-1], rel=1e-12)


def test_pieces_do_not_depend_on_the_elements_they_are_cut_by() -> None:
    """The same medium on the mesh it was found on, and interpolated to one cut at odd places."""
    propagator = solve_limit(TASK, OPT, 1.0, 1.0, "plain").propagator
    plain = TimeSegments(propagator).ends(0.2, 0.65)
    mesh = Mesh((0.0, 0.15, 0.2, 0.4, 0.41, 0.85, 1.0), propagator.mesh.nodes)
    for side in (propagator.left, propagator.right):
        for name in ("P", "S", "A", "N", "C", "r"):
            setattr(side, name, propagator.mesh.evaluate(getattr(side, name), mesh.times))
    propagator.mesh = mesh
    cut = TimeSegments(propagator).ends(0.2, 0.65)
    for one, two in zip(plain, cut):
        assert_close(one, two, 1e-11)


@pytest.mark.parametrize("in_cache", [1, 32, IN_CACHE])
def test_any_piece_is_a_product_of_aligned_ones(in_cache: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Depth 11, no power of two: all pieces against their layers one by one, however many are composed at a time."""
    monkeypatch.setattr("tpcalc.results.segments.IN_CACHE", in_cache)
    _, propagator = reflect(TASK, OPT, SCALE, 11, "plain")
    cut = LayerSegments(propagator)
    layers = [cut._piece(l, l + 1) for l in range(11)]
    for m in range(12):
        for l in range(m, 12):
            whole = reduce(star, layers[m:l], nothing(4))
            assert_close(cut._piece(m, l).response, whole.response, 1e-14, 1.0)
            assert_close(cut._piece(m, l).noise, whole.noise, 1e-14, 1.0)


@pytest.mark.parametrize("depth", [7, tp.oo])
def test_numbers_and_arrays(depth: Any) -> None:
    run = tp.train(NET, BATCH, OPT, SCALE, depth)
    one = run.feature_difference((2, 1), 0.25, 0.5)
    assert isinstance(one, float)
    table = run.gradient_difference((2, 1), [[0.25], [0.0]], [0.5, 0.0, 0.75])
    assert table.shape == (2, 3) and np.all(table[:, 1] == 0) and np.all(table[:, [0, 2]] > 0)
    assert table[0, 0] == run.gradient_difference((2, 1), 0.25, 0.5)
    # 0.3 and 1 - 0.7 are not the same number: the second is beyond the last node
    assert_close(run.feature_difference((2, 1), 0.7, 0.3), run.feature_difference((2, 1), 0.7, 1 - 0.7), 1e-15, 1.0)


def test_layers_are_those_of_gamma() -> None:
    """ceil(L p): depth 5."""
    run = tp.train(NET, TASK, OPT, SCALE, 5)
    assert run.feature_difference(3, 0.3, 0.25) == run.feature_difference(3, 0.4, 0.2)
    assert run.feature_difference(3, 0.2, 0.05) == run.feature_difference(3, 0.2, 0.2)
    assert run.cross_covariance(3, 1, 0, 1, 0.3, 0.65) == run.cross_covariance(3, 1, 0, 1, 0.4, 0.8)


def test_nothing_jumps_where_two_layer_times_meet() -> None:
    run = tp.train(NET, TASK, OPT, SCALE, tp.oo)
    for a in (0, 1):
        for b in (0, 1):
            values = [run.cross_covariance(3, 1, a, b, 0.4, q) for q in (0.4 - 1e-9, 0.4, 0.4 + 1e-9)]
            assert values == pytest.approx([values[1]] * 3, abs=1e-8) and values[0] != values[2]


def test_at_the_first_step_nothing_changes_above_one_half() -> None:
    for scale in SCALINGS[1:]:
        run = tp.train(NET, TASK, OPT, scale, tp.oo)
        assert run.feature_difference(0, 0.25, 0.5) == 0 < run.feature_difference(1, 0.25, 0.5)


@pytest.mark.parametrize("depth", [6, tp.oo])
def test_many_questions_solve_once(depth: Any) -> None:
    told: list[int] = []
    run = tp.train(NET, TASK, OPT, SCALE, depth, progress=lambda done, _: told.append(done))
    run.feature_difference(1, 0.0, 0.5)
    before = len(told)
    run.feature_difference(3, np.linspace(0, 0.5, 5)[:, None], np.linspace(0, 0.5, 5))
    run.gradient_difference(2, 0.5, 0.5)
    run.cross_covariance(2, 1, 0, 0, 0.5, 0.25)
    assert len(told) == before


def test_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine of four megabytes: the solution is there, pairs of its layers are too many."""
    run = tp.train(NET, TASK, OPT, SCALE, 4000, keep_nodes="all")
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1024}[name])
    with pytest.raises(MemoryError, match="covariances across 4000 layers needs .* smaller depth fit"):
        run.feature_difference(1, 0.0, 0.5)


def test_real_networks_average_over_their_coordinates() -> None:
    run = tp.train(NET, BATCH, OPT, SCALE, 8, width=32, keep_nodes=[0.25, 0.75, 1])
    C = run.forward_covariance
    assert run.cross_covariance((1, 0), (2, 1), 0, 0, 0.25, 0.25) == pytest.approx(C[0, 2, 5], rel=1e-13)
    whole = tp.train(NET, BATCH, OPT, SCALE, 8, width=32)
    for read in ("feature_difference", "gradient_difference"):
        found = getattr(run, read)((2, 0), 0.25, 0.5)
        assert found > 0 and found == getattr(whole, read)((2, 0), 0.25, 0.5)
    cross = [run.cross_covariance((2, 0), (2, 0), 0, 0, p, q) for p, q in ((.75, .75), (.25, .25), (.75, .25))]
    assert run.feature_difference((2, 0), 0.25, 0.5) == pytest.approx(np.sqrt(cross[0] + cross[1] - 2 * cross[2]))
    with pytest.raises(ValueError, match="layer time 0.5: layer 4 of 8 was not kept.*keep_nodes='all'"):
        run.feature_difference((2, 0), 0.5, 0.25)


@pytest.mark.parametrize("p, eps", [(-0.1, 0.5), (0.5, -0.1), (0.5, 0.6), (1.5, 0.0), (0.0, [0.5, 1.1])])
def test_places_outside_of_the_network_are_refused(p: Any, eps: Any) -> None:
    run = tp.train(NET, TASK, OPT, SCALE, 4)
    for read in (run.feature_difference, run.gradient_difference):
        with pytest.raises(ValueError, match="p, eps: got .*; expected layer times with 0 <= p <= p . eps <= 1"):
            read(1, p, eps)


def test_other_bad_input_is_refused() -> None:
    run, batch = (tp.train(NET, task, OPT, SCALE, 4) for task in (TASK, BATCH))
    with pytest.raises(ValueError, match="eps: got nan, which is NaN or infinite"):
        run.feature_difference(1, 0.5, float("nan"))
    with pytest.raises(ValueError, match="t: got step 1; expected, with 2 inputs a step"):
        batch.feature_difference(1, 0.5, 0.5)
    with pytest.raises(ValueError, match="t: got 4; expected steps 0..3"):
        run.gradient_difference(4, 0.5, 0.5)
    with pytest.raises(ValueError, match="s: got -1"):
        run.cross_covariance(1, -1, 0, 0, 0.5, 0.5)
    with pytest.raises(ValueError, match="b: got 2"):
        run.cross_covariance(1, 1, 0, 2, 0.5, 0.5)
    with pytest.raises(ValueError, match="q: got 1.5"):
        run.cross_covariance(1, 1, 0, 0, 0.5, 1.5)
    with pytest.raises(ValueError):
        run.feature_difference(1, [0.1, 0.2], [0.1, 0.2, 0.3])


def test_a_piece_that_is_too_long_for_the_iteration_is_made_of_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of halves of halves here, which few rounds settle; the piece is the same."""
    long = tp.Task(np.tile(TASK.inputs[:, 0, 0], 2), np.tile(TASK.targets[:, 0, 0], 2))
    whole = TimeSegments(solve_limit(long, SGD(2.0), 1.0, 1.0, "plain").propagator)
    piece, asked = whole._piece(0.1, 0.8), []

    def few(step: Any, begun: np.ndarray) -> np.ndarray | None:
        asked.append(layer_time.settled(step, begun, 7))
        return asked[-1]

    monkeypatch.setattr(segments, "settled", few)
    halved = TimeSegments(whole.propagator)._piece(0.1, 0.8)
    assert sum(one is None for one in asked) > 1
    np.testing.assert_allclose(halved.response, piece.response, atol=1e-12 * np.max(np.abs(piece.response)))
    np.testing.assert_allclose(halved.noise, piece.noise, atol=1e-12 * np.max(np.abs(piece.noise)))
