"""Mixtures of experts as blocks: several blocks, each weighed by a number that a router reads off the stream."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import sympy as sp

from .._checks import choice, exact, exponent, positive_integer, short, whole_number
from ..errors import NotCovered
from ..programs.blocks import BLOCKS, GATES, HIDDEN, Block, Branch, after_gate, require_block
from ..programs.language import HeadSum, Matrix, MatVec, Mean, Scalar, Vector
from ..programs.special import Mask, Quantile, among_largest
from .activations import activation, is_linear

GATE_KINDS = ("softmax", "sigmoid")
INITS = ("A", "B")
ROUTER_STARTS = ("normal", "zero")
NETWORKS_OWN = "network's"  # the activation, where none is said
ROUTER, EXPERT = "router", "expert"  # what weights are of
MOST_EXPERTS = 256  # every one is several statements


@dataclass(frozen=True)
class MoE:
    """A mixture of experts, as ``block=`` of a ``tp.ResNet`` or ``mlp=`` of a ``tp.Transformer``.

    y = (1 / sqrt(k)) sum over the k active experts e of G_e W2_e phi(W1_e z), in convention B, of gates G_e of order
    one. Where ``experts`` is given, their number is fixed as the width grows: every expert has matrices of its own, as
    wide as the stream, and a router r_e, a trained vector that reads the logit s_e = r_e . z / n off what the block
    acts on. Where ``expert_dim`` is given, their width is fixed and their number grows: experts are groups of so many
    coordinates of one hidden layer, as heads are, and routers are rows of a matrix.

    Parameters
    ----------
    experts:
        E, how many there are.
    active:
        k, how many act on a vector: those with the largest logits, of equal ones the first; None stands for all. The
        choice has the derivative 0, as in automatic differentiation.
    gate:
        "softmax": G_e = k exp(s_e) / sum of exp(s_f) over the active ones; "sigmoid": G_e = 1 / (1 + exp(-s_e)). None
        stands for the first where ``experts`` is given, and for the second where ``expert_dim`` is, which takes no
        other: logits are Gaussian there, and averages over a population of their exponentials are of a few experts.
    shared:
        how many experts act on all vectors besides, with the gate 1; they are numbered last, and have no routers.
    phi:
        the activation of experts, as in ``tp.ResNet``; None stands for the network's.
    init:
        "B": as above. "A": 1 / k stands in the place of 1 / sqrt(k): of softmax the sum over active experts of shares
        with the sum 1, as models are written, with entries of W2 that do not know k. In the trainer's terms, of gates
        and W2 alone, entries of W2 are N(0, k/m) at first in B and N(0, 1/m) in A behind shares, N(0, 1/(k m)) and
        N(0, 1/(k^2 m)) behind sigmoids, m being the width of an expert.
    router:
        how routers start: "normal", entries of r_e N(0, 1), so that those of the weights r_e / n are N(0, 1/n^2); or
        "zero".
    expert:
        what an expert is: "mlp" W2 phi(W1 z), "glu" W3 (phi(W1 z) * W2 z), or a function of a Branch, as a block;
        "swiglu", "geglu" and "reglu" stand for "glu" with "silu", "gelu" and "relu" as phi, which is then left out.
    expert_dim:
        coordinates of an expert, m, of a hidden layer as wide as the stream, in the place of ``experts``. The matrices
        are ``W1``, ``W2``, of a glu ``W3`` too, and ``Wr``, whose every m-th row is a router, with entries N(0, 1/n);
        the others are read by nothing and never move.
    share:
        which share of such experts is active, in the place of ``active``: those above a quantile of all logits.
    balance:
        u: every expert has a bias that is added to its logit where experts are chosen, and not in its gate, and that
        moves after each step by u times the sign of the share of vectors that it should act on less that on which it
        did, of all of the batch and all positions. None stands for none. Of order one in n, L and E, as logits are.

    In programs expert e has the matrices ``W1_e``, ``W2_e`` with entries N(0, 1/n), the router ``R_e`` and the logit
    ``s_e``; where it is a mixture itself, expert f in it has ``W1_e_f``, ``W2_e_f`` and ``R_e_f``. All move by updates
    of the size g, as ``tpcalc.programs.blocks.Branch.trained`` says; with a ``tp.Parametrization`` each by its own.

    At infinite width all logits start as 0: a number that is read off with weights that know nothing of the vector yet.
    With fewer active experts than there are, which act is decided by fluctuations of order n^(-1/2), and so are
    updates of logits that do not follow the size of a router's gradient: they have no deterministic limit, real
    networks alone are run (``width=n``), and the rest is refused.

    Experts whose number grows have Gaussian logits, whose quantile has a limit, so that particles take them.

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

    experts: int | None = None
    active: int | None = None
    gate: str | None = None
    shared: int = 0
    phi: sp.Expr | str | None = None
    init: str = "B"
    router: str = "normal"
    expert: str | Block = "mlp"
    expert_dim: int | None = field(default=None, kw_only=True)
    share: sp.Expr | float = field(default=sp.Integer(1), kw_only=True)
    balance: sp.Expr | float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if (self.experts is None) == (self.expert_dim is None):
            raise ValueError(f"experts: got {short(self.experts)} with expert_dim={short(self.expert_dim)}; expected "
                             "one of them: a number of experts that is fixed, or a width")
        if self.gate is None:
            object.__setattr__(self, "gate", GATE_KINDS[self.experts is None])
        for name, allowed in (("gate", GATE_KINDS), ("init", INITS), ("router", ROUTER_STARTS)):
            object.__setattr__(self, name, choice(name, getattr(self, name), allowed))
        object.__setattr__(self, "shared", whole_number("shared", self.shared, 0))
        self._require_fixed() if self.expert_dim is None else self._require_growing()
        self._require_balance()
        if self.phi is not None:
            activation(self.phi)
        expert, phi = after_gate(self.expert, NETWORKS_OWN if self.phi is None else self.phi, NETWORKS_OWN)
        object.__setattr__(self, "expert", expert)
        object.__setattr__(self, "phi", None if phi == NETWORKS_OWN else phi)
        if not callable(self.expert):
            object.__setattr__(self, "expert", choice("expert", self.expert, (*HIDDEN, *GATES)))

    def _require_fixed(self) -> None:
        """A number of experts, and of active ones."""
        experts = positive_integer("experts", self.experts)
        active = experts if self.active is None else positive_integer("active", self.active)
        object.__setattr__(self, "experts", experts)
        object.__setattr__(self, "active", active)
        if exponent("share", self.share) != 1:
            raise ValueError(f"share: got {short(self.share)} with experts={experts}; expected active, which says how "
                             "many of a fixed number act")
        if active > experts:
            raise ValueError(f"active: got {active} of experts={experts}; expected at most as many as there are")
        if experts + self.shared > MOST_EXPERTS:
            raise ValueError(f"experts: got {experts} and shared={self.shared}; every one has statements of its own; "
                             f"expected at most {MOST_EXPERTS} together")
        if active == 1 and self.gate == "softmax":
            raise ValueError(f"active: got 1 of experts={experts} with gate='softmax', which is 1 for one expert "
                             "whatever its logit is, so that routers get no gradient; expected at least 2, or "
                             "gate='sigmoid'")

    def _require_growing(self) -> None:
        """A width of experts, and a share of them."""
        object.__setattr__(self, "expert_dim", positive_integer("expert_dim", self.expert_dim))
        share = exponent("share", self.share)
        if not (share.is_Rational and 0 < share <= 1):
            raise ValueError(f"share: got {short(self.share)}; expected a number above 0 and at most 1")
        object.__setattr__(self, "share", share)
        for name, given, usual, why in (
                ("active", self.active, None, "share says how many of a growing number act"),
                ("shared", self.shared, 0, "a growing number of experts has none beside it"),
                ("gate", self.gate, "sigmoid", "exponentials of Gaussian logits have heavy tails"),
                ("init", self.init, "B", "shares of a growing number of experts sum up to a block that vanishes"),
                ("router", self.router, "normal", "logits that are all 0 tie")):
            if given != usual:
                raise NotCovered(f"{name}: got {short(given)} with expert_dim={self.expert_dim}; {why}; expected "
                                 f"{usual!r}")
        if callable(self.expert):
            raise NotCovered(f"expert: got {short(self.expert)} with expert_dim={self.expert_dim}; experts are groups "
                             "of coordinates of one hidden layer; expected 'mlp' and 'glu'")

    def _require_balance(self) -> None:
        """A step of biases, where some experts do not act."""
        if self.balance is None:
            return
        step = exact("balance", self.balance)
        if not (step.is_number and step.is_finite and step.is_positive):
            raise ValueError(f"balance: got {short(self.balance)}; expected a number above 0, or None")
        if self.active == self.experts and self.share == 1:
            raise ValueError(f"balance: got {short(self.balance)} with all experts active, of which none is chosen; "
                             "expected None, which says nothing there")
        object.__setattr__(self, "balance", step)

    def __call__(self, b: Branch) -> sp.Expr:
        """Write it on a branch."""
        b.experts.append(self)
        if self.phi is not None:
            b = replace(b, phi=activation(self.phi), is_linear=is_linear(self.phi))
        if self.expert_dim is not None:
            return self._groups(b)
        assert self.experts is not None
        gates = self.gates(b) if b.weigh is None else b.weigh(self, b)
        value = sp.Add(*(gate * self._expert(b, e) for e, gate in enumerate(gates, 1)))
        return value + sp.Add(*(self._expert(b, self.experts + e) for e in range(1, self.shared + 1)))

    def logits(self, b: Branch) -> list[sp.Expr]:
        """What routers read off what the block acts on, expert by expert."""
        assert self.experts is not None
        routers = [own.trained("R", self.router) for own in self._each(b)]
        b.routed.update((one.name, (self, ROUTER)) for one in routers)
        return [Mean(one * b.x) for one in routers]

    @property
    def over(self) -> sp.Expr:
        """What gates of order one are divided by: the root of how many are active, or their number."""
        return sp.sqrt(self.active) if self.init == "B" else sp.Integer(self.active)

    def gates(self, b: Branch) -> list[sp.Expr]:
        """What each expert is multiplied by: scalars that have names, times numbers."""
        each = self._each(b)
        logits = [own.let_scalar("s", logit) for own, logit in zip(each, self.logits(b))]
        k, over = sp.Integer(self.active), self.over
        masks = self._masks(b, logits)
        if self.gate == "sigmoid":
            return [own.let_scalar("share", mask / (1 + sp.exp(-s))) / over
                    for own, s, mask in zip(each, logits, masks)]
        weights = [own.let_scalar("weight", mask * sp.exp(s)) for own, s, mask in zip(each, logits, masks)]
        total = b.let_scalar("mass", sp.Add(*weights))
        return [k / over * own.let_scalar("share", weight / total) for own, weight in zip(each, weights)]

    def _each(self, b: Branch) -> list[Branch]:
        """The branch of every expert that has a router: names of what is in it end with its number."""
        assert self.experts is not None
        return [_numbered(b, e) for e in range(1, self.experts + 1)]

    def _masks(self, b: Branch, logits: list[sp.Expr]) -> list[sp.Expr]:
        """Which experts act, by logits and, where there are any, biases."""
        assert self.experts is not None and self.active is not None
        if self.balance is None:
            return among_largest(logits, self.active)
        biases = [own.kept("bias", Scalar) for own in self._each(b)]
        masks = among_largest([logit + bias for logit, bias in zip(logits, biases)], self.active)
        for bias, mask in zip(biases, masks):
            self._balanced(b, bias, mask, sp.Rational(self.active, self.experts))
        return masks

    def _balanced(self, b: Branch, bias: Vector | Scalar, mask: sp.Expr, share: sp.Rational) -> None:
        """Move a bias. What is counted are whole numbers, of which floats know whether they are equal."""
        b.moves(bias, share.p - share.q * mask, lambda below: self.balance * sp.sign(below))

    def require_width(self, width: int) -> None:
        """Raise ``ValueError`` for a width that is no whole number of experts, with a whole number of active ones."""
        least = 1 if self.expert_dim is None else self.expert_dim * sp.Rational(self.share).q
        if width % least:
            raise ValueError(f"width: got {width} for experts of {self.expert_dim} coordinates, of which a share of "
                             f"{self.share} is active; expected multiples of {least}")

    def _groups(self, b: Branch) -> sp.Expr:
        """Experts that are groups of coordinates, each of which has the gate of its group."""
        assert self.expert_dim is not None
        router, first, last = map(b.weights, ("Wr", "W1", "W2" if self.expert == "mlp" else "W3"))
        b.routed[router.name] = self, ROUTER
        route = b.let("route", MatVec(router, b.x))
        size = self.expert_dim if b.weigh is None else 1  # powers of L know no other
        s = b.let("logit", HeadSum(route, size, first_read=True))
        gate = 1 / (1 + sp.exp(-s))
        if self.share != 1:
            chosen = s if self.balance is None else s + b.kept("bias", Vector)
            mask = Mask(chosen - b.let_scalar("level", Quantile(chosen, self.share)))
            if chosen != s:
                self._balanced(b, chosen - s, mask, sp.Rational(self.share))
            gate *= mask
        gate = b.let("gate", gate)
        h = b.let("h", MatVec(first, b.x))
        z = gate * b.phi(h)
        if self.expert == "glu":
            second = b.weights("W2")
            b.routed[second.name] = self, EXPERT
            z *= b.let("v", MatVec(second, b.x))
        b.routed.update((one.name, (self, EXPERT)) for one in (first, last))
        return MatVec(last, b.let("z", z)) / sp.sqrt(self.share)

    def _expert(self, b: Branch, number: int) -> sp.Expr:
        """The output of an expert, a vector with a name."""
        own = _numbered(b, number)
        block, before = BLOCKS[self.expert] if isinstance(self.expert, str) else self.expert, len(b.statements)
        value = block(own)
        require_block(block, value, own)
        if number <= (self.experts or 0):
            met = [value, *(one.value for one in b.statements[before:])]
            b.routed.update((one.name, (self, EXPERT)) for made in met for one in made.atoms(Matrix))
        return own.let("o", value)


def _numbered(b: Branch, number: int) -> Branch:
    """The branch on which an expert is written: what is named there, its router and its logit too, ends with its number
    among those of its mixture, behind the number of the expert that the mixture is."""
    return replace(b, suffix=f"{b.suffix}_{number}")
