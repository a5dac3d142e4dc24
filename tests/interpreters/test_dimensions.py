"""Programs with several inputs and outputs a sample and with probes, in every reading."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import tpcalc as tp
from support.closeness import assert_close
from support.plain.training import PlainTraining
from reference.conditioned import run_conditioned
from reference.particles import run_particles
from tpcalc.interpreters import check_steps, read_program_coefficients, run_program
from tpcalc.interpreters.training import Training as Job
from tpcalc.testing import DrawnProblem, problems

RNG = np.random.default_rng(3)
SCALE = tp.DepthScaling()


def task(loss: str = "mse", d_in: int = 3, d_out: int = 2, batch: int = 2, probes: int = 2, steps: int = 3) -> tp.Task:
    targets = RNG.normal(size=(steps, batch, d_out))
    targets = {"mse": targets, "logistic": np.where(targets > 0, 1.0, -1.0),
               "softmax": np.exp(targets) / np.sum(np.exp(targets), axis=2, keepdims=True)}[loss]
    held_out = RNG.normal(size=(probes, d_in)) if probes else None
    return tp.Task(RNG.normal(size=(steps, batch, d_in)) / 2, targets, loss, held_out)


@settings(max_examples=6)
@given(problems(max_depth=3, max_steps=3, max_probes=2))
def test_linear_networks_are_the_exact_solvers(problem: DrawnProblem) -> None:
    """Coefficients and balanced particles against reflection, outputs and probe outputs, to rounding."""
    given_task, opt, scale, depth = problem
    for net in (tp.ResNet(), tp.ResNet(train_embedding_readout=True)):
        exact = tp.train(net, given_task, opt, scale, depth)
        job = Job(net, given_task, opt, scale, depth)
        program = (job.program(), job.sizes(), job.data())
        for run in (read_program_coefficients(*program, loss=given_task.loss),
                    run_particles(*program, 1300, batches=2, loss=given_task.loss, balance="all", keep=())):
            outputs, probe_outputs = job.outputs(run.series("f"))
            assert_close(outputs, exact.outputs, 1e-11, 1.0, given_task.targets)
            assert (probe_outputs is None) == (exact.probe_outputs is None)
            if probe_outputs is not None:
                assert_close(probe_outputs, exact.probe_outputs, 1e-11, 1.0, given_task.targets)


@pytest.mark.parametrize("frozen", [True, False], ids=["frozen", "trained ends"])
@pytest.mark.parametrize("loss, opt, sizes", [
    ("mse", tp.SGD(0.5, momentum=0.5, weight_decay=0.1), {}), ("logistic", tp.SGD([0.5, 0.1, 0.2]), {"d_in": 1}),
    ("softmax", tp.SGD(0.5), {"d_out": 4, "batch": 1}), ("mse", tp.SGD(0.5), {"d_out": 1, "probes": 0}),
    ("softmax", tp.SignSGD(0.2), {"probes": 0}), ("mse", tp.Adam(0.3, 0.8, 0.9, 0.1, 0.2), {"batch": 1, "probes": 0})])
def test_real_networks_are_plain_loops(loss: str, opt: Any, sizes: dict[str, int], frozen: bool) -> None:
    n, depth, seed, given_task = 14, 2, 5, task(loss, **sizes)
    net = tp.ResNet("tanh", block="mlp", train_embedding_readout=not frozen)
    run = tp.train(net, given_task, opt, SCALE, depth, width=n, seed=seed, method="dense")
    plain = PlainTraining(given_task, opt, n, depth, depth**-0.5, depth**-0.5, seed, frozen, in_order=True)
    outputs, probe_outputs = plain.outputs()
    assert_close(run.outputs, outputs, 1e-12, 1.0)
    assert (run.probe_outputs is None) == (given_task.probes is None)
    if run.probe_outputs is not None:
        assert_close(run.probe_outputs, probe_outputs, 1e-12, 1.0)


@pytest.mark.parametrize("ends", [False, True])
def test_every_step_to_the_ket_equations_is_exact(ends: bool) -> None:
    program = tp.program(tp.ResNet(train_embedding_readout=ends), tp.SGD(0.5), SCALE, batch=True, d_in=3, d_out=2,
                         probes=1)
    data = dict(xi=np.arange(18).reshape(2, 3, 3) % 5 - 2, y=np.arange(8).reshape(2, 2, 2) % 3)
    checks = check_steps(tp.kets(program), {"T": 2, "L": 4, "B": 2}, data, exact=True)
    assert len(checks) > 10 and all(check.difference == 0 for check in checks)


def test_one_dimension_has_no_index() -> None:
    """The programs of papers stay as they are."""
    net, opt = tp.ResNet("tanh", train_embedding_readout=True), tp.SGD(1.0)
    assert tp.program(net, opt, SCALE, d_in=1, d_out=1, probes=0) == tp.program(net, opt, SCALE)
    names = {str(v) for v in tp.program(tp.ResNet(), opt, SCALE).vectors}
    assert names == {"U", "nV"}
    wide = tp.program(tp.ResNet(), opt, SCALE, d_in=64, d_out=10)
    assert {str(v) for v in wide.vectors} == {"U[j]", "nV[o]"}
    assert r"\chi_{t,o} := \ell_{t,o}'(f_{t,0}, \ldots, f_{t,9})" in wide.latex()
    assert "x[t, 0] := Sum(xi[t, j]*U[j], (j, 0, 63))" in str(wide)


def test_conditioned_networks_of_several_dimensions_have_the_law_of_dense_ones() -> None:
    given_task = task("softmax")
    job = Job(tp.ResNet("tanh"), given_task, tp.SGD(1.0), SCALE, 2)
    what = (job.program(), job.sizes(), job.data())
    found = [np.array([run(*what, 60, seed, given_task.loss).series("f") for seed in range(50)])
             for run in (run_program, run_conditioned)]
    error = np.sqrt(sum(values.var(0, ddof=1) / 50 for values in found))
    assert np.all(np.abs(found[0].mean(0) - found[1].mean(0)) < 5 * error)
    assert np.max(np.abs(np.log(found[0].std(0) / found[1].std(0)))) < 0.7


def test_bad_sizes_and_data_are_refused() -> None:
    for settings_given, said in (({"d_in": 0}, "d_in: got 0; expected a whole number of at least 1"),
                                 ({"d_out": 1.5}, "d_out: got 1.5"),
                                 ({"probes": -1, "batch": True}, "probes: got -1"),
                                 ({"probes": 2}, "probes: got 2 with batch=False")):
        with pytest.raises(ValueError, match=said):
            tp.program(tp.ResNet(), tp.SGD(), SCALE, **settings_given)  # type: ignore[arg-type]
    program = tp.program(tp.ResNet(), tp.SGD(), SCALE, d_out=2)
    with pytest.raises(ValueError, match=r"y: got data of shape \(1, 3\); expected 2 along the last axis"):
        run_program(program, {"T": 1, "L": 1}, dict(xi=[1.0], y=np.ones((1, 3))), 10)
    with pytest.raises(ValueError, match=r"y: got data of shape \(1,\); expected"):
        run_program(program, {"T": 1, "L": 1}, dict(xi=[1.0], y=[1.0]), 10)
