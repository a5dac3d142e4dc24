"""Definition 4.1 made executable: how large an optimizer's updates are, and which learning rates make them faithful.

Everything here is a power of 1/L: a gradient a means gradients of size L^-a, a rate c the learning rate L^-c, eps e
Adam's eps of size L^-e (None: no eps), a decay w the weight decay L^-w, an update g weights that move by L^-g.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Callable, Mapping

import sympy as sp

from .._checks import short, symbolic
from ..errors import NotCovered
from ..programs.algebra import multiplied_out
from ..programs.backprop import Trainable, buffer_of
from ..programs.indices import t
from ..programs.language import Family, Scalar
from .entrywise import Entrywise, SignSGD
from .sgd import SGD, Directed
from .updates import BY_NAME, NameWithDirection, kind_of_updates, optimizer_name, update

Sizes = Mapping[sp.Expr, sp.Expr]


def leading_power(expression: sp.Expr, sizes: Sizes) -> sp.Expr:
    """p, where ``expression`` goes like L^-p when its symbols go like L^-sizes[symbol], the others like 1.

    Products add, of a sum the largest term counts (terms of one size are not supposed to cancel), signs are of order
    one. Numbers in, a number out; symbols in, a minimum or maximum of affine forms out; oo for an expression that
    is zero. Raises ``ValueError`` for a function that has no power of L by these rules.
    """
    if expression.is_zero:
        return sp.oo
    if expression in sizes:
        return sizes[expression]
    if not any(symbol in sizes for symbol in expression.free_symbols):
        return sp.Integer(0)
    if expression.func in RULES and (expression.func != sp.Pow or expression.exp.is_Rational):
        return RULES[expression.func](expression, sizes)
    raise NotCovered(f"got {expression}; expected sums, products, rational powers, signs, absolute values, tanh, "
                     f"erf and atan: of {expression.func.__name__} no power of L is known")


def _add(powers: list[sp.Expr]) -> sp.Expr:
    """Their sum; what stands beside one minimum or maximum goes into it: a - min(a, e) is max(0, a - e)."""
    total = sp.Add(*powers)
    cases = [term for term in sp.Add.make_args(total) if term.has(sp.Min, sp.Max)]
    if len(cases) != 1:
        return total
    factor, extremum = cases[0].as_coeff_Mul()
    if not isinstance(extremum, (sp.Min, sp.Max)):
        return total
    turned = {sp.Min: sp.Max, sp.Max: sp.Min}[extremum.func] if factor < 0 else extremum.func
    rest = total - cases[0]
    return turned(*(rest + factor * arg for arg in extremum.args))


RULES: dict[type[sp.Expr], Callable[[sp.Expr, Sizes], sp.Expr]] = {
    sp.Mul: lambda e, sizes: _add([leading_power(factor, sizes) for factor in e.args]),
    sp.Add: lambda e, sizes: sp.Min(*(leading_power(term, sizes) for term in e.args)),
    sp.Pow: lambda e, sizes: e.exp * leading_power(e.base, sizes),
    sp.sign: lambda e, sizes: sp.Integer(0),
    sp.Abs: lambda e, sizes: leading_power(e.args[0], sizes),
    # linear in what is small, of order one of what is large
    **dict.fromkeys((sp.tanh, sp.erf, sp.atan), lambda e, sizes: sp.Max(0, leading_power(e.args[0], sizes))),
}


DECAYS = ("decoupled", "coupled", "independent")
EPS = sp.Symbol("eps", positive=True)
GRADIENTS = sp.symbols("g0 g1", real=True)  # a step without memory and one with; later ones add terms of the same size


def acts_on_entries(optimizer: object) -> bool:
    """Is the direction of a matrix a function of entries? Entries of orthogonal factors and of what is divided by a
    Frobenius norm shrink with the width."""
    name = optimizer_name(optimizer)
    return kind_of_updates(name.opt if isinstance(name, NameWithDirection) else BY_NAME[name]) in (
        "linear", "entrywise")


def decay_kind(optimizer: object) -> str:
    """What the weight decay of an optimizer does, as ``Settings`` has it; "decoupled" of names, and without one."""
    if not getattr(optimizer, "weight_decay", 0):
        return "decoupled"
    if getattr(optimizer, "independent", False):
        return "independent"
    return "decoupled" if getattr(optimizer, "decoupled", True) else "coupled"


@lru_cache(maxsize=None)
def direction(name: str) -> sp.Expr:
    """What the learning rate multiplies at the second step, as a function of ``GRADIENTS`` and ``EPS``."""
    if isinstance(name, NameWithDirection):
        try:
            return _written(_with_symbol_for_eps(name.opt))
        except TypeError as error:  # of nodes that are made of matrices alone
            raise NotCovered(f"optimizer: got {short(name.opt)}, whose direction is none of a single weight ({error}); "
                             "its size is not known; expected one that takes numbers as well as matrices") from None
    opt = BY_NAME[name]
    if isinstance(opt, Directed):  # of a single weight its direction is the sign
        return _written(SignSGD())
    alone = {"eps": EPS, "weight_decay": 0} if hasattr(opt, "eps") else {}  # decay is no part of a direction
    return _written(replace(opt, **alone))  # type: ignore[type-var, arg-type]


def _with_symbol_for_eps(opt: Entrywise) -> Entrywise:
    """The optimizer with ``EPS`` for its eps, if it has one that is not 0."""
    if not getattr(opt, "eps", 0):
        return opt
    try:
        found = replace(opt, eps=EPS)  # type: ignore[type-var]
    except (TypeError, ValueError) as error:
        raise NotCovered(f"optimizer: got {short(opt)}; powers of its direction are read with a symbol for eps; "
                         f"expected a dataclass that takes one ({error})") from None
    return found


def _written(opt: SGD | Entrywise) -> sp.Expr:
    """The step that the builder writes for a single weight."""
    weight, gradient = Family(Scalar, "W"), Family(Scalar, "g")
    known = {buffer_of(weight)[0]: sp.Integer(0), **{gradient[k]: g for k, g in enumerate(GRADIENTS)}}
    for step in range(len(GRADIENTS)):
        for assign in update(opt, Trainable(weight, (), gradient[t], sp.Integer(1))):
            known[assign.target.subs(t, step)] = assign.value.subs(t, step).doit().xreplace(known)
    last = len(GRADIENTS)
    return multiplied_out(known[weight[last - 1]] - known[weight[last]])


def direction_power(optimizer: object, gradient: sp.Expr, eps: sp.Expr | None = None) -> sp.Expr:
    """The size of the direction, L^-(this): a for SGD, max(0, a - e) for Adam, by the leading term."""
    return _direction_power(optimizer_name(optimizer), gradient, eps)


@lru_cache(maxsize=4096)
def _direction_power(name: str, gradient: sp.Expr, eps: sp.Expr | None) -> sp.Expr:
    found = direction(name)
    sizes = {g: gradient for g in GRADIENTS}
    return leading_power(found.subs(EPS, 0), sizes) if eps is None else leading_power(found, {**sizes, EPS: eps})


def degree(optimizer: object) -> sp.Rational:
    """The power of the gradient that the direction is; ``NotCovered`` for a direction that is none, such as a tanh."""
    gradient = sp.Symbol("a", real=True)
    found = sp.diff(direction_power(optimizer, gradient), gradient)
    if not found.is_Rational:
        raise NotCovered(f"opt: got {short(getattr(optimizer, 'opt', optimizer))}, whose direction is no power of the "
                         "gradient; its settings are not solved for; expected a direction that is homogeneous in it")
    return found


def update_power(optimizer: object, gradient: sp.Expr, rate: sp.Expr, eps: sp.Expr | None = None,
                 beside: sp.Expr | None = None) -> sp.Expr:
    """g_W: one update moves the weights by L^-g_W. Source: Tensor Programs VI, Definition 4.1.

    beside: the size of another term that enters the optimizer with the gradient. It takes no part in the move, but
    where it is the larger one the direction is its own, and the gradient changes it by the gradient's share (exactly
    so for SGD, which then moves as without it).
    """
    entering = gradient if beside is None else sp.Min(gradient, beside)
    return sp.expand(rate + gradient - entering + direction_power(optimizer, entering, eps))


def eps_dominates(optimizer: object, gradient: sp.Expr, eps: sp.Expr | None) -> bool:
    """Is eps so much larger than the gradients that it changes the size of the direction?"""
    return bool(direction_power(optimizer, gradient, eps) != direction_power(optimizer, gradient))


def faithful_rate(optimizer: object, moved: sp.Expr, gradient: sp.Expr, eps: sp.Expr | None = None) -> sp.Expr:
    """The learning rate c whose updates are of size L^-moved, what enters the optimizer being of order one.

    Raises ``ValueError`` where no learning rate is faithful: where eps dominates the gradients, what enters Adam is
    small beside its constant, and its direction is linear whatever the learning rate.
    """
    numeric = all(symbolic(value).is_number for value in (gradient, eps or 0))
    if numeric and eps_dominates(optimizer, gradient, eps):
        raise NotCovered(f"eps: got L^({-symbolic(eps)}) for gradients of size L^({-gradient}); "
                         f"{optimizer_name(optimizer)} has no faithful learning rate there; expected an eps of at "
                         "most the size of the gradients")
    return moved - direction_power(optimizer, gradient, eps)


def decay_power(optimizer: object, rate: sp.Expr, decay: sp.Expr, gradient: sp.Expr, eps: sp.Expr | None = None,
                init: sp.Expr = sp.Integer(0), kind: str = "decoupled") -> sp.Expr:
    """The share of a weight, L^-(this), that one step's decay takes; ``init``: weights start at the size L^-init.

    kind: "decoupled" W <- (1 - lr decay) W, "independent" W <- (1 - decay) W, "coupled" decay W enters the optimizer
    beside the gradient.
    """
    if kind == "independent":
        return decay
    if kind == "decoupled":
        return rate + decay
    return sp.expand(update_power(optimizer, decay + init, rate, eps, beside=gradient) - init)


def decay_fate(power: sp.Expr) -> str:
    """What becomes of rho_t = (1 - decay L^-power)^t at a fixed step: "dies out", "visible" or "explodes"."""
    depth, decay = sp.symbols("L decay", positive=True)
    shrink = sp.limit(1 - decay * depth**-power, depth, sp.oo)
    return "explodes" if shrink.is_infinite else "visible" if shrink.has(decay) else "dies out"
