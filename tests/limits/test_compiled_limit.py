"""The derived equations as a collocation problem, against solvers that do not know them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import tpcalc as tp
from tpcalc.limits import CompiledLimit
from tpcalc.limits.functions import INNER, Coefficient, CovarianceFunction, Q
from tpcalc.testing import strategies

from support.interpreted import interpreted

REFERENCES = [([1, 0.8, -0.6, 1.1], [1, -0.7, 0.5, 1.2]), tuple(np.random.default_rng(0).normal(size=(2, 5)))]
# two tasks of the infinite-depth solver at alpha = gamma = 1/2, one input a step, learning rate 1
PUBLISHED = [(0, 2.1746254627672, -0.0426026679071, -0.0471461985879),
             (0, -0.0163258367572, -0.2197067530344, 0.1298113144178, -0.5194180781943)]


def outputs(alpha: float, gamma: float, xi: object, y: object) -> np.ndarray:
    run = tp.train(tp.ResNet(), tp.Task(xi, y), tp.SGD(), tp.DepthScaling(alpha, gamma), depth=tp.oo)
    return run.outputs.ravel()


@pytest.mark.parametrize("task, exact", list(zip(REFERENCES, PUBLISHED)), ids=["four", "five"])
def test_references(limit: tp.theory.DepthLimit, task: tuple, exact: tuple) -> None:
    found = limit.compile(alpha=0.5, gamma=0.5)(*task)
    assert found.outputs == pytest.approx(exact, abs=2e-12)
    assert found.outputs == pytest.approx(outputs(0.5, 0.5, *task), abs=1e-10)
    assert found.error_estimate < 1e-11


@pytest.mark.parametrize("alpha", [0.6, 0.75, 1, 1.5])
def test_on_the_line_above_one_half(limit: tp.theory.DepthLimit, alpha: float) -> None:
    found = limit.compile(alpha=alpha, gamma=1 - sp.Rational(str(alpha)))(*REFERENCES[0])
    assert found.outputs == pytest.approx(outputs(alpha, 1 - sp.Rational(str(alpha)), *REFERENCES[0]), abs=1e-10)


@settings(max_examples=12)
@given(data=st.data(), steps=st.integers(1, 4), alpha=st.sampled_from([sp.Rational(1, 2), sp.Rational(2, 3)]))
def test_random_tasks(limit: tp.theory.DepthLimit, data: st.DataObject, steps: int, alpha: sp.Rational) -> None:
    xi, y = data.draw(strategies.arrays((steps,))), data.draw(strategies.arrays((steps,)))
    found = limit.compile(alpha=alpha, gamma=1 - alpha)(xi, y)
    assert found.outputs == pytest.approx(outputs(alpha, 1 - alpha, xi, y), abs=1e-10)


def test_coefficients_and_covariances_are_the_papers_functions(limit: tp.theory.DepthLimit) -> None:
    run = tp.train(tp.ResNet(), tp.Task(*REFERENCES[0]), tp.SGD(), tp.DepthScaling(), depth=tp.oo, keep_nodes="all")
    found = limit.compile(alpha=0.5, gamma=0.5)(*REFERENCES[0])
    times = (1 - np.cos(np.pi * np.arange(found.nodes) / (found.nodes - 1))) / 2
    for t, r, a, b in ((2, 0, 0, 1), (3, 1, 1, 1), (3, 0, 0, 0), (2, 2, 0, 0)):
        values = np.broadcast_to(found.values[("Gamma", a, b, t, r)], (2, found.nodes, found.nodes))
        for i, j in ((5, 17), (17, 5)):
            assert values[int(i > j), i, j] == pytest.approx(run.gamma(t, r, a, b, times[i], times[j]), abs=1e-8)
    for t, s, a in ((2, 1, 0), (3, 3, 1), (3, 0, 0)):
        assert found.values[("C", a, a, t, s)].ravel()[9] == pytest.approx(run.c(t, s, a, times[9]), abs=1e-8)


def test_a_dropped_term_is_seen(limit: tp.theory.DepthLimit) -> None:
    """Noise, response or update taken away: the outputs change."""
    region = limit.at(alpha=0.5, gamma=0.5)
    exact = outputs(0.5, 0.5, *REFERENCES[1])

    def mutated(change: object) -> np.ndarray:
        equations = [replace(e, value=change(e.value)) for e in region.equations]  # type: ignore[operator]
        compiled = CompiledLimit.of(region.recursion.setting, equations, "f")
        return np.abs(compiled(*REFERENCES[1]).outputs - exact).max()

    def without(kind: str) -> object:
        def change(value: sp.Expr) -> sp.Expr:
            if kind == "noise":
                return value.replace(lambda e: isinstance(e, sp.Integral) and e.limits[0][0] == Q, lambda e: sp.S.Zero)
            if kind == "response":
                return value.xreplace({c: sp.Integer(0) for c in value.atoms(Coefficient) if c.side})
            sweeps = [i for i in value.atoms(sp.Integral) if i.limits[0][0] == INNER]
            updates = {c: sp.Integer(0) for i in sweeps for c in i.atoms(CovarianceFunction)}
            return value.xreplace(updates)

        return change

    assert mutated(lambda value: value) < 1e-10
    for kind in ("noise", "response", "update"):
        assert mutated(without(kind)) > 1e-3, kind


def test_two_matrix_blocks_against_depths_extrapolated(mlp: tp.theory.DepthLimit) -> None:
    """Richardson's extrapolation in 1/L from 10, 20, 40, 80, at which Python is quicker than to compile."""
    kernel = interpreted(mlp.recursion)  # type: ignore[attr-defined]
    xi, y = [0.6, 0.5, -0.4], [1, -0.7, 0.5]
    for alpha, gamma in ((0.5, 0.5), (1, 0)):
        found = mlp.compile(alpha=alpha, gamma=gamma)(xi, y).outputs
        table = [[kernel(n, xi, y, alpha=alpha, gamma=gamma).outputs for n in (10, 20, 40, 80)]]
        for power in (2, 4, 8):
            table.append([(power * b - a) / (power - 1) for a, b in zip(table[-1], table[-1][1:])])
        assert found == pytest.approx(table[-1][-1], abs=5e-5)
        assert np.abs(found - table[1][-1]).max() < np.abs(found - table[0][-1]).max() / 10


