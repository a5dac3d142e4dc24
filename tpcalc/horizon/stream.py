"""Fresh samples at every step: Gaussian inputs, a linear teacher, label noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._checks import finite_array, nonnegative_number, short
from .._shown import Short

ROUND_OFF = 1e-12  # of the largest eigenvalue


@dataclass(frozen=True, repr=False)
class Stream(Short):
    """Samples (x, y), no two of them the same draw: x ~ N(0, covariance), y = teacher . x + noise N(0, 1).

    Parameters
    ----------
    covariance, teacher:
        shapes (d, d) and (d,).
    noise:
        the standard deviation of labels around the teacher's.

    Raises ``ValueError`` for a covariance that is not symmetric and positive semidefinite, other shapes, and a noise
    below 0.

    >>> import tpcalc as tp
    >>> tp.Stream([[2.0, 0.0], [0.0, 2.0]], [3.0, 4.0], 0.5).variance
    2.0
    """

    covariance: np.ndarray
    teacher: np.ndarray
    noise: float = 0.0

    def __post_init__(self) -> None:
        covariance, teacher = finite_array("covariance", self.covariance), finite_array("teacher", self.teacher)
        if teacher.ndim != 1 or not teacher.size:
            raise ValueError(f"teacher: got {short(self.teacher)}, of shape {teacher.shape}; expected (d,): outputs "
                             "are numbers")
        if covariance.shape != (teacher.size, teacher.size):
            raise ValueError(f"covariance: got {short(self.covariance)}, of shape {covariance.shape}, with a teacher "
                             f"of {teacher.size} entries; expected shape {(teacher.size, teacher.size)}")
        sizes = np.linalg.eigvalsh((covariance + covariance.T) / 2)
        allowed = ROUND_OFF * np.max(np.abs(covariance))
        if np.max(np.abs(covariance - covariance.T)) > allowed or sizes[0] < -teacher.size * allowed or sizes[-1] <= 0:
            raise ValueError(f"covariance: its eigenvalues are {sizes[0]:.6g} to {sizes[-1]:.6g}, and it differs from "
                             f"its transpose by {np.max(np.abs(covariance - covariance.T)):.3g}; expected a symmetric "
                             "matrix whose eigenvalues are at least 0, and not all of them 0")
        for name, value in (("covariance", covariance), ("teacher", teacher)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        object.__setattr__(self, "noise", nonnegative_number("noise", self.noise))

    @property
    def dimension(self) -> int:
        return self.teacher.size

    @property
    def variance(self) -> float | None:
        """That of every coordinate, where all directions have one; None elsewhere."""
        one = float(np.trace(self.covariance)) / self.dimension
        return one if np.allclose(self.covariance, one * np.eye(self.dimension), rtol=0, atol=ROUND_OFF * one) else None
