"""The lazy limit: kernels in layer time, and the tangent kernel as one integral."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.action.at_initialization import derive_initial_kernels
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Rate

from ._real_kernels import real_kernels

TAU = sp.Symbol("tau")
STREAM, TANGENT = sp.Function("C_ab")(TAU), sp.Function("Theta_ab")(TAU)
NET = tp.ResNet("tanh", "pre_nonlin")
INPUTS = np.array([[1.0, 0.0], [0.5, 0.8]])
DEPTHS = (16, 32, 64, 128, 256)
DEPTH, WIDTH, SEEDS = 8, 512, 48


def statement() -> Equations:
    kernels, _ = derive_initial_kernels(NET)
    kappa, slope, theta = kernels.forward
    return Equations((Equation(STREAM.diff(TAU), kappa, ""), Equation(TANGENT.diff(TAU), slope * TANGENT + theta, "")))


def rates() -> tuple[Rate, ...]:
    limit = tp.kernel_fn(NET)(INPUTS)
    finite = [tp.kernel_fn(NET, depth)(INPUTS) for depth in DEPTHS]
    return tuple(Rate(f"{what} of depth L, from its limit", "L", 1.0, DEPTHS, tuple(
        float(np.max(np.abs(getattr(one, name) - getattr(limit, name)))) for one in finite))
        for name, what in (("nngp", "the kernel"), ("ntk", "the tangent kernel")))


@lru_cache(maxsize=None)
def numbers() -> tuple[MeasuredNumber, ...]:
    """Real networks, means over seeds."""
    rng = np.random.default_rng(0)
    found = np.array([real_kernels(np.tanh, lambda h: np.cosh(h)**-2.0, INPUTS, DEPTH, WIDTH, rng)
                      for _ in range(SEEDS)])
    means, errors = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(SEEDS)
    expected = tp.kernel_fn(NET, DEPTH)(INPUTS)
    return tuple(MeasuredNumber(f"{what} of two inputs, {SEEDS} networks of width {WIDTH} and depth {DEPTH}",
                                float(means[k, 0, 1]), float(errors[k, 0, 1]), float(expected[k][0, 1]))
                 for k, what in enumerate(("the kernel", "the tangent kernel")))


ENTRY = Entry(
    key="depthwise_transfer/proposition_2",
    kind="proposition",
    title="the lazy limit of residual networks",
    source="Depthwise Hyperparameter Transfer, proposition 2 and appendix G.1",
    says="Kernels of a network that does not learn features, for a block that acts on the stream first. The paper's "
         "$H$ is $C$; its $K$ is $\\Theta$ at the end, with a read-out of the stream itself: the gradient kernel that "
         "falls backwards is what $\\Theta$ is multiplied by on its way, so that no second sweep is needed.",
    statement=statement,
    assumptions=("width to infinity, then depth", "frozen embedding and readout", "$\\alpha = \\gamma = 1/2$"),
    uses=("gaussian/price",),
    evidence=lambda: Evidence(numbers(), rates()),
)
