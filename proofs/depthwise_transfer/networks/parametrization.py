"""The parametrizations of table 1 and appendix M, as real networks in them train, and as tp.Problem has them."""

from __future__ import annotations

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber

from ._finite_network import D, L, N, STEPS, train

neurons, depth, branch, eta0, mu0, alpha = sp.symbols("N L beta eta_0 mu_0 alpha", positive=True)
h, f, eta = sp.symbols("h^{\\ell+1} f eta")
before, product, readout = sp.symbols("h^{\\ell} W^{\\ell}\\phi(h^{\\ell}) w\\cdot{h}^{L}")


def statement() -> Equations:
    return Equations((Equation(h, before + branch * depth**-alpha / sp.sqrt(neurons) * product),
                      Equation(f, readout / (mu0 * neurons)),
                      Equation(eta, eta0 * mu0**2 * depth**(2 * alpha - 1) * neurons)))


def stated() -> list[MeasuredNumber]:
    """The three equations on the network that is written out here, at another width and depth than one."""
    net = train(mu0=0.8, inputs=1)
    step, node, phi = 1, 1, np.tanh
    known = {neurons: N, depth: L, branch: 1, eta0: net.eta0, mu0: net.mu0, alpha: 0.5, before: net.h[step, node],
             product: net.W[step, node] @ phi(net.h[step, node]), readout: net.w[step] @ net.h[step, -1]}
    letters = [neurons, depth, branch, eta0, mu0, alpha, before, product, readout]

    def of(value: sp.Expr) -> np.ndarray:
        return np.asarray(sp.lambdify(letters, value)(*(known[letter] for letter in letters)))
    forward, output, rate = (of(one.value) for one in statement().equations)
    # the rate of the loss's own gradient, which is 1 / (N mu0) times what the network is pushed by
    error = net.f[step - 1] + 0 - (net.f[step - 1] + net.Delta[step - 1])
    gradient = net.g[step - 1, node + 1] * error / (N * net.mu0) @ phi(net.h[step - 1, node]).T / np.sqrt(L * N)
    moved = net.W[step, node] - net.W[step - 1, node]
    differences = {"h of the next node": forward - net.h[step, node + 1], "the output": output - net.f[step],
                   "what a step moves a block's weights by": moved + rate * gradient}
    return [MeasuredNumber(f"{what}, stated less that of a network of width {N}, {L} blocks",
                           float(np.max(np.abs(found))), 1e-12, 0.0) for what, found in differences.items()]


def evidence() -> Evidence:
    """The network that is written out here against the problem that it is mapped to, from the same weights."""
    numbers = []
    for ends, beta, decay in ((False, 0.0, 0.0), (True, 0.0, 0.0), (False, 0.6, 0.0), (False, 0.0, 0.3)):
        net = train(ends=ends, beta=beta, decay=decay)
        y = net.f + net.Delta
        task = tp.Task(np.repeat(net.x.T[None], STEPS, axis=0), y[..., None])
        raw = tp.theory.raw_problem(tp.theory.DepthwiseScaling(mu0=net.mu0, eta0=net.eta0),
                                    tp.ResNet("tanh", "pre_nonlin", train_embedding_readout=ends),
                                    task, L, N, momentum=beta, weight_decay=decay)
        weights = {"U": net.W0[0].T, "W": net.W[0] / np.sqrt(N), "nV": net.w[0]}
        run = tp.train(raw.problem, method=tp.methods.Dense(weights=weights))
        numbers.append(MeasuredNumber(f"outputs of a network of width {N}, {D} inputs, {L} blocks, less those of the "
                                      f"mapped problem: ends {'trained' if ends else 'frozen'}, momentum {beta:g}, "
                                      f"decay {decay:g}",
                                      float(np.max(np.abs(raw.output_scale * run.outputs[..., 0] - net.f))), 1e-12,
                                      0.0))
    return Evidence((*stated(), *numbers))


ENTRY = Entry(
    key="depthwise_transfer/parametrization",
    kind="definition",
    title="parametrizations of a residual network",
    source="Depthwise Hyperparameter Transfer, table 1, (1) to (3), (8), (133), (138) and (141)",
    says="Weights have entries $N(0, 1)$ and one learning rate $\\eta$; inputs enter divided by $\\sqrt D$. In units "
         "of the limit the branch multiplier is $\\beta L^{-\\alpha}$, outputs and targets are $\\mu_0$ times as "
         "large, and blocks move by $\\eta_0 \\beta L^{\\alpha - 1}$ times normalized gradients.",
    statement=statement,
    evidence=evidence,
)
