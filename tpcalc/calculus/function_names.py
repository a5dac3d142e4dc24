"""Names for long functions of gradients under independent copies, as equations and steps in LaTeX have them."""

from __future__ import annotations

from typing import Iterable

import sympy as sp

from ..programs.language import Outer
from .kets import Averaged
from .setting import Setting

MOST_OPERATIONS = 12  # of a function that is written within a mean
LETTERS = "QRSVXYZ"


class FunctionNames:
    """Names of the long functions in expressions, in the order in which they come; lines: what the names stand for."""

    def __init__(self, setting: Setting, values: Iterable[sp.Expr]) -> None:
        self.setting = setting
        self.names: dict[sp.Expr, sp.Symbol] = {}
        self.lines: list[str] = []
        for value in values:
            long = [one for one in value.atoms(Averaged) if one.body.count_ops() > MOST_OPERATIONS]
            for one in sorted(long, key=sp.default_sort_key):
                if one.body not in self.names:
                    self.names[one.body] = self._name(one.body, len(self.names))
                    self.lines.append(f"{self.names[one.body]} &= {one.latex_of_body()}")

    def written(self, value: sp.Expr) -> sp.Expr:
        """The expression with names for the functions that have one."""
        named = {one: one.func(self.names[one.body], one.args[1]) for one in value.atoms(Averaged)
                 if one.body in self.names}
        return value.xreplace(named)

    def _name(self, body: sp.Expr, number: int) -> sp.Symbol:
        """A letter with the step and the layer that the function is of, and a number once letters are used up."""
        roles = self.setting.program.index_roles()
        bound = {limit[0] for total in body.atoms(sp.Sum) for limit in total.limits}
        free = sorted(set().union(*(one.free_symbols for one in body.atoms(Outer))) - bound | (
            {self.setting.time, self.setting.past} & body.free_symbols), key=str)
        layers = [sp.latex(s) for s in free if roles.get(s) == "layer"]
        below = [sp.latex(s) for s in free if roles.get(s, "clock") != "layer" and s not in self.setting.program.sizes]
        again, letter = divmod(number, len(LETTERS))
        index = " ".join([*[f"({again + 1})"] * bool(again), *below])
        return sp.Symbol(rf"\mathcal{{{LETTERS[letter]}}}_{{{index}}}"
                         + (rf"^{{{' '.join(layers)}}}" if layers else ""))
