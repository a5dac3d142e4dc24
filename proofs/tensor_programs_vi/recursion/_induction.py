"""The constants of the induction behind Theorem D.3: its parts as they are printed, their sum, and where it leads."""

from __future__ import annotations

from typing import Sequence

import sympy as sp

c, t, s = sp.symbols("c t s", positive=True)

# for the forward pass of step t, given c for all earlier steps; bounds of new quantities are these times c_2 e^(c_1 p)
C3 = 3 * c * t  # change of Gamma from L/2 to L, times L
C4 = 4 * t * (t + 1) * c**2 + 2 * t * c  # slope of C
C5 = C4 + 1  # change of C from L/2 to L, times L
GAMMA_SLOPE = t * c
PRINTED_C1 = c**3 * t * (4 * c * t + 2 * C4 + 29) + t * c * (3 * C4 + 14) + c * (2 * C4 + 2 * c)

# (A1): the bounds of the four parts of C(p + 1/L) - C(p - 1/L), each a term at L^-2, with the number of terms
PARTS = (
    (2 * t * (s + 1), c**3 * t * (C3 + C5 + c * t + C4 + 13)),
    (2 * t * (s + 1), c**2 * (2 * C3 + 2 + 9 * c * t)),
    (sp.Integer(1), t * c * (C4 + 1 + 2 * C5 + 2)),
    (t, c * (2 * C4 + 9 * c * t)),
)


def counted() -> sp.Expr:
    """What c_1 has to be for the parts with all their terms, s = t - 1."""
    return sp.expand(sum(number * part for number, part in PARTS).subs(s, t - 1))


def one_by_one(step: int, constant: int) -> int:
    """The sum at whole numbers is added term by term."""
    total = 0
    for number, part in PARTS:
        for _ in range(int(number.subs({t: step, s: step - 1}))):
            total += int(part.subs({t: step, s: step - 1, c: constant}))
    return total


def logarithms(start: float, xi: Sequence[float], chi: Sequence[float], c1: sp.Expr) -> list[sp.Expr]:
    """ln c after each step, from c = ``start`` after step 0, by the induction with a given c_1.

    xi, chi: inputs and loss derivatives. The smallest that the proof allows: c_2 is taken at L' = oo, where its factor
    e^(c_1 / 2 L') is 1, and bounds on chi are replaced by its values. Raises ``ValueError`` for more than four steps:
    after the fourth not even the exponent of c can be held.
    """
    if len(xi) > 4:
        raise ValueError(f"xi: got {len(xi)} steps; expected at most 4")
    found = [sp.log(sp.Float(max(1.0, start)))]
    for step in range(1, len(xi)):
        numbers = {t: sp.Integer(step), c: sp.exp(found[-1])}
        c2 = max(max(value**2, abs(value)) for value in (xi[step], chi[step]))
        largest = max(bound.subs(numbers) for bound in (sp.Integer(1), GAMMA_SLOPE, C3, C4, C5))
        found.append(c1.subs(numbers).evalf() + sp.log(largest * c2).evalf())
    return found


def tower(logarithm: sp.Expr) -> str:
    """e^logarithm as 10^10^...^x."""
    exponent, height = logarithm / sp.log(sp.Float(10)), 1
    while exponent > 1e4:
        exponent, height = sp.log(exponent) / sp.log(sp.Float(10)), height + 1
    return "10^" * height + f"{float(exponent):.4g}"
