"""Functions of matrix entries for readings without matrices: phi, and the blocks of vectors that its arguments are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Mapping

import sympy as sp
from sympy.core.sorting import default_sort_key

from .._types import Array
from ..programs.language import Mean, NonlinearOuter, Scalar
from ..programs.indices import write_out
from .rank_one import separated, split_outer_products

Terms = tuple[tuple[sp.Expr, sp.Expr], ...]


@dataclass(frozen=True)
class EntryTerms:
    """phi of ``names``: those of numbers, then one for every argument; None where all is of rank one.

    evaluate: (run, loop indices) -> the numbers, and for every argument its pairs of blocks (or for every outer product
    the one pair).
    """

    phi: sp.Expr | None
    names: tuple[sp.Symbol, ...]
    evaluate: Callable[[Array, tuple[int, ...]], tuple[list[float], list[list[tuple[Array, Array]]]]]


def written_terms(node: NonlinearOuter, values: Mapping[sp.Symbol, Array], plain: set[sp.Symbol]
                  ) -> tuple[sp.Expr | None, tuple[sp.Symbol, ...], list[sp.Expr], list[Terms]]:
    """phi, the names of its numbers, these, and its arguments, where the ends of sums are numbers.

    values: of sizes and of the loop indices that sums depend on; plain: indices of sums that are written out.
    """
    body = _written_out(node.body.subs(values), plain)
    apart = separated(NonlinearOuter(body))
    if not apart.has(NonlinearOuter):
        return None, (), [], [((sp.Integer(1), term),) for term in sp.Add.make_args(sp.expand(apart))]
    whole, = apart.atoms(NonlinearOuter)
    factor = apart / whole
    phi, sums = split_outer_products(whole.body)
    phi = phi * factor
    numbers = sorted(phi.atoms(Scalar, Mean) | (phi.free_symbols - set(sums)), key=default_sort_key)
    numbers = [n for n in numbers if not any(n is not m and m.has(n) for m in numbers)]
    names = {number: sp.Symbol(f"x{i}", real=True) for i, number in enumerate(numbers)}
    return phi.xreplace(names), (*names.values(), *sums), numbers, list(sums.values())


def _written_out(body: sp.Expr, plain: set[sp.Symbol]) -> sp.Expr:
    """Sums over plain indices, or over a single number, term by term; sums over axes stay."""
    if not body.has(sp.Sum):
        return body

    def single(total: sp.Sum) -> sp.Expr:
        inside = _written_out(total.function, plain)
        apart = [limit for limit in total.limits if limit[0] in plain or limit[1] == limit[2]]
        axes = [limit for limit in total.limits if limit not in apart]
        inside = sp.Sum(inside, *axes) if axes else inside
        for limit in apart:
            inside = write_out(sp.Sum(inside, limit))
        return inside

    found = {total: single(total) for total in _outermost(body)}
    return body.xreplace(found)


def _outermost(body: sp.Expr) -> list[sp.Sum]:
    if isinstance(body, sp.Sum):
        return [body]
    return [found for part in body.args if isinstance(part, sp.Basic) for found in _outermost(part)]
