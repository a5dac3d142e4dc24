"""Covariances as papers write them: one sum over base kets, equal in numbers to the terms that were derived."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.interpreted import interpreted
from tpcalc.calculus.recursion import RecursionEquation, compact, conventions
from tpcalc.calculus.kets import Covariance, Gamma

SIZES = {"T": 3, "L": 3}
NETS = {"linear": tp.ResNet(), "two matrices": tp.ResNet(block="mlp"),
        "trained ends": tp.ResNet(train_embedding_readout=True)}


def derived(net: tp.ResNet) -> tp.theory.Recursion:
    return tp.recursion(tp.kets(tp.program(net, tp.SGD(), tp.DepthScaling())))


def terms(value: sp.Expr) -> list[sp.Expr]:
    """The value with its sums carried out, one index after the other."""
    if isinstance(value, (sp.Add, sp.Mul)) and value.has(sp.Sum):
        parts = [sp.Add(*terms(part)) for part in value.args]
        return [value.func(*parts)]
    if not isinstance(value, sp.Sum):
        return [value]
    indices = [limit[0] for limit in value.limits]
    ranges = [range(int(limit[1]), int(limit[2]) + 1) for limit in value.limits]
    return [value.function.xreplace(dict(zip(indices, map(sp.Integer, numbers)))) for numbers in product(*ranges)]


class Numbers:
    """Random numbers for coefficients and covariances; what is said of step -1 holds for them."""

    def __init__(self, recursion: tp.theory.Recursion, seed: int) -> None:
        self.rng, self.known = np.random.default_rng(seed), dict[Any, float]()
        self.vectors, self.said = len(recursion.setting.program.vectors), True

    def of(self, atom: sp.Expr) -> float:
        if isinstance(atom, Gamma):
            a, b, t, r, l, m = atom.args
            atom = (a, b, t, r, l, sp.Tuple(*(0 for _ in m)) if r[0] == -1 else m)  # it has no layer
        elif self.said and -1 in (atom.args[2][0], atom.args[3][0]):
            return 1.0 if atom.args[2] == atom.args[3] and int(atom.args[0]) < self.vectors else 0.0
        return self.known.setdefault(atom, float(self.rng.uniform(0.5, 2)))

    def value(self, expression: sp.Expr) -> float:
        whole = sp.Add(*terms(expression))
        return float(whole.xreplace({atom: sp.Float(self.of(atom), 17) for atom in whole.atoms(Gamma, Covariance)}))


def placed(equation: RecursionEquation, value: sp.Expr) -> sp.Expr:
    """The value for a step, an earlier one and a layer."""
    numbers = {"t": 2, "s": 1, "l": 2, "L": SIZES["L"]}
    return value.subs({symbol: numbers[str(symbol)] for symbol in value.free_symbols if str(symbol) in numbers})


@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
def test_one_sum_is_equal_to_all_terms(net: tp.ResNet) -> None:
    recursion = derived(net)
    numbers = Numbers(recursion, 0)
    found = [e for e in recursion.equations if e.kind == "C" or e.value.has(Covariance) and e.kind == "scalar"]
    assert len(found) >= 2
    for equation in found:
        one = compact(equation.value, recursion.setting)
        assert len(sp.Add.make_args(one)) == 1 and len(sp.Add.make_args(equation.value)) >= 4
        expected = numbers.value(placed(equation, equation.value))
        assert numbers.value(placed(equation, one)) == pytest.approx(expected, rel=1e-13)
        numbers.said = False  # without what is said of step -1 it is another number
        assert abs(numbers.value(placed(equation, one)) - expected) > 0.1
        numbers.said = True


def test_of_a_trained_network() -> None:
    """C of a real training, from the printed equation and the coefficients alone."""
    recursion, task = derived(tp.ResNet()), ([1.0, 0.8, -0.6], [1.0, -0.7, 0.5])
    arrays = interpreted(recursion)(SIZES["L"], *task).arrays

    def number(atom: sp.Expr) -> float:
        if isinstance(atom, Gamma):
            a, b, (t,), (r,), (l,), (m,) = atom.args
            return float(arrays[f"Gamma{a}"][t, l, r + 1, b, 0 if r == -1 else m])
        b, _, (t,), (s,), (l,), _ = atom.args
        return float(t == s) if -1 in (t, s) else float(arrays[f"C{b}_{b}"][max(t, s), min(t, s), l])

    for equation in (e for e in recursion.equations if e.kind == "C"):
        value = sp.Add(*terms(placed(equation, compact(equation.value, recursion.setting))))
        found = float(value.xreplace({atom: sp.Float(number(atom), 17) for atom in value.atoms(Gamma, Covariance)}))
        side = int(equation.target.args[0])
        assert found == pytest.approx(float(arrays[f"C{side}_{side}"][2, 1, 2]), rel=1e-12)


def test_what_is_said_of_step_minus_one() -> None:
    def said(net: tp.ResNet) -> list[str]:
        return str(derived(net)).splitlines()[-3:]

    assert said(NETS["linear"])[1:] == ["C[-1,-1,b](m) = 1", "C[r,-1,b](m) = 0  (r >= 0)"]
    assert said(NETS["two matrices"]) == ["C[-1,-1,b](m) = 1  (b <= 1)", "C[r,-1,b](m) = 0  (r >= 0)",
                                          "C[-1,-1,b](m) = 0  (b > 1)"]


def test_terms_that_are_not_of_one_sum_stay() -> None:
    """A term that is missing, has another factor or another sign keeps the rest as it was derived."""
    recursion = derived(tp.ResNet())
    value = next(e.value for e in recursion.equations if e.kind == "C")
    setting = recursion.setting
    whole = sp.Add.make_args(value)
    for changed in ([*whole[:-1], -whole[-1]], whole[:-1], [-whole[0], *whole[1:]], [2 * whole[0], *whole[1:]]):
        other: Any = sp.Add(*changed)
        one = compact(other, setting)
        numbers = Numbers(recursion, 1)
        assert numbers.value(placed(None, one)) == pytest.approx(  # type: ignore[arg-type]
            numbers.value(placed(None, other)), rel=1e-13)  # type: ignore[arg-type]
        assert len(sp.Add.make_args(one)) > 1
    assert conventions([sp.Add(*whole)], setting) == []


def test_a_term_that_is_missing_of_several_keeps_the_rest_as_terms() -> None:
    recursion = derived(NETS["two matrices"])
    value = max((e.value for e in recursion.equations if e.kind == "C"), key=lambda v: len(v.args))
    whole = sp.Add.make_args(value)
    assert len(whole) > 3 > len(sp.Add.make_args(compact(value, recursion.setting)))
    for number in range(len(whole)):
        other: Any = sp.Add(*whole[:number], *whole[number + 1:])
        numbers = Numbers(recursion, 1)
        one, same = (placed(None, v) for v in (compact(other, recursion.setting), other))  # type: ignore[arg-type]
        assert numbers.value(one) == pytest.approx(numbers.value(same), rel=1e-13)
