"""Multiplying out without entering functions, exponents and roots."""

import sympy as sp
from hypothesis import given, strategies as st

from tpcalc.programs.algebra import multiplied_out
from tpcalc.programs.indices import at_numbers

a, b, c = sp.symbols("a b c")
k, n = sp.symbols("k n", integer=True)
atoms = st.sampled_from([a, b, sp.Integer(2), sp.sin(a + b) * 2, sp.sqrt(a * (b + 1)), sp.Sum(a * (k + b), (k, 0, 2))])
expressions = st.recursive(atoms, lambda e: st.builds(sp.Add, e, e) | st.builds(sp.Mul, e, e) | e.map(lambda x: x**2),
                           max_leaves=6)


@given(expressions)
def test_the_value_stays_and_no_product_of_sums_is_left(expression: sp.Expr) -> None:
    out = multiplied_out(expression)
    numbers = {a: sp.Rational(3, 10), b: sp.Rational(7, 5)}
    before, after = (complex(e.doit().subs(numbers).evalf(30)) for e in (expression, out))
    assert abs(before - after) <= 1e-12 * max(1.0, abs(before))
    terms = sp.Add.make_args(out)
    assert not any(isinstance(factor, sp.Add) for term in terms for factor in sp.Mul.make_args(term))
    assert multiplied_out(out) == out


def test_functions_roots_and_exponents_stay_whole() -> None:
    inside = a * (b + c)
    for whole in (sp.sin(inside), sp.sqrt(inside), inside ** (b - c), a ** (-b - c), 1 / (a + b)):
        assert multiplied_out(whole * (b + c)) == whole * b + whole * c


def test_sums_are_split_over_their_terms() -> None:
    total = sp.Sum(a * (b**k + c), (k, 0, n))
    assert multiplied_out(c * total) == c * sp.Sum(a * b**k, (k, 0, n)) + c * sp.Sum(a * c, (k, 0, n))


@given(expressions, st.dictionaries(st.sampled_from([k, n]), st.integers(0, 3).map(sp.Integer)))
def test_numbers_for_indices_leave_what_sums_bind(expression: sp.Expr, values: dict[sp.Symbol, sp.Integer]) -> None:
    """k is the index of every sum and may stand beside them; n stands in their ends and in what they add up."""
    asked = k * expression + sp.Sum(n * k * a, (k, 0, n))
    found = at_numbers(asked, values)
    assert found.doit() - asked.subs(values).doit() == 0
    assert {limit[0] for total in found.atoms(sp.Sum) for limit in total.limits} == {k}
