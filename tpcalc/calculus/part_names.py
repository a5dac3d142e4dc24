"""Names for long parts of equations and steps in LaTeX: functions of gradients under copies, sums within powers."""

from __future__ import annotations

from typing import Iterable

import sympy as sp

from ..programs.language import Outer
from ..derivations.printing import latex
from .kets import Averaged
from .setting import Setting

MOST_OPERATIONS = 12  # of what is written within a mean, or in a power
LETTERS = "QRSVXYZ"


class PartNames:
    """Names of the long parts of expressions, in the order in which they come.

    Parts are functions of gradients under independent copies, and sums over layers within powers, as norms make them.
    """

    def __init__(self, setting: Setting, values: Iterable[sp.Expr]) -> None:
        self.setting = setting
        self.names: dict[sp.Expr, sp.Symbol] = {}
        self._lines: dict[sp.Expr, str] = {}
        self.said: set[sp.Expr] = set()
        self._note(values)

    def _note(self, values: Iterable[sp.Expr]) -> None:
        for value in values:
            for one in sorted(filter(_is_long, value.atoms(Averaged, sp.Pow)), key=sp.default_sort_key):
                part = _part(one)
                if part not in self.names:
                    self.names[part] = self._name(part, len(self.names))
                    text = one.latex_of_body() if isinstance(one, Averaged) else latex(part)
                    self._lines[part] = f"{self.names[part]} &= {text}"

    @property
    def lines(self) -> list[str]:
        """What the names stand for."""
        return list(self._lines.values())

    def more(self, values: Iterable[sp.Expr]) -> "PartNames":
        """With names for the parts of other expressions; those so far are known to the reader."""
        self.said |= set(self.names)
        self._note(values)
        return self

    def new_in(self, value: sp.Expr) -> list[str]:
        """Lines of the names in an expression that the reader does not know, who knows them from here on."""
        parts = dict.fromkeys(map(_part, value.atoms(Averaged, sp.Pow)))
        new = sorted((part for part in parts if part in self.names and part not in self.said), key=sp.default_sort_key)
        self.said |= set(new)
        return [self._lines[part] for part in new]

    def written(self, value: sp.Expr) -> sp.Expr:
        """The expression with names for the parts that have one."""
        long = [one for one in value.atoms(Averaged, sp.Pow) if _part(one) in self.names]
        return value.xreplace({one: one.func(self.names[_part(one)], one.args[1]) for one in long})

    def _name(self, body: sp.Expr, number: int) -> sp.Symbol:
        """A letter with the step and the layer that the part is of, and a number once letters are used up."""
        roles = self.setting.program.index_roles()
        bound = {limit[0] for total in body.atoms(sp.Sum) for limit in total.limits}
        within = body.atoms(Outer) or {body}
        free = sorted(set().union(*(one.free_symbols for one in within)) - bound | (
            {self.setting.time, self.setting.past} & body.free_symbols), key=str)
        layers = [sp.latex(s) for s in free if roles.get(s) == "layer"]
        below = [sp.latex(s) for s in free if roles.get(s, "clock") != "layer" and s not in self.setting.program.sizes]
        again, letter = divmod(number, len(LETTERS))
        index = " ".join([*[f"({again + 1})"] * bool(again), *below])
        return sp.Symbol(rf"\mathcal{{{LETTERS[letter]}}}_{{{index}}}"
                         + (rf"^{{{' '.join(layers)}}}" if layers else ""))


def _part(node: sp.Expr) -> sp.Expr:
    part: sp.Expr = node.body if isinstance(node, Averaged) else node.base
    return part


def _is_long(node: sp.Expr) -> bool:
    within = isinstance(node, Averaged) or node.base.is_Add and node.base.has(sp.Sum) and not node.exp.is_Integer
    return bool(within and _part(node).count_ops() > MOST_OPERATIONS)
