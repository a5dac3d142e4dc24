"""The curve that a linear network's output moves on when its gradients keep one direction."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .._checks import finite_array, short, size
from .._shown import Short
from .end_to_end import LEAST, PRECISE, layer_mean, velocity

OUT_TO = 1e7  # outputs: infinite depth is within 1e-7 of its last z there
INPUT, READOUT = 0, 1
PULL = np.array([[0.0, 0.0], [1.0, 0.0]])  # from the input to the readout


@dataclass(frozen=True, repr=False)
class CurvePoint(Short):
    """Points of the curve F, in arrays of the shape of z, and how fast the output moves there.

    z: the pull so far, dz = -rate chi dt of unit input; value: F(z); along: F'(z), the tangent kernel of the input
    with itself; across: that of an input orthogonal to all that was trained on; products: (..., 2, 2), the product of
    all layers on the span of the input and the readout, in that order.
    """

    z: np.ndarray
    value: np.ndarray
    along: np.ndarray
    across: np.ndarray
    products: np.ndarray = field(repr=False)


class OutputCurve:
    """F(z), found from the motion of the product of all layers, with F for time: it does not blow up where F does.

    depth: infinity, or that of a network whose matrices start at 0: initial matrices are nothing at infinite depth.
    Source: [tpcalc/output_curve].

    >>> found = OutputCurve(depth=2).at(np.array([0.0, 0.5]))
    >>> found.value.round(6).tolist(), found.along.round(6).tolist()
    ([0.0, 0.521095], [1.0, 1.127626])
    """

    def __init__(self, farthest: float = OUT_TO, depth: float = np.inf) -> None:
        from scipy.integrate import solve_ivp

        self.depth, self.farthest = float(size("depth", depth) or np.inf), farthest

        def slope(_: float, state: np.ndarray) -> np.ndarray:
            motion = velocity(state[:-1].reshape(2, 2), PULL, self.depth)
            return np.append(motion.ravel(), 1.0) / motion[READOUT, INPUT]

        self._solved = solve_ivp(slope, (0.0, farthest), np.append(np.eye(2), 0.0), "DOP853", dense_output=True,
                                 rtol=PRECISE, atol=LEAST).sol

    def at_values(self, values: np.ndarray) -> CurvePoint:
        """The points at which the output has these values, of at most ``farthest``."""
        values = np.asarray(values, dtype=np.float64)
        states = np.asarray(self._solved(np.abs(values).ravel())).T
        signs = np.where(values < 0, -1.0, 1.0).ravel()
        products = states[:, :-1].reshape(-1, 2, 2)
        along = [velocity(one, PULL, self.depth)[READOUT, INPUT] for one in products]
        left, sizes, _ = np.linalg.svd(products)
        across = np.sum(left[:, READOUT] ** 2 * layer_mean(sizes**2, np.ones_like(sizes), self.depth), axis=1)
        turned = products * np.where(np.eye(2, dtype=bool), 1.0, signs[:, None, None])
        return CurvePoint((signs * states[:, -1]).reshape(values.shape), values, np.reshape(along, values.shape),
                          across.reshape(values.shape), turned.reshape(*values.shape, 2, 2))

    def at(self, z: np.ndarray) -> CurvePoint:
        """The points at z; raises ``ValueError`` where the curve has ended: its output is infinite at a finite z."""
        from scipy.optimize import brentq

        z = finite_array("z", z)
        last = float(self._solved(self.farthest)[-1])
        if np.max(np.abs(z), initial=0.0) > last:
            raise ValueError(f"z: got {short(z.tolist())}; outputs grow without bound by |z| = {last:.6f}; expected "
                             "less")
        values = [np.sign(one) * brentq(lambda f: self._solved(f)[-1] - abs(one), 0.0, self.farthest, xtol=1e-14,
                                        rtol=1e-14) for one in z.ravel()]
        return self.at_values(np.reshape(values, z.shape))
