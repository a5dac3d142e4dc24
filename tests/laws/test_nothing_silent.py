"""Bad and borderline input over the public interface: refused by name, or read as what it says.

Every draw either raises one of the errors that are allowed, naming the parameter, or what comes out agrees with a
reading of its own: numbers read again without the package, outputs of another method, another type of the same number.
"""

from __future__ import annotations

import re
import warnings
from fractions import Fraction
from typing import Any, Callable

import numpy as np
import pytest
import sympy as sp
from hypothesis import HealthCheck, example, given, settings, strategies as st

import tpcalc as tp
from support.given import ANYTHING, BORDERLINE, ODD, VALUES, meant
from support.nightly import sampled

NET, TASK = tp.ResNet(), tp.Task([1.0, 0.8, -0.6], [1.0, -0.7, 0.5])
REFUSALS = (ValueError, MemoryError, tp.Divergence)
FIRM = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def outcome(call: Callable[[], Any], *names: str) -> Any:
    """What a call returns, or None where it is refused by name; no warning of lost parts, no other error, no NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        warnings.filterwarnings("ignore", "Warning: converting a masked element to nan", UserWarning)
        try:
            return call()
        except REFUSALS as error:
            said = str(error)
            assert any(re.search(rf"\b{name}\b", said) for name in names), f"{said!r} names none of {names}"
            assert len(said) < 1500
            return None


def close(read: Any, given: Any) -> bool:
    """Is a power of L what was given, to the spacing of its type?"""
    number = meant(given)
    spacing = float(np.finfo(type(given)).eps) if isinstance(given, np.floating) else 2.0**-52
    return number is not None and abs(float(read) - number) <= max(spacing, 2.0**-52 * abs(number)) * 1.01


@FIRM
@given(st.sampled_from(["alpha", "gamma", "branch", "base_depth"]), VALUES)
def test_depth_scalings(name: str, value: Any) -> None:
    scale = outcome(lambda: tp.DepthScaling(**{name: value}), name)
    if scale is None:
        number = meant(value)
        beyond = isinstance(value, str) and bool(re.search("[eE]", value))
        assert number is None or beyond or name == "branch" and number == 0 or name == "base_depth" and number <= 0
    elif not isinstance(value, sp.Expr) or value.is_number:
        read = getattr(scale, name)
        assert close(float(sp.Rational(read)) if isinstance(read, str) else read, value)
        assert name in ("branch", "base_depth") or isinstance(read, sp.Expr) and not read.has(sp.Float)


@FIRM
@given(VALUES, VALUES)
@example(2 / 3, 1 / 3)
@example(0.7, 1 - 0.7)
@example("2/3", 1 / 3)
def test_verdicts_are_those_of_exact_numbers(alpha: Any, gamma: Any) -> None:
    found = outcome(lambda: tp.classify(alpha, gamma), "alpha", "gamma")
    if found is not None:
        assert close(found.alpha, alpha) and close(found.gamma, gamma)
        a, g = found.alpha, found.gamma
        assert found.name == tp.classify(a, g).name
        assert not found.stable_at_init if a < sp.Rational(1, 2) else found.stable_at_init
        if a >= sp.Rational(1, 2):
            assert found.stable_in_training == bool(a + g >= 1 and g >= 0)  # updates of h too


@FIRM
@given(st.sampled_from(["branch", "lr", "eps", "init", "weight_decay", "gradient"]), VALUES)
def test_audits(name: str, value: Any) -> None:
    given_powers = {"branch": -1, "lr": 0, name: value}
    found = outcome(lambda: tp.audit(**given_powers), name)
    if found is not None and value is not None:
        power = found.powers[name] if name != "gradient" else found.settings.gradient
        assert close(power, value)
        if isinstance(value, (float, np.floating, sp.Float)):
            assert power.q <= 64 and not (name == "branch" and power > 0)


@FIRM
@given(st.sampled_from(["lr", "momentum", "dampening", "weight_decay", "nesterov", "decoupled"]), ANYTHING)
def test_sgd(name: str, value: Any) -> None:
    opt = outcome(lambda: tp.SGD(**{"momentum": 0.5, name: value} if name == "nesterov" else {name: value}), name,
                  "nesterov")
    if opt is None:
        return
    read = getattr(opt, name)
    if name in ("nesterov", "decoupled"):
        assert isinstance(value, (bool, np.bool_)) and read == value
    elif isinstance(read, tuple):
        assert list(read) == np.ravel(value).tolist()
    else:
        assert type(read) is float and read == meant(value)
        assert name in ("lr", "dampening") or read >= 0


@FIRM
@given(st.sampled_from(["lr", "beta1", "beta2", "eps", "weight_decay"]), VALUES)
def test_adam(name: str, value: Any) -> None:
    opt = outcome(lambda: tp.Adam(**{name: value}), name)
    if opt is None or name == "lr" and isinstance(opt.lr, tuple) or isinstance(value, sp.Expr) and not value.is_number:
        return
    number = float(getattr(opt, name))
    assert number == meant(value) and (name == "lr" or number >= 0) and (not name.startswith("beta") or number < 1)


@FIRM
@given(st.sampled_from(["inputs", "targets", "probes"]), st.lists(VALUES, min_size=1, max_size=3),
       st.sampled_from(["mse", "logistic", "softmax"]))
def test_tasks(name: str, values: list, loss: str) -> None:
    data: dict[str, Any] = {"inputs": [1.0] * len(values), "targets": [1.0] * len(values)}
    data[name] = values if name != "probes" else [[v] for v in values]
    task = outcome(lambda: tp.Task(**data, loss=loss), name, "inputs", "targets")
    if task is not None:
        read = getattr(task, name).ravel().tolist()
        flat = [v.item() if isinstance(v, np.ndarray) else v for v in np.ravel(np.array(values, dtype=object))]
        assert read == [float(v) if isinstance(v, (bool, np.bool_)) else meant(v) for v in flat]
        assert loss == "mse" or loss == "logistic" and set(task.targets.ravel()) <= {-1, 1}


OPTIONS = {"depth": 3, "width": tp.oo, "method": "auto", "seed": None, "keep_nodes": None, "executor": None,
           "progress": None, "samples": None, "batches": None, "dtype": None}


@FIRM
@given(st.sampled_from(sorted(OPTIONS)), ANYTHING, st.sampled_from([tp.oo, 6]))
def test_options_of_train(name: str, value: Any, width: Any) -> None:
    """What is trained is the network that was asked for: the oracle's outputs, or those of the same draws."""
    asked = {**OPTIONS, "width": width, name: value}
    small = [asked[key] for key in ("depth", "width") if isinstance(asked[key], (int, np.integer))]
    if any(size > 50 for size in small if not isinstance(size, bool)):
        asked["progress"] = _begun  # refused before the work, or not at all
    run = outcome(lambda: tp.train(NET, TASK, tp.SGD(0.5), tp.DepthScaling(), **asked),
                  name, "method", "depth", "width", "progress")
    if run is None:
        return
    if run.width is None and run.depth is not None:
        same = tp.train(NET, TASK, tp.SGD(0.5), tp.DepthScaling(), run.depth, method="coefficients")
        assert np.allclose(run.outputs, same.outputs, rtol=0, atol=1e-12)
    elif run.depth is not None:
        seed = 0 if asked["seed"] is None else int(asked["seed"])
        same = tp.train(NET, TASK, tp.SGD(0.5), tp.DepthScaling(), run.depth, run.width, method="dense", seed=seed)
        assert np.array_equal(run.outputs, same.outputs)
    assert value is None or name in ("method", "keep_nodes", "depth", "width") or name == "seed" and width == 6


