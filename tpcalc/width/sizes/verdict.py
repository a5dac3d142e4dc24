"""What a width scaling does to a perceptron: unstable, trivial, kernel regime or feature learning, from sizes in n."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Mapping, Sequence

import sympy as sp

from ...errors import NotCovered
from ...scaling import WidthScaling
from ...programs.language import Member
from ...optimizers.sgd import SGD
from ...programs.program import Program
from ...optimizers.updates import Optimizer
from .leading import LeadingSize
from .measure import WINDOWS, Found, measure
from .perceptron import perceptron

UNSTABLE, TRIVIAL, KERNEL, FEATURES = "unstable", "trivial", "kernel regime", "feature learning"
STEPS = 3  # what the second update does is seen at the third


@dataclass(frozen=True)
class WidthVerdict:
    """What becomes of a perceptron at infinite width.

    name: "unstable", "trivial", "kernel regime" or "feature learning". reason: the term that decides, with its power of
    n. kets: do ket equations describe the limit? no_kets: if not, why. powers: the power of n of every quantity that
    was looked at until the name was certain: preactivations h, outputs f, loss derivatives chi, and changes since the
    first step. refused: those of them whose power is not known, with the reason.
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


def width_verdict(scaling: WidthScaling, phi: sp.Expr | str = "tanh", opt: Optimizer = SGD(1.0)) -> WidthVerdict:
    """Find what becomes of a perceptron at infinite width, from powers of n that the rules for programs derive.

    Parameters
    ----------
    scaling:
        a tp.WidthScaling of numbers.
    phi, opt:
        as in ``perceptron``.

    Unstable: a preactivation or the output grows with n, at the start or in two updates. Trivial: the output does not
    move, in the limit, or hidden layers vanish at the start. Feature learning: a hidden layer moves by as much as it
    is. Kernel regime: outputs move, and no hidden layer does. Ket equations describe the limit where it is stable and
    no vector of leading order depends on how averages fluctuate about their limits. Raises ``ValueError`` for exponents
    with symbols, and where what decides was refused. Source: Tensor Programs IV, definitions 3.1 to 3.5.

    >>> from tpcalc.scaling import width_recipe
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
    program = perceptron(scaling, phi, opt)
    if not all(power.is_number for power in (*scaling.p, *scaling.q, scaling.r)):
        raise NotCovered(f"scaling: got {scaling!r}; numbers are needed to tell what grows")
    reading = _MemberPowers(program)
    looked = _Observables.of(program, scaling.layers)
    name, reason = _named(reading, looked)
    no_kets = _no_kets(reading, name, reason, looked.signal)
    return WidthVerdict(scaling, name, reason, no_kets, reading.powers, reading.refused)


class _MemberPowers:
    """Powers of n in a program's members, found as they are asked for: ``powers``, and ``refused`` with reasons."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.found = Found((), {})
        self.powers: dict[sp.Expr, sp.Expr] = {}

    def ask(self, asked: Sequence[sp.Expr], windows: Sequence[Fraction] = WINDOWS) -> None:
        """Find what is not known yet."""
        old = self.found
        new = measure(self.program, {"T": STEPS}, asked=[e for e in asked if e not in old.sizes], windows=windows)
        sizes = {**old.sizes, **new.sizes}
        refused = {e: why for e, why in {**old.refused, **new.refused}.items() if e not in sizes}
        self.found = Found((), sizes, refused, {**old.at_most, **new.at_most})
        self.powers |= {e: new.power(e) for e in new.sizes}

    @property
    def refused(self) -> Mapping[sp.Expr, str]:
        return self.found.refused


