"""Type-I differentials of the tangent kernel of one hidden layer, in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from tpcalc.ledger import Entry, Equation, Equations, Proof

from ..tpcalc._steps import PutIn
from ._real import drawn

ORDERS = (2, 3)
SAMPLES = range(max(ORDERS) + 1)
N, N0, Q1, RATE, BIAS_RATE, WEIGHT_RATE = sp.symbols(r"n n_0 q_1 c \lambda_b \lambda_W", positive=True)
J, N1 = sp.symbols("j n_1", integer=True)
OUTPUT = sp.symbols(f"i_0:{len(SAMPLES)}", integer=True)
WEIGHT = [sp.IndexedBase("W")[i, J] for i in OUTPUT]
X = [sp.symbols(f"x_{{1;{d}}} x_{{2;{d}}}") for d in SAMPLES]            # two numbers an input stand for all
HIDDEN, IN_Z, IN_W = ([sp.Symbol(f"{letter}_{{{d}}}") for d in SAMPLES] for letter in ("h", "a", "b"))
TOTAL = {k: sp.Symbol(f"{name}_{{{''.join(map(str, range(k + 1)))}}}") for k, name in zip(ORDERS, ("dH", "dd_IH"))}
OF_NEURON = (*sp.symbols("w_1 w_2"), sp.Symbol("b_j"))
EPSILON = sp.symbols(f"epsilon_1:{len(SAMPLES)}")
PHI = [sp.Function(f"sigma_{d}") for d in SAMPLES]                       # the activation, at the input of each sample


def slope(order: int, sample: int) -> sp.Symbol:
    """The activation or one of its derivatives at a sample."""
    return sp.Symbol(rf"\sigma^{{({order})}}_{{{sample}}}" if order else rf"\sigma_{{{sample}}}")


def in_letters(expression: sp.Expr) -> sp.Expr:
    """Derivatives taken, those of the activation as letters."""
    def letter(node: sp.Expr) -> sp.Expr:
        derivative = node.expr if isinstance(node, sp.Subs) else node
        of = derivative.expr if isinstance(derivative, sp.Derivative) else derivative
        order = derivative.derivative_count if isinstance(derivative, sp.Derivative) else 0
        return slope(order, PHI.index(of.func))

    found = expression.doit()
    for kind in (sp.Subs, sp.Derivative, AppliedUndef):
        found = found.replace(lambda node: isinstance(node, kind), letter)  # noqa: B023
    return found


@dataclass(frozen=True)
class Differentiated(PutIn):
    """A step that takes derivatives, of each neuron by itself, and puts in what symbols stand for."""

    def check(self) -> bool:
        before, after = (of_neuron(one).xreplace(dict(self.known)) for one in (self.before, self.after))
        return bool(sp.expand(in_letters(before)) == sp.expand(after))


def over_neurons(one: sp.Expr) -> sp.Sum:
    return sp.Sum(one, (J, 1, N1))


def of_neuron(total: sp.Expr) -> sp.Expr:
    """What is summed over neurons."""
    return total.function if isinstance(total, sp.Sum) else total


def kernel(sample: int) -> sp.Expr:
    """(A10): the tangent kernel of a hidden neuron, of the first sample and another."""
    return (BIAS_RATE + WEIGHT_RATE / N0 * sp.Add(*(x * y for x, y in zip(X[0], X[sample])))) / N**Q1


def in_z(sample: int) -> sp.Expr:
    """(A7): what training an output moves the preactivation of the first sample by."""
    return WEIGHT[sample] * slope(1, sample) * HIDDEN[sample]


def in_w(sample: int) -> sp.Expr:
    """(A11): what it moves the weight to the first output by."""
    return RATE * sp.KroneckerDelta(OUTPUT[0], OUTPUT[sample]) * slope(0, sample)


def moved_by(k: int, z: list[sp.Expr], w: list[sp.Expr]) -> sp.Expr:
    """All outputs but the first move z, or one of them moves W: the first output is linear in W."""
    def product(but: int) -> sp.Expr:
        return sp.Mul(*(z[d] for d in range(1, k + 1) if d != but))

    return sp.Add(WEIGHT[0] * slope(k, 0) * product(0),
                  *(w[m] * slope(k - 1, 0) * product(m) for m in range(1, k + 1)))


def statement() -> Equations:
    """What training an output moves z_j and W_j by, and the differentials as sums over hidden neurons."""
    z, w = ([made(d) for d in SAMPLES] for made in (in_z, in_w))
    return Equations((Equation(HIDDEN[1], kernel(1)), Equation(IN_Z[1], in_z(1)), Equation(IN_W[1], in_w(1)),
                      *(Equation(left, over_neurons(moved_by(k, z, w))) for k, left in TOTAL.items())))


def meeting(left: sp.Expr, right: sp.Expr) -> sp.Expr:
    """Derivatives of both by the parameters of a hidden neuron, with their learning rates."""
    rates = (WEIGHT_RATE / N0, WEIGHT_RATE / N0, BIAS_RATE)
    return sp.Add(*(rate / N**Q1 * sp.Derivative(left, at) * sp.Derivative(right, at)
                    for rate, at in zip(rates, OF_NEURON)))


def preactivation(sample: int) -> sp.Expr:
    return X[sample][0] * OF_NEURON[0] + X[sample][1] * OF_NEURON[1] + OF_NEURON[2]


def along(k: int) -> sp.Expr:
    """(A4): derivatives of an output along k others, each of which moves z and W by what it moves them at the start."""
    z = preactivation(0) + sp.Add(*(e * a for e, a in zip(EPSILON[:k], IN_Z[1:])))
    w = WEIGHT[0] + sp.Add(*(e * b for e, b in zip(EPSILON[:k], IN_W[1:])))
    return sp.Subs(sp.Derivative(w * PHI[0](z), *EPSILON[:k]), EPSILON[:k], (0,) * k)


def derive() -> Proof:
    output = WEIGHT[1] * PHI[1](preactivation(1))
    steps: list[PutIn] = [
        Differentiated(1, HIDDEN[1], meeting(preactivation(0), preactivation(1)), kernel(1), "chain rule",
                       "preactivations are linear in the parameters of their neuron"),
        Differentiated(2, IN_Z[1], meeting(preactivation(0), output), in_z(1), "chain rule",
                       "through the preactivation of its neuron", known=((HIDDEN[1], kernel(1)),)),
        Differentiated(3, IN_W[1], RATE * sp.Derivative(output, WEIGHT[0]), in_w(1), "chain rule",
                       "an output is linear in its own weights")]
    moved = tuple(pair for d in SAMPLES for pair in ((IN_Z[d], in_z(d)), (IN_W[d], in_w(d))))
    totals = {}
    for k, left in TOTAL.items():
        short = moved_by(k, IN_Z, IN_W)
        totals[k] = short.xreplace(dict(moved))
        steps += [Differentiated(len(steps) + 1, left, over_neurons(along(k)), over_neurons(short), "chain rule",
                                 "an output is linear in the weight, and what moves is fixed"),
                  Differentiated(len(steps) + 2, left, over_neurons(short), over_neurons(totals[k]), "substitution",
                                 "what training an output moves is known", known=moved)]
    return Proof(tuple(steps), lambda rng: from_forward_equations(rng, steps[0].after, totals),
                 "differentials of real networks, from the forward equations")


def from_forward_equations(rng: np.random.Generator, of_hidden: sp.Expr, totals: dict[int, sp.Expr]) -> float:
    """Both differentials of drawn outputs at drawn inputs of a real network of one hidden layer."""
    net = drawn(rng, (2, 3, 2), 3)
    samples, outputs = rng.integers(0, 3, len(SAMPLES)), rng.integers(0, 2, len(SAMPLES))
    x, at = net.inputs[samples], net.differentials()
    known = {N0: 2, Q1: 0, RATE: net.sizes.weight_rate[1], BIAS_RATE: net.sizes.bias_rate[0],
             WEIGHT_RATE: 2 * net.sizes.weight_rate[0], **dict(zip(OUTPUT, map(int, outputs)))}
    known |= {letter: x[d][m] for d in SAMPLES for m, letter in enumerate(X[d])}
    known |= {HIDDEN[d]: of_hidden.xreplace(dict(zip(X[1], X[d]))).subs(known) for d in SAMPLES}
    worst = 0.0
    for k, total in totals.items():
        truth = (at.dH if k == 2 else at.ddH_I)[tuple(map(int, (*samples[:k + 1], *outputs[:k + 1])))]
        found = 0.0
        for neuron in range(3):
            tanh = np.tanh(x @ net.weights[0][neuron] + net.biases[0][neuron])
            slopes = (tanh, 1 - tanh**2, -2 * tanh * (1 - tanh**2), (1 - tanh**2) * (6 * tanh**2 - 2))
            letters = {slope(order, d): slopes[order][d] for order in range(4) for d in SAMPLES}
            weights = {WEIGHT[d]: net.weights[1][outputs[d], neuron] for d in SAMPLES}
            found += float(total.xreplace({**weights, **letters}).subs(known))
        worst = max(worst, abs(found - truth) / max(1.0, abs(truth)))
    return worst


ENTRY = Entry(
    key="meta_principled/type_one_differentials",
    kind="proposition",
    title="type-I differentials of one hidden layer",
    source="Meta-Principled Family, (A4) to (A13)",
    says=r"Indices $0$ to $3$ are those of samples and of their outputs. Training output $d$ moves the preactivation "
         r"$z_{j;0}$ by $a_d$ and the weight $W_{i_0j}$ by $b_d$; $h_d$ is the tangent kernel of a hidden neuron at "
         r"inputs $0$ and $d$, $c = \lambda_W^{(2)} / (n_1 n^{q_2})$, and $\sigma^{(k)}_d$ is the $k$-th derivative of "
         "the activation at $z_{j;d}$. Learning rates are those of each layer, (A5).",
    statement=statement,
    assumptions=("one hidden layer", "smooth activations"),
    uses=("meta_principled/generated_differentials",),
    derive=derive,
)
