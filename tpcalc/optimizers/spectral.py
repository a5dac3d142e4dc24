"""Matrices that an optimizer makes of gradients as wholes: functions of their Gram matrices, in the language."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np
import sympy as sp
from sympy.printing.printer import Printer

from .._checks import symbolic
from ..errors import NotCovered
from ..programs.apart import Listed
from ..programs.language import OfOuters, Outer, is_linear_in_outers
from ..programs.backprop import COLUMNS, ROWS


class Spectral(OfOuters):
    """A matrix made of a sum of outer products, and of those of steps so far, that turns where these are turned.

    now: by part, a sum of numbers times outer products; past: by part, such sums step by step, or nothing; part: which
    part of the whole matrix this is, parts being put together in ``ROWS`` or ``COLUMNS``; more: what else the function
    is of, in a class that has it.

    ``whole`` is the function on small matrices; all else is derived from it: real networks, particles. It is a sum of
    outer products of the same vectors [tpcalc/muon_on_gram_matrices]. Raises ``TypeError`` for other sums.

    >>> from tpcalc.programs.language import Family, Vector
    >>> class Root(Spectral):
    ...     "Singular values by their roots."
    ...     def whole(self, now, past, rounding):
    ...         left, s, right = np.linalg.svd(now, full_matrices=False)
    ...         return (left * np.sqrt(s)) @ right, s[s > rounding]
    >>> u, v = (Family(Vector, name)() for name in "uv")
    >>> print(Root((Outer(u, v),)))
    Root(outer(u, v)/n)
    """

    now = property(lambda self: tuple(self.args[0]))
    past = property(lambda self: tuple(self.args[1]))
    part = property(lambda self: int(self.args[2]))
    in_rows = property(lambda self: int(self.args[3]) == ROWS)
    more = property(lambda self: self.args[4:])
    body = property(lambda self: self.now[self.part])

    def __new__(cls, now: Any, past: Any = (), part: Any = 0, how: Any = ROWS, *more: Any) -> sp.Expr:
        now, past = (sp.Tuple(*map(symbolic, some)) for some in (now, past))
        every = (*now, *(each for one in past for each in (one.args if isinstance(one, Listed) else (one,))))
        if not all(one.has(Outer) and is_linear_in_outers(one) for one in every):
            raise TypeError(f"{', '.join(map(str, (*now, *past)))}: {cls.__name__} is a function of sums of outer "
                            "products")
        how = ROWS if len(now) == 1 else how
        return super().__new__(cls, now, past, sp.Integer(part), sp.Integer(how), *map(symbolic, more))

    def whole(self, now: np.ndarray, past: Sequence[np.ndarray], rounding: float) -> tuple[np.ndarray, np.ndarray]:
        """The function of a small matrix, and of one for every step, in orthonormal vectors of both sides; and what is
        divided by in it that is not 0 within rounding, falling: what fluctuates among it is not told from a value.

        rounding: what rounding leaves of terms that cancel in any of them.
        """
        raise NotImplementedError

    def whole_after(self, known: list[Any], now: np.ndarray, past: Sequence[np.ndarray], rounding: float
                    ) -> tuple[np.ndarray, np.ndarray]:
        """``whole``, for a run that remembers: known: by step, what a class keeps of it that turns with nothing; a
        class that keeps something adds the steps that are new."""
        return self.whole(now, past, rounding)

    def doit(self, **hints: object) -> Spectral:
        """Itself: sums over steps stay apart."""
        return self

    def _in_whole(self, of: Callable[[sp.Expr], str], brackets: tuple[str, str]) -> str:
        """What it is a function of, all parts of a matrix in brackets: with ; above each other, with , side by side."""
        parts = ("; " if self.in_rows else ", ").join(map(of, self.now))
        return parts if len(self.now) == 1 else brackets[0] + parts + brackets[1]

    def _sympystr(self, printer: Printer) -> str:
        part = "" if len(self.now) == 1 else f"[{self.part + 1}]"
        return f"{self._name}({self._in_whole(printer.doprint, ('[', ']'))}{self._how}){part}"

    def _latex(self, printer: Printer) -> str:
        whole = self._of_whole(self._in_whole(printer.doprint, (r"\left[", r"\right]")), printer)
        return whole if len(self.now) == 1 else rf"\left({whole}\right)_{{{self.part + 1}}}"

    @property
    def _how(self) -> str:
        """What is said of it behind what it is a function of."""
        return ""

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _of_whole(self, inside: str, printer: Printer) -> str:
        """The function of the whole matrix, in LaTeX."""
        return rf"\operatorname{{{self._name}}}\left({inside}\right)"

    def transposed(self) -> sp.Expr:
        def turned(some: Sequence[sp.Expr]) -> list[sp.Expr]:
            return [one.xreplace({o: o.transposed() for o in one.atoms(Outer)}) for one in some]
        return self.func(turned(self.now), turned(self.past), self.part, COLUMNS if self.in_rows else ROWS, *self.more)


def in_whole(directions: Sequence[sp.Expr], part: int, how: int) -> sp.Expr:
    """The part of a whole matrix's direction, from what the directions of all parts would be if each were one by
    itself: numbers times functions of the same kind."""
    alone = [one.as_independent(Spectral, as_Add=False) for one in directions]
    number, node = alone[part]
    if not all(isinstance(one, Spectral) and other == number for other, one in alone):
        raise NotCovered(f"{directions[part]}: a matrix in parts moves as a whole along a number times a function of "
                         "Gram matrices; expected mlp_ratio=1 for other functions of them")
    past = [one.past[0] for _, one in alone if one.past]
    return number * node.func([one.now[0] for _, one in alone], past, part, how, *node.more)
