"""Whether training has a limit of infinite depth, and with which powers of L networks approach it, from the orders."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from heapq import heappop, heappush

import sympy as sp

from .. import _checks
from ..errors import Divergence, NotCovered
from ..asymptotics import KET, Unknown
from ..asymptotics.parts import size_of_parts
from ..scaling import DepthScaling, Parametrization, Scaling
from ..models import ResNet, Transformer
from ..models.gates import counted_as, linear_gates
from ..models.networks import Network
from .limit_cell import ALPHA, GAMMA, counted, instead_of, limit_cell, linear_region, regime_by_matrix

Powers = tuple[Fraction | float, ...]
GAINS = {"layers": 1, "independent layers": 2}  # the power of a term that averages see, by how it enters the stream
ONE_MATRIX = ResNet("tanh")


@dataclass(frozen=True)
class DepthOrders:
    """powers: the least p > 0 of the corrections L^-p, in their order, 1 among them or above them; notes: what is to be
    known about the limit, in words."""

    powers: Powers
    notes: tuple[str, ...]

    def first(self, count: int) -> list[float]:
        """The first so many sums of powers: what products of corrections are."""
        found: list[float] = []
        heap: list[Fraction | float] = list(dict.fromkeys(self.powers))
        heap.sort()
        while len(found) < count:
            least = heappop(heap)
            if not found or float(least) > found[-1] * (1 + 1e-12):
                found.append(float(least))
                for power in self.powers:
                    heappush(heap, least + power)
        return found


def depth_orders(net: Network, scale: Scaling) -> DepthOrders:
    """The orders of the net's own program, trained by plain SGD; other optimizers move weights alike.

    (alpha, gamma) fix the size of an update, L^-gamma times a direction of order one, so that an optimizer whose
    direction is a function of gradients' entries adds to the stream at the powers of SGD.

    Raises ``Divergence`` where there is no limit, with what grows, ``ValueError`` where the orders have no rule, with
    the reason.
    """
    try:
        if isinstance(scale, Parametrization):
            return _by_matrix(net, scale)
        cell = limit_cell(scale, net)
        powers = corrections(net.narrow.frozen(), scale.alpha, scale.gamma)
    except NotCovered as error:
        raise NotCovered(f"depth: got tp.oo; no rule says whether there is a limit: {error}") from None
    return DepthOrders(powers, (*cell.notes, *counted_as(net)[1]))


def _by_matrix(net: Network, scale: Parametrization) -> DepthOrders:
    """The orders where matrices have update exponents of their own."""
    found = regime_by_matrix(net, scale)
    if found.obstacle:
        raise Divergence(f"{_checks.short(scale)} given with depth=tp.oo: {found.obstacle}")
    notes = () if found.drift else ("trivial limit: updates add up to nothing, f stays f_0",)
    stands_in, known = counted_as(net, linear_gates)
    return DepthOrders(_with_sums(_of_kets(stands_in, scale)), (*notes, *known))


@lru_cache(maxsize=256)
def corrections(net: Network, alpha: sp.Expr, gamma: sp.Expr) -> Powers:
    """The powers p of the corrections L^-p that terms of the stream are, and 1, of sums over layers that become
    integrals.

    A term that all layers add coherently is a correction as large as itself; one that every layer draws anew has no
    mean, and what it leaves in averages is its square. Where the net's own terms are not counted, because there are too
    many or they are of several positions, they are those of a block of one matrix with an activation. Raises
    ``ValueError`` for exponents of nonlinear blocks that are no fractions.
    """
    if isinstance(net, Transformer):
        net = net.at_one_position or (ONE_MATRIX if net.is_added else instead_of(net))
    net, _ = counted_as(net)
    if net.is_plain:
        return _with_sums(_of_recursion(alpha, gamma))
    if not (alpha.is_Rational and gamma.is_Rational):
        raise NotCovered(f"alpha = {alpha}, gamma = {gamma} given; corrections of nonlinear networks are counted at "
                         "fractions")
    try:
        return _with_sums(_of_kets(net, DepthScaling(alpha, gamma)))
    except NotCovered:  # a function without a rule, or too many parts
        return _with_sums(_of_kets(ONE_MATRIX, DepthScaling(alpha, gamma)))


def _with_sums(powers: list[Fraction | float]) -> Powers:
    return tuple(sorted({Fraction(1), *powers}))


def _of_kets(net: Network, scale: Scaling) -> list[Fraction | float]:
    """Powers of the terms of the stream, and of what functions are expanded in, whose powers stand behind the first:
    squares, where all functions are odd or even."""
    _, found = counted(net, scale)
    rests = [(found.power(size_of_parts(found.value(node))).exponent, 2 if parity else 1)
             for (step, _), (node, parity) in found.counted.entries.functions.rests.items() if step < found.steps]
    expanded: list[Fraction | float] = [-_number(power * times) for power, times in rests if -sp.oo < power < 0]
    keys = [Unknown(KET, t, stream) for t in range(found.steps) for stream in found.counted.reading.accumulating]
    added = [GAINS[one.rule] * _number(found.power(one.value).exponent) for key in keys for one in found.terms(key)
             if one.rule in GAINS]
    return [*expanded, *(-power for power in added if power < 0)]


def _of_recursion(alpha: sp.Expr, gamma: sp.Expr) -> list[Fraction | float]:
    dropped = [term.order.subs({ALPHA: alpha, GAMMA: gamma}) for term in linear_region(alpha, gamma).dropped]
    return [-_number(order) for order in dropped if order < 0]


def _number(value: sp.Expr) -> Fraction | float:
    return Fraction(value) if value.is_Rational else float(value)
