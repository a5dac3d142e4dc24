"""Everything a report is written from, and what all reports say of it."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass, field, fields
from importlib import metadata
from typing import Any, Callable, ClassVar, Sequence

from ..._types import Json
from ... import __version__
from ...ledger.bibliography import bibtex
from .document import Block, Code, Paragraph, Plain
from ..judged import Classified
from ..options import ReportOptions
from .phase import DividedPlane
from ..stages import Converged, Derived, Networks

SIZES = ("depths", "widths", "network_depth", "seeds", "seed")
ELSEWHERE = ("outputs", "limit_outputs", "standard_error", "picture")
PACKAGES = ("numpy", "scipy", "sympy", "numba", "scikit-learn", "matplotlib", "jinja2", "latex2mathml")


def versions() -> dict[str, str]:
    """The versions of tpcalc, Python and the packages that had a part in it."""
    found = {"tpcalc": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


@dataclass
class FinishedStages:
    """What the stages of a report found, a field each, None where one has not run; and how they went.

    options: what was asked for; pdf: a sentence on report.pdf; by name of a stage, seconds of those that ran; why in
    ``failures`` for those that failed, and in ``left_out`` for those that refuse what ``refusing`` says.
    """

    refusing: ClassVar[str]  # what a stage may refuse, in words

    options: Any
    pdf: str
    failures: dict[str, str] = field(default_factory=dict, kw_only=True)
    left_out: dict[str, str] = field(default_factory=dict, kw_only=True)
    seconds: dict[str, float] = field(default_factory=dict, kw_only=True)
    versions: dict[str, str] = field(default_factory=versions, kw_only=True)

    def numbers(self) -> Json:
        """For report.json: the command, what was trained, versions, seconds, failures and what was left out; and each
        stage as a dictionary, without the fields of ``ELSEWHERE``, which have files of their own."""
        asked = self.options
        found: Json = {"command": asked.command(), "setup": asked.numbers, **{
            name: getattr(asked, name) for name in SIZES if hasattr(asked, name)}}
        found |= {name: getattr(self, name) for name in ("versions", "seconds", "failures", "left_out")}
        for one in fields(self):
            if one.default is None:
                stage = getattr(self, one.name)
                found[one.name] = None if stage is None else {
                    key: value for key, value in asdict(stage).items() if key not in ELSEWHERE}
        return found


@dataclass
class Results(FinishedStages):
    """Everything a report on a residual network is written from."""

    refusing: ClassVar[str] = "this network"

    options: ReportOptions
    derived: Derived | None = None
    converged: Converged | None = None
    networks: Networks | None = None
    classified: Classified | None = None
    plane: DividedPlane | None = None


def missing_stage(results: FinishedStages, stage: str) -> list[Block]:
    """In the place of a part whose stage has no result, why."""
    if stage in results.left_out:
        return [Paragraph(f"This part is left out for {results.refusing}:"), Plain([results.left_out[stage]])]
    return [Paragraph("This part was not computed:"),
            Plain([results.failures.get(stage, "interrupted before it was reached")])]


def of_stage(name: str, stage: str) -> Callable[[Callable[[Any, Any], list[Block]]], Callable[[Any], list[Block]]]:
    """A decorator: a part of a report that says what one stage found; why in its place where that has no result."""
    def decorate(say: Callable[[Any, Any], list[Block]]) -> Callable[[Any], list[Block]]:
        def part(results: Any) -> list[Block]:
            found = getattr(results, name)
            return missing_stage(results, stage) if found is None else say(results, found)
        return part
    return decorate


def failed(results: FinishedStages) -> list[Block]:
    """All stages that failed, with their messages."""
    if not results.failures:
        return []
    return [Paragraph("Parts of this report are missing:"),
            Plain([f"{stage}: {message}" for stage, message in results.failures.items()])]


def reproduce(results: FinishedStages, where: str) -> list[Block]:
    """The command, where numbers are, times and versions."""
    return [Paragraph("The command of this report:"), Code(results.options.command()),
            Paragraph(f"{where} Time of each part:"),
            Plain([f"{stage}: {seconds:.1f} s" for stage, seconds in results.seconds.items()]),
            Paragraph("Versions:"), Plain([", ".join(f"{name} {number}" for name, number in results.versions.items())])]


def references(keys: Sequence[str]) -> list[Block]:
    """The statements of the ledger that a report rests on, and their papers."""
    named = ", ".join(f"`{key}`" for key in keys)
    return [Paragraph(f"This report rests on these statements of the ledger, which `tpcalc prove` checks: {named}. "
                      "Their papers, also in [[file:references.bib]]:"), Code(bibtex(keys).rstrip())]
