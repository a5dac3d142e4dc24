"""Builders: from a network, an optimizer and a depth scaling to the Tensor Program of its training."""

from __future__ import annotations

import sympy as sp

from ..parametrizations import DepthScaling
from .language import Family, LossDerivative, Mat, MatVec, Moment, Outer, Scal, Transpose, Vec
from .networks import ResNet
from .optimizers import SGD
from .program import Assign, Loop, Program

T, L = sp.symbols("T L", integer=True, positive=True)
t, l = sp.symbols("t l", integer=True, nonnegative=True)


def program(net: ResNet, opt: SGD, scale: DepthScaling) -> Program:
    """The training of ``net`` by ``opt`` at ``scale``: one input and one output a step, frozen ends.

    alpha, gamma and the learning rate may be symbols or numbers; a schedule becomes a family eta_t of given
    scalars. Source: paper B, Program 1, with the depth scaling of its section 4.
    """
    for name, value, allowed in (("net", net, ResNet), ("opt", opt, SGD), ("scale", scale, DepthScaling)):
        if not isinstance(value, allowed):
            raise ValueError(f"{name}: {value!r} given; allowed is a tp.{allowed.__name__}")
    x, dx = Family(Vec, "x", layered=True), Family(Vec, "dx", r"\delta x", layered=True)
    U, nV = Family(Vec, "U")(), Family(Vec, "nV")()
    W = Family(Mat, "W", layered=True)
    xi, f, chi, eta = (Family(Scal, name, latex) for name, latex in
                       (("xi", r"\xi"), ("f", "f"), ("chi", r"\chi"), ("eta", r"\eta")))
    base = sp.nsimplify(scale.base_depth)
    eps = sp.nsimplify(scale.branch) * (L / base) ** -scale.alpha
    rate = eta[t] if isinstance(opt.lr, tuple) else sp.nsimplify(opt.lr)
    update = rate * (L / base) ** -scale.gamma
    body = (
        Assign(x[t, 0], xi[t] * U),
        Loop(l, sp.Integer(1), L, (Assign(x[t, l], x[t, l - 1] + eps * MatVec(W[t, l], x[t, l - 1])),)),
        Assign(f[t], Moment(nV * x[t, L])),
        Assign(chi[t], LossDerivative(f[t], t)),
        Assign(dx[t, L], chi[t] * nV),
        Loop(l, L, sp.Integer(1), (
            Assign(dx[t, l - 1], dx[t, l] + eps * MatVec(Transpose(W[t, l]), dx[t, l])),), descending=True),
        Loop(l, sp.Integer(1), L, (Assign(W[t + 1, l], W[t, l] - update * Outer(dx[t, l], x[t, l - 1])),)),
    )
    given = (xi[t], eta[t]) if isinstance(opt.lr, tuple) else (xi[t],)
    return Program("linear residual network, SGD", (U, nV), (W[0, l],), given,
                   (Loop(t, sp.Integer(0), T - 1, body),), (T, L), {L: "is the depth", T: "is the number of steps"})
