"""Audits of parametrizations: powers of L for every matrix, and the exponents that they are."""

from __future__ import annotations

from dataclasses import dataclass

from .._checks import short
from .._shown import Short, or_why
from ..parametrizations import Parametrization, Scaling
from ..programs import ResNet
from ..programs.by_parameter import exponents_of_powers, settings_in_layers
from ..programs.settings import Settings
from .advice import as_power
from .classify import classify
from .verdict import Verdict


@dataclass(frozen=True, repr=False)
class MatrixAudit(Short):
    """The audit of powers by parameter: their exponents (``scaling``, for ``tp.train``) and the verdict.

    verdict: that of a negligible eps; eps_in_charge: that where eps outgrows the gradients of the matrices in
    ``outgrown``, None where it outgrows none, or where gradients are no powers of L.

    >>> import tpcalc as tp
    >>> raw = tp.Parametrization(depth={
    ...     "branch": tp.Powers(multiplier={"L": -1}), "W1": tp.Powers(eps={"L": -1}),
    ...     "W2": tp.Powers(lr={"L": -1}, eps={"L": -1})})
    >>> print(tp.theory.audit_matrices(raw, tp.ResNet("linear", "mlp"), "adam"))
    alpha = 1, gamma of W1 = 0, gamma of W2 = 1: ODE limit
    W1: branch L^(-1), init 1, lr 1, eps L^(-1): learns
    W2: branch L^(-1), init 1, lr L^(-1), eps L^(-1): lazy
    """

    settings: Settings
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
        for name in self.settings.powers:
            set_to = ", ".join(f"{key} {as_power(size)}" for key, size in self.settings.said(name).items())
            lines.append(f"{name}: {set_to}: {or_why(lambda: self.verdict.matrices[name].name)}")
        return "\n".join(lines)


def audit_matrices(scale: Parametrization, net: ResNet | None = None, optimizer: object = None) -> MatrixAudit:
    """The audit of powers by parameter: the exponents that they are, in both regimes of eps.

    scale: a ``tp.Parametrization`` of ``tp.Powers``; net: the network that these are for, default the linear residual
    network; optimizer: one or its name, default gradient descent. Raises ``ValueError`` for anything else and for a
    parametrization that has exponents already. Source: Tensor Programs VI, Definition 4.1 and section 5.

    >>> import tpcalc as tp
    >>> raw = {"branch": tp.Powers(multiplier={"L": "-1/2"}), "W": tp.Powers(lr={"L": "-1/2"})}
    >>> tp.theory.audit_matrices(tp.Parametrization(depth=raw), optimizer="adam").scaling
    DepthScaling(alpha=1/2, gamma=1/2, branch=1.0, base_depth=1)
    """
    if not isinstance(scale, Parametrization):
        raise ValueError(f"scale: got {short(scale)}; expected a tp.Parametrization of powers by parameter")
    if net is not None and not isinstance(net, ResNet):
        raise ValueError(f"net: got {short(net)}; expected a tp.ResNet or None")
    if scale.parameters is None:
        raise ValueError(f"scale: got {scale!r}, which has exponents; tp.classify judges these; expected powers by "
                         "parameter, tp.Powers for every matrix")
    net = ResNet() if net is None else net
    given = settings_in_layers(scale, net, optimizer)
    for name in given.powers:
        for setting, power in given.said(name).items():
            if not power.is_number:
                raise ValueError(f"{setting}: got {power}; expected a real number, as a power of L")
    found, charged = (exponents_of_powers(scale, net, optimizer, eps).over(net.trained_of_block, ends=False)
                      for eps in (False, True))
    verdict = classify(found, net)
    outgrown = tuple(name for name in given.names if given.outgrown(name)) if verdict.stable_at_init else ()
    return MatrixAudit(given, found, verdict, classify(charged, net) if outgrown else None, outgrown)
