"""What every reading of a linear-memory residual network offers to the training loop.

A *medium* is the body of the network between read-in and read-out, as it answers the rows of a new
training step: the forward rows with their covariance to the earlier rows, then the backward rows.
The loop over steps (``training.py``) is the same for all media: layers or layer time, exact.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np


class Medium(Protocol):
    """Rows a = (step, sample) are appended step by step; ``m`` rows of earlier steps are known."""

    def probe(self, step: int, s: np.ndarray) -> np.ndarray:
        """Rows that leave no trace. s: (b, m) input Gram matrix with the rows of earlier steps.

        Returns P at the last node, (b, m): the response of x^L to the backward signals of earlier steps.
        """

    def forward(self, step: int, s: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Append the forward rows of a step; own: (b, b), their Gram matrix. Returns P at the last node."""

    def backward(self, step: int, r: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Append its backward rows; r: (b, m), own: (b, b) covariance of delta^L. Returns Q at node 0, (b, m)."""
