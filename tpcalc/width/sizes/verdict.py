"""What a width scaling does to a perceptron: unstable, trivial, kernel regime or feature learning, from sizes in n."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping

import sympy as sp

from ...parametrizations import WidthScaling
from ...programs.language import Member
from ...programs.optimizers import SGD
from ...programs.updates import Optimizer
from .leading import Size
from .measure import WINDOWS, Found, measure
from .perceptron import perceptron

UNSTABLE, TRIVIAL, KERNEL, FEATURES = "unstable", "trivial", "kernel regime", "feature learning"
STEPS = 3  # what the second update does is seen at the third


@dataclass(frozen=True)
class WidthVerdict:
    """What becomes of a perceptron at infinite width.

    name: "unstable", "trivial", "kernel regime" or "feature learning". reason: the term that decides, with its power of
    n. kets: do ket equations describe the limit? no_kets: if not, why. powers: the power of n of every quantity that
    was looked at: preactivations h, outputs f, loss derivatives chi, and changes since the first step. refused: those
    whose power is not known, with the reason.
    """

    scaling: WidthScaling
    name: str
    reason: str
    no_kets: str
    powers: Mapping[sp.Expr, sp.Expr]
    refused: Mapping[sp.Expr, str]

    @property
    def kets(self) -> bool:
        return not self.no_kets

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


def width_verdict(scaling: WidthScaling, phi: sp.Expr | str = "tanh", opt: Optimizer = SGD(1.0),
                  independent: bool = False) -> WidthVerdict:
    """Find what becomes of a perceptron at infinite width, from powers of n that the rules for programs derive.

    Parameters
    ----------
    scaling:
        a tp.WidthScaling of numbers.
    phi, opt, independent:
        as in ``perceptron``.

    Unstable: a preactivation or the output grows with n, at the start or in two updates. Trivial: the output does not
    move, in the limit, or hidden layers vanish at the start. Feature learning: a hidden layer moves by as much as it
    is. Kernel regime: outputs move, and no hidden layer does. Ket equations describe the limit where it is stable and
    no vector of leading order depends on how averages fluctuate about their limits. Raises ``ValueError`` for exponents
    with symbols, and where what decides was refused. Source: Tensor Programs IV, definitions 3.1 to 3.5.

    >>> from tpcalc.parametrizations import width_recipe
    >>> print(width_verdict(width_recipe("muP", 3)))
    feature learning: h1[1] - h1[0] goes like n^0, and h1[0] like n^0
    >>> found = width_verdict(width_recipe("NTP", 3))
    >>> print(found)
    kernel regime: f[1] - f[0] goes like n^0, h1[1] - h1[0] like n^(-1/2) and h2[1] - h2[0] like n^(-1/2)
    >>> print(found.no_kets)
    no kets: chi[0] keeps a fluctuation at infinite width
    >>> print(width_verdict(width_recipe("SP", 3)))
    unstable: h2[1] goes like n^(1/2)
    """
    program = perceptron(scaling, phi, opt, independent)
    if not all(power.is_number for power in (*scaling.p, *scaling.q, scaling.r)):
        raise ValueError(f"scaling: {scaling!r} given; numbers are needed to tell what grows")
    members = {str(s.target): s.target for s in program.unroll({"T": STEPS})}
    hidden = [[members[f"h{layer}[{step}]"] for layer in range(1, scaling.layers)] for step in range(STEPS)]
    outputs = [members[f"f[{step}]"] for step in range(STEPS - 1)]
    changes = [now - start for row in hidden[1:] for now, start in zip(row, hidden[0])]
    moved = [outputs[1] - outputs[0]]
    sizes = [*hidden[0], outputs[0], members["chi[0]"], *hidden[1], outputs[1], *hidden[2]]
    asked = [*sizes, *changes, *moved]
    try:  # changes need not be known where it is known that they vanish
        found = measure(program, {"T": STEPS}, asked=asked, windows=WINDOWS[:3])
        name, reason = _named(found, sizes, hidden[0], changes, moved)
    except ValueError:
        found = measure(program, {"T": STEPS}, asked=asked)
        name, reason = _named(found, sizes, hidden[0], changes, moved)
    powers = {e: found.power(e) for e in found.sizes}
    return WidthVerdict(scaling, name, reason, _no_kets(found, name, reason, members["chi[0]"]), powers, found.refused)


def _named(found: Found, sizes: list[Member], start: list[Member], changes: list[sp.Expr], moved: list[sp.Expr]
           ) -> tuple[str, str]:
    """The name and the term that decides, or ``ValueError`` for what was refused."""
    for e in sizes:
        if e in found.sizes and found.power(e) > 0:
            return UNSTABLE, f"{e} goes like {_power(found, e)}"
        if found.bound(e) > 0:
            raise ValueError(f"scaling: whether {e} grows is not known: {found.refused[e]}")
    for e in start:
        if found.power(e) < 0:
            return TRIVIAL, f"{e} goes like {_power(found, e)}, it vanishes at the start"
    learned = [e for e in changes if e in found.sizes and found.power(e) >= 0]
    if not learned:
        unknown = next((e for e in (*changes, *moved) if found.bound(e) >= 0 and e in found.refused), None)
        if unknown is not None:
            raise ValueError(f"scaling: how {_change(unknown)} goes with n is not known: {found.refused[unknown]}")
    if found.bound(moved[0]) < 0:
        return TRIVIAL, f"{_change(moved[0])} goes {_like(found, moved[0])}"
    if learned:
        now, before = _change(learned[0]).split(" - ")
        return FEATURES, f"{now} - {before} goes like {_power(found, learned[0])}, and {before} like n^0"
    first = [f"{_change(e)} {_like(found, e)}" for e in changes[:len(start)]]
    return KERNEL, (f"{_change(moved[0])} goes like {_power(found, moved[0])}, "
                    + ", ".join(first[:-1]) + " and " * (len(first) > 1) + first[-1])


def _no_kets(found: Found, name: str, reason: str, signal: Member) -> str:
    if name == UNSTABLE:
        return f"no kets: {reason}"
    size: Size | None = found.sizes.get(signal)
    if size is not None and size.random:
        return f"no kets: {signal} keeps a fluctuation at infinite width"
    return ""


def _like(found: Found, e: sp.Expr) -> str:
    return ("like " if e in found.sizes else "at most like ") + _power(found, e)


def _power(found: Found, e: sp.Expr) -> str:
    power = found.bound(e)
    return f"n^{power}" if power.is_Integer and power >= 0 else f"n^({power})"


def _change(e: sp.Expr) -> str:
    """A difference with the later step first."""
    first, second = sorted(e.atoms(Member), key=lambda m: int(m.indices[0]), reverse=True)
    return f"{first} - {second}"
