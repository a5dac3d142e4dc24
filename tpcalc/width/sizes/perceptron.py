"""The training of a perceptron as a program in which all powers of the width are written out."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from ..._checks import instance
from ...scaling import WidthScaling
from ...models.activations import activation
from ...programs.backprop import Trainable, backpropagate
from ...programs.blocks import vector
from ...training.builders import gradient_name
from ...programs.indices import T, t
from ...programs.language import Family, LossDerivative, Matrix, MatVec, Mean, Scalar, Vector
from ...optimizers.sgd import SGD
from ...programs.program import Assign, Loop, Program, Statement
from ...optimizers.updates import Optimizer, require_optimizer, schedule_rates, start, update
from .interpreter import WIDTH

UNIT = sp.Symbol("unit", positive=True)  # branch multipliers, of which perceptrons have none
HALF = sp.Rational(1, 2)


@dataclass(frozen=True)
class _PerceptronLayer:
    """Weights n^-a w, w of entries n^-b N(0, 1); number: counted from 1."""

    number: int
    a: sp.Expr
    b: sp.Expr

    @property
    def unit(self) -> sp.Expr:
        """w over a matrix of entries N(0, 1/n), which is what programs have."""
        return WIDTH ** (HALF - self.b)


def perceptron(scaling: WidthScaling, phi: sp.Expr | str = "tanh", opt: Optimizer = SGD(1.0)) -> Program:
    """The program of a perceptron that is trained on one sample, with every power of n written by the parametrization.

    Parameters
    ----------
    scaling:
        exponents of initial variances and learning rates; as (a, b, c) weights are n^-a_l w_l, entries of w_l start
        at n^-b_l N(0, 1), and w_l moves by n^-c times the optimizer's learning rate, of true gradients in w_l. Adam's
        eps is one for these gradients, and may have a power of ``tpcalc.width.sizes.WIDTH`` in it.
    phi:
        the activation.
    opt:
        a tp.SGD, tp.SignSGD or tp.Adam, with a schedule, momentum and decay as they have them. A decay that is
        ``independent`` has no power of n; others have that of the rate, n^-c.

    Its vectors are h1, x1, ... of hidden layers, their gradients (dh1, ..., n times derivatives), input weights w1 and
    output weights wL, its matrices W2, ..., its scalars the output f and the loss derivative chi, all over steps t.
    The input xi is one number, the targets y[t] are given. Raises ``ValueError`` for what is no width scaling, no
    activation and no optimizer. Source: Tensor Programs IV, section 3, as translated by [meta_principled/translation].

    >>> import tpcalc as tp
    >>> print(str(perceptron(tp.width.width_recipe("muP", 2))).split("steps")[1])
    <BLANKLINE>
      w1[0] := U/sqrt(n)
      w2[0] := V/sqrt(n)
      for t = 0, ..., T - 1:
        h1[t] := sqrt(n)*xi*w1[t]
        x1[t] := tanh(h1[t])
        f[t] := sqrt(n)*mean(w2[t]*x1[t])
        chi[t] := loss'[t](f[t])
        dx1[t] := sqrt(n)*chi[t]*w2[t]
        dh1[t] := (1 - tanh(h1[t])**2)*dx1[t]
        w1[t + 1] := w1[t] - xi*dh1[t]/sqrt(n)
        w2[t + 1] := w2[t] - chi[t]*x1[t]/sqrt(n)
    """
    instance("scaling", scaling, WidthScaling)
    require_optimizer(opt)
    function = activation(phi)
    a, b, c = scaling.abc()
    layers = [_PerceptronLayer(i + 1, a[i], b[i]) for i in range(scaling.layers)]
    first, *hidden, last = layers
    h, x = ({one.number: vector(f"{name}{one.number}")[t] for one in layers} for name in "hx")
    matrices = {one.number: Family(Matrix, f"W{one.number}") for one in hidden}
    ends = {one.number: Family(Vector, f"w{one.number}") for one in (first, last)}
    xi, f, chi = Family(Scalar, "xi", r"\xi")(), Family(Scalar, "f")[t], Family(Scalar, "chi", r"\chi")[t]
    before: list[Statement] = [Assign(ends[one.number][0], WIDTH**-one.b * Family(Vector, name)())
                               for one, name in ((first, "U"), (last, "V"))]

    inner: list[Assign] = [Assign(x[1], function(h[1]))]
    for one in hidden:
        weights = WIDTH**-one.a * one.unit * MatVec(matrices[one.number][t], x[one.number - 1])
        inner += [Assign(h[one.number], weights), Assign(x[one.number], function(h[one.number]))]
    end = x[last.number - 1]
    back = backpropagate(inner, {end: gradient_name(end)}, [h[1]], gradient_name, UNIT)
    body: list[Statement] = [
        Assign(h[1], WIDTH**-first.a * xi * ends[1][t]), *inner,
        Assign(f, WIDTH ** (1 - last.a) * Mean(ends[last.number][t] * end)),
        Assign(chi, LossDerivative(f, t)),
        Assign(gradient_name(end), chi * WIDTH ** (1 - last.a) * ends[last.number][t]),
        *back.statements]

    gradients = {one.of.name: one.value for one in back.gradients}
    linear = isinstance(opt, SGD)
    trained = [Trainable(ends[1], (), WIDTH**(-first.a - 1) * xi * gradient_name(h[1]), sp.Integer(1), WIDTH**-c)]
    for one in hidden:  # of a matrix over its unit; what is a function of entries is of u v^T, and over n
        gradient = gradients[f"W{one.number}"] / one.unit / (1 if linear else WIDTH)
        trained.append(Trainable(matrices[one.number], (), gradient, (1 if linear else WIDTH) / one.unit, WIDTH**-c))
    trained.append(Trainable(ends[last.number], (), WIDTH**-last.a * chi * end, sp.Integer(1), WIDTH**-c))
    for trainable in trained:
        before += start(opt, trainable)
        body += update(opt, trainable)
    given = (xi, *schedule_rates(opt))
    return Program(f"perceptron of {scaling.layers} layers", (Family(Vector, "U")(), Family(Vector, "V")()),
                   tuple(family[0] for family in matrices.values()), given,
                   (*before, Loop(t, sp.Integer(0), T - 1, tuple(body))), (T,), {T: "is the number of steps"},
                   {t: "clock"})
