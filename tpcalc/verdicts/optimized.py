"""Optimizers in the count: a training by plain or heavy-ball gradient descent whose updates have the same powers."""

from __future__ import annotations

from typing import Any

import sympy as sp

from .._checks import choice
from ..calculus.setting import Setting
from ..errors import NotCovered
from ..scaling import Parametrization, Scaling
from ..optimizers import SGD, SignSGD
from ..programs.algebra import power_of
from ..training.builders import counted_training
from ..optimizers.clipped import Clipped
from ..optimizers.faithful import direction_power, optimizer_name
from ..optimizers.names import BY_NAME
from ..programs.language import Member
from ..optimizers.updates import Optimizer, require_optimizer, unclipped
from .counted import Judged
from .counting import Counting, training_terms


def optimizer_or_default(opt: Any) -> Optimizer | Clipped:
    """An optimizer, one that sees clipped gradients, or one by name, with its default settings; plain SGD where there
    is none."""
    if opt is None:
        return SGD()
    if isinstance(opt, str):
        return BY_NAME[choice("opt", opt, BY_NAME)]
    inside = unclipped(opt)
    require_optimizer(inside)
    optimizer_name(inside)  # of others the direction's size is not known
    return opt


def is_plain(opt: Optimizer) -> bool:
    """Plain gradient descent, whose learning rates, of order one, count as nothing?"""
    return isinstance(opt, SGD) and not opt.momentum and not opt.weight_decay


def as_gradient_descent(net: Judged, opt: Optimizer, scale: Scaling, updates: int = 2) -> tuple[SGD, Scaling]:
    """A linear optimizer, and the scaling at which its updates have the powers of L that ``opt`` has at ``scale``.

    An optimizer that is no linear function of gradients moves weights by L^-gamma times its direction, whose size is
    that of its own formula: of order one while eps is no larger than the gradients, and linear below, both in units in
    which a branch multiplier is taken out of gradients. Where gradients are of order one in these units, as they are in
    stable networks of most blocks, nothing changes. updates: how many are counted, each of gradients of its own. Raises
    ``ValueError`` where gradients change their power in training that is counted, and where one vanishes.
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
        if power == -sp.oo and terms.decays:
            return linear, scale  # so does what decays: updates have nothing to act on where it is read
        if power == -sp.oo:
            raise NotCovered(f"net: got {net!r}; the gradient of {name} vanishes at the first step, and with it no "
                             f"size of {optimizer_name(opt)}'s direction is known")
        moved[name] = scale.update_exponent(name) + direction_power(opt, -power, kept) + power
    if any(moved[name] != scale.update_exponent(name) for name in moved):
        whole = scale if isinstance(scale, Parametrization) else Parametrization(depth=scale)
        scale = whole.with_exponents(scale.alpha, moved).over(net.trained_of_block, ends=False)
        terms = training_terms(net, scale)
    for step in range(1, updates):
        changed = _changed_gradient(terms, step)
        if changed is not None and not _has_grown(net, terms):
            start, later = (terms.gradients(t)[changed] for t in (0, step))
            raise NotCovered(f"net: got {net!r}; gradients of {changed} go from L^({start}) to L^({later}) in "
                             f"{step} step{'s' * (step > 1)}, so that {optimizer_name(opt)}'s updates are not "
                             f"counted beyond the first{f' {step}' * (step > 1)}")
    return linear, scale


def without_clipping(net: Judged, opt: Clipped, scale: Scaling) -> Scaling:
    """The scaling at which an optimizer moves weights without clipping as far as it does with it.

    |G| is as large as the largest gradient of a matrix, in units in which the branch multiplier is taken out. Where
    that is of order one or less, so is the factor; where it grows with L, the factor divides updates of gradient
    descent by that power, and does nothing to directions of signs. Raises ``ValueError`` where the power changes in a
    step.
    """
    if not isinstance(opt.opt, SGD):
        return scale
    terms = training_terms(net, scale)
    first, second = (max([sp.Integer(0), *(power + scale.update_exponent(name) for name, power in terms.gradients(
        step).items() if name in net.matrices_of_block)]) for step in range(2))
    if first == sp.oo or first == 0 and second in (0, sp.oo):
        return scale
    if second not in (first, sp.oo):
        raise NotCovered(f"opt: got {opt!r}; the gradients that are clipped go from L^({first}) to L^({second}) in a "
                         "step, so that updates are not counted; expected no clipping, or other exponents")
    whole = scale if isinstance(scale, Parametrization) else Parametrization(depth=scale)
    moved = {name: scale.update_exponent(name) + first for name in net.trained_of_block}
    return whole.with_exponents(scale.alpha, moved).over(net.trained_of_block, ends=False)


def gradients_change(net: Judged, scale: Scaling) -> bool:
    """Have gradients other powers of L at the second step than at the first?"""
    return _changed_gradient(training_terms(net, scale), 1) is not None


def _changed_gradient(terms: Counting, step: int) -> str | None:
    """What has a gradient of another power of L at a step than at the first, other than one that explodes."""
    start, later = terms.gradients(0), terms.gradients(step)
    return next((name for name in start if later[name] not in (start[name], sp.oo)), None)


def _has_grown(net: Judged, terms: Counting) -> bool:
    """Does the first update of a transformer, of which no more is counted, make its stream grow, or is it larger before
    that already? Gradients of later steps, which grow with it, then decide nothing."""
    if not net.positions:
        return False
    _, exponents = terms.together()
    return max(exponents.x_init.at(()), exponents.dx.at(())) > 0


def _sizes_of_vectors(net: Judged, scale: Scaling) -> dict[str, sp.Expr]:
    """Powers of L of what trained vectors move by where their directions are of order one: those of signs. What stands
    before their gradients may have powers of L that are the gradients' own."""
    if not net.vectors_of_block:
        return {}
    written, found = counted_training(net, SignSGD(), scale), {}
    depth = Setting.of(written).depth
    for p in written.locations():
        one, clock = p.statement, written.clock()
        if one.target.name in net.vectors_of_block and clock in p.loops:
            moves = one.value - one.target.subs(clock.index, clock.index - 1)
            number = moves.as_independent(Member, as_Add=False)[0]
            found[one.target.name] = power_of(number, depth)
    return found
