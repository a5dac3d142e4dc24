"""What is wrong with the powers of L that someone sets, as sentences: derived exponents against Depth-muP's."""

from __future__ import annotations

from typing import Iterator

import sympy as sp

from ..scaling import DepthScaling
from ..scaling.parametrization import as_power
from ..training.carried import carried
from ..optimizers.faithful import decay_fate, direction_power
from ..training.settings import Settings

BEST = DepthScaling()  # Depth-muP, the one scaling that has every property (Tensor Programs VI, Claim 5.5)


def of_block(given: Settings) -> Iterator[str]:
    """What falls short in the size of a block at initialization."""
    branch, alpha = given.branch, given.alpha
    init = sp.expand(-branch - alpha)  # of all its parameters together
    excess = alpha - BEST.alpha
    sizes = f"branch {as_power(branch)} times init {as_power(init)} is {as_power(-alpha)}"
    if excess > 0 and branch < 0 and init < 0:
        yield (f"double counting: {sizes}, both shrink with depth, and {as_power(-BEST.alpha)} in all is enough: the "
               f"initial matrices add up to {as_power(-excess)} and vanish, layers become redundant")
    elif excess > 0:
        yield (f"a branch smaller than it must be: {sizes}, {as_power(-BEST.alpha)} keeps what the initial matrices "
               f"add up to, here it is {as_power(-excess)} and vanishes: layers become redundant")
    elif excess < 0:
        yield (f"a missing factor {as_power(excess)}: {sizes}, and the initial matrices add up to {as_power(-excess)}: "
               "the network explodes with depth before any training, unless normalization holds it back")


def of_matrix(given: Settings, name: str, since: str) -> Iterator[str]:
    """What falls short in the updates of one matrix of a block, and in what enters its optimizer, eps being negligible;
    since: from which depth on it is in charge, in words."""
    bare = given.without_eps
    yield from _updates(given.alpha, bare.gamma(name))
    if given.outgrown(name):
        yield from _by_eps(given, name, since)
    init = given.of(name, "init")
    if init != 0 and name not in given.zero and _is_read_by_an_activation(given, name):
        way = "is linearized" if init < 0 else "saturates or blows up"
        yield (f"not faithful to the activation: the raw h = W x is {as_power(init)} at initialization, and any "
               f"activation but a one-homogeneous one {way}")
    yield from _decay(bare, name)


def _is_read_by_an_activation(given: Settings, name: str) -> bool:
    """Not where a branch ends with the matrix; a block of one matrix stands for any, with an activation behind it."""
    return getattr(given.net, "block", "") == "post_nonlin" or name not in carried(given.net).last


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


def _by_eps(given: Settings, name: str, since: str) -> Iterator[str]:
    """What eps does that outgrows gradients."""
    size, eps = given.entering(name), given.of(name, "eps")
    if given.alpha < BEST.alpha:
        yield (f"eps is of order {as_power(eps)}; whether gradients fall below it is not counted, for they go like a "
               "power of the depth only where the network is stable at initialization")
        return
    lost = direction_power(given.optimizer, -size, -eps)
    yield (f"eps outgrows gradients {since}: it is of order {as_power(eps)}, gradients are of order {as_power(size)}, "
           f"so that {given.optimizer}'s direction is then linear in them, and of order {as_power(-lost)} instead of "
           f"1: gamma = {given.gamma(name)} (eps=None says that it stays negligible)")


def _decay(bare: Settings, name: str) -> Iterator[str]:
    lost, decay = bare.lost(name), bare.decay_of(name)
    if lost is None or decay is None:
        return
    fate = decay_fate(lost)
    if bare.moved(name) != bare.without_decay.moved(name):
        yield (f"weight decay dominates the gradients: it adds terms of order "
               f"{as_power(decay + bare.of(name, 'init'))} to gradients of order "
               f"{as_power(bare.gradient_power(name))}")
    if fate != "visible":
        yield (f"weight decay {fate}: a step takes a share of order {as_power(-lost)} of a weight; only a share of "
               "order 1 stays visible in the limit")
