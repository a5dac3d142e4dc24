"""Theorem D.3: the constants of its induction, and measurements that would notice a wrong rate."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.proofs_module import proofs_module


@pytest.mark.parametrize("step, constant", [(1, 1), (1, 3), (2, 1), (3, 2)])
def test_parts_summed_as_formulas_and_one_by_one(step: int, constant: int) -> None:
    module = proofs_module("tensor_programs_vi._induction")
    numbers = {module.t: step, module.c: constant}
    assert module.counted().subs(numbers) == module.one_by_one(step, constant)
    assert module.counted().subs(numbers) > module.PRINTED_C1.subs(numbers)


@pytest.mark.parametrize("t, s", [(1, 0), (2, 1), (3, 0), (3, 2)])
def test_numbers_of_terms_are_those_of_the_sums(t: int, s: int) -> None:
    """Over t' < t, s' <= s and b in the first two parts, s' in the last, at most t."""
    module = proofs_module("tensor_programs_vi._induction")
    numbers = [number.subs({module.t: t, module.s: s}) for number, _ in module.PARTS]
    assert numbers[0] == numbers[1] == len([(t1, s1, b) for t1 in range(t) for s1 in range(s + 1) for b in (0, 1)])
    assert numbers[2] == 1 and numbers[3] == t >= s + 1


def test_the_printed_sum_counts_each_part_once() -> None:
    """At c = 1 the printed sum is that of the parts, each counted once: nothing else was left out."""
    module = proofs_module("tensor_programs_vi._induction")
    for step in (1, 2, 5):
        numbers = {module.t: step, module.c: 1}
        once = sum(part.subs(numbers) for _, part in module.PARTS)
        assert once == module.PRINTED_C1.subs(numbers)


def test_the_first_constant_by_hand() -> None:
    """t = 1, c = 1: c_4 = 10, c_5 = 11, c_1 = 53 + 44 + 22; xi_1 = 1/2, chi_1 = 2, so that c_2 = 4."""
    module = proofs_module("tensor_programs_vi._induction")
    _, found = module.logarithms(1.0, [1.0, 0.5], [1.0, 2.0], module.PRINTED_C1)
    assert abs(float(found) - (119 + math.log(11 * 4))) < 1e-10


def test_constants_are_a_tower() -> None:
    """ln c is a polynomial in the c before: ln ln c grows like ln c."""
    module = proofs_module("tensor_programs_vi._induction")
    one, two, three = module.logarithms(1.0, [1.0] * 4, [1.0] * 4, module.PRINTED_C1)[1:]
    assert abs(float(sp.log(two) / one) / 5 - 1) < 0.1
    assert abs(float(sp.log(three) / two) / 5 - 1) < 0.1
    with pytest.raises(ValueError, match="got 5 steps; expected at most 4"):
        module.logarithms(1.0, [1.0] * 5, [1.0] * 5, module.PRINTED_C1)


@pytest.mark.parametrize("exponents, text", [((2,), "10^2"), ((3.5,), "10^3.5"), ((10, 5.5), "10^10^5.5"),
                                             ((10, 10, 6), "10^10^10^6")])
def test_towers_are_written_in_powers_of_ten(exponents: tuple[float, ...], text: str) -> None:
    value = sp.Float(exponents[-1])
    for _ in exponents[1:]:
        value = sp.Float(10) ** value
    assert proofs_module("tensor_programs_vi._induction").tower(value * sp.log(sp.Float(10))) == text


def test_a_wrong_rate_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    module = proofs_module("tensor_programs_vi.theorem_d3")
    assert not module.evidence().failures
    monkeypatch.setattr(module, "BEYOND", replace(module.BEYOND, power=sp.Integer(-1)))  # c / L for every alpha
    failures = module.evidence().failures
    assert len(failures) == 3 and all("alpha = 3/4" in failure for failure in failures)
    printed = module.ENTRY.statement().latex()
    assert r"O\left(L^{-1}\right) \quad (\alpha > \tfrac12" in printed  # what is printed is measured


def test_constants_that_are_too_small_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    module = proofs_module("tensor_programs_vi.theorem_d3")
    monkeypatch.setattr(module, "proven", lambda: [sp.log(sp.Float(2))] * 4)
    assert any("smallest c that will do" in failure for failure in module.evidence().failures)


def test_second_differences_are_of_second_order_away_from_the_source() -> None:
    """So that the corrected form says where they are not."""
    scale, task = tp.DepthScaling(), tp.Task([1.0, 0.5], [1.0, -0.5])
    found = []
    for depth in (64, 128, 256):
        fine, coarse = (tp.train(tp.ResNet(), task, tp.SGD(), scale, L, keep_nodes="all") for L in (depth, depth // 2))
        ours, theirs = (run.gamma(1, 0, 0, 1, 0.5, 0.75) - run.gamma(1, 0, 0, 1, 0.5 - 2 / depth, 0.75)
                        for run in (fine, coarse))
        found.append(abs(ours - theirs))
    assert np.all(np.abs(np.log2(np.array(found[:-1]) / found[1:]) - 2) < 0.1)
