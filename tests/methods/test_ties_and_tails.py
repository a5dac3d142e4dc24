"""What fluctuations and few coordinates decide at infinite width is refused, however a block writes it."""

from __future__ import annotations

from typing import Callable

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.programs.special import Mask, require_light_tails
from tpcalc.theory import Assign, Family, Matrix, MatVec, Mean, Scalar, Vector

TASK, SCALE = tp.Task([1, 0.8, -0.6], [1, -0.7, 0.5]), tp.DepthScaling()
Choice = Callable[[sp.Expr, sp.Expr], sp.Expr]  # of two logits: the share of the first


def of_two(choice: Choice, start: str = "normal") -> tp.ResNet:
    """Two experts, weighed by a choice between what two trained vectors read."""
    def block(b: tp.Branch) -> sp.Expr:
        s, r = (b.let_scalar(f"s{e}", Mean(b.trained(f"R{e}", start) * b.x)) for e in (1, 2))
        one, two = (b.let(f"o{e}", MatVec(b.weights(f"B{e}"), b.let(f"z{e}", b.phi(b.let(f"h{e}", MatVec(
            b.weights(f"A{e}"), b.x)))))) for e in (1, 2))
        first = b.let_scalar("first", choice(s, r) / (1 + sp.exp(-s)))
        return first * one + b.let_scalar("second", choice(r, s) / (1 + sp.exp(-r))) * two

    return tp.ResNet("tanh", block, norm="rms")


CHOICES: dict[str, Choice] = {
    "pieces": lambda s, r: sp.Piecewise((1, s >= r), (0, True)), "steps": lambda s, r: sp.Heaviside(s - r),
    "signs": lambda s, r: (1 + sp.sign(s - r)) / 2, "the larger": lambda s, r: sp.Max(s, r) - r}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("depth", [3, tp.oo])
def test_choices_without_a_mask_are_refused(choice: str, depth: int) -> None:
    """Logits tie, so that particles answered with what rounding chose; real networks choose by their fluctuations."""
    one = of_two(CHOICES[choice])
    with pytest.raises(tp.NotCovered, match="first.*has a choice in it, .*; what is compared may tie at"):
        tp.train(one, TASK, tp.SGD(0.5), SCALE, depth)
    if choice in ("pieces", "the larger"):  # others have deltas as derivatives
        assert np.isfinite(tp.train(one, TASK, tp.SGD(0.5), SCALE, 3, width=16).outputs).all()


def test_what_does_not_tie_is_taken() -> None:
    """Pieces and kinks of vectors, of numbers of order one, and a gate that has none."""
    def by_size(b: tp.Branch) -> sp.Expr:
        size = b.let_scalar("size", Mean(b.x**2))
        return MatVec(b.weights(), b.let("z", sp.Piecewise((b.x, b.x > 0), (b.x / 2, True)) / sp.Max(size, 1e-6)))

    for one in (tp.ResNet("tanh", by_size), of_two(lambda s, r: 1 / (1 + sp.exp(r - s)))):
        assert tp.train(one, TASK, tp.SGD(0.5), SCALE, 3).method == "particles"


@pytest.mark.parametrize("start", ["one", "zero", "normal"])
def test_a_router_that_no_gradient_reaches_is_refused(start: str) -> None:
    def block(b: tp.Branch) -> sp.Expr:
        s = b.let_scalar("s", Mean(b.trained("R", start) * b.x))
        return Mask(s) * b.let("o", MatVec(b.weights(), b.x))

    with pytest.raises(ValueError, match="block: got R, whose gradient is 0: .* and trained vectors"):
        tp.train(tp.ResNet("tanh", block), TASK, tp.SGD(0.5), SCALE, 3, width=8)


def population(g: Callable[[sp.Expr], sp.Expr]) -> tp.ResNet:
    """Hidden coordinates, each weighed by its share of all of them."""
    def block(b: tp.Branch) -> sp.Expr:
        weight = b.let("w", g(b.let("route", MatVec(b.weights("Wr"), b.x))))
        total = b.let_scalar("total", Mean(weight))
        h = b.let("h", MatVec(b.weights("W1"), b.x))
        return MatVec(b.weights("W2"), b.let("z", weight / total * b.phi(h)))

    return tp.ResNet("tanh", block, norm="rms")


@pytest.mark.parametrize("depth", [4, tp.oo])
def test_a_softmax_over_a_population_is_refused(depth: int) -> None:
    with pytest.raises(tp.NotCovered, match=r"total\[t, l\] has mean\(w\[t, l\]\) in it, an average of exponentials of "
                                            "vectors without a bound"):
        tp.train(population(sp.exp), TASK, tp.SGD(0.5), SCALE, depth)
    assert np.isfinite(tp.train(population(sp.exp), TASK, tp.SGD(0.1), SCALE, 4, width=16).outputs).all()


@pytest.mark.parametrize("g", [lambda s: 1 / (1 + sp.exp(-s)), lambda s: sp.exp(sp.tanh(s)), lambda s: sp.exp(-s**2)])
def test_shares_of_a_population_by_bounded_functions_are_taken(g: Callable[[sp.Expr], sp.Expr]) -> None:
    assert tp.train(population(g), TASK, tp.SGD(0.5), SCALE, 3).method == "particles"


u, v = (Family(Vector, name)() for name in "uv")
s, product = Family(Scalar, "s")(), MatVec(Family(Matrix, "W")(), u)


@pytest.mark.parametrize("body, heavy", [
    (sp.exp(product), True), (sp.exp(u - v), True), (sp.sinh(u), True), (u * sp.exp(-v), True),
    (sp.exp(u) / (1 + sp.exp(v)), True), (sp.log(1 + sp.exp(u)) ** 6, False), (u**8 / (1 + sp.exp(-v)), False),
    (sp.exp(u) / (1 + sp.exp(u)), False), (sp.exp(-u**2) * u**4, False), (sp.exp(s) * u**2, False), (u**12, False)])
def test_heavy_tails_are_told_by_growth(body: sp.Expr, heavy: bool) -> None:
    """An exponential of a number is a number."""
    statements = [Assign(v, body), Assign(s, Mean(v))]
    if heavy:
        with pytest.raises(tp.NotCovered, match="whose tails are so heavy"):
            require_light_tails("here", statements)
    else:
        require_light_tails("here", statements)
