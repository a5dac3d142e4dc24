"""What a verdict takes for granted, in sentences that say what was done."""

from __future__ import annotations

from math import isfinite

from ..scaling import Scaling
from ..optimizers import SGD
from ..optimizers.faithful import optimizer_name
from ..optimizers.rank import finite_batches
from ..optimizers.updates import Optimizer
from .counted import ASSUMED, NORMED, STATES, UNNORMED, Judged
from .sizes import Exponents

CLIPPED = ("clipping divides gradients by the power of L of their common size where that grows, and by no power of it "
           "elsewhere")
FOLDED = ("powers of initial sizes and of numbers in front of matrices are folded into branch multipliers and updates: "
          "h, gradients and sizes of entries are those of matrices that start as usual")
FROZEN = "embedding and readout are not trained"
SHARE = "a weight decay takes a share of order one in a step"
SAMPLE = "one input at every step stands for batches of a size that stays as L grows"


def by_updates(exponents: Exponents, asked: int, starts: bool = True, first_alone: bool = False) -> str:
    """How many updates are counted, and what is known of later ones; starts: is the network stable at first?"""
    if not starts:
        return "no update is counted, for the network is not stable at initialization"
    counted, after = exponents.updates, exponents.after
    many = "the first update" if asked == 1 else f"the first {asked} updates"
    if exponents.explosions and exponents.explosions[0][0] <= asked:
        return (f"exponents are those after {after} of {asked} updates, without what explodes in step "
                f"{exponents.explosions[0][0]}")
    if exponents.settled:
        return (f"exponents are those after {many}; update {counted} has those of the one before, and so have all "
                "later ones")
    alone = " alone, for gradients of later steps are of another order" * first_alone
    more = f"; updates up to {counted} were looked at" * (counted > asked)
    return f"exponents are those after {many}{alone}{more}"


def by_optimizer(opt: Optimizer, scale: Scaling, counted: Scaling, names: tuple[str, ...]) -> list[str]:
    """Sentences on the optimizer: that gradient descent with updates as large stands for it, and what is supposed of
    the rank of gradients, of eps and of weight decay; none of plain SGD."""
    found = [*finite_batches(opt)]
    if not isinstance(opt, SGD):
        moved = ", ".join(f"{name} L^({-counted.update_exponent(name)})" for name in names
                          if counted.update_exponent(name) != scale.update_exponent(name))
        found.append(f"gradient descent whose updates are as large stands for {optimizer_name(opt)}"
                     + f", per gradient {moved}" * bool(moved))
        eps = getattr(opt, "eps", 0)
        found += ["eps stays as it is as L grows"] * bool(eps and isfinite(eps))
    decay = opt.weight_decay
    return found + [SHARE] * bool(decay)


def by_visits(net: Judged) -> list[str]:
    """What stands for layers that are visited several times."""
    return ["two visits of every layer stand for all visits that stay as L grows"] * (net.visits > 1)


def by_network(net: Judged) -> list[str]:
    """What stands for a network of several positions."""
    return [UNNORMED] * (net.norm is None) + [NORMED] * any(one.qk_norm for one in net.chooses) + [
        STATES] * bool(net.states_of_block) + [ASSUMED]
