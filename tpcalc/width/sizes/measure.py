"""Sizes of all members of a program, each from the narrowest window that decides it."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Iterable, Mapping, Sequence

import sympy as sp

from ..._types import Sizes
from ...errors import NotCovered
from ...orders.affine import Affine, Region
from ...programs.language import Member
from ...programs.program import Program
from .algebra import Cancellation
from .leading import LeadingSize, matrix_norm_size, leading_size
from .operators import OperatorSize
from .powers import AffinePowers
from .interpreter import SizeInterpreter

WINDOWS = (Fraction(0), Fraction(1, 2), Fraction(1), Fraction(3, 2), Fraction(2))


@dataclass(frozen=True)
class Found:
    """The powers of n of expressions, and for those that are refused, why.

    sizes: by expression, as they were asked for; refused: by expression. at_most: powers of n that some of the refused
    do not exceed. region: where all comparisons come out alike.
    """

    parameters: tuple[sp.Symbol, ...]
    sizes: Mapping[sp.Expr, LeadingSize]
    refused: Mapping[sp.Expr, str] = field(default_factory=dict)
    at_most: Mapping[sp.Expr, Affine] = field(default_factory=dict)
    region: Region = Region(0)

    def bound(self, e: sp.Expr) -> sp.Expr:
        """A power of n that the size does not exceed, oo where none is known."""
        form = self.at_most.get(e)
        return self.power(e) if e in self.sizes else sp.oo if form is None else form.expression(self.parameters)

    def power(self, e: sp.Expr) -> sp.Expr:
        """The power of n, -oo for what vanishes; raises ``ValueError`` for what was refused, with the reason."""
        if e in self.refused:
            raise NotCovered(f"{e}: {self.refused[e]}")
        form = self.sizes[e].power
        return -sp.oo if form is None else form.expression(self.parameters)


def measure(program: Program, sizes: Sizes, values: Mapping[sp.Symbol, sp.Expr] = {},
            numbers: Mapping[str, sp.Expr] = {}, asked: Iterable[sp.Expr] | None = None,
            windows: Sequence[Fraction] = WINDOWS) -> Found:
    """Find the powers of n of expressions in a program's members, or of everything that it assigns.

    Parameters
    ----------
    program, sizes:
        the program, and numbers for its sizes. A power of n is written with ``tpcalc.width.sizes.WIDTH``.
    values:
        a point of the symbols in exponents, by symbol.
    numbers:
        values of other parameters, by name; those that are not here are numbers that nothing is known of.
    asked:
        vectors and numbers, as expressions in members of the program; None for all members, matrices by their norms.
    windows:
        how much smaller than the leading term, in powers of n, terms may be that are kept; one after the other.

    A size is that of the root mean square of a vector, and what a number is multiplied by n^-power to be of order one.
    Narrow windows are tried first; what no window decides is refused, by expression, and so is all that comes after a
    statement that has no rule.

    >>> from tpcalc.scaling import width_recipe
    >>> from tpcalc.width.sizes import perceptron
    >>> program = perceptron(width_recipe("NTP", layers=3))
    >>> found = measure(program, {"T": 2})
    >>> {str(e): str(found.power(e)) for e in found.sizes if e.name in ("h2", "f", "dx2")}
    {'h2[0]': '0', 'f[0]': '0', 'dx2[0]': '1/2', 'h2[1]': '0', 'f[1]': '0', 'dx2[1]': '1/2'}
    """
    parameters = tuple(sorted(values, key=str))
    found: dict[sp.Expr, LeadingSize] = {}
    refused: dict[sp.Expr, str] = {}
    at_most: dict[sp.Expr, Affine] = {}
    powers = AffinePowers(parameters, values)
    queries = list(asked) if asked is not None else [statement.target for statement in program.unroll(sizes)]
    for window in windows:
        reading = SizeInterpreter(program, sizes, powers, window, numbers)
        refused = _run(reading, queries, found, at_most)
        if not refused:
            break
    return Found(parameters, {e: found[e] for e in queries if e in found}, refused, at_most, powers.region)


def _run(reading: SizeInterpreter, queries: list[sp.Expr], found: dict[sp.Expr, LeadingSize],
         at_most: dict[sp.Expr, Affine]
         ) -> dict[sp.Expr, str]:
    """One pass over the program: what it decides goes to ``found``, what it does not comes back with reasons."""
    refused: dict[sp.Expr, str] = {}
    targets = {statement.target for statement in reading.statements()}
    open_ones = {e: e.atoms(Member) & targets for e in queries if e not in found}
    needed = frozenset().union(*open_ones.values())
    stopped = ""
    for statement in reading.statements():
        if needed <= set(reading.values):
            break
        try:
            reading.assign(statement)
        except NotCovered as problem:
            stopped = str(problem)
            break
    for e, members in open_ones.items():
        if not members <= set(reading.values):
            refused[e] = f"not reached: {stopped}"
            continue
        try:
            found[e] = _size(reading, e)
        except Cancellation as problem:
            refused[e] = str(problem)
            if problem.at_most is not None:
                at_most[e] = problem.at_most
        except NotCovered as problem:
            refused[e] = str(problem)
    return refused


def _size(reading: SizeInterpreter, e: sp.Expr) -> LeadingSize:
    value = reading.read(e)
    return matrix_norm_size(reading.algebra, value) if isinstance(value,
                                                                  OperatorSize) else leading_size(reading.algebra,
                                                                                                  value)
