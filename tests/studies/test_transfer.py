"""``transfer``: every loss is that of a training, whatever runs it and however often it is stopped."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from tpcalc import testing
from tpcalc.studies import transfer as module_of
from tpcalc.studies.optimum import grid_optimum

NET, OPT, DEPTH_MUP = tp.ResNet("linear"), tp.SGD(0.5), tp.DepthScaling(0.5, 0.5)
BATCH = np.random.default_rng(0).normal(size=(4, 2))
TASK = tp.Task(np.tile(BATCH, (4, 1, 1)), np.tile(BATCH[:, :1] - BATCH[:, 1:], (4, 1, 1)),
               probes=BATCH[::-1] / 2)
SCALINGS = [DEPTH_MUP, tp.DepthScaling(0.5, 0), tp.DepthScaling(1, 0)]
DEPTHS, RATES = [4, 16, tp.oo], [0.05, 0.2, 0.8]


def sweep(**options: Any) -> tp.studies.Transfer:
    return tp.transfer(NET, TASK, OPT, SCALINGS, DEPTHS, RATES, **options)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, float]]:
    """(depth, learning rate) of every training that is really made."""
    made: list[tuple[Any, float]] = []

    def counted(problem: Any, method: Any) -> Any:
        made.append((problem.depth, problem.opt.lr[0]))
        return tp.train(problem, method=method)

    monkeypatch.setitem(module_of.__globals__, "train", counted)
    return made


@settings(deadline=None, max_examples=20)
@given(testing.problems(max_steps=3, max_depth=6), st.data())
def test_losses_are_those_of_single_trainings(problem: testing.DrawnProblem, data: st.DataObject) -> None:
    task, opt, scale, depth = problem
    schedule = opt.schedule(task.steps)
    opt = replace(data.draw(testing.optimizers(linear=True)), lr=opt.lr)
    found = tp.transfer(NET, task, opt, [scale], [depth, depth + 1], [0.5, 0.9])
    for j, layers in enumerate((depth, depth + 1)):
        for k, factor in enumerate((0.5, 0.9)):
            run = tp.train(NET, task, replace(opt, lr=tuple(factor * schedule)), scale, layers)
            assert found.losses[0, j, k] == run.losses[-1]


def test_matrices_may_have_exponents_of_their_own() -> None:
    """A parametrization that is a depth scaling is one; of others the table says whose exponents are whose."""
    net, task = tp.ResNet("linear", "mlp"), tp.Task([1, 0.8], [1, -0.7])
    one, own = (tp.Parametrization(depth={"alpha": "1/2", "W1": "1/2", "W2": second}) for second in ("1/2", 1))
    method = tp.methods.Particles(samples=64, batches=2)
    found = tp.transfer(net, task, tp.SGD(1.0), [tp.DepthScaling(), one, own], [2, 4], [0.25, 0.5], method=method)
    assert np.array_equal(found.losses[0], found.losses[1]) and not np.allclose(found.losses[0], found.losses[2])
    problem = tp.Problem(net, task, tp.SGD(0.5), own, 4)
    assert found.losses[2, 1, 1] == pytest.approx(tp.train(problem, method=method).losses[-1], rel=1e-12)
    assert found.rows[4]["gamma"] == "1/2 of W1, 1 of W2" and "gamma = 1/2 of W1, 1 of W2" in found.table()


def test_the_limit_stands_beside_finite_depths() -> None:
    found = sweep()
    for i in (0, 2):
        for k, rate in enumerate(RATES):
            run = tp.train(NET, TASK, tp.SGD(0.5 * rate), SCALINGS[i], tp.oo)
            assert found.losses[i, 2, k] == run.losses[-1]
    assert np.all(np.isnan(found.losses[1, 2])) and np.all(np.isfinite(found.losses[:, :2]))
    assert found.reasons[0] == found.reasons[2] == "" and "moves the output by L^(1/2)" in found.reasons[1]
    assert found.limit_order[1] is None and "no limit: alpha = 1/2, gamma = 0" in found.table()


def test_a_blow_up_is_a_point_at_infinity() -> None:
    found = tp.transfer(NET, TASK, OPT, SCALINGS[0], [4], [0.2, 1e60])
    assert np.isfinite(found.losses[0, 0, 0]) and found.losses[0, 0, 1] == np.inf
    assert "diverges at step" in found.blow_ups[0, 0, 1] and len(found.blow_ups) == 1


def test_losses_of_probes() -> None:
    targets = np.ones((4, 1))
    found = tp.transfer(NET, TASK, OPT, [DEPTH_MUP], [4], [0.2], probe_targets=targets)
    run = tp.train(NET, TASK, tp.SGD(0.1), DEPTH_MUP, 4)
    assert run.probe_outputs is not None
    assert found.losses[0, 0, 0] == np.mean((run.probe_outputs[-1] - targets) ** 2) / 2 != run.losses[-1]


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_an_executor_changes_nothing(pool: Any) -> None:
    told: list[tuple[int, int]] = []
    with pool(2) as executor:
        parallel = sweep(executor=executor, progress=lambda *at: told.append(at))
    assert np.array_equal(parallel.losses, sweep().losses, equal_nan=True)
    jobs = 3 * 3 * 3 - 3
    assert told[-1] == (jobs, jobs) and [done for done, _ in told] == sorted(done for done, _ in told)


def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path: Path, trained: list[Any]) -> None:
    def stop(done: int, total: int) -> None:
        if done == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(resume=tmp_path, progress=stop)
    assert len(trained) == 10
    whole = sweep(resume=tmp_path)
    assert len(trained) == 24 == len(set(tmp_path.iterdir()))
    assert np.array_equal(whole.losses, sweep().losses, equal_nan=True)
    assert len(trained) == 48
    more = tp.transfer(NET, TASK, OPT, SCALINGS, [4, 8], RATES, resume=tmp_path)
    assert len(trained) == 48 + 9 and {depth for depth, _ in trained[48:]} == {8}
    assert np.array_equal(more.losses[:, 0], whole.losses[:, 0])


def test_blow_ups_are_kept_too(tmp_path: Path, trained: list[Any]) -> None:
    first, second = (tp.transfer(NET, TASK, OPT, [DEPTH_MUP], [4], [1e60], resume=tmp_path) for _ in range(2))
    assert len(trained) == 1 and first.blow_ups == second.blow_ups != {} and second.losses[0, 0, 0] == np.inf


@pytest.mark.parametrize("changed", ["task", "opt", "scale", "loss", "probes"])
def test_what_decides_a_result_is_in_its_name(tmp_path: Path, trained: list[Any], changed: str) -> None:
    probes = np.ones((4, 1))
    tp.transfer(NET, TASK, OPT, [DEPTH_MUP], [4], [0.2], resume=tmp_path, probe_targets=probes)
    task = {"task": tp.Task(TASK.inputs, -TASK.targets, probes=TASK.probes),
            "loss": tp.Task(TASK.inputs, np.sign(TASK.targets), "logistic", TASK.probes),
            "probes": tp.Task(TASK.inputs, TASK.targets, probes=2 * BATCH)}.get(changed, TASK)
    opt = tp.SGD(0.5, momentum=0.5) if changed == "opt" else OPT
    scale = tp.DepthScaling(0.5, 0.5, branch=2.0) if changed == "scale" else DEPTH_MUP
    again = tp.transfer(NET, task, opt, [scale], [4], [0.2], resume=tmp_path, probe_targets=probes)
    assert len(trained) == 2
    assert again.losses == tp.transfer(NET, task, opt, [scale], [4], [0.2], probe_targets=probes).losses


def test_damaged_files_count_as_nothing(tmp_path: Path, trained: list[Any]) -> None:
    tp.transfer(NET, TASK, OPT, [DEPTH_MUP], [4], [0.2], resume=tmp_path)
    file, = tmp_path.iterdir()
    for text in ("", "[]", json.dumps({"key": "another", "result": [0.0, ""]}), '{"key": "'):
        file.write_text(text)
        assert tp.transfer(NET, TASK, OPT, [DEPTH_MUP], [4], [0.2], resume=tmp_path).losses[0, 0, 0] > 0
    assert len(trained) == 5


class Reluctant:
    """An executor that does the dearest list of jobs at once, fails the second, and leaves the others."""

    def __init__(self) -> None:
        self.lists: list[int] = []

    def submit(self, work: Any, chunk: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.lists.append(len(chunk))
        if len(self.lists) == 1:
            future.set_result(pickle.loads(pickle.dumps(work))(pickle.loads(pickle.dumps(chunk))))
        elif len(self.lists) == 2:
            future.set_exception(MemoryError("too much"))
        return future


def test_an_error_loses_nothing_that_is_finished(tmp_path: Path) -> None:
    executor: Any = Reluctant()
    with pytest.raises(MemoryError, match="too much"):
        tp.transfer(NET, TASK, OPT, [DEPTH_MUP], [2, 2, 4][1:], RATES, executor, tmp_path)
    assert executor.lists == [1, 1, 1, 2, 1]  # lists cost about as much as the deepest training
    assert len(list(tmp_path.iterdir())) == 1


class Instant:
    """An executor that has done all jobs before it is asked for the first."""

    def submit(self, work: Any, chunk: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(work(chunk))
        return future


def test_an_interruption_loses_nothing_that_is_finished(tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    executor: Any = Instant()
    with pytest.raises(KeyboardInterrupt):
        tp.transfer(NET, TASK, OPT, [DEPTH_MUP], [2, 4], RATES, executor, tmp_path, stop)
    assert len(list(tmp_path.iterdir())) == 6


def test_more_points_of_a_parabola_say_the_same() -> None:
    """The polynomial through four or five of its points has leading coefficients that are round-off."""
    rates = 2.0 ** np.arange(-10, -2)
    skews = [grid_optimum(rates, 1 + np.log(rates / best) ** 2).skew for best in np.geomspace(0.0021, 0.06, 200)]
    assert np.all(np.abs(skews) < 1e-6)


def test_optimum_of_a_parabola_and_at_the_ends() -> None:
    rates = np.array([0.1, 0.3, 0.7, 2.0, 5.0])
    loss = 2 + 3 * np.log(rates / 0.5) ** 2
    found = grid_optimum(rates, loss)
    assert abs(found.value - 0.5) < 1e-12 and found.loss == min(loss) and found.bracketed
    loss[3:] = np.inf
    assert grid_optimum(rates, loss).value == 0.7  # a wall to its right: no parabola
    assert grid_optimum(rates, np.array([1.0, 2, 3, 4, 5])).bracketed is False
    assert grid_optimum(rates, np.array([9.0, 2, np.inf, 4, 5])).value == 0.3
    for none in (np.full(5, np.inf), np.full(5, np.nan), np.full(5, 2.0)):
        assert np.isnan(grid_optimum(rates, none).value)


@pytest.mark.parametrize("options, message", [
    (dict(learning_rates=[]), "growing positive"), (dict(learning_rates=[1, 1]), "growing positive"),
    (dict(learning_rates=[-1, 1]), "growing positive"), (dict(learning_rates=[np.nan]), "NaN"),
    (dict(depths=[]), "one or more depths"), (dict(depths=[4, 4]), "each once"), (dict(depths=[0]), "depths: got 0"),
    (dict(scalings=[]), "scalings: "), (dict(scalings=[(0.5, 0.5)]), "tp.DepthScaling"),
    (dict(net=tp.ResNet("relu", "pre_nonlin"), scalings=[tp.DepthScaling(sp.sqrt(2) / 2, 1 - sp.sqrt(2) / 2)]),
     "no rule says whether there is a limit: block: got pre_nonlin, and it does not close"),
    (dict(task=None), "^task: got None; expected a tp.Task"),
    (dict(net="linear"), "^net: got 'linear'"), (dict(net="tanh"), "^net: got 'tanh'"),
    (dict(method="dense"), "method: got 'dense' with width tp.oo"), (dict(width=8), "depth tp.oo and width 8"),
    (dict(probe_targets=np.ones((3, 1))), r"expected \(4, 1\)"), (dict(opt=tp.SGD([1, 2])), "2 learning rates"),
])
def test_bad_input_is_named_before_any_work(options: dict[str, Any], message: str, trained: list[Any]) -> None:
    good = dict(net=NET, task=TASK, opt=OPT, scalings=SCALINGS, depths=DEPTHS, learning_rates=RATES)
    with pytest.raises(ValueError, match=message):
        tp.transfer(**{**good, **options})
    assert trained == []


def test_a_loss_without_a_name_cannot_be_resumed(tmp_path: Path) -> None:
    class Local:
        value = staticmethod(lambda f, y: np.sum((f - y) ** 2, axis=-1))
        derivative = staticmethod(lambda f, y: 2 * (f - y))

    task = tp.Task(TASK.inputs, TASK.targets, Local())
    with pytest.raises(ValueError, match="cannot be told from others by its content"):
        tp.transfer(NET, task, OPT, [DEPTH_MUP], [4], [0.1], resume=tmp_path)
    assert np.isfinite(tp.transfer(NET, task, OPT, [DEPTH_MUP], [4], [0.1]).losses).all()


def test_the_plot_shows_a_curve_a_depth() -> None:
    pytest.importorskip("matplotlib").use("svg")
    axes = sweep().plot()
    assert [len([line for line in axis.lines if line.get_marker() != "x"]) for axis in axes] == [3, 2, 3]
