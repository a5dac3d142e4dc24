"""Gradient descent whose updates have one size: gradients, or momentum buffers, over their own Frobenius norms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Sequence

import sympy as sp

from .._checks import exact
from ..programs.blocks import matrix
from .frobenius import frobenius_inner, extent, square
from ..programs.indices import L, l, t
from ..programs.language import Family, Member, Scalar
from .sgd import Directed
from ..programs.program import Assign, Loop, Statement
from ..programs.backprop import Trainable, buffer_of

NOTHING = sp.Rational(1, 10**12)  # of a squared norm: what rounding leaves where outer products cancel
OVER = "over"
EXTENT, REMEMBERED = Family(Scalar, "extent", layered=True), Family(Scalar, "mextent", layered=True)


@dataclass(frozen=True)
class NormalizedSGD(Directed):
    """Normalized SGD: a matrix moves by ``-lr g`` times its gradient, or buffer, over its Frobenius norm; g = L^-gamma.

    Parameters
    ----------
    lr:
        a number, or one number a step: the Frobenius norm of an update at g = 1, in units in which singular values of
        the initial matrices go up to 2. It is the same number at every width, as that of tp.Muon.
    momentum, nesterov:
        what is normalized is sum_s momentum^(t - s) gradient_s, or, with ``nesterov``, gradient_t + momentum times that
        sum. A dampening would change nothing: only directions count.
    weight_decay, independent:
        decoupled, W <- (1 - lr weight_decay) W before the update; independent of the rate, W <- (1 - weight_decay) W.
    sphere:
        whether every matrix is brought back, after its update, to the Frobenius norm that it started with
        (``tpcalc.optimizers.sphere``); beside a decay it is refused.

    Each matrix of each layer has a norm of its own, of a gradient that is summed over positions and averaged over the
    batch. The norm of a sum of outer products is made of their overlaps, which are numbers at infinite width: a step is
    plain gradient descent with a rate of its own for every matrix and layer. Source: appendix E.1.2 of Tensor Programs
    VI for the outer products [tensor_programs_vi/outer_product].

    It moves matrices; embedding and readout are vectors, and stay frozen. Training raises ``Divergence``, naming step,
    layer and matrix, where a gradient is 0, at the last step too, or within rounding (10^-6 of what outer products in
    the layer sum up to without their signs; float32 is refused), and where it vanishes at infinite width alone, as at
    the first step of targets 0: there is no limit, since networks move along a fluctuation there, by as much as
    elsewhere. Raises ``ValueError`` for numbers that are not real and finite, a negative momentum or decay, and
    nesterov without momentum.

    >>> import tpcalc as tp
    >>> def moved(opt, target):
    ...     runs = [tp.train(tp.ResNet(), tp.Task([1, 1], [y, 0]), opt, tp.DepthScaling(), depth=4, width=64)
    ...             for y in (target, -target)]
    ...     return round(float(runs[0].outputs[1, 0, 0] - runs[1].outputs[1, 0, 0]), 2)
    >>> moved(tp.NormalizedSGD(0.3), 5), moved(tp.NormalizedSGD(0.3), 50), moved(tp.SGD(0.3), 5), moved(tp.SGD(0.3), 50)
    (1.12, 1.12, 5.06, 50.66)
    """

    updates_are = "normalized"
    lr: float | Sequence[float] = 1.0
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    independent: bool = False
    sphere: bool = False

    def applied(self, layer: Sequence[Trainable]) -> tuple[list[Statement], list[Statement], list[Trainable]]:
        """Statements before the first step, those that find the norms at step t, and what is trained, with directions
        in the place of gradients and sizes over their norms."""
        beta = exact("momentum", self.momentum)
        lengths = sp.Add(*(extent(one.gradient) for one in layer))
        before: list[Assign] = []
        found = [Assign(EXTENT[t, l], lengths)]
        most: sp.Expr = EXTENT[t, l]
        if beta:
            before.append(Assign(REMEMBERED[0, l], sp.Integer(0)))
            found.append(Assign(REMEMBERED[t + 1, l], beta * REMEMBERED[t, l] + EXTENT[t, l]))
            most = EXTENT[t, l] + beta * REMEMBERED[t + 1, l] if self.nesterov else REMEMBERED[t + 1, l]
        moved = []
        measured = {one.family.name: self._measured(one, beta) for one in layer}
        for start, now, *_ in measured.values():
            before += start
            found += now
        for one in layer:
            *_, direction, alone = measured[one.family.name]
            whole = one.blocks
            norm = alone if whole is None else sp.Add(*(measured[name][-1] for name in whole.names))
            size = norm_of(one.family)[t, l]
            found += [Assign(size, sp.Piecewise((sp.sqrt(norm), norm > NOTHING * most**2), (0, True))),
                      Assign(inverse_of(one.family)[t, l], 1 / size)]
            moved.append(replace(one, gradient=direction, size=one.root * one.size * inverse_of(one.family)[t, l]))
        loops = [[Loop(l, sp.Integer(1), L, tuple(part))] if part else [] for part in (before, found)]
        return [*loops[0]], [*loops[1]], moved

    def _measured(self, one: Trainable, beta: sp.Expr) -> tuple[list[Assign], list[Assign], sp.Expr, sp.Expr]:
        """What is set before the first step, what finds the squares of norms, the direction of a matrix, and the square
        of its norm. That of a buffer, |beta M + G|^2, grows from step to step."""
        gradient, squared = one.gradient, _named(one.family, "square")[t, l]
        now = [Assign(squared, square(gradient))]
        if not beta:
            return [], now, gradient, squared
        shared, size = (_named(one.family, word) for word in ("along", "msquare"))
        buffer = buffer_of(one.family)
        now += [Assign(shared[t, l], frobenius_inner(buffer[t, l], gradient)),
                Assign(size[t + 1, l], beta**2 * size[t, l] + 2 * beta * shared[t, l] + squared),
                Assign(buffer[t + 1, l], beta * buffer[t, l] + gradient)]
        start = [Assign(buffer[0, l], sp.Integer(0)), Assign(size[0, l], sp.Integer(0))]
        if not self.nesterov:
            return start, now, buffer[t + 1, l], size[t + 1, l]
        ahead = squared + 2 * beta * (beta * shared[t, l] + squared) + beta**2 * size[t + 1, l]
        now.append(Assign(_named(one.family, "nsquare")[t, l], ahead))
        return start, now, gradient + beta * buffer[t + 1, l], _named(one.family, "nsquare")[t, l]


def _named(family: Family, word: str) -> Family:
    """A number of every step and layer that belongs to a matrix."""
    return Family(Scalar, f"{word}{family.name}", rf"\mathrm{{{word}}}{family.latex}", layered=True)


def norm_of(family: Family) -> Family:
    """The Frobenius norm of what a matrix moves along, 0 where it is within rounding."""
    return _named(family, "norm")


def inverse_of(family: Family) -> Family:
    """One over the Frobenius norm of what a matrix moves along."""
    return _named(family, OVER)


def normalizing_matrix(target: Member) -> str | None:
    """The name of the matrix whose norm a number is one over, or None; scalars of blocks may begin with that word."""
    if not isinstance(target, Scalar) or not target.name.startswith(OVER):
        return None
    name = target.name[len(OVER):]
    return name if target == inverse_of(matrix(name))[target.indices] else None
