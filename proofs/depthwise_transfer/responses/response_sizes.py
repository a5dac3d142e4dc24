"""Sizes of derivatives in sources, and of responses: why responses are rescaled by the root of the depth."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc._types import Value
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Rate
from tpcalc.ledger.entry import OrderBound

from ..._letters import Letters
from ..infinite_depth._batch_case import C, ETA0, MU0
from .._fields import Slope, fields, mean_of

TASK, DEPTHS = tp.Task([1.0, 0.8, -0.6, 1.1], [0.9, -0.7, 0.5, 1.2]), (64, 128, 256, 512)
HALF = sp.Rational(1, 2)
t, s, ell, k = sp.symbols("t s ell k", integer=True)
L, c = sp.symbols("L c", positive=True)
h, g, u, r, phi, A, B, An, Bn = fields("h g u r phi A B An Bn")
UNSCALED = (Equation(An(t, s, ell), mean_of(Slope(phi(t, ell), r(s, ell)))),
            Equation(Bn(t, s, ell), mean_of(Slope(g(t, ell + 1), u(s, ell + 1)))))
RESCALED = (Equation(A(t, s, ell), L**HALF / c * An(t, s, ell)), Equation(B(t, s, ell), L**HALF / c * Bn(t, s, ell)))


def size(*terms: sp.Expr, condition: str = "") -> OrderBound:
    return OrderBound(tuple(map(sp.latex, terms)), -HALF, condition)


SIZES = (size(Slope(h(t, ell), u(t, k)), condition=r"k \leq \ell"),
         size(Slope(g(t, ell), r(t, k)), condition=r"k \geq \ell"), size(An(t, s, ell), Bn(t, s, ell)))


@lru_cache(maxsize=None)
def network(depth: int) -> tuple[tp.Run, tp.theory.RawProblem]:
    raw = tp.theory.raw_problem(tp.theory.DepthwiseScaling(mu0=MU0, eta0=ETA0), tp.ResNet(), TASK, depth)
    return tp.train(raw.problem), raw


@lru_cache(maxsize=None)
def measured(depth: int) -> dict[str, float]:
    """By Stein's lemma, from overlaps of fields alone: what a block adds to h is a source over sqrt L, and learnt.

    Responses are those of the middle block, and derivatives those of the last node, or the first, in its sources.
    """
    run, raw = network(depth)
    chi, before, behind = (run.outputs - raw.problem.task.targets).ravel(), 0.5, 0.5 + 1 / depth

    def overlap(a: str, t_: int, p: float, b: str, s_: int, q: float) -> float:
        """<h_t g_s>, and so on."""
        found = run.cross_covariance(t_, s_, int(a == "g"), int(b == "g"), p, q)
        return float(found / (chi[t_] if a == "g" else 1) / (chi[s_] if b == "g" else 1))

    def sent(t_: int, b: str, s_: int, q: float) -> float:
        """sqrt L <(h_t behind the block less h_t before it) b_s>."""
        return float(np.sqrt(depth) * (overlap("h", t_, behind, b, s_, q) - overlap("h", t_, before, b, s_, q)))
    Phi, G = overlap("h", 0, before, "h", 0, before), overlap("g", 0, behind, "g", 0, behind)
    back = overlap("g", 0, before, "g", 0, 0.0) - overlap("g", 0, behind, "g", 0, 0.0)
    learnt = C / np.sqrt(depth) * overlap("h", 1, before, "h", 0, before) * raw.task.targets[0, 0, 0]
    return {"h": sent(0, "h", 0, 1.0) / Phi, "g": float(np.sqrt(depth) * back / G),
            "A": float(sent(1, "g", 0, behind) / G - learnt), "B": sent(0, "g", 1, behind) / Phi}


def by_derivatives() -> Letters:
    """Letters of the middle block, ``node`` the one before it: derivatives by coefficients over sources."""
    (run, raw), many = network(DEPTHS[0]), DEPTHS[0]
    chi = (run.outputs - raw.problem.task.targets).ravel()

    def slope(of: int, by: int, weights: np.ndarray) -> Value:
        return lambda a, node, b, source: run.gamma(
            a, b, of, by, (node - 1) / many, (source - by_node[by]) / many) * weights[a, b] / np.sqrt(many)
    by_node, ones = {0: 1, 1: 0}, np.ones_like(chi)   # u is indexed by the node behind a block, r by that before it
    return Letters({"phi/r": slope(0, 1, np.outer(ones, chi)), "g/u": slope(1, 0, np.outer(1 / chi, ones))}, {
        t: 1, s: 0, ell: many // 2 + 1, L: many, c: C}, mean=lambda reading, body: reading.of(body))


def evidence() -> Evidence:
    words = {"h": "dh_0 / du_0", "g": "dg_0 / dr_0", "A": "A_10 of the middle block", "B": "B_10 of the middle block"}
    bounds = {"h": SIZES[0], "g": SIZES[1], "A": SIZES[2], "B": SIZES[2]}
    rates = tuple(Rate(f"{what}, linear", "L", float(-bounds[name].power), DEPTHS, tuple(
        abs(measured(depth)[name]) for depth in DEPTHS)) for name, what in words.items())
    some, found, here = measured(DEPTHS[0]), tp.theory.order_parameters(*network(DEPTHS[0])), by_derivatives()
    numbers = []
    for name, definition, equation in zip("AB", UNSCALED, RESCALED):
        where = f"of the middle block of {DEPTHS[0]}, linear"
        known = {(1, 0, DEPTHS[0] // 2 + 1): some[name]}
        there = Letters({type(definition.target).__name__: lambda *at, known=known: known[at]}, here.symbols)
        numbers += [MeasuredNumber(f"{name}_10 by its derivative, {where}", some[name], 1e-9,
                                   float(here.of(definition.value))),
                    MeasuredNumber(f"{name}_32 by its derivative, rescaled, {where}",
                                   float(getattr(found, name)[DEPTHS[0] // 2, 3, 0, 2, 0]), 1e-9, float(
                                       here.at({t: 3, s: 2}).of(definition.value) * np.sqrt(DEPTHS[0]) / C)),
                    MeasuredNumber(f"{name}_10 as rescaled, {where}",
                                   float(getattr(found, name)[DEPTHS[0] // 2, 1, 0, 0, 0]), 1e-9,
                                   float(there.of(equation.value)))]
    return Evidence(tuple(numbers), rates)


ENTRY = Entry(
    key="depthwise_transfer/response_sizes",
    kind="proposition",
    title="sizes of responses",
    source="Depthwise Hyperparameter Transfer, appendix E.2, (42), (43) and (45) to (48)",
    says="A source enters the stream divided by $\\sqrt L$. Responses of one block, here $\\mathcal{A}$ and "
         "$\\mathcal{B}$, fall as slowly, because gradients of all layers know of it; so their sum over layers, each "
         "over $\\sqrt L$ again, is of order one. The rescaled ones have limits.",
    statement=lambda: Equations((*UNSCALED, *SIZES, *RESCALED)),
    assumptions=("width to infinity at fixed depth", "$\\alpha = 1/2$, rate 0"),
    uses=("depthwise_transfer/responses", "gaussian/stein"),
    evidence=evidence,
)
