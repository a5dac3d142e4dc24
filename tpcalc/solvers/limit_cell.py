"""What depth=tp.oo means at a point of the (alpha, gamma) plane."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import Divergence
from ..parametrizations import DepthScaling


@dataclass(frozen=True)
class LimitCell:
    """Densities in layer time that survive: of the initial noise (L eps^2) and of the updates (L eps g)."""

    noise: float
    drift: float
    notes: tuple[str, ...]


def limit_cell(scale: DepthScaling) -> LimitCell:
    """The infinite-depth problem of a linear residual network at ``scale``.

    Every block of the layer-time equations scales like L^(1 - 2 alpha), noise and response, or like
    L^(1 - alpha - gamma), updates. A negative power leaves nothing, zero a finite density, a positive
    one no limit: then ``Divergence`` is raised, with what was given and what is allowed.
    """
    d, kappa = scale.noise_exponent, scale.drift_exponent
    given = f"alpha = {scale.alpha}, gamma = {scale.gamma} given with depth=tp.oo"
    allowed = "a limit needs alpha >= 1/2 and alpha + gamma >= 1"
    if d > 0:
        raise Divergence(f"{given}: the network explodes at initialisation like exp(L^({d})); {allowed}")
    if kappa > 0:
        raise Divergence(f"{given}: the first update moves the output by L^({kappa}); {allowed}")
    notes = []
    if kappa < 0:
        notes.append("trivial limit: updates of size L^-gamma add up to nothing, f stays f_0 and kernels stay at "
                     "initialisation")
    if kappa == 0 and scale.gamma < 0:
        notes.append("x and f converge, to the limit shared by all alpha > 1/2; h = W x does not: its change grows "
                     f"like L^({-scale.gamma})")
    return LimitCell(scale.noise_constant if d == 0 else 0.0, scale.drift_constant if kappa == 0 else 0.0, tuple(notes))
