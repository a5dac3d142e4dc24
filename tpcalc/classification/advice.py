"""What is wrong with the powers of L that someone sets, as sentences: derived exponents against Depth-muP's."""

from __future__ import annotations

from dataclasses import replace
from typing import Iterator

import sympy as sp

from ..parametrizations import DepthChoices, DepthScaling
from ..programs.faithful import decay_fate, direction_power, update_power

BEST = DepthScaling()  # Depth-muP, the one scaling that has every property (Tensor Programs VI, Claim 5.5)


def as_power(exponent: sp.Expr, base: str = "L") -> str:
    """L^(1/2), L, 1."""
    return "1" if exponent == 0 else base if exponent == 1 else f"{base}^({exponent})"


def raw_update_exponent(choices: DepthChoices) -> sp.Expr:
    """g_W, the size L^-g_W of what gradients do to the raw matrix in one step; a coupled decay may be in their way."""
    coupled = choices.weight_decay is not None and choices.decay == "coupled"
    beside = -(choices.weight_decay + choices.init) if coupled else None
    eps = None if choices.eps is None else -choices.eps
    return update_power(choices.optimizer, -choices.gradient_power, -choices.lr, eps, beside)


def entering(choices: DepthChoices) -> sp.Expr:
    """The power of L of what enters the optimizer: the gradient, or a coupled decay that is larger."""
    if choices.weight_decay is None or not decay_enters(choices):
        return choices.gradient_power
    return choices.weight_decay + choices.init


def decay_enters(choices: DepthChoices) -> bool:
    """Does a coupled decay enter the optimizer beside the gradient, and as large as it or larger?"""
    return choices.weight_decay is not None and choices.decay == "coupled" and bool(
        choices.weight_decay + choices.init >= choices.gradient_power)


def eps_outgrows(choices: DepthChoices) -> bool:
    """Does eps outgrow what enters Adam as depth grows, so that the size of an update is another one?"""
    return bool(raw_update_exponent(choices) != raw_update_exponent(choices.without_eps))


def warnings(choices: DepthChoices, alpha: sp.Expr, gamma: sp.Expr, lost: sp.Expr | None, since: str) -> Iterator[str]:
    """A sentence for everything in which (alpha, gamma), the optimizer's input and the decay fall short."""
    yield from of_block(choices.branch, choices.init, alpha)
    yield from of_matrix(choices, alpha, gamma, lost, since)


def of_matrix(choices: DepthChoices, alpha: sp.Expr, gamma: sp.Expr, lost: sp.Expr | None, since: str
              ) -> Iterator[str]:
    """What falls short in the updates of one matrix of a block, and in what enters its optimizer.

    gamma, lost: with a negligible eps; since: from which depth on eps is in charge, in words.
    """
    yield from _updates(alpha, gamma)
    yield from _input(choices, alpha, since)
    yield from _raw(choices)
    if lost is not None:
        yield from _decay(choices.without_eps, lost)


def of_block(branch: sp.Expr, init: sp.Expr, alpha: sp.Expr) -> Iterator[str]:
    """What falls short in the size of a block at initialization; init: of all its matrices together."""
    excess = alpha - BEST.alpha
    sizes = f"branch {as_power(branch)} times init {as_power(init)} is {as_power(-alpha)}"
    if excess > 0 and branch < 0 and init < 0:
        yield (f"double counting: {sizes}, both shrink with depth, and {as_power(-BEST.alpha)} in all is enough: the "
               f"initial matrices add up to {as_power(-excess)} and vanish, layers become redundant")
    elif excess > 0:
        yield (f"a branch smaller than it must be: {sizes}, {as_power(-BEST.alpha)} keeps what the initial matrices "
               f"add "
               f"up to, here it is {as_power(-excess)} and vanishes: layers become redundant")
    elif excess < 0:
        yield (f"a missing factor {as_power(excess)}: {sizes}, and the initial matrices add up to {as_power(-excess)}: "
               f"the "
               "network explodes with depth before any training, unless normalization holds it back")


def _updates(alpha: sp.Expr, gamma: sp.Expr) -> Iterator[str]:
    kappa = 1 - alpha - gamma
    if kappa != 0:
        says = ("a missing factor in the learning rate" if kappa > 0 else "a learning rate smaller than it must be")
        ends = "training is unstable" if kappa > 0 else "the network stays what it was"
        yield (f"{says}: the updates of all layers add up to {as_power(kappa)} in the output, {ends}; a further "
               f"{as_power(-kappa)} in the learning rate would make it of order one")
    if gamma < 0:
        yield (f"updates are {as_power(-gamma)} times as large as the initial weights: "
               "h = W x grows with depth in training")


def _input(choices: DepthChoices, alpha: sp.Expr, since: str) -> Iterator[str]:
    if not eps_outgrows(choices):
        return
    size, eps = entering(choices), choices.powers["eps"]
    if alpha < BEST.alpha:
        yield (f"eps is of order {as_power(eps)}; whether gradients fall below it is not counted, for they go like a "
               "power of the depth only where the network is stable at initialization")
        return
    lost = direction_power(choices.optimizer, -size, -eps)
    yield (f"eps outgrows gradients {since}: it is of order {as_power(eps)}, gradients are of order {as_power(size)}, "
           f"so "
           f"that {choices.optimizer}'s direction is then linear in them, and of order {as_power(-lost)} instead of 1: "
           f"gamma = {sp.expand(raw_update_exponent(choices) + choices.init)} (eps=None says that it stays negligible)")


def _raw(choices: DepthChoices) -> Iterator[str]:
    if choices.init != 0:
        way = "is linearized" if choices.init < 0 else "saturates or blows up"
        yield (f"not faithful to the activation: the raw h = W x is {as_power(choices.init)} at initialization, and "
               f"any "
               f"activation but a one-homogeneous one {way}")


def _decay(choices: DepthChoices, lost: sp.Expr) -> Iterator[str]:
    assert choices.weight_decay is not None
    fate, added = decay_fate(lost), choices.weight_decay + choices.init
    if raw_update_exponent(choices) != raw_update_exponent(replace(choices, weight_decay=None)):
        yield (f"weight decay dominates the gradients: it adds terms of order {as_power(added)} to gradients of order "
               f"{as_power(choices.gradient_power)}")
    if fate != "visible":
        yield (f"weight decay {fate}: a step takes a share of order {as_power(-lost)} of a weight; only a share of "
               f"order "
               "1 stays visible in the limit")
