"""What weights on spheres were multiplied by, step by step, in a real network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping

import numpy as np

from .._shown import Short
from ..interpreters.lowered import LoweredRun
from ..optimizers.sphere import ratio_of
from ..programs.language import Family, Matrix


@dataclass(frozen=True, repr=False)
class Sphere(Short):
    """How far updates moved matrices off their spheres.

    norms: by matrix, the Frobenius norm of every step's updated matrix over that of the one before, shape (steps,
    layers): what it was divided by. At infinite width all are 1, and 1 + O(1/n) at width n.

    >>> import tpcalc as tp
    >>> task = tp.Task([1, 0.8, -0.6], [1, -0.7, 0.5])
    >>> run = tp.train(tp.ResNet(), task, tp.Muon(0.3, sphere=True), tp.DepthScaling(), depth=4, width=64)
    >>> run.sphere.norms["W"].shape, run.sphere.rho["W"].shape, bool((abs(run.sphere.norms["W"] - 1) < 0.01).all())
    ((3, 4), (3, 4), True)
    """

    norms: Mapping[str, np.ndarray]

    def __repr__(self) -> str:
        steps, layers = next(iter(self.norms.values())).shape
        spans = ", ".join(f"{name} {one.min():.6g} to {one.max():.6g}" for name, one in self.norms.items())
        return f"Sphere({steps} steps, {layers} layers; norms of {spans})"

    @property
    def rho(self) -> dict[str, np.ndarray]:
        """By matrix, how often W_0 is in the weights that step t reads, of the same shape: the first row is 1."""
        return {name: np.vstack([np.ones((1, norms.shape[1])), 1 / np.cumprod(norms, axis=0)[:-1]])
                for name, norms in self.norms.items()}

    @classmethod
    def of(cls, run: LoweredRun, wholes: Mapping[str, str]) -> Sphere:
        """The ratios of a run; wholes: by name of a matrix, that of what it is a part of, or its own."""
        ratios = {ratio_of(Family(Matrix, name)).name: whole for name, whole in wholes.items()}
        found: dict[str, dict[tuple[int, ...], float]] = {}
        for member, value in run.scalars.items():
            if member.name in ratios:
                found.setdefault(ratios[member.name], {})[tuple(map(int, member.indices))] = value
        return cls({name: 1 / np.reshape([values[at] for at in sorted(values)], (-1, len({l for _, l in values})))
                    for name, values in found.items()})
