"""LaTeX of ket expressions in the order the field writes them: numbers before kets, sums over steps last; of words."""

from __future__ import annotations

import re

import sympy as sp
from sympy.printing.latex import LatexPrinter

SPECIAL = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
           "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}",
           ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}"}

CHARACTERS = {code: character for character, code in SPECIAL.items()}


class PowerPrinter(LatexPrinter):
    """sympy's LaTeX printer, but for powers of nodes of ours that have an index above, or several parts."""

    def _helper_print_standard_power(self, expr: sp.Pow, template: str) -> str:
        text = self._print(expr.base)
        closed = text.endswith((r"\rangle", ")"))
        if hasattr(expr.base, "_latex") and not closed and any(part in text for part in ("^", r"\tfrac", r"\sum")):
            return str(template % (rf"\left({text}\right)", self._print(expr.exp)))
        return str(super()._helper_print_standard_power(expr, template))


class KetPrinter(PowerPrinter):
    """sympy's LaTeX printer, but for the order of terms and factors, and powers.

    Nodes say by ``is_random`` that they stand behind numbers, and by ``is_part`` that their terms stand behind others.
    """

    def _as_ordered_terms(self, expr: sp.Expr, order: str | None = None) -> list[sp.Expr]:
        terms = super()._as_ordered_terms(expr, order=order)
        return sorted(terms, key=lambda e: (e.has(sp.Sum), e.has(sp.KroneckerDelta) or any(
            getattr(node, "is_part", False) for node in sp.preorder_traversal(e))))

    def _print_Sum(self, expr: sp.Sum) -> str:
        text = super()._print_Sum(expr)
        inside = self._print(expr.function)
        return text if not inside.startswith("-") else text.replace(inside, rf"\left({inside}\right)", 1)

    def _print_Mul(self, expr: sp.Expr) -> str:
        late = [f for f in expr.args if f.func == sp.Sum or getattr(f, "is_random", False)]
        early = [f for f in expr.args if f not in late]
        if not late or not early:
            return super()._print_Mul(expr)
        front = sp.Mul(*early)
        text = self._print(front)
        if front == -1:
            text = "-"
        elif front.is_Add:
            text = rf"\left({text}\right)"
        return " ".join([text] + [self._print(f) for f in sorted(late, key=lambda f: f.func == sp.Sum)])


def statement_latex(expression: sp.Expr) -> str:
    """LaTeX of a side of a statement, in sympy's order."""
    return str(PowerPrinter().doprint(expression))


def latex(expression: sp.Expr) -> str:
    """LaTeX of an expression with kets, Gamma and C in it."""
    return KetPrinter().doprint(expression)


def escape(text: str) -> str:
    """Plain text for TeX, every character as it is; beyond ASCII by its code."""
    return "".join(SPECIAL.get(c, c if c.isascii() else f"[U+{ord(c):04X}]") for c in text)


def unescape(text: str) -> str:
    """What ``escape`` wrote, as it was; raises ``ValueError`` for other commands, which are no text.

    >>> unescape(escape(r"<a> & 5% of {x}"))
    '<a> & 5% of {x}'
    """
    def character(code: re.Match[str]) -> str:
        if code[0] not in CHARACTERS:
            raise ValueError(f"text: {text!r} has no plain form: {code[0]!r} is not known")
        return CHARACTERS[code[0]]

    return re.sub(r"\\text[a-z]+\{\}|\\[a-zA-Z]+|\\.|\\$", character, text)


def rich(text: str) -> str:
    """Text with formulas between dollar signs."""
    parts = re.split(r"(\$[^$]*\$)", text)
    return "".join(part if i % 2 else escape(part) for i, part in enumerate(parts))
