"""Lowered programs without matrices: draw by draw what the unrolled ones are, in the order in which they run."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

import tpcalc as tp
from support.nightly import few_of
from support.closeness import assert_close
from tpcalc import _checks
from reference.conditioned import run_conditioned
from reference.particles import run_particles
from tpcalc.interpreters import run_program
from tpcalc.interpreters.conditioned_blocks import OrthonormalBlock
from tpcalc.interpreters.lowered_conditioned import ConditionedExecution, conditioned
from tpcalc.interpreters.lowered_particles import least_samples, particles
from tpcalc.lowering import lowered_order
from tpcalc.programs.language import Family, Matrix, Vector
from tpcalc.programs.program import Program
from tpcalc.testing.programs import ProgramExample, linear_programs

X = Family(Vector, "x", layered=True)
NETS = {"post_nonlin": tp.ResNet("tanh"), "mlp": tp.ResNet("erf", block="mlp", train_embedding_readout=True),
        "glu, rms": tp.ResNet("gelu", block="glu", norm="rms")}
OPTIMIZERS = {"SGD": tp.SGD([0.3, 0.2, 0.1], momentum=0.9, nesterov=True, weight_decay=0.1),
              "Adam": tp.Adam(0.1, 0.8, 0.9, eps=0.05, weight_decay=0.2), "SignSGD": tp.SignSGD([0.1, 0.2, 0.05])}


def training(block: str, opt: str, batch: int, d_in: int = 1, d_out: int = 1, probes: int = 0
             ) -> tuple[Program, dict[str, int], dict[str, np.ndarray]]:
    rng, optimizer, batched = np.random.default_rng(1), OPTIMIZERS[opt], batch > 1 or probes > 0
    program = tp.program(NETS[block], optimizer, tp.DepthScaling(), batched, d_in, d_out, probes)
    xi, y = rng.normal(size=(3, batch + probes, d_in)), rng.normal(size=(3, batch, d_out))
    xi, y = (v[..., 0] if v.shape[-1] == 1 else v for v in (xi, y))
    data = {"xi": xi if batched else xi[:, 0], "y": y if batched else y[:, 0]}
    data |= {"eta": np.array(optimizer.lr)} if isinstance(optimizer.lr, tuple) else {}
    return program, {"T": 3, "L": 2, **({"B": batch} if batched else {})}, data


TRAINED = [("post_nonlin", "SGD"), ("post_nonlin", "Adam"), ("mlp", "SGD"), ("mlp", "SignSGD"), ("glu, rms", "Adam")]


@pytest.mark.parametrize("block, opt, shape", few_of(((*one, shape) for one in TRAINED for shape in (
    (1,), (3,), (2, 3, 2, 2))), ("post_nonlin", "SGD", (1,)), ("post_nonlin", "Adam", (1,)),
    *((*one, (2, 3, 2, 2)) for one in TRAINED[2:])), ids=str)
def test_draws_are_those_of_unrolled_runs(block: str, opt: str, shape: tuple[int, ...]) -> None:
    program, sizes, data = training(block, opt, *shape)
    ordered = lowered_order(program)
    ours = conditioned(program, sizes, data, 40, 3, keep=("x", "dx"))
    theirs = run_conditioned(ordered, sizes, data, 40, 3)
    assert_close(ours.series("f"), theirs.series("f"), 1e-12, 1.0)
    for member, value in ours.vectors.items():
        assert_close(value, theirs.vectors[member], 1e-11, 1.0)
    assert {m.name for m in ours.vectors} >= {"x", "dx"}
    few, many = (run(program if run is particles else ordered, sizes, data, 700, 5, 2, keep=())
                 for run in (particles, run_particles))
    assert_close(few.series("f"), many.series("f"), 1e-11, 1.0)
    assert_close(few.error_series("f"), many.error_series("f"), 1e-10, 1.0)


@settings(max_examples=25)
@given(linear_programs())
def test_random_programs(example: ProgramExample) -> None:
    for width in (5, 60):  # narrow ones exhaust their matrices
        ours = conditioned(*example, width=width, seed=2, keep=tuple(
            p.statement.target.name for p in example.program.locations() if isinstance(p.statement.target, Vector)))
        theirs = run_conditioned(lowered_order(example.program), *list(example)[1:], width=width, seed=2)
        for member, value in {**ours.scalars, **ours.vectors}.items():
            expected = {**theirs.scalars, **theirs.vectors}
            if member in expected:
                assert_close(value, expected[member], 1e-10, 1.0)


@pytest.mark.slow
def test_batches_have_the_law_of_samples_one_by_one() -> None:
    """Kolmogorov-Smirnov at n = 12: products with blocks are made in another order than the program says."""
    program, sizes, data = training("mlp", "SGD", 3)
    ours, theirs = (np.array([run(program, sizes, data, 12, seed, keep=()).series("f").ravel() for seed in range(200)])
                    for run in (conditioned, run_conditioned))
    for mix in (np.eye(9)[0], np.eye(9)[-1], np.arange(1.0, 10) * (-1.0) ** np.arange(9)):
        assert stats.ks_2samp(ours @ mix, theirs @ mix).pvalue > 1e-6


def test_blocks_are_orthonormal_whatever_they_repeat() -> None:
    """A block with combinations of its own rows and of earlier ones adds what is new, and gives its coefficients."""
    rng = np.random.default_rng(0)
    held, first, more = OrthonormalBlock(50, np.float64), rng.normal(size=(3, 50)), rng.normal(size=(2, 50))
    held.extended(first)
    rows = np.array([more[0], first[1] - more[0], 1e-9 * more[1], first[2], 2 * more[1] + first[0], np.zeros(50)])
    coefficients, added = held.extended(rows)
    assert len(added) == 2 and held.count == 5
    assert_close(held.filled @ held.filled.T / 50, np.eye(5), 1e-14, 1.0)
    assert_close(coefficients @ held.filled, rows, 1e-13, 1.0)


def test_float32_stays_float32_and_sizes_are_asked_for_before_the_work() -> None:
    program, sizes, data = training("post_nonlin", "SGD", 2)
    small, exact = (conditioned(program, sizes, data, 300, dtype=dtype, keep=("x",))
                    for dtype in ("float32", "float64"))
    assert small.stack("x", 0, 1).dtype == np.float32 and small.stack("x", 0, 1).shape == (2, 300)
    assert np.all(np.isfinite(small.series("f"))) and exact.stack("x", 0, 1).dtype == np.float64
    with pytest.raises(MemoryError, match="with 24 products of width 100000000000 needs"):
        conditioned(program, sizes, data, 10**11)
    with pytest.raises(ValueError, match="samples: got 10; program .* up to 12 products with one matrix and has 2 "):
        particles(program, sizes, data, 10)


def test_momentum_has_one_term_a_step() -> None:
    program = tp.program(tp.ResNet(), tp.SGD(0.3, momentum=0.9, weight_decay=0.2), tp.DepthScaling())
    run = ConditionedExecution(program, {"T": 6, "L": 1}, dict(xi=np.ones(6), y=np.ones(6)), "mse", 10, 0,
                               ("numpy", "float64", None), ("W",))
    run.run()
    last = run.F[run.lowered.names.number_of(Family(Matrix, "W", layered=True)[5, 1])][5, 1]
    rho, w = tp.SGD(0.3, momentum=0.9, weight_decay=0.2).memory(6)
    assert_close([c for c, _, _ in last.outers.values()], -w[5, :5], 1e-14)
    assert_close(list(last.initial.values()), [rho[5]], 1e-14)


def test_executors_change_nothing_and_runs_can_be_sent() -> None:
    program, sizes, data = training("post_nonlin", "Adam", 2)
    seen: list[tuple[int, int]] = []
    one = particles(program, sizes, data, 150, 1, 3, keep=("x",), progress=lambda *at: seen.append(at))
    with ThreadPoolExecutor(2) as pool:
        two = particles(program, sizes, data, 150, 1, 3, keep=("x",), executor=pool)
    assert np.array_equal(one.series("f"), two.series("f")) and seen == [(1, 3), (2, 3), (3, 3)]
    again = pickle.loads(pickle.dumps(one.batches[0]))
    assert np.array_equal(again.vectors[X[1, 1, 2]], one.batches[0].vectors[X[1, 1, 2]])


def test_in_order_means_the_same_program() -> None:
    """Dense matrices make no draws while they run."""
    program, sizes, data = training("mlp", "SGD", 2, 3, 2, 1)
    one, two = (run_program(p, sizes, data, 12).series("f") for p in (program, lowered_order(program)))
    assert_close(one, two, 1e-13, 1.0)


@pytest.mark.parametrize("block, opt", [("post_nonlin", "SGD"), ("mlp", "Adam")])
def test_the_fewest_particles_are_enough_and_one_less_is_refused(block: str, opt: str) -> None:
    program, sizes, data = training(block, opt, 2)
    least = least_samples(program, sizes, data)
    assert np.all(np.isfinite(particles(program, sizes, data, least, batches=2).series("f")))
    with pytest.raises(ValueError, match=f"samples: got {least - 1}.* at least {least} are needed"):
        particles(program, sizes, data, least - 1, batches=2)


def test_memory_is_asked_for_what_every_batch_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    program, sizes, data = training("post_nonlin", "SGD", 2)
    asked: dict[str, float] = {}
    monkeypatch.setattr(_checks, "memory", lambda needed, what, advice: asked.update({what: needed}))

    def more(batches: int, keep: tuple[str, ...]) -> tuple[float, float]:
        """Memory that is asked for beyond that of the first batch, and what one batch has kept."""
        found = particles(program, sizes, data, 150, 1, batches, keep=keep)
        (together, what), = ((one, one.partition(" batches of ")[2]) for one in asked if " batches of " in one)
        difference = asked[together] - asked[what]
        asked.clear()
        return difference, sum(value.nbytes for value in found.batches[0].vectors.values())

    (two, kept), (three, _) = more(2, ("x", "dx")), more(3, ("x", "dx"))
    assert more(3, ()) == (0, 0) and three == 2 * two and two >= kept > 0
