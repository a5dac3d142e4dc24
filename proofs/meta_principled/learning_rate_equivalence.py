"""Equivalence of learning rates as an equation between exponents of neighboring layers."""

from __future__ import annotations

import numpy as np

from tpcalc.ledger import Entry, Equation, Equations, Proof
from tpcalc.ledger.proof import Identity
from tpcalc.scaling import WidthScaling
from tpcalc.width.counting import own_gradients
from tpcalc.width.principles import equivalent

from ._symbols import P, Q, Q_BELOW, WIDTHS, random_scaling, slope


def derive() -> Proof:
    """The ratio of both terms of (3.7), which is to be of order one, is added to the unknown."""
    ratio = equivalent(P, Q, own_gradients(Q_BELOW), 2).power

    def numbers(rng: np.random.Generator) -> float:
        """Both terms of (3.7) with activations and slopes of 1, at two widths."""
        drawn = random_scaling(rng)
        q = [drawn.q[0]]
        for p in drawn.p[1:]:
            q.append(p + q[-1])
        scaling, found = WidthScaling(drawn.p, q, drawn.r), []
        for layer in range(1, 4):
            ratios = []
            for widths in WIDTHS:
                sizes, fan_in = scaling.sizes(widths), widths[layer]
                below = widths[layer - 1] * sizes.weight_rate[layer - 1]
                ratios.append(fan_in * sizes.weight_rate[layer] / (fan_in * sizes.weight_std[layer]**2 * below))
            found.append(abs(slope((ratios[0], ratios[1]))))
        return max(found)

    return Proof((Identity(1, Q, Q + ratio, P + Q_BELOW),), numbers, "both terms of (3.7) at width 64 and 128")


ENTRY = Entry(
    key="meta_principled/learning_rate_equivalence",
    kind="proposition",
    title="learning-rate equivalence",
    source="Meta-Principled Family, (3.7) to (3.11)",
    says="A layer and all layers below it add to its tangent kernel at one order.",
    statement=lambda: Equations((Equation(Q, P + Q_BELOW),)),
    assumptions=("criticality", "the kernel of the layer below is as large as its own gradients make it"),
    uses=("meta_principled/criticality",),
    derive=derive,
)
