"""Clipping by the norm of all gradients: real networks against plain arrays, limits against wide ones, refusals."""

from __future__ import annotations

from typing import Callable

import numpy as np
import pytest

import tpcalc as tp
from support.plain.transformer import PlainTransformer

LR, NORM, ALPHA, GAMMA, DEPTH, WIDTH = 0.3, 0.8, 0.7, 0.4, 2, 8
OPTIONS = dict(head_dim=2, norm="rms", mlp="mlp", causal=True, scale_power=0.5)
SCALE = tp.DepthScaling(ALPHA, GAMMA)


def drawn(steps: int = 3, batch: int = 2, positions: int = 3) -> tp.Sequences:
    rng = np.random.default_rng(7)
    return tp.Sequences(rng.standard_normal((steps, batch, positions, 2)),
                        3 * rng.standard_normal((steps, batch, positions, 1)))


def clip_grad_norm(gradients: dict, max_norm: float) -> float:
    """PyTorch's, over matrices: what gradients are multiplied by."""
    total = np.sqrt(sum(np.sum(g**2) for name, g in gradients.items() if name.startswith("W")))
    return min(1.0, max_norm / total)


def plain_training(data: tp.Sequences, weights: dict, direction: Callable, norm: float) -> tuple[np.ndarray, list]:
    """Outputs at every step, and by what gradients were multiplied; all weights move along ``direction``, a function of
    all their gradients so far."""
    eps = DEPTH**-ALPHA
    plain = PlainTransformer(eps=eps, **OPTIONS)
    w, outputs, clips = {name: value.copy() for name, value in weights.items()}, [], []
    seen: dict[str, list] = {name: [] for name in w}
    for xi, y in zip(data.inputs, data.targets):
        f = [plain.forward(w, one)[0] for one in xi]
        outputs.append(f)
        each = [plain.gradients(w, one, data.loss.derivative(a, b)) for one, a, b in zip(xi, f, y)]
        mean = {name: np.mean([g[name] for g in each], axis=0) for name in w}
        clips.append(clip_grad_norm(mean, norm * eps * np.sqrt(DEPTH)))
        for name in w:
            matrix = name.startswith("W")
            seen[name].append(clips[-1] * mean[name] * WIDTH / (eps if matrix else 1))
            w[name] = w[name] - LR * direction(seen[name]) * (DEPTH**-GAMMA / WIDTH if matrix else 1)
    return np.array(outputs), clips


def adam(seen: list) -> np.ndarray:
    first = second = 0.0
    for g in seen:
        first, second = 0.9 * first + 0.1 * g, 0.99 * second + 0.01 * g**2
    steps = len(seen)
    return first / (1 - 0.9**steps) / (np.sqrt(second / (1 - 0.99**steps)) + 1e-3)


@pytest.mark.parametrize("opt, direction", [
    (tp.SGD(LR), lambda seen: seen[-1]),
    (tp.SGD(LR, momentum=0.5), lambda seen: sum(0.5**k * g for k, g in enumerate(reversed(seen)))),
    (tp.Adam(LR, 0.9, 0.99, 1e-3), adam)], ids=["SGD", "momentum", "Adam"])
def test_real_networks_are_plain_arrays(opt: object, direction: Callable) -> None:
    data = drawn(batch=1 if isinstance(opt, tp.Adam) else 2)
    run = tp.train(tp.Transformer(positions=3, train_embedding_readout=True, **OPTIONS), data, tp.Clipped(opt, NORM),
                   SCALE, DEPTH,
                   width=WIDTH, method="dense", seed=1)
    given = run.initial_weights()
    weights = {**given, "U": given["U"].reshape(2, WIDTH).T, "nV": given["nV"].reshape(1, WIDTH).T}
    found, clips = plain_training(data, weights, direction, NORM)
    assert np.abs(found - run.outputs).max() < 1e-10 * np.abs(found).max()
    assert min(clips) < 0.5
    unclipped = plain_training(data, weights, direction, 1e9)[0]
    assert np.abs(unclipped - found).max() > 1e-3 * np.abs(found).max()


