"""Overlaps and means of functions are Expectation nodes: rules, closed forms, quadrature and tables agree on them."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

from tpcalc.calculus.kets import Ket
from tpcalc.gaussian import Degenerate, Expectation, IndependentFactors, Linearity, Parity
from tpcalc.gaussian.expectations import closed
from tpcalc.gaussian.overlap_functions import overlap_function, tabulated
from tpcalc.gaussian.rules import U, V, gaussian_mean, overlap
from tpcalc.models.activations import H
from tpcalc.gaussian.scalar_functions import DerivativeAt
from tpcalc.programs.language import Family, Vector

C = sp.Symbol("C", real=True)
P, Q = sp.symbols("P Q", positive=True)
VALUES = {C: 0.4, P: 1.3, Q: 0.7}
FUNCTIONS = (sp.tanh(H), sp.tanh(H + sp.Rational(1, 2)), sp.sin(H), sp.erf(H), H * sp.tanh(H), H**3 - H)


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("g", [sp.tanh(H), H**2 + H])
@pytest.mark.parametrize("j, k", [(0, 0), (1, 1), (2, 0), (0, 1)])
def test_quadrature_of_the_node_is_what_tables_say(f: sp.Expr, g: sp.Expr, j: int, k: int) -> None:
    node = overlap(f, g, j, k, C, P, Q)
    if isinstance(node, Expectation):
        table = tabulated(node.functions)(*(np.array(float(e.subs(VALUES))) for e in node.entries))
        assert node.evaluate(VALUES) == pytest.approx(float(table), rel=1e-9, abs=1e-10)
    else:
        expected = Expectation(f.diff(H, j).subs(H, U) * g.diff(H, k).subs(H, V), (U, V), sp.Matrix([[P, C], [C, Q]]))
        assert float(sp.N(node.subs(VALUES))) == pytest.approx(sp.sympify(expected).evaluate(VALUES), rel=1e-9)


@pytest.mark.parametrize("orders", [(0, 0), (1, 1), (2, 2), (2, 0), (0, 2), (3, 1), (1, 3), (4, 0)])
@pytest.mark.parametrize("parameter, change", [(C, (1, 1)), (P, (2, 0)), (Q, (0, 2))])
def test_derivatives_are_the_next_nodes(orders: tuple[int, int], parameter: sp.Symbol, change: tuple[int, int]) -> None:
    """Price's theorem, with the half that a variance has and a covariance has not."""
    node, scale = overlap(sp.tanh(H + 1), sp.exp(-H**2), *orders, C, P, Q), 1 if parameter == C else sp.Rational(1, 2)
    further = overlap(sp.tanh(H + 1), sp.exp(-H**2), *(o + c for o, c in zip(orders, change)), C, P, Q)
    assert node.diff(parameter) == scale * further


def test_variances_inside_variances() -> None:
    """The chain rule through a covariance that is an expectation itself, against differences."""
    inner = overlap(sp.tanh(H), sp.tanh(H), 0, 0, C, P, Q)
    outer = overlap(sp.sin(H), sp.sin(H), 0, 0, inner, 2, 3)
    slope = closed(outer).diff(C)

    def at(c: float) -> float:
        return closed(outer).xreplace({inner: sp.Float(inner.evaluate({**VALUES, C: c}))}).evalf()

    numbers = {node: sp.Float(node.evaluate(VALUES)) for node in slope.atoms(Expectation)}
    assert float(slope.xreplace(numbers)) == pytest.approx(float(at(0.4 + 1e-4) - at(0.4 - 1e-4)) / 2e-4, rel=1e-6)


def test_rules_apply() -> None:
    f, g = sp.tanh(H) + sp.cos(H), sp.exp(-H**2)
    apart = IndependentFactors().apply(overlap(f, g, 1, 0, 0, P, Q))
    assert apart == gaussian_mean(f, 1, P) * gaussian_mean(g, 0, Q).renamed(V)
    one = Degenerate().apply(overlap(f, g, 1, 0, P, P, P))
    assert one.variables == (U,) and one.body == DerivativeAt(f, 1, U) * DerivativeAt(g, 0, U)
    assert overlap(sp.tanh(H), sp.cos(H), 0, 0, C, P, Q) == 0 == gaussian_mean(sp.tanh(H), 2, P)
    assert Parity().apply(overlap(sp.tanh(H), sp.tanh(H), 1, 0, C, P, Q)) == 0
    assert closed(overlap(sp.Max(H, 0), sp.Max(H, 0), 1, 1, P, P, P)) == sp.Rational(1, 2)


@pytest.mark.parametrize("f", [sp.Max(H, 0), sp.Abs(H), sp.Max(H, H / 5)])
@pytest.mark.parametrize("j, k", [(0, 0), (1, 1), (2, 2), (2, 0), (0, 2), (3, 1), (1, 3), (4, 0)])
def test_kinks_in_tables_are_the_rules_closed_forms(f: sp.Expr, j: int, k: int) -> None:
    form = closed(overlap(f, f, 0, 0, C, P, Q)).diff(C, min(j, k)).diff(P if j > k else Q, abs(j - k) // 2)
    number = 2 ** (abs(j - k) // 2) * float(form.subs(VALUES))
    assert float(overlap_function(f, f, j, k)(*map(np.array, VALUES.values()))) == pytest.approx(number, rel=1e-13)


@pytest.mark.parametrize("j, k", [(3, 3), (4, 2), (4, 4), (5, 3), (1, 0), (2, 3)])
def test_kinks_too_sharp_or_odd_are_refused(j: int, k: int) -> None:
    with pytest.raises(ValueError, match=f"got {j} and {k}"):
        overlap_function(sp.Max(H, 0), sp.Max(H, 0), j, k)


def test_a_body_that_mixes_variables_has_no_table() -> None:
    node = Expectation(sp.tanh(U + V), (U, V), sp.Matrix([[P, C], [C, Q]]))
    with pytest.raises(ValueError, match="one variable each"):
        node.functions


def test_the_variable_of_functions_is_bound() -> None:
    node = DerivativeAt(sp.tanh(H), 1, 2 * U)
    assert node.free_symbols == {U} and node.subs(H, 3) == node
    assert DerivativeAt(sp.tanh(H), 1, H).subs(H, 3).doit() == 1 - sp.tanh(3)**2 and node.diff(U).doit().equals(
        sp.tanh(2 * U).diff(U, 2) / 2)


def test_a_mean_of_kets_has_no_law() -> None:
    """Kets need not be Gaussian: parity would make their means 0."""
    node = Expectation(C * sp.tanh(Ket(Family(Vector, "z")())))
    assert Parity().apply(node) == Linearity().apply(2 * node) / 2 == node and node.is_real
    assert Expectation(sp.Integer(3)) == 3 and node.func(*node.args) == node
    with pytest.raises(ValueError, match="has no law"):
        node.evaluate()
    with pytest.raises(ValueError, match="has no law"):
        node.diff(C)
