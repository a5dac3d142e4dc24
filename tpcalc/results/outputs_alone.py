"""What is known of a run of which outputs are known and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import NotCovered
from .run import Details


@dataclass(frozen=True)
class OutputsAlone:
    """The details of a method that knows outputs alone: every question is refused by the method's name.

    advice: what is allowed instead.
    """

    name: str
    advice: str = "runs by methods that know the layers"

    def __call__(self) -> Details:
        return self

    def _refuse(self, what: str) -> Any:
        raise NotCovered(f"{what}: got a run by method={self.name!r}, which knows outputs alone; expected "
                         f"{self.advice}")

    def covariance(self, forward: bool, layer_times: np.ndarray) -> np.ndarray:
        return self._refuse("forward_covariance" if forward else "backward_covariance")

    def gamma(self, row_t: int, row_s: int, a: int, b: int, p: float, q: float) -> float:
        return self._refuse("gamma")

    def c(self, row_t: int, row_s: int, a: int, p: float) -> float:
        return self._refuse("c")

    def cross_covariance(self, row_t: int, row_s: int, a: int, b: int, p: float, q: float) -> float:
        return self._refuse("cross_covariance")

    def difference(self, row: int, a: int, p: float, length: float) -> float:
        return self._refuse("feature_difference, gradient_difference")
