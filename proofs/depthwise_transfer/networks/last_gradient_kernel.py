"""Where the gradient kernel begins, before training: at the last node, for a read-out of features."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.calculus import Derivation
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Proof, Slip, Witness
from tpcalc.ledger.entry import line

from ..._letters import Letters
from ..._line import relative
from ..._rewriting import Rewriting, of_nodes
from .._fields import Average, mean_of
from ._finite_network import L
from ._network_rules import G, depth, dphi, g, insert, read, w
from .embedding_and_readout import LAST
from .fields_and_kernels import t

XI = 1.2
START = Equation(G(0, 0, depth + 1), mean_of(dphi(0, depth + 1)**2))


def _independent(average: Average) -> sp.Expr:
    readout, rest = (sp.Mul(*(one for one in sp.Mul.make_args(average.args[0]) if one.has(w) is with_it))
                     for with_it in (True, False))
    return mean_of(readout) * mean_of(rest)


INDEPENDENT = Rewriting("independence", "before training the readout knows nothing of the stream",
                        "depthwise_transfer/parametrization", of_nodes(Average, _independent))
UNIT = read(mean_of(w(0)**2), sp.Integer(1), "entries of the readout are $N(0, 1)$",
            "depthwise_transfer/parametrization")


@lru_cache(maxsize=None)
def derivation() -> Derivation:
    steps, first = Derivation(), LAST.value.subs(t, 0).doit()   # nothing is learned yet
    steps.through((insert(g(0, depth + 1), first), INDEPENDENT, UNIT), START.target, mean_of(g(0, depth + 1)**2))
    return steps


def sites(variance: float) -> Letters:
    """Single sites at the last node by quadrature: h of a variance and, along the other axis, w."""
    points, weights = np.polynomial.hermite_e.hermegauss(120)
    slope, over = np.cosh(np.sqrt(variance) * points)[:, None]**-2.0, np.outer(weights, weights) / (2 * np.pi)
    return Letters({"dphi": lambda *_: slope, "w": lambda _: points, "g": lambda *_: slope * points}, {depth: L},
                   lambda here, body: float(np.sum(over * here.of(body))))


def derive() -> Proof:
    def numbers(rng: np.random.Generator) -> float:
        here = sites(rng.uniform(0.5, 2))
        return max(relative(here.of(step.before), here.of(step.after)) for step in derivation().steps)
    return Proof(derivation().steps, numbers, "both sides of every step, tanh, means over the site and the readout by "
                 "quadrature")


def witness() -> Witness:
    """Real networks at the start against the variance of h at that depth, from its own recursion."""
    rng, many, neurons = np.random.default_rng(0), 200, 64
    found = []
    for _ in range(many):
        stream = XI * rng.normal(size=neurons)
        for _ in range(L):
            stream = stream + rng.normal(size=(neurons, neurons)) @ np.tanh(stream) / np.sqrt(L * neurons)
        found.append(np.mean((rng.normal(size=neurons) * np.cosh(stream)**-2.0)**2))
    variance = float(tp.kernel_fn(tp.ResNet("tanh", "pre_nonlin"), L)([[XI]], get="nngp")[0, 0])
    return Witness("G at the last node, for a read-out of phi(h)", float(np.mean(found)),
                   float(np.std(found, ddof=1) / np.sqrt(many)) + 1e-3, 1.0, float(sites(variance).of(START.value)))


ENTRY = Entry(
    key="depthwise_transfer/last_gradient_kernel",
    kind="proposition",
    title="where the gradient kernel begins",
    source="Depthwise Hyperparameter Transfer, (16)",
    says="Before training, at infinite width, where the kernel is a mean over sites, and the network reads $\\phi(h)$.",
    statement=lambda: Equations((START,)),
    assumptions=("width to infinity", "before training"),
    uses=("depthwise_transfer/parametrization", "depthwise_transfer/embedding_and_readout"),
    derive=derive,
    errata=(
        Erratum(Slip.INCOMPLETE, "(16): 1 is for a read-out of the stream; (1) reads $\\phi(h)$",
                r"G^{L+1} &= 1", lambda: line(START.target, START.value), witness),),
)
