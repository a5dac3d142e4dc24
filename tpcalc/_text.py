"""Printed text: inside sympy expressions, and of what is shown in a notebook."""

from __future__ import annotations

import sympy as sp


class ProductText(sp.Symbol):
    """The text of a product in the place of that product; powers of it get parentheses, multiples none."""

    precedence = 55  # between those of Mul, 50, and of Pow, 60
    is_Symbol = False  # LaTeX would add parentheses of its own to a symbol with a superscript


class OuterText(ProductText):
    """The text of a product without a sign of multiplication, which other factors and fractions stay apart from."""

    precedence = 40  # that of Add: sympy takes a negative product for a sum


class Aligned:
    """What notebooks show by its ``latex()``, lines of an ``aligned`` environment."""

    def latex(self) -> str:
        raise NotImplementedError

    def _repr_latex_(self) -> str:
        return "$\\displaystyle\\begin{aligned}\n" + self.latex() + "\n\\end{aligned}$"
