"""The checks of real entries have teeth: spoil one thing, and the entry fails."""

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.proofs_module import proofs_module
from tpcalc.ledger import Entry, Equation, Equations, check_entry, entry
from tpcalc.ledger.proof import unreached


def spoiled_statement(one: Entry, wrong: int) -> Entry:
    """The entry with one equation's value multiplied by 2."""
    def statement() -> Equations:
        equations = list(getattr(one.statement(), "equations"))
        equations[wrong] = Equation(equations[wrong].target, 2 * equations[wrong].value)
        return Equations(tuple(equations))
    return replace(one, statement=statement)


@pytest.mark.parametrize("key, wrong", [("tensor_programs_vi/lemma_c3", 0), ("tensor_programs_vi/outer_product", 1),
                                        ("tensor_programs_vi/operators", 0), ("tpcalc/reflection_form", 5),
                                        ("tpcalc/block_densities", 1), ("tpcalc/block_densities", 2),
                                        ("depthwise_transfer/one_step", 5),
                                        ("depthwise_transfer/one_step_finite_depth", 4)])
def test_a_statement_typed_wrong_is_caught(key: str, wrong: int) -> None:
    """What a proof reaches is the statement, and none with one equation twice as large; that its steps hold is checked
    with all entries."""
    good = entry(key)
    assert good.derive is not None
    steps = good.derive().steps
    assert not unreached(good.statement(), steps) and unreached(spoiled_statement(good, wrong).statement(), steps)


def test_what_a_proof_does_not_reach_is_a_failure() -> None:
    good = replace(entry("tensor_programs_vi/operators"), errata=())
    assert not check_entry(good).failures
    assert "not derived" in check_entry(spoiled_statement(good, 0)).failures[0]


def test_integral_equations_typed_wrong_have_residuals(monkeypatch: pytest.MonkeyPatch) -> None:
    module = proofs_module("tensor_programs_vi.proposition_c4")

    def wrong(equation: Equation) -> Equation:
        return Equation(equation.target, equation.value.replace(
            lambda e: isinstance(e, sp.Sum), lambda e: sp.Sum(e.function, (e.limits[0][0], 1, e.limits[0][2]))))

    right = module.EQUATIONS
    gammas, others = right.equations[:2], right.equations[2:]
    monkeypatch.setattr(module, "EQUATIONS", replace(right, equations=(*map(wrong, gammas), *others)))
    assert any("forward Gamma" in text for text in check_entry(module.ENTRY).failures)


def test_each_slip_alone_breaks_the_printed_recursion() -> None:
    printed, line = proofs_module("tensor_programs_vi._printed"), proofs_module("_line")
    outputs = line.true_outputs()

    def output(step: int, **slips: int | None) -> float | None:
        return printed.printed_output(step, line.XI, line.Y, line.DEPTH, **slips)

    assert [output(t) for t in range(3)] == list(outputs)
    assert output(1, first=1) == 0.0 != outputs[1]  # what is learnt at step 0 is lost
    assert output(0, x0_of_nV=1) == 1.0 != outputs[0]
    assert output(1, cross=None) is None
    assert output(1, cross=1) != outputs[1]  # the silence matters: another value gives another output


def test_the_truth_of_the_witnesses_is_that_of_real_networks() -> None:
    line = proofs_module("_line")
    task = tp.Task([float(v) for v in line.XI], [float(v) for v in line.Y])
    found = np.array([tp.train(tp.ResNet(), task, tp.SGD(), tp.DepthScaling(), line.DEPTH,
                               width=256, seed=seed).outputs.ravel() for seed in range(24)])
    error = found.std(0, ddof=1) / np.sqrt(len(found))
    assert np.all(abs(found.mean(0) - line.true_outputs()) < 4 * error)


def test_a_wrong_step_of_the_reflection_form_fails_on_numbers() -> None:
    module = proofs_module("tpcalc.reflection_form")
    derivation, _ = module.derived()
    for number in (2, 4, 7, 10, 12, 16, 23, 32):
        step = derivation.steps[number - 1]
        assert not replace(step, after=2 * step.after).check()
        before = derivation.steps
        derivation.steps = (*before[:number - 1], replace(step, after=2 * step.after), *before[number:])
        try:
            assert module._check_numbers(np.random.default_rng(0)) > 1e-3
        finally:
            derivation.steps = before


@pytest.mark.parametrize("name", ["proposition_c4", "proposition_d2"])
def test_limits_typed_wrong_are_not_derived(name: str) -> None:
    """Each equation, with a sign turned round; and with what layers add counted from the wrong layer."""
    module = proofs_module(f"tensor_programs_vi.{name}")
    entry = replace(module.ENTRY, evidence=None, errata=())
    assert not check_entry(entry).failures
    for number, one in enumerate(module.ENTRY.statement().equations):
        wrong = [*module.ENTRY.statement().equations]
        wrong[number] = Equation(one.target, -one.value)
        found = check_entry(replace(entry, statement=lambda: Equations(tuple(wrong)), derive=module.derive)).failures
        assert [text for text in found if "not derived" in text], one


def test_layers_summed_from_the_wrong_one_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    module = proofs_module("tensor_programs_vi._infinite_depth")
    assert module.layer_by_layer(np.random.default_rng(0)) < 1e-12
    right = module.summed

    def one_less(value: sp.Expr) -> sp.Expr:
        found = right(value)
        return found if found == value else found.replace(
            lambda e: isinstance(e, sp.Sum) and e.limits[0][0] == module.PASSED,
            lambda e: sp.Sum(e.function, (module.PASSED, e.limits[0][1] + 1, e.limits[0][2])))

    monkeypatch.setattr(module, "summed", one_less)
    assert module.layer_by_layer(np.random.default_rng(0)) > 1e-3


def test_another_power_in_proposition_c2_is_noticed() -> None:
    module = proofs_module("tensor_programs_vi.proposition_c2")
    entry = replace(module.ENTRY, evidence=None)
    assert not check_entry(entry).failures
    for number, one in enumerate(module.SIZES):
        wrong = list(module.SIZES)
        wrong[number] = replace(one, value=one.value + sp.Rational(1, 2))
        assert any("not derived" in text for text in check_entry(
            replace(entry, statement=lambda: Equations(tuple(wrong)))).failures), one
