"""Powers of n that no reading follows are refused by name; those that change nothing are taken."""

from __future__ import annotations

from typing import Callable

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp

TASK, OPT = tp.Task([1, 0.5], [1, -0.5]), tp.SGD(0.5, weight_decay=0.1)


def given(role: str, **powers: object) -> tp.Parametrization:
    width: dict[str, dict[str, object]] = {"input": {}, "hidden": {"init": "-1/2"}, "output": {}}
    return tp.Parametrization(width={**width, role: {**width[role], **powers}})


def trained(scale: tp.Parametrization) -> np.ndarray:
    return tp.train(tp.ResNet(), TASK, OPT, scale, 4, 16, method="dense", seed=0).outputs


READINGS: dict[str, Callable[[tp.Parametrization], object]] = {
    "train": trained, "problem": lambda scale: tp.Problem(tp.ResNet(), TASK, OPT, scale, 4, 16),
    "program": lambda scale: tp.program(tp.ResNet(), tp.SGD(), scale)}


@pytest.mark.parametrize("power", [-1, "1/2", sp.Symbol("s", real=True)], ids=str)
@pytest.mark.parametrize("role", ["input", "hidden", "output"])
@pytest.mark.parametrize("name", ["eps", "decay"])
@pytest.mark.parametrize("reading", READINGS)
def test_powers_of_eps_and_decay_are_refused(reading: str, name: str, role: str, power: object) -> None:
    with pytest.raises(tp.NotCovered, match=rf"width: got {name} n\^\(.*\) of '{role}'"):
        READINGS[reading](given(role, **{name: power}))


def test_powers_that_change_nothing_are_taken() -> None:
    plain = trained(given("hidden"))
    assert np.isfinite(plain).all()
    assert np.array_equal(plain, trained(given("hidden", decay=0))) and np.array_equal(
        plain, trained(given("input", eps=0)))
