"""Powers of the depth that sizes of many networks have, next to what corrects them, with standard errors."""

from __future__ import annotations

from typing import Sequence

import numpy as np


def measured_power(depths: Sequence[int], logs: Sequence[np.ndarray],
                   corrections: Sequence[np.ndarray] = ()) -> tuple[float, float]:
    """s and its standard error in size = L^s exp(c + sum_k b_k corrections_k), where sizes are geometric means.

    depths: at least two, L. logs: at each of them the logarithms of sizes of networks of its own, shape (networks,), at
    least two of them. corrections: at each depth, shape (depths,), so large that b_k is of order one: it is known
    beforehand to be 0 +- 1, so that what is not seen still counts in the error of s. Least squares with the errors that
    networks' spread says; where they leave more than that, the error grows in proportion. Raises ``ValueError`` for
    fewer.

    >>> rng = np.random.default_rng(0)
    >>> depths = (8, 16, 32, 64)
    >>> logs = [-0.5*np.log(L) + 1/L + 0.1*rng.standard_normal(400) for L in depths]
    >>> s, error = measured_power(depths, logs, [8/np.array(depths)])
    >>> bool(abs(s + 0.5) < 3*error), error < 0.03
    (True, True)
    """
    if len(depths) < 2 or len(logs) != len(depths) or any(len(one) < 2 for one in logs):
        raise ValueError(f"logs: got those of {[len(one) for one in logs]} networks at {len(depths)} depths; expected "
                         "at least two depths, and at each of them two networks")
    means = np.array([float(np.mean(one)) for one in logs])
    errors = np.array([float(np.std(one, ddof=1)) / np.sqrt(len(one)) for one in logs])
    columns = np.stack([np.log(depths), np.ones(len(depths)), *corrections], axis=1) / errors[:, None]
    known = np.eye(len(corrections), 2 + len(corrections), 2)
    spread = np.linalg.inv(columns.T @ columns + known.T @ known)
    found = spread @ columns.T @ (means / errors)
    left = float(np.sum((columns @ found - means / errors)**2) + np.sum((known @ found)**2))
    return float(found[0]), float(np.sqrt(spread[0, 0] * max(1.0, left / max(1, len(depths) - 2))))
