"""Read-outs that are the read-in: real networks against plain arrays, their limits against wide ones."""

from __future__ import annotations

from typing import Callable

import numpy as np
import pytest

import tpcalc as tp
from support.nightly import few
from support.plain.transformer import PlainTransformer

Step = Callable[[dict, dict], dict]  # (state by name, normalized gradients) -> what weights move along, times -1
OPTIONS = dict(head_dim=2, norm="rms", mlp=None, causal=True, scale_power=0.5, tied=True)
LR, ALPHA, GAMMA, DEPTH, WIDTH = 0.3, 0.7, 0.4, 2, 8
SEEDS = 256  # of wide networks


def drawn(steps: int = 3, batch: int = 2, d: int = 2) -> tp.Sequences:
    rng = np.random.default_rng(d)
    return tp.Sequences(rng.standard_normal((steps, batch, 3, d)), rng.standard_normal((steps, batch, 3, d)))


def plain_training(data: tp.Sequences, weights: dict, step: Step, decay: float = 0.0) -> np.ndarray:
    """Outputs at every step; weights move along what ``step`` makes of n times gradients, over n for matrices."""
    plain = PlainTransformer(eps=DEPTH**-ALPHA, **OPTIONS)
    w, state, outputs = {name: value.copy() for name, value in weights.items()}, {}, []
    for xi, y in zip(data.inputs, data.targets):
        f = [plain.forward(w, one)[0] for one in xi]
        outputs.append(f)
        each = [plain.gradients(w, one, data.loss.derivative(a, b)) for one, a, b in zip(xi, f, y)]
        normal = {name: WIDTH * np.mean([g[name] for g in each], axis=0) / (1 if name == "U" else DEPTH**-ALPHA)
                  for name in w}
        for name, change in step(state, normal).items():
            size = 1 if name == "U" else DEPTH**-GAMMA / WIDTH
            w[name] = (1 - LR * decay) * w[name] - LR * size * change
    return np.array(outputs)


def adam(state: dict, gradients: dict) -> dict:
    state["t"] = state.get("t", 0) + 1
    moved = {}
    for name, g in gradients.items():
        first = state[name, 1] = 0.9 * state.get((name, 1), 0) + 0.1 * g
        second = state[name, 2] = 0.99 * state.get((name, 2), 0) + 0.01 * g**2
        moved[name] = first / (1 - 0.9**state["t"]) / (np.sqrt(second / (1 - 0.99**state["t"])) + 1e-3)
    return moved


def heavy_ball(state: dict, gradients: dict) -> dict:
    for name, g in gradients.items():
        state[name] = 0.6 * state.get(name, 0) + g
    return {name: state[name] for name in gradients}


@pytest.mark.parametrize("opt, step, decay", [
    (tp.SGD(LR), lambda state, gradients: gradients, 0), (tp.SGD(LR, momentum=0.6), heavy_ball, 0),
    (tp.SGD(LR, weight_decay=0.2, decoupled=True), lambda state, gradients: gradients, 0.2),
    (tp.Adam(LR, 0.9, 0.99, 1e-3, 0.1), adam, 0.1)])
@pytest.mark.parametrize("d", few([1, 3], 3))
def test_real_networks_are_plain_arrays(opt: object, step: Step, decay: float, d: int) -> None:
    data = drawn(d=d)
    run = tp.train(tp.Transformer(positions=3, phi="gelu", train_embedding_readout=True, **OPTIONS), data, opt,
                   tp.DepthScaling(ALPHA, GAMMA), DEPTH, width=WIDTH, method="dense", seed=1)
    weights = run.initial_weights()
    assert set(weights) == {"U", "Wq", "Wk", "Wv", "Wo"}
    found = plain_training(data, {**weights, "U": weights["U"].reshape(d, WIDTH).T}, step, decay)
    assert np.abs(found - run.outputs).max() < 1e-10 * np.abs(found).max()


def test_at_infinite_width_the_first_output_is_the_input() -> None:
    """Sublayers end with fresh matrices, which the read-in does not overlap."""
    data, net = drawn(2, 1), tp.Transformer(head_dim=1, positions=3, mlp=None, tied=True, train_embedding_readout=True)
    run = tp.train(net, data, tp.SGD(0.3), tp.DepthScaling(), 2, method=tp.methods.Particles(samples=1024))
    assert np.abs(run.outputs[0] - data.inputs[0]).max() < 1e-10 < 1e-2 < np.abs(run.outputs[1] - data.inputs[1]).max()


def test_a_tied_model_of_text_embeds_its_whole_vocabulary() -> None:
    text = tp.tasks.text(steps=2, batch=1, positions=3)
    net = tp.Transformer(head_dim=2, positions=3, mlp=None, tied=True, train_embedding_readout=True)
    problem = tp.Problem(net, text, tp.Adam(0.05, eps=1e-6), tp.DepthScaling(), 1, 16)
    assert problem.task.d_in == problem.task.d_out == len(set(text.inputs.ravel()) | set(text.targets.ravel()))
    assert problem.task.d_in > text.sequences().d_in
    assert np.all(np.isfinite(tp.train(problem, method="dense").outputs))


def test_ends_that_cannot_be_one_are_refused() -> None:
    net, opt = tp.Transformer(positions=3, tied=True, train_embedding_readout=True), tp.SGD(0.1)
    other = tp.Sequences(np.ones((1, 1, 3, 2)), np.ones((1, 1, 3, 1)))
    with pytest.raises(ValueError, match="tied: got True with 2 inputs and 1 outputs.* expected"):
        tp.Problem(net, other, opt, tp.DepthScaling(), 2)
    for scale, word in ((tp.Parametrization("SP"), "powers of n"),
                        (tp.Parametrization(depth={"alpha": 0.5, "gamma": 0.5, "V": 1}), "update exponents")):
        with pytest.raises(ValueError, match=f"scale: .* tied=True.*{word}.* expected"):
            tp.Problem(net, drawn(), opt, scale, 2, 8)
        with pytest.raises(ValueError, match="(scale|width): got .*"):
            tp.program(net, opt, scale, True, 2, 2)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [4, tp.oo])
def test_limits_are_those_of_wide_networks(depth: object) -> None:
    data, opt, scale = drawn(3, 1), tp.SGD(0.1), tp.DepthScaling()
    net = tp.Transformer(head_dim=2, positions=3, mlp=None, tied=True, train_embedding_readout=True)
    if depth is tp.oo:
        wide = tp.train(net, data, opt, scale, tp.oo, method=tp.methods.CommonDraws(tolerance=0.02, budget=2e7))
    else:
        wide = tp.train(net, data, opt, scale, depth, method=tp.methods.Particles(samples=8192))

    def many(width: int, depth: int) -> np.ndarray:
        return np.array([tp.train(net, data, opt, scale, depth, width, method="dense", seed=seed).outputs
                         for seed in range(SEEDS)])

    layers = 32 if depth is tp.oo else depth
    outputs = 2 * many(256, layers) - many(128, layers)  # extrapolated in 1/n
    if depth is tp.oo:  # and in 1/L: of a seed, networks of all depths have one read-in, which makes most of the noise
        outputs += many(128, layers) - many(128, layers // 2)
    error = np.hypot(outputs.std(axis=0, ddof=1) / np.sqrt(SEEDS), wide.error_estimate / 3)
    off = np.abs(outputs.mean(axis=0) - wide.outputs) / error
    assert np.max(error) < 0.04 and np.max(off) < 4 and np.sqrt(np.mean(off**2)) < 1.5
    assert np.max(np.abs(wide.outputs - data.inputs)[1:]) > 0.5  # that of networks that are not trained is 0
