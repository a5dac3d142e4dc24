"""Errata: a printed form, the corrected one, and a witness on which they part."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Callable

from .evidence import SIGMAS

FAR = 5.0  # errors between the printed form and the truth before it counts as refuted


@dataclass(frozen=True)
class Witness:
    """One case, one number, three ways to find it.

    truth: found without either form (real networks, an exact oracle), known to within ``error``; printed: what the
    printed form gives, ``None`` where it gives nothing because it reads what it does not define; corrected: what the
    corrected form gives. case: which number of what.
    """

    case: str
    truth: float
    error: float
    printed: float | None
    corrected: float

    @property
    def printed_fails(self) -> bool:
        """The printed form has no value, or one that is far from the truth."""
        return self.printed is None or not abs(self.printed - self.truth) <= FAR * self.error

    @property
    def corrected_holds(self) -> bool:
        return bool(abs(self.corrected - self.truth) <= SIGMAS * self.error)

    def __str__(self) -> str:
        printed = "nothing" if self.printed is None else f"{self.printed:.6g}"
        return (f"{self.case}: printed {printed}, corrected {self.corrected:.6g}, in truth {self.truth:.6g} +- "
                f"{self.error:.1g}")


class Slip(Enum):
    """What is wrong with a printed form, the worst first."""

    FALSE = "false"            # it says what is not so
    INCOMPLETE = "incomplete"  # it holds where a condition, or with a term, that it leaves out
    MISPRINT = "misprinted"    # what is meant is plain, from the context or from another place of the source

    @property
    def words(self) -> str:
        return self.value if self is Slip.MISPRINT else f"{self.value} as printed"

    def __lt__(self, other: "Slip") -> bool:
        return list(Slip).index(self) < list(Slip).index(other)


@dataclass(frozen=True)
class Erratum:
    """A slip of the source.

    slip: of which kind; where: the place in the source; printed: the printed form, in LaTeX; corrected: gives the
    corrected form in LaTeX, from objects of tpcalc; witness: finds the numbers. The slip counts only if the witness
    fails the printed form and passes the corrected one.
    """

    slip: Slip
    where: str
    printed: str
    corrected: Callable[[], str]
    witness: Callable[[], Witness]
