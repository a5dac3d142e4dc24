"""Mixtures of experts as blocks: several blocks, each weighed by a number that a router reads off the stream."""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

from .._checks import choice, positive_integer, whole_number
from ..programs.blocks import BLOCKS, GATES, HIDDEN, Block, Branch, after_gate, require_block
from ..programs.language import Mean
from ..programs.mask import among_largest
from .activations import activation, is_linear

GATE_KINDS = ("softmax", "sigmoid")
INITS = ("A", "B")
ROUTER_STARTS = ("normal", "zero")
NETWORKS_OWN = "network's"  # the activation, where none is said
MOST_EXPERTS = 256  # every one is several statements


@dataclass(frozen=True)
class MoE:
    """A mixture of experts, as ``block=`` of a ``tp.ResNet`` or ``mlp=`` of a ``tp.Transformer``.

    y = (1 / sqrt(k)) sum over the k active experts e of G_e W2_e phi(W1_e z), in convention B, of gates G_e of order
    one. Every expert has matrices of its own, as wide as the stream, and a router r_e, a trained vector that reads the
    logit s_e = r_e . z / n off what the block acts on. The number of experts is fixed as the width grows.

    Parameters
    ----------
    experts:
        E, how many there are.
    active:
        k, how many act on a vector: those with the largest logits, of equal ones the first; None stands for all. The
        choice has the derivative 0, as in automatic differentiation.
    gate:
        "softmax": G_e = k exp(s_e) / sum of exp(s_f) over the active ones; "sigmoid": G_e = 1 / (1 + exp(-s_e)).
    shared:
        how many experts act on all vectors besides, with the gate 1; they are numbered last, and have no routers.
    phi:
        the activation of experts, as in ``tp.ResNet``; None stands for the network's.
    init:
        "B": as above. "A": 1 / k stands in the place of 1 / sqrt(k): of softmax the sum over active experts of shares
        with the sum 1, as models are written, with entries of W2 that do not know k. In the trainer's terms, of shares
        and W2 alone, entries of W2 are N(0, k/m) at first in B and N(0, 1/m) in A, m being the width of an expert.
    router:
        how routers start: "normal", entries of r_e N(0, 1), so that those of the weights r_e / n are N(0, 1/n^2); or
        "zero".
    expert:
        what an expert is: "mlp" W2 phi(W1 z), "glu" W3 (phi(W1 z) * W2 z), or a function of a Branch, as a block;
        "swiglu", "geglu" and "reglu" stand for "glu" with "silu", "gelu" and "relu" as phi, which is then left out.

    In programs expert e has the matrices ``W1_e``, ``W2_e`` with entries N(0, 1/n), the router ``R_e`` and the logit
    ``s_e``. All move by updates of the size g, as ``tpcalc.programs.blocks.Branch.trained`` says; with a
    ``tp.Parametrization`` each by its own.

    At infinite width all logits start as 0: a number that is read off with weights that know nothing of the vector yet.
    With fewer active experts than there are, which act is decided by fluctuations of order n^(-1/2), and so are
    updates of logits that do not follow the size of a router's gradient: they have no deterministic limit, real
    networks alone are run (``width=n``), and the rest is refused.

    Raises ``ValueError`` for anything else, and for one active expert with "softmax": its gate is 1 whatever the logits
    are. Source: the mixture of experts of Shazeer et al. 2017 [arXiv:1701.06538].

    >>> import tpcalc as tp
    >>> net = tp.ResNet("tanh", tp.MoE(experts=2), norm="rms")
    >>> net.matrices_of_block, net.vectors_of_block
    (('W1_1', 'W2_1', 'W1_2', 'W2_2'), ('R_1', 'R_2'))
    >>> text = str(tp.program(net, tp.SGD(), tp.DepthScaling()))
    >>> lines = [line.strip() for line in text.splitlines()]
    >>> print(*(line for line in lines if line.startswith(("s_1", "share_1", "R_1[t"))), sep=chr(10))
    s_1[t, l] := mean(R_1[t, l]*n[t, l])
    share_1[t, l] := weight_1[t, l]/mass[t, l]
    R_1[t + 1, l] := R_1[t, l] - ds_1[t, l]*n[t, l]/sqrt(L)
    """

    experts: int
    active: int | None = None
    gate: str = "softmax"
    shared: int = 0
    phi: sp.Expr | str | None = None
    init: str = "B"
    router: str = "normal"
    expert: str | Block = "mlp"

    def __post_init__(self) -> None:
        object.__setattr__(self, "experts", positive_integer("experts", self.experts))
        active = self.experts if self.active is None else positive_integer("active", self.active)
        object.__setattr__(self, "active", active)
        object.__setattr__(self, "shared", whole_number("shared", self.shared, 0))
        if active > self.experts:
            raise ValueError(f"active: got {active} of experts={self.experts}; expected at most as many as there are")
        if self.experts + self.shared > MOST_EXPERTS:
            raise ValueError(f"experts: got {self.experts} and shared={self.shared}; every one has statements of its "
                             f"own; expected at most {MOST_EXPERTS} together")
        for name, allowed in (("gate", GATE_KINDS), ("init", INITS), ("router", ROUTER_STARTS)):
            object.__setattr__(self, name, choice(name, getattr(self, name), allowed))
        if active == 1 and self.gate == "softmax":
            raise ValueError(f"active: got 1 of experts={self.experts} with gate='softmax', which is 1 for one expert "
                             "whatever its logit is, so that routers get no gradient; expected at least 2, or "
                             "gate='sigmoid'")
        if self.phi is not None:
            activation(self.phi)
        expert, phi = after_gate(self.expert, NETWORKS_OWN if self.phi is None else self.phi, NETWORKS_OWN)
        object.__setattr__(self, "expert", expert)
        object.__setattr__(self, "phi", None if phi == NETWORKS_OWN else phi)
        if not callable(self.expert):
            object.__setattr__(self, "expert", choice("expert", self.expert, (*HIDDEN, *GATES)))

    def __call__(self, b: Branch) -> sp.Expr:
        """Write it on a branch."""
        b.experts.append(self)
        gates = self.gates(b) if b.weigh is None else b.weigh(self, b)
        value = sp.Add(*(gate * self._expert(b, e) for e, gate in enumerate(gates, 1)))
        return value + sp.Add(*(self._expert(b, self.experts + e) for e in range(1, self.shared + 1)))

    def logits(self, b: Branch) -> list[sp.Expr]:
        """What routers read off what the block acts on, expert by expert."""
        return [Mean(b.trained(f"R_{e}", self.router) * b.x) for e in range(1, self.experts + 1)]

    @property
    def over(self) -> sp.Expr:
        """What gates of order one are divided by: the root of how many are active, or their number."""
        return sp.sqrt(self.active) if self.init == "B" else sp.Integer(self.active)

    def gates(self, b: Branch) -> list[sp.Expr]:
        """What each expert is multiplied by: scalars that have names, times numbers."""
        logits = [b.let_scalar(f"s_{e}", logit) for e, logit in enumerate(self.logits(b), 1)]
        k, over = sp.Integer(self.active), self.over
        masks = among_largest(logits, int(k))
        if self.gate == "sigmoid":
            return [b.let_scalar(f"share_{e}", mask / (1 + sp.exp(-s))) / over
                    for e, (s, mask) in enumerate(zip(logits, masks), 1)]
        weights = [b.let_scalar(f"weight_{e}", mask * sp.exp(s)) for e, (s, mask) in enumerate(zip(logits, masks), 1)]
        total = b.let_scalar("mass", sp.Add(*weights))
        return [k / over * b.let_scalar(f"share_{e}", weight / total) for e, weight in enumerate(weights, 1)]

    def _expert(self, b: Branch, number: int) -> sp.Expr:
        """The output of an expert, a vector with a name."""
        own = replace(b, suffix=f"{b.suffix}_{number}")
        if self.phi is not None:
            own = replace(own, phi=activation(self.phi), is_linear=is_linear(self.phi))
        block = BLOCKS[self.expert] if isinstance(self.expert, str) else self.expert
        value = block(own)
        require_block(block, value, own)
        return own.let("o", value)
