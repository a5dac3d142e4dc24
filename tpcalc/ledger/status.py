"""Statuses and the rule for standings; ``checking.Ledger.statuses`` applies it to what the checks found. Never written
down."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .errata import Slip


class Standing(Enum):
    """How well an entry stands, from what its proof and evidence gave and from the entries it uses."""

    FAILS = "fails"
    UNDERMINED = "rests on what fails"
    CITED = "cited"
    DEFINITION = "definition"
    MEASURED = "measured"
    COMPARED = "compared"
    DERIVED = "derived"
    DERIVED_THROUGHOUT = "derived throughout"


@dataclass(frozen=True)
class Status:
    """standing: the strongest that holds; slips: the kinds of errata of the printed form, each shown by a witness."""

    standing: Standing
    slips: tuple[Slip, ...] = ()

    def __str__(self) -> str:
        kinds = dict.fromkeys(sorted(self.slips))
        return ", ".join([self.standing.value, *(slip.words for slip in kinds)])


def standing_of(is_definition: bool, failed: bool, own: Standing, uses: list[Standing]) -> Standing:
    """The standing of an entry; own: by its own checks, DERIVED, COMPARED, MEASURED or CITED; uses: of what it uses.

    Definitions do not break a chain of derivations: they say what the statements are about. Whatever rests on what
    fails, however far down, stands no better than that.
    """
    if failed:
        return Standing.FAILS
    if any(u in (Standing.FAILS, Standing.UNDERMINED) for u in uses):
        return Standing.UNDERMINED
    if is_definition:
        return Standing.DEFINITION
    settled = all(u in (Standing.DEFINITION, Standing.DERIVED_THROUGHOUT) for u in uses)
    return Standing.DERIVED_THROUGHOUT if own is Standing.DERIVED and settled else own
