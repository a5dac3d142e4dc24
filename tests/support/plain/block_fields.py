"""One real residual network whose blocks have several matrices, norms before and functions behind them: its fields, and
what its initial matrices make of them. Nothing of tpcalc but its data."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

import tpcalc as tp

FUNCTIONS = {"tanh": (np.tanh, lambda h: np.cosh(h)**-2.0), "linear": (lambda h: h, np.ones_like),
             "relu": (lambda h: np.maximum(h, 0), lambda h: 1.0 * (h > 0))}


@dataclass
class BlockFields:
    """A network x + eps block(norm(x)) under training; after ``train`` the fields of every step.

    kind: "pre" for W_k phi(... W_1 phi(x)), "mlp" for W_k phi(... W_1 x), "post" for phi(W x) less its mean; weights:
    U, nV of shape (n,), and matrices by name, (L, n, n), in the order in which they act; adam: (beta1, beta2, eps) or
    None; read: the function that the readout acts on.

    f (T, B); h, g: (L + 1, T, B, n), gradients of f times n; z, d, chi, xi: by matrix (L, T, B, n), what it reads, the
    gradient in what it gives over eps, and what the initial matrix makes of both; given: W(t) z.
    """

    kind: str
    phi: str
    norm: str | None
    weights: dict[str, np.ndarray]
    eps: float
    size: float
    rate: float
    decay: float = 0.0
    momentum: float = 0.0
    adam: tuple[float, float, float] | None = None
    read: str = "linear"
    f: np.ndarray = field(default_factory=lambda: np.zeros(0))
    fields: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = [name for name in self.weights if name.startswith("W")]
        self.W = {name: self.weights[name].copy() for name in self.names}
        self.act, self.slope = FUNCTIONS[self.phi]
        self.depth, self.n = self.W[self.names[0]].shape[:2]

    def normed(self, x: np.ndarray) -> np.ndarray:
        if self.norm is None:
            return x
        c = x - x.mean() if self.norm == "layer" else x
        return c / np.sqrt(np.mean(c * c))

    def norm_back(self, x: np.ndarray, d: np.ndarray) -> np.ndarray:
        """The transpose of the norm's Jacobian at x, times d."""
        if self.norm is None:
            return d
        c = x - x.mean() if self.norm == "layer" else x
        s = np.sqrt(np.mean(c * c))
        back = d / s - c * np.mean(c * d) / s**3
        return back - back.mean() if self.norm == "layer" else back

    def forward(self, x: np.ndarray) -> tuple[list[np.ndarray], list[dict[str, np.ndarray]]]:
        xs, inner = [x], []
        for l in range(self.depth):
            z = self.normed(xs[-1])
            z = self.act(z) if self.kind == "pre" else z
            met = {}
            for number, name in enumerate(self.names):
                given = self.W[name][l] @ z
                met["z" + name], met["h" + name] = z, given
                z = self.act(given)
            out = z - z.mean() if self.kind == "post" else given
            xs.append(xs[-1] + self.eps * out)
            inner.append(met)
        return xs, inner

    def output(self, x: np.ndarray) -> float:
        return float(self.weights["nV"] @ FUNCTIONS[self.read][0](x)) / self.n

    def backward(self, xs: list[np.ndarray], inner: list[dict[str, np.ndarray]]) -> list[np.ndarray]:
        """g at all nodes; the gradients within blocks go into ``inner``."""
        g = [FUNCTIONS[self.read][1](xs[-1]) * self.weights["nV"]]
        for l in reversed(range(self.depth)):
            met, d = inner[l], g[0]
            if self.kind == "post":
                d = self.slope(met["h" + self.names[-1]]) * (d - d.mean())
            for number in reversed(range(len(self.names))):
                name = self.names[number]
                met["d" + name] = d
                d = self.W[name][l].T @ d
                if number:
                    d = self.slope(met["h" + self.names[number - 1]]) * d
            if self.kind == "pre":
                d = self.slope(self.normed(xs[l])) * d
            g.insert(0, g[0] + self.eps * self.norm_back(xs[l], d))
        return g

    def train(self, task: tp.Task) -> "BlockFields":
        """Squared error over 2, the mean over the batch, one input dimension."""
        T, B, L, n = task.steps, task.batch, self.depth, self.n
        found = {"h": np.zeros((L + 1, T, B, n)), "g": np.zeros((L + 1, T, B, n)), **{
            letter + name: np.zeros((L, T, B, n)) for name in self.names for letter in ("z", "d", "chi", "xi", "h")}}
        self.f, self.fields = np.zeros((T, B)), found
        first = {name: np.zeros_like(W) for name, W in self.W.items()}
        second = {name: np.zeros_like(W) for name, W in self.W.items()}
        moved = {name: np.zeros_like(W) for name, W in self.W.items()}
        for t in range(T):
            gradient = {name: np.zeros_like(W) for name, W in self.W.items()}
            for i in range(B):
                xs, inner = self.forward(task.inputs[t, i, 0] * self.weights["U"])
                g = self.backward(xs, inner)
                self.f[t, i] = self.output(xs[-1])
                chi = self.f[t, i] - task.targets[t, i, 0]
                found["h"][:, t, i], found["g"][:, t, i] = xs, g
                for name in self.names:
                    for l in range(L):
                        z, d = inner[l]["z" + name], inner[l]["d" + name]
                        found["z" + name][l, t, i], found["d" + name][l, t, i] = z, d
                        found["h" + name][l, t, i] = inner[l]["h" + name]
                        found["chi" + name][l, t, i] = self.weights[name][l] @ z
                        found["xi" + name][l, t, i] = self.weights[name][l].T @ d
                        gradient[name][l] += chi * np.outer(d, z) / B
            for name in self.names:
                step = gradient[name]
                if self.adam is not None:
                    beta1, beta2, small = self.adam
                    first[name] = beta1 * first[name] + (1 - beta1) * step
                    second[name] = beta2 * second[name] + (1 - beta2) * step**2
                    step = first[name] / (1 - beta1**(t + 1)) / (
                        np.sqrt(second[name] / (1 - beta2**(t + 1))) + small)
                # heavy ball, whose decay goes through the gradient
                moved[name] = self.momentum * moved[name] + self.size * step / n + self.decay * self.W[name]
                self.W[name] = self.W[name] - self.rate * moved[name]
        return self


def drawn(names: tuple[str, ...], depth: int, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {"U": rng.standard_normal(n), "nV": rng.standard_normal(n), **{
        name: rng.standard_normal((depth, n, n)) / np.sqrt(n) for name in names}}
