"""Transformers with drawn sublayers, and the sizes that training real ones has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Callable, Mapping, Sequence

import numpy as np
import sympy as sp

from tpcalc._types import Value
from tpcalc.verdicts.classify import classify
from tpcalc.verdicts.verdict import Verdict
from tpcalc.scaling import DepthScaling
from tpcalc.optimizers import SGD, Adam, Lion, SignSGD
from tpcalc.models import Transformer
from tpcalc.programs.blocks import Block, Branch
from tpcalc.programs.indices import POSITIONS, m, p
from tpcalc.programs.language import HeadSum, MatVec
from tpcalc.optimizers.updates import Optimizer
from .drawn_programs import HALF, POINTS
from .measured_powers import measured_power
from .refusals import refused_or

ATTENTIONS = ("softmax", "linear", "mean", "gated")
SECOND = (None, "mlp", "glu")
NORMS = (None, "rms", "layer")
ACTIVATIONS = ("tanh", "relu", "gelu")
OPTIMIZERS: tuple[Callable[[float], Optimizer], ...] = (SGD, partial(Adam, eps=0), SignSGD, Lion)
RATE, SMALL = 0.05, 0.0005  # small where changes outgrow the stream: their powers are those to first order in the rate
DEPTHS = (32, 64, 128, 256)
NAMES = START, CHANGE, OUTPUT = ("x at initialization", "change of x", "change of f")
SLACK, ERRORS, STEP = 0.1, 3, sp.Rational(1, 4)
SHARP, ROUNDS = 0.05, 16
LOCATIONS = 3

# Inputs that overlap and targets of one sign, so that what positions bring to each other adds up. Small ones where
# products of vectors act on a stream without a norm: of larger ones some networks blow up at a finite layer time, which
# verdicts say nothing of.
INPUTS = ((0.7, 0.2, 0.2), (0.2, 0.7, 0.2), (0.2, 0.2, 0.7))
SMALL_INPUTS = ((0.35, 0.1, 0.1), (0.1, 0.35, 0.1), (0.1, 0.1, 0.35))
TARGETS = (1.0, 2.0, 1.5)


@dataclass(frozen=True)
class DrawnTransformer:
    """A transformer whose attention, second sublayer, norm, activation, mask and optimizer are drawn; point: (alpha,
    gamma) of its scaling. qk_norm: are q and k of softmax attention divided by their root mean squares?"""

    attention: str
    mlp: str | None
    norm: str | None
    phi: str
    causal: bool
    head_dim: int
    opt: Optimizer
    point: tuple[sp.Rational, sp.Rational]
    inputs: tuple[tuple[float, ...], ...] = INPUTS
    targets: tuple[float, ...] = TARGETS
    qk_norm: bool = False

    @cached_property
    def net(self) -> Transformer:
        attention: str | Block = self.attention if self.attention == "softmax" else attention_of(
            self.attention, self.head_dim, self.causal)
        return Transformer(head_dim=self.head_dim, positions=LOCATIONS, norm=self.norm, mlp=self.mlp,
                           causal=self.causal,
                           phi=self.phi, attention=attention, qk_norm=self.qk_norm)


def drawn_transformer(seed: int) -> DrawnTransformer:
    """The transformer of a seed."""
    rng = np.random.default_rng([2028, seed])

    def one(values: Sequence[Value]) -> Value:
        return values[int(rng.integers(len(values)))]

    made = (one(ATTENTIONS), one(SECOND), one(NORMS), one(ACTIVATIONS), bool(rng.random() < 0.5), one((1, 2)))
    opt, point = one(OPTIMIZERS), one([at for at in POINTS if at[0] >= HALF])
    drawn = DrawnTransformer(*made, opt(RATE if sum(point) >= 1 else SMALL), point)
    multiplies = drawn.attention in ("linear", "gated") or drawn.mlp == "glu"
    return replace(drawn, inputs=SMALL_INPUTS) if multiplies and drawn.norm is None else drawn


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


Measure = Callable[[DrawnTransformer, int, int], Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Compared:
    """A power of L as derived, and as measured with its standard error; bound: is it one from above alone?"""

    name: str
    derived: sp.Expr
    measured: float
    error: float
    bound: bool = False

    @property
    def agrees(self) -> bool:
        return self.takes(self.derived)

    @property
    def tells(self) -> bool:
        """Would a power smaller or larger by 1/4, the least by which verdicts at these points differ, not agree?

        Of a bound it is the smaller one alone.
        """
        return not any(self.takes(self.derived + by) for by in ([-STEP] if self.bound else [-STEP, STEP]))

    def takes(self, power: sp.Expr) -> bool:
        """Is that power within .1 or three standard errors of what is measured?"""
        far = self.measured - float(power)
        return (far if self.bound else abs(far)) <= max(SLACK, ERRORS * self.error)

    def __str__(self) -> str:
        return (f"{self.name} {'at most ' if self.bound else ''}{self.derived}, measured {self.measured:.3f} +- "
                f"{self.error:.3f}")


def assert_transformer_agrees(drawn: DrawnTransformer, measure: Measure, depths: Sequence[int] = DEPTHS,
                              rounds: int = ROUNDS) -> tuple[Verdict, tuple[Compared, ...]]:
    """Assert that a verdict's powers of L are those of real networks, within .1 or three standard errors, next to the
    corrections of ``corrections_at``; return the verdict and what was compared.

    measure: of a draw, a depth and the number of a round, by name in ``NAMES`` the logarithms of sizes of networks that
    no other depth and round has. Rounds go on until all errors are at most ``SHARP``. Raises ``Refused`` where there is
    no verdict, and ``AssertionError`` with what was drawn and both numbers.
    """
    verdict = refused_or(classify, DepthScaling(*drawn.point), drawn.net, drawn.opt)
    logs: dict[str, list[np.ndarray]] = {name: [np.zeros(0)] * len(depths) for name in NAMES}
    found: tuple[Compared, ...] = ()
    for number in range(rounds):
        for at, depth in enumerate(depths):
            for name, one in measure(drawn, depth, number).items():
                logs[name][at] = np.concatenate([logs[name][at], one])
        found = compared(drawn, verdict, depths, logs)
        if all(one.error <= SHARP for one in found):
            break
    shown = "\n  ".join([f"{drawn}: {verdict.name}", *map(str, found)])
    assert all(one.agrees for one in found), shown
    return verdict, found


def compared(drawn: DrawnTransformer, verdict: Verdict, depths: Sequence[int],
             logs: Mapping[str, Sequence[np.ndarray]]) -> tuple[Compared, ...]:
    """What a verdict counts, name by name, and what is measured of it."""
    found = []
    bounds = verdict.bounds if sum(drawn.point) >= 1 else ()  # reached to first order: nothing is held back yet
    for name in NAMES:
        power = verdict.exponents[name]
        assert power.is_finite and all(np.all(np.isfinite(one)) for one in logs[name]), f"{drawn}: {name} {power}"
        relative = float(np.exp(np.mean(logs[CHANGE][0]) - np.mean(logs[START][0])))
        corrections = corrections_at(drawn.point, depths, 0 if name == START else relative)
        found.append(Compared(name, power, *measured_power(depths, logs[name], corrections), name in bounds))
    return tuple(found)


def corrections_at(point: tuple[sp.Rational, sp.Rational], depths: Sequence[int], relative: float) -> list[np.ndarray]:
    """What may correct sizes at each depth, each of the order that it may have at the first one.

    Sizes are means over initial matrices and read-outs, whose signs are as likely as the opposite ones, so that they
    contain squares: those of the noise that L initial matrices add to a stream, L^(1 - 2 alpha), and of what an update
    brings to itself, which is what it changes relative to the stream, L^(1 - alpha - gamma), and ``relative`` at the
    first depth. Sums over layers are integrals but for 1/L. Where a power is 0 it corrects nothing, and where the noise
    does it is slower than 1/L.
    """
    scale, ratio = DepthScaling(*point), np.array(depths, dtype=float) / depths[0]
    noise, drift = float(scale.noise_exponent), float(scale.drift_exponent)
    found = [ratio**(noise if -1 < noise < 0 else -1)]
    return found + [relative**2 * ratio**(2 * drift)] * bool(drift and relative)
