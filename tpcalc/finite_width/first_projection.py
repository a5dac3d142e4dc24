"""The projection of the first update to spheres at a width: that of a free update with a decay and another rate."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from .._checks import short
from .._types import Value
from ..errors import NotCovered
from ..models import ResNet, Transformer
from ..optimizers import Adam, Lion, Muon, NormalizedSGD, SignSGD
from ..optimizers.sgd import on_sphere
from ..scaling import DepthScaling
from ..training.problem import Problem


def brought_back(problem: Problem, width: int) -> float:
    """rho = (1 + g^2 / n)^(-1/2), what the first update on spheres of every matrix is multiplied by at width n.

    N^2 = 1 - 2 g <W, U> / R^2 + g^2 |U|^2 / R^2, with R^2 = n of an n x n matrix. First outputs vanish at infinite
    width and <W, U> with them: it is a fluctuation. |U|^2 is 1 of a gradient over its norm, of an orthogonal step of
    rank one, and of n^2 signs of size 1 / n. Raises ``NotCovered`` for other matrices and other sizes of updates; of
    several samples the mean over first outputs refuses what makes ranks larger.

    >>> import tpcalc as tp
    >>> task, opt = tp.Task([1, 0.8], [1, -0.7]), tp.Muon(0.5, sphere=True)
    >>> round(brought_back(tp.Problem(tp.ResNet(), task, opt, tp.DepthScaling(1, 0), 4), 64) ** -2 - 1, 8)
    0.00390625
    """
    net, opt, scale = problem.net, problem.opt, problem.scale
    named = isinstance(net, Transformer) or isinstance(net, ResNet) and isinstance(net.block, str)
    if not (named and net.visits == 1 and net.narrow is net):
        raise NotCovered(f"net: got {short(net)}; what the first update adds to norms of matrices is known of n x n "
                         "matrices that are visited once, in blocks with a name")
    if not isinstance(scale, DepthScaling):
        raise NotCovered(f"scale: got {short(scale)}; what the first update adds to norms of matrices is known where "
                         "all updates are of one size; expected a tp.DepthScaling")
    if not isinstance(opt, (Muon, NormalizedSGD, Adam, SignSGD)) or getattr(opt, "newton_schulz_steps", None):
        raise NotCovered(f"opt: got {short(opt)}; what the first update adds to norms of matrices is known of exact "
                         "directions of tp.Muon, tp.NormalizedSGD, tp.SignSGD and tp.Adam")
    if isinstance(opt, Muon) and not net.is_linear:
        raise NotCovered(f"opt: got {short(opt)} with {short(net)}; what the first update adds to norms of matrices is "
                         "known of gradients of rank one, which those of linear networks are")
    rate: Value = opt.lr[0] if isinstance(opt.lr, tuple) else opt.lr
    size = scale.update_size(problem.layers or 1)
    if problem.layers is None and scale.gamma > 0:  # one update of a layer is none
        size = 0.0
    return float((1 + (float(rate) * size) ** 2 / width) ** -0.5)


def as_free_update(problem: Problem, width: int) -> Problem:
    """The problem whose first update at infinite width is that on spheres at a width, without fluctuations of norms:
    rho (W - g U) = (1 - d) W - rho g U, with the independent decay d = 1 - rho. Itself where weights are free."""
    opt = problem.opt
    if not on_sphere(opt):
        return problem
    rho, rate = brought_back(problem, width), cast(Value, opt.lr)
    lr = tuple(rho * one for one in rate) if isinstance(rate, tuple) else rho * rate
    if isinstance(opt, SignSGD):  # which has no decay; Lion's first direction is the sign
        return replace(problem, opt=Lion(lr, weight_decay=1 - rho, independent=True))
    free = replace(opt, lr=lr, sphere=False, weight_decay=1 - rho, independent=True)  # type: ignore[type-var]
    return replace(problem, opt=free)
