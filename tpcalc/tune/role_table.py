"""Named parametrizations as data: what is set for input, hidden and output matrices, in powers of n and L."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Mapping

import sympy as sp

from .._checks import choice, exponent
from .._shown import Short, Tabled, text_table
from .._types import Number, Fields, Value
from ..scaling import DepthScaling, Powers, WidthScaling, width_recipe
from ..scaling.parametrization import ROLES, as_power
from ..training.by_parameter import powers_of_role
from ..width.family import meta_principled
from ..models import ResNet
from .blocks import realized_settings, set_on_block
from .recipe import MATRIX, named_recipe

ROWS = {"init": "init", "lr": "rate", "multiplier": "multiplier", "eps": "eps", "decay": "weight decay"}
Settings = Mapping[str, sp.Expr | int | None]  # by name, their powers of one size
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

    entries: {(column, role): tp.Powers}; sources: by column.

    >>> recipe_table("adam").entries["muP", "hidden"].lr
    {'n': -1}
    """

    optimizer: str
    entries: dict[tuple[str, str], Powers]
    sources: dict[str, str]

    @property
    def rows(self) -> list[Fields]:  # type: ignore[override]
        """A line a role and setting, a key a column."""
        found: list[Fields] = []
        for role in ROLES:
            for setting, row in ROWS.items():
                if setting == "eps" and self.optimizer == "sgd":
                    continue
                line = {"role": role, "setting": row}
                for column in self.sources:
                    wide, deep = (self.entries[column, role].of(setting, size) for size in ("n", "L"))
                    line[column] = _said(wide, deep)
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
    entries = {(column.name, role): _together(_in_width(column, role, optimizer, metaparameter),
                                              _in_depth(column, role, optimizer))
               for column in COLUMNS for role in ROLES}
    return RoleTable(optimizer, entries, {column.name: column.source for column in COLUMNS})


def _together(wide: Settings, deep: Settings) -> Powers:
    """Powers of n and of L; none of eps and of decay where there are none in width."""
    found: dict[str, Value] = {name: {"n": wide[name], "L": deep.get(name) or 0} for name in ROWS
                               if wide[name] is not None}
    return Powers(**found)


def _in_width(column: RoleColumn, role: str, optimizer: str, s: sp.Expr) -> Settings:
    """Powers of n, with all initial variances critical, so that hidden vectors are of order one."""
    scaling = column.width(s)
    a, b, _ = scaling.abc()
    i = ROLES.index(role)
    if column.left:
        return {"init": -b[i], "multiplier": -a[i], "lr": 0, "eps": 0, "decay": 0}
    found = powers_of_role(scaling, role, optimizer, -a[i])
    powers: Settings = {name: found.of(name, "n") for name in ROWS}
    return powers if optimizer == "adam" else {**powers, "eps": None}


def _in_depth(column: RoleColumn, role: str, optimizer: str) -> Settings:
    """Powers of L, which blocks' matrices alone have."""
    if column.depth is None or role != "hidden":
        return {}
    published = column.published and optimizer == "adam"
    found = set_on_block(named_recipe(column.published)) if published else realized_settings(
        ResNet(), optimizer, column.depth)
    name = found.names[-1]
    decay = found.decay_of(name) if published else found.visible_decay(MATRIX, "decoupled")
    return {"init": found.of(name, "init"), "multiplier": found.branch, "lr": found.of(name, "lr"),
            "eps": found.of(name, "eps"), "decay": decay}


def _said(wide: sp.Expr, deep: sp.Expr) -> str:
    parts = [as_power(wide, "n")] * bool(wide) + [as_power(deep)] * bool(deep)
    return " ".join(parts) or "1"
