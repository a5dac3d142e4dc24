"""All named recipes beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from .._shown import Tabled
from .._types import Fields
from .own_block import RecipeAudit, audit_on_block
from .named import NAMED
from .recipe import named_recipe

COLUMNS = ("recipe", "block", "optimizer", "branch", "init", "lr", "eps", "weight_decay", "alpha", "gamma", "verdict",
           "eps in charge")


class NamedRecipes(Tabled, Mapping[str, RecipeAudit]):
    """Audits of the recipes that ``tp.recipe`` knows, by name; printed, a table of powers of L and verdicts.

    Each is judged on its own block, by its own optimizer, when it is asked for; what of a source's block is not
    covered, the audit's ``caveat`` says. outside: recipes that are not judged, by name, and why; there is none.

    >>> import tpcalc as tp
    >>> tp.named_recipes()["depth-mup"].verdict.name
    'Depth-muP'
    """

    def __init__(self) -> None:
        self.outside: dict[str, str] = {}

    def __getitem__(self, name: str) -> RecipeAudit:
        if name not in list(self):
            raise KeyError(name)
        return _audited(name)

    def __iter__(self) -> Iterator[str]:
        return (one.name for one in NAMED)

    def __len__(self) -> int:
        return len(NAMED)

    @property
    def rows(self) -> list[Fields]:  # type: ignore[override]
        """One a recipe, with the keys of ``COLUMNS``."""
        found: list[Fields] = []
        for name, audit in self.items():
            powers = [audit.powers_of(names) for names in audit.groups]
            keys = {key: None for one in powers for key in one}
            gammas = [str(audit.gammas.get(names[0], "-")) for names in audit.groups]
            found.append({"recipe": name, "block": audit.block, "optimizer": audit.optimizer,
                          **{key: _together([one.get(key, "-") for one in powers]) for key in keys},
                          "alpha": str(audit.alpha), "gamma": _together(gammas), "verdict": audit.called,
                          "eps in charge": audit.called_in_charge or "-"})
        return found

    def __repr__(self) -> str:
        return f"NamedRecipes({', '.join(self)})"

    def __str__(self) -> str:
        table = [dict(zip(COLUMNS, COLUMNS)), *self.rows]
        widths = {key: max(len(row.get(key, "-")) for row in table) for key in COLUMNS}
        lines = ["  ".join(row.get(key, "-").ljust(widths[key]) for key in COLUMNS).rstrip() for row in table]
        wide = [f"{name}: in width, updates are n^({audit.width}) as large as hidden matrices take; a learning rate "
                f"like n^({-audit.width}) repairs it" for name, audit in self.items() if audit.width]
        return "\n".join([*lines, *wide])


def _together(each: list[str]) -> str:
    """What is set for the groups of a block's matrices, in their order, once where it is the same."""
    return each[0] if len(set(each)) == 1 else ", ".join(each)


@lru_cache(maxsize=64)
def _audited(name: str) -> RecipeAudit:
    return audit_on_block(named_recipe(name))


def named_recipes() -> NamedRecipes:
    """The recipes that ``tp.recipe`` knows, audited: a mapping from names to audits that prints as a table.

    >>> import tpcalc as tp
    >>> "depth-mup" in tp.named_recipes()
    True
    """
    return NamedRecipes()
