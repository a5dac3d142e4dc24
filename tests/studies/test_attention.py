"""Attention of several positions: kernels and the limit against references, real networks, and one another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tpcalc as tp
from support.attention_networks import RealTransformer

TWO = np.array([[(1, 0), (.5, .8)], [(-.6, .7), (1.1, -.4)], [(.3, -.9), (.8, .5)]])[:, None]
TARGETS = np.array([[1, -.7], [.5, 1.2], [-.4, .8]])[:, None, :, None]
MLP = tp.ResNet("tanh", "mlp", norm="rms")
THREE = np.array([[(1, 0), (.5, .8), (-.6, .7)], [(1.1, -.4), (.3, -.9), (.8, .5)], [(-.2, 1), (.9, .1), (-.7, -.6)]])
THREE_TARGETS = np.array([[1, -.7, .5], [1.2, -.4, .8], [-.5, .6, .9]])


def small(**options: Any) -> tp.theory.AttentionLayer:
    """Few points: equal points make equal kernels, whatever their error."""
    return tp.theory.AttentionLayer(2, points=32, scrambles=2, **options)


@pytest.mark.parametrize("mlp", [None, MLP])
def test_a_small_first_step_is_the_tangent_kernel(mlp: tp.ResNet | None) -> None:
    """f_1 = -lr K chi: the solver in layer time and the kernels at initialization are different code."""
    layer, lr, x = small(mlp=mlp, head_dim=2, causal=True), 1e-4, TWO[0]
    inputs, targets = np.stack([x, x]), np.stack([TARGETS[0], TARGETS[0]])
    kernel = tp.theory.attention_kernel(layer, x)
    f = tp.theory.attention_limit(layer, inputs, targets, tp.SGD(lr)).outputs[1, 0, :, 0]
    np.testing.assert_allclose(f / lr, kernel.ntk[0, :, 0, :] @ TARGETS[0, 0, :, 0], rtol=2e-3)
    assert kernel.ntk[0, 0, 0, 1] > 0.1


def test_a_batch_of_the_same_sequence_is_one() -> None:
    layer, inputs, targets = small(), TWO[:2], TARGETS[:2]
    alone = tp.theory.attention_limit(layer, inputs, targets).outputs
    twice = tp.theory.attention_limit(layer, np.repeat(inputs, 2, 1), np.repeat(targets, 2, 1)).outputs
    assert np.max(np.abs(alone[1])) > 0.1
    np.testing.assert_allclose(twice, np.repeat(alone, 2, 1), rtol=0, atol=1e-5)


def test_layers_come_to_the_limit_like_one_over_their_number() -> None:
    layer = small(mlp=MLP)
    limit, *found = (np.stack([kernel.nngp, kernel.ntk]) for kernel in (
        tp.theory.attention_kernel(layer, TWO[0], depth) for depth in (tp.oo, 16, 32)))
    errors = [np.max(np.abs(one - limit)) for one in found]
    assert 1.8 < errors[0] / errors[1] < 2.2
    np.testing.assert_allclose(2 * found[1] - found[0], limit, rtol=0, atol=errors[1] / 20)


def test_first_position_of_a_causal_layer_sees_itself_alone() -> None:
    """Softmax over one position is 1: queries and keys do not learn there, and layer time is a line."""
    kernel = tp.theory.attention_kernel(small(causal=True), TWO[0], depth=1)
    limit = tp.theory.attention_kernel(small(causal=True), TWO[0])
    at = {name: float(one[0, 0, 0, 0]) for name, one in kernel.by_matrix.items()}
    assert at == pytest.approx({"q": 0.0, "k": 0.0, "v": 1.0, "o": 1.0})
    assert kernel.nngp[0, 0, 0, 0] == pytest.approx(2.0)
    # C = 1 + tau, and Theta' = Theta / C + 2
    assert limit.nngp[0, 0, 0, 0] == pytest.approx(2.0) and limit.ntk[0, 0, 0, 0] == pytest.approx(4 * np.log(2))


@pytest.mark.parametrize("change, words", [
    ({"inputs": TWO[:, :, :1]}, r"inputs: got an array of shape .*; expected \(steps, batch, positions, d_in\)"),
    ({"targets": TARGETS[:1]}, r"targets: got shape \(1, 1, 2, 1\) for inputs of shape"),
    ({"inputs": 0 * TWO}, "inputs: got a position that is 0"),
    ({"scale": tp.DepthScaling(.75, .25)}, "scale: got .*; expected alpha = gamma = 1/2"),
    ({"opt": tp.SGD(1.0, weight_decay=1.0, decoupled=True)}, "opt: got .*; expected weight decay that leaves")])
def test_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tp.theory.attention_limit(**{"layer": small(), "inputs": TWO, "targets": TARGETS, **change})


def test_refused_layers() -> None:
    with pytest.raises(ValueError, match="points: got 100; expected powers of 2"):
        tp.theory.AttentionLayer(2, points=100)
    with pytest.raises(ValueError, match="mlp: got .*; expected networks without trained embedding and readout"):
        tp.theory.AttentionLayer(2, mlp=tp.ResNet("tanh", "mlp", train_embedding_readout=True))
    with pytest.raises(tp.Divergence, match="variances grow"):
        tp.theory.attention_kernel(small(), TWO[0], scale=tp.DepthScaling(0, 1))


@pytest.mark.slow
def test_two_positions_of_a_reference() -> None:
    """Solved by other code with other points, derivatives and elements, to 2e-5 by its own account; about 20 s."""
    limit = tp.theory.attention_limit(tp.theory.AttentionLayer(2, points=1024), TWO, TARGETS)
    expected = np.array([[.08582, .35964], [.71487, .69714]])
    found, error = (x[1:, 0, :, 0] for x in (limit.outputs, limit.standard_error))
    assert limit.error < 2e-3
    assert np.max(np.abs(found - expected) / np.hypot(error, 2e-5)) < 4


@pytest.mark.slow
def test_three_causal_positions_of_a_reference() -> None:
    """With errors of the reference, of heads of two dimensions; about a minute."""
    layer = tp.theory.AttentionLayer(3, 2, True, points=1024)
    limit = tp.theory.attention_limit(layer, THREE[:, None], THREE_TARGETS[:, None, :, None])
    expected = np.array([[1.32192, 1.05400, 1.06474], [.79873, .10910, -.02683]])
    errors = np.array([[8, 10, 6], [5, 15, 13]]) * 1e-5
    found, error = (x[1:, 0, :, 0] for x in (limit.outputs, limit.standard_error))
    assert limit.error < 5e-3
    assert np.max(np.abs(found - expected) / np.hypot(error, errors)) < 4


@pytest.mark.slow
@pytest.mark.parametrize("head_dim, causal, mlp, power", [(1, False, False, 0.5), (2, True, True, 0.5),
                                                          (4, False, False, 1)])
def test_kernels_of_real_networks_at_initialization(head_dim: int, causal: bool, mlp: bool, power: float) -> None:
    """Three layers, two sequences: means over networks against infinite width, extrapolated from n = 64 and 128."""
    rng, x = np.random.default_rng(2), TWO[:2, 0]
    layer = tp.theory.AttentionLayer(2, head_dim, causal, power, MLP if mlp else None)
    kernel = tp.theory.attention_kernel(layer, x, depth=3)
    expected = {"nngp": kernel.nngp, **kernel.by_matrix}
    means, errors = {}, {}
    for n, networks in ((64, 400), (128, 400)):
        draws = [RealTransformer(n, 3, 2, head_dim, causal, power, mlp, rng).kernels(x) for _ in range(networks)]
        samples = {"nngp": np.array([overlaps for overlaps, _ in draws])}
        for name in draws[0][1]:
            samples[name] = np.array([tangents[name] for _, tangents in draws])
        if mlp:
            samples["mlp"] = samples.pop("W1") + samples.pop("W2")
        means[n] = {name: one.mean(0) for name, one in samples.items()}
        errors[n] = {name: one.std(0) / np.sqrt(networks) for name, one in samples.items()}
    for name, one in expected.items():
        found = 2 * means[128][name] - means[64][name]
        error = np.hypot(2 * errors[128][name], errors[64][name])
        z = (found - one.reshape(4, 4)) / np.hypot(error, kernel.error)
        assert np.max(np.abs(z)) < 4.5 and np.sqrt(np.mean(z**2)) < 2, (name, z)


@pytest.mark.slow
def test_real_networks_that_learn() -> None:
    """Attention and perceptrons, decay, two sequences a step, extrapolated in depth and width; about three minutes."""
    orders = [(0, 1), (2, 0), (1, 2)]
    inputs, targets = (np.array([[x[a, 0], x[b, 0]] for a, b in orders]) for x in (TWO, TARGETS))
    opt = tp.SGD(1.0, weight_decay=.3, decoupled=True)
    layer = tp.theory.AttentionLayer(2, 2, True, mlp=MLP, points=256, scrambles=4)
    limit = tp.theory.attention_limit(layer, inputs, targets, opt)
    without = tp.theory.attention_limit(small(head_dim=2, causal=True, mlp=MLP), inputs, targets).outputs
    rng, factors, networks = np.random.default_rng(5), {(8, 64): -3, (16, 64): 2, (8, 128): 2}, 200
    found, variance = np.zeros((2, *limit.outputs.shape[:3]))
    for (depth, n), factor in factors.items():
        f = np.array([RealTransformer(n, depth, 2, 2, True, .5, True, rng).train(inputs, targets[..., 0], 1.0, .3)
                      for _ in range(networks)])
        found, variance = found + factor * f.mean(0), variance + factor**2 * f.var(0) / networks
    z = (found - limit.outputs[..., 0])[1:] / np.sqrt(variance[1:])
    assert np.max(np.abs(z)) < 4 and np.sqrt(np.mean(z**2)) < 2, z
    assert np.max(np.abs((found - without[..., 0])[1:] / np.sqrt(variance[1:]))) > 8
