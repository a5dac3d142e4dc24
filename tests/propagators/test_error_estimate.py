"""The error estimate of the limit against 30 digits: never below the true error, above 1e-12 at most 100 times it."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
import sympy as sp
from hypothesis import HealthCheck, assume, given, settings, strategies as st

import tpcalc as tp
from support.references.limit_reference import finite_outputs, limit_outputs
from support.references.series_reference import series_outputs
from tpcalc.errors import Divergence
from tpcalc.propagators import collocation
from tpcalc.propagators.collocation import solve_limit
from tpcalc.optimizers import SGD
from tpcalc.data import Task

TOLERANCES = (1e-3, 1e-6, 1e-9, 1e-12)
FIRST = Task((1, .8, -.6, 1.1), (1, -.7, .5, 1.2))


def assert_honest(task: Task, opt: SGD, train_embedding_readout: bool, expected: np.ndarray,
                  uncertainty: float) -> None:
    for tolerance in TOLERANCES:
        limit = solve_limit(task, opt, 1.0, 1.0, "plain", tolerance, train_embedding_readout=train_embedding_readout)
        error = float(np.max(np.abs(limit.trace.outputs.ravel() - expected)))
        assert error <= limit.error + uncertainty
        assert limit.error <= max(1e-12, 100 * error)
        assert limit.error <= 2 * tolerance * max(1.0, np.max(np.abs(expected)))


@pytest.mark.parametrize("opt, train_embedding_readout", [(SGD(1.0), False), (SGD(0.3, momentum=0.5), True)], ids=str)
def test_the_estimate_is_honest(opt: SGD, train_embedding_readout: bool) -> None:
    expected, uncertainty = limit_outputs(FIRST, opt, train_embedding_readout, unit=6, levels=18)
    assert uncertainty < 1e-15
    assert_honest(FIRST, opt, train_embedding_readout, expected, uncertainty)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])  # which bounds what is left out
@given(steps=st.integers(2, 4), rate=st.sampled_from([0.3, 1.0, 1.5, 2.0]), momentum=st.sampled_from([0.0, 0.5]),
       decay=st.sampled_from([0.0, 0.2]), train_embedding_readout=st.booleans(), seed=st.integers(0, 2**32 - 1))
def test_the_estimate_is_honest_on_random_tasks(steps: int, rate: float, momentum: float, decay: float,
                                                train_embedding_readout: bool, seed: int) -> None:
    data = np.random.default_rng(seed).uniform(-1.2, 1.2, (2, steps))
    task, opt = Task(*data), SGD(rate / 2 if train_embedding_readout else rate, momentum, weight_decay=decay)
    expected, uncertainty = limit_outputs(task, opt, train_embedding_readout, unit=12, levels=22)
    assume(uncertainty < 1e-16)  # finite depths blow up where the first ones are too small for the learning rate
    assert_honest(task, opt, train_embedding_readout, expected, uncertainty)


@pytest.mark.parametrize("train_embedding_readout", [False, True])
def test_the_reference_is_the_recursion(train_embedding_readout: bool) -> None:
    """In 70 digits, but otherwise what ``train`` finds at a finite depth."""
    opt = SGD(0.4, momentum=0.5, weight_decay=0.3)
    exact = np.array(finite_outputs(FIRST, opt, 7, train_embedding_readout), dtype=float)
    run = tp.train(tp.ResNet(train_embedding_readout=train_embedding_readout), FIRST, opt, tp.DepthScaling(), 7)
    np.testing.assert_allclose(run.outputs.ravel(), exact, rtol=0, atol=1e-14)


def assert_law(task: Task, opt: SGD, train_embedding_readout: bool, expected: np.ndarray,
               tolerance: float = 1e-12) -> None:
    """Against 30 digits, subtracted in 30 digits: never below, and at most 100 times above where it says 1e-12."""
    limit = solve_limit(task, opt, 1.0, 1.0, "plain", tolerance, train_embedding_readout=train_embedding_readout)
    found = limit.trace.outputs.ravel()
    error = max(abs(float(f - Decimal(float(g)))) for f, g in zip(expected, found))
    assert error <= limit.error <= max(1e-12 * max(1.0, float(np.max(np.abs(found)))), 100 * error)


# what is slow is the reference, in 64 digits on hundreds of elements
@st.composite
def stiff(draw: st.DrawFn, strongest: float, most_steps: int) -> tuple[Task, SGD, bool]:
    """strongest: largest learning rate times squared size of the inputs and targets."""
    steps, train_embedding_readout = draw(st.integers(2, most_steps)), draw(st.booleans())
    size, rate = draw(st.sampled_from([0.3, 1.0, 2.0])), 10**draw(st.floats(-1, np.log10(64)))
    rate = min(rate, strongest / size**2) / (8 if train_embedding_readout else 1)
    data = size * np.random.default_rng(draw(st.integers(0, 2**32 - 1))).uniform(-1, 1, (2, steps))
    decay = draw(st.sampled_from([0.0, 0.01, 0.2])) / max(1.0, rate)
    return Task(*data), SGD(rate, draw(st.sampled_from([0.0, 0.5])), weight_decay=decay), train_embedding_readout


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(stiff(strongest=3.0, most_steps=3), st.sampled_from(TOLERANCES))
def test_the_estimate_is_honest_in_layer_time(problem: tuple[Task, SGD, bool], tolerance: float) -> None:
    assert_law(*problem, series_outputs(*problem), tolerance)


@pytest.mark.slow
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(stiff(strongest=6.0, most_steps=3), st.sampled_from(TOLERANCES))
def test_the_estimate_is_honest_at_large_learning_rates(problem: tuple[Task, SGD, bool], tolerance: float) -> None:
    assert_law(*problem, series_outputs(*problem), tolerance)


# f of the first task, or its first three steps, at large learning rates, as series_outputs printed them
STIFF = {8.0: ("0", "17.3970037021378904720335432968225", "-0.0000287905084897102213850081936969",
               "-1.80441049517902790387976690687931"),
         16.0: ("0", "34.79400740427578094406708659", "-0.000002066463400474110287079317614")}


@pytest.mark.parametrize("rate", STIFF)
def test_the_estimate_is_honest_where_layers_are_thin(rate: float) -> None:
    expected = np.array([Decimal(f) for f in STIFF[rate]], dtype=object)
    assert_law(Task(FIRST.inputs[:len(expected)], FIRST.targets[:len(expected)]), SGD(rate), False, expected)


@pytest.mark.parametrize("opt, train_embedding_readout", [(SGD(1.0), False),
                                                          (SGD(0.3, momentum=0.5, weight_decay=0.2), True)], ids=str)
def test_the_two_references_agree(opt: SGD, train_embedding_readout: bool) -> None:
    """One without layer time, one without depth."""
    task = Task(FIRST.inputs[:3], FIRST.targets[:3])
    expected, uncertainty = limit_outputs(task, opt, train_embedding_readout, unit=6, levels=18)
    assert uncertainty < 1e-15
    np.testing.assert_allclose(series_outputs(task, opt, train_embedding_readout).astype(float), expected, rtol=0,
                               atol=1e-15)


@pytest.mark.slow
def test_the_series_do_not_depend_on_where_they_end() -> None:
    """Other points, other elements: the same 17 digits."""
    one, two = (series_outputs(FIRST, SGD(1.0), terms=terms) for terms in (24, 32))
    assert max(abs(one - two)) < Decimal("1e-17")


def test_only_linear_blocks_conserve_an_overlap() -> None:
    """<x delta> of h + h^2 / 10 changes along the network: that is no error of the outputs."""
    h = sp.Symbol("h", real=True)
    run = tp.train(tp.ResNet(h + h**2 / 10), FIRST, SGD(1.0), tp.DepthScaling(), tp.oo)
    assert run.error_estimate < 1e-11


def test_nothing_found_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """An estimate as large as the outputs, on elements that resolve everything."""
    monkeypatch.setattr(collocation, "_compare", lambda coarse, fine, conserved: (2.4, 0.73, 0.0))
    with pytest.raises(Divergence, match="outputs of size 2.4 are known to 7.3e-01 only"):
        solve_limit(FIRST, SGD(1.0), 1.0, 1.0, "plain")
    assert solve_limit(FIRST, SGD(1.0), 1.0, 1.0, "plain", tolerance=0.5).error == 0.73  # it was asked for no more
