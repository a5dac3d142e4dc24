"""All named recipes beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .._shown import TableRows, Tabled
from ..parametrizations.recipes import NAMED
from .advice import power
from .audit import Audit, judge_choices
from .recipe import recipe

COLUMNS = ("recipe", "optimizer", "branch", "init", "lr", "eps", "weight_decay", "alpha", "gamma", "verdict")


class NamedRecipes(Tabled, Mapping[str, Audit]):
    """Audits of the recipes that ``tp.recipe`` knows, by name; printed, a table of powers of L and verdicts.

    Where a verdict is not about all of a recipe's block, the audit's ``caveat`` says so. outside: what is not covered
    at all, by name, and why.

    >>> import tpcalc as tp
    >>> tp.named_recipes()["depth-mup"].verdict.name
    'Depth-muP'
    """

    def __init__(self) -> None:
        recipes = [recipe(one.name) for one in NAMED if not one.outside]
        self._audits = {one.name: judge_choices(one.choices, caveat=one.caveat) for one in recipes}
        self.outside = {one.name: one.outside for one in NAMED if one.outside}

    def __getitem__(self, name: str) -> Audit:
        return self._audits[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._audits)

    def __len__(self) -> int:
        return len(self._audits)

    @property
    def rows(self) -> TableRows:  # type: ignore[override]
        """One a recipe, with the keys of ``COLUMNS``."""
        found = TableRows()
        for name, audit in self.items():
            powers = {key: power(size) for key, size in audit.choices.powers.items()}
            mark = " (*)" if audit.caveat else ""
            found.append({"recipe": name, "optimizer": audit.choices.optimizer, **powers, "alpha": str(audit.alpha),
                          "gamma": str(audit.gamma), "verdict": audit.verdict.name + mark})
        return found

    def __repr__(self) -> str:
        return f"NamedRecipes({', '.join(self)})"

    def __str__(self) -> str:
        table = [dict(zip(COLUMNS, COLUMNS)), *self.rows]
        widths = {key: max(len(row.get(key, "-")) for row in table) for key in COLUMNS}
        lines = ["  ".join(row.get(key, "-").ljust(widths[key]) for key in COLUMNS).rstrip() for row in table]
        notes = ["(*) of a block of one matrix without normalisation, which the source's are not: see .caveat"]
        return "\n".join([*lines, *notes, *(f"{name}: {why}" for name, why in self.outside.items())])


def named_recipes() -> NamedRecipes:
    """The recipes that ``tp.recipe`` knows, audited: a mapping from names to audits that prints as a table.

    >>> import tpcalc as tp
    >>> "depth-mup" in tp.named_recipes()
    True
    """
    return NamedRecipes()
