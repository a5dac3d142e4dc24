"""Response functions of a network known by samples: what Stein's lemma and causality leave of two overlaps.

With chi = W phi and xi = W^T g for one Gaussian matrix W of entries N(0, 1/n), rows being (step, input),

    chi = u + A g,    xi = r + B phi,    <u u> = Phi = <phi phi>,    <r r> = G = <g g>,

so that the one overlap M_ts = <chi_t g_s> = <phi_t xi_s> is A G + Phi B^T: A has entries of earlier steps alone, B
those of the same step too; triangular factors of Phi and G part the two. No derivative is taken, no W is needed.
Source: Depthwise Hyperparameter Transfer, (36) and (37) [depthwise_transfer/responses]. They fall like the root of
the depth [depthwise_transfer/response_sizes].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SAME = 1e-9  # of a variance: what is left of a row that is a combination of rows before it
NONE = 1e-18  # of the largest variance: that of a row that is 0


class Responses(NamedTuple):
    """A = <d phi_t / d r_s> and B = <d g_t / d u_s> of one matrix, (N, N) each."""

    A: np.ndarray
    B: np.ndarray


def responses(overlap: np.ndarray, features: np.ndarray, gradients: np.ndarray, batch: int) -> Responses:
    """Part M = A G + Phi B^T into A and B.

    overlap: M, (N, N); features, gradients: Phi and G, (N, N), positive semidefinite; batch: rows of a step. Rows that
    are combinations of rows before them, such as inputs that are repeated or 0 to rounding, add nothing: what they do
    counts with the rows that they are made of.
    """
    kept_f, of_f = _independent(features)
    kept_g, of_g = _independent(gradients)
    if not kept_f or not kept_g:
        return Responses(np.zeros_like(overlap), np.zeros_like(overlap))
    lower_f = np.linalg.cholesky(features[np.ix_(kept_f, kept_f)])
    lower_g = np.linalg.cholesky(gradients[np.ix_(kept_g, kept_g)])
    inner = np.linalg.solve(lower_f, np.linalg.solve(lower_g, overlap[np.ix_(kept_f, kept_g)].T).T)
    earlier = np.array(kept_g)[None, :] // batch < np.array(kept_f)[:, None] // batch
    found_a = lower_f @ np.linalg.solve(lower_g.T, (inner * earlier).T).T
    found_b = (np.linalg.solve(lower_f.T, inner * ~earlier) @ lower_g.T).T
    A, B = np.zeros_like(overlap), np.zeros_like(overlap)
    A[:, kept_g], B[:, kept_f] = of_f @ found_a, of_g @ found_b
    return Responses(A, B)


def _independent(covariance: np.ndarray) -> tuple[list[int], np.ndarray]:
    """Rows that are no combinations of those before, and all rows in terms of them, (N, kept)."""
    n, none = len(covariance), NONE * np.max(np.diag(covariance), initial=0.0)
    kept, terms = list[int](), np.zeros((n, n))
    for a in range(n):
        inside = covariance[np.ix_(kept, kept)]
        weights = np.linalg.solve(inside, covariance[kept, a]) if kept else np.zeros(0)
        left = covariance[a, a] - weights @ covariance[kept, a]
        if covariance[a, a] > none and left > SAME * covariance[a, a]:
            terms[a, len(kept)] = 1.0
            kept.append(a)
        else:
            terms[a, :len(kept)] = weights
    return kept, terms[:, :len(kept)]
