"""Biases of products and behind norms: real networks, the limit and powers of L; plain arrays are in test_residual."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.asymptotics.parts import LARGE, Scale, unit_directions
from tpcalc.errors import NotCovered
from tpcalc.orders import Affine
from tpcalc.theory import ParallelBlock, softmax_attention
from tpcalc.verdicts.counted import uncentered
from support.plain.residual import PlainResidual

HALVES = tp.DepthScaling()
TASK = tp.Task(np.array([[[1, 0.3]], [[0.5, -1]], [[1, 0.8]]]), np.array([1, -0.5, 1.0])[:, None, None])


def test_names_that_no_product_has_are_refused() -> None:
    for net, options, said in (
            (tp.ResNet, {"block": "mlp", "biases": ["W3"]}, "W3: expected matrices"),
            (tp.ResNet, {"biases": "W"}, "expected True for all"),
            (tp.ResNet, {"biases": ["norm"]}, "with norm=None"),
            (tp.Transformer, {"biases": [1]}, "expected True for all"),
            (tp.ResNet, {"block": plain, "biases": True}, "W: expected matrices that a block gives")):
        with pytest.raises(ValueError, match=said):
            net(**options)
    assert tp.ResNet(biases=[]) == tp.ResNet() and tp.ResNet("tanh", given, biases=True).vectors_of_block == ("b",)


def plain(b: tp.Branch) -> Any:
    return tp.theory.MatVec(b.weights(), b.x)


def given(b: tp.Branch) -> Any:
    return b.product("W", b.let("z", b.phi(b.x)), at_end=True)


def test_softmax_forgets_a_bias_of_keys_unless_they_are_turned_or_normed() -> None:
    for options, has in (({}, False), ({"rotation": [1.0], "head_dim": 2}, True), ({"qk_norm": True}, True)):
        assert ("bk" in tp.Transformer(biases=True, **options).vectors_of_block) == has
    both = tp.Transformer(mlp=None, attention=ParallelBlock(softmax_attention(1, sp.Rational(1, 2)), "glu", 2),
                          phi="silu", biases=True)
    assert both.vectors_of_block == ("bq", "bv", "bo", "b1_1", "b2_1", "b3", "b1_2", "b2_2")


@pytest.mark.parametrize("net", [
    tp.ResNet(biases=True), tp.ResNet("linear", "mlp", biases=["W1"]),
    tp.ResNet(biases=True, train_embedding_readout=True)], ids=["post", "mlp", "ends"])
def test_expansions_over_random_vectors_and_particles_agree(net: tp.ResNet) -> None:
    exact = tp.train(net, TASK, tp.SGD(0.3, momentum=0.5), HALVES, 3)
    drawn = tp.train(net, TASK, tp.SGD(0.3, momentum=0.5), HALVES, 3, method="particles")
    assert exact.method == "coefficients"
    assert np.abs(exact.outputs - drawn.outputs).max() < 0.02
    without = tp.train(replace(net, biases=False), TASK, tp.SGD(0.3, momentum=0.5), HALVES, 3)
    assert np.abs(exact.outputs - without.outputs).max() > 0.05


def test_a_wide_hidden_layer_has_one_bias_at_its_end() -> None:
    """By plain arrays whose hidden layer is as wide as its parts together, one step of gradient descent."""
    depth, width, ratio = 2, 6, 3
    net, scale = tp.ResNet("tanh", "mlp", mlp_ratio=ratio, biases=True), tp.DepthScaling(0.7, 0.4)
    inputs, targets = TASK.inputs[:2], TASK.targets[:2]
    run = tp.train(net, tp.Task(inputs, targets), tp.SGD(0.3), scale, depth, width=width, method="dense", seed=3)
    start = run.initial_weights()
    parts = [[start[f"W{k}_{one}"] for one in range(1, ratio + 1)] for k in (1, 2)]
    weights = {"W1": np.concatenate(parts[0], axis=1), "W2": np.concatenate(parts[1], axis=2) / ratio**0.5,
               "b1": np.zeros((depth, ratio * width)), "b2": np.zeros((depth, width)),
               "U": start["U"].T, "nV": start["nV"].ravel()}
    model, g = PlainResidual(eps=depth**-0.7, biases=True), depth**-0.4
    rates = {"W1": 1 / model.eps, "W2": 1 / model.eps / ratio, "b1": width / model.eps, "b2": width / model.eps}
    first = [model.outputs(weights, one) for one in inputs[0][:, None]]
    gradients = {name: model.gradient(weights, name, inputs[0][:, None], targets[0]) for name in rates}
    moved = {name: weights[name] - 0.3 * g * rate * gradients[name] for name, rate in rates.items()}
    second = [model.outputs({**weights, **moved}, one) for one in inputs[1][:, None]]
    assert np.abs(run.outputs.ravel() - np.ravel([first, second])).max() < 1e-9


@pytest.mark.parametrize("options", [
    {}, {"gains": True}, {"biases": ["Wo", "W1"]}, {"gains": True, "biases": True},
    {"norm_position": "sandwich", "gains": True}], ids=["none", "gains", "biases", "both", "sandwich"])
@pytest.mark.parametrize("scale", [(1 / 2, 1 / 2), (1, 0), (3 / 4, 1 / 4)], ids=["halves", "ode", "between"])
def test_centers_of_transformers_change_no_power(options: dict[str, Any], scale: tuple[float, float]) -> None:
    """LayerNorm is counted as RMSNorm, whose means are 0; behind an attention of one's own it is counted as it is."""
    written = softmax_attention(1, sp.Rational(1, 2))

    def softmax(b: tp.Branch) -> Any:
        return written(b)

    net = tp.Transformer(norm="layer", **options)
    own = replace(net, attention=softmax)
    assert uncentered(net).norm == "rms" and uncentered(own).norm == "layer"
    assert uncentered(net).vectors_of_block == net.vectors_of_block
    assert tp.classify(*scale, net).exponents == tp.classify(*scale, own).exponents


