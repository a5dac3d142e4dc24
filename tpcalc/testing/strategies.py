"""Hypothesis strategies for networks, tasks, scalings and learning rates on which solutions stay of order one.

What keeps them there: inputs with |xi|^2 <= 1, targets in [-1, 1], and a learning rate that shrinks where
updates add up to a positive power of the depth, L^(1 - alpha - gamma).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import sympy as sp

from .._types import Number, Value
from ..errors import MissingExtra
from ..scaling import DepthScaling, WidthScaling
from ..optimizers import SGD, SOAP, Adam, AdamW, Clipped, Lion, Muon, NormalizedSGD, Shampoo, SignSGD
from ..models import ResNet, Transformer
from ..data import Task
from ..optimizers.updates import Optimizer

try:
    from hypothesis import strategies as st
    from hypothesis.extra import numpy as np_st
except ImportError:
    raise MissingExtra("hypothesis", "test", "tpcalc.testing") from None

HIGHEST_RATE = 0.5  # the tangent kernel of the body is about e |xi|^2: updates overshoot from 2 / e on


@dataclass(frozen=True)
class DrawnProblem:
    """All that ``tp.train`` needs but the network: ``tp.train(net, *problem)``."""

    task: Task
    opt: SGD
    scale: DepthScaling
    depth: int

    def __iter__(self) -> Value:
        return iter((self.task, self.opt, self.scale, self.depth))


def arrays(shape: tuple[int, ...], bound: float = 1.0) -> st.SearchStrategy[np.ndarray]:
    """Float64 arrays of a shape, every entry drawn by itself from [-bound, bound]."""
    entries = st.floats(-1.0, 1.0, width=32, allow_subnormal=False)
    return np_st.arrays(np.float64, shape, elements=entries, fill=st.nothing()).map(lambda a: bound * a)


@st.composite
def tasks(draw: st.DrawFn, max_steps: int = 4, max_batch: int = 3, max_inputs: int = 3, max_outputs: int = 2,
          max_probes: int = 0, min_steps: int = 1) -> Task:
    """Tasks with |xi|^2 <= 1 for every input and probe, and targets in [-1, 1]; squared loss.

    max_inputs, max_outputs: the dimensions; max_probes: the number of held-out inputs, none where 0.
    """
    steps, batch = draw(st.integers(min_steps, max_steps)), draw(st.integers(1, max_batch))
    d_in, d_out = draw(st.integers(1, max_inputs)), draw(st.integers(1, max_outputs))
    probes = draw(st.integers(0, max_probes))
    bound = d_in ** -0.5
    return Task(draw(arrays((steps, batch, d_in), bound)), draw(arrays((steps, batch, d_out))),
                probes=draw(arrays((probes, d_in), bound)) if probes else None)


def rationals(low: Number, high: Number, max_denominator: int = 8) -> st.SearchStrategy[sp.Rational]:
    """Exact rationals of [low, high] with small denominators."""
    fractions = st.fractions(Fraction(low), Fraction(high), max_denominator=max_denominator)
    return fractions.map(sp.Rational)


@st.composite
def scalings(draw: st.DrawFn, with_limit: bool = False, exact: bool = False) -> DepthScaling:
    """Depth scalings with alpha in [1/2, 1] and gamma in [0, 1].

    exact: exponents with small denominators only; else thousandths too. with_limit: only those that have a limit of
    infinite depth (alpha + gamma >= 1); half of them on the line alpha + gamma = 1, where it is not trivial.
    """
    share = rationals(0, 1)
    if not exact:
        share = st.one_of(share, st.integers(0, 1000).map(lambda k: sp.Rational(k, 1000)))
    alpha = (1 + draw(share)) / 2
    if with_limit:
        gamma = 1 - alpha if draw(st.booleans()) else 1 - alpha * draw(share)
    else:
        gamma = draw(share)
    return DepthScaling(alpha, gamma)


@st.composite
def width_scalings(draw: st.DrawFn, max_layers: int = 4) -> WidthScaling:
    """Width scalings of perceptrons of 2 to ``max_layers`` layers: exponents in [-1, 1], multiples of 1/2."""
    layers, halves = draw(st.integers(2, max_layers)), st.integers(-2, 2).map(lambda k: sp.Rational(k, 2))
    p, q = (draw(st.lists(halves, min_size=layers, max_size=layers)) for _ in range(2))
    return WidthScaling(tuple(p), tuple(q), draw(halves))


def resnets(linear: bool | None = None) -> st.SearchStrategy[ResNet]:
    """Residual networks of every kind of block: activation after or before the matrix, two matrices, gated.

    linear: True for networks without activation alone, False for those with one, None for both.
    """
    plain = st.just(ResNet("linear"))
    others = st.builds(ResNet, st.sampled_from(["tanh", "gelu", "silu"]),
                       st.sampled_from(["post_nonlin", "pre_nonlin", "mlp", "glu"]), st.sampled_from([None, "rms"]))
    return plain if linear else others if linear is not None else st.one_of(plain, others)


def transformers(max_heads: int = 2, max_positions: int = 3) -> st.SearchStrategy[Transformer]:
    """Transformers with pre-norm, causal attention or not, and an MLP, gated or not."""
    return st.builds(Transformer, head_dim=st.integers(1, 4), positions=st.integers(1, max_positions),
                     heads=st.integers(1, max_heads), causal=st.booleans(), mlp=st.sampled_from(["mlp", "swiglu"]))


def learning_rates(highest: float = HIGHEST_RATE) -> st.SearchStrategy[float]:
    """Learning rates in [highest / 16, highest]."""
    return st.floats(highest / 16, highest)


def schedules(steps: int, highest: float = HIGHEST_RATE) -> st.SearchStrategy[float | tuple[float, ...]]:
    """A learning rate, or one for every step."""
    several = st.lists(learning_rates(highest), min_size=steps, max_size=steps)
    return st.one_of(learning_rates(highest), several.map(tuple))


@st.composite
def _descents(draw: st.DrawFn, highest: float) -> SGD:
    momentum = draw(st.sampled_from([0.0, 0.5, 0.9]))
    nesterov = bool(momentum) and draw(st.booleans())
    return SGD(draw(st.floats(0.05, highest)), momentum=momentum, nesterov=nesterov,
               dampening=0.0 if nesterov else draw(st.sampled_from([0.0, 0.3])),
               weight_decay=draw(st.sampled_from([0.0, 0.2])), decoupled=draw(st.booleans()))


def optimizers(highest: float = 0.5, linear: bool | None = None) -> st.SearchStrategy[Optimizer | Clipped]:
    """Every optimizer of ``tp``, with momentum or not and decay or not; learning rates from 0.05 to ``highest``.

    linear: True for SGD alone, whose updates are linear in gradients, with Nesterov's momentum, dampening and decay of
    either kind among the draws; False for all others; None for both.
    """
    descent, rates = _descents(highest), st.floats(0.05, highest)
    momenta, decays = st.sampled_from([0.0, 0.9]), st.sampled_from([0.0, 0.2])
    entrywise = st.one_of(st.builds(SignSGD, rates), *(
        st.builds(kind, rates, beta1=momenta, weight_decay=decays) for kind in (Lion, Adam, AdamW)))
    others = st.one_of(entrywise, *(st.builds(kind, rates, momenta, weight_decay=decays)
                                    for kind in (Muon, NormalizedSGD)),
                       *(st.builds(kind, rates, beta1=momenta, weight_decay=decays) for kind in (Shampoo, SOAP)),
                       st.builds(Clipped, st.one_of(descent, entrywise), st.floats(0.5, 2.0)))
    return descent if linear else others if linear is not None else st.one_of(descent, others)


@st.composite
def problems(draw: st.DrawFn, max_depth: int = 12, max_steps: int = 4, max_batch: int = 3, max_inputs: int = 3,
             max_outputs: int = 2, max_probes: int = 0, min_steps: int = 1, with_limit: bool = False) -> DrawnProblem:
    """A task, plain SGD (a number or a schedule), a depth scaling and a finite depth that go together."""
    task = draw(tasks(max_steps, max_batch, max_inputs, max_outputs, max_probes, min_steps))
    scale, depth = draw(scalings(with_limit=with_limit)), draw(st.integers(1, max_depth))
    highest = HIGHEST_RATE / max(1.0, depth ** float(scale.drift_exponent))
    return DrawnProblem(task, SGD(draw(schedules(task.steps, highest))), scale, depth)
