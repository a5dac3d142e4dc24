"""Transformers with sublayers of a user's own at infinite depth: as built-in ones, as real networks, refusals."""

from __future__ import annotations

from typing import Callable

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.programs.blocks import Branch, pre
from tpcalc.models.convolution import Convolution
from tpcalc.programs.indices import l, m, p
from tpcalc.programs.language import HeadSum, MatVec, Mean

RNG = np.random.default_rng(4)
TASK = tp.Sequences(RNG.normal(size=(3, 1, 2, 2)), RNG.normal(size=(3, 1, 2)))
HOW = TASK, tp.SGD(0.4), tp.DepthScaling(), tp.oo


def weighed(b: Branch) -> sp.Expr:
    """Causal attention by sigmoids of scores, over the number of positions that are read."""
    q, k, v = (b.let(name, MatVec(b.weights("W" + name), b.x)) for name in ("q", "k", "u"))
    share = b.let("share", sp.Piecewise((1 + sp.tanh(HeadSum(q * b.other(k), 2) / 4), m <= p), (0, True)))
    return MatVec(b.weights("Wo"), b.let_total("mixed", share * b.other(v) / (1 + p)))


def own(b: Branch) -> sp.Expr:
    """The built-in "mlp"."""
    return MatVec(b.weights("W2"), b.let("z", b.phi(b.let("h", MatVec(b.weights("W1"), b.x)))))


def test_a_copy_of_a_built_in_sublayer_has_its_limit() -> None:
    few = tp.methods.CommonDraws(budget=1e5, samples=256, coarsest=2)
    copy, known = (tp.Transformer(head_dim=2, positions=2, mlp=mlp, phi="tanh") for mlp in (own, "mlp"))
    assert np.array_equal(*(tp.train(net, *HOW, method=few).outputs for net in (copy, known)))


@pytest.mark.slow
def test_limits_are_those_of_wide_and_deep_networks() -> None:
    net = tp.Transformer(head_dim=2, positions=2, attention=weighed, mlp=own, phi="tanh")
    limit = tp.train(net, *HOW, method=tp.methods.CommonDraws(tolerance=0.01, budget=2e7))
    doubt = limit.standard_error + limit.bias_bound
    assert limit.error_estimate < 0.05 < 0.2 < np.abs(limit.outputs[1:]).max()
    deep = {depth: np.array([tp.train(net, *HOW[:3], depth, 512, method=tp.methods.Conditioned(seed=seed)).outputs
                             for seed in range(1000 * depth, 1000 * depth + 144)]) for depth in (16, 32)}
    found = 2 * deep[32].mean(axis=0) - deep[16].mean(axis=0)
    error = np.sqrt((4 * deep[32].var(axis=0, ddof=1) + deep[16].var(axis=0, ddof=1)) / 144)
    z = (found - limit.outputs) / np.hypot(error, doubt)
    print("z-scores", z.ravel().round(2), "errors", error.ravel().round(4))
    assert np.abs(z).max() < 4 and error.max() < 0.06


def exponential(b: Branch) -> sp.Expr:
    v = b.let("v", MatVec(b.weights("A"), b.x))
    return MatVec(b.weights("B"), b.let_total("all", sp.exp(v) * b.other(v)))


def divided(b: Branch) -> sp.Expr:
    return MatVec(b.weights("B"), b.let("z", 1 / (1 + b.let("v", MatVec(b.weights("A"), b.x))**2)))


def averaged(b: Branch) -> sp.Expr:
    v = b.let("v", MatVec(b.weights("A"), b.x))
    return b.let_scalar("size", Mean(v**2)) * MatVec(b.weights("B"), v)


def centered(b: Branch) -> sp.Expr:
    z = b.let("z", sp.tanh(b.let("v", MatVec(b.weights("A"), b.x))))
    return z - Mean(z)


REFUSED: dict[str, tuple[Callable, str]] = {
    "a function without a rule": (exponential, r"exp\(v"), "a division": (divided, r"1/\(v.* means are finite"),
    "a scalar": (averaged, "size|mean"), "no matrix at the end": (centered, "which is no product with a matrix"),
    "the stream first": (pre, "where no matrix has multiplied it"),
    "the stream behind": (lambda b: MatVec(b.weights("A"), b.x) + b.x, "no product with a matrix"),
    "a matrix twice": (lambda b: MatVec(b.weights("A"), b.let("v", MatVec(b.weights("A"), b.x))), "which multiplies"),
    "another sublayer's": (lambda b: MatVec(b.weights("B"), b.let("v", MatVec(b.weights("Wv"), b.x))), "Wv, which "),
    "a trained vector": (lambda b: b.trained("s") * b.let("v", MatVec(b.weights("A"), b.x)), "the trained vector s"),
    "layers that differ": (lambda b: MatVec(b.weights("B"), b.let("v", MatVec(b.weights("A"), b.x)) / l), "not alike"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_no_rule_says_a_limit_of_is_refused(why: str) -> None:
    block, said = REFUSED[why]
    net = tp.Transformer(head_dim=2, positions=2, mlp=block, phi="tanh")
    with pytest.raises(ValueError, match=f"whether there is a limit: net: got the sublayer .*{said}.* expected"):
        tp.train(net, *HOW, method="common_draws")


def test_perceptrons_behind_a_convolution_are_refused() -> None:
    net = tp.Transformer(positions=2, attention=Convolution(2, 1), mlp="mlp")
    with pytest.raises(ValueError, match="a convolution and mlp=None"):
        tp.train(net, *HOW, method="common_draws")
