"""A verdict on a depth scaling: flags that follow from exponents by their definitions."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import sympy as sp

from ..calculus.printing import latex
from ..limits import Region, point_of
from .exponents import ALPHA, GAMMA
from .sizes import Exponents


@dataclass(frozen=True)
class Verdict:
    """What a depth scaling does, for networks trained by one-homogeneous faithful updates.

    Flags are True, False, or None where undefined or undecided. stable_in_training is Definition 5.2, with h;
    output_stable asks for x and f only. diversity_exponent: Definition 5.6, at t >= 1 and generic layer.
    layerwise_linear: Definition G.1, for a smooth activation in place of a linear one, which is always linear.
    exponents: powers of L by name; reasons: a sentence a flag. Source: paper B, section 5, claims
    [tensor_programs_vi/claim_51] [tensor_programs_vi/claim_52] [tensor_programs_vi/claim_53]
    [tensor_programs_vi/claim_54] [tensor_programs_vi/claim_55], and appendix G.5 [tensor_programs_vi/claim_g1].
    """

    alpha: sp.Expr
    gamma: sp.Expr
    name: str
    stable_at_init: bool
    stable_in_training: bool | None
    output_stable: bool | None
    nontrivial: bool | None
    faithful_at_init: bool
    faithful_in_training: bool | None
    feature_learning: bool | None
    redundant: bool | None
    layerwise_linear: bool | None
    diversity_exponent: sp.Expr | None
    exponents: dict[str, sp.Expr]
    reasons: tuple[str, ...]

    def latex(self) -> str:
        """The exponents as lines of an ``aligned`` environment."""
        lines = [rf"\alpha = {latex(self.alpha)}, \; \gamma = {latex(self.gamma)} &: \text{{{self.name}}}"]
        lines += [rf"\text{{{name}}} &\sim {_power(exponent)}" for name, exponent in self.exponents.items()]
        return " \\\\\n".join(lines)

    def _repr_latex_(self) -> str:
        return "$\\displaystyle\\begin{aligned}\n" + self.latex() + "\n\\end{aligned}$"

    def __str__(self) -> str:
        return "\n".join([f"alpha = {self.alpha}, gamma = {self.gamma}: {self.name}", *self.reasons])


def _power(exponent: sp.Expr) -> str:
    if exponent is sp.oo:
        return r"\text{exponential}"
    return "0" if exponent is -sp.oo else f"L^{{{latex(exponent)}}}"


def judge(alpha: sp.Expr, gamma: sp.Expr, region: Region, exponents: Exponents) -> Verdict:
    """Apply the definitions of paper B, section 5, to the exponents of the region that (alpha, gamma) lies in."""
    point = point_of({ALPHA: alpha, GAMMA: gamma}, (ALPHA, GAMMA)) if region.size else ()
    e = SimpleNamespace(**exponents.at(point))
    starts = bool(max(e.x_init, e.h_init, e.f_init) <= 0)
    later = [(t, v.at(point)) for t, v in exponents.explosions]
    breaks = bool(later or exponents.grows)
    undecided = starts and breaks and max(e.dx, e.df) <= 0 and not exponents.exact
    outputs = None if undecided else bool(starts and max(e.dx, e.df) <= 0 and not breaks)
    stable = None if undecided and e.dh <= 0 else bool(outputs and e.dh <= 0)
    nontrivial = bool(e.df == 0) if outputs else None
    faithful_init = bool(e.h_init == 0)
    faithful = None if undecided and e.dh <= 0 else bool(outputs and max(e.h_init, e.dh) == 0)
    learning = None if undecided else bool(outputs and e.dh == 0)
    diversity = _diversity(e) if outputs else None
    linear = bool(e.linearisation < -1) if outputs else None
    redundant = None if diversity is None else bool(diversity == 0)
    if not starts:
        name = "explodes at initialisation"
    elif e.x_init is -sp.oo:
        name = "decays"
    elif undecided:
        name = "undecided, with h growing"
    elif not outputs:
        name = "unstable in training"
    elif not nontrivial:
        name = "trivial" if stable else "trivial, with h growing"
    elif not stable:
        name = "converges in x and f, not in h"
    else:
        name = "Depth-muP" if faithful_init and faithful and learning and not redundant else "ODE limit"
    reasons = (
        f"initialisation: {_sizes(x=e.x_init, h=e.h_init, f=e.f_init)}"
        + (f"; a sweep multiplies by exp(L^({later[0][1]}))" if later and not starts else "")
        + f", {_word(starts, 'stable', 'not stable')}",
        f"training: one step changes {_sizes(x=e.dx, h=e.dh, f=e.df)}"
        + (f"; at step {later[0][0]} a sweep multiplies by exp(L^({later[0][1]}))" if later and starts else "")
        + ("; exponents grow with every step" if exponents.grows else "")
        + (", at most; the activation may hold it back, so that x and f are undecided" if undecided else
           f": x and f {_word(outputs, 'are', 'are not')} stable, with h {_word(stable, 'stable', 'not stable')}"),
        _undefined("nontrivial", nontrivial) or
        f"nontrivial: the change of f is {_size(e.df)}: {_word(nontrivial, 'yes', 'no')}",
        f"faithful: h is {_size(e.h_init)} at initialisation ({_word(faithful_init, 'yes', 'no')}) and "
        f"{_size(max(e.h_init, e.dh))} in training ({_word(faithful, 'yes', 'no')})",
        f"feature learning: the change of h is {_size(e.dh)}: {_word(learning, 'yes', 'no')}",
        _undefined("diversity", diversity) or
        f"diversity: a piece eps of the network adds noise, eps^(1/2) times {_size(e.noise, 1)}, and drift, eps times "
        f"{_size(e.drift, 1)}: exponent {diversity}, {_word(redundant, 'redundant', 'not redundant')}",
        _undefined("layerwise linear", linear) or
        f"layerwise linear: linearising a smooth activation in the update errs by {_size(e.linearisation)} a layer; "
        f"less than 1/L is allowed: {_word(linear, 'yes', 'no')}",
    )
    named = {"x at initialisation": e.x_init, "h at initialisation": e.h_init, "change of f": e.df,
             "change of x": e.dx, "change of h": e.dh, "update of h": e.update, "noise of x over a piece": e.noise,
             "drift of x over a piece": e.drift, "linearisation error of a layer": e.linearisation}
    return Verdict(alpha, gamma, name, starts, stable, outputs, nontrivial, faithful_init, faithful, learning,
                   redundant, linear, diversity, named, reasons)


def _diversity(e: SimpleNamespace) -> sp.Expr | None:
    """1 - (power of eps in the size of what a piece eps adds), depth first to infinity, then eps to 0."""
    pieces = [(e.noise, sp.Rational(1, 2)), (e.drift, sp.Integer(1))]
    surviving = [power for exponent, power in pieces if exponent == 0]
    return 1 - min(surviving) if surviving else None


def _size(exponent: sp.Expr, unit: int | str = "of order one") -> str:
    if exponent is sp.oo:
        return "exponential in L"
    return "0" if exponent is -sp.oo else str(unit) if exponent == 0 else f"L^({exponent})"


def _sizes(**sizes: sp.Expr) -> str:
    return ", ".join(f"{name} {_size(exponent)}" for name, exponent in sizes.items())


def _word(flag: bool | None, yes: str, no: str) -> str:
    return yes if flag else no


def _undefined(name: str, value: object) -> str:
    return f"{name}: undefined here" if value is None else ""
