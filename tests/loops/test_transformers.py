"""Transformers whose layers are visited several times, trained beside one written by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import tpcalc as tp

HEADS, DIM, LAYERS, STEP = 2, 2, 2, 1e-30
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class PlainTransformer:
    """Causal attention and a tanh MLP, each behind a root mean square; gradients by complex steps."""

    visits: int
    order: str
    inject: float
    alpha: float

    def outputs(self, w: Arrays, xi: np.ndarray) -> np.ndarray:
        """f at every position, of inputs (positions,)."""
        start = x = xi[:, None] * w["U"]
        cycles = self.order == "cycle"
        for outer in range(self.visits if cycles else LAYERS):
            x = x + self.inject / self.visits * start if cycles else x
            for inner in range(LAYERS if cycles else self.visits):
                layer = inner if cycles else outer
                x = self.added(x, self.attention(w, layer, normed(x)))
                x = self.added(x, np.tanh(normed(x) @ w["W1"][layer].T) @ w["W2"][layer].T)
        return x @ w["nV"] / len(w["U"])

    def added(self, x: np.ndarray, branch: np.ndarray) -> np.ndarray:
        return x + LAYERS**-self.alpha / self.visits * branch

    @staticmethod
    def attention(w: Arrays, layer: int, y: np.ndarray) -> np.ndarray:
        q, k, v = ((y @ w[name][layer].T).reshape(len(y), HEADS, DIM) for name in ("Wq", "Wk", "Wv"))
        mixed = np.zeros(v.shape, np.result_type(q, k, v))
        for p in range(len(y)):
            weights = np.exp(np.einsum("hd,mhd->hm", q[p], k[:p + 1]) / DIM**0.5)
            mixed[p] = np.einsum("hm,mhd->hd", weights / weights.sum(axis=1, keepdims=True), v[:p + 1])
        return mixed.reshape(len(y), -1) @ w["Wo"][layer].T

    def gradient(self, w: Arrays, name: str, xi: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Of half the squared errors of all positions."""
        found = np.zeros_like(w[name])
        errors = self.outputs(w, xi) - y
        for entry in np.ndindex(found.shape):
            moved = w[name].astype(complex)
            moved[entry] += STEP * 1j
            found[entry] = errors @ self.outputs({**w, name: moved}, xi).imag / STEP
        return found


def normed(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt(np.mean(x * x, axis=1, keepdims=True))


def polar(matrix: np.ndarray) -> np.ndarray:
    u, values, v = np.linalg.svd(matrix)
    some = values > 1e-9 * values[0]
    return u[:, some] @ v[some]


def directions(opt: tp.SGD | tp.Adam | tp.Muon, memory: Arrays, unit: np.ndarray, weight: np.ndarray, times: float
               ) -> np.ndarray:
    """What a weight moves along, of a gradient of order one; times: the rate's factor, by which a coupled decay is
    divided."""
    t = memory["t"] = memory.get("t", 0) + 1
    if isinstance(opt, tp.SGD):
        asked = unit + opt.weight_decay * weight / times
        memory["m"] = opt.momentum * memory.get("m", 0) + asked
        return memory["m"]
    if isinstance(opt, tp.Muon):
        memory["m"] = opt.momentum * memory.get("m", 0) + unit
        return np.stack([polar(one) for one in memory["m"]])
    memory["m"] = opt.beta1 * memory.get("m", 0) + (1 - opt.beta1) * unit
    memory["v"] = opt.beta2 * memory.get("v", 0) + (1 - opt.beta2) * unit**2
    return memory["m"] / (1 - opt.beta1**t) / (np.sqrt(memory["v"] / (1 - opt.beta2**t)) + opt.eps)


@pytest.mark.parametrize("how", [{"visits": 2, "inject": 0.5}, {"visits": 3, "order": "block"}], ids=str)
@pytest.mark.parametrize("opt, ends", [
    (tp.SGD(0.3, momentum=0.4, weight_decay=0.1), True), (tp.Adam(0.1, 0.8, 0.9, 0.05, weight_decay=0.2), True),
    (tp.Muon(0.2, momentum=0.5), False)], ids=str)
def test_a_trained_transformer_is_the_one_written_by_hand(how: dict, opt: tp.SGD | tp.Adam | tp.Muon, ends: bool
                                                          ) -> None:
    rng, alpha, gamma = np.random.default_rng(0), 0.75, 0.25
    inputs, targets = rng.normal(size=(3, 3)), rng.normal(size=(3, 3))
    net = tp.Transformer(heads=HEADS, head_dim=DIM, positions=3, phi="tanh", train_embedding_readout=ends, **how)
    task = tp.Sequences(inputs[:, None, :, None], targets[:, None, :, None])
    run = tp.train(net, task, opt, tp.DepthScaling(alpha, gamma), depth=LAYERS, method=tp.methods.Dense(seed=3))
    plain = PlainTransformer(how["visits"], how.get("order", "cycle"), how.get("inject", 0.0), alpha)
    w, n = dict(run.initial_weights()), HEADS * DIM
    memory: dict[str, Arrays] = {name: {} for name in w if ends or name not in ("U", "nV")}
    for step, (xi, y) in enumerate(zip(inputs, targets)):
        assert np.allclose(run.outputs[step].ravel(), plain.outputs(w, xi), rtol=1e-9, atol=1e-11)
        new = dict(w)
        for name, kept in memory.items():
            end = name in ("U", "nV")
            times = 1.0 if end else LAYERS**-gamma / (1 if isinstance(opt, tp.Muon) else n)
            unit = n * (1 if end else LAYERS**alpha) * plain.gradient(w, name, xi, y)
            moved = directions(opt, kept, unit, w[name], times)
            decay = 0.0 if isinstance(opt, tp.SGD) else opt.lr * opt.weight_decay
            new[name] = (1 - decay) * w[name] - opt.lr * times * moved
        w = new
    assert np.max(np.abs(run.outputs[2] - run.outputs[0])) > 0.01
