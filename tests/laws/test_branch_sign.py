"""A branch multiplier of either sign: training goes downhill, as a network does whose gradients are differences."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.closeness import assert_close
from support.interpreted import interpreted
from tpcalc.interpreters import run_program
from tpcalc.programs.blocks import Branch
from tpcalc.programs.language import MatVec

STEPS, DEPTH, WIDTH = 3, 2, 6
INPUTS, TARGETS = np.array([1.0, 0.8, -0.6]), np.array([1.0, -0.7, 0.5])
TASK = tp.Task(INPUTS, TARGETS)
DOWN = tp.DepthScaling(0.5, 0.25, branch=-0.7, base_depth=3)
UP = tp.DepthScaling(0.5, 0.25, branch=0.7, base_depth=3)
Weights = dict[str, np.ndarray]
Block = Callable[[Weights, int, np.ndarray], np.ndarray]


def centered(z: np.ndarray) -> np.ndarray:
    return z - z.mean()


def relu_then_tanh(branch: Branch) -> sp.Expr:
    """A block of a user's own, with one matrix twice."""
    h = branch.let("h", MatVec(branch.weights("A"), branch.x))
    z = branch.let("z", branch.phi(h))
    return MatVec(branch.weights("A"), z)


BLOCKS: dict[str, tuple[tp.ResNet, Block]] = {
    "linear": (tp.ResNet(), lambda w, l, x: w["W"][l] @ x),
    "post_nonlin": (tp.ResNet("gelu"), lambda w, l, x: centered(_gelu(w["W"][l] @ x))),
    "pre_nonlin": (tp.ResNet("tanh", "pre_nonlin"), lambda w, l, x: w["W"][l] @ np.tanh(x)),
    "mlp": (tp.ResNet("tanh", "mlp"), lambda w, l, x: w["W2"][l] @ np.tanh(w["W1"][l] @ x)),
    "glu": (tp.ResNet("tanh", "glu"), lambda w, l, x: w["W3"][l] @ (np.tanh(w["W1"][l] @ x) * (w["W2"][l] @ x))),
    "own": (tp.ResNet("tanh", relu_then_tanh), lambda w, l, x: w["A"][l] @ np.tanh(w["A"][l] @ x)),
}


def _gelu(h: np.ndarray) -> np.ndarray:
    from scipy.special import erf
    return np.asarray(h * (1 + erf(h / np.sqrt(2))) / 2)


def by_differences(block: Block, U: np.ndarray, nV: np.ndarray, weights: Weights, scale: tp.DepthScaling,
                   move: Callable[[int, Weights], Weights]) -> np.ndarray:
    """Outputs of a network x + eps block(x), trained along the gradient of its loss, by central differences, times
    n / |eps|: what it is in units of order one. move: from all gradients so far, by step, to the change in lr g / n."""
    eps, g = scale.multiplier(DEPTH), scale.update_size(DEPTH)
    weights = {name: w.copy() for name, w in weights.items()}

    def output(w: Weights, xi: float) -> float:
        x = xi * U
        for l in range(DEPTH):
            x = x + eps * block(w, l, x)
        return float(np.mean(nV * x))

    found = []
    for t, (xi, y) in enumerate(zip(INPUTS, TARGETS)):
        found.append(output(weights, xi))
        gradients = {}
        for name, w in weights.items():
            gradients[name] = np.zeros_like(w)
            for location in np.ndindex(*w.shape):
                at = w[location]
                losses = []
                for w[location] in (at + 1e-5, at - 1e-5):
                    losses.append(0.5 * (output(weights, xi) - y)**2)
                w[location] = at
                gradients[name][location] = (losses[0] - losses[1]) / 2e-5 * WIDTH / abs(eps)
        for name, change in move(t, gradients).items():
            weights[name] -= g / WIDTH * change
    return np.array(found)


class Moves:
    """Optimizers written again, for gradients of order one."""

    def __init__(self, opt: Any) -> None:
        self.opt, self.history = opt, dict[str, list[np.ndarray]]()

    def __call__(self, t: int, gradients: Weights) -> Weights:
        for name, one in gradients.items():
            self.history.setdefault(name, []).append(one)
        return {name: self.direction(np.array(known)) * float(self.opt.lr) for name, known in self.history.items()}

    def direction(self, known: np.ndarray) -> np.ndarray:
        t, opt = len(known) - 1, self.opt
        if isinstance(opt, tp.SignSGD):
            return np.sign(known[-1])
        if isinstance(opt, tp.Adam):
            first, second = (np.tensordot((1 - b) / (1 - b**(t + 1)) * b**np.arange(t, -1, -1.0), power, 1)
                             for b, power in ((opt.beta1, known), (opt.beta2, known**2)))
            return np.asarray(first / (np.sqrt(second) + opt.eps))
        return np.asarray(np.tensordot(opt.momentum**np.arange(t, -1, -1.0), known, 1))


@pytest.mark.parametrize("name, opt", [(name, tp.SGD(0.8)) for name in BLOCKS] + [
    (name, opt) for name in ("linear", "mlp") for opt in (
        tp.SGD(0.5, momentum=0.6), tp.SignSGD(0.1), tp.Adam(0.1, eps=0.1))], ids=str)
