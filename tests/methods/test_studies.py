"""Sweeps and convergence take every network, optimizer and method."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.methods import Conditioned, Dense, Particles
from tpcalc.programs.language import MatVec
from tpcalc.studies import transfer as module_of

TASK = tp.Task([1.0, 0.8, -0.6], [1.0, -0.7, 0.5])
SCALE, RATES = tp.DepthScaling(), [0.5, 1.0]
ADAM = tp.Adam(0.2, eps=0.1)
KINDS: dict[str, tuple[tp.ResNet, Any, list, dict]] = {
    "tanh, exact limit": (tp.ResNet("tanh"), tp.SGD(0.5), [2, tp.oo], dict(method="auto")),
    "Adam, particles": (tp.ResNet("relu"), ADAM, [2, 3], dict(method=Particles(samples=128, batches=2, seed=3))),
    "mlp, real": (tp.ResNet("tanh", "mlp"), ADAM, [2, 3], dict(method=Conditioned(seed=2), width=8)),
    "dense": (tp.ResNet("gelu"), tp.SignSGD(0.1), [2], dict(method="dense", width=8)),
    "trained ends": (tp.ResNet(train_embedding_readout=True), tp.SGD(0.5), [2, tp.oo], {})}


@pytest.mark.parametrize("kind", KINDS)
def test_losses_of_a_sweep_are_those_of_single_trainings(kind: str) -> None:
    net, opt, depths, how = KINDS[kind]
    if "exact" in kind:
        depths = [tp.oo]
    found = tp.transfer(net, TASK, opt, SCALE, depths, RATES, **how)
    for j, depth in enumerate(depths):
        for k, rate in enumerate(RATES):
            run = tp.train(net, TASK, replace(opt, lr=opt.lr * rate), SCALE, depth, **how)
            assert found.losses[0, j, k] == run.losses[-1]
    assert found.reasons == ("",) and len({*found.losses.ravel()}) == found.losses.size


def test_nonlinear_networks_without_a_limit_say_why() -> None:
    scales = [tp.DepthScaling(0.25, 0.75), SCALE]
    found = tp.transfer(tp.ResNet("tanh"), TASK, tp.SGD(0.5), scales, [tp.oo], RATES)
    assert "explodes at initialization like exp(L^(1/4))" in found.reasons[0] and found.reasons[1] == ""
    assert np.isnan(found.losses[0]).all() and np.isfinite(found.losses[1]).all()


def module_block(branch: Any) -> Any:
    """A block that its module knows by name."""
    return MatVec(branch.weights("A"), branch.x)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    done: list[int] = []

    def counted(problem: Any, method: Any) -> Any:
        done.append(1)
        return tp.train(problem, method=method)

    monkeypatch.setitem(module_of.__globals__, "train", counted)
    return done


@pytest.mark.parametrize("change", ["seed", "method", "width", "phi", "block", "optimizer", "weights", "nothing"])
def test_what_decides_a_result_is_in_its_name(tmp_path: Path, made: list[int], change: str) -> None:
    net, opt, how = tp.ResNet("tanh"), ADAM, dict[str, Any](method=Dense(seed=1), width=8)
    tp.transfer(net, TASK, opt, SCALE, [2], [1.0], resume=tmp_path, **how)
    weights = tp.train(net, TASK, opt, SCALE, 2, 8, method=Dense(seed=1)).initial_weights()
    weights["W"] *= 0.5
    changed: dict[str, Any] = {"seed": dict(method=Dense(seed=2)), "method": dict(method=Conditioned(seed=1)),
                               "width": dict(width=9), "weights": dict(method=Dense(weights=weights))}.get(change, {})
    net = {"phi": tp.ResNet("relu"), "block": tp.ResNet("tanh", module_block)}.get(change, net)
    opt = replace(ADAM, beta1=0.5) if change == "optimizer" else opt
    found = tp.transfer(net, TASK, opt, SCALE, [2], [1.0], resume=tmp_path, **{**how, **changed})
    assert len(made) == (1 if change == "nothing" else 2)
    run = tp.train(net, TASK, replace(opt, lr=(opt.lr,) * 3), SCALE, 2, **{**how, **changed})
    assert found.losses[0, 0, 0] == run.losses[-1]


def test_an_executor_is_no_part_of_the_name(tmp_path: Path, made: list[int]) -> None:
    with ThreadPoolExecutor(2) as executor:
        for own in (executor, None):
            tp.transfer(tp.ResNet("tanh"), TASK, tp.SGD(0.5), SCALE, [2], [1.0], resume=tmp_path,
                        method=Particles(samples=128, batches=2, executor=own))
    assert len(made) == 1


def test_blocks_without_a_name_cannot_be_resumed(tmp_path: Path) -> None:
    net = tp.ResNet("tanh", lambda branch: MatVec(branch.weights("A"), branch.x))
    with pytest.raises(ValueError, match="^net: its block .* cannot be told from others by its content"):
        tp.transfer(net, TASK, tp.SGD(0.5), SCALE, [2], [1.0], resume=tmp_path)
    assert np.isfinite(tp.transfer(net, TASK, tp.SGD(0.5), SCALE, [2], [1.0]).losses).all()


def test_nonlinear_networks_converge_to_their_exact_limit() -> None:
    """Distances of sampled networks to the limit fall like 1/L until the sampling error shows."""
    task = tp.Task([1.0, 0.8], [1.0, -0.7])
    by = Particles(seed=1, samples=2048)
    found = tp.convergence(tp.ResNet("tanh"), task, tp.SGD(1.0), SCALE, [2, 4, 8], method=by)
    assert found.limit is not None and found.limit.method == "collocation" and found.reason == ""
    assert found.distance is not None
    run = tp.train(tp.ResNet("tanh"), task, tp.SGD(1.0), SCALE, 8, method=by)
    assert np.array_equal(found.outputs[2], run.outputs)
    assert found.distance[0] > 5 * run.error_estimate and found.distance[2] < found.distance[0] / 2


@pytest.mark.parametrize("net, opt, how, said", [
    (tp.ResNet("relu"), ADAM, dict(width=8), "which no method takes"),
    (tp.ResNet("relu"), tp.SGD(0.5), dict(width=8), "which no method takes"),
    (tp.ResNet("tanh", "pre_nonlin"), tp.SGD(0.5), dict(width=8, method="dense"), "which no method takes")])
def test_where_no_method_takes_infinite_depth_the_reason_stands_for_the_limit(net: Any, opt: Any, how: dict, said: str
                                                                              ) -> None:
    found = tp.convergence(net, TASK, opt, SCALE, [2, 3], **how)
    assert found.limit is None and found.distance is None and said in found.reason
    assert f"no limit: {found.reason}" in found.table()
    for f, depth in zip(found.outputs, (2, 3)):  # no doublings: draws of their own
        assert np.array_equal(f, tp.train(net, TASK, opt, SCALE, depth, **how).outputs)


def test_methods_that_refuse_are_named_before_any_work() -> None:
    with pytest.raises(ValueError, match="^net: .* method='reflection' takes phi='linear'"):
        tp.convergence(tp.ResNet("tanh"), TASK, tp.SGD(0.5), SCALE, [2, 4], method="reflection")
