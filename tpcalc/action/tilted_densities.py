"""What a block's action makes of overlaps away from its saddle, as a tilt of the law of a network asks for it.

The action is linear in the overlaps of (xt, delta), with coefficients T that are functions of the overlaps of (x, dt).
Of a pair of sites there are four of the former and eight of the latter; first derivatives of T say how densities answer
a tilt, second ones how overlaps of (x, dt) act back on each other.

Source: [tpcalc/action_principle].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from .action import ChainRule, Field, Inner, Kernel, MultiplyOut, a, action, at, b, delta, dt, x, xt

# overlaps of (x, dt) at sites a and b, in this order everywhere
SOURCES = sp.symbols("C_ab C_aa C_bb r_ab r_ba r_aa r_bb n_ab", real=True)
_PAIRS = ((x, a, x, b), (x, a, x, a), (x, b, x, b), (x, a, dt, b), (x, b, dt, a), (x, a, dt, a), (x, b, dt, b),
          (dt, a, dt, b))
# overlaps of (xt, delta): what Psi is linear in
TARGETS = ((xt, a, xt, b), (xt, a, delta, b), (delta, a, xt, b), (delta, a, delta, b))
KAPPA, THETA = "kappa", "theta"


@dataclass(frozen=True)
class PairAction:
    """The part of kappa or of -theta^m w^m_ab in the action of an ordered pair of sites, at the saddle: T (4,), its
    slopes (4, 8) and curvatures (4, 8, 8) in ``SOURCES``, in these and in ``Kernel``; of theta without its -w."""

    values: tuple[sp.Expr, ...]
    slopes: tuple[tuple[sp.Expr, ...], ...]
    curvatures: tuple[tuple[tuple[sp.Expr, ...], ...], ...]

    @property
    def kernels(self) -> list[Kernel]:
        """Derivatives of the kernel that occur."""
        everything = sp.Tuple(*(e for row in self.curvatures for line in row for e in line),
                              *(e for row in self.slopes for e in row), *self.values)
        return sorted(everything.atoms(Kernel), key=sp.default_sort_key)


@lru_cache(maxsize=None)
def derive_pair_action(part: str) -> PairAction:
    """The part ``KAPPA`` or ``THETA`` of the action of two sites, one matrix standing for all."""
    value = action(a, b, ("m",))
    w = at("w^m", a, b)
    value = value.subs(w, 0) if part == KAPPA else -value.coeff(w)
    for rule in (MultiplyOut(), ChainRule()):
        value = rule.apply(value)
    value = value.xreplace({Inner(Field(f, i), Field(g, j)): s for (f, i, g, j), s in zip(_PAIRS, SOURCES)})
    value = sp.expand(value)
    values = tuple(value.coeff(Inner(Field(f, i), Field(g, j))) for f, i, g, j in TARGETS)
    slopes = tuple(tuple(v.diff(s) for s in SOURCES) for v in values)
    curvatures = tuple(tuple(tuple(_at_saddle(e.diff(s)) for s in SOURCES) for e in row) for row in slopes)
    return PairAction(tuple(map(_at_saddle, values)), tuple(tuple(map(_at_saddle, row)) for row in slopes), curvatures)


def _at_saddle(value: sp.Expr) -> sp.Expr:
    """At the saddle: signals answer earlier steps only, response fields do not covary."""
    *_, r_ab, r_ba, r_aa, r_bb, n_ab = SOURCES
    terms = sp.Add.make_args(sp.expand(value.xreplace({r_aa: sp.S.Zero, r_bb: sp.S.Zero, n_ab: sp.S.Zero})))
    return sp.Add(*(term for term in terms if not {r_ab, r_ba} <= term.free_symbols))
