"""LaTeX of ket expressions in the order the field writes them: numbers before kets, sums over steps last; of words."""

from __future__ import annotations

import re

import sympy as sp
from sympy.printing.latex import LatexPrinter
from sympy.printing.precedence import PRECEDENCE

SPECIAL = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
           "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}",
           ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}"}

CHARACTERS = {code: character for character, code in SPECIAL.items()}


WORD = re.compile(r"\\[A-Za-z]+(?:\{[A-Za-z]+\})?|(?<![A-Za-z])(?:[a-z]{2,}|[A-Z][a-z]+)(?![A-Za-z])")  # or a command


GREEK = {"alpha": r"\alpha", "gamma": r"\gamma", "eps": r"\varepsilon"}
FORMULA = re.compile(  # in sentences: symbols, with powers that stand in brackets
    r"\bexp\((?P<inside>L(?:\^\([^()]+\))?)\)|\b1/L\b"
    r"|(?<![\w'])(?P<base>alpha|gamma|eps|W[a-z\d]|[fhnxLN]|10(?=\^))(?![\w'])(?:\^\((?P<power>[^()]+)\))?")


class NodePrinter(LatexPrinter):
    """sympy's LaTeX printer, but for nodes of ours in powers and products. Nodes may say by ``latex_precedence`` how
    tight their LaTeX binds, where it differs from their text; one that is a product would take in what follows it."""

    def parenthesize(self, item: sp.Expr, level: int, is_neg: bool = False, strict: bool = False) -> str:
        own = getattr(item, "latex_precedence", None)
        if own is None:
            return str(super().parenthesize(item, level, is_neg, strict))
        text = self._print(item)
        return rf"\left({text}\right)" if own < level or not strict and own == level else text

    def _needs_mul_brackets(self, expr: sp.Expr, first: bool = False, last: bool = False) -> bool:
        if hasattr(expr, "latex_precedence"):
            return not last and _is_product(expr)
        return bool(super()._needs_mul_brackets(expr, first, last))

    def _helper_print_standard_power(self, expr: sp.Pow, template: str) -> str:
        text = self._print(expr.base)
        closed = text.endswith((r"\rangle", ")"))
        if hasattr(expr.base, "_latex") and not closed and any(part in text for part in ("^", "frac", r"\sum")):
            return str(template % (rf"\left({text}\right)", self._print(expr.exp)))
        return str(super()._helper_print_standard_power(expr, template))

    def _print_Sum(self, expr: sp.Sum) -> str:
        text, inside = super()._print_Sum(expr), self._print(expr.function)
        return rf"{text.removesuffix(inside)}\left({inside}\right)" if inside.startswith("-") and not (
            expr.function.is_Add) else str(text)


class KetPrinter(NodePrinter):
    """The printer of nodes, but for the order of terms and factors. Nodes say by ``is_random`` that they stand after
    numbers, by ``is_fraction`` that no other fraction holds them, and by ``is_part`` that their terms stand after
    others."""

    def _as_ordered_terms(self, expr: sp.Expr, order: str | None = None) -> list[sp.Expr]:
        terms = super()._as_ordered_terms(expr, order=order)
        return sorted(terms, key=lambda e: (e.has(sp.Sum), e.has(sp.KroneckerDelta) or _has(e, "is_part")))

    def _print_Mul(self, expr: sp.Expr) -> str:
        """Products and quotients. Numbers stand in front of kets, sums and fractions, as one fraction where they have a
        denominator; a ket in the denominator over which only a number stands is written as sympy writes it."""
        late = [f for f in expr.args if f.func == sp.Sum or _is_product(f) or getattr(f, "is_random", False)
                or getattr(f, "is_fraction", False) or f.is_Add and _has(f, "is_random")]
        early = [f for f in expr.args if f not in late]
        fractions = any(getattr(f, "is_fraction", False) for f in late)
        if not expr.is_Mul or not late or not early and not fractions:  # powers below a fraction line come here, too
            return str(super()._print_Mul(expr))
        front = sp.Mul(*early)
        above, below = sp.fraction(front)
        if above.is_number and _has(below, "is_random"):
            return str(super()._print_Mul(expr))
        text = {1: "", -1: "-"}[front] if front in (1, -1) else self._print(front)
        if front.is_Add:
            text = rf"\left({text}\right)"
        late.sort(key=lambda f: 2 * (f.func == sp.Sum) + _is_product(f) - getattr(f, "is_fraction", False))
        return " ".join([*filter(None, [text]), *(
            rf"\left({self._print(f)}\right)" if self._needs_mul_brackets(f, last=f == late[-1]) else self._print(f)
            for f in late)])


def _is_product(node: sp.Basic) -> bool:
    return getattr(node, "latex_precedence", None) == PRECEDENCE["Mul"]


def _has(expression: sp.Expr, trait: str) -> bool:
    return any(getattr(node, trait, False) for node in sp.preorder_traversal(expression))


def statement_latex(expression: sp.Expr) -> str:
    """LaTeX of a side of a statement, in sympy's order."""
    return str(NodePrinter().doprint(expression))


def latex(expression: sp.Expr) -> str:
    """LaTeX of an expression with kets, Gamma and C in it."""
    return KetPrinter().doprint(expression.replace(
        lambda e: isinstance(e, sp.Sum) and bool(e.function.as_coeff_Mul()[0].is_negative),
        lambda e: -sp.Sum(-e.function, *e.limits)))


def with_upright_words(name: str) -> str:
    r"""LaTeX of a name whose words are no products of letters: value is upright, Wq is W with the index q.

    >>> print(with_upright_words("value"), with_upright_words("Wq"), with_upright_words(r"\delta nV"))
    \mathrm{value} {W_q} \delta nV
    """
    def written(found: re.Match[str]) -> str:
        word = found[0]
        if word.startswith("\\"):
            return word
        return "{%s_%s}" % tuple(word) if len(word) == 2 and word[0].isupper() else rf"\mathrm{{{word}}}"
    return WORD.sub(written, name)


def with_formulas(text: str) -> str:
    """A sentence whose symbols and their powers are formulas between dollar signs, for ``rich``.

    >>> print(with_formulas("the change of h is L^(-1/2) eps^(1/2), less than 1/L"))
    the change of $h$ is $L^{-1/2}$ $\\varepsilon^{1/2}$, less than $1/L$
    """
    def written(found: re.Match[str]) -> str:
        base, power, inside = found["base"] or "", found["power"], found["inside"]
        if inside is not None:
            return rf"$\exp({with_formulas(inside).strip('$')})$"
        name = with_upright_words(GREEK.get(base, base)) if base else "1/L"
        if not power:
            return f"${name}$"
        exponent = re.sub(r"[a-z]+", lambda one: GREEK.get(one[0], one[0]), power).replace("*", " ")
        return f"${name}^{{{exponent}}}$"
    return FORMULA.sub(written, text)


def escape_as_codes(text: str) -> str:
    """Plain text for TeX, every character as it is; beyond ASCII by its code."""
    return "".join(SPECIAL.get(c, c if c.isascii() else f"[U+{ord(c):04X}]") for c in text)


def unescape(text: str) -> str:
    """What ``escape_as_codes`` wrote, as it was; raises ``ValueError`` for other commands, which are no text.

    >>> unescape(escape_as_codes(r"<a> & 5% of {x}"))
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
    return "".join(part if i % 2 else escape_as_codes(part) for i, part in enumerate(parts))