def _begun(*at: int) -> None:
    raise ValueError("progress: the work has begun")


NUMBERS = st.one_of(st.sampled_from(BORDERLINE), st.fractions(-2, 2, max_denominator=12),
                    st.integers(1, 24).flatmap(lambda q: st.integers(0, 2 * q).map(lambda p: p / q)))


def many(examples: int) -> settings:
    return settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))


ON_THE_LINE = given(NUMBERS, st.sampled_from([-1.0, "1/2", 0.7, -2]), st.sampled_from([3, tp.oo]), NUMBERS)


@many(20)
@ON_THE_LINE
def test_training_at_any_exponent_agrees_with_the_oracle(alpha: Any, branch: Any, depth: Any, lr: Any) -> None:
    assert_training_on_the_line_agrees(alpha, branch, depth, lr)


@pytest.mark.nightly
@many(200)
@ON_THE_LINE
def test_training_at_many_exponents_agrees_with_the_oracle(alpha: Any, branch: Any, depth: Any, lr: Any) -> None:
    assert_training_on_the_line_agrees(alpha, branch, depth, lr)


def assert_training_on_the_line_agrees(alpha: Any, branch: Any, depth: Any, lr: Any) -> None:
    """alpha and 1 - alpha as floats: on the line, at finite depth and at infinite depth, whatever the type."""
    exact = meant(alpha)
    assert exact is not None
    opt = outcome(lambda: tp.SGD(lr), "lr")
    if opt is None or abs(opt.lr) > 2:
        return
    own = Fraction(alpha) if isinstance(alpha, str) else int(alpha) if isinstance(alpha, np.integer) else alpha
    scale = tp.DepthScaling(alpha, 1 - own, branch=branch)
    run = outcome(lambda: tp.train(NET, TASK, opt, scale, depth), "alpha", "limit", "step", "training")
    if run is None:
        assert depth is tp.oo and exact < 0.5 or abs(exact) > 10
        return
    assert scale.drift_exponent == 0 or str(alpha) == "1e+16"  # which has no neighbor at a distance of 1
    if depth is tp.oo:
        near = outcome(lambda: tp.train(NET, TASK, opt, scale, 2**13), "alpha")
        if near is None:  # L^-alpha is no float there
            assert abs(exact) > 10
            return
        noise = 0.0 if exact == 0.5 else 2.0**(13 * (1 - 2 * exact))  # what the initial matrices still add at 2^13
        assert np.abs(run.outputs - near.outputs).max() < (0.02 + 4 * noise) * max(1.0, np.abs(near.outputs).max())
    else:
        oracle = tp.train(NET, TASK, opt, scale, depth, method="coefficients")
        assert np.abs(run.outputs - oracle.outputs).max() <= 1e-11 * max(1.0, np.abs(run.outputs).max())


EVERYWHERE = [(f"{name}-{k}-" + re.sub(r"0x[0-9a-f]+", "", repr(value))[:30], (name, value))
              for name in ("alpha", "lr", "seed", "depth", "branch", "inputs")
              for k, value in enumerate(ODD + BORDERLINE)]


@pytest.mark.parametrize("name, value", sampled(EVERYWHERE))
def test_every_odd_value_everywhere(name: str, value: Any) -> None:
    def call() -> tp.Run:
        scale = tp.DepthScaling(**({name: value} if name in ("alpha", "branch") else {}))
        task = tp.Task([value], [1.0]) if name == "inputs" else TASK
        opt = tp.SGD(value) if name == "lr" else tp.SGD(0.5)
        depth = value if name == "depth" else 2
        return tp.train(NET, task, opt, scale, depth, **({"seed": value, "width": 3} if name == "seed" else {}))

    run = outcome(call, name, "training", "method")
    assert run is None or np.all(np.isfinite(run.outputs))
