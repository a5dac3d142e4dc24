"""Methods are values with their own options; names and flat options are another way to write them."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.methods import (Coefficients, Collocation, CommonDraws, Conditioned, Dense, LongCollocation, Particles,
                            Reflection, outputs_alone)

TASK = tp.Task([1.0, 0.5, -0.3], [1.0, -1.0, 0.2])
TANH = tp.Problem(tp.ResNet("tanh"), TASK, tp.SGD(0.5), tp.DepthScaling(), 3)
REAL = tp.Problem(tp.ResNet("tanh", "mlp"), TASK, tp.Adam(0.1, eps=0.1), tp.DepthScaling(), 3, 6)
LINEAR = tp.Problem(tp.ResNet(), TASK, tp.SGD(0.5), tp.DepthScaling(), 3, 6)


@pytest.mark.parametrize("problem, method, flat", [
    (TANH, Particles(samples=100, batches=3, seed=2), dict(samples=100, batches=3, seed=2)),
    (TANH, Particles(samples=100), dict(method="particles", samples=100)),
    (REAL, Conditioned(seed=4), dict(seed=4)),
    (REAL, Conditioned(seed=4, dtype="float32"), dict(seed=4, dtype="float32")),
    (REAL, Dense(seed=4), dict(method="dense", seed=4)), (LINEAR, Dense(seed=4), dict(seed=4))])
def test_flat_options_are_those_of_the_method(problem: tp.Problem, method: Any, flat: dict) -> None:
    one, two = tp.train(problem, method=method), tp.train(problem, **flat)
    assert one.method == two.method == method.name and np.array_equal(one.outputs, two.outputs)
    other = tp.train(problem, method=replace(method, seed=9))
    assert not np.array_equal(one.outputs, other.outputs)


@pytest.mark.parametrize("option", [{"seed": 0}, {"samples": 4}, {"batches": 2}, {"dtype": "float64"},
                                    {"executor": ThreadPoolExecutor(1)}])
def test_options_beside_a_method_that_has_its_own_are_refused(option: dict) -> None:
    name, = option
    with pytest.raises(ValueError, match=f"^{name}: got .* with method=Particles.*; options belong to the method"):
        tp.train(TANH, method=Particles(samples=100), **option)


@pytest.mark.parametrize("make, said", [
    (lambda: Particles(samples=0), "samples: got 0; expected a whole number of at least 1"),
    (lambda: Particles(batches=1), "batches: got 1; expected a whole number of at least 2"),
    (lambda: Particles(batches=None), "batches: got None"),  # type: ignore[arg-type]
    (lambda: Particles(seed=-1), "seed: got -1"),
    (lambda: Particles(executor=4), "executor: got 4"),  # type: ignore[arg-type]
    (lambda: Conditioned(dtype="float16"), "dtype: got 'float16'"),
    (lambda: Conditioned(seed=0.5), "seed: got 0.5"),  # type: ignore[arg-type]
    (lambda: Dense(seed=True), "seed: got True"),
    (lambda: Dense(weights=[1.0]), "weights: got [1.0]"),  # type: ignore[arg-type]
    (lambda: Dense(weights={"W": [np.nan]}), "weights['W']: 1 values are NaN"),
    (lambda: Dense(1, {"W": [1.0]}), "seed: got 1 with weights")])
def test_options_that_mean_nothing_are_refused_when_the_method_is_made(make: Any, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        make()
    assert said in str(caught.value)


@pytest.mark.parametrize("method", [Particles, Particles(samples=100).solve, object(), {"name": "dense"}])
def test_what_is_no_method_is_refused(method: Any) -> None:
    with pytest.raises(ValueError, match="^method: got .*; expected 'auto', 'coefficients', "):
        tp.train(TANH, method=method)


@pytest.mark.parametrize("kind", [Coefficients, Reflection, Collocation, LongCollocation, CommonDraws, Dense,
                                  Conditioned, Particles])
def test_methods_are_frozen_values(kind: Any) -> None:
    assert kind() == kind() and hash(kind()) == hash(kind()) and pickle.loads(pickle.dumps(kind())) == kind()
    with pytest.raises(FrozenInstanceError):
        kind().name = "other"
    if "seed" in kind.__dataclass_fields__:
        assert kind(seed=1) != kind()


def test_dense_methods_compare_their_weights() -> None:
    one, two, other = (Dense(weights={"W": np.full(3, x)}) for x in (1.0, 1.0, 2.0))
    assert one == two and hash(one) == hash(two) and one != other and one != Dense() and Dense() != one
    assert repr(one) == "Dense(seed=0, weights={'W': array of shape (3,)})" and repr(Dense(3)) == "Dense(seed=3)"


def test_an_executor_stays_where_it_is() -> None:
    with ThreadPoolExecutor(2) as executor:
        run = tp.train(TANH, method=Particles(samples=100, executor=executor))
        again = pickle.loads(pickle.dumps(run))
    assert np.array_equal(run.outputs, tp.train(TANH, method=Particles(samples=100)).outputs)
    assert again.forward_covariance.shape == (4, 3, 3)


@pytest.mark.parametrize("problem", [LINEAR, REAL], ids=["linear", "Adam"])
def test_initial_weights_go_round(problem: tp.Problem) -> None:
    run = tp.train(problem, method=Dense(seed=5))
    weights = run.initial_weights()
    again = tp.train(problem, method=Dense(weights=weights))
    assert np.array_equal(run.outputs, again.outputs)
    assert np.array_equal(run.forward_covariance, again.forward_covariance)
    for found in (again.initial_weights(), pickle.loads(pickle.dumps(run)).initial_weights()):
        assert set(found) == set(weights) and all(np.array_equal(found[k], weights[k]) for k in weights)


def test_given_weights_are_what_the_network_starts_from() -> None:
    """The outputs of the first step, by hand: f = nV^T (1 + eps W^3)(1 + eps W^2)(1 + eps W^1) U xi / n."""
    problem = tp.Problem(tp.ResNet(), TASK, tp.SGD(0.5), tp.DepthScaling(), 3, 6)
    draw = np.random.default_rng(1).normal
    given = {name: draw(size=values.shape) for name, values in tp.train(problem).initial_weights().items()}
    kept = {name: values.copy() for name, values in given.items()}
    method = Dense(weights=given)
    given["W"][:] = 0.0  # they were copied
    run = tp.train(problem, method=method)
    x = kept["U"] * TASK.inputs[0, 0, 0]
    for W in kept["W"]:
        x = x + W @ x / np.sqrt(3)
    assert np.isclose(run.outputs[0, 0, 0], kept["nV"] @ x / 6, rtol=1e-13, atol=0)
    found = run.initial_weights()
    found["W"][:] = 0.0  # so are those that come back
    assert np.array_equal(run.initial_weights()["W"], kept["W"])


@pytest.mark.parametrize("weights, said", [({}, "weights: got []; expected ['U', 'W', 'nV'], all of them"),
                                           ({"U": np.ones(6), "W": np.ones((3, 6, 5)), "nV": np.ones(6)},
                                            "weights['W']: got shape (3, 6, 5); expected (3, 6, 6)")])
def test_weights_of_another_network_are_refused(weights: dict, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        tp.train(LINEAR, method=Dense(weights=weights))
    assert said in str(caught.value)


@pytest.mark.parametrize("problem, method", [(TANH, Particles(samples=100)), (REAL, Conditioned())])
def test_only_dense_runs_know_initial_weights(problem: tp.Problem, method: Any) -> None:
    with pytest.raises(ValueError, match=f"^initial_weights: got a run by method='{method.name}'"):
        tp.train(problem, method=method).initial_weights()


@dataclass(frozen=True)
class Constant:
    """A method written elsewhere."""

    name: ClassVar[str] = "constant"
    value: float = 1.0

    def refuses(self, problem: tp.Problem) -> str | None:
        return None if problem.layers == 3 else f"depth: got {problem.depth}; expected 3"

    def solve(self, problem: tp.Problem, keep_nodes: Any = None, progress: Any = None) -> tp.Run:
        return outputs_alone(problem, self.name, np.full(problem.task.targets.shape, self.value), 0.5)


def test_a_method_from_elsewhere_is_a_method() -> None:
    run = tp.train(TANH, method=Constant(2.0))
    assert run.method == "constant" and np.all(run.outputs == 2.0) and run.error_estimate == 0.5
    assert run.problem == TANH and not run.exact and run.layer_times.shape == (0,)
    assert pickle.loads(pickle.dumps(run)).losses.shape == (3,)
    table = tp.methods.table(TANH, [Constant(), Particles()])
    assert table.chosen == "constant" and str(table).splitlines()[1].split() == ["particles", "takes", "it"]
    with pytest.raises(ValueError, match="^depth: got oo; expected 3"):
        tp.train(tp.Problem(tp.ResNet(), TASK, tp.SGD(), tp.DepthScaling(), tp.oo), method=Constant())
    with pytest.raises(ValueError, match="^seed: got 0 with method=Constant"):
        tp.train(TANH, method=Constant(), seed=0)


@pytest.mark.parametrize("ask", [lambda run: run.forward_covariance, lambda run: run.backward_covariance,
                                 lambda run: run.gamma(0, 0, 0, 0, 1, 1), lambda run: run.c(0, 0, 0, 1),
                                 lambda run: run.cross_covariance(0, 0, 0, 0, 1, 1),
                                 lambda run: run.feature_difference(0, 0.5, 0.5),
                                 lambda run: run.gradient_difference(0, 0.5, 0.5)])
def test_what_a_method_does_not_know_is_refused_by_its_name(ask: Any) -> None:
    with pytest.raises(ValueError, match="got a run by method='constant'"):
        ask(tp.train(TANH, method=Constant()))
    with pytest.raises(ValueError, match="fluctuations: got a run by method='constant'"):
        tp.train(TANH, method=Constant()).fluctuations


@pytest.mark.parametrize("outputs, probes, said", [
    (np.ones(3), None, r"^outputs: got shape \(3,\); expected \(3, 1, 1\)"),
    (np.ones((3, 1, 1)), np.ones((3, 1, 1)), r"^probe_outputs: got shape \(3, 1, 1\); expected None")])
def test_outputs_of_other_shapes_are_refused(outputs: Any, probes: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        outputs_alone(TANH, "constant", outputs, 0.0, probes)
