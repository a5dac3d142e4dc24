"""Which terms of a network's ket equations survive infinite depth at a depth scaling."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from .._types import Number
from .._checks import exponent, instance
from ..asymptotics import KET, Counted, Term, Unknown
from ..calculus import kets
from ..derivations.printing import latex
from ..errors import Divergence
from ..limits.inlining import with_moves
from ..scaling import DepthScaling
from ..optimizers import SGD
from ..models import ResNet
from ..training.builders import counted_training
from .counting import ALPHA, GAMMA
from .counted import require_frozen_embedding_readout


@dataclass(frozen=True)
class Interaction:
    """A term of the equation of ``target``, as large as L^exponent over all layers at the second training step.

    rule: how layers add it up: "layers" coherently, "independent layers" like a square root, "" inside a block.
    survives: the exponent is 0.

    >>> import tpcalc as tp
    >>> one = tp.theory.interactions(0.5, 0.5)[0]
    >>> print(one.target, one.exponent, one.survives)
    |x[t, 0]> 0 True
    """

    target: sp.Expr
    term: sp.Expr
    exponent: sp.Expr
    rule: str

    @property
    def survives(self) -> bool:
        return bool(self.exponent == 0)

    def latex(self) -> str:
        """Target, term and size, for the lines of an ``aligned`` environment."""
        size = "0" if self.exponent == -sp.oo else f"L^{{{latex(self.exponent)}}}"
        return rf"{latex(self.target)} &\ni {latex(self.term)} \sim {size}"

    def __str__(self) -> str:
        return f"{self.target}: {self.term} ~ L^({self.exponent})" + (f", {self.rule}" if self.rule else "")


def interactions(alpha: Number, gamma: Number, net: ResNet | None = None) -> tuple[Interaction, ...]:
    """The terms of a network's ket equations with their sizes, in program order.

    alpha, gamma: rational numbers; net: default the linear network. Sizes are upper bounds, reached unless something
    cancels that no rule knows. Raises ``Divergence`` where the exponents do not settle, ``ValueError`` for what no
    rule covers. Source: Tensor Programs VI, appendices G, J and K, which ask it of blocks of one matrix and of two.

    >>> import tpcalc as tp
    >>> [str(one.exponent) for one in tp.theory.interactions(0.5, 0.5)][:4]
    ['0', '0', '0', '0']
    """
    net = ResNet() if net is None else net
    instance("net", net, ResNet, "a tp.ResNet or None")
    a, g = exponent("alpha", alpha), exponent("gamma", gamma)
    for name, value in (("alpha", a), ("gamma", g)):
        if not value.is_Rational:
            raise ValueError(f"{name}: got {value}; expected a rational number")
    require_frozen_embedding_readout(net)
    equations = kets(with_moves(counted_training(net.narrow, SGD(), DepthScaling(ALPHA, GAMMA))))
    counted = Counted(equations)
    solution = counted.settled({s: v for s, v in ((ALPHA, a), (GAMMA, g)) if s in counted.parameters})
    solution.require_gradients()
    if solution.explosions or solution.grows or not solution.is_bounded(solution.steps - 1):
        raise Divergence(f"alpha = {a}, gamma = {g}: sizes grow with depth or from step to step; tp.classify says why")
    found: dict[tuple[int, sp.Expr], list[Term]] = {}
    for family in counted.reading.of_family:
        for one in solution.terms(Unknown(KET, 1, family)):
            found.setdefault((one.equation, one.term), []).append(one)
    largest = {location: max(ones, key=lambda one: one.value) for location, ones in found.items()}
    return tuple(
        Interaction(equations.equations[number].target, term, solution.power(one.value).exponent, one.rule)
        for (number, term), one in sorted(largest.items(), key=lambda item: item[0][0]))
