"""The tangent kernel of a finite network: how outputs move under gradient flow, and what it is in other kernels."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

from tpcalc._types import Value
from tpcalc.calculus import Derivation
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Proof, Slip, Witness
from tpcalc.ledger.entry import line

from ..._letters import Letters
from ..._rewriting import Rewriting, of_nodes
from .._fields import Slope, fields
from ._finite_network import TINY, D, L, N, Trained, train
from ._network_numbers import PRODUCTS, worst
from ._network_rules import (KERNELS, LINEAR, OUT_OF_SUMS, TWO_OUTER, G, Kx, Phi, W, W0, Acts, Dot, chain_rule, depth,
                             h, inputs, insert, phi, read, w, width, x)
from .fields_and_kernels import ell, f, mu0, t
from .finite_network import Delta, eta, gradient_at, loss, stream_after

BATCH = 2
a, b = sp.symbols("a b", integer=True)
eta0, size = sp.symbols("eta_0 B")
K, df, dW, dW0, dw = fields("K df dW dW0 dw")
WEIGHTS = ((W(t, ell), dW(t, ell)), (W0(t), dW0(t)), (w(t), dw(t)))


def _over_weights(first: sp.Expr, others: tuple[sp.Expr, ...]) -> sp.Expr:
    """The overlap of df/d(weights) with others, over all weights."""
    block, *rest = (Dot(Slope(first, one), other) for (one, _), other in zip(WEIGHTS, others))
    return sp.Sum(block, (ell, 1, depth)) + sp.Add(*rest)


_overlaps = _over_weights(f(a), tuple(Slope(f(b), one) for one, _ in WEIGHTS))
DEFINITION = Equation(K(a, b, t), mu0**2 * width * _overlaps)
BLOCK_OVERLAPS = sp.Sum(Dot(Slope(f(a), W(t, ell)), Slope(f(b), W(t, ell))), (ell, 1, depth))
OF_BLOCKS = mu0**2 * width * BLOCK_OVERLAPS
WRITTEN = Equation(df(a), eta0 * mu0**2 * width / size * sp.Sum(Delta[b] * _overlaps, (b, 0, size - 1)))
FLOW = Equation(df(a), eta0 / size * sp.Sum(Delta[b] * K(a, b, t), (b, 0, size - 1)))
BLOCKS = Equation(OF_BLOCKS, sp.Sum(G(a, b, ell + 1) * Phi(a, b, ell), (ell, 1, depth)) / depth)
TANGENT = Equation(K(a, b, t), BLOCKS.value + G(a, b, 1) * Kx(a, b, 0) + Phi(a, b, depth + 1))
WITHOUT_READ_OUT = Equation(TANGENT.target, TANGENT.value - Phi(a, b, depth + 1))   # as printed


def _error(slope: Slope) -> sp.Expr:
    of, by = slope.args
    return -sp.Sum(Delta[b] * Slope(f(b), by), (b, 0, size - 1)) / size if isinstance(of, loss) else slope


def _over_inputs(expression: sp.Expr) -> sp.Expr:
    """Sums over inputs, those within sums over blocks too, as one."""
    inner, common = [], set()
    for term in sp.Add.make_args(sp.expand(expression)):
        factor, total = term.as_independent(sp.Sum, as_Add=False)
        if not isinstance(total, sp.Sum):
            raise ValueError(f"{term}: no sum over inputs")
        rest = [limit for limit in total.limits if limit[0] != b]
        body = total.function / Delta[b]
        inner.append(sp.Sum(body, *rest) if rest else body)
        common.add(factor)
    factor, = common
    return factor * sp.Sum(Delta[b] * sp.Add(*inner), (b, 0, size - 1))


FLOWS = Rewriting("gradient flow", "weights follow minus the slope of the loss at the rate $\\eta$",
                  "depthwise_transfer/parametrization",
                  lambda expression: expression.xreplace({dot: -eta * Slope(loss(t), one) for one, dot in WEIGHTS}))
ERRORS = Rewriting("error signals", "the loss is a mean over inputs, $\\Delta$ minus its slope in an output",
                   "calculus", of_nodes(Slope, _error))
ONE_SUM = Rewriting("one sum", "over inputs, of sums over blocks", "algebra", _over_inputs)
RATE = read(eta, eta0 * mu0**2 * width, "the rate of the parametrization", "depthwise_transfer/parametrization")
NAMED = read(_overlaps, K(a, b, t) / (mu0**2 * width), "the tangent kernel, by its name")


@lru_cache(maxsize=None)
def derivation() -> Derivation:
    steps, first = Derivation(), sp.Integer(1)
    steps.through((FLOWS, ERRORS, LINEAR, OUT_OF_SUMS, ONE_SUM, RATE, NAMED, OUT_OF_SUMS),
                  df(a), _over_weights(f(a), tuple(dot for _, dot in WEIGHTS)))
    at_blocks = [rule for one in (a, b) for rule in (
        chain_rule(W(t, ell), {h(one, ell + 1): stream_after(one)}, f(one)), gradient_at(ell + 1, one))]
    at_start = [rule for one in (a, b) for rule in (
        chain_rule(W0(t), {h(one, 1): Acts(W0(t), x(one)) / sp.sqrt(inputs)}, f(one)), gradient_at(first, one))]
    at_end = [chain_rule(w(t), {f(one): Dot(w(t), phi(one, depth + 1)) / (mu0 * width)}, f(one)) for one in (a, b)]
    last = (LINEAR, TWO_OUTER, KERNELS, OUT_OF_SUMS)
    of_blocks = steps.through((*at_blocks, *last), OF_BLOCKS, OF_BLOCKS)
    value = steps.apply(insert(BLOCK_OVERLAPS, of_blocks / (mu0**2 * width)), K(a, b, t), DEFINITION.value)
    steps.through((*at_start, *at_end, *last), K(a, b, t), value)
    return steps


def letters_of_inputs(net: Trained, now: int = 1) -> Letters:
    """Letters of a network of several inputs at the step ``now``, nodes and blocks from 1."""
    def loss_slope(name: str) -> Value:
        return lambda _, step, node=0: net.slope(step, "loss", name, node).mean(axis=0)

    def moved(name: str) -> Value:
        return lambda step, node=0: -rate * net.slope(step, "loss", name, node).mean(axis=0)

    def flow(one: int) -> float:
        blocks = {("W", node): 1j * TINY * moved("W")(now, node) for node in range(1, L + 1)}
        others = {(name, 0): 1j * TINY * moved(name)(now) for name in ("W0", "w")}
        return float(net.output(now, {**blocks, **others})[one].imag / TINY)

    def kernel(of: np.ndarray) -> Value:
        return lambda one, other, node: net.kernel(of, now, node - 1, now)[one, other]
    rate = net.eta0 * net.mu0**2 * N
    tables: dict[str, Value] = {
        "h": lambda one, node: net.h[now, node - 1, :, one], "g": lambda one, node: net.g[now, node - 1, :, one],
        "phi": lambda one, node: net.phi[now, node - 1, :, one], "x": lambda one: net.x[:, one],
        "Phi": kernel(net.phi), "G": kernel(net.g), "Kx": lambda one, other, _: (net.x.T @ net.x / D)[one, other],
        r"\Delta": lambda one: net.Delta[now, one], "df": flow,
        **{f"f/{name}": lambda one, step, node=0, name=name: net.slope(step, "f", name, node)[one]
           for name in ("W", "W0", "w")},
        "f/h": lambda one, other, node: net.slope(now, "f", "h", node)[one, :, 0],
        **{f"loss/{name}": loss_slope(name) for name in ("W", "W0", "w")},
        **{f"d{name}": moved(name) for name in ("W", "W0", "w")}}
    plain = Letters({**PRODUCTS, **tables}, {depth: L, width: N, inputs: D, size: BATCH, t: now, mu0: net.mu0,
                                             eta0: net.eta0, eta: rate, a: 0, b: 1, ell: 2})
    known = {(one, other): plain.at({a: one, b: other}).of(DEFINITION.value) for one in range(BATCH)
             for other in range(BATCH)}
    return Letters({**plain.fields, "K": lambda one, other, _: known[one, other]}, plain.symbols)


def derive() -> Proof:
    def numbers(rng: np.random.Generator) -> float:
        return worst(derivation().steps, letters_of_inputs(train(True, True, rng=rng)))
    return Proof(derivation().steps, numbers, f"both sides of every step for {BATCH} inputs of a random tanh network "
                 f"of width {N}, slopes and the flow by complex steps of its outputs")


def slope_of_output(rate: float = 1e-6) -> float:
    """By the motion of outputs under a small step on all weights: K_01, from steps that see one target each."""
    net, moved = train(readout_of_phi=True, ends=True), train(readout_of_phi=True, ends=True, eta0=rate)
    back = train(readout_of_phi=True, ends=True, eta0=-rate)
    # df = eta0 K Delta / 2 for both inputs: two numbers, of K's three; K_00 is known from the network's own gradients
    change = (moved.f[1] - back.f[1]) / (2 * rate)
    own = sum(np.sum(net.slope(0, "f", name, node)[0]**2) for name, node in (
        ("W0", 0), ("w", 0), *(("W", block) for block in range(1, L + 1)))) * net.mu0**2 * N
    return float((change[0] * 2 - own * net.Delta[0, 0]) / net.Delta[0, 1])


def witness() -> Witness:
    """Before training."""
    net = train(readout_of_phi=True)
    here = letters_of_inputs(net, 0)
    return Witness("K of two inputs, all weights trained", slope_of_output(), 1e-7,
                   float(here.of(WITHOUT_READ_OUT.value)), float(here.of(TANGENT.value)))


ENTRY = Entry(
    key="depthwise_transfer/tangent_kernel",
    kind="proposition",
    title="the tangent kernel of a finite network",
    source="Depthwise Hyperparameter Transfer, (11), (12), (14) and (128)",
    says="Inputs $a$, $b$ of a batch of $B$ at one moment $t$ of gradient flow, whose loss is a mean over the batch, "
         "for a network that reads $\\phi(h)$ at its last node and trains all its weights. $K$ is $\\mu_0^2 N$ times "
         "the sum in the brackets of the first line; the third is what blocks alone bring.",
    statement=lambda: Equations((WRITTEN, FLOW, BLOCKS, TANGENT)),
    assumptions=("$\\alpha = 1/2$, rate 0", "gradient flow"),
    uses=("depthwise_transfer/parametrization", "depthwise_transfer/fields_and_kernels"),
    derive=derive,
    errata=(
        Erratum(Slip.INCOMPLETE, "(128): nothing of the read-out, which is trained too",
                r"K &= \tfrac{1}{L} \sum_\ell G^{\ell+1} \Phi^\ell + G^1 K_x",
                lambda: line(TANGENT.target, TANGENT.value), witness),),
)
