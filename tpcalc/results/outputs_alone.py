"""Details of a run by a user's own method, which gives outputs and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import NotCovered
from .details import WithoutCoefficients
from .run import Details


@dataclass(frozen=True)
class OutputsAlone(WithoutCoefficients):
    """The details of a method that knows outputs alone: every question is refused by the method's name.

    advice: what is allowed instead.
    """

    name: str
    advice: str = "runs by methods that know the layers"

    def __call__(self) -> Details:
        return self

    @property
    def why(self) -> str:  # type: ignore[override]
        return f"got a run by method={self.name!r}, which knows outputs alone; expected {self.advice}"

    def covariance(self, forward: bool, layer_times: np.ndarray) -> np.ndarray:
        raise NotCovered(f"{'forward' if forward else 'backward'}_covariance: {self.why}")

    def cross_covariance(self, row_t: int, row_s: int, a: int, b: int, p: float, q: float) -> float:
        raise NotCovered(f"cross_covariance: {self.why}")

    def difference(self, row: int, a: int, p: float, length: float) -> float:
        raise NotCovered(f"feature_difference, gradient_difference: {self.why}")
