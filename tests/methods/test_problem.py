"""Problems are values that are checked once; ``train`` takes them whole or in pieces."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp

NET, OPT, SCALE = tp.ResNet("tanh"), tp.SGD(0.5), tp.DepthScaling()
TASK = tp.Task([1.0, 0.5, -0.3], [1.0, -1.0, 0.2])
PIECES: dict[str, Any] = dict(net=NET, task=TASK, opt=OPT, scale=SCALE, depth=3)


def test_problems_are_values() -> None:
    one, two = tp.Problem(**PIECES), tp.Problem(**{**PIECES, "net": tp.ResNet("tanh"), "depth": np.int64(3)})
    assert one == two and hash(one) == hash(two) and len({one, two}) == 1
    assert one != replace(one, width=8) and one != replace(one, opt=tp.SGD(0.25))
    assert pickle.loads(pickle.dumps(one)).depth == 3
    with pytest.raises(FrozenInstanceError):
        one.depth = 4  # type: ignore[misc]


def test_sizes_are_whole_numbers_or_infinite() -> None:
    for infinite in (tp.oo, float("inf"), np.inf):
        problem = tp.Problem(**{**PIECES, "depth": infinite, "width": infinite})
        assert problem.depth is tp.oo and problem.width is tp.oo
        assert problem.layers is None and problem.neurons is None
    problem = tp.Problem(**{**PIECES, "depth": sp.Integer(7), "width": np.int32(9)})
    assert (type(problem.depth), type(problem.width)) == (int, int)
    assert (problem.layers, problem.neurons) == (7, 9)


@pytest.mark.parametrize("change, linear", [
    ({}, False), ({"net": tp.ResNet()}, True), ({"net": tp.ResNet("linear", "pre_nonlin")}, True),
    ({"net": tp.ResNet("linear", "mlp")}, False), ({"net": tp.ResNet(), "opt": tp.Adam(0.1)}, False)])
def test_linear_is_one_matrix_a_block_and_linear_updates(change: dict, linear: bool) -> None:
    assert tp.Problem(**{**PIECES, **change}).is_linear is linear


BAD: list[tuple[dict, str]] = [
    ({"net": "tanh"}, "net: got 'tanh'; expected a tp.ResNet"), ({"task": None}, "task: got None"),
    ({"opt": 0.5}, "opt: got 0.5; expected a tp.SGD, tp.SignSGD, tp.Lion, tp.Adam or tp.Muon"),
    ({"scale": "mup"}, "scale: got 'mup'"),
    ({"depth": 0}, "depth: got 0"), ({"depth": None}, "depth: got None"), ({"depth": 2.0}, "depth: got 2.0"),
    ({"width": None}, "width: got None"), ({"width": True}, "width: got True"), ({"width": -1}, "width: got -1"),
    ({"opt": tp.SGD([0.1, 0.2])}, "lr: got 2 learning rates for a task of 3 steps"),
    ({"opt": tp.Adam(sp.Symbol("r"))}, "lr: got r"),
    ({"opt": tp.Adam(0.1, beta1=sp.Symbol("b"))}, "expected numbers for b"),
    ({"scale": tp.DepthScaling(sp.Symbol("a", real=True))}, "expected numbers, to evaluate"),
    ({"net": tp.ResNet("tanh", norm="rms"), "task": tp.Task([1.0, 0.0, 1.0], [1.0, 1.0, 1.0])},
     "inputs: got an input of norm 0, at (1, 0), with norm='rms'"),
    ({"net": tp.ResNet("tanh", norm="rms"), "task": tp.Task([1.0] * 3, [1.0] * 3, probes=[[0.0]])},
     "probes: got an input of norm 0")]


@pytest.mark.parametrize("change, said", BAD, ids=lambda value: next(iter(value)) if isinstance(value, dict) else None)
def test_what_is_no_problem_is_refused_by_both_doors(change: dict, said: str) -> None:
    for call in (tp.Problem, tp.train):
        with pytest.raises(ValueError) as caught:
            call(**{**PIECES, **change})  # type: ignore[operator]
        assert said in str(caught.value)


@pytest.mark.parametrize("size", [dict(depth=3), dict(depth=3, width=8), dict(depth=tp.oo)])
def test_whole_problems_and_their_pieces_are_one_call(size: dict) -> None:
    pieces = {**PIECES, **size}
    whole, parts = tp.train(tp.Problem(**pieces)), tp.train(**pieces)
    assert whole.method == parts.method and np.array_equal(whole.outputs, parts.outputs)
    assert whole.problem == parts.problem == tp.Problem(**pieces)


@pytest.mark.parametrize("name, value", [("task", TASK), ("opt", OPT), ("scale", SCALE), ("depth", 3), ("width", 8),
                                         ("width", tp.oo), ("width", None)])
def test_nothing_that_a_problem_has_is_taken_beside_it(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name}: got .* beside a tp.Problem, which has its own"):
        tp.train(tp.Problem(**PIECES), **{name: value})


@pytest.mark.parametrize("net, size", [
    (tp.ResNet(), dict(depth=4)), (tp.ResNet(), dict(depth=tp.oo)), (tp.ResNet("tanh"), dict(depth=tp.oo)),
    (tp.ResNet(), dict(depth=4, method="coefficients")), (NET, dict(depth=3, samples=100)),
    (NET, dict(depth=3, width=8)), (tp.ResNet(), dict(depth=3, width=8, seed=2))])
@pytest.mark.parametrize("keep", [None, "all"])
def test_runs_are_pickled_and_answer_alike(net: tp.ResNet, size: dict, keep: Any) -> None:
    run = tp.train(net, TASK, OPT, SCALE, keep_nodes=keep, **size)
    before = pickle.loads(pickle.dumps(run))
    asked = run.forward_covariance, run.cross_covariance(1, 2, 0, 1, 0.5, 1.0), run.feature_difference(1, 0.25, 0.5)
    for other in (before, pickle.loads(pickle.dumps(run)), copy.deepcopy(run)):
        assert np.array_equal(other.outputs, run.outputs) and other.problem.depth == run.problem.depth
        assert np.array_equal(other.forward_covariance, asked[0])
        assert other.cross_covariance(1, 2, 0, 1, 0.5, 1.0) == asked[1]
        assert other.feature_difference(1, 0.25, 0.5) == asked[2]
