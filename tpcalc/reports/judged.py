"""A verdict with measured exponents beside it, as JSON can hold it: a stage of a report, printed by ``classify``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Sequence

import sympy as sp

from .._types import Json
from .. import DepthScaling, Divergence, ResNet, classify
from .options import Setup
from .progress import Progress

FLAGS = ("stable_at_init", "stable_in_training", "output_stable", "nontrivial", "faithful_at_init",
         "faithful_in_training", "feature_learning", "redundant", "layerwise_linear")


@dataclass(frozen=True)
class Classified:
    """A verdict in words, and exponents: rows of name, derived (text and LaTeX), measured, uncertainty.

    depths: at which was measured, None where nothing was; unmeasured: why not, where it was tried.
    """

    name: str
    flags: dict[str, bool | None]
    diversity_exponent: str | None
    reasons: list[str]
    latex: str
    rows: list[Json]
    depths: list[int] | None
    unmeasured: str
    assumptions: list[str]


DEEP, SHALLOW = tuple(2**k for k in range(7, 14)), tuple(2**k for k in range(3, 8))


def judge_network(setup: Setup, progress: Progress | None = None) -> Classified:
    """The verdict on a report's network at its scaling; measured where networks are linear."""
    if setup.net.is_plain:
        return judge_stage(setup.alpha, setup.gamma, progress=progress)
    found = judge_stage(setup.alpha, setup.gamma, (), progress, setup.net)
    return replace(found, unmeasured="exponents are measured with the exact solver of linear networks with one matrix "
                                     "a block; those of this network are derived alone")


def judge_stage(alpha: Fraction, gamma: Fraction, tries: Sequence[Sequence[int]] = (DEEP, SHALLOW),
                progress: Progress | None = None, net: ResNet | None = None) -> Classified:
    """The verdict, with slopes of the exact solver beside the derived exponents.

    tries: depths to measure at, those after the first where networks of the former ones overflow; none of
    them: no measurement. net: default the linear network, the only one that can be measured.
    """
    scale = DepthScaling(alpha, gamma)
    if net is not None and tries:
        net.require_plain("a measurement of exponents")
    verdict = classify(scale.alpha, scale.gamma, net)
    slopes, used, unmeasured = {}, None, ""
    if tries:
        from ..theory import measure_exponents  # only a measurement needs solvers, which take a second to import
    for depths in tries:
        try:
            slopes = {m.name: m for m in measure_exponents(scale.alpha, scale.gamma, depths, net, progress)}
        except Divergence as divergence:
            unmeasured = str(divergence)
        else:
            used, unmeasured = list(depths), ""
            break
    derived = {**verdict.exponents, **{name: m.derived for name, m in slopes.items()}}
    rows = []
    for name in [*slopes, *(n for n in derived if n not in slopes)]:  # those with a measurement first
        fitted = slopes[name].fitted if name in slopes else None
        rows.append({"name": name, "derived": None if derived[name] is None else str(derived[name]),
                     "derived_latex": None if derived[name] is None else sp.latex(derived[name]),
                     "derived_value": None if derived[name] is None else float(derived[name]),
                     "measured": None if fitted is None else -fitted.order,
                     "uncertainty": None if fitted is None else fitted.uncertainty})
    diversity = verdict.diversity_exponent
    return Classified(verdict.name, {flag: getattr(verdict, flag) for flag in FLAGS},
                      None if diversity is None else str(diversity),
                      [*verdict.reasons, *filter(None, [verdict.far_away])],
                      verdict.latex(), rows,
                      used, unmeasured, list(verdict.assumptions))
