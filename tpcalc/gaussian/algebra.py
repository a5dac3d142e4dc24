"""The algebra under the rules of Gaussian expectations: products, forms in the variables, names."""

from __future__ import annotations

from collections.abc import Iterable

import sympy as sp
from sympy.utilities.iterables import sift

from ..errors import Divergence
from .variables import Expectation, tidy_form

FORMS = (sp.sign, sp.DiracDelta, sp.erf, sp.sin, sp.cos)  # functions of one affine form that the rules know


def sign_of_form(form: sp.Expr) -> sp.Expr:
    """The sign of a form, of which one of the two orientations is written; differentiates to a delta function."""
    if not form.is_real:
        unknown = ", ".join(sorted(str(s) for s in form.free_symbols if not s.is_real))
        raise ValueError(f"sign of {form}: {unknown} not known to be real; use Symbol(..., real=True)")
    return -sp.sign(-form) if form.could_extract_minus_sign() else sp.sign(form)


def expanded_products(body: sp.Expr) -> sp.Expr:
    """A sum of products; arguments of functions are left alone, and the square of a sign is one."""
    frozen = {f: sp.Dummy() for f in body.atoms(sp.Function, Expectation)}
    body = sp.expand(body.xreplace(frozen), power_exp=False, power_base=False)
    body = body.xreplace({symbol: f for f, symbol in frozen.items()})
    return body.replace(lambda e: e.is_Pow and e.base.func == sp.sign and e.exp.is_Integer and e.exp > 1,
                        lambda e: e.base if e.exp % 2 else sp.Integer(1))


def factors(body: sp.Expr) -> dict[sp.Expr, sp.Expr]:
    """Factors of a product and their powers; exponentials are whole."""
    return dict((f, sp.Integer(1)) if f.func == sp.exp else f.as_base_exp() for f in sp.Mul.make_args(body))


def exponential(body: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """The exponent of all exponentials in a product, and the other factors."""
    exponentials, others = sift(sp.Mul.make_args(body), lambda f: f.func == sp.exp, binary=True)
    return sp.expand(sp.Add(*(f.exp for f in exponentials))), sp.Mul(*others)


def move(body: sp.Expr, locations: dict[sp.Expr, sp.Expr], variables: Iterable[sp.Expr]) -> sp.Expr:
    """The body with other expressions in place of variables; arguments of functions are written as forms in
    ``variables``, so that equal ones look equal. Raises ``Divergence`` for a delta function of zero."""
    variables = tuple(variables)
    if any(tidy_form(delta.args[0].xreplace(locations), variables) == 0 for delta in body.atoms(sp.DiracDelta)):
        raise Divergence("the expectation is infinite: two delta functions of one form, or one of zero")

    def settle(f: sp.Expr) -> sp.Expr:
        form = tidy_form(f.args[0], variables)
        return sign_of_form(form) if f.func == sp.sign else f.func(form, *f.args[1:])

    return body.xreplace(locations).replace(lambda e: e.func in FORMS, settle)


def unused(name: str, node: Expectation) -> sp.Symbol:
    """A real symbol whose name nothing in the expectation has."""
    names = {str(s) for s in node.free_symbols | set(node.variables)}
    return sp.Symbol(next(n for n in (name, *(f"{name}_{i}" for i in range(1, len(names) + 2))) if n not in names),
                     real=True)
