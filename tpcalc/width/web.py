"""The web of effective theories: what networks of width n and depth L ~ n^kappa become at infinite size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

import sympy as sp

from .._types import Number
from .._checks import exponent
from .._shown import pyplot
from .principle_audit import broken_principles
from .family import meta_principled
from .hierarchy import ntk_exponent
from .principles import S

FROZEN = "frozen NTK"
NEURAL_TANGENT = "NT"
MEAN_FIELD = "mean field / MU"
MISSING = "missing"
BEYOND = "beyond"
NAMES = (FROZEN, NEURAL_TANGENT, MEAN_FIELD, MISSING, BEYOND)
COLORS = dict(zip(NAMES, ("#c6dbef", "#08519c", "#a63603", "#6a51a3", "#eeeeee")))
TOP = 1.35  # kappa, of the map as it is drawn


@dataclass(frozen=True)
class EffectiveTheory:
    """The limit of networks of metaparameter s and depth L ~ n^kappa.

    learning: the power of n in L / n^(1 - s), the size of E[eta^3 d^2 H]. fluctuation: that in L / n, the size of
    E[z eta^2 d H]. breaks: the principles that s outside [0, 1] breaks, one sentence each. ``str`` is the name.
    """

    s: sp.Expr
    kappa: sp.Expr
    learning: sp.Expr
    fluctuation: sp.Expr
    breaks: tuple[str, ...]

    @property
    def name(self) -> str:
        """One of "frozen NTK", "NT", "mean field / MU", "missing" and "beyond", by the signs of the exponents.

        Where L / n^(1 - s) vanishes the kernel is frozen, and where it or L / n grows, the source says nothing: beyond.
        Where it stays, L / n stays as well in the neural-tangent limit; else the depth grows in the missing limit, and
        is fixed in the mean-field one.
        """
        if self.learning > 0 or self.fluctuation > 0:
            return BEYOND
        if self.learning < 0:
            return FROZEN
        if self.fluctuation == 0:
            return NEURAL_TANGENT
        return MISSING if self.kappa > 0 else MEAN_FIELD

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Web:
    """The map of all limits: s from left to right, kappa upwards."""

    def at(self, s: Number, kappa: Number) -> EffectiveTheory:
        return theory(s, kappa)

    def plot(self, ax: Any = None) -> Any:
        """Draw the map on new axes where none are given, and return them; ``MissingExtra`` without matplotlib."""
        ax = pyplot("Web.plot").subplots(figsize=(6.4, 5.2), layout="constrained")[1] if ax is None else ax
        line = -ntk_exponent(3, S)  # the kappa at which L / n^(1 - s) stays
        start, middle, end = (line.subs(S, sp.Rational(s, 2)) for s in range(3))
        below, above = theory("1/4", middle / 2), theory("3/4", (middle + 1) / 2 + middle / 4)
        ax.fill([0, 1, 0], [start, end, min(start, end)], color=COLORS[below.name], linewidth=0)
        ax.fill([0, 1, 1, 0], [start, end, TOP, TOP], color=COLORS[above.name], linewidth=0)
        ax.plot([0, 1], [start, end], color=COLORS[theory("1/2", middle).name], linewidth=3)
        for one in (below, above):
            ax.annotate(one.name, (float(one.s), float(one.kappa)), ha="center")
        marks = ((0, start, (12, 6), "left"), ("1/2", middle, (8, 6), "left"), (1, end, (-55, 6), "right"))
        for s, kappa, offset, side in marks:
            one = theory(s, kappa)
            if s in (0, 1):
                ax.plot([float(one.s)], [float(kappa)], "o", color=COLORS[one.name], markersize=12, clip_on=False,
                        zorder=3)
            ax.annotate(one.name, (float(one.s), float(kappa)), xytext=offset, textcoords="offset points", ha=side,
                        color=COLORS[one.name])
        ax.set(xlim=(0, 1), ylim=(0, TOP), xlabel="$s$: outputs start with variance $n^{-s}$",
               ylabel=r"$\kappa$: the depth grows like $L \sim n^\kappa$")
        return ax


@overload
def web() -> Web: ...
@overload
def web(s: Number, kappa: Number) -> EffectiveTheory: ...


def web(s: Number | None = None, kappa: Number | None = None) -> Web | EffectiveTheory:
    """The effective theory of metaparameter s at depth L ~ n^kappa, or, without arguments, the map of all of them.

    Parameters
    ----------
    s:
        a real number; outside [0, 1] the answer's ``breaks`` says which principles do not hold.
    kappa:
        a number of at least 0; 0 is a fixed depth.

    Returns an ``EffectiveTheory`` with a ``name``, or a ``Web`` with ``plot`` and ``at``. Raises ``ValueError`` where
    only one of both is given, for symbols, and for kappa < 0. Source: Meta-Principled Family, section V; the power of
    n is counted [meta_principled/hierarchy], the one power of L in L / n^(1 - s) and in L / n is the source's, and is
    measured [meta_principled/differentials_in_depth].

    >>> print(web(0, 0.5), web(0, 1), web(1, 0), web(0.5, 0.5), web(0.5, 1), sep=", ")
    frozen NTK, NT, mean field / MU, missing, beyond
    """
    if s is None and kappa is None:
        return Web()
    if s is None or kappa is None:
        raise ValueError(f"s, kappa: got {s!r} and {kappa!r}; expected both, or neither for the map")
    return theory(s, kappa)


def theory(s: Number, kappa: Number) -> EffectiveTheory:
    """The effective theory at one point of the web; raises ``ValueError`` as ``web`` does."""
    metaparameter, growth = exponent("s", s), exponent("kappa", kappa)
    for name, value in (("s", metaparameter), ("kappa", growth)):
        if not value.is_number:
            raise ValueError(f"{name}: got {value}; expected a number, to tell which exponents vanish")
    if growth < 0:
        raise ValueError(f"kappa: got {growth}; expected a number of at least 0, for L ~ n^kappa does not shrink")
    broken = broken_principles(meta_principled(metaparameter, layers=2)).breaches
    return EffectiveTheory(metaparameter, growth, sp.expand(growth + ntk_exponent(3, metaparameter)),
                           sp.expand(growth + ntk_exponent(2, metaparameter, insert_output=True)),
                           tuple(map(str, broken)))