@dataclass(frozen=True)
class _Observables:
    """What a verdict looks at.

    sizes: of hidden layers and the output, by steps; signal: the first loss derivative; changes: of hidden layers since
    the start, the later step first; moved: the change of the output in the first step.
    """

    sizes: tuple[tuple[Member, ...], ...]
    signal: Member
    changes: tuple[sp.Expr, ...]
    moved: sp.Expr

    @classmethod
    def of(cls, program: Program, layers: int) -> _Observables:
        members = {str(s.target): s.target for s in program.unroll({"T": STEPS})}
        hidden = [[members[f"h{layer}[{step}]"] for layer in range(1, layers)] for step in range(STEPS)]
        outputs = [members[f"f[{step}]"] for step in range(STEPS - 1)]
        signal = members["chi[0]"]
        changes = [now - start for row in hidden[1:] for now, start in zip(row, hidden[0])]
        sizes = ((*hidden[0], outputs[0], signal), (*hidden[1], outputs[1]), tuple(hidden[2]))
        return cls(sizes, signal, tuple(changes), outputs[1] - outputs[0])

    @property
    def start(self) -> tuple[Member, ...]:
        """Hidden layers before training."""
        return self.sizes[0][:-2]


def _named(reading: _MemberPowers, looked: _Observables) -> tuple[str, str]:
    """The name, and the term that decides; what grows ends the matter, then what vanishes does."""
    for sizes in looked.sizes:
        for window in WINDOWS:  # wider ones cost more, and one member that grows is enough
            reading.ask(sizes, [window])
            grown = [e for e in sizes if e in reading.powers and reading.powers[e] > 0]
            if grown:
                return UNSTABLE, f"{grown[0]} goes like {_power(reading, grown[0])}"
            if all(reading.found.bound(e) <= 0 for e in sizes):
                break
        unknown = next((e for e in sizes if reading.found.bound(e) > 0), None)
        if unknown is not None:
            raise NotCovered(f"scaling: whether {unknown} grows is not known: {reading.refused[unknown]}")
    for e in looked.start:
        if reading.found.bound(e) < 0:
            return TRIVIAL, f"{e} goes {_like(reading, e)}, it vanishes at the start"
        if e in reading.refused:
            raise NotCovered(f"scaling: whether {e} vanishes is not known: {reading.refused[e]}")
    changes, moved = looked.changes, looked.moved
    reading.ask([moved])
    if reading.found.bound(moved) < 0:
        return TRIVIAL, f"{_change(moved)} goes {_like(reading, moved)}"
    if moved in reading.refused:
        raise NotCovered(f"scaling: how {_change(moved)} goes with n is not known: {reading.refused[moved]}")
    for window in WINDOWS:
        reading.ask(changes, [window])
        learned = [e for e in changes if e in reading.powers and reading.powers[e] >= 0]
        if learned:
            now, before = _change(learned[0]).split(" - ")
            return FEATURES, f"{now} - {before} goes like {_power(reading, learned[0])}, and {before} like n^0"
        if all(reading.found.bound(e) < 0 for e in changes) and window >= 1:
            break  # what vanishes is said with its power where that is not far to seek
    unknown = next((e for e in changes if reading.found.bound(e) >= 0 and e in reading.refused), None)
    if unknown is not None:
        raise NotCovered(f"scaling: how {_change(unknown)} goes with n is not known: {reading.refused[unknown]}")
    first = [f"{_change(e)} {_like(reading, e)}" for e in changes[:len(looked.start)]]
    return KERNEL, (f"{_change(moved)} goes like {_power(reading, moved)}, "
                    + ", ".join(first[:-1]) + " and " * (len(first) > 1) + first[-1])


def _no_kets(reading: _MemberPowers, name: str, reason: str, signal: Member) -> str:
    if name == UNSTABLE:
        return f"no kets: {reason}"
    size: LeadingSize | None = reading.found.sizes.get(signal)
    if size is not None and size.random:
        return f"no kets: {signal} keeps a fluctuation at infinite width"
    return ""


def _like(reading: _MemberPowers, e: sp.Expr) -> str:
    return ("like " if e in reading.powers else "at most like ") + _power(reading, e)


def _power(reading: _MemberPowers, e: sp.Expr) -> str:
    power = reading.found.bound(e)
    return f"n^{power}" if power.is_Integer and power >= 0 else f"n^({power})"


def _change(e: sp.Expr) -> str:
    """A difference with the later step first."""
    first, second = sorted(e.atoms(Member), key=lambda m: int(m.indices[0]), reverse=True)
    return f"{first} - {second}"
