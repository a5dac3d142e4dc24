"""Masks: numbers 0 and 1 that choose, and through which no gradient goes."""

from __future__ import annotations

from typing import Iterable, Sequence

import sympy as sp
from sympy.core.relational import Relational
from sympy.printing.printer import Printer

from .._checks import symbolic
from ..errors import NotCovered
from .language import Mean, Member, Real, kind
from .program import Assign


class Mask(sp.Function):  # type: ignore[misc]
    """1 of what is positive, else 0, with the derivative 0: what a choice is multiplied by, as training has it.

    Automatic differentiation gives choices this derivative: it is that of the step wherever the step has one.

    >>> import sympy as sp
    >>> x = sp.Symbol("x", real=True)
    >>> Mask(3), Mask(0), Mask(x), sp.diff(x * Mask(x), x)
    (1, 0, mask(x), mask(x))
    """

    is_real = True

    @classmethod
    def eval(cls, x: sp.Expr) -> sp.Expr | None:
        """Its value, where the sign of ``x`` is known."""
        if x.is_positive:
            return sp.Integer(1)
        return sp.Integer(0) if x.is_nonpositive else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        """0, which is what a choice gives on."""
        return sp.Integer(0)

    def _sympystr(self, printer: Printer) -> str:
        return f"mask({printer.doprint(self.args[0])})"

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        text = rf"\mathbb{{1}}\left[{printer.doprint(self.args[0])} > 0\right]"
        return text if exp is None else rf"{text}^{{{exp}}}"

    def _numpycode(self, printer: Printer) -> str:
        return f"{printer._module_format('numpy.heaviside')}({printer.doprint(self.args[0])}, 0.0)"


def among_largest(values: Sequence[sp.Expr], count: int) -> list[sp.Expr]:
    """For each of some numbers 1 where it is among the ``count`` largest, else 0; of equal ones the first is larger.

    >>> import sympy as sp
    >>> among_largest([sp.Integer(k) for k in (3, 5, 3, 1)], 2)
    [1, 1, 0, 0]
    >>> a, b = sp.symbols("a b", real=True)
    >>> among_largest([a, b], 1), among_largest([a, b], 2)
    ([mask(1/2 - mask(-a + b)), mask(mask(-a + b) - 1/2)], [1, 1])
    """
    if count >= len(values):
        return [sp.Integer(1)] * len(values)

    def before(number: int) -> sp.Expr:
        """How many come before it."""
        own = values[number]
        found = [*(1 - Mask(own - one) for one in values[:number]), *(Mask(one - own) for one in values[number + 1:])]
        return sp.Add(*found)

    return [Mask(count - sp.Rational(1, 2) - before(number)) for number in range(len(values))]


class Quantile(Real):
    """The number that a share of a vector's coordinates is above, midway to the next one: what the largest exceed.

    Of n coordinates floor(share n) are above it, or fewer where some are equal. It is compared with and has no
    derivative of its own: a mask has none in it. Raises ``ValueError`` for a share that is no number between 0 and 1,
    ``TypeError`` for what is no vector.

    >>> import sympy as sp
    >>> from tpcalc.programs.language import Family, Vector
    >>> s = Family(Vector, "s")()
    >>> Mask(s - Quantile(s, sp.Rational(1, 4)))
    mask(-quantile_1/4(s) + s)
    """

    own_kind = "scalar"
    body = property(lambda self: self.args[0])
    share = property(lambda self: self.args[1])

    def __new__(cls, body: sp.Basic, share: sp.Basic) -> sp.Expr:
        body, share = symbolic(body), symbolic(share)
        if not share.is_number or not 0 < share < 1:
            raise ValueError(f"share: got {share}; expected a number between 0 and 1")
        if kind(body) != "vector":
            raise TypeError(f"quantile({body}): a {kind(body)} has no coordinates; expected a vector")
        return super().__new__(cls, body, share)

    def _eval_derivative(self, symbol: sp.Symbol) -> sp.Expr:
        raise NotCovered(f"{self}: a quantile has no derivative here; expected it in a mask, by a name of its own")

    def _sympystr(self, printer: Printer) -> str:
        return f"quantile_{self.share}({printer.doprint(self.body)})"

    def _latex(self, printer: Printer) -> str:
        return rf"\mathrm{{quantile}}_{{{self.share}}}\left({printer.doprint(self.body)}\right)"


JUMPS = (sp.sign, sp.Heaviside)
KINKS = (sp.Abs, sp.Max, sp.Min)
TIES = ("what is compared may tie at infinite width, as logits do that have not learned, and fluctuations of real "
        "networks decide; expected a finite width, or nothing chosen")


def require_no_choice(what: str, statements: Iterable[Assign], of_vectors: bool = False) -> None:
    """Raise ``NotCovered`` for a statement with a mask of numbers, which have no sizes of their own at infinite width
    where they tie, and, where ``of_vectors``, with any mask; what: given the statement, what it is in."""
    for statement in statements:
        for mask in sorted(statement.value.atoms(Mask), key=sp.default_sort_key):
            if kind(mask) == "scalar":
                raise NotCovered(f"{what}; {statement.target} has a choice in it, {mask}; {TIES}")
            if of_vectors:
                raise NotCovered(f"{what}; {statement.target} has a choice in it, {mask}; kets are expanded by "
                                 "derivatives, and a step has another one than training gives a mask; expected "
                                 "particles, or nothing chosen")


def require_no_ties(what: str, statements: Iterable[Assign], readouts: Iterable[str]) -> None:
    """Raise ``NotCovered`` for a statement of a block that chooses by numbers without a mask: by pieces, by signs and
    steps, and, of numbers that the trained vectors ``readouts`` read off others, by what has a kink where they tie."""
    learned = set(readouts)
    for statement in statements:
        value = statement.value
        if kind(statement.target) == "scalar" and learned & _names(value):
            learned.add(statement.target.name)
        for node in sorted(value.atoms(sp.Piecewise, *JUMPS, *KINKS), key=sp.default_sort_key):
            compared = [condition for _, condition in node.args] if isinstance(node, sp.Piecewise) else [node]
            numbers = [one for piece in compared for one in _numbers(piece)]
            if any(not isinstance(node, KINKS) or learned & _names(one) for one in numbers):
                raise NotCovered(f"{what}; {statement.target} has a choice in it, {node}; {TIES}")


def _names(expression: sp.Basic) -> set[str]:
    return {one.name for one in expression.atoms(Member)}


def _numbers(compared: sp.Basic) -> list[sp.Expr]:
    """What is compared, in relations and in arguments, where it is numbers that a network makes."""
    nodes = [compared] if isinstance(compared, sp.Expr) else compared.atoms(Relational)
    return [one for node in nodes if all(kind(one) == "scalar" for one in node.args)
            for one in node.args if one.has(Member, Mean)]
