"""All named recipes beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from .._shown import TableRows, Tabled
from ..parametrizations.recipes import NAMED
from .advice import power
from .own_block import RecipeAudit, audit_on_block
from .recipe import named

COLUMNS = ("recipe", "block", "optimizer", "branch", "init", "lr", "eps", "weight_decay", "alpha", "gamma", "verdict")


class NamedRecipes(Tabled, Mapping[str, RecipeAudit]):
    """Audits of the recipes that ``tp.recipe`` knows, by name; printed, a table of powers of L and verdicts.

    Each is judged on its own block, by its own optimizer, when it is asked for; what of a source's block is not
    covered, the audit's ``caveat`` says. outside: recipes that are not judged, by name, and why.

    >>> import tpcalc as tp
    >>> tp.named_recipes()["depth-mup"].verdict.name
    'Depth-muP'
    """

    def __init__(self) -> None:
        self.outside = {one.name: one.outside for one in NAMED if one.outside}

    def __getitem__(self, name: str) -> RecipeAudit:
        if name not in list(self):
            raise KeyError(name)
        return _audited(name)

    def __iter__(self) -> Iterator[str]:
        return (one.name for one in NAMED if not one.outside)

    def __len__(self) -> int:
        return sum(not one.outside for one in NAMED)

    @property
    def rows(self) -> TableRows:  # type: ignore[override]
        """One a recipe, with the keys of ``COLUMNS``; of recipes that are not judged name and reason alone."""
        found = TableRows()
        for name, audit in self.items():
            each = [{key: power(size) for key, size in one.powers.items()} for one in audit.choices.values()]
            powers = {key: _together(one[key] for one in each) for key in each[0]}
            found.append({"recipe": name, "block": audit.block, "optimizer": audit.optimizer, **powers,
                          "alpha": str(audit.alpha), "gamma": _together(map(str, audit.gammas.values())),
                          "verdict": audit.verdict.name})
        return TableRows([*found, *({"recipe": name, "verdict": f"not judged: {why}"}
                                    for name, why in self.outside.items())])

    def __repr__(self) -> str:
        return f"NamedRecipes({', '.join(self)})"

    def __str__(self) -> str:
        rows = self.rows
        table = [dict(zip(COLUMNS, COLUMNS)), *rows[:len(self)]]
        widths = {key: max(len(row.get(key, "-")) for row in table) for key in COLUMNS}
        lines = ["  ".join(row.get(key, "-").ljust(widths[key]) for key in COLUMNS).rstrip() for row in table]
        lines += [f"{row['recipe'].ljust(widths['recipe'])}  {row['verdict']}" for row in rows[len(self):]]
        wide = [f"{name}: in width, updates are n^({audit.width}) as large as hidden matrices take; a learning rate "
                f"like n^({-audit.width}) repairs it" for name, audit in self.items() if audit.width]
        return "\n".join([*lines, *wide])


def _together(values: Iterator[str]) -> str:
    """What is set for all matrices of a block, in their order, once where it is the same."""
    each = list(values)
    return each[0] if len(set(each)) == 1 else ", ".join(each)


@lru_cache(maxsize=64)
def _audited(name: str) -> RecipeAudit:
    return audit_on_block(named(name))


def named_recipes() -> NamedRecipes:
    """The recipes that ``tp.recipe`` knows, audited: a mapping from names to audits that prints as a table.

    >>> import tpcalc as tp
    >>> "depth-mup" in tp.named_recipes()
    True
    """
    return NamedRecipes()
