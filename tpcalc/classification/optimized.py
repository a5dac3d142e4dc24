"""Optimizers in the count: a training by plain or heavy-ball gradient descent whose updates have the same powers."""

from __future__ import annotations

import sympy as sp

from .._checks import choice
from ..calculus.setting import Setting
from ..errors import NotCovered
from ..parametrizations import Parametrization, Scaling
from ..programs import SGD, Adam, AdamW, Lion, Muon, NormalizedSGD, ResNet, SignSGD
from ..programs.builders import program
from ..programs.language import Member
from ..programs.updates import Optimizer, require_optimizer
from .counted import Judged
from .faithful import direction_power, optimizer_name
from .matrices import MatrixTerms, training_terms

BY_NAME: dict[str, Optimizer] = {"sgd": SGD(), "momentum": SGD(momentum=0.9), "signsgd": SignSGD(), "lion": Lion(),
                                 "adam": Adam(), "adamw": AdamW(), "muon": Muon(), "normalizedsgd": NormalizedSGD()}


def optimizer_or_default(opt: object) -> Optimizer:
    """An optimizer, or one by name, with its default settings; plain SGD where there is none."""
    if opt is None:
        return SGD()
    if isinstance(opt, str):
        return BY_NAME[choice("opt", opt, BY_NAME)]
    require_optimizer(opt)
    optimizer_name(opt)  # of others the direction's size is not known
    return opt  # type: ignore[return-value]


def is_plain(opt: Optimizer) -> bool:
    """Plain gradient descent, whose learning rates, of order one, count as nothing?"""
    return isinstance(opt, SGD) and not opt.momentum and not opt.weight_decay


def as_gradient_descent(net: Judged, opt: Optimizer, scale: Scaling) -> tuple[SGD, Scaling]:
    """A linear optimizer, and the scaling at which its updates have the powers of L that ``opt`` has at ``scale``.

    An optimizer that is no linear function of gradients moves weights by L^-gamma times its direction, whose size is
    that of its own formula: of order one while eps is no larger than the gradients, and linear below, both in units in
    which a branch multiplier is taken out of gradients. Where gradients are of order one in these units, as they are in
    stable networks of most blocks, nothing changes. Raises ``ValueError`` where gradients change their power in
    training that is counted, and where one vanishes.
    """
    if isinstance(opt, SGD):
        return opt, scale
    linear = SGD(weight_decay=float(opt.weight_decay), decoupled=True) if opt.weight_decay else SGD()
    terms = training_terms(net, scale)
    eps = getattr(opt, "eps", None)
    kept = None if eps is None or eps == 0 else sp.Integer(0)
    moved, sizes = {}, _sizes_of_vectors(net, scale)
    for name, moves in terms.gradients(0).items():
        power = moves - sizes.get(name, -scale.update_exponent(name))
        if power == sp.oo:
            return linear, scale  # what explodes at initialization does so whatever is trained
        if power == -sp.oo:
            raise NotCovered(f"net: got {net!r}; the gradient of {name} vanishes at the first step, and with it no "
                             f"size of {optimizer_name(opt)}'s direction is known")
        moved[name] = scale.update_exponent(name) + direction_power(opt, -power, kept) + power
    if any(moved[name] != scale.update_exponent(name) for name in moved):
        whole = scale if isinstance(scale, Parametrization) else Parametrization(depth=scale)
        scale = whole.with_exponents(scale.alpha, moved).over(net.trained_of_block, ends=False)
        terms = training_terms(net, scale)
    start, later = terms.gradients(0), terms.gradients(1)
    changed = next((name for name in start if later[name] != start[name] and later[name] != sp.oo), None)
    if changed is not None and not _has_grown(net, terms):
        raise NotCovered(f"net: got {net!r}; gradients of {changed} go from L^({start[changed]}) to "
                         f"L^({later[changed]}) in a step, so that {optimizer_name(opt)}'s updates are not counted")
    return linear, scale


def _has_grown(net: Judged, terms: MatrixTerms) -> bool:
    """Does the first update of a transformer, of which no more is counted, make its stream grow, or is it larger before
    that already? Gradients of later steps, which grow with it, then decide nothing."""
    if isinstance(net, ResNet):
        return False
    _, exponents = terms.together()
    return max(exponents.x_init.at(()), exponents.dx.at(())) > 0


def _sizes_of_vectors(net: Judged, scale: Scaling) -> dict[str, sp.Expr]:
    """Powers of L of what trained vectors move by where their directions are of order one: those of signs. What stands
    before their gradients may have powers of L that are the gradients' own."""
    if not net.vectors_of_block:
        return {}
    written, found = program(net, SignSGD(), scale), {}
    depth = Setting.of(written).depth
    for p in written.locations():
        one, clock = p.statement, written.clock()
        if one.target.name in net.vectors_of_block and clock in p.loops:
            moves = one.value - one.target.subs(clock.index, clock.index - 1)
            number = moves.as_independent(Member, as_Add=False)[0]
            found[one.target.name] = sp.simplify(depth * sp.diff(number, depth) / number)
    return found
