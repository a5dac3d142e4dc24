"""Named parametrizations as data: what is set for input, hidden and output matrices, in powers of n and L."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import sympy as sp

from .._checks import choice, exponent
from .._shown import Short, Tabled, text_table
from .._types import Number, Fields
from ..errors import NotCovered
from ..parametrizations import DepthScaling, MatrixPowers, WidthScaling, width_recipe
from ..parametrizations.matrix_powers import ROLES
from ..width.family import meta_principled
from .advice import as_power
from ..programs.faithful import faithful_rate, update_power
from .recipe import named_recipe, realize, visible_decay

ROWS = ("init", "rate", "multiplier", "eps", "decay")
FIXED = "rates, eps and decay left as they are"  # SP's, of which nothing is derived: it is what people start from


@dataclass(frozen=True)
class RoleColumn:
    """A parametrization: its powers of n and the depth scaling of its blocks, and where both are from.

    published: the name of a recipe of ``tp.named_recipes`` whose own powers of L are taken for Adam(W), as they were
    published; left: are learning rates, eps and decay left as they are in width?
    """

    name: str
    source: str
    width: Callable[[sp.Expr], WidthScaling]
    depth: DepthScaling | None = None
    published: str = ""
    left: bool = False


MUP_SOURCE = "Tensor Programs IV, table 1, arXiv:2011.14522"
COLUMNS = (
    RoleColumn("SP", f"{MUP_SOURCE}; {FIXED}", lambda s: width_recipe("SP", 3), left=True),
    RoleColumn("NTP", MUP_SOURCE, lambda s: width_recipe("NTP", 3)),
    RoleColumn("muP", MUP_SOURCE, lambda s: width_recipe("muP", 3)),
    RoleColumn("MFP", "Meta-Principled Family, s = 1, arXiv:2210.04909", lambda s: meta_principled(1, 3)),
    RoleColumn("Depth-muP", "Tensor Programs VI, Claim 5.5, arXiv:2310.02244", lambda s: width_recipe("muP", 3),
               DepthScaling()),
    RoleColumn("CompleteP", "arXiv:2505.01618", lambda s: width_recipe("muP", 3), DepthScaling(1, 0), "completep"),
    RoleColumn("meta-principled", "Meta-Principled Family, (3.15), arXiv:2210.04909", lambda s: meta_principled(s, 3)))


@dataclass(frozen=True, repr=False)
class RoleTable(Tabled, Short):
    """Powers of n and L by role, row and column; ``str`` prints it.

    entry: {(column, role): (powers of n, powers of L)}, ``tpcalc.parametrizations.MatrixPowers`` both; sources: by
    column.
    """

    optimizer: str
    entries: dict[tuple[str, str], tuple[MatrixPowers, MatrixPowers]]
    sources: dict[str, str]

    @property
    def rows(self) -> list[Fields]:  # type: ignore[override]
        """A line a role and setting, a key a column."""
        found: list[Fields] = []
        for role in ROLES:
            for row in ROWS:
                if row == "eps" and self.optimizer == "sgd":
                    continue
                line = {"role": role, "setting": "weight decay" if row == "decay" else row}
                for column in self.sources:
                    wide, deep = (getattr(powers, row) for powers in self.entries[column, role])
                    line[column] = _said(wide or sp.Integer(0), deep or sp.Integer(0))
                found.append(line)
        return found

    def __str__(self) -> str:
        return text_table(self.rows)


def recipe_table(optimizer: str = "adam", s: Number = sp.Rational(1, 2)) -> RoleTable:
    """The table of named parametrizations: init, rate, multiplier, eps and weight decay of input, hidden and output.

    Parameters
    ----------
    optimizer:
        "sgd" or "adam". Learning rates of gradient descent are the width scalings' own; Adam's are those whose updates
        have the size that gradient descent's have, by the optimizer's own formula, eps goes with the gradients, and
        decay is the decoupled one that stays visible. Of SP, which is what people start from, nothing is derived.
    s:
        of the last column, a member of the meta-principled family.

    Raises ``ValueError`` for other optimizers and an s that is not real. Source: ``.sources``, by column; in depth
    Definition 4.1 [tensor_programs_vi/definition_41].

    >>> print(recipe_table("sgd").rows[5]["CompleteP"], recipe_table("adam").rows[6]["muP"])
    L n^(-1)
    """
    optimizer, metaparameter = choice("optimizer", optimizer, ("sgd", "adam")), exponent("s", s)
    entries = {(column.name, role): (_in_width(column, role, optimizer, metaparameter),
                                     _in_depth(column, role, optimizer)) for column in COLUMNS for role in ROLES}
    return RoleTable(optimizer, entries, {column.name: column.source for column in COLUMNS})


def _in_width(column: RoleColumn, role: str, optimizer: str, s: sp.Expr) -> MatrixPowers:
    """Powers of n, with all initial variances critical, so that hidden vectors are of order one."""
    scaling = column.width(s)
    a, b, c = scaling.abc()
    i = ROLES.index(role)
    init, multiplier = -b[i], -a[i]
    if column.left:
        return MatrixPowers(init, multiplier, 0, 0, 0)
    gradient = gradient_power(scaling, role) + a[i]  # of the raw matrix, n^-this
    moved = update_power("sgd", gradient, c)
    rate = -c if optimizer == "sgd" else -faithful_rate(optimizer, moved, gradient, gradient)
    return MatrixPowers(init, multiplier, rate, -gradient if optimizer == "adam" else None, -rate)


def gradient_power(scaling: WidthScaling, role: str) -> sp.Expr:
    """g, where derivatives in the entries of an effective matrix go like n^-g, losses' derivatives of order one:
    entries of what it acts on times those of the readout, but for the readout itself.

    >>> gradient_power(width_recipe("muP", 3), "hidden"), gradient_power(width_recipe("NTP", 3), "input")
    (1, 1/2)
    """
    if any(scaling.p[:-1]):
        raise NotCovered(f"scaling: got {scaling!r}; expected critical ones, with p = 0 but for the last")
    return sp.Integer(0) if role == "output" else sp.expand((1 + scaling.p[-1]) / 2)


def _in_depth(column: RoleColumn, role: str, optimizer: str) -> MatrixPowers:
    """Powers of L, which blocks' matrices alone have."""
    if column.depth is None or role != "hidden":
        return MatrixPowers()
    published = named_recipe(column.published).choices if column.published and optimizer == "adam" else None
    choices = published or realize(column.depth, optimizer)
    decay = choices.weight_decay if published else visible_decay(choices, "decoupled")
    return MatrixPowers(choices.init, choices.branch, choices.lr, choices.eps, decay)


def _said(wide: sp.Expr, deep: sp.Expr) -> str:
    parts = [as_power(wide, "n")] * bool(wide) + [as_power(deep)] * bool(deep)
    return " ".join(parts) or "1"
