"""Draws that depths share: what they are, and what runs with them give."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import tpcalc as tp
from tpcalc.interpreters.common_draws import SharedDraws, FramedDraws, Refinement, draw_keys, orthonormal
from tpcalc.interpreters.conditioned_blocks import Block, BlockProducts, OrthonormalBlock
from tpcalc.interpreters.refined import Frame, RefinedConditioned, RefinedMatrix, RefinedParticles, at_depths
from tpcalc.interpreters.training import Training
from tpcalc.programs.blocks import Branch
from tpcalc.programs.language import MatVec

SCALE = tp.DepthScaling()
SAMPLES = 512


def framed(seed: int, level: int, samples: int = SAMPLES, coarsest: int = 2, calls: tuple[int, int] = (2, 1)
           ) -> FramedDraws:
    first = OrthonormalBlock(samples, np.float64)
    first.extended(np.ones((1, samples)))
    first.extended(np.random.default_rng(seed).standard_normal((2, samples)))
    return FramedDraws(samples, (seed, 0), draw_keys({(0,): calls}), coarsest, level, first)


@given(st.integers(0, 99), st.integers(1, 3), st.booleans(), st.data())
@settings(max_examples=25, deadline=None)
def test_draws_averaged_in_pairs_are_those_of_half_the_depth(seed: int, level: int, frame: bool, data: Any) -> None:
    draws = framed(seed, level) if frame else SharedDraws(SAMPLES, np.float64, (seed, 0))
    key, parent = data.draw(st.sampled_from([(0, 0, 0), (0, 0, 1), (0, 1, 0)])), data.draw(st.integers(0, 2**level - 1))
    one, two = (draws.row(key, level, 2 * parent + k) for k in (0, 1))
    assert np.allclose((one + two) / np.sqrt(2), draws.row(key, level - 1, parent), rtol=0, atol=1e-12)
    assert np.abs(one - two).max() > 0.1 and abs(np.mean(one**2) - 1) < 0.4


@given(st.integers(0, 99), st.permutations(range(8)))
@settings(max_examples=20, deadline=None)
def test_draws_do_not_depend_on_the_order_of_asking(seed: int, order: Sequence[int]) -> None:
    one, two = (SharedDraws(4, np.float64, (seed,)) for _ in (0, 1))
    found = {layer: one.row((0, 0, 0), 2, layer) for layer in order}
    assert all(np.array_equal(found[layer], two.row((0, 0, 0), 2, layer)) for layer in range(8))
    assert not np.array_equal(found[0], two.row((0, 1, 0), 2, 0)) and not np.array_equal(found[0], found[1])


def test_innovations_are_independent_and_of_variance_one() -> None:
    """Rows of a level: the identity, from 2000 numbers each, for two depths of eight layers and two keys."""
    draws = SharedDraws(4000, np.float64, (3,))
    rows = np.array([draws.row((0, side, 0), level, layer)
                     for side in (0, 1) for level in (0, 3) for layer in range(8)])
    same = rows @ rows.T / 4000
    fine = [i for i in range(32) if i % 16 >= 8]
    assert np.max(np.abs(same[np.ix_(fine, fine)] - np.eye(16))) < 5 / np.sqrt(4000)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_frame_is_orthonormal_at_every_depth(level: int) -> None:
    """All rows of all keys, and to the constant and the initial vectors; coarse rows do not know the finest level."""
    draws = framed(1, level)
    rows = np.array([draws.row(key, level, layer) for key in draws.locations for layer in range(2 * 2**level)])
    assert np.max(np.abs(rows @ rows.T / SAMPLES - np.eye(len(rows)))) < 1e-12
    assert np.max(np.abs(rows.mean(axis=1))) < 1e-12
    deeper = framed(1, level + 1)
    assert np.array_equal(draws.row((0, 1, 0), level, 1), deeper.row((0, 1, 0), level, 1))


def test_a_level_that_does_not_fit_is_orthonormal_key_by_key_or_left_as_it_is_drawn() -> None:
    draws = framed(1, 6, calls=(4, 2))  # 6 keys of 16 layers in 512 samples: more than 1 in 8; so are 128 layers alone
    assert [frame.shape for frame in draws.frames] == [(6, k, SAMPLES) for k in (2, 2, 4, 8, 16, 32)]
    rows = np.array([[draws.row(key, 3, layer) for layer in range(16)] for key in draws.locations])
    for own in rows:
        assert np.max(np.abs(own @ own.T / SAMPLES - np.eye(16))) < 1e-12
    assert 1e-3 < np.max(np.abs(rows[0] @ rows[1].T / SAMPLES)) < 0.3
    one, two = (draws.row((0, 0, 0), 6, layer) for layer in (6, 7))
    assert np.allclose((one + two) / np.sqrt(2), draws.row((0, 0, 0), 5, 3), rtol=0, atol=1e-12)
    assert 1e-3 < abs(one @ two) / SAMPLES < 0.3


def test_orthonormal_rows_keep_their_order() -> None:
    """Gram-Schmidt: the first row keeps its direction, so that nothing later changes it."""
    held, rows = OrthonormalBlock(50, np.float64), np.random.default_rng(0).standard_normal((5, 50))
    found = orthonormal(held, rows)
    assert np.allclose(found[0], rows[0] / np.sqrt(np.mean(rows[0] ** 2))) and held.count == 5


def test_depths_are_doublings() -> None:
    assert Refinement.of(64, 8) == Refinement(8, 3) and Refinement.of(3, 3).level == 0 and Refinement(5, 2).depth == 20
    for depth, coarsest in ((12, 8), (4, 8), (24, 8)):
        with pytest.raises(ValueError, match=f"^depth: got {depth} with coarsest={coarsest}; expected"):
            Refinement.of(depth, coarsest)


def test_products_that_need_no_draw_are_counted() -> None:
    """W p, W q, W (p + q) together, then W r and W^T s: numbers 0, 1 and 3 of W, 0 of its transpose."""
    asked: list[tuple[int, list[int]]] = []
    rng = np.random.default_rng(0)

    def common(turned: int, calls: Sequence[int], shunned: OrthonormalBlock) -> np.ndarray:
        asked.append((turned, list(calls)))
        return shunned.split(rng.standard_normal((len(calls), 40)))[1]

    def side() -> BlockProducts:
        basis = OrthonormalBlock(40, np.float64)
        return BlockProducts(basis, Block(40, np.float64), basis)

    matrix, p = RefinedMatrix(common, (side(), side())), rng.standard_normal((4, 40))
    matrix.product(False, np.stack([p[0], p[1], p[0] + p[1]]))
    matrix.product(False, p[2:3])
    matrix.product(False, p[2:3])
    matrix.product(True, p[3:4])
    matrix.product(False, np.stack([p[1], p[3]]))
    assert asked == [(0, [0, 1]), (0, [3]), (1, [0]), (0, [6])] and matrix.calls == [7, 1]


def outputs(job: Training, level: int, samples: int, seed: int = 0, batch: int = 0, flipped: tuple[str, ...] = (),
            frame: bool = True) -> np.ndarray:
    """Outputs of one batch, whose depth is 2^(level + 1)."""
    run = RefinedParticles(job.program(), job.sizes(), job.data(), job.task.loss, samples, seed, (), batch,
                           refinement=Refinement(2, level), frame=Frame(level, flipped) if frame else None)
    run.run()
    return job.outputs(run.result().series("f"))[0]


@given(st.integers(0, 2), st.integers(0, 99), st.booleans(), st.sampled_from([0.0, 0.5]))
@settings(max_examples=12, deadline=None)
def test_linear_training_with_framed_draws_is_exact_at_every_depth(level: int, seed: int, mirrored: bool,
                                                                   momentum: float) -> None:
    rng = np.random.default_rng(seed)
    task = tp.Task(rng.uniform(-1, 1, (3, 2, 2)) / 2, rng.uniform(-1, 1, (3, 2, 2)))
    opt = tp.SGD(0.4, momentum=momentum)
    job = Training(tp.ResNet(), task, opt, SCALE, 2 * 2**level)
    exact = tp.train(tp.ResNet(), task, opt, SCALE, job.depth).outputs
    assert np.max(np.abs(outputs(job, level, 1024, seed, flipped=("nV",) if mirrored else ()) - exact)) < 1e-12
    assert np.max(np.abs(outputs(job, level, 1024, seed, frame=False) - exact)) > 1e-6


def block(first: str, second: str) -> Any:
    def named(branch: Branch) -> sp.Expr:
        u = branch.let("h", MatVec(branch.weights(first), branch.x))
        return MatVec(branch.weights(second), branch.let("z", branch.phi(u)))
    return named


def test_names_of_matrices_change_nothing() -> None:
    task = tp.Task([1, 0.5], [1, -1])
    one, two = (outputs(Training(tp.ResNet("tanh", block(*names)), task, tp.SGD(0.5), SCALE, 4), 1, 512)
                for names in (("W1", "W2"), ("Y", "A")))
    assert np.array_equal(one, two) and np.all(one[1] != 0)


def test_depths_of_one_batch_are_coupled_and_the_mirror_repairs_signs() -> None:
    """Changes from depth 4 to 8 vary less than outputs; the mean of both signs by more than two independent ones."""
    task, opt = tp.Task([1, 0.8, -0.6], [1, -0.7, 0.5]), tp.SignSGD(0.5)
    jobs = [Training(tp.ResNet("tanh"), task, opt, SCALE, depth) for depth in (4, 8)]
    found = {mirror: np.array([at_depths([(job.program(), job.sizes()) for job in jobs], jobs[0].data(), "mse", 512, 0,
                                         batch, [Refinement(4, 0), Refinement(4, 1)], mirror, "f")
                               for batch in range(12)])[:, :, 1:] for mirror in ((), ("nV",))}
    spread = {mirror: values.std(axis=0).max() for mirror, values in found.items()}
    assert spread["nV",] < 0.6 * spread[()]
    assert np.diff(found["nV",], axis=1).std(axis=0).max() < 0.6 * found["nV",].std(axis=0).max()


def test_real_networks_of_one_width_are_coupled_in_depth() -> None:
    """Changes of outputs from depth 8 to 16, over seeds: smaller than with draws of their own, by more than half; and
    real networks with common draws have the law of dense ones (means over seeds of two widths, four errors)."""
    task, opt, net = tp.Task([1, 0.8], [1, -0.7]), tp.SGD(0.5), tp.ResNet("tanh", "pre_nonlin")
    problems = [tp.Problem(net, task, opt, SCALE, depth, 256) for depth in (8, 16)]

    def changes(**options: int) -> np.ndarray:
        runs = [[tp.train(problem, method=tp.methods.Conditioned(seed=seed, **options)).outputs[1, 0, 0]
                 for problem in problems] for seed in range(12)]
        return np.array(runs)

    own, common = changes(), changes(coarsest=8)
    assert np.diff(common).std() < 0.4 * np.diff(own).std()
    error = np.sqrt(own.var(axis=0, ddof=1) / 12 + common.var(axis=0, ddof=1) / 12)
    assert np.all(np.abs(own.mean(axis=0) - common.mean(axis=0)) < 4 * error)


def test_real_networks_with_common_draws_are_exact_in_law() -> None:
    """Products of one matrix at level 1: <W p|W p> = <p|p> and <W^T q|p> = <q|W p>, W p independent of q beyond."""
    task = tp.Task([1, 0.5], [1, -1])
    job = Training(tp.ResNet(), task, tp.SGD(0.5), SCALE, 4)
    run = RefinedConditioned(job.program(), job.sizes(), job.data(), "mse", 2048, 0, ("numpy", "float64", None),
                             ("x", "dx"), Refinement(2, 1))
    run.run()
    again = tp.train(tp.ResNet(), task, tp.SGD(0.5), SCALE, 4).outputs.ravel()
    assert np.max(np.abs(run.result().series("f") - again)) < 5 / np.sqrt(2048)
    single = RefinedConditioned(job.program(), job.sizes(), job.data(), "mse", 64, 0, ("numpy", "float32", None), (),
                                Refinement(2, 1))
    single.run()
    assert np.all(np.isfinite(single.result().series("f")))
