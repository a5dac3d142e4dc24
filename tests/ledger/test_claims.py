"""Claims about the plane: another condition, another power, or a wrong flag is noticed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Equation, Equations, check_entry
from tpcalc.ledger.proof import unreached
from support.proofs_module import proofs_module

ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)
HALF = sp.Rational(1, 2)


RIGHT = [
    ("claim_51", "STABLE", [ALPHA > HALF, ALPHA >= HALF / 2, ALPHA <= HALF]),
    ("claim_52", "TRAINS", [sp.And(ALPHA >= HALF, ALPHA + GAMMA >= 1),
                            sp.And(ALPHA >= HALF, ALPHA + GAMMA >= 1, GAMMA > 0)]),
    ("claim_52", "CONVERGES", [sp.And(ALPHA >= HALF, ALPHA + GAMMA > 1), sp.And(ALPHA >= HALF, ALPHA + GAMMA <= 1)]),
    ("claim_52", "MOVES", [sp.And(ALPHA >= HALF, ALPHA + GAMMA >= 1), sp.And(ALPHA >= HALF, sp.Eq(ALPHA + GAMMA, 1))]),
    ("claim_52", "BOTH", [sp.And(ALPHA >= HALF, ALPHA + GAMMA >= 1), sp.And(ALPHA > HALF, sp.Eq(ALPHA + GAMMA, 1))]),
    ("claim_53", "AT_INIT", [ALPHA > HALF]),
    ("claim_53", "IN_TRAINING", [sp.And(ALPHA >= HALF, ALPHA < 1, sp.Eq(ALPHA + GAMMA, 1)),
                                 sp.And(ALPHA >= HALF, ALPHA <= sp.Rational(9, 8), sp.Eq(ALPHA + GAMMA, 1))]),
    ("claim_53", "VACUOUS", [sp.And(ALPHA >= HALF, sp.Eq(ALPHA + GAMMA, 1))]),
    ("claim_54", "REDUNDANT", [sp.And(ALPHA >= HALF, ALPHA <= 1, sp.Eq(ALPHA + GAMMA, 1)),
                               sp.And(ALPHA > HALF, ALPHA < 1, sp.Eq(ALPHA + GAMMA, 1))]),
    ("claim_55", "EVERY", [sp.Eq(ALPHA, HALF), sp.And(sp.Eq(ALPHA, HALF), sp.Eq(GAMMA, 1))]),
    ("claim_g1", "LINEAR", [sp.And(ALPHA >= HALF, ALPHA <= 1, sp.Eq(ALPHA + GAMMA, 1))])]


@pytest.mark.parametrize("module, name, wrong", [(*one[:2], wrong) for one in RIGHT for wrong in one[2]])
def test_another_condition_is_noticed(module: str, name: str, wrong: sp.Basic) -> None:
    """By the steps, which end in the right one, and, whatever the steps say, by verdicts at points."""
    right = getattr(proofs_module(f"tensor_programs_vi.{module}"), name)
    assert not failures_with(right, right.value, module)
    found = failures_with(right, wrong, module)
    assert any("not derived" in one for one in found) and any("numbers differ" in one for one in found)


@pytest.mark.parametrize("module, name, _", RIGHT)
def test_a_condition_turned_round_is_noticed(module: str, name: str, _: object) -> None:
    right = getattr(proofs_module(f"tensor_programs_vi.{module}"), name)
    for relation in sorted(right.value.atoms(sp.core.relational.Relational), key=str):
        found = failures_with(right, right.value.xreplace({relation: relation.negated}), module)
        assert any("not derived" in one for one in found) and any("numbers differ" in one for one in found), relation


def failures_with(right: Equation, value: sp.Basic, module: str) -> tuple[str, ...]:
    """What the checks say where a claim alone is derived, with this condition in its statement."""
    home = proofs_module("tensor_programs_vi._derived")
    one = replace(right, value=value)
    entry = replace(proofs_module(f"tensor_programs_vi.{module}").ENTRY, statement=lambda: Equations((one,)),
                    derive=lambda: home.derived(one), evidence=None, errata=())
    return check_entry(entry).failures


@pytest.mark.parametrize("module", ["claims_relu", *(pytest.param(name, marks=pytest.mark.nightly) for name in (
    "claims_tanh", "claims_two_matrices"))])
def test_conditions_of_other_networks_turned_round_are_noticed(module: str) -> None:
    """Each of them, one relation at a time: by the faces, and what is stated of x and f by verdicts at points too."""
    home = proofs_module(f"tensor_programs_vi.{module}")
    proof, equations = home.derive(), home.statement().equations
    assert not unreached(home.statement(), proof.steps) and all(step.check() for step in proof.steps)
    for number, one in enumerate(equations):
        for relation in sorted(one.value.atoms(sp.core.relational.Relational), key=str):
            wrong = replace(one, value=one.value.xreplace({relation: relation.negated}))
            assert unreached(Equations((wrong,)), proof.steps), (one.target, relation)
    elsewhere = proofs_module("tensor_programs_vi._elsewhere")
    assert proof.check_numbers(np.random.default_rng(0)) == 0
    case = replace(home.CASES[0], outputs=sp.And(ALPHA >= HALF, ALPHA + GAMMA > 1))
    stated = elsewhere.statement_of((case,))
    assert elsewhere.prove_cases((case,), stated).check_numbers(np.random.default_rng(0)) > 0


def test_claim_52_is_another_one_for_tanh() -> None:
    """Whatever the updates, x and f are stable at alpha = 1, and beyond it nothing moves them."""
    where, said = proofs_module("_claims").where, proofs_module("tensor_programs_vi.definitions_5").SAID
    names = proofs_module("tensor_programs_vi.definitions_5")
    linear, tanh = (where(tp.ResNet(phi), lambda v: v.output_stable and v.nontrivial) for phi in ("linear", "tanh"))
    at = proofs_module("_conditions").at
    assert at(linear, (2, -1)) and not at(tanh, (2, -1)) and at(tanh, (1, -1)) and not at(linear, (1, -1))
    assert where(tp.ResNet(), said[names.STARTS]) == (ALPHA >= HALF)


@pytest.mark.parametrize("number, wrong", [
    (0, "less"), (2, "more"), (4, "one form"), (6, "one form"), (8, "less")])
def test_another_size_is_noticed(number: int, wrong: str) -> None:
    """By the count and by sizes counted at points; claims that rest on it are others."""
    module = proofs_module("tensor_programs_vi.appendix_h")
    equation = module.SIZES[number]
    (form, where), rest = equation.value.args
    other = form.args[0] if wrong == "one form" else form + (HALF if wrong == "more" else -HALF)
    object.__setattr__(equation, "value", sp.Piecewise((other, where), rest))
    try:
        found = check_entry(replace(module.ENTRY, evidence=None)).failures
        assert any("not derived" in one for one in found) and any("numbers differ" in one for one in found)
    finally:
        object.__setattr__(equation, "value", sp.Piecewise((form, where), rest))


def test_conditions_are_simplified_to_the_same_points() -> None:
    """Points on a grid that meets all lines and their crossings."""
    simplest, at = (getattr(proofs_module("_conditions"), name) for name in ("simplest", "at"))
    for condition in (sp.And(ALPHA >= HALF, ALPHA + GAMMA >= 1, GAMMA >= 0), sp.Or(ALPHA > 1, GAMMA > 0),
                      sp.And(sp.Eq(ALPHA + GAMMA, 1), sp.Eq(2 * ALPHA, 1)), sp.And(ALPHA > 1, ALPHA < 1),
                      sp.Or(sp.And(ALPHA >= 1, GAMMA > 0), sp.And(ALPHA < 1, GAMMA > 0)),
                      sp.And(sp.Eq(ALPHA + GAMMA, 1), ALPHA > HALF, GAMMA >= 0)):
        found = simplest(condition)
        for point in ((sp.Rational(i, 4), sp.Rational(j, 4)) for i in range(9) for j in range(-4, 6)):
            assert at(found, point) == at(condition, point), (condition, found, point)
    assert simplest(sp.Or(sp.And(ALPHA >= 1, GAMMA > 0), sp.And(ALPHA < 1, GAMMA > 0))) == (GAMMA > 0)


def test_another_power_is_noticed() -> None:
    claims = proofs_module("_claims")
    point = (3 * HALF, -HALF)
    assert claims.growth(point, "change of h", HALF).holds
    for wrong in (0, sp.Rational(1, 4), -HALF):
        assert not claims.growth(point, "change of h", wrong).holds


def test_a_bounded_activation_is_trivial_by_the_size_of_a_layer() -> None:
    """The witness of claim 5.2 b: x moves by at most L^(1 - alpha), so f goes where it was."""
    module = proofs_module("tensor_programs_vi.claim_52")
    witness = module.bounded()
    assert witness.printed_fails and witness.corrected_holds
    assert tp.classify(module.BOUNDED.alpha, module.BOUNDED.gamma).nontrivial  # a linear network is not


def test_features_differ_by_pieces_like_their_root_or_like_them() -> None:
    module = proofs_module("tensor_programs_vi.claim_54")
    rough, smooth = module.piece(tp.DepthScaling(), 0.5), module.piece(tp.DepthScaling(1, 0), 1.0)
    assert rough.holds and smooth.holds
    assert not replace(rough, expected=1.0).holds and not replace(smooth, expected=0.5).holds


@pytest.mark.nightly
def test_conditions_of_transformers_turned_round_are_noticed() -> None:
    """Verdicts at points are as each claim has it; one relation the other way disagrees at some of them."""
    home = proofs_module("tensor_programs_vi.claims_attention")
    where = home.points()
    verdicts = [tp.classify(*point, home.NET, home.CASE.opts[n % 2]) for n, point in enumerate(where)]
    for one in home.statement().equations:
        said = [bool(one.target.xreplace(home.CASE.said(verdict))) for verdict in verdicts]
        assert said == [bool(one.value.subs(dict(zip((ALPHA, GAMMA), point)))) for point in where]
    for relation in (ALPHA >= HALF, GAMMA >= 0):
        one = next(e for e in home.statement().equations if "during training, att" in str(e.target)
                   and relation in e.value.atoms(sp.core.relational.Relational))
        wrong = one.value.xreplace({relation: relation.negated})
        assert any(bool(one.target.xreplace(home.CASE.said(v))) != bool(wrong.subs(dict(zip((ALPHA, GAMMA), point))))
                   for v, point in zip(verdicts, where))
