"""The strategies keep what they promise: data within bounds, solutions of order one; without hypothesis they say so."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings

import tpcalc as tp
from tpcalc import testing


@given(testing.problems(max_depth=24, max_steps=6, max_probes=2))
def test_solutions_of_problems_are_of_order_one(problem: testing.DrawnProblem) -> None:
    """Outputs, probes and covariances, at all scalings, those that diverge with the depth included."""
    task = problem.task
    assert np.all(np.sum(task.inputs**2, axis=2) <= 1 + 1e-12) and np.all(np.abs(task.targets) <= 1)
    assert task.probes is None or np.all(np.sum(task.probes**2, axis=1) <= 1 + 1e-12)
    run = tp.train(tp.ResNet("linear"), *problem, keep_nodes=[0, 0.5, 1])
    assert np.max(np.abs(run.outputs)) < 20
    assert np.max(np.abs(run.forward_covariance)) < 100 and np.max(np.abs(run.backward_covariance)) < 1000


@given(testing.rationals("1/3", "2/3", max_denominator=12))
def test_rationals_are_exact_and_within(value: sp.Rational) -> None:
    assert isinstance(value, sp.Rational) and sp.Rational(1, 3) <= value <= sp.Rational(2, 3) and value.q <= 12


@given(testing.schedules(3, highest=0.2))
def test_schedules_are_numbers_or_one_a_step(rates: float | tuple[float, ...]) -> None:
    values = np.atleast_1d(rates)
    assert len(values) in (1, 3) and np.all((0.2 / 16 <= values) & (values <= 0.2))


@settings(max_examples=10, deadline=None)
@given(testing.linear_programs(max_statements=3))
def test_drawn_programs_are_taken_as_they_are(example: testing.ProgramExample) -> None:
    testing.assert_interpreters_agree(example, seeds=0)
    with pytest.raises(AssertionError, match="^reading 'wrong' gives none"):
        testing.assert_interpreters_agree(example, seeds=0, readings={"wrong": lambda *given: {}})
    with pytest.raises(ValueError, match="^sizes: got None"):
        testing.assert_interpreters_agree(example.program)


@settings(max_examples=10, deadline=None)
@given(testing.width_scalings(), testing.resnets(linear=False), testing.transformers())
def test_networks_and_width_scalings_are_what_their_names_say(
        scaling: tp.WidthScaling, net: tp.ResNet, transformer: tp.Transformer) -> None:
    assert isinstance(scaling, tp.WidthScaling) and scaling.layers >= 2
    assert str(net.phi) != "linear" and transformer.positions in (1, 2, 3)


def test_every_optimizer_is_drawn() -> None:
    values = (getattr(tp, name) for name in tp.__all__)
    public = {kind for kind in values if isinstance(kind, type) and hasattr(kind, "lr") and hasattr(kind, "schedule")}
    kinds = {linear: set[type]() for linear in (True, False, None)}
    for linear, found in kinds.items():
        @settings(max_examples=100, deadline=None)
        @given(testing.optimizers(linear=linear))
        def draw(opt: object) -> None:
            found.add(type(opt))
        draw()
    assert len(public) > 7 and kinds == {True: {tp.SGD}, False: public - {tp.SGD}, None: public}


def test_without_hypothesis_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.split(".")[0] == "hypothesis" or n.startswith("tpcalc.testing")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(tp.MissingExtra, match=r"tpcalc.testing needs hypothesis; .*pip install 'tpcalc\[test\]'"):
        importlib.import_module("tpcalc.testing")
