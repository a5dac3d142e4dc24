"""Averages over coordinates of exponentials of what has no bound: a few make them, and no limit is known."""

from __future__ import annotations

from typing import Iterable, Mapping

import numpy as np
import sympy as sp

from ..errors import NotCovered
from .language import HeadSum, MatVec, Mean, Scalar, Vector
from .program import Assign

EXPONENTIALS = (sp.exp, sp.sinh, sp.cosh)
ONE = sp.Rational(13, 11)
FAR, POINTS, OF_POWERS = 1000, 16, 40  # twice as far out no power is larger by more than 2^40


def require_light_tails(what: str, statements: Iterable[Assign]) -> None:
    """Raise ``NotCovered`` for an average over coordinates of what grows exponentially with vectors that matrices make,
    as a softmax over a population divides by; what: given the statement, what it is in.

    Such vectors are Gaussian at first, and products of Gaussians from the first step on, of whose exponentials no mean
    exists: particles give the few largest.
    """
    made: dict[str, sp.Expr] = {}
    for statement in statements:
        for mean in sorted(statement.value.atoms(Mean), key=sp.default_sort_key):
            body = _written_out(mean.args[0], made)
            if body.has(*EXPONENTIALS) and _grows_exponentially(body):
                raise NotCovered(f"{what}; {statement.target} has {mean} in it, an average of exponentials of vectors "
                                 "without a bound, whose tails are so heavy that a few coordinates make it; expected "
                                 "a finite width, or functions that grow like powers, as sigmoids")
        if isinstance(statement.target, Vector):
            made.setdefault(statement.target.name, _written_out(statement.value, made))


def _written_out(value: sp.Expr, made: Mapping[str, sp.Expr]) -> sp.Expr:
    """An expression in what matrices and heads make, and in vectors that come from elsewhere; numbers are of order one,
    and a number stands for them."""
    value = value.xreplace({one: ONE for one in value.atoms(Mean, Scalar)})
    value = value.replace(lambda e: isinstance(e, (MatVec, HeadSum)), lambda e: sp.Dummy(real=True))
    return value.xreplace({one: made.get(one.name, one) for one in value.atoms(Vector)})


def _grows_exponentially(value: sp.Expr) -> bool:
    """On some way outwards, of several drawn ones, twice as far by more than powers do."""
    free = sorted(value.atoms(Vector) | value.free_symbols, key=sp.default_sort_key)
    names = {one: sp.Symbol(f"x{k}", real=True) for k, one in enumerate(free)}
    plain = value.xreplace(names)
    draw = np.random.default_rng(0)
    for way in draw.standard_normal((POINTS, len(free))):
        near, far = (abs(sp.N(plain.xreplace({symbol: sp.Float(scale * step) for symbol, step in zip(
            names.values(), way)}))) for scale in (FAR, 2 * FAR))
        if near.is_number and far.is_number and near > 0 and far / near > 2**OF_POWERS:
            return True
    return False
