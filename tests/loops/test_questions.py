"""What is asked of trained loops: answered for layers that are visited several times, or refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.results.sampled_fluctuations import SampledFluctuations

TASK = tp.Task([1, 0.8, -0.6], [1, -0.7, 0.5])
QUESTIONS: dict[str, Callable] = {
    "forward_covariance": lambda run: run.forward_covariance,
    "feature_difference": lambda run: run.feature_difference(1, 0, 1),
    "cross_covariance": lambda run: run.cross_covariance(1, 0, 0, 0, 1, 1),
    "keep_nodes": lambda run: tp.train(run.problem, keep_nodes="all", method=run.method),
    "tangent_kernel": tp.theory.tangent_kernel,
    "fluctuations": lambda run: run.fluctuations,
}


@pytest.mark.parametrize("name", list(QUESTIONS))
@pytest.mark.parametrize("visits, depth, width, method", [
    (3, 2, 16, "dense"), (3, 2, 16, "conditioned"), (3, 2, tp.oo, "particles"), (3, 2, tp.oo, "coefficients"),
    (tp.oo, 2, tp.oo, "loop_time"), (tp.oo, tp.oo, tp.oo, "loop_time")])
def test_questions_about_layers_are_refused(name: str, visits: int, depth: int, width: int, method: str) -> None:
    run = tp.train(tp.ResNet(visits=visits), TASK, tp.SGD(1.0), tp.DepthScaling(), depth, width, method)
    if name == "fluctuations" and method in ("particles", "coefficients"):  # which are those of the program
        assert isinstance(run.fluctuations, SampledFluctuations)
        return
    with pytest.raises(tp.NotCovered, match="got 3; |got oo; |got a run by|keep_nodes: got"):
        QUESTIONS[name](run)


@pytest.mark.parametrize("net", [
    tp.ResNet(visits=4), tp.ResNet(visits=4, inject=1), tp.ResNet(block="mlp"), tp.ResNet(skip=tp.Skip(inject=0.5))],
    ids=["visits", "inject", "mlp", "skip"])
def test_other_linear_networks_have_sampled_fluctuations_at_finite_depth(net: tp.ResNet) -> None:
    """Those of their programs, which are not the plain network's: against networks that are drawn."""
    run = tp.train(net, TASK, tp.SGD(0.5), tp.DepthScaling(), depth=1)
    found = run.fluctuations
    assert isinstance(found, SampledFluctuations)
    np.testing.assert_allclose(found.cumulant(2), 256 * run.at_width(256, seeds=400).std ** 2, rtol=0.35)
    plain = tp.train(tp.ResNet(), TASK, tp.SGD(0.5), tp.DepthScaling(), depth=1).fluctuations.cumulant(2)
    assert np.max(np.abs(plain - found.cumulant(2))) > 3 * found.covariance_error


def test_no_network_of_infinitely_many_visits_is_drawn() -> None:
    run = tp.train(tp.ResNet(visits=tp.oo), TASK, tp.SGD(1.0), tp.DepthScaling(), depth=2)
    with pytest.raises(tp.NotCovered, match="expected 1$"):
        run.at_width(64)


@pytest.mark.parametrize("visits, depth", [(3, 2), (tp.oo, 2), (2, tp.oo)])
def test_saved_runs_of_outputs_alone_are_loaded(visits: int, depth: int, tmp_path: Path) -> None:
    run = tp.train(tp.ResNet(visits=visits), TASK, tp.SGD(0.5), tp.DepthScaling(), depth=depth)
    run.save(tmp_path / "run.npz")
    loaded = tp.Run.load(tmp_path / "run.npz")
    assert loaded == run and loaded.problem.net == run.problem.net


@pytest.mark.parametrize("visits", [0, tp.oo, 1.5])
def test_only_a_number_of_visits_is_written_out(visits: object) -> None:
    program = tp.program(tp.ResNet(visits=2), tp.SGD(1.0), tp.DepthScaling())
    with pytest.raises(ValueError, match="visits: got .*; expected a whole number of at least 1"):
        tp.theory.visits_apart(program, visits)
    with pytest.raises(ValueError, match="program: got 3"):
        tp.theory.visits_apart(3, 2)


def test_networks_of_the_source_are_visited_once() -> None:
    with pytest.raises(tp.NotCovered, match="visits: got 2; the source's networks are known"):
        tp.theory.raw_problem(tp.theory.DepthwiseScaling(), tp.ResNet("tanh", visits=2), tp.Task([1.0], [1.0]), 4)
