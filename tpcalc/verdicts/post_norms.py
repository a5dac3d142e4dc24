"""Norms of what layers hand on, taken out of the stream.

A norm N does not see by which positive number its argument is multiplied. So x' = N(a x + eps f(x)) is x = y / rms y,
where y' = y + eps rms(y) f(y / rms y) / a is a stream that no norm stands on: the norms of all layers but the last have
moved into the branches. Layer norm takes the mean out of f besides. Where y stays of order one, powers of x are those
of y. Else the norms let layers forget what they found, and no power of y tells what is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

from ..errors import NotCovered
from ..models import Skip
from ..models.network import Network
from ..models.networks import Residual
from ..programs.language import Mean
from ..models.skips import Junction
from .verdict import Verdict

POST = ("the stream is counted before its norm, and branches act on it over its root mean square, times that; so they "
        "do in the first layer, too")


@dataclass(frozen=True)
class ScaledSkip(Skip):
    """The skip connection a x + rms(x) branch(x) / b: centered: is the mean taken out of the branch, as by layer norm?
    over: b."""

    centered: bool = False
    over: sp.Expr = sp.Integer(1)

    def __call__(self, junction: Junction) -> tuple[sp.Expr, ...]:
        def entered(x: sp.Expr, named: bool) -> sp.Expr:
            value = junction.enter(x, True)  # named, as what is multiplied has to be
            return sp.sqrt(Mean(x**2)) / self.over * (value - Mean(value) if self.centered else value)

        return super().__call__(replace(junction, enter=entered))


def without_post_norms(net: Network) -> Network:
    """The network of the streams before their norms; ``net`` itself where none stands on them, or no rule moves it."""
    if not isinstance(net, Residual):
        return net
    skip = net.skip or Skip()
    if net.norm_position != "post" or net.gains or net.shifts_normed or not isinstance(skip, Skip) or skip.inject != 0:
        return net
    keep, over = (sp.Integer(1), skip.keep) if skip.keep.is_positive else (skip.keep, sp.Integer(1))
    scaled = ScaledSkip(keep, learned=skip.learned, centered=net.norm == "layer", over=over)
    return replace(net, norm="rms", norm_position="pre", skip=scaled)  # type: ignore[call-arg]


def require_normalized(found: Verdict) -> None:
    """Raise ``NotCovered`` where a stream whose norm was taken out does not stay of order one."""
    start, change = (found.exponents.get(name, sp.Integer(0)) for name in ("x at initialization", "change of x"))
    if start != 0 or change > 0:
        raise NotCovered(f"norm_position: got 'post' at alpha = {found.alpha}, where layers, or their updates, change "
                         "the stream by more than its size; what its norms keep of it then is not counted; expected "
                         "exponents at which they add no more than there is")
