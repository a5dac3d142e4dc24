"""An entry of the ledger: one statement of a paper, or of this project, and what is known about it."""

from __future__ import annotations

import copyreg
from dataclasses import dataclass
from typing import Any, Callable, Protocol

import sympy as sp

from ..derivations.printing import latex
from .errata import Erratum
from .evidence import Evidence
from .proof import Proof

KINDS = ("definition", "rule", "lemma", "proposition", "theorem", "claim", "remark")


class Statement(Protocol):
    """Anything that prints itself as the body of an ``aligned`` environment: programs, equations, recursions."""

    def latex(self) -> str: ...


@dataclass(frozen=True)
class Equation:
    """``target = value``, or another relation; relation, condition: in LaTeX, the latter printed last."""

    target: sp.Expr
    value: sp.Expr
    condition: str = ""
    relation: str = "="

    def latex(self) -> str:
        condition = rf", \quad {self.condition}" if self.condition else ""
        return rf"{latex(self.target)} &{self.relation} {latex(self.value)}{condition}"


@dataclass(frozen=True)
class Equations:
    """A statement made of equations between expressions of tpcalc."""

    equations: tuple[sp.Expr, ...]

    def latex(self) -> str:
        return " \\\\\n".join(e.latex() if hasattr(e, "latex") else rf"{latex(e.target)} &= {latex(e.value)}"
                              for e in self.equations)


@dataclass(frozen=True)
class OrderBound:
    """``terms`` are at most of the order L^power: what is printed is what evidence reads.

    terms: in LaTeX; power: of L, or of another ``variable``; condition: in LaTeX, printed last.
    """

    terms: tuple[str, ...]
    power: sp.Expr
    condition: str = ""
    variable: str = "L"

    def latex(self) -> str:
        condition = rf" \quad ({self.condition})" if self.condition else ""
        order = "1" if self.power == 0 else f"{self.variable}^{{{latex(self.power)}}}"
        return ", ".join(self.terms) + rf" &= O\left({order}\right){condition}"


@dataclass(frozen=True)
class Formula:
    """A statement for which the language has no objects yet, in LaTeX that no check reads."""

    body: str

    def latex(self) -> str:
        return self.body


@dataclass(frozen=True)
class Entry:
    """One statement.

    Parameters
    ----------
    key:
        paper and file in ``proofs/``, such as ``"tensor_programs_vi/lemma_d1"``.
    kind:
        ``"definition"``, ``"rule"``, ``"lemma"``, ``"proposition"``, ``"theorem"``, ``"claim"`` or ``"remark"``.
    title, source:
        a few words, and the paper with the number of the statement or equation.
    says:
        the statement in words; formulas between dollar signs.
    statement:
        makes the statement as an object with ``latex()``.
    assumptions:
        in words, each on its own.
    uses:
        keys of the entries that it needs.
    derive, evidence, errata:
        the proof, the measurements and the slips, if there are any.

    Raises ``ValueError`` for an unknown kind, an empty text, and a definition that claims a proof.
    """

    key: str
    kind: str
    title: str
    source: str
    says: str
    statement: Callable[[], Statement]
    assumptions: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    derive: Callable[[], Proof] | None = None
    evidence: Callable[[], Evidence] | None = None
    errata: tuple[Erratum, ...] = ()

    def __reduce__(self) -> Any:
        """An entry of the catalogue is its key; what it says are functions of its file, which others have too."""
        from .catalogue import entry, keys

        if self.key in keys() and entry(self.key) is self:
            return entry, (self.key,)
        return copyreg.__newobj__, (Entry,), dict(vars(self))  # type: ignore[attr-defined]

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.key}: got kind {self.kind!r}; expected {', '.join(map(repr, KINDS))}")
        for name in ("key", "title", "source", "says"):
            if not getattr(self, name).strip():
                raise ValueError(f"{self.key}: {name} is empty")
        if self.kind == "definition" and self.derive is not None:
            raise ValueError(f"{self.key}: a definition has nothing to derive")
        if self.key in self.uses:
            raise ValueError(f"{self.key}: uses itself")


def line(left: sp.Expr, right: sp.Expr) -> str:
    """``left = right`` as one line of an ``aligned`` environment."""
    return rf"{latex(left)} &= {latex(right)}"
