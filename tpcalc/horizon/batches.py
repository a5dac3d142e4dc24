"""Drift and noise of one step along the mean of B fresh samples, as powers of one growing variable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy as sp

from .._checks import choice, short
from ..errors import NotCovered
from ..optimizers.faithful import degree
from ..optimizers.updates import BY_NAME, DIRECTIONS, kind_of_updates, optimizer_name

# powers of the growing variable: batch size, steps, width, mean of a sample's gradient over its noise, decay's share
BATCH, STEPS, WIDTH = sp.symbols("b t n", nonnegative=True)
SIGNAL, DECAY = sp.symbols("s w", nonpositive=True)
HALF = sp.Rational(1, 2)


@dataclass(frozen=True)
class BatchStep:
    """A step at rate 1 along the direction of a batch: powers in ``BATCH``, ``WIDTH`` and ``SIGNAL``.

    drift: the part along the mean gradient, and noise: the rest, in the Frobenius norm, over that of one sample's
    direction; rank: of the noise; seen: the part of its squared norm that an input sees. A batch of the size at which
    ``critical`` is 0 has a mean as large as its noise.
    """

    drift: sp.Expr
    noise: sp.Expr
    rank: sp.Expr
    seen: sp.Expr
    critical: sp.Expr

    @property
    def noise_in_outputs(self) -> sp.Expr:
        """An input sees a fixed share of the drift, and of noise what lies along it."""
        return self.noise + self.seen * HALF


def batch_step(optimizer: Any, data: str = "fixed") -> BatchStep:
    """Drift and noise of the step that an optimizer makes of a mean of B samples.

    The mean gradient is L^s beside one sample's noise, which B samples bring down to L^(-b/2). A direction of degree k
    in a gradient of size m is m^k, and has the two in the same proportion. That of whole matrices is so of every
    singular value: noise of rank r spreads over r of them, each r^(-1/2) of its norm.

    data: "fixed", samples of a fixed number of directions; "width", of as many as the width. A batch has rank
    min(B, that number). Raises ``NotCovered`` for Shampoo and SOAP, and directions that are no power of the gradient.
    Source: [tpcalc/batches].

    >>> import tpcalc as tp
    >>> found = batch_step(tp.SGD())
    >>> found.drift, found.noise
    (s, -b/2)
    >>> batch_step(tp.Muon(), "width").noise
    Min(b, n)/2
    """
    directions = WIDTH * DIRECTIONS[choice("data", data, DIRECTIONS)]
    name = optimizer_name(optimizer)
    kind = kind_of_updates(BY_NAME[name] if name in BY_NAME and isinstance(optimizer, str) else optimizer)
    if kind == "spectral":
        raise NotCovered(f"optimizer: got {short(optimizer)}, whose direction is made of sums over steps inside of "
                         "functions of matrices; how it answers a batch is not known; expected tp.SGD, tp.SignSGD, "
                         "tp.Lion, tp.Adam, tp.NormalizedSGD or tp.Muon")
    k, noise = degree(optimizer), -BATCH * HALF
    rank = sp.Integer(0)
    if kind == "orthogonal" and directions != 0:
        rank = sp.Min(BATCH, directions)
    value = noise - rank * HALF  # of a singular value of the noise
    size = sp.Max(SIGNAL, value)
    if kind == "orthogonal":  # noise has singular values of its own, which are what they are without the mean
        return BatchStep(SIGNAL + (k - 1) * size, k * value + rank * HALF, rank, -directions, SIGNAL - value)
    return BatchStep(SIGNAL + (k - 1) * size, noise + (k - 1) * size, rank, -directions, SIGNAL - value)


def below_critical(expression: sp.Expr) -> sp.Expr:
    """An expression where noise is larger than the mean.

    >>> import tpcalc as tp
    >>> below_critical(batch_step(tp.SignSGD()).drift)
    b/2 + s
    """
    return sp.expand(expression.replace(lambda e: isinstance(e, sp.Max) and SIGNAL in e.args,
                                        lambda e: sp.Max(*(one for one in e.args if one != SIGNAL))))
