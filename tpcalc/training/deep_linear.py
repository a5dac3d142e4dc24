"""Deep linear networks without skips, trained on one batch: by modes, with one backward pass for all of them."""

from __future__ import annotations

import sympy as sp

from .._checks import short
from ..errors import NotCovered
from ..programs.backprop import Trainable, backpropagate
from ..programs.blocks import vector
from .builders import UNIT, gradient_name
from ..programs.indices import BATCH, L, T, i, l, t
from ..programs.language import Family, LossDerivative, Matrix, MatVec, Mean, Scalar, Vector
from ..optimizers.sgd import SGD
from ..programs.program import Assign, Loop, Program, Statement
from ..optimizers.updates import schedule_rates, start, update


def deep_linear(opt: SGD = SGD(1.0)) -> Program:
    """The training of f = V^T W_L ... W_2 U xi, all weights by the same optimizer, on one batch, mode by mode.

    Sample i of the program is the input xi[i] times the i-th unit vector. Orthogonal transformations of inputs and, for
    the loss "mse", of samples take any batch X = A S C to its singular values, with 0 for those that it lacks to as
    many modes as samples (targets A^T y, outputs A f); the mean of squares is the same. A derivative in a layer's
    vector is that of any other sample, so that all gradients are outer products with h, what the network makes of
    sum_i chi_i xi_i / B: a step costs one backward pass and one forward pass, however large the batch.

    opt: a tp.SGD, with schedule, momentum and decay. Sizes are T, the steps; L, the hidden layers; B, the batch. Given
    are xi[i] and y[t, i]. Scalars are f[t, i] = xi_i <dh^1|U_i> and chi[t, i], the loss derivative; vectors h[t, l] and
    dh[t, l], n times the derivative of an output, l = 1 to L. U and n V have entries N(0, 1), matrices N(0, 1/n), and
    learning rates are muP's. Raises ``ValueError`` for other optimizers. Source: Depthwise Hyperparameter Transfer,
    appendix G.2 [depthwise_transfer/linear_equations], without skips.

    >>> from tpcalc.interpreters import read_program_coefficients
    >>> import tpcalc as tp
    >>> from tpcalc.training.deep_linear import deep_linear
    >>> data = {"xi": [1.0], "y": [[1.0]] * 3}
    >>> run = read_program_coefficients(deep_linear(tp.SGD(0.1)), {"T": 3, "L": 2, "B": 1}, data)
    >>> run.series("f").round(4).tolist()  # (L + 1) * 0.1 in the first step
    [[0.0], [0.3], [0.5244]]
    """
    if not isinstance(opt, SGD):
        raise NotCovered(f"opt: got {short(opt)}; expected a tp.SGD, whose updates are sums of outer products")
    h, dh = vector("h"), vector("dh")
    U, nV, W = Family(Vector, "U"), Family(Vector, "nV"), Family(Matrix, "W", layered=True)
    xi, f, chi = Family(Scalar, "xi", r"\xi")[i], Family(Scalar, "f")[t, i], Family(Scalar, "chi", r"\chi")[t, i]
    forward = Assign(h[t, l], MatVec(W[t, l], h[t, l - 1]))
    back = backpropagate([forward], {h[t, l]: dh[t, l]}, [h[t, l - 1]], gradient_name, UNIT)
    (_, _, gradient), = back.gradients
    one = sp.Integer(1)
    loops = ((i, sp.Integer(0), BATCH - 1), Trainable(U, (i,), chi * xi / BATCH * dh[t, 1], one)), (
        (l, sp.Integer(2), L), Trainable(W, (l,), gradient, one)), (None, Trainable(nV, (), h[t, L], one))
    before: list[Statement] = []
    updates: list[Statement] = []
    for kept, of in ((before, start), (updates, update)):
        for loop, trainable in loops:
            made = tuple(of(opt, trainable))
            kept += [Loop(*loop, made)] if loop and made else made
    body: tuple[Statement, ...] = (
        Assign(dh[t, L], nV[t]), Loop(l, L, sp.Integer(2), tuple(back.statements), descending=True),
        Loop(i, sp.Integer(0), BATCH - 1, (Assign(f, xi * Mean(dh[t, 1] * U[t, i])),
                                           Assign(chi, LossDerivative(f, t, i)))),
        Assign(h[t, 1], sp.Sum(chi * xi * U[t, i], (i, 0, BATCH - 1)) / BATCH),
        Loop(l, sp.Integer(2), L, (forward,)), *updates)
    return Program("deep linear network", (U[0, i], nV[0]), (W[0, l],), (xi, *schedule_rates(opt)),
                   (*before, Loop(t, sp.Integer(0), T - 1, body)), (T, L, BATCH),
                   {L: "is the number of hidden layers", T: "is the number of steps", BATCH: "is the batch"},
                   {t: "clock", l: "layer", i: "sample"})
