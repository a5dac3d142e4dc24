"""Transformers with drawn sublayers, and the sizes that training real ones has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Sequence

import numpy as np
import sympy as sp

from .._types import Value
from ..classification.classify import classify
from ..errors import Divergence
from ..interpreters.dense import run_dense
from ..parametrizations import DepthScaling
from ..programs import SGD, Adam, Lion, SignSGD, Transformer
from ..programs.blocks import Block, Branch
from ..programs.builders import program
from ..programs.indices import POSITIONS, m, p
from ..programs.language import HeadSum, MatVec
from ..programs.updates import Optimizer
from .drawn_programs import HALF, POINTS
from .extrapolation import powers_of_corrections, slope
from .refusals import refused_or

ATTENTIONS = ("softmax", "linear", "mean", "gated")
SECOND = (None, "mlp", "glu")
NORMS = (None, "rms", "layer")
ACTIVATIONS = ("tanh", "relu", "gelu")
OPTIMIZERS: tuple[Optimizer, ...] = (SGD(0.05), Adam(0.05, eps=0), SignSGD(0.05), Lion(0.05))
DEPTHS = (32, 48, 64, 96, 128, 192)
NAMES = ("x at initialisation", "change of x", "change of f")
SLACK, ERRORS = 0.1, 3
PLACES, WIDTH, SEEDS = 3, 96, 4


@dataclass(frozen=True)
class DrawnTransformer:
    """A transformer whose attention, second sublayer, norm, activation, mask and optimizer are drawn; point: (alpha,
    gamma) of its scaling."""

    attention: str
    mlp: str | None
    norm: str | None
    phi: str
    causal: bool
    head_dim: int
    opt: Optimizer
    point: tuple[sp.Rational, sp.Rational]

    @cached_property
    def net(self) -> Transformer:
        attention: str | Block = self.attention if self.attention == "softmax" else attention_of(
            self.attention, self.head_dim, self.causal)
        return Transformer(head_dim=self.head_dim, positions=PLACES, norm=self.norm, mlp=self.mlp, causal=self.causal,
                           phi=self.phi, attention=attention)


def drawn_transformer(seed: int) -> DrawnTransformer:
    """The transformer of a seed."""
    rng = np.random.default_rng([2028, seed])

    def one(values: Sequence[Value]) -> Value:
        return values[int(rng.integers(len(values)))]

    return DrawnTransformer(one(ATTENTIONS), one(SECOND), one(NORMS), one(ACTIVATIONS), bool(rng.random() < 0.5),
                            one((1, 2)), one(OPTIMIZERS), one([at for at in POINTS if at[0] >= HALF]))


def attention_of(name: str, head_dim: int, causal: bool) -> Block:
    """Attention that is linear in its scores, a mean over positions, or one behind a gate, per position that is read.
    """
    read = (sp.Piecewise((1, m <= p), (0, True)) if causal else sp.Integer(1)) / POSITIONS

    def block(b: Branch) -> sp.Expr:
        v = b.let("u", MatVec(b.weights("Wv"), b.x))
        if name == "linear":
            q, k = (b.let(one, MatVec(b.weights("W" + one), b.x)) for one in "qk")
            score = b.let("score", HeadSum(q * b.other(k), head_dim) / head_dim)
            mixed = b.let_total("mixed", read * score * b.other(v))
        else:
            mixed = b.let_total("mixed", read * b.other(v))
        if name == "gated":
            mixed = b.let("gated", b.phi(b.let("g", MatVec(b.weights("Wg"), b.x))) * mixed)
        return MatVec(b.weights("Wo"), mixed)

    block.__name__ = name
    return block


def measured(drawn: DrawnTransformer, depth: int, seeds: int = SEEDS, width: int = WIDTH) -> dict[str, float]:
    """Root mean squares over coordinates, positions and seeds, before and after a first update on the same sequence."""
    xi, y = [0.6, -0.4, 0.9], [-3, 4, 2]
    training = program(drawn.net, drawn.opt, DepthScaling(*drawn.point))
    squares: dict[str, list[float]] = {name: [] for name in NAMES}
    for seed in range(seeds):
        run = run_dense(training, {"T": 2, "L": depth, "P": PLACES}, {"xi": [xi, xi], "y": [y, y]}, width, seed,
                        keep=("x",))
        before, after = (run.stack("x", t, depth) for t in range(2))
        f = run.series("f")
        for name, change in zip(NAMES, (before, after - before, f[1] - f[0])):
            squares[name].append(float(np.mean(change**2)))
    return {name: float(np.sqrt(np.mean(values))) for name, values in squares.items()}


@dataclass(frozen=True)
class Compared:
    """A power of L as derived, and as the slope of sizes over depths with its standard error."""

    name: str
    derived: sp.Expr
    slope: float
    error: float

    @property
    def agrees(self) -> bool:
        return abs(self.slope - float(self.derived)) <= max(SLACK, ERRORS * self.error)


def assert_transformer_agrees(drawn: DrawnTransformer, depths: Sequence[int] = DEPTHS, seeds: int = SEEDS,
                              width: int = WIDTH) -> tuple[Compared, ...]:
    """Assert that a verdict's powers of L are the slopes of real networks over depths, within .1 or three standard
    errors, with the first of the powers in the fit that noise and updates add up to.

    Raises ``Refused`` where there is no verdict, and ``AssertionError`` with what was drawn and both numbers.
    """
    verdict = refused_or(classify, DepthScaling(*drawn.point), drawn.net, drawn.opt)
    rows = []
    for depth in depths:
        try:
            rows.append(measured(drawn, depth, seeds, width))
        except Divergence:
            rows.append(dict.fromkeys(NAMES, np.inf))
    found = []
    for name in NAMES:
        derived = verdict.exponents.get(name)
        if derived is None:
            continue  # not counted, as the verdict says
        sizes = np.array([row[name] for row in rows])
        shown = f"{drawn}\n  {verdict.name}; {name}: derived L^({derived}), measured {dict(zip(depths, sizes))}"
        if derived is sp.oo:
            assert not np.isfinite(sizes[-1]) or sizes[-1] / sizes[0] > depths[-1] / depths[0], shown
            continue
        assert np.all(np.isfinite(sizes)) and np.all(sizes > 0), shown
        one = Compared(name, derived, *slope(depths, sizes, corrections_at(drawn.point)))
        below = name in verdict.bounds and one.slope < float(derived)
        assert one.agrees or below, f"{shown}, slope {one.slope:.3f} +- {one.error:.3f}"
        found.append(one)
    return tuple(found)


def corrections_at(point: tuple[sp.Rational, sp.Rational]) -> list[float]:
    """The power of L that may correct squares of sizes."""
    scale = DepthScaling(*point)
    rates = {1.0, *(abs(float(power)) for power in (scale.noise_exponent, scale.drift_exponent))}
    return powers_of_corrections(min(rate for rate in rates if 0 < rate <= 1), 1)
