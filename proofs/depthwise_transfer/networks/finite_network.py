"""Finite networks: fields, kernels and updates, as identities of one real network."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc._types import Value
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, MeasuredNumber, Slip, Witness
from tpcalc.ledger.entry import line

from ..._letters import Letters
from ._finite_network import D, L, N, STEPS, Trained, train
from .._fields import fields, mean_of

ROUND_OFF, BETA, DECAYED = 1e-12, 0.6, 0.3
t, s, v, ell = sp.symbols("t s v ell", integer=True)
c, beta, decay, depth = sp.symbols("c beta lambda L")
h, g, phi, dphi, chi, Phi, G, w, K, Kx, r = fields("h g phi dphi chi Phi G w K Kx r")
Delta = sp.IndexedBase(r"\Delta")

FORWARD = Equation(h(t, ell + 1), h(t, ell) + chi(t, ell + 1) / sp.sqrt(depth) + c / depth * sp.Sum(
    Delta[s] * Phi(t, s, ell) * g(s, ell + 1), (s, 0, t - 1)))
BACKWARD = Equation(g(t, ell), g(t, ell + 1) + dphi(t, ell) * (r(t, ell) / sp.sqrt(depth) + c / depth * sp.Sum(
    Delta[s] * G(t, s, ell + 1) * phi(s, ell), (s, 0, t - 1))))
TANGENT = Equation(K(t, t, 0), sp.Sum(G(t, t, ell + 1) * Phi(t, t, ell), (ell, 1, depth)) / depth + G(t, t, 1) * Kx(
    t, t, 0) + Phi(t, t, depth + 1))
LAST = Equation(g(t, depth + 1), dphi(t, depth + 1) * (w(0, 0) + c * sp.Sum(
    Delta[s] * phi(s, depth + 1), (s, 0, t - 1))))
MOMENTUM = Equation(h(t, ell + 1), h(t, ell) + chi(t, ell + 1) / sp.sqrt(depth) + c * (1 - beta) / depth * sp.Sum(
    beta**(v - s) * Phi(t, s, ell) * Delta[s] * g(s, ell + 1), (s, 0, v), (v, 0, t - 1)))
DECAY = Equation(h(t, ell + 1), h(t, ell) + (1 - decay)**t * chi(t, ell + 1) / sp.sqrt(depth) + c / depth * sp.Sum(
    (1 - decay)**(t - 1 - s) * Phi(t, s, ell) * Delta[s] * g(s, ell + 1), (s, 0, t - 1)))
START = Equation(G(t, t, depth + 1), mean_of(dphi(t, depth + 1)**2))


# as they are printed: a gradient a step late, the field of another block, an average for each neuron, no read-out
LATE = Equation(MOMENTUM.target, MOMENTUM.value.xreplace({sp.Tuple(s, 0, v): sp.Tuple(s, 0, v - 1)}))
OTHER_BLOCK = Equation(DECAY.target, DECAY.value.xreplace({chi(t, ell + 1): chi(t, ell)}))
AVERAGED = Equation(LAST.target, LAST.value.xreplace({phi(s, depth + 1): Phi(t, s, depth + 1)}))
WITHOUT_READ_OUT = Equation(TANGENT.target, TANGENT.value - Phi(t, t, depth + 1))


def letters_of_network(net: Trained, step: int, block: int) -> Letters:
    """Letters of a network, nodes and blocks from 1: of one input, or of pairs of inputs before training."""
    one = net.x.shape[1] == 1

    def over(values: np.ndarray) -> Value:
        return values[..., 0] if one else values

    def kernel(of: np.ndarray) -> Value:
        return lambda a, b, node: np.squeeze(net.kernel(of, a, node - 1, b))
    tables: dict[str, Value] = {
        "h": lambda a, node: over(net.h[a, node - 1]), "g": lambda a, node: over(net.g[a, node - 1]),
        "phi": lambda a, node: over(net.phi[a, node - 1]),
        "dphi": lambda a, node: over(np.cosh(net.h[a, node - 1])**-2.0),
        "chi": lambda a, node: over(net.W[0, node - 2] @ net.phi[a, node - 2]) / np.sqrt(N),
        "r": lambda a, node: over(net.W[0, node - 1].T @ net.g[a, node]) / np.sqrt(N),
        "Phi": kernel(net.phi), "G": kernel(net.g), "Kx": lambda *_: net.x.T @ net.x / D, "w": lambda *_: net.w[0],
        r"\Delta": lambda a: over(net.Delta[a])}
    return Letters(tables, {c: net.eta0 * net.mu0, depth: L, beta: BETA, decay: net.eta0 * DECAYED, t: step,
                            ell: block})


def residual(equation: Equation, net: Trained, block: int = 1) -> float:
    """Left less right, the largest over neurons, at the last step."""
    here = letters_of_network(net, STEPS - 1, block)
    return float(np.max(np.abs(here.of(equation.target) - here.of(equation.value))))


# of what networks, of one input, identities are
NETWORKS: dict[Equation, dict[str, Any]] = {
    FORWARD: {}, BACKWARD: {}, MOMENTUM: {"beta": BETA}, DECAY: {"decay": DECAYED},
    LAST: {"readout_of_phi": True, "ends": True}}


@lru_cache(maxsize=None)
def residuals() -> dict[str, float]:
    found = {}
    for name, equation in (("(18)", FORWARD), ("(19)", BACKWARD), ("(137), corrected", MOMENTUM),
                           ("(139), (140)", DECAY), ("(129), (130), corrected", LAST)):
        net = train(inputs=1, **NETWORKS[equation])
        found[name] = max(residual(equation, net, block) for block in range(1, L + 1))
    found["(4), (13)"] = by_difference(train())
    found["(12) to (15), (128), corrected"] = abs(tangent(TANGENT) - slope_of_output())
    return found


def by_difference(net: Trained, step: float = 1e-6) -> float:
    """N mu0 df/dh of the first input and a neuron at node 2 before training, from outputs, less its g."""
    found = 0.0
    for sign in (1, -1):
        field = net.h[0, 1, :, 0].copy()
        field[4] += sign * step
        for matrix in net.W[0, 1:]:
            field = field + matrix @ np.tanh(field) / np.sqrt(L * N)
        found += sign * float(net.w[0] @ field) / (2 * step)
    return abs(found - float(net.g[0, 1, 4, 0]))


def tangent(equation: Equation) -> float:
    """K of the first two inputs at the start."""
    return float(letters_of_network(train(readout_of_phi=True), 0, 1).of(equation.value)[0, 1])


def slope_of_output(rate: float = 1e-6) -> float:
    """By the motion of outputs under a small step on all weights: K_01, from steps that see one target each."""
    net, moved = train(readout_of_phi=True, ends=True), train(readout_of_phi=True, ends=True, eta0=rate)
    back = train(readout_of_phi=True, ends=True, eta0=-rate)
    # df = eta0 K Delta / 2 for both inputs: two numbers, of K's three; K_00 is known from the network's own gradients
    change = (moved.f[1] - back.f[1]) / (2 * rate)
    own = np.sum(_gradient(net, 0)**2) * net.mu0**2 * N
    return float((change[0] * 2 - own * net.Delta[0, 0]) / net.Delta[0, 1])


def _gradient(net: Trained, sample: int) -> np.ndarray:
    """df/d(all weights) at the start, flat."""
    g, a = net.g[0, :, :, sample] / (N * net.mu0), net.phi[0, :, :, sample]
    blocks = [np.outer(g[k + 1], a[k]).ravel() / np.sqrt(L * N) for k in range(L)]
    return np.concatenate([np.outer(g[0], net.x[:, sample]).ravel() / np.sqrt(D), *blocks, a[L] / (net.mu0 * N)])


def evidence() -> Evidence:
    tolerance = {"(4), (13)": 1e-7, "(12) to (15), (128), corrected": 1e-7}
    where = f"left side less right side, one tanh network of width {N} and depth {L}"
    return Evidence(tuple(MeasuredNumber(f"{name}, {where}", value, tolerance.get(name, ROUND_OFF), 0.0)
                          for name, value in residuals().items()))


def of_a_neuron(what: str, equation: Equation, printed: Equation, **options: Any) -> Witness:
    """The first neuron behind the second block after the last step."""
    here = letters_of_network(train(inputs=1, **options), STEPS - 1, 2)
    truth, right, wrong = (float(here.of(one)[0]) for one in (equation.target, equation.value, printed.value))
    return Witness(what, truth, ROUND_OFF, wrong, right)


def momentum_witness() -> Witness:
    return of_a_neuron("a neuron behind the second block", MOMENTUM, LATE, beta=BETA)


def decay_witness() -> Witness:
    return of_a_neuron("a neuron behind the second block", DECAY, OTHER_BLOCK, decay=DECAYED)


def last_witness() -> Witness:
    return of_a_neuron("g of a neuron at the last node", LAST, AVERAGED, readout_of_phi=True, ends=True)


def tangent_witness() -> Witness:
    return Witness("K of two inputs, all weights trained", slope_of_output(), 1e-7, tangent(WITHOUT_READ_OUT),
                   tangent(TANGENT))


def start_witness() -> Witness:
    """Real networks at the start against the variance of h at that depth, from its own recursion."""
    rng, many, width, xi = np.random.default_rng(0), 200, 64, 1.2
    found = []
    for _ in range(many):
        h = xi * rng.normal(size=width)
        for _ in range(L):
            h = h + rng.normal(size=(width, width)) @ np.tanh(h) / np.sqrt(L * width)
        found.append(np.mean((rng.normal(size=width) * np.cosh(h)**-2.0)**2))
    variance = float(tp.kernel_fn(tp.ResNet("tanh", "pre_nonlin"), L)([[xi]], get="nngp")[0, 0])
    points, weights = np.polynomial.hermite_e.hermegauss(120)
    gaussian = Letters({"dphi": lambda *_: np.cosh(np.sqrt(variance) * points)**-2.0}, {t: 0, depth: L},
                       lambda here, body: weights @ here.of(body) / np.sqrt(2 * np.pi))
    corrected = gaussian.of(START.value)
    return Witness("G at the last node, for a read-out of phi(h)", float(np.mean(found)),
                   float(np.std(found, ddof=1) / np.sqrt(many)) + 1e-3, 1.0, float(corrected))


ENTRY = Entry(
    key="depthwise_transfer/finite_network",
    kind="proposition",
    title="fields and updates of a finite network",
    source="Depthwise Hyperparameter Transfer, (4), (11) to (19), (22), (128) to (130), (133) to (140)",
    says="Identities of one real network, for each neuron and at every step, of weights that are written out as what "
         "they started from and what they learned; $c = \\eta_0 \\mu_0$, $\\chi^{\\ell+1} = N^{-1/2} W^\\ell(0) "
         "\\phi(h^\\ell)$, $r$ its mirror, $\\lambda$ the decay of a step. The last four lines are for a trained "
         "embedding and readout, a read-out of $\\phi(h)$, for momentum $\\beta$, and for weight decay.",
    statement=lambda: Equations((FORWARD, BACKWARD, TANGENT, LAST, MOMENTUM, DECAY)),
    assumptions=("$\\alpha = 1/2$, rate 0", "discrete time"),
    uses=("depthwise_transfer/parametrization",),
    evidence=evidence,
    errata=(
        Erratum(Slip.INCOMPLETE, "(128): nothing of the read-out, which is trained too",
                r"K &= \tfrac{1}{L} \sum_\ell G^{\ell+1} \Phi^\ell + G^1 K_x",
                lambda: line(TANGENT.target, TANGENT.value), tangent_witness),
        Erratum(Slip.FALSE, "(130): $\\Phi^L$, an average, in the place of each neuron's $\\phi(h^L)$",
                r"g^L_t &= \dot\phi(h^L_t) r^L_t + c\, \dot\phi(h^L_t) \sum_{s < t} \Phi^L_{ts} \Delta_s",
                lambda: line(LAST.target, LAST.value), last_witness),
        Erratum(Slip.FALSE, "(137): a gradient enters the velocity a step late; without momentum nothing is learnt",
                r"h^{\ell+1}_t &= h^\ell_t + \tfrac{1}{\sqrt{L}} \chi^{\ell+1}_t + \tfrac{c (1 - \beta)}{L} "
                r"\sum_{t' < t} \sum_{s < t'} \beta^{t' - s} \Phi^\ell_{ts} \Delta_s g^{\ell+1}_s",
                lambda: line(MOMENTUM.target, MOMENTUM.value), momentum_witness),
        Erratum(Slip.MISPRINT, "(140): $\\chi^\\ell$ for $\\chi^{\\ell+1}$ of (22)",
                r"h^{\ell+1}_t &= h^\ell_t + \tfrac{1}{\sqrt{L}} e^{-\eta_0 \lambda t} \chi^\ell_t + \ldots",
                lambda: line(DECAY.target, DECAY.value), decay_witness),
        Erratum(Slip.INCOMPLETE, "(16): 1 is for a read-out of the stream; (1) reads $\\phi(h)$",
                r"G^{L+1} &= 1", lambda: line(START.target, START.value), start_witness),
    ),
)