def test_a_norm_that_is_never_reached_changes_nothing() -> None:
    net, task = tp.ResNet("tanh", "mlp"), tp.Task([[[1.0], [0.4]], [[0.5], [-1]]], [[1, 0], [-0.7, 0.3]])
    how = dict(scale=SCALE, depth=3, width=16, method="dense")
    runs = [tp.train(net, task, opt, **how).outputs for opt in (tp.SGD(LR), tp.Clipped(tp.SGD(LR), 100.0))]
    assert np.abs(runs[0] - runs[1]).max() < 1e-13


def test_a_gradient_of_zero_is_no_divergence() -> None:
    net, task = tp.ResNet(), tp.Task([0.0, 1.0], [0.0, 1.0])
    run = tp.train(net, task, tp.Clipped(tp.SGD(LR), 1.0), SCALE, 2, width=8, method="dense")
    assert np.all(np.isfinite(run.outputs))


def test_only_readings_that_read_the_program_take_it() -> None:
    """A reading that knows an optimizer by its class or its memory would lose the clip in silence."""
    task = tp.Task([1.0, 0.5], [1.0, -0.5])
    opt = tp.Clipped(tp.SGD(LR), 1.0)
    taken = {"finite": {"particles"}, "deep": {"common_draws"}, "wide": {"dense", "conditioned"}}
    for name, depth, width in (("finite", 2, tp.oo), ("deep", tp.oo, tp.oo), ("wide", 2, 8)):
        for net in (tp.ResNet(), tp.ResNet("tanh", train_embedding_readout=True))[:1 if name == "deep" else 2]:
            problem = tp.Problem(net, task, opt, tp.DepthScaling(), depth, width)
            rows = tp.methods.table(problem).rows
            assert {row.name for row in rows if row.refusal is None} == taken[name], (name, net)
    run = tp.train(tp.ResNet(), task, opt, tp.DepthScaling(), 2, method=tp.methods.Particles(samples=256))
    for refused in (lambda: tp.audit(-0.5, 0, optimizer=opt), lambda: run.fluctuations,
                    lambda: run.gamma(1, 0, 0, 0, 0.5, 0.5),
                    lambda: tp.studies.cauchy_differences(tp.ResNet(), task, opt, SCALE, (2, 4, 8, 16))):
        with pytest.raises(ValueError):
            refused()


@pytest.mark.parametrize("opt, norm, word", [(tp.Muon(0.1), 1.0, "opt"), (tp.Clipped(tp.SGD(), 1.0), 1.0, "opt"),
                                             ("lamb", 1.0, "opt"), (tp.SGD(), 0, "norm"), (tp.SGD(), np.inf, "norm")])
def test_what_cannot_be_clipped_is_refused(opt: object, norm: float, word: str) -> None:
    with pytest.raises(ValueError, match=f"^{word}: .* expected"):
        tp.Clipped(opt, norm)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("depth", [4, tp.oo])
def test_limits_are_those_of_wide_networks(depth: object) -> None:
    data, opt, scale = drawn(3, 1, 2), tp.Clipped(tp.SGD(0.5), 1.5), tp.DepthScaling()
    net = tp.Transformer(head_dim=2, positions=2, mlp=None)
    deep = tp.methods.CommonDraws(tolerance=0.05, budget=2e6, samples=1024, coarsest=4)
    method = deep if depth is tp.oo else tp.methods.Particles(samples=8192)
    wide = tp.train(net, data, opt, scale, depth, method=method)
    outputs = {n: np.array([tp.train(net, data, opt, scale, 32 if depth is tp.oo else depth, n, method="dense",
                                     seed=seed).outputs for seed in range(32)]) for n in (128, 256)}
    mean = 2 * outputs[256].mean(axis=0) - outputs[128].mean(axis=0)  # extrapolated in 1/n
    error = np.sqrt(sum(k * np.var(outputs[n], axis=0) / 31 for n, k in ((256, 4), (128, 1))))
    assert np.all(np.abs(mean - wide.outputs) < 4 * np.hypot(error, wide.error_estimate / 3)
                  + (0.05 if depth is tp.oo else 0.0))
    assert np.max(error) < 0.2
    unclipped = outputs[256].mean(axis=0) - np.mean([tp.train(
        net, data, opt.opt, scale, 4, 256, method="dense", seed=seed).outputs for seed in range(32)], axis=0)
    assert np.max(np.abs(unclipped)) > 0.5


