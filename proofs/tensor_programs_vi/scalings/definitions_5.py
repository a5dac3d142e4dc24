"""What stable, faithful, nontrivial, feature learning, redundant and linear by layers mean, by powers of the depth."""

from __future__ import annotations

import sympy as sp

from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber

from ..._claims import Property, Said, Size, defined, judged_faces, iff, sizes_in
from ..._line import HALF, NET

# sizes by the names that verdicts have for them
X, H = Size("x at initialization"), Size("h at initialization")
DX, DH, DF = (Size(f"change of {name}") for name in "xhf")
NOISE, DRIFT = (Size(f"{name} of x over a piece") for name in ("noise", "drift"))
ERROR = Size("linearization error of a layer")

STARTS, STABLE = Property("stable at initialization"), Property("stable during training")
OUTPUTS, NONTRIVIAL = Property("x and f stable"), Property("nontrivial")
FAITHFUL_AT_FIRST, FAITHFUL = Property("faithful at initialization"), Property("faithful during training")
LEARNS, REDUNDANT = Property("feature learning"), Property("redundant")
DIVERSE, LINEAR = Property("diversity exponent 1/2"), Property("layerwise linear")

DEFINITIONS = (
    iff(STARTS, sp.And(X <= 0, H <= 0)),
    iff(OUTPUTS, sp.And(STARTS, DX <= 0, DF <= 0)),
    iff(STABLE, sp.And(OUTPUTS, DH <= 0)),
    iff(FAITHFUL_AT_FIRST, sp.Eq(H, 0)),
    iff(FAITHFUL, sp.And(OUTPUTS, sp.Eq(sp.Max(H, DH), 0))),
    iff(NONTRIVIAL, sp.And(STARTS, DF >= 0)),
    iff(LEARNS, sp.And(OUTPUTS, sp.Eq(DH, 0))),
    iff(DIVERSE, sp.And(OUTPUTS, sp.Eq(NOISE, 0))),
    iff(REDUNDANT, sp.And(OUTPUTS, NOISE < 0, sp.Eq(DRIFT, 0))),
    iff(LINEAR, sp.And(OUTPUTS, ERROR < -1)),
)

SAID: dict[Property, Said] = {
    STARTS: lambda v: v.stable_at_init,
    OUTPUTS: lambda v: v.output_stable,
    STABLE: lambda v: v.stable_in_training,
    FAITHFUL_AT_FIRST: lambda v: v.faithful_at_init,
    FAITHFUL: lambda v: v.faithful_in_training,
    NONTRIVIAL: lambda v: v.nontrivial,
    LEARNS: lambda v: v.feature_learning,
    DIVERSE: lambda v: v.diversity_exponent == HALF,
    REDUNDANT: lambda v: v.redundant,
    LINEAR: lambda v: v.layerwise_linear,
}

UNFOLDED = defined(DEFINITIONS, "Tensor Programs VI, definitions 5.2 to 5.6 and G.1 [tensor_programs_vi/definitions_5]")


def agreement(one: Equation) -> MeasuredNumber:
    """On all faces of the plane, on each of which a verdict is one, exactly."""
    condition = UNFOLDED.apply(one.value)
    right = [bool(condition.subs(sizes_in(found, condition))) == bool(SAID[one.target](found))
             for found in judged_faces(NET).values()]
    return MeasuredNumber(f"faces of the plane where '{one.target}' is as defined", float(sum(right)), 0.0,
                          float(len(right)))


def evidence() -> Evidence:
    return Evidence(tuple(map(agreement, DEFINITIONS)))


ENTRY = Entry(
    key="tensor_programs_vi/definitions_5",
    kind="definition",
    title="stable, faithful, nontrivial, feature learning, redundant, layerwise linear",
    source="Tensor Programs VI, definitions 5.1 to 5.6 and G.1",
    says="$\\operatorname{ord}$ is a power of $L$: at most 0 is $O(1)$, 0 is $\\Theta(1)$, at least 0 is "
         "$\\Omega(1)$. A training routine is a learning rate, an entrywise update $Q$ and the inputs; none of them "
         "moves a power of $L$, so that one routine decides. Whatever is said of training is said where initialization "
         "is stable. A piece $\\epsilon$ of the network adds noise, in proportion to $\\epsilon^{1/2}$, and drift, in "
         "proportion to $\\epsilon$: what stays decides redundancy. Outputs that diverge count as nontrivial.",
    statement=lambda: Equations(DEFINITIONS),
    uses=("tensor_programs_vi/definition_41",),
    evidence=evidence,
)
