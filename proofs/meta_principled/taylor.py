"""Taylor expansions of a step of gradient descent: outputs and their tangent kernel by its differentials."""

from __future__ import annotations

import itertools
import math

import numpy as np
import sympy as sp

from tpcalc.ledger import Entry, Equation, Equations, Evidence, Proof, Rate
from tpcalc.ledger.proof import Identity
from tpcalc.width.jets import Draws, kernel_series, output_series

from ._real import drawn

ETA = sp.Symbol("eta", real=True)
SIGNALS = sp.symbols("epsilon_2 epsilon_3", real=True)  # loss derivatives in two outputs, of any input each
AT = sp.symbols("x_2 x_3", real=True)
F, U, V = (sp.Function(name)(*AT) for name in ("f", "u", "v"))  # an output, and gradients of outputs 0 and 1
OUTPUT, KERNEL = sp.symbols("f^{t+1}_{0} H^{t+1}_{01}")
PAIR = (2, 3)
TERMS = 3  # of outputs; the kernel's expansion has one less
RATES = (0.08, 0.04, 0.02, 0.01)

Indices = tuple[int, ...]


def differential(name: str, first: str, moved: Indices = ()) -> sp.Symbol:
    """A differential by its indices; those of the moved ones may be in any order but for type II."""
    return sp.Symbol(f"{name}_{{{first}{''.join(map(str, moved))}}}")


def of_output(moved: Indices) -> sp.Symbol:
    return differential(("f", "H", "dH", "dd_IH")[len(moved)], "0", tuple(sorted(moved)))


def of_kernel(left: Indices, right: Indices) -> sp.Symbol:
    """The product of gradients of outputs 0 and 1, differentiated along those of others."""
    if left and right:
        return differential("dd_{II}H", "01", (*left, *right))
    moved = tuple(sorted(left or right))
    return differential(("H", "dH", "dd_IH")[len(moved)], "01" if left or not right else "10", moved)


def operator(expression: sp.Expr) -> sp.Expr:
    """The derivative along what a step moves parameters by, over eta: minus (A1) for every output, times its signal."""
    return -sum((signal * sp.diff(expression, x) for signal, x in zip(SIGNALS, AT)), sp.Integer(0))


def expanded(expression: sp.Expr, terms: int) -> sp.Expr:
    """Taylor's formula, with differentials for derivatives."""
    total, term = sp.Integer(0), expression
    for order in range(terms + 1):
        total += ETA**order * named(term) / math.factorial(order)
        term = sp.expand(operator(term))
    return sp.expand(total)


def named(expression: sp.Expr) -> sp.Expr:
    """Derivatives of the output as differentials, products of those of two gradients as differentials of H."""
    table = {of: {sp.diff(of, *moved) if moved else of: tuple(PAIR[AT.index(x)] for x in moved)
                  for k in range(TERMS + 1) for moved in itertools.combinations_with_replacement(AT, k)}
             for of in (F, U, V)}
    symbols = {derivative: sp.Dummy() for of in (U, V) for derivative in table[of]}
    found = expression.xreplace({**{f: of_output(i) for f, i in table[F].items()}, **symbols})
    return sp.expand(found).subs({symbols[u] * symbols[v]: of_kernel(i, j) for u, i in table[U].items()
                                  for v, j in table[V].items() if len(i + j) < TERMS})


def statement() -> Equations:
    """As printed, with the sums over two outputs written out."""
    def sums(count: int, term: object) -> sp.Expr:
        return sum((term(*(PAIR[i] for i in at)) * sp.prod(SIGNALS[i] for i in at)  # type: ignore[operator]
                    for at in itertools.product(range(2), repeat=count)), sp.Integer(0))

    output = (of_output(()) - ETA * sums(1, lambda a: of_output((a,)))
              + ETA**2 * sums(2, lambda a, b: of_output((a, b))) / 2
              - ETA**3 * sums(3, lambda a, b, c: of_output((a, b, c))) / 6)
    kernel = (of_kernel((), ()) - ETA * sums(1, lambda a: of_kernel((a,), ()) + of_kernel((), (a,)))
              + ETA**2 * sums(2, lambda a, b: of_kernel((a, b), ()) + of_kernel((), (a, b))) / 2
              + ETA**2 * sums(2, lambda a, b: of_kernel((a,), (b,))))
    return Equations((Equation(OUTPUT, sp.expand(output), "O(\\eta^4)"),
                      Equation(KERNEL, sp.expand(kernel), "O(\\eta^3)")))


def derive() -> Proof:
    steps = (Identity(1, OUTPUT, expanded(F, TERMS), statement().equations[0].value, "Taylor's formula"),
             Identity(2, KERNEL, expanded(U * V, TERMS - 1), statement().equations[1].value, "Taylor's formula"))
    return Proof(steps, against_series, "series of real networks against differentials from the forward equations",
                 1e-9)


def against_series(rng: np.random.Generator) -> float:
    """With one input and one output: every coefficient of both series."""
    widths = (3, 4, 3, 1)
    net = drawn(rng, widths, 1)
    draws = Draws(tuple(w[None] for w in net.weights), tuple(b[None] for b in net.biases))
    outputs = output_series(draws, net.inputs[0], net.sizes, "tanh", 3)[:, 0]
    kernels = kernel_series(draws, net.inputs[0], net.sizes, "tanh", 2)[:, 0]
    H, dH, one, two = (part.item() for part in (net.differentials().H, net.differentials().dH,
                                                net.differentials().ddH_I, net.differentials().ddH_II))
    pairs = zip((*outputs[1:], *kernels), (H, dH / 2, one / 6, H, 2 * dH, one + two))
    return max(abs(a - b) / max(1.0, abs(b)) for a, b in pairs)


def evidence() -> Evidence:
    """What a step of a real network with two inputs and two outputs does beyond the printed terms."""
    rng = np.random.default_rng(5)
    net = drawn(rng)
    signals, at = rng.standard_normal((2, 2)), net.differentials()
    outputs, kernels = [], []
    for eta in RATES:
        after = net.stepped(signals, eta).differentials()
        f = (at.z - eta * np.einsum("deab,eb->da", at.H, signals)
             + eta**2 / 2 * np.einsum("defabc,eb,fc->da", at.dH, signals, signals)
             - eta**3 / 6 * np.einsum("defgabch,eb,fc,gh->da", at.ddH_I, signals, signals, signals))
        once = np.einsum("defabc,fc->deab", at.dH, signals)
        one, two = (np.einsum("defgabch,fc,gh->deab", dd, signals, signals) for dd in (at.ddH_I, at.ddH_II))
        turned = once.transpose(1, 0, 3, 2) + once, one.transpose(1, 0, 3, 2) + one
        H = at.H - eta * turned[0] + eta**2 * (turned[1] / 2 + two)
        outputs.append(float(abs(after.z - f).max()))
        kernels.append(float(abs(after.H - H).max()))
    return Evidence((), tuple(Rate(f"what {of} is off by", "(1/eta)", float(power), tuple(1 / eta for eta in RATES),
                                   tuple(found), allowance=0.1)
                              for of, power, found in (("(2.10)", 4, outputs), ("(2.14)", 3, kernels))))


ENTRY = Entry(
    key="meta_principled/taylor",
    kind="lemma",
    title="a step of gradient descent",
    source="Meta-Principled Family, (2.10), (2.14)",
    says="A step moves outputs and their tangent kernel by its differentials; $0$ to $3$ stand for an output of an "
         "input each, $\\epsilon$ for derivatives of the loss.",
    statement=statement,
    assumptions=("smooth activations", "diagonal learning rates"),
    derive=derive,
    evidence=evidence,
)
