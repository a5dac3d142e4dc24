"""Powers of batch size and steps in drift and noise, beside linear networks in plain NumPy that are trained on fresh
samples: 20 drawn sweeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp

LARGE = 1000.0  # the growing variable: powers are logarithms to this base
SHARE = 0.25    # of the weights, where they decay
RATE = 1e-5  # so small that outputs stay far from their targets


def polar(g: np.ndarray) -> np.ndarray:
    u, values, v = np.linalg.svd(g, full_matrices=False)
    return (u * (values > 1e-9 * values[:, :1])[:, None, :]) @ v


class Adam:
    """Without momentum; second moments of a few steps."""

    def __init__(self) -> None:
        self.second, self.share = 0.0, 0.0

    def __call__(self, g: np.ndarray) -> np.ndarray:
        self.second, self.share = 0.7 * self.second + 0.3 * g**2, 0.7 * self.share + 0.3
        return g / np.sqrt(self.second / self.share)


OPTIMIZERS: dict[str, tuple[type, Callable[[], Callable[[np.ndarray], np.ndarray]]]] = {
    "sgd": (tp.SGD, lambda: lambda g: g), "signsgd": (tp.SignSGD, lambda: np.sign), "adam": (tp.Adam, Adam),
    "normalizedsgd": (tp.NormalizedSGD, lambda: lambda g: g / np.linalg.norm(g, axis=(1, 2), keepdims=True)),
    "muon": (tp.Muon, lambda: polar)}


@dataclass(frozen=True)
class Sweep:
    """Two batch sizes and two numbers of steps of one optimizer."""

    name: str
    data: str
    decays: bool
    batches: tuple[int, int]
    steps: tuple[int, int]

    @property
    def width(self) -> int:
        return 8 if self.data == "fixed" else 12 if self.name != "muon" or self.batches[1] > 32 else 32

    @property
    def sample(self) -> float:
        """The size of one sample's gradient."""
        return 1.0 if self.data == "fixed" else float(self.width)

    @property
    def signal(self) -> float:
        """The teacher's one singular value, well below those of a batch's noise, which is 1 in every output."""
        n, batch = self.width, self.batches[1]
        if self.data == "fixed" or self.name != "muon":
            return 0.3 * self.sample / self.batches[1] ** 0.5
        return 0.2 * (n / batch if batch < n else (n / batch) ** 0.5)

    def trained(self, batch: int, steps: int, rng: np.random.Generator) -> tuple[float, float]:
        """Drift of outputs along the teacher, and the size of all else, after ``steps`` steps from 0.

        "width": f = W x, Gaussian x; "fixed": f = V W E u, of two inputs u and two outputs.
        """
        n, direction = self.width, OPTIMIZERS[self.name][1]()
        e, v = np.eye(n), np.eye(n)
        if self.data == "fixed":  # of one network at all corners
            e, v = np.linalg.qr(np.random.default_rng(n).normal(size=(2, n, 2)))[0] * n**0.5
        one = np.ones(e.shape[1]) / e.shape[1] ** 0.5  # a teacher whose entries are all as large
        replicas = 4000 if self.data == "fixed" else 500
        w = np.zeros((replicas, n, n))
        for _ in range(steps):
            u = rng.normal(size=(replicas, batch, e.shape[1]))
            error = u @ (v.T @ w @ e / (1 if self.data == "width" else n)).swapaxes(1, 2)
            error -= rng.normal(size=error.shape)
            error -= self.signal * (u @ one)[..., None] * one
            gradient = v @ (error.swapaxes(1, 2) @ u) @ e.T / batch
            w = (1 - SHARE if self.decays else 1) * w - RATE * direction(gradient)
        seen = v.T @ w @ e
        drift = (seen @ one @ one).mean()
        return float(drift), float(np.sqrt(((seen - drift * np.outer(one, one)) ** 2).sum((1, 2)).mean()))

    def expected(self, batch: int, steps: int) -> tuple[float, float]:
        """Those of the evaluator, as powers of LARGE."""
        kind = OPTIMIZERS[self.name][0]
        opt = kind(weight_decay=0.1, **({"decoupled": True} if kind is tp.SGD else {})) if self.decays else kind()
        found = tp.classify(1, 1, opt=opt, steps=sp.Symbol("t"), data=self.data).horizon
        logs = {"b": batch, "t": steps, "n": self.width, "s": self.signal / self.sample, "w": SHARE}
        at = found.at(**{str(one): float(np.log(logs[str(one)]) / np.log(LARGE)) for one in found.parameters})
        assert "below the critical batch" in at.name
        assert ("forgetting" if self.decays else "training") in at.name
        return float(at.drift), float(at.noise)

    def slopes(self, found: list[list[tuple[float, float]]]) -> np.ndarray:
        """Of drift and noise in the batch size, then in the steps, from logarithms at the four corners."""
        corners = np.array(found)
        by_batch = (corners[1] - corners[0]).mean(0) / np.log(self.batches[1] / self.batches[0])
        by_steps = (corners[:, 1] - corners[:, 0]).mean(0) / np.log(self.steps[1] / self.steps[0])
        return np.concatenate([by_batch, by_steps])


def drawn(seed: int) -> Sweep:
    rng = np.random.default_rng(seed)
    name, data = list(OPTIMIZERS)[seed % 5], ("fixed", "width")[seed // 5 % 2]
    decays = seed >= 10 and name != "signsgd"  # which has none
    if data == "width" and (name != "muon" or rng.integers(2)):
        batches = [(2, 8), (2, 16), (3, 12)][rng.integers(3)] if name == "muon" else (8, 48)
    elif data == "width":
        batches = [(48, 192), (60, 300)][rng.integers(2)]
    else:
        batches = [(8, 32), (12, 48)][rng.integers(2)]
    first = int(rng.integers(14, 20))
    return Sweep(name, data, decays, batches, (first, 4 * first))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_drawn_sweeps(seed: int) -> None:
    one, rng = drawn(seed), np.random.default_rng(100 + seed)
    real = one.slopes([[tuple(np.log(one.trained(b, t, rng))) for t in one.steps] for b in one.batches])
    said = one.slopes([[tuple(np.log(LARGE) * np.array(one.expected(b, t))) for t in one.steps] for b in one.batches])
    assert np.abs(real - said).max() < 0.12, (one, real.round(3), said.round(3))
