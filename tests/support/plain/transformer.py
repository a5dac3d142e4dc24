"""A transformer as anyone would write it: plain arrays, head by head, with its gradients by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import numpy as np
from scipy.special import erf

import tpcalc as tp

Arrays = dict[str, np.ndarray]
Move = Callable[[int, np.ndarray, list], np.ndarray]  # step, a matrix, its gradients so far: the matrix after it


@dataclass(frozen=True)
class PlainTransformer:
    """head_dim and the other options as tp.Transformer has them, with gelu; weights: layer matrices (L, n, n), of keys
    and values (L, n / queries_per_key, n), U (n, d_in), nV (n, d_out) unless tied."""

    head_dim: int
    eps: float
    norm: str | None = "rms"
    mlp: str | None = "mlp"
    causal: bool = True
    scale_power: float = 0.5
    qk_norm: bool = False
    queries_per_key: int = 1
    tied: bool = False
    rotation: float | None = None
    score_table: np.ndarray | None = None

    def forward(self, w: Arrays, xi: np.ndarray) -> tuple[np.ndarray, list]:
        """Outputs (P, d_out) of one sequence (P, d_in), and what the way back needs."""
        x, kept = xi @ w["U"].T, []
        for layer in range(len(w["Wq"])):
            own = {name: value[layer] for name, value in w.items() if name.startswith("W")}
            out, back = self.attention(own, x)
            y, back_mlp = x + self.eps * out, None
            if self.mlp:
                out, back_mlp = self.feedforward(own, y)
            x = y + self.eps * out * bool(self.mlp)
            kept.append((back, back_mlp))
        return x @ self.read_out(w) / x.shape[1], [*kept, x]

    def read_out(self, w: Arrays) -> np.ndarray:
        return w["U" if self.tied else "nV"]

    def gradients(self, w: Arrays, xi: np.ndarray, chi: np.ndarray) -> Arrays:
        """Derivatives in all weights of sum chi . f."""
        *kept, x = self.forward(w, xi)[1]
        n = x.shape[1]
        found = {name: np.zeros_like(value) for name, value in w.items()}
        d = chi @ self.read_out(w).T / n
        for layer in reversed(range(len(w["Wq"]))):
            for back in reversed(kept[layer]):
                if back is not None:
                    change, own = back(self.eps * d)
                    d = d + change
                    for name, value in own.items():
                        found[name][layer] += value
        found["U"] = d.T @ xi
        found["U" if self.tied else "nV"] += x.T @ chi / n
        return found

    def normed(self, x: np.ndarray) -> tuple[np.ndarray, object]:
        if self.norm is None:
            return x, lambda d: d
        if self.norm == "rms":
            return divided(x)
        unit, back = divided(less_mean(x))
        return unit, lambda d: less_mean(back(d))

    def attention(self, w: Arrays, x: np.ndarray) -> tuple[np.ndarray, object]:
        n, back_norm = self.normed(x)
        heads = (len(x), -1, self.head_dim)
        q, k, v = (np.reshape(n @ w[f"W{name}"].T, heads) for name in "qkv")
        k, v = (np.repeat(one, self.queries_per_key, axis=1) for one in (k, v))
        back_q = back_k = lambda d: d  # noqa: E731
        if self.qk_norm:
            (q, back_q), (k, back_k) = divided(q), divided(k)
        turn = self.turns(len(x))
        q, k = (np.einsum("pij,phj->phi", turn, one) for one in (q, k))
        score = np.einsum("phd,mhd->hpm", q, k) / self.head_dim**self.scale_power
        if self.score_table is not None:
            score = score + np.tile(self.score_table, (len(score) // len(self.score_table), 1, 1))
        if self.causal:
            score = np.where(np.tri(len(x), dtype=bool), score, -np.inf)
        share = np.exp(score - score.max(axis=2, keepdims=True))
        share /= share.sum(axis=2, keepdims=True)
        mixed = np.einsum("hpm,mhd->phd", share, v).reshape(len(x), -1)

        def back(d: np.ndarray) -> tuple[np.ndarray, Arrays]:
            found = {"Wo": d.T @ mixed}
            dmixed = (d @ w["Wo"]).reshape(heads)
            dshare = np.einsum("phd,mhd->hpm", dmixed, v)
            dscore = share * (dshare - (dshare * share).sum(axis=2, keepdims=True)) / self.head_dim**self.scale_power
            dq, dk = np.einsum("hpm,mhd->phd", dscore, k), np.einsum("hpm,phd->mhd", dscore, q)
            dq, dk = (np.einsum("pij,phi->phj", turn, one) for one in (dq, dk))
            into = {"q": back_q(dq), "k": back_k(dk), "v": np.einsum("hpm,phd->mhd", share, dmixed)}
            total = np.zeros_like(n)
            for name, value in into.items():
                if name != "q":
                    value = value.reshape(len(x), -1, self.queries_per_key, self.head_dim).sum(axis=2)
                flat = value.reshape(len(x), -1)
                found[f"W{name}"] = flat.T @ n
                total += flat @ w[f"W{name}"]
            return back_norm(total), found
        return mixed @ w["Wo"].T, back

    def turns(self, positions: int) -> np.ndarray:
        """What queries and keys of a head are multiplied by at every position, (positions, d, d): rotations of pairs of
        coordinates half a head apart."""
        d, found = self.head_dim, np.zeros((positions, self.head_dim, self.head_dim))
        for p in range(positions):
            found[p] = np.eye(d)
            for j in range(d // 2 if self.rotation else 0):
                angle = p / self.rotation ** (2 * j / d)
                found[p, j, j] = found[p, j + d // 2, j + d // 2] = np.cos(angle)
                found[p, j, j + d // 2], found[p, j + d // 2, j] = -np.sin(angle), np.sin(angle)
        return found

    def feedforward(self, w: Arrays, x: np.ndarray) -> tuple[np.ndarray, object]:
        n, back_norm = self.normed(x)
        h = n @ w["W1"].T
        gate = (1 + erf(h / np.sqrt(2))) / 2
        slope = gate + h * np.exp(-h**2 / 2) / np.sqrt(2 * np.pi)
        side = n @ w["W2"].T if self.mlp == "glu" else np.ones_like(h)
        last = "W3" if self.mlp == "glu" else "W2"
        z = h * gate * side

        def back(d: np.ndarray) -> tuple[np.ndarray, Arrays]:
            dz = d @ w[last]
            dh = dz * side * slope
            found, total = {last: d.T @ z, "W1": dh.T @ n}, dh @ w["W1"]
            if self.mlp == "glu":
                dside = dz * h * gate
                found["W2"], total = dside.T @ n, total + dside @ w["W2"]
            return back_norm(total), found
        return z @ w[last].T, back

    def trained(self, w: Arrays, inputs: np.ndarray, targets: np.ndarray, chi_of: object, rate: float,
                ends: bool) -> np.ndarray:
        """Outputs at every step, shape of targets, of gradient descent on the mean over the batch; rate: of layer
        matrices; n times 1 for the ends where ``ends``."""
        w, outputs = {name: value.copy() for name, value in w.items()}, []
        n = len(w["U"])
        for xi, y in zip(inputs, targets):
            f = [self.forward(w, one)[0] for one in xi]
            outputs.append(f)
            each = [self.gradients(w, one, chi_of(a, b)) for one, a, b in zip(xi, f, y)]
            for name in w:
                if name.startswith("W") or ends:
                    size = rate if name.startswith("W") else n * ends
                    w[name] -= size * np.mean([g[name] for g in each], axis=0)
        return np.array(outputs)

    def moved(self, w: Arrays, task: tp.Sequences, move: Move) -> np.ndarray:
        """Outputs at every step where layer matrices move one by one, by the gradients that each has had so far."""
        names, outputs = [name for name in w if name.startswith("W")], []
        seen: dict = {(name, layer): [] for name in names for layer in range(len(w["Wq"]))}
        for step, (xi, y) in enumerate(zip(task.inputs, task.targets)):
            f = [self.forward(w, one)[0] for one in xi]
            outputs.append(f)
            each = [self.gradients(w, one, task.loss.derivative(a, b)) for one, a, b in zip(xi, f, y)]
            for (name, layer), gradients in seen.items():
                gradients.append(np.mean([g[name][layer] for g in each], axis=0))
            w = {**w, **{name: np.array([move(step, one, seen[name, layer]) for layer, one in enumerate(w[name])])
                         for name in names}}
        return np.array(outputs)


def less_mean(x: np.ndarray) -> np.ndarray:
    """Rows less their mean along the last axis, a projection that is its own adjoint."""
    return x - np.mean(x, axis=-1, keepdims=True)


def divided(x: np.ndarray) -> tuple[np.ndarray, object]:
    """Rows over their root mean square along the last axis."""
    r = np.sqrt(np.mean(x**2, axis=-1, keepdims=True))
    return x / r, lambda d: d / r - x * np.mean(d * x, axis=-1, keepdims=True) / r**3
