"""What a verdict takes for granted, and verdicts after several updates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sympy as sp

import tpcalc as tp
from support.drawn_trees import asked
from support.slopes_of_depth import compared
from tpcalc.programs.blocks import Branch
from tpcalc.programs.indices import L
from tpcalc.programs.language import MatVec

HALF = sp.Rational(1, 2)
SMALL = tp.Transformer(head_dim=2, positions=3, mlp=None)
ROWS = json.loads((Path(__file__).parents[1] / "references" / "measured_slopes.json").read_text())["drawn"]
ONCE = (28, 46)  # by Adam and signs, where gradients of the second step are of another order


def after(**options: object) -> tuple[str, ...]:
    return tp.classify(1, 0, **options).assumptions  # type: ignore[call-overload]


def test_assumptions_are_those_of_the_call() -> None:
    plain, adam = after(net=tp.ResNet("tanh")), after(net=tp.ResNet("tanh"), opt=tp.AdamW(weight_decay=0.1, eps=1e-8))
    assert not any("stands for adam" in one or "decay" in one or "positions" in one for one in plain)
    assert {one for one in adam if one not in plain} >= {"eps stays as it is as L grows",
                                                         "a weight decay takes a share of order one in a step"}
    assert any("gradient descent" in one and "stands for adamw" in one for one in adam)
    assert not any("eps" in one for one in after(net=tp.ResNet("tanh"), opt=tp.SignSGD()))
    whole = tp.classify(1, 0, tp.ResNet("tanh"))
    assert str(whole).endswith("assumed: " + "; ".join(whole.assumptions))


def test_updates_of_another_size_are_said() -> None:
    """A block that divides by sqrt(L), whose gradient a sign does not feel."""
    from verdicts.test_matrices import small_gate
    net, scale = tp.ResNet("linear", small_gate), tp.Parametrization(depth={"alpha": "1/2", "W1": "1/2", "W2": 0})
    said, = (one for one in tp.classify(scale, net, tp.SignSGD()).assumptions if "stands for signsgd" in one)
    assert "W1 L^(0)" in said and "W2 L^(1/2)" in said


def test_one_update_is_what_was_said_before_and_more_repeat_it() -> None:
    one, *others = (tp.classify(1, 0, tp.ResNet("tanh", "mlp"), updates=updates) for updates in (1, 2, 3, 10))
    assert all(other.exponents == one.exponents and other.name == one.name for other in others)
    said = [v.assumptions[-1] for v in (one, *others)]
    assert "after the first update;" in said[0] and "later ones" in said[0] and "first 10 updates;" in said[3]
    assert "later ones" not in said[1] and "2 steps change x" in others[0].reasons[1]


def test_sizes_and_matrices_are_those_of_as_many_updates() -> None:
    """From one matrix that moves the other's gradient is larger in the second step."""
    net, scale = tp.ResNet("tanh", "mlp"), tp.Parametrization(depth={"alpha": HALF, "W1": HALF, "W2": 0.25})
    for updates in (1, 2):
        v = tp.classify(scale, net, updates=updates)
        for name in ("x", "f"):
            size = v.sizes[name]["change"]
            assert (size.L, size.at_most) == (v.exponents[f"change of {name}"], f"change of {name}" in v.bounds)
        assert max(one.update for one in v.matrices.values()) <= v.exponents["update of h"]


def test_what_explodes_in_an_update_is_left_out_and_said() -> None:
    """Of two matrices a block every step is worse than the one before."""
    net, point = tp.ResNet("linear", "mlp"), (sp.Rational(3, 2), -HALF)
    assert tp.classify(*point, net, updates=2).assumptions[-1] == (
        "exponents are those after 1 of 2 updates, without what explodes in step 2")
    assert "one step changes x of order one" in tp.classify(*point, net, updates=2).reasons[1]


@pytest.mark.parametrize("updates", [0, -1, 1.5, "2", True])
def test_updates_are_whole_numbers(updates: object) -> None:
    with pytest.raises(ValueError, match="updates: got"):
        tp.classify(1, 0, updates=updates)  # type: ignore[call-overload]


def test_no_update_is_counted_from_what_is_not_stable() -> None:
    for net in (tp.ResNet("tanh"), tp.ResNet("tanh", norm="rms")):
        assert tp.classify(HALF / 2, 3 * HALF / 2, net).assumptions[-1].startswith("no update is counted")


def test_clipping_has_the_powers_of_what_it_clips() -> None:
    """Gradients of order one are multiplied by a number of order one; a block that is L^(1/2) times as large as others,
    which one multiplier L^-1 makes up for, has gradients that grow, and clipping takes that off its updates."""
    net, point = tp.ResNet("tanh"), (HALF, HALF)
    plain, clipped = tp.classify(*point, net), tp.classify(*point, net, tp.Clipped(tp.SGD(), 1.0))
    assert clipped.exponents == plain.exponents and clipped.where == plain.where
    assert "clipping" in clipped.assumptions[-1] and not any("clipping" in one for one in plain.assumptions)

    def large(b: Branch) -> sp.Expr:
        return sp.sqrt(L) * sp.tanh(b.let("h", MatVec(b.weights(), b.x)))

    grown, shrunk = (tp.classify(1, gamma, tp.ResNet("tanh", large), opt) for gamma, opt in (
        (HALF, tp.Clipped(tp.SGD(), 1.0)), (1, None)))
    assert grown.exponents == shrunk.exponents != tp.classify(1, HALF, tp.ResNet("tanh", large)).exponents
    assert grown.gamma == HALF
    signs = tp.classify(1, HALF, tp.ResNet("tanh", large), tp.Clipped(tp.SignSGD(), 1.0))
    assert signs.exponents == tp.classify(1, HALF, tp.ResNet("tanh", large), tp.SignSGD()).exponents


def test_irrational_exponents_are_counted_over_the_first_update() -> None:
    with pytest.raises(tp.NotCovered, match="updates: got 2 at alpha"):
        tp.classify(sp.sqrt(2) / 2, HALF, updates=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", ONCE)
def test_a_first_update_is_counted_alone_where_gradients_change(seed: int) -> None:
    scale, net, opt = asked(ROWS[seed])
    verdict = tp.classify(scale, net, opt)
    assert "alone" in verdict.assumptions[-1]
    row = {**ROWS[seed], "logs": {name: told[:1] for name, told in ROWS[seed]["logs"].items()}}
    assert all(one.agrees for one in compared(row, verdict.exponents, verdict.bounds))
    with pytest.raises(tp.NotCovered, match="in 1 step, so that .* not counted beyond the first"):
        tp.classify(scale, net, opt, updates=2)


@pytest.mark.slow
def test_a_transformer_has_later_updates() -> None:
    found = tp.classify(1, 0, SMALL, updates=10)
    assert found.exponents == tp.classify(1, 0, SMALL).exponents
    assert "first 10 updates" in found.assumptions[-1] and "steps change x" in str(found)
