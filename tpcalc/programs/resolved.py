"""Raw powers of L, matrix by matrix, as the exponents that they are for their optimizer."""

from __future__ import annotations

import sympy as sp

from .._checks import short
from ..parametrizations import DepthChoices, Parametrization
from .faithful import optimizer_name, update_power


def resolved(one: Parametrization, opt: object = None, eps: bool = False) -> Parametrization:
    """A parametrization with exponents alpha and gamma in place of raw powers of L.

    eps: with Adam's eps in charge, where it outgrows gradients; else it is negligible.

    A block of several matrices is taken to be homogeneous in each, as products of matrices and one-homogeneous
    activations are: it is L^(branch + all inits) times one of the usual size, and the gradient of a raw matrix, that
    block over the matrix's own init. opt: if given, it must be the choices' own. Raises ``ValueError`` else.

    >>> from tpcalc.parametrizations import DepthChoices
    >>> adam = {name: DepthChoices(branch="-1/2", lr="-1/2", eps="-1/2") for name in ("W1", "W2")}
    >>> resolved(Parametrization(depth=adam)).depth["W1"]
    1/2
    """
    if one.choices is None:
        return one
    choices = dict(one.choices)
    first = next(iter(choices.values()))
    if opt is not None and optimizer_name(opt) != first.optimizer:
        raise ValueError(f"opt: got {short(opt)}; expected {first.optimizer!r}, whose powers of L these are")
    alpha = sp.expand(-first.branch - sp.Add(*(c.init for c in choices.values())))
    gammas = {name: update_exponent(c if eps else c.without_eps, alpha) for name, c in choices.items()}
    return Parametrization(one.width, {"alpha": alpha, **gammas})


def gradient_exponent(choices: DepthChoices, alpha: sp.Expr) -> sp.Expr:
    """a, where the gradient of a raw matrix goes like L^-a: the block's own size, over the matrix's init."""
    return alpha + choices.init if choices.gradient is None else -choices.gradient


def update_exponent(choices: DepthChoices, alpha: sp.Expr) -> sp.Expr:
    """gamma: updates relative to initial weights, by the optimizer's own formula [tensor_programs_vi/definition_41]."""
    eps = None if choices.eps is None else -choices.eps
    moved = update_power(choices.optimizer, gradient_exponent(choices, alpha), -choices.lr, eps)
    return sp.expand(moved + choices.init)
