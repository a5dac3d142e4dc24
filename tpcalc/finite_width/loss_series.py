"""Power series of loss derivatives: chi = loss'(f) and its slope in f, where f is a power series."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..errors import NotCovered
from ..data.losses import AnyLoss, LogisticLoss, Loss, SoftmaxLoss, SquaredLoss


class LossSeries(Protocol):
    """The series of one loss on known targets, (N, d_out)."""

    def coefficient(self, order: int, f: np.ndarray, chi: np.ndarray, slope: np.ndarray
                    ) -> tuple[np.ndarray, np.ndarray]:
        """Coefficient ``order`` of chi, (N, d_out), and of its slope d chi_k / d f_m, (N, d_out, d_out), at [., k, m].

        f, chi: (orders, N, d_out), slope: (orders, N, d_out, d_out): coefficients of f up to ``order`` and of the other
        two below it are known.
        """

    def curvature(self, chi: np.ndarray) -> np.ndarray:
        """d^2 chi_k / d f_m d f_l at [., k, m, l], shape (N, d_out, d_out, d_out), where chi has the given values."""


def loss_series(loss: AnyLoss, targets: np.ndarray) -> LossSeries:
    """The series of a named loss. Raises ``ValueError`` for other losses, whose higher derivatives are not known."""
    kinds: dict[type, type[_Exact]] = {kind.of: kind for kind in (SquaredSeries, LogisticSeries, SoftmaxSeries)}
    if type(loss) not in kinds:
        raise NotCovered(f"loss: got {loss!r}; fluctuations need derivatives of the loss's derivative, and take "
                         "'mse', 'logistic' and 'softmax'")
    return kinds[type(loss)](targets)


class _Exact:
    """chi and slope by the chain rule, in increasing orders: (order) a_order = sum_k k f_k a'(f)_(order - k); of: the
    loss."""

    of: type[Loss]

    def __init__(self, targets: np.ndarray) -> None:
        self.targets = targets

    def coefficient(self, order: int, f: np.ndarray, chi: np.ndarray, slope: np.ndarray
                    ) -> tuple[np.ndarray, np.ndarray]:
        if order == 0:
            known = self.of().derivative(f[0], self.targets)[None]
            return known[0], self.slope(0, known)
        # d chi = slope d f
        here = sum(k * np.einsum("akm,am->ak", slope[order - k], f[k]) for k in range(1, order + 1)) / order
        known = np.concatenate([chi[:order], here[None]])
        return here, self.slope(order, known)

    def curvature(self, chi: np.ndarray) -> np.ndarray:
        slope, d = self.slope(0, chi[None]), chi.shape[1]
        along = []
        for l in range(d):  # the slope is a polynomial in chi, and chi moves by the slope
            along.append(self.slope(1, np.array([chi, slope[:, :, l]])))
        return np.stack(along, axis=-1)

    def slope(self, order: int, chi: np.ndarray) -> np.ndarray:
        """Coefficient ``order`` of the slope, a polynomial in chi of which all coefficients are known."""
        raise NotImplementedError


class SquaredSeries(_Exact):
    """chi = f - y."""

    of = SquaredLoss

    def slope(self, order: int, chi: np.ndarray) -> np.ndarray:
        n, d = self.targets.shape
        return np.broadcast_to(np.eye(d) if order == 0 else np.zeros((d, d)), (n, d, d))


class LogisticSeries(_Exact):
    """chi = -y s with s = 1 / (1 + exp(y f)), so that d chi / d f = y^2 s (1 - s) = -chi (y + chi)."""

    of = LogisticLoss

    def slope(self, order: int, chi: np.ndarray) -> np.ndarray:
        square = sum(chi[k] * chi[order - k] for k in range(order + 1))
        return -(self.targets * chi[order] + square)[:, :, None] * np.eye(self.targets.shape[1])


class SoftmaxSeries(_Exact):
    """chi = Y q - y with q = softmax(f), Y = sum y, so that d chi_k / d f_m = Y (q_k [k = m] - q_k q_m)."""

    of = SoftmaxLoss

    def slope(self, order: int, chi: np.ndarray) -> np.ndarray:
        mass = np.sum(self.targets, axis=-1, keepdims=True)
        q = chi.copy()
        q[0] += self.targets
        q = np.divide(q, mass, out=np.zeros_like(q), where=mass != 0)
        pairs = sum(q[k][:, :, None] * q[order - k][:, None, :] for k in range(order + 1))
        return mass[:, :, None] * (q[order][:, :, None] * np.eye(q.shape[-1]) - pairs)
