"""Statuses: computed from what the checks found, never written down."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Standing(Enum):
    """How well an entry stands, from what its proof and evidence gave and from the entries it uses."""

    FAILS = "fails"
    CITED = "cited"
    DEFINITION = "definition"
    EVIDENCED = "evidenced"
    DERIVED = "derived"
    DERIVED_THROUGHOUT = "derived throughout"


@dataclass(frozen=True)
class Status:
    """standing: the strongest that holds; refuted: the printed form fails its witness, the corrected one holds."""

    standing: Standing
    refuted: bool = False

    def __str__(self) -> str:
        return self.standing.value + (", refuted as printed" if self.refuted else "")


def standing_of(is_definition: bool, failed: bool, derived: bool, evidenced: bool, uses: list[Standing]) -> Standing:
    """The standing of an entry; ``uses``: the standings of what it uses.

    Definitions do not break a chain of derivations: they say what the statements are about.
    """
    if failed:
        return Standing.FAILS
    if is_definition:
        return Standing.DEFINITION
    if derived:
        settled = all(u in (Standing.DEFINITION, Standing.DERIVED_THROUGHOUT) for u in uses)
        return Standing.DERIVED_THROUGHOUT if settled else Standing.DERIVED
    return Standing.EVIDENCED if evidenced else Standing.CITED
