"""Forward equations of the tangent kernel and its differentials: what one layer makes of those below."""

from __future__ import annotations

import math

import numpy as np
import sympy as sp

from tpcalc.ledger import Entry, Equation, Equations, Proof
from tpcalc.ledger.proof import Identity
from tpcalc.width.jets import Draws, kernel_series, output_series

from ._real import drawn

RATE, W0, W1 = sp.symbols("c W_{0j} W_{1k}")  # c: the rate of one weight of the layer
EQUAL_NEURONS = {(a, b): sp.Symbol(rf"\delta_{{{a}{b}}}") for a, b in ((0, 1), (0, 2), (0, 3), (1, 3))}
PHI = sp.symbols(r"\sigma_{j;0} \sigma'_{j;0} \sigma''_{j;0} \sigma'''_{j;0}")
OTHER = sp.symbols(r"\sigma_{k;1} \sigma'_{k;1} \sigma''_{k;1}")
AT = {1: sp.Symbol(r"\sigma_{j;1}"), 2: sp.Symbol(r"\sigma_{j;2}"), 3: sp.Symbol(r"\sigma_{j;3}")}
SLOPE, LAST = sp.symbols(r"\sigma'_{j;1} \sigma_{k;3}")
A1, A2, A3, SAME, THERE = sp.symbols("A_{j1} A_{j2} A_{j3} A'_{j3} A'_{k3}")  # sums over W phi' H, primed: at input 1
B12, B13, B23, C123 = sp.symbols("B_{j12} B_{j13} B_{j23} C_{j123}")  # over W phi' W phi' dH, and so on
BELOW, LEFT, RIGHT, BOTH = sp.symbols("H_{jk} dH_{jk2} dH_{kj3} D_{jk23}")
TAU = sp.symbols("tau_1:4", real=True)
KERNEL, FIRST, SECOND, SINGLE, DOUBLE = sp.symbols("H_{01} dH_{012} dd_IH_{0123} dd_{II}H_{0123} dd_{II}H'_{0123}")


def composed(values: tuple[sp.Symbol, ...], change: sp.Expr) -> sp.Expr:
    """A function by Taylor's formula, its derivatives given."""
    return sum((value * change**k / math.factorial(k) for k, value in enumerate(values)), sp.Integer(0))


def mixed(expression: sp.Expr, *directions: sp.Symbol) -> sp.Expr:
    """The mixed derivative along some directions, at the parameters themselves."""
    return sp.expand(sp.diff(expression, *directions).subs(dict.fromkeys(TAU, 0)))


def preactivation() -> sp.Expr:
    """A summand of the layer's preactivation, its parameters and those below moved along what trains outputs 1 to 3."""
    t1, t2, t3 = TAU
    moved = t1 * A1 + t2 * A2 + t3 * A3 + t1 * t2 * B12 + t1 * t3 * B13 + t2 * t3 * B23 + t1 * t2 * t3 * C123
    weight = W0 + RATE * sum(tau * EQUAL_NEURONS[0, i] * AT[i] for i, tau in enumerate(TAU, 1))
    return weight * composed(PHI, moved)


def kernels() -> tuple[sp.Expr, sp.Expr]:
    """Summands of the layer's kernel, by one neuron and by two: output 0 along that of 2, output 1 along that of 3."""
    _, t2, t3 = TAU
    own = RATE * EQUAL_NEURONS[0, 1] * composed(PHI[:2], t2 * A2) * composed((AT[1], SLOPE), t3 * SAME)
    left = (W0 + RATE * t2 * EQUAL_NEURONS[0, 2] * AT[2]) * composed(PHI[1:3], t2 * A2)
    right = (W1 + RATE * t3 * EQUAL_NEURONS[1, 3] * LAST) * composed(OTHER[1:], t3 * THERE)
    return own, left * right * (BELOW + t2 * LEFT + t3 * RIGHT + t2 * t3 * BOTH)


