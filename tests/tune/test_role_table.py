"""The table of named parametrizations: against published exponents, and the sizes that programs have."""

import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from tpcalc.tune.role_table import recipe_table
from tpcalc.training.by_parameter import exponents_of_powers, settings_in_layers
from tpcalc.scaling.width import gradient_power
from tpcalc.width.sizes.measure import measure
from tpcalc.width.sizes.perceptron import perceptron

HALF = sp.Rational(1, 2)


@pytest.mark.parametrize("scaling", [tp.width.width_recipe("muP", 3), tp.width.width_recipe("NTP", 3)], ids=str)
def test_gradients_have_the_sizes_that_programs_have(scaling):
    """dh of a program is n times the derivative in h; an entry of a matrix has that times what it acts on."""
    found = measure(perceptron(scaling), {"T": 1})
    sizes = {str(e): found.power(e) for e in found.sizes}
    assert sizes["dh2[0]"] - 1 + sizes["x1[0]"] == -gradient_power(scaling, "hidden")
    assert sizes["dh1[0]"] - 1 == -gradient_power(scaling, "input")


def test_adams_effective_rates_in_mup_are_those_of_tensor_programs_v():
    """Table 8 of arXiv:2203.03466: Adam's rates go like 1, 1/n, 1/n where multipliers are none, in any gauge."""
    table = recipe_table("adam")
    for column in ("muP", "MFP", "Depth-muP", "CompleteP"):
        effective = [powers.of("multiplier", "n") + powers.of("lr", "n") for powers in (
            table.entries[column, role] for role in ("input", "hidden", "output"))]
        assert effective == [0, -1, -1], column
        for role in ("input", "hidden", "output"):  # eps goes with gradients, which carry the multiplier
            powers = table.entries[column, role]
            assert powers.of("eps", "n") == powers.of("multiplier", "n") - (0 if role == "output" else 1)


def test_gradient_descent_has_the_width_scalings_own_powers():
    table = recipe_table("sgd", "1/3")
    for column, scaling in (("NTP", tp.width.width_recipe("NTP", 3)),
                            ("meta-principled", tp.meta_principled("1/3", 3))):
        a, b, c = scaling.abc()
        for i, role in enumerate(("input", "hidden", "output")):
            powers = table.entries[column, role]
            found = tuple(powers.of(setting, "n") for setting in ("multiplier", "init", "lr"))
            assert found == (-a[i], -b[i], -c) and powers.of("multiplier", "L") == 0


def test_depth_is_in_hidden_matrices_alone():
    for optimizer, rates in (("sgd", {"Depth-muP": 0, "CompleteP": 1}), ("adam", {"Depth-muP": -HALF, "CompleteP": 0})):
        table = recipe_table(optimizer)
        for column, multiplier in (("Depth-muP", -HALF), ("CompleteP", -1)):
            powers = table.entries[column, "hidden"]
            assert (powers.of("multiplier", "L"), powers.of("lr", "L")) == (multiplier, rates[column])
            assert optimizer == "sgd" or powers.of("eps", "L") == multiplier
            assert table.entries[column, "output"].of("multiplier", "L") == 0


def test_the_table_prints_and_refuses():
    table = recipe_table("sgd")
    assert str(table).count("\n") == 12 and "eps" not in str(table) and "CompleteP" in str(table)
    assert len(recipe_table("adam").rows) == 15 and set(table.sources) == set(table.rows[0]) - {"role", "setting"}
    for wrong in ("lion", 3):
        with pytest.raises(ValueError, match="optimizer"):
            recipe_table(wrong)


@given(st.fractions(0, 1, max_denominator=4), st.fractions(-1, 1, max_denominator=4),
       st.fractions(-1, 1, max_denominator=4), st.sampled_from(["sgd", "signsgd", "adam"]))
@settings(deadline=None, max_examples=20)
def test_recipes_of_parametrizations_are_what_their_audit_says(alpha, first, second, optimizer):
    one = tp.Parametrization(depth={"alpha": alpha, "W1": first, "W2": second})
    found = tp.theory.matrix_recipe(one, optimizer).settings
    raw = {"branch": tp.Powers(multiplier={"L": found.branch}), **found.powers}
    again = exponents_of_powers(tp.Parametrization(depth=raw), found.net, optimizer)
    assert (again.alpha, dict(again.own)) == (one.alpha, dict(one.own))


def test_initialization_counts_once_and_in_every_gradient():
    """W2 L^b2 W1 L^b1 x: the block has both, a raw gradient all but its own, an update is relative to its own."""
    raw = tp.Parametrization(depth={"W1": tp.Powers(init={"L": -HALF}), "W2": tp.Powers()})
    found = settings_in_layers(raw, tp.ResNet("linear", "mlp"))
    assert found.alpha == HALF and found.gammas == {"W1": -HALF, "W2": HALF}


def test_audits_and_recipes_refuse_by_name():
    exponents = tp.Parametrization(depth={"alpha": 1, "W1": 0, "W2": 0})
    with pytest.raises(ValueError, match="has exponents"):
        tp.theory.audit_matrices(exponents)
    raw = tp.Parametrization(depth={"branch": tp.Powers(multiplier={"L": -1}), "W": tp.Powers()})
    with pytest.raises(ValueError, match="branch: .* expected the power of L"):
        tp.audit(raw, 0)
    with pytest.raises(ValueError, match="name: .* tp.theory.matrix_recipe"):
        tp.recipe(exponents)
    with pytest.raises(ValueError, match="scale: .* names no matrix"):
        tp.theory.matrix_recipe(tp.Parametrization())
    with pytest.raises(ValueError, match="muP in width"):
        tp.recipe(tp.Parametrization("SP"))
    assert tp.recipe(tp.Parametrization(), "sgd").powers == tp.recipe("depth-mup", "sgd").powers
    assert tp.theory.audit_matrices(raw, optimizer="adam").scaling == tp.audit(-1, 0).scaling
    factors = tp.theory.matrix_recipe(exponents, "sgd", depth=64).factors
    assert factors["W1"] == {"branch": 1 / 64, "init": 1.0, "lr": 64.0}
