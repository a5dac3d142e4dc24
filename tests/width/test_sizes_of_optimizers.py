"""Powers of the width under Adam, signs of batches and decays: against other optimizers, and real networks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.width_programs import slopes
from tpcalc.interpreters.vectors import run_program
from tpcalc.programs.language import Family, Matrix, MatVec, Mean, NonlinearOuter, Outer, Vector, kind
from tpcalc.programs.program import Assign, Program
from tpcalc.width.sizes import WIDTH as n
from tpcalc.width.sizes import Found, measure, perceptron

HALF = sp.Rational(1, 2)
TABLE = tp.WidthScaling.from_abc([0, HALF], [0, HALF], HALF)
A, B = Family(Vector, "a")(), Family(Vector, "b")()
X, Y = Family(Vector, "x")(), Family(Vector, "y")()
W = Family(Matrix, "W")


def adam(eps: Any, beta1: Any = HALF, decay: Any = 0) -> tp.Adam:
    return tp.Adam(HALF, beta1=beta1, beta2=sp.Rational(3, 4), eps=eps, weight_decay=decay)


def found(scaling: tp.WidthScaling, opt: Any, steps: int = 2, **options: Any) -> tuple[Found, dict[str, sp.Expr]]:
    made = perceptron(scaling, "tanh", opt, **options)
    at = measure(made, {"T": steps})
    return at, {str(e): at.power(e) for e in at.sizes}


def rate(c: sp.Expr) -> tp.WidthScaling:
    return tp.WidthScaling(TABLE.p, TABLE.q, TABLE.r - c)


def test_below_eps_adam_is_gradient_descent_at_a_smaller_rate() -> None:
    """Without a first moment the direction is g / eps, from the second step on too."""
    one = found(rate(sp.Integer(-1)), adam(n, beta1=0))[1]
    other = found(rate(sp.Integer(0)), tp.SGD(0.5))[1]
    assert one == {name: power for name, power in other.items() if name in one} and len(one) > 10


def test_above_eps_adam_knows_no_eps() -> None:
    assert found(TABLE, adam(n**-4))[1] == found(TABLE, adam(0))[1]


def test_first_steps_of_adam_are_signs() -> None:
    first = found(TABLE, adam(0), steps=1)[1]
    assert first == found(TABLE, tp.SignSGD(0.5), steps=1)[1] and first["w1[1]"] == 0


def test_independent_decay_knows_no_rate() -> None:
    """A share n^-c of a weight is taken away where the decay goes with the rate."""
    scaling = tp.WidthScaling(TABLE.p, TABLE.q, TABLE.r - 1)
    for opt in (tp.SGD(0.5, weight_decay=0.25, decoupled=True), adam(n**-4, decay=sp.Rational(1, 4))):
        taken = []
        for independent in (False, True):
            made = perceptron(scaling, "tanh", replace(opt, independent=independent))
            at = {str(s.target): s.target for s in made.unroll({"T": 1})}
            change = at["w1[1]"] - at["w1[0]"]
            taken.append(measure(made, {"T": 1}, asked=[change]).power(change))
        assert taken[1] == 0 and taken[0] < 0


def small(*statements: tuple[sp.Expr, sp.Expr]) -> Program:
    return Program("small", (A, B), (W[0],), (), tuple(Assign(*s) for s in statements), ())


@pytest.mark.parametrize("asked, expected", [
    (MatVec(W[1], A), 0), (Mean(B * MatVec(W[1], A)), 0), (Mean(A * MatVec(W[1], A)), 0),
    (MatVec(W[1], A) - MatVec(W[1], 2 * A) / 2, -sp.oo)])
def test_signs_of_batches(asked: sp.Expr, expected: sp.Expr) -> None:
    """sign(b a^T + x y^T / 2) / n, whose average over a is a function of b and x that is odd in both."""
    made = small((X, A + B), (Y, A - B), (W[1], NonlinearOuter(sp.sign(Outer(B, A) + Outer(X, Y) / 2))))
    assert measure(made, {}, asked=[asked]).power(asked) == expected


def test_what_averages_out_is_bounded_and_not_claimed() -> None:
    """The average over a vector that is independent of the right-hand sides is smaller, and nothing more is said."""
    made = small((X, A + B), (Y, sp.tanh(A)), (W[1], NonlinearOuter(sp.sign(Outer(B, A) + Outer(X, Y) / 2))))
    asked = MatVec(W[1], B)
    at = measure(made, {}, asked=[asked])
    assert asked in at.refused and at.bound(asked) == -HALF


@pytest.mark.parametrize("one, other", [(Outer(B, A), Outer(X, A)), (Outer(B, A), Outer(B, X)),
                                        (Outer(X, A), Outer(3 * A + 3 * B, Y))])
def test_gradients_along_one_vector_are_refused(one: sp.Expr, other: sp.Expr) -> None:
    """sign((b + x / 2) a^T) is sign(b + x / 2) sign(a)^T: products with it are all along one vector."""
    made = small((X, A + B), (Y, A - B), (W[1], NonlinearOuter(sp.sign(one + other / 2))))
    assert "multiples of one another" in measure(made, {}).refused[W[1]]


@pytest.mark.parametrize("body", [Outer(A, B) / (sp.Abs(Outer(A, B)) + 1)**2, sp.tanh(Outer(A, B) + Outer(B, A)),
                                  Outer(A, B)**2 / (sp.Abs(Outer(B, A)) + 1)])
def test_other_functions_are_refused_by_name(body: sp.Expr) -> None:
    at = measure(small((W[1], NonlinearOuter(body))), {})
    assert "no rule for this function" in at.refused[W[1]]


@pytest.mark.slow
@pytest.mark.parametrize("layers, samples", [(2, {64: 400, 1024: 400}), (3, {64: 400, 512: 100})])
def test_outputs_of_large_eps_by_their_root_mean_square(layers: int, samples: dict[int, int]) -> None:
    """f[1] is a Gaussian plus what was learned, of one size, so that logarithms of |f| converge slowly; squares do."""
    table = tp.WidthScaling.from_abc([0] + [HALF] * (layers - 1), [0] * (layers - 1) + [HALF], HALF)
    made = perceptron(table, "tanh", tp.AdamW((0.5, 0.25), beta1=HALF, beta2=sp.Rational(3, 4), eps=sp.Integer(1),
                                              weight_decay=sp.Rational(1, 5)))
    f = next(s.target for s in made.unroll({"T": 2}) if str(s.target) == "f[1]")
    data = {"xi": 0.8, "y": [2.0, 0.7], "eta": [0.5, 0.25]}
    sizes = [np.sqrt(np.mean([float(run_program(made, {"T": 2}, {"n": float(width), **data}, width=width, seed=seed
                                                ).execution.value(f))**2 for seed in range(count)]))
             for width, count in samples.items()]
    slope = np.log(sizes[1] / sizes[0]) / np.diff(np.log(list(samples)))[0]
    assert abs(slope - float(measure(made, {"T": 2}, asked=[f]).power(f))) < 0.08


@pytest.mark.slow
@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize("eps", [sp.Integer(0), sp.Rational(1, 10) / n, sp.Rational(1, 10) / n**2, sp.Integer(1)])
def test_sizes_under_adam_agree_with_slopes_of_real_networks(layers: int, eps: sp.Expr) -> None:
    """With decay and a schedule, over two updates."""
    table = tp.WidthScaling.from_abc([0] + [HALF] * (layers - 1), [0] * (layers - 1) + [HALF], HALF)
    made = perceptron(table, "tanh", tp.AdamW((0.5, 0.25), beta1=HALF, beta2=sp.Rational(3, 4), eps=eps,
                                              weight_decay=sp.Rational(1, 5)))
    at = measure(made, {"T": 2})
    asked = [e for e in at.sizes if kind(e) != "matrix"]
    assert len(asked) > 12
    data = {"xi": 0.8, "y": [2.0, 0.7], "eta": [0.5, 0.25]}
    measured = slopes(made, {"T": 2}, asked, {64: 80, 128: 80, 256: 40, 512: 24, 1024: 12, 2048: 6}, data)
    asked = [e for e in asked if not measured[e].agrees(at.power(e))]  # once more, on many new ones
    measured = slopes(made, {"T": 2}, asked, {64: 800, 128: 600, 256: 400, 512: 200, 1024: 40}, data, first=1000)
    assert [(str(e), at.power(e), measured[e]) for e in asked if not measured[e].agrees(at.power(e))] == []
