"""How long weights remember, and the angle and norm at which decay and updates of a fixed size balance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .._checks import positive_integer, positive_number, short
from .._shown import Short
from .._types import Number
from ..errors import NotCovered
from ..optimizers import NormalizedSGD
from ..optimizers.faithful import decay_kind
from ..optimizers.updates import BY_NAME, kind_of_updates, optimizer_name
from ..optimizers.sgd import on_sphere


@dataclass(frozen=True, repr=False)
class Timescale(Short):
    """What ``tp.timescale`` gives: tau, in steps; share, tau / steps; angle, norm, None where ``why`` says why not.

    angle: between the weights of one step and the next, in radians; norm: of the weights, over that of an update
    without its rate.
    """

    tau: float
    share: float
    angle: float | None
    norm: float | None
    why: str = ""


def timescale(lr: Number, wd: Number, steps: int, optimizer: Any = None) -> Timescale:
    """The memory of weights under decoupled decay, W <- (1 - lr wd) W - lr U, and what they come to.

    tau = 1 / (lr wd) steps. Where |U| is fixed and <W, U> = 0, |W|^2 <- (1 - lr wd)^2 |W|^2 + lr^2 |U|^2 has a fixed
    point, and the cosine of the angle from a step to the next is 1 - lr wd there, whatever |U|. It holds of weights
    whose size changes no output, as before a norm, under normalized gradients: those are orthogonal to the weights.
    Where the optimizer's own decay is independent of the rate, wd stands for lr wd.
    Against width and depth tau moves as the rate does not [contested/decay_timescale].

    Parameters
    ----------
    lr, wd, steps:
        rate and decay, positive, with lr wd of less than 1, and how many steps are made.
    optimizer:
        None, where you know that updates are so; else its name or the optimizer itself. Angle and norm are None unless
        it is a ``tp.NormalizedSGD`` without momentum: entries of Adam's, signs' and Muon's directions are no multiples
        of gradients, and buffers none of the last gradient, so that both overlap with the weights.

    Raises ``ValueError`` for numbers that are not allowed, and for what is no optimizer; ``NotCovered`` for weights on
    spheres, and for a decay that goes through a momentum buffer.

    >>> import tpcalc as tp
    >>> found = tp.timescale(0.02, 0.5, 400)
    >>> found.tau, found.share, round(found.angle, 6), round(found.norm, 6)
    (100.0, 0.25, 0.141539, 0.141776)
    >>> tp.timescale(0.02, 0.5, 400, "adam").angle is None
    True
    """
    rate, decay, steps = positive_number("lr", lr), positive_number("wd", wd), positive_integer("steps", steps)
    why = "" if optimizer is None else _overlap(optimizer)
    require_free(optimizer)
    kind = decay_kind(optimizer)
    if kind == "coupled" and getattr(optimizer, "momentum", None):
        raise NotCovered(f"optimizer: got {short(optimizer)}, whose decay goes through its momentum buffer; expected "
                         "decoupled=True, or no momentum")
    share, what = (decay, "wd") if kind == "independent" else (rate * decay, "lr wd")
    if share >= 1:
        raise ValueError(f"lr, wd: got {short(lr)} and {short(wd)}; a step takes {what} = {share:.6g} of the weights; "
                         "expected less than 1")
    tau, left = 1 / share, 1 - share
    angle, norm = (None, None) if why else (math.acos(left), rate / math.sqrt(1 - left**2))
    return Timescale(tau, tau / steps, angle, norm, why)


def require_free(optimizer: Any) -> None:
    """Raise ``NotCovered`` for weights that are brought back to their spheres, of which no decay takes anything."""
    if on_sphere(optimizer):
        raise NotCovered(f"optimizer: got {short(optimizer)}, whose weights keep their norms: a decay takes nothing of "
                         "them; expected sphere=False")


def _overlap(optimizer: Any) -> str:
    """Why updates of this optimizer overlap with weights, or change their size; empty where they do neither."""
    opt = optimizer if hasattr(optimizer, "lr") else BY_NAME[optimizer_name(optimizer)]
    if kind_of_updates(opt) == "linear":
        return f"updates of {type(opt).__name__} have the size of gradients, which changes with the weights"
    if not isinstance(opt, NormalizedSGD):
        return f"the direction of {type(opt).__name__} is no multiple of the gradient, and overlaps with the weights"
    if opt.momentum:
        return "a momentum buffer overlaps with the weights, which have turned since"
    return ""
