"""What depth=tp.oo means at a point of the (alpha, gamma) plane."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from ..calculus import kets
from ..calculus.recursion import derive_recursion
from ..errors import Divergence
from ..limits import DepthLimit, depth_limit
from ..parametrizations import DepthScaling
from ..programs import SGD, ResNet
from ..programs.builders import program

ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)


@dataclass(frozen=True)
class LimitCell:
    """Densities in layer time that survive: of the initial noise (L eps^2) and of the updates (L eps g)."""

    noise: float
    drift: float
    notes: tuple[str, ...]


@lru_cache(maxsize=1)
def _limits() -> DepthLimit:
    """The regions of the plane, derived once: no constant of the scaling moves them."""
    return depth_limit(derive_recursion(kets(program(ResNet(), SGD(), DepthScaling(ALPHA, GAMMA)))))


@lru_cache(maxsize=64)
def limit_cell(scale: DepthScaling) -> LimitCell:
    """The infinite-depth problem of a linear residual network at ``scale``.

    Noise survives where covariances keep their sums over hat-kets, updates where the output's exponent is 0. Where
    there is no limit ``Divergence`` is raised, with what was given, what grows and what is allowed.
    """
    region = _limits().at(alpha=scale.alpha, gamma=scale.gamma)
    if region.obstacle is not None:
        given = f"alpha = {scale.alpha}, gamma = {scale.gamma} given with depth=tp.oo"
        why = region.obstacle.words({ALPHA: scale.alpha, GAMMA: scale.gamma})
        raise Divergence(f"{given}: {why}; a limit needs alpha >= 1/2 and alpha + gamma >= 1")
    noise = any(term.rule == "base layers" for term in region.kept)
    notes = []
    if region.is_trivial:
        notes.append("trivial limit: updates of size L^-gamma add up to nothing, f stays f_0 and kernels stay at "
                     "initialisation")
    elif scale.gamma < 0:
        notes.append("x and f converge, to the limit shared by all alpha > 1/2; h = W x does not: its change grows "
                     f"like L^({-scale.gamma})")
    return LimitCell(scale.noise_constant if noise else 0.0, 0.0 if region.is_trivial else scale.drift_constant,
                     tuple(notes))