def statement() -> Equations:
    """As printed, but for sums: those over the other neurons' weights, slopes and kernels are one symbol each."""
    (_, s1, s2, s3), (_, r1, r2) = PHI, OTHER
    d = EQUAL_NEURONS
    one = (RATE * d[0, 1] * AT[1] * (s2 * A2 * A3 + s1 * B23) + RATE * d[0, 2] * AT[2] * (s2 * A3 * A1 + s1 * B13)
           + RATE * d[0, 3] * AT[3] * (s2 * A1 * A2 + s1 * B12)
           + W0 * (s1 * C123 + s2 * (B12 * A3 + B23 * A1 + B13 * A2) + s3 * A1 * A2 * A3))
    two = (RATE**2 * d[0, 2] * d[1, 3] * s1 * r1 * AT[2] * LAST * BELOW
           + RATE * d[0, 2] * W1 * AT[2] * s1 * (r2 * BELOW * THERE + r1 * RIGHT)
           + RATE * d[1, 3] * W0 * LAST * r1 * (s2 * BELOW * A2 + s1 * LEFT)
           + W0 * W1 * (s1 * r1 * BOTH + s2 * r2 * BELOW * A2 * THERE + s1 * r2 * THERE * LEFT + r1 * s2 * A2 * RIGHT))
    return Equations((
        Equation(KERNEL, sp.expand(RATE * d[0, 1] * PHI[0] * AT[1] + W0 * s1 * A1), r"\text{(3.7), neuron } j"),
        Equation(FIRST, sp.expand(RATE * s1 * (d[0, 1] * AT[1] * A2 + d[0, 2] * AT[2] * A1)
                                  + W0 * (s1 * B12 + s2 * A1 * A2)), r"\text{(4.2)}"),
        Equation(SECOND, sp.expand(one), r"\text{(4.5)}"),
        Equation(SINGLE, RATE * d[0, 1] * s1 * SLOPE * A2 * SAME, r"\text{(4.8), of one neuron}"),
        Equation(DOUBLE, sp.expand(two), r"\text{of two}")))


def derive() -> Proof:
    values = [e.value for e in statement().equations]
    own, passed = kernels()
    found = (mixed(preactivation(), TAU[0]), mixed(preactivation(), *TAU[:2]), mixed(preactivation(), *TAU),
             mixed(own, *TAU[1:]), mixed(passed, *TAU[1:]))
    steps = tuple(Identity(i, target, before, after, "the chain rule", "parameters of the layer, and those below, move")
                  for i, (target, before, after) in enumerate(
                      zip((KERNEL, FIRST, SECOND, SINGLE, DOUBLE), found, values), 1))
    return Proof(steps, against_jets, "real networks: from below, and from the outputs' and the kernel's series", 1e-9)


def against_jets(rng: np.random.Generator) -> float:
    """Networks of two to four layers."""
    worst = 0.0
    for widths in ((2, 5, 1), (3, 4, 5, 1), (2, 3, 4, 3, 1)):
        net = drawn(rng, widths, 1)
        draws = Draws(tuple(w[None] for w in net.weights), tuple(b[None] for b in net.biases))
        f = output_series(draws, net.inputs[0], net.sizes, "tanh", 3)[:, 0]
        kernel = kernel_series(draws, net.inputs[0], net.sizes, "tanh", 2)[:, 0]
        at = net.differentials()
        pairs = ((at.H, kernel[0]), (at.dH, 2 * f[2]), (at.ddH_I, 6 * f[3]), (at.ddH_II, kernel[2] - 6 * f[3]))
        worst = max(worst, *(abs(one.item() - other) / max(1.0, abs(other)) for one, other in pairs))
    return worst


ENTRY = Entry(
    key="meta_principled/forward_equations",
    kind="lemma",
    title="forward equations of differentials",
    source="Meta-Principled Family, (3.7), (4.2), (4.5), (4.8)",
    says="What one layer adds to a kernel and its differentials, by summands of neurons $j$, or $j$ and $k$. "
         "$A_{ja}$ is the kernel below between neuron $j$ and all that feed output $a$, through weights and slopes.",
    statement=statement,
    assumptions=("smooth activations", "diagonal learning rates"),
    derive=derive,
)
