"""Embedding and readout: what an end of the network sends into the body, and what it reads off the other way.

The weights of an end are d vectors, Z_t = rho_t Z_0 - sum_(b < t) w_ab phi_b y_b, where phi_b are the features of row b
(its input at the embedding, its loss derivative at the readout) and y_b is the signal that arrives from the body
(delta^0, x^L). Row a enters the body as phi_a . Z_t: a trained end reflects what arrives, P^0 = -w o Xi at the
embedding, Q^L = -w o (chi chi^T) at the readout. Frozen ends are those with w = 0, rho = 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .propagator import Rows


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
