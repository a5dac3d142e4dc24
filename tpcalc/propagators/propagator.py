"""What every propagator offers to the training loop.

A *propagator* is the body of the network between embedding and readout, as it answers the rows of a new
training step: the forward rows with their covariance to the earlier rows, then the backward rows.
The loop over steps (``training.py``) is the same for all propagators: layers or layer time, exact.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np


class Rows(NamedTuple):
    """The rows of one step at one place, where x = P delta + x_left (or delta = Q x + delta_right).

    p, s: (b, m), reflection of the m rows of earlier steps, and covariance of x_left with theirs; own: (b, b), that
    of the step with itself; of rows that leave no trace variances alone, (b, 1), or None where nothing reads them.
    """

    p: np.ndarray
    s: np.ndarray
    own: np.ndarray | None = None


class Gradients(Protocol):
    """What a propagator has learned of rows up to a step: C0 and C1 at every place (layers, or layer times),
    (places, N, N) covariances of the stream and of its gradients; rows: of a step."""

    @property
    def rows(self) -> int: ...

    @property
    def C0(self) -> np.ndarray: ...  # noqa: N802

    @property
    def C1(self) -> np.ndarray: ...  # noqa: N802


class UpdateKernels(Protocol):
    """What updates are made of where that depends on the layer: Muon's, of which the Gram matrices of its inputs and
    gradients decide how a step's rows are mixed."""

    def weights(self, propagator: Gradients, step: int) -> np.ndarray:
        """w of the updates before ``step``, at the places of the propagator, which has trained up to there:
        (places, m, m).

        The matrices of a layer are rho W_0 - g sum over rows a, b of w[a, b] times the outer product of gradient a and
        input b.
        """


class Propagator(Protocol):
    """Rows a = (step, sample) are appended step by step; every call says how rows start and returns how they end."""

    def probe(self, step: int, start: Rows) -> Rows:
        """Forward rows that leave no trace, from node 0 to the last."""

    def forward(self, step: int, start: Rows) -> Rows:
        """Append the forward rows of a step, from node 0 to the last."""
        return self._sweep(True, step, start)

    def backward(self, step: int, start: Rows) -> Rows:
        """Append its backward rows, from the last node to node 0."""
        return self._sweep(False, step, start)

    def _sweep(self, forward: bool, step: int, start: Rows) -> Rows: ...