def test_constants_of_the_scaling_stay() -> None:
    scale = tp.DepthScaling(sp.Rational(1, 2), sp.Rational(1, 2), branch=0.5, base_depth=2)
    compiled = tp.depth_limit(tp.recursion(tp.kets(tp.program(tp.ResNet(), tp.SGD(), scale)))).compile()
    task = REFERENCES[0]
    run = tp.train(tp.ResNet(), tp.Task(*task), tp.SGD(), scale, depth=tp.oo)
    assert compiled(*task).outputs == pytest.approx(run.outputs.ravel(), abs=1e-10)


def test_another_loss(limit: tp.theory.DepthLimit) -> None:
    compiled = limit.compile(lambda f, y: np.tanh(f) - y, alpha=0.5, gamma=0.5)
    other = limit.compile(alpha=0.5, gamma=0.5)
    first, second = compiled(*REFERENCES[0]).outputs, other(*REFERENCES[0]).outputs
    assert first[1] == pytest.approx(second[1]) and abs(first[2] - second[2]) > 0.01


def test_bad_data_are_named(limit: tp.theory.DepthLimit) -> None:
    compiled = limit.compile(alpha=0.5, gamma=0.5)
    with pytest.raises(ValueError, match="targets of shape"):
        compiled([1, 2], [1])
    with pytest.raises(ValueError, match="one number a step"):
        compiled([[1, 2]], [1])
    with pytest.raises(ValueError, match="NaN"):
        compiled([np.nan], [1])
    with pytest.raises(ValueError, match="data: got .*; expected"):
        compiled([1], [1], eta=[1])


def test_what_does_not_settle_says_so(limit: tp.theory.DepthLimit) -> None:
    with pytest.raises(tp.Divergence, match="step"):
        limit.compile(alpha=0.5, gamma=0.5)([30, 30, 30, 30], [50, -50, 50, -50])