@pytest.mark.parametrize("scale", [DOWN, UP], ids=["down", "up"])
def test_programs_train_as_a_network_whose_gradients_are_differences(name: str, opt: Any, scale: tp.DepthScaling
                                                                     ) -> None:
    net, block = BLOCKS[name]
    run = run_program(tp.program(net, opt, scale), {"T": STEPS, "L": DEPTH}, {"xi": INPUTS, "y": TARGETS}, WIDTH, 5)
    initial: dict[str, dict[int, np.ndarray]] = {}
    for matrix, entries in run.execution.matrices.items():
        initial.setdefault(matrix.name, {})[int(matrix.indices[1])] = entries
    weights = {key: np.array([layers[l] for l in sorted(layers)]) for key, layers in initial.items()}
    U, nV = (next(v for member, v in run.vectors.items() if member.name == key) for key in ("U", "nV"))
    expected = by_differences(block, U, nV, weights, scale, Moves(opt))
    assert_close(run.series("f"), expected, 1e-6 if isinstance(opt, tp.SGD) else 2e-4)
    assert abs(expected[1] - expected[0]) > 1e-3


def test_a_dense_network_goes_downhill() -> None:
    rng = np.random.default_rng(3)
    U, nV = rng.normal(size=(1, WIDTH))[0], rng.normal(size=(1, WIDTH))[0]
    weights = {"W": rng.standard_normal((DEPTH, WIDTH, WIDTH)) / np.sqrt(WIDTH)}
    expected = by_differences(BLOCKS["linear"][1], U, nV, weights, DOWN, Moves(tp.SGD(0.8)))
    run = tp.train(tp.ResNet(), TASK, tp.SGD(0.8), DOWN, DEPTH, WIDTH, seed=3)
    assert_close(run.outputs.ravel(), expected, 1e-7)


@pytest.mark.parametrize("branch", [-1.0, pytest.param(-0.4, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("net", [tp.ResNet(), tp.ResNet(train_embedding_readout=True)], ids=["frozen", "trained"])
@pytest.mark.parametrize("opt", [tp.SGD(0.6), tp.SGD(0.4, momentum=0.5, weight_decay=0.1)], ids=["plain", "decay"])
def test_a_linear_network_does_not_know_the_sign(branch: float, net: tp.ResNet, opt: tp.SGD) -> None:
    """W -> -W turns one into the other, in law; coefficients over hats of W change their sign."""
    down, up = (tp.DepthScaling(branch=b) for b in (branch, -branch))
    task = tp.Task(np.array([[[1.0]], [[0.8]], [[-0.6]]]), TARGETS[:, None, None], probes=[[0.3]])
    for depth in (3, tp.oo):
        a, b = (tp.train(net, task, opt, scale, depth) for scale in (down, up))
        assert_close(a.outputs, b.outputs, 1e-13)
        assert_close(a.probe_outputs, b.probe_outputs, 1e-13)
        locations = [(t, s, i, j, p, 0.5) for t in (1, 2) for s in (0, 1) for i in (0, 1) for j in (0, 1)
                     for p in (.3, .8)]
        found = np.array([[run.gamma(*location) for location in locations] for run in (a, b)])
        assert_close(found[0], -found[1], 1e-12)
        assert np.sum(np.abs(found[0]) > 1e-3) > 10
    for method in ("coefficients", "reflection"):
        a = tp.train(net, task, opt, down, 3, method=method)
        b = tp.train(net, task, opt, up, 3, method="coefficients")
        assert_close(a.outputs, b.outputs, 1e-13)
        assert_close(a.gamma(2, 1, 0, 0, 1.0, 0.5), -b.gamma(2, 1, 0, 0, 1.0, 0.5), 1e-12)
    if net.train_embedding_readout or opt.momentum:
        return
    kernel = interpreted(tp.recursion(tp.kets(tp.program(net, opt, down))))
    assert_close(kernel(3, INPUTS, TARGETS).outputs, a.outputs.ravel(), 1e-12)


def test_infinite_depth_is_the_limit_of_growing_depth() -> None:
    found = tp.convergence(tp.ResNet(), TASK, tp.SGD(0.8), tp.DepthScaling(branch=-1), [64, 128, 256])
    assert found.distance is not None and found.distance[-1] < 0.02 < abs(found.outputs[-1, 1]).max()
    assert found.limit_order is not None and abs(found.limit_order.order - 1) < 0.1


def test_sampled_readings_agree_below_zero() -> None:
    """One block that is not odd: -relu is not relu of anything."""
    net, scale = tp.ResNet("relu"), tp.DepthScaling(branch=-1)
    limit = tp.train(net, TASK, tp.SGD(0.8), scale, 4, samples=4096, batches=8)
    seeds = np.array([tp.train(net, TASK, tp.SGD(0.8), scale, 4, width=2048, seed=s).outputs.ravel()
                      for s in range(8)])
    spread = seeds.std(axis=0, ddof=1) / np.sqrt(len(seeds))
    assert np.all(np.abs(seeds.mean(axis=0) - limit.outputs.ravel()) < 5 * spread + 5 * limit.error_estimate)
    assert limit.outputs[1, 0, 0] > 0.3  # toward the target 1 of the step before


def test_nonlinear_networks_of_infinite_depth_do_not_know_the_sign() -> None:
    """The stream stays Gaussian, and the block enters through products of two of its outputs."""
    task = tp.Task(INPUTS[:2], TARGETS[:2])
    a, b = (tp.train(tp.ResNet("relu"), task, tp.SGD(0.8), tp.DepthScaling(branch=s), tp.oo) for s in (-1, 1))
    assert_close(a.outputs, b.outputs, 1e-12)
    finite = tp.train(tp.ResNet("relu"), task, tp.SGD(0.8), tp.DepthScaling(branch=-1), 64, samples=2048)
    assert np.abs(finite.outputs - a.outputs).max() < 0.25 < a.outputs[1, 0, 0]