def test_statement_by_statement_is_the_lowered_form() -> None:
    """Two layers and a batch, draw by draw."""
    from reference.conditioned import run_conditioned
    from tpcalc.interpreters.lowered_conditioned import conditioned
    from tpcalc.lowering.nest import lowered_order
    program = tp.program(tp.ResNet("tanh", "mlp"), tp.Clipped(tp.SGD(LR, momentum=0.5), 0.5), SCALE, True, 2)
    what = {"T": 3, "L": 2, "B": 2}, {"xi": drawn(3).inputs[:, :, 0], "y": drawn(3).targets[:, :, 0, 0]}
    one = run_conditioned(lowered_order(program), *what, width=64)
    lowered = conditioned(program, *what, width=64)
    assert np.abs(one.series("f") - lowered.series("f")).max() < 1e-10
    assert np.abs(one.series("clip") - lowered.series("clip")).max() < 1e-10 < 0.9 < 1 / np.min(lowered.series("clip"))


def test_wide_hidden_layers_count_as_whole_matrices() -> None:
    """x + eps W2 tanh(W1 x) with W1 of 3 n rows and W2 of 3 n columns, of entries N(0, 1 / (3 n)), in plain arrays."""
    parts, n, xi, y = 3, 16, np.array([1, 0.8, -0.6]), np.array([3, -2, 1])
    run = tp.train(tp.ResNet("tanh", "mlp", mlp_ratio=parts), tp.Task(xi, y), tp.Clipped(tp.SGD(LR), NORM), SCALE,
                   DEPTH, n, method="dense", seed=2)
    given, eps = run.initial_weights(), DEPTH**-ALPHA
    one, two = (np.stack([given[f"{name}_{k + 1}"] for k in range(parts)], axis=1) for name in ("W1", "W2"))
    w1 = one.reshape(DEPTH, parts * n, n)
    w2 = two.transpose(0, 2, 1, 3).reshape(DEPTH, n, parts * n) / np.sqrt(parts)
    outputs, clips = [], []
    for a, b in zip(xi, y):
        x, hidden = [a * given["U"]], []
        for k in range(DEPTH):
            hidden.append(np.tanh(w1[k] @ x[-1]))
            x.append(x[-1] + eps * w2[k] @ hidden[-1])
        outputs.append(given["nV"] @ x[-1] / n)
        d, gradients = (outputs[-1] - b) * given["nV"], []
        for k in reversed(range(DEPTH)):
            dh = (1 - hidden[k]**2) * (w2[k].T @ d)
            gradients.append((k, np.outer(dh, x[k]) / n, np.outer(d, hidden[k]) / n))
            d = d + eps * w1[k].T @ dh
        size = np.sqrt(sum(np.sum(g**2) for _, *both in gradients for g in both) / DEPTH)
        clips.append(min(1.0, NORM / size))
        for k, g1, g2 in gradients:
            w1[k] -= LR * DEPTH**-GAMMA * clips[-1] * g1
            w2[k] -= LR * DEPTH**-GAMMA * clips[-1] * g2 / parts
    assert run.outputs.ravel() == pytest.approx(np.array(outputs), abs=1e-12) and min(clips) < 0.9
