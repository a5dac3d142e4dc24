"""Everything a report is written from."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass, field
from importlib import metadata
from typing import Any

from .._types import Json
from .. import __version__
from .judged import Classified
from .options import ReportOptions
from .phase import DividedPlane
from .stages import Converged, Derived, Networks

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


@dataclass(kw_only=True)
class FinishedStages:
    """How the stages of a report went, by name: seconds of those that ran; why in ``failures`` for those that failed,
    and in ``left_out`` for those that refuse the network or its exponents."""

    failures: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=versions)

    def said(self, **stages: Any) -> Json:
        """For report.json: versions, seconds, failures and what was left out; and each stage as a dictionary.

        Fields of ``ELSEWHERE`` are dropped: they have files of their own. A stage that has not run is None.
        """
        found: Json = {"versions": self.versions, "seconds": self.seconds, "failures": self.failures,
                       "left_out": self.left_out}
        for name, stage in stages.items():
            found[name] = None if stage is None else {k: v for k, v in asdict(stage).items() if k not in ELSEWHERE}
        return found


@dataclass
class Results(FinishedStages):
    """What the stages found, None where a stage has not run."""

    options: ReportOptions
    pdf: str
    derived: Derived | None = None
    converged: Converged | None = None
    networks: Networks | None = None
    classified: Classified | None = None
    plane: DividedPlane | None = None

    def numbers(self) -> Json:
        """For report.json: the command, what was trained, and what ``said`` makes of all stages: numbers without the
        outputs, limits and errors of single samples, and without the picture of the plane."""
        options = self.options
        return {"command": options.command(), "setup": options.setup.numbers, "depths": options.depths,
                "widths": options.widths, "network_depth": options.network_depth, "seeds": options.seeds,
                "seed": options.seed, **self.said(
                    derived=self.derived, converged=self.converged, networks=self.networks, classified=self.classified,
                    plane=self.plane)}
