"""Claims about the plane: another condition, another power, or a wrong flag is noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sympy as sp

import tpcalc as tp
from support.proofs_module import proofs_module

ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)
HALF = sp.Rational(1, 2)


@pytest.mark.parametrize("module, name, wrong", [
    ("claim_51", "STABLE", ALPHA > HALF), ("claim_51", "STABLE", ALPHA >= HALF / 2),
    ("claim_52", "STABLE", ALPHA + GAMMA >= 1), ("claim_52", "STABLE", sp.And(ALPHA + GAMMA >= 1, GAMMA > 0)),
    ("claim_52", "OUTPUTS", ALPHA + GAMMA > 1), ("claim_52", "NONTRIVIAL", ALPHA + GAMMA >= 1),
    ("claim_53", "AT_INIT", ALPHA > HALF), ("claim_53", "IN_TRAINING", ALPHA < 1),
    ("claim_53", "IN_TRAINING", sp.And(ALPHA >= HALF, ALPHA <= sp.Rational(9, 8))),
    ("claim_54", "REDUNDANT", ALPHA >= HALF), ("claim_54", "REDUNDANT", sp.And(ALPHA > HALF, ALPHA < 1)),
    ("claim_55", "EVERY", sp.Eq(ALPHA, HALF)), ("claim_55", "EVERY", sp.Eq(ALPHA + GAMMA, 1)),
    ("claim_g1", "LINEAR", ALPHA <= 1), ("claim_g1", "LINEAR", ALPHA > HALF)])
def test_another_condition_is_noticed(module: str, name: str, wrong: sp.Basic) -> None:
    right = getattr(proofs_module(f"tensor_programs_vi.{module}"), name)
    assert right.agreement().holds and right.agreement().value > 5
    assert not replace(right, condition=wrong).agreement().holds


def test_another_power_is_noticed() -> None:
    claims = proofs_module("_claims")
    point = (3 * HALF, -HALF)
    assert claims.growth(point, "change of h", HALF).holds
    for wrong in (0, sp.Rational(1, 4), -HALF):
        assert not claims.growth(point, "change of h", wrong).holds


def test_the_vacuous_claim() -> None:
    """Claim 5.3: among stable and nontrivial scalings, as definitions 5.2 and 5.4 have it, all are faithful."""
    claims = proofs_module("_claims")
    given = [v for v in (claims.verdict(*point) for point in claims.PLANE)
             if v.stable_at_init and v.stable_in_training and v.nontrivial]
    assert len(given) > 5 and all(v.faithful_at_init and v.faithful_in_training for v in given)


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