@pytest.mark.parametrize("net", [
    tp.ResNet("tanh", "mlp", norm="rms", biases=True), tp.ResNet(biases=True),
    tp.Transformer(norm="layer", gains=True, biases=True),
    tp.Transformer(mlp="swiglu", head_dim=2, rotation=[1.0], biases=["Wq", "Wk", "Wv"])],
    ids=["mlp", "linear", "gpt", "qwen"])
def test_biases_change_no_power_of_a_verdict(net: Any) -> None:
    """Each moves what matrices do, by as much."""
    for scale in ((1 / 2, 1 / 2), (1, 0), (3 / 4, 1 / 2)):
        with_them, without = (tp.classify(*scale, one) for one in (net, replace(net, biases=False)))
        assert with_them.name == without.name
        assert with_them.exponents["change of f"] == without.exponents["change of f"]


def test_solve_has_a_power_for_every_bias() -> None:
    found = tp.solve(tp.Transformer(norm="layer", gains=True, mlp=None, biases=True))
    assert {"lr_bq", "lr_bv", "lr_bo", "lr_bn1", "lr_gn1"} <= {part for part in str(found).replace(",", " ").split()}


def test_exponents_that_many_parameters_move_stay_finite() -> None:
    """A digit each: those of sixteen were once as large as what grows faster than every power."""
    for size in (8, 16, 64):
        scale, form = Scale((Fraction(0),) * size, unit_directions(size)), Affine(unit_directions(size)[0], Fraction(5))
        assert 0 < scale.of(form) < LARGE and scale.number(scale.of(form)) == 5
    with pytest.raises(NotCovered, match="expected at most 128"):
        Scale((), unit_directions(129))


@pytest.mark.nightly
def test_infinite_depth_is_where_deep_networks_go() -> None:
    net = tp.ResNet("tanh", "pre_nonlin", norm="layer", gains=True, biases=True)
    limit = tp.train(net, TASK, tp.SGD(0.4), HALVES, tp.oo)
    deep = tp.train(net, TASK, tp.SGD(0.4), HALVES, 128)
    assert np.abs(limit.outputs - deep.outputs).max() < 0.02
    assert np.abs(limit.outputs - tp.train(replace(net, biases=False), TASK, tp.SGD(0.4), HALVES, tp.oo).outputs
                  ).max() > 0.05
