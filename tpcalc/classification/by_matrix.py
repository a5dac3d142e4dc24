"""Audits of parametrizations: raw powers of L for every matrix, and the exponents that they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping

from .._shown import Short, or_why
from ..parametrizations import DepthChoices, Parametrization, Scaling
from ..programs import ResNet
from .advice import power
from .classify import classify
from .resolved import resolved
from .verdict import Verdict


@dataclass(frozen=True, repr=False)
class MatrixAudit(Short):
    """What raw powers of L, matrix by matrix, come to: the exponents (``scaling``, for ``tp.train``) and the verdict.

    >>> import tpcalc as tp
    >>> from tpcalc.parametrizations import DepthChoices
    >>> raw = {"W1": DepthChoices(-1, 0, eps=-1), "W2": DepthChoices(-1, -1, eps=-1)}
    >>> print(tp.audit(tp.Parametrization(depth=raw), net=tp.ResNet("linear", "mlp")))
    alpha = 1, gamma of W1 = 0, gamma of W2 = 1: ODE limit
    W1: branch L^(-1), init 1, lr 1, eps L^(-1): learns
    W2: branch L^(-1), init 1, lr L^(-1), eps L^(-1): lazy
    """

    choices: Mapping[str, DepthChoices]
    scaling: Scaling
    verdict: Verdict

    def __str__(self) -> str:
        lines = [f"{self.verdict.where}: {self.verdict.name}"]
        for name, one in self.choices.items():
            set_to = ", ".join(f"{key} {power(size)}" for key, size in one.powers.items())
            lines.append(f"{name}: {set_to}: {or_why(lambda: self.verdict.matrices[name].name)}")
        return "\n".join(lines)


def audit_parametrization(one: Parametrization, net: ResNet | None = None) -> MatrixAudit:
    """The audit of raw powers, matrix by matrix; ``ValueError`` for a parametrization that has exponents already."""
    if one.choices is None:
        raise ValueError(f"branch: {one!r} given, which has exponents; tp.classify judges these, allowed are raw "
                         "powers of L, tpcalc.parametrizations.DepthChoices for every matrix")
    for choices in one.choices.values():
        choices.require_numbers()
    net = ResNet() if net is None else net
    return MatrixAudit(one.choices, resolved(one).over(net.trained_of_block, ends=False), classify(one, net=net))
