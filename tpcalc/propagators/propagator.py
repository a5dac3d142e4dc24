"""What every propagator offers to the training loop.

A *propagator* is the body of the network between embedding and readout, as it answers the rows of a new
training step: the forward rows with their covariance to the earlier rows, then the backward rows.
The loop over steps (``training.py``) is the same for all propagators: layers or layer time, exact.

Embedding and readout have one form: d vectors Z_t = rho_t Z_0 - sum_(b < t) w_ab phi_b y_b, where phi_b are the
features of row b (its input at the embedding, its loss derivative at the readout) and y_b is the signal that arrives
from the body (delta^0, x^L). Row a enters the body as phi_a . Z_t: a trained one reflects what arrives,
P^0 = -w o Xi at the embedding, Q^L = -w o (chi chi^T) at the readout. Frozen ones are those with w = 0, rho = 1.
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


class EmbeddingReadoutMemory(NamedTuple):
    """What trained embedding and readout remember, between rows: rho (N,) and w (N, N), without g: ends move by
    whole gradients."""

    initial_weight_factor: np.ndarray
    update_response: np.ndarray


class EmbeddingOrReadout:
    """One end of the network, while rows are appended; rows are asked for once, in order.

    dimension: d; memory: None for a frozen end. ``features``: (m, d) of the rows appended so far.

    Source: [tpcalc/reflection_form].
    """

    def __init__(self, dimension: int, memory: EmbeddingReadoutMemory | None) -> None:
        self._memory = memory
        self.features = np.zeros((0, dimension))
        n = 0 if memory is None else len(memory.initial_weight_factor)
        # at this end: responses G = (I - P Q)^-1 and r = G P of the arriving signals, and their covariance C
        self._G, self._r, self._C = (np.zeros((n, n)) for _ in range(3))

    def emits(self, features: np.ndarray, passengers: bool = False) -> Rows:
        """How rows of the next step with these features, (b, d), enter the body; passengers with variances alone."""
        m, gram = len(self.features), features @ self.features.T
        own = np.sum(features**2, axis=1, keepdims=True) if passengers else features @ features.T
        if self._memory is None:
            return Rows(np.zeros_like(gram), gram, own)
        initial_weight_factor, update_response = self._memory
        return Rows(-update_response[m, :m] * gram, initial_weight_factor[m] * initial_weight_factor[:m] * gram,
                    initial_weight_factor[m] ** 2 * own)

    def reads(self, rows: Rows) -> np.ndarray:
        """<y_a | Z_t>, (b, d), of arriving rows y of the next step."""
        if self._memory is None:
            return rows.p @ self.features
        m, (initial_weight_factor, update_response) = len(self.features), self._memory
        _, r, c = self._arriving(rows)
        kept = initial_weight_factor[m] * r @ (initial_weight_factor[:m, None] * self.features)
        return kept - (update_response[m, :m] * c) @ self.features

    def append(self, rows: Rows, features: np.ndarray) -> None:
        """The rows of a step: how they arrived, and their features (b, d)."""
        if self._memory is not None:
            assert rows.own is not None
            g, r, c = self._arriving(rows)
            m, (initial_weight_factor, _) = len(self.features), self._memory
            gram = self.features @ self.features.T
            # <y_a | y_b> within the step, y_b = p_b z + (what the body makes): by <y_a | z> = C Q^T + r R
            received = initial_weight_factor[:m, None] * initial_weight_factor[:m] * gram
            crossed = c @ self._reflection(gram).T + r @ received
            own = rows.own + g @ rows.s.T + crossed @ rows.p.T
            here = slice(m, m + len(features))
            self._G[here, :m], self._r[here, :m] = g, r
            self._G[range(m, here.stop), range(m, here.stop)] = 1.0
            self._C[here, :m], self._C[:m, here], self._C[here, here] = c, c.T, (own + own.T) / 2
        self.features = np.concatenate([self.features, features])

    def _reflection(self, gram: np.ndarray) -> np.ndarray:
        assert self._memory is not None
        return -self._memory.update_response[:len(gram), :len(gram)] * gram

    def _arriving(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows of G, r = G P and C = <y y>, (b, m) each, against the rows appended so far."""
        assert self._memory is not None
        m, (initial_weight_factor, _) = len(self.features), self._memory
        G, r, C = (a[:m, :m] for a in (self._G, self._r, self._C))
        gram = self.features @ self.features.T
        reflected = rows.p @ self._reflection(gram)
        received = rows.p @ (initial_weight_factor[:m, None] * initial_weight_factor[:m] * gram)
        return reflected @ G, rows.p + reflected @ r, reflected @ C + received @ r.T + rows.s @ G.T
