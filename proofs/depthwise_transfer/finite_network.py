"""Finite networks: fields, kernels and updates, as identities of one real network."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, Number, Slip, Witness
from tpcalc.ledger.entry import line

from ._finite_network import D, L, N, STEPS, Trained, train
from ._fields import fields, mean_of

ROUND_OFF = 1e-12
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


def chi_of(net: Trained, step: int, block: int) -> np.ndarray:
    found: np.ndarray = net.W[0, block] @ net.phi[step, block] / np.sqrt(N)
    return found


def forward(net: Trained, step: int, block: int, weight: np.ndarray, shrunk: float = 1.0, of: int = 0) -> np.ndarray:
    """h behind a block by its fields; weight: (t, s) of what step s left; of: the block whose chi is taken, besides."""
    learnt = sum(weight[step, s] * net.g[s, block + 1] @ (
        net.Delta[s][:, None] / 2 * net.kernel(net.phi, s, block, step)) for s in range(STEPS))
    result: np.ndarray = (net.h[step, block] + shrunk * chi_of(net, step, block - of) / np.sqrt(L)
                          + net.eta0 * net.mu0 / L * learnt)
    return result


EARLIER = np.tril(np.ones((STEPS, STEPS)), -1)


def by_momentum(share: float, own: bool) -> np.ndarray:
    """(t, s): what a gradient of step s counts in the weights of step t; own: v(t') has the gradient of t' in it."""
    last = 0 if own else 1
    return np.array([[sum((1 - share) * share**(k - s) for k in range(s + last, t)) for s in range(STEPS)]
                     for t in range(STEPS)])


@lru_cache(maxsize=None)
def residuals() -> dict[str, float]:
    plain, ends = train(), train(readout_of_phi=True, ends=True)
    step, found = STEPS - 1, {}
    found["(18)"] = max(np.max(np.abs(forward(plain, step, k, EARLIER) - plain.h[step, k + 1])) for k in range(L))
    worst = 0.0
    for k in range(L):
        back = plain.W[0, k].T @ plain.g[step, k + 1] / np.sqrt(N) / np.sqrt(L)
        back += plain.eta0 * plain.mu0 / L * sum(plain.phi[s, k] @ (
            plain.Delta[s][:, None] / 2 * plain.kernel(plain.g, s, k + 1, step)) for s in range(step))
        worst = max(worst, np.max(np.abs(plain.g[step, k + 1] + np.cosh(plain.h[step, k])**-2.0 * back
                                         - plain.g[step, k])))
    found["(19)"] = worst
    momentum, shrinking = train(beta=0.6), train(decay=0.3)
    found["(137), corrected"] = np.max(np.abs(
        forward(momentum, step, 1, by_momentum(0.6, True)) - momentum.h[step, 2]))
    shrunk, weight = decays(shrinking)
    found["(139), (140)"] = np.max(np.abs(forward(shrinking, step, 1, weight, shrunk) - shrinking.h[step, 2]))
    found["(129), (130), corrected"] = float(abs(last_gradient(ends)[0] - ends.g[step, L, 0, 0]))
    found["(4), (13)"] = by_difference(plain)
    found["(12) to (15), (128), corrected"] = float(abs(tangent(True) - slope_of_output()))
    return {name: float(value) for name, value in found.items()}


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


def decays(net: Trained) -> tuple[float, np.ndarray]:
    rate = net.eta0 * 0.3
    weight = np.array([[(1 - rate)**(t - 1 - s) if s < t else 0.0 for s in range(STEPS)] for t in range(STEPS)])
    return (1 - rate)**(STEPS - 1), weight


def last_gradient(net: Trained) -> tuple[float, float]:
    """g of the first neuron at the last node, read-out trained: by (130) as corrected and as printed."""
    step, slope = STEPS - 1, float(np.cosh(net.h[STEPS - 1, L, 0, 0])**-2.0)
    rate = net.eta0 * net.mu0
    right = net.w[0, 0] + rate * sum(float(net.Delta[s] / 2 @ net.phi[s, L, 0]) for s in range(step))
    average = sum(float(net.Delta[s] / 2 @ net.kernel(net.phi, step, L, s)[0]) for s in range(step))
    printed = net.w[0, 0] + rate * average
    return slope * right, slope * printed


def tangent(read_out: bool) -> float:
    """K of the first two inputs at the start by (128), with the read-out's term or without."""
    net = train(readout_of_phi=True)
    body = np.mean([net.kernel(net.g, 0, k + 1, 0) * net.kernel(net.phi, 0, k, 0) for k in range(L)], axis=0)
    total = body + net.kernel(net.g, 0, 0, 0) * (net.x.T @ net.x / D) + read_out * net.kernel(net.phi, 0, L, 0)
    return float(total[0, 1])


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
    return Evidence(tuple(Number(f"{name}, {where}", value, tolerance.get(name, ROUND_OFF), 0.0)
                          for name, value in residuals().items()))


def momentum_witness() -> Witness:
    net = train(beta=0.0)
    truth, step = net.h[1, 2, 0, 0] - net.h[0, 2, 0, 0], 1
    right, printed = (forward(net, step, 1, by_momentum(0.0, own))[0, 0] - net.h[0, 2, 0, 0] for own in (True, False))
    return Witness("motion of a neuron in a step at momentum 0", float(truth), ROUND_OFF, float(printed), float(right))


def decay_witness() -> Witness:
    net = train(decay=0.3)
    shrunk, weight = decays(net)
    right, printed = (forward(net, STEPS - 1, 1, weight, shrunk, of)[0, 0] for of in (0, 1))
    return Witness("a neuron behind the second block", float(net.h[STEPS - 1, 2, 0, 0]), ROUND_OFF, float(printed),
                   float(right))


def last_witness() -> Witness:
    net = train(readout_of_phi=True, ends=True)
    right, printed = last_gradient(net)
    return Witness("g of a neuron at the last node", float(net.g[STEPS - 1, L, 0, 0]), ROUND_OFF, printed, right)


def tangent_witness() -> Witness:
    return Witness("K of two inputs, all weights trained", slope_of_output(), 1e-7, tangent(False), tangent(True))


def start_witness() -> Witness:
    """Real networks at the start against the variance of h at that depth, from its own recursion."""
    rng, many, width, xi = np.random.default_rng(0), 200, 64, 1.2
    found = []
    for _ in range(many):
        h = xi * rng.normal(size=width)
        for _ in range(L):
            h = h + rng.normal(size=(width, width)) @ np.tanh(h) / np.sqrt(L * width)
        found.append(np.mean((rng.normal(size=width) * np.cosh(h)**-2.0)**2))
    variance = float(tp.kernel_fn(tp.ResNet("tanh", "pre"), L)([[xi]], get="nngp")[0, 0])
    points, weights = np.polynomial.hermite_e.hermegauss(120)
    corrected = weights @ np.cosh(np.sqrt(variance) * points)**-4.0 / np.sqrt(2 * np.pi)
    return Witness("G at the last node, for a read-out of phi(h)", float(np.mean(found)),
                   float(np.std(found, ddof=1) / np.sqrt(many)) + 1e-3, 1.0, float(corrected))


ENTRY = Entry(
    key="depthwise_transfer/finite_network",
    kind="proposition",
    title="fields and updates of a finite network",
    source="Depthwise Hyperparameter Transfer, (4), (11) to (19), (22), (128) to (130), (133) to (140)",
    says="Identities of one real network, for each neuron and at every step, of weights that are written out as what "
         "they started from and what they learned; $c = \\eta_0 \\mu_0$, $\\chi^{\\ell+1} = N^{-1/2} W^\\ell(0) "
         "\\phi(h^\\ell)$, $r$ its mirror, $\\lambda$ the decay of a step. The last four lines are for trained ends "
         "and a read-out of $\\phi(h)$, for momentum $\\beta$, and for weight decay.",
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
