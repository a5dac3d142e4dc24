"""The orthogonal factor of a matrix, in the language: what Muon makes of gradients."""

from __future__ import annotations

import sympy as sp
from sympy.printing.printer import Printer

from .._checks import symbolic
from ..programs.language import OfOuters, Outer, is_linear_in_outers


class Polar(OfOuters):
    """U V^T of the singular vectors of a sum of outer products: its singular values set to 1, what is 0 left 0.

    body: a sum of numbers times outer products; steps: 0 for the factor itself, k for k Newton-Schulz steps towards it.
    Only the sign of a number in front of the body counts. It is a sum of outer products of the same vectors, whose
    weights are functions of their overlaps [tpcalc/muon_on_gram_matrices]. Raises ``TypeError`` for other bodies.
    """

    steps = property(lambda self: int(self.args[1]))

    def __new__(cls, body: sp.Basic, steps: int = 0) -> sp.Expr:
        body = symbolic(body)
        if not body.has(Outer) or not is_linear_in_outers(body):
            raise TypeError(f"{body}: an orthogonal factor is that of a sum of outer products")
        return super().__new__(cls, body, sp.Integer(steps))

    def _sympystr(self, printer: Printer) -> str:
        return f"polar({printer.doprint(self.body)}{f', {self.steps} steps' if self.steps else ''})"

    def _latex(self, printer: Printer) -> str:
        name = r"\operatorname{polar}" + (f"_{{{self.steps}}}" if self.steps else "")
        return rf"{name}\left({printer.doprint(self.body)}\right)"
