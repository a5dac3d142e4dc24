"""Audits of width scalings: which principle does one break, at which layer, by which power of the width?"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from ..errors import NotCovered
from ..scaling import WidthScaling
from .counting import own_gradients, passed_gradients
from .principles import CRITICALITY, DIFFERENTIALS, EQUIVALENCE, Requirement, requirements


class Breach(Requirement):
    """One principle that is broken: its quantity goes like n^power, and what is allowed is n^0, or less."""

    def __str__(self) -> str:
        power = str(self.power) if self.power.is_Integer and self.power >= 0 else f"({self.power})"
        return f"{self.principle}: {self.what}, goes like n^{power}; expected {self.allowed}"


@dataclass(frozen=True)
class WidthAudit:
    """What an audit found.

    breaches: in the order of the principles, each principle once a layer. unjudged: principles whose counting supposes
    one that is broken. kernels: the powers of n of the layers' tangent kernels, None without criticality.
    """

    scaling: WidthScaling
    breaches: tuple[Breach, ...]
    unjudged: tuple[str, ...]
    kernels: tuple[sp.Expr, ...] | None

    @property
    def passes(self) -> bool:
        return not self.breaches

    @property
    def principles(self) -> tuple[str, ...]:
        """The names of the principles that are broken."""
        return tuple(dict.fromkeys(breach.principle for breach in self.breaches))

    def __str__(self) -> str:
        lines = [str(breach) for breach in self.breaches] or ["all principles hold"]
        return "\n".join((*lines, *(f"{name}: not judged, its counting supposes what is broken"
                                    for name in self.unjudged)))


def broken_principles(scaling: WidthScaling) -> WidthAudit:
    """Name the principles that a width scaling breaks.

    Powers of the tangent kernels are those of the larger term of (3.7) at every layer, so that eta H is judged also
    where learning rates are not equivalent. Without criticality only the sizes of preactivations are judged, and
    without equivalence not the differentials. Raises ``ValueError`` where the answer depends on symbols in the
    exponents.

    >>> from tpcalc.scaling import width_recipe
    >>> print(broken_principles(width_recipe("SP, rate 1/n", layers=3)))
    learning-rate equivalence: what layer 2 adds to its kernel, over what those below do, goes like n^1; expected n^0
    bounded differentials: not judged, its counting supposes what is broken
    """
    if not isinstance(scaling, WidthScaling):
        raise ValueError(f"scaling: got {scaling!r}; expected a tp.WidthScaling")
    kernels = [own_gradients(scaling.q[0])]
    for p, q in zip(scaling.p[1:], scaling.q[1:]):
        kernels.append(sp.Max(own_gradients(q), passed_gradients(p, kernels[-1])))
    needed = requirements(scaling, kernels)
    broken = [r for r in needed if r.principle == CRITICALITY and not _holds(r)]
    if broken:
        unjudged = tuple(dict.fromkeys(r.principle for r in needed if r.principle != CRITICALITY))
        return WidthAudit(scaling, tuple(map(_breach, broken)), unjudged, None)
    broken = [r for r in needed if r.principle not in (CRITICALITY, DIFFERENTIALS) and not _holds(r)]
    unjudged = (DIFFERENTIALS,) if any(r.principle == EQUIVALENCE for r in broken) else ()
    if not unjudged:
        broken += [r for r in needed if r.principle == DIFFERENTIALS and not _holds(r)][:1]
    return WidthAudit(scaling, tuple(map(_breach, broken)), unjudged, tuple(kernels))


def _holds(requirement: Requirement) -> bool:
    holds = requirement.holds({})
    if holds is None:
        raise NotCovered(f"scaling: {requirement.what} goes like n^({requirement.power}); numbers are needed to tell "
                         f"whether that is {requirement.allowed}")
    return holds


def _breach(one: Requirement) -> Breach:
    return Breach(**vars(one))
