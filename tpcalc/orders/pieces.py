"""Expressions with maxima and minima, and the exact regions on which they are affine."""

from __future__ import annotations

from typing import Iterator, Sequence

import sympy as sp

from .affine import Affine, Region


def pieces(expressions: Sequence[sp.Expr], region: Region, parameters: Sequence[sp.Symbol]
           ) -> Iterator[tuple[Region, tuple[sp.Expr, ...]]]:
    """The parts of a region on which every maximum and minimum is one of its arguments, and what is left there.

    Parts do not overlap: where two arguments are equal the later one is taken. Raises ``NotAffine`` for arguments that
    are not affine with rational coefficients.

    >>> x = sp.Symbol("x", real=True)
    >>> for part, (found,) in pieces([sp.Max(x, 1) / 2], Region(1), [x]):
    ...     print(part.expressions([x]), found)
    (x >= 1,) x/2
    (x < 1,) 1/2
    """
    inner = sorted((e for one in expressions for e in one.atoms(sp.Max, sp.Min)
                    if not any(arg.has(sp.Max, sp.Min) for arg in e.args)), key=sp.default_sort_key)
    if not inner:
        yield region, tuple(map(sp.expand, expressions))
        return
    first, second, *rest = sorted(inner[0].args, key=sp.default_sort_key)
    larger = isinstance(inner[0], sp.Max)
    for holds, part in divided(region, Affine.of(second - first, parameters)):
        kept = inner[0].func(second if holds == larger else first, *rest)
        yield from pieces([one.xreplace({inner[0]: kept}) for one in expressions], part, parameters)


def divided(region: Region, form: Affine) -> Iterator[tuple[bool, Region]]:
    """The parts where a form is not negative, and where it is, without empty ones."""
    for holds, part in ((True, region.where(form, ">=")), (False, region.where(form, "<"))):
        if not part.is_empty:
            yield holds, part
