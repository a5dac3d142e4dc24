"""Gates of mixtures of experts as what counts powers of the depth has them: to the first power of their logits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Callable

import sympy as sp

from .._checks import short
from ..programs.blocks import Block, Branch, block_name
from ..programs.special import require_no_choice
from .experts import MoE
from .network import Network
from .networks import ResNet
from .transformer import Transformer

Gates = Callable[[MoE, Branch], list[sp.Expr]]

LINEAR = ("gates are linear in logits, which begin at 0, as long as these do not grow beyond order one; routers that "
          "start as 0 stand for those that are drawn")
ONE_FOR_ALL = ("at infinite width experts of a fixed number are alike, so that one stands for all where powers of L "
               "are counted, and routers of a softmax, which have no gradient, for none")


def linear_gates(given: MoE, b: Branch) -> list[sp.Expr]:
    """Gates to the first power of logits, which begin at 0, of routers that do so too."""
    logits = replace(given, router="zero").logits(b)
    mean = sp.Add(*logits) / len(logits)
    if given.gate == "sigmoid":
        return [(1 + logit / 2) / 2 / given.over for logit in logits]
    return [(1 + logit - mean) / given.over for logit in logits]


def gate_of_one(given: MoE, b: Branch) -> list[sp.Expr]:
    """One expert in the place of all, which are alike at infinite width: all active, they have the same derivative of
    the loss in what they weigh, so that gates move together, and shares not at all."""
    if given.gate == "softmax":
        return [sp.Integer(1)]
    return linear_gates(replace(given, experts=1, active=1), b)


def constant_gate(given: MoE, b: Branch) -> list[sp.Expr]:
    """One expert in the place of all, with the gate 1: gates are bounded, and numbers at infinite width."""
    return [sp.Integer(1)]


def counted_as(net: Network, gates: Gates = gate_of_one) -> tuple[Network, tuple[str, ...]]:
    """The network that powers of L are counted of in the place of ``net``, narrow and with frozen ends, and what is to
    be known about it: ``gates`` stand for those of a fixed number of experts, one position at a time."""
    net = net.narrow.frozen()
    read = not net.positions and any(one.experts is not None for one in net.experts)
    if not read or isinstance(getattr(net, "block", None), Weighing):
        return net, ()
    return with_gates(net, gates), (LINEAR, ONE_FOR_ALL) if gates is gate_of_one else (LINEAR,)


def with_gates(net: Network, gates: Gates = linear_gates) -> Any:
    """The network with other gates of mixtures of experts, and of experts that grow in number with one gate a
    coordinate; itself where it has none.

    Raises ``NotCovered`` where fewer experts are active than there are: fluctuations of real networks choose.
    """
    if not net.experts:
        return net
    require_no_choice(f"experts: got {short(net.experts[0])}", net.statements, of_vectors=True)
    if isinstance(net, ResNet):
        return replace(net, block=Weighing(net.block_function, gates))
    return replace(net, mlp=Weighing(net.mlp, gates)) if isinstance(net, Transformer) and callable(net.mlp) else net


@dataclass(frozen=True)
class Weighing:
    """A block whose mixtures of experts have other gates; its name is the block's."""

    block: Block
    gates: Gates

    @property
    def __name__(self) -> str:
        return block_name(self.block)

    def __call__(self, b: Branch) -> sp.Expr:
        return self.block(replace(b, weigh=self.gates))
