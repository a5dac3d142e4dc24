"""Audits of parametrizations: raw powers of L for every matrix, and the exponents that they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping

from .._checks import short
from .._shown import Short, or_why
from ..parametrizations import DepthChoices, Parametrization, Scaling
from ..programs import ResNet
from ..programs.resolved import resolved
from .advice import as_power
from .classify import classify
from .verdict import Verdict


@dataclass(frozen=True, repr=False)
class MatrixAudit(Short):
    """The audit of raw powers of L, matrix by matrix: their exponents (``scaling``, for ``tp.train``) and the verdict.

    verdict: that of a negligible eps; eps_in_charge: that where eps outgrows the gradients of the matrices in
    ``outgrown``, None where it outgrows none, or where gradients are no powers of L.

    >>> import tpcalc as tp
    >>> from tpcalc.parametrizations import DepthChoices
    >>> raw = {"W1": DepthChoices(-1, 0, eps=-1), "W2": DepthChoices(-1, -1, eps=-1)}
    >>> print(tp.theory.audit_matrices(tp.Parametrization(depth=raw), net=tp.ResNet("linear", "mlp")))
    alpha = 1, gamma of W1 = 0, gamma of W2 = 1: ODE limit
    W1: branch L^(-1), init 1, lr 1, eps L^(-1): learns
    W2: branch L^(-1), init 1, lr L^(-1), eps L^(-1): lazy
    """

    choices: Mapping[str, DepthChoices]
    scaling: Scaling
    verdict: Verdict
    eps_in_charge: Verdict | None = None
    outgrown: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The verdict's name, that of a negligible eps."""
        return self.verdict.name

    def __str__(self) -> str:
        charged = self.eps_in_charge
        lines = [f"{self.verdict.where}: {self.name}{', while eps is negligible' * (charged is not None)}"]
        if charged is not None:
            lines.append(f"with eps in charge of {', '.join(self.outgrown)}, from a depth on that is not known: "
                         f"{charged.where}: {charged.name}")
        for name, one in self.choices.items():
            set_to = ", ".join(f"{key} {as_power(size)}" for key, size in one.powers.items())
            lines.append(f"{name}: {set_to}: {or_why(lambda: self.verdict.matrices[name].name)}")
        return "\n".join(lines)


def audit_matrices(scale: Parametrization, net: ResNet | None = None) -> MatrixAudit:
    """The audit of raw powers of L, matrix by matrix: the exponents that they are, in both regimes of eps.

    scale: a ``tp.Parametrization`` of raw powers, {matrix: tpcalc.parametrizations.DepthChoices}; net: the network
    whose matrices they are for, default the linear residual network. Raises ``ValueError`` for anything else and for a
    parametrization that has exponents already. Source: Tensor Programs VI, Definition 4.1 and section 5.

    >>> import tpcalc as tp
    >>> from tpcalc.parametrizations import DepthChoices
    >>> tp.theory.audit_matrices(tp.Parametrization(depth={"W": DepthChoices("-1/2", "-1/2")})).scaling
    DepthScaling(alpha=1/2, gamma=1/2, branch=1.0, base_depth=1)
    """
    if not isinstance(scale, Parametrization):
        raise ValueError(f"scale: got {short(scale)}; expected a tp.Parametrization of raw powers of L")
    if net is not None and not isinstance(net, ResNet):
        raise ValueError(f"net: got {short(net)}; expected a tp.ResNet or None")
    if scale.choices is None:
        raise ValueError(f"scale: got {scale!r}, which has exponents; tp.classify judges these; expected raw "
                         "powers of L, tpcalc.parametrizations.DepthChoices for every matrix")
    for choices in scale.choices.values():
        choices.require_numbers()
    net = ResNet() if net is None else net
    names, verdict = net.trained_of_block, classify(scale, net=net)
    found, charged = (resolved(scale, eps=eps).over(names, ends=False) for eps in (False, True))
    outgrown = tuple(name for name in names if found.update_exponent(name) != charged.update_exponent(name)
                     ) if verdict.stable_at_init else ()
    return MatrixAudit(scale.choices, found, verdict, classify(charged, net=net) if outgrown else None, outgrown)
