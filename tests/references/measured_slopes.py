"""Powers of the depth in real networks of drawn blocks, measured in plain NumPy: run by hand, writes JSON.

Nothing of tpcalc is used. A layer is x + eps B(x), with norms, lags and damped skips; B is drawn as a tree of products
with matrices, functions, products of vectors, sums and norms. Its gradient is found by going back through the tree.
Matrices have entries N(0, 1/n) and move by L^-gamma times a rate times an outer product over n, from which the branch
multiplier L^-alpha is left out, or times the sign of it over n; targets are 1 more than the first output, which is 0
at infinite width. Sizes are root mean squares over coordinates; their logarithms are averaged over networks at every
depth.

    python tests/references/measured_slopes.py > tests/references/measured_slopes.json

Parts: six loops; a silu gate behind a norm after three updates; blocks with a norm behind them, at several alpha; and
120 drawn networks.

In what is kept names of options were converted once, from those of commit e887df7 to those of today
("place" to "norm_position", "after" to "output"); numbers are as they were measured.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Callable, Iterable

import numpy as np
from scipy.special import erf

Array = np.ndarray
Tree = tuple[Any, ...]
WIDTH, NETWORKS, ROUNDS, DEPTHS = 96, 8, 3, (16, 32, 64, 128, 256)
DRAWN = 120
RATE, INPUT, TARGET = 0.2, 0.7, 1.0
PARTS = ("loops", "silu_gate", "norm_behind", "drawn")
SIZES = ("x at initialization", "h at initialization", "change of f", "change of x", "change of h", "update of h")

# ---- what is drawn: trees ("x",), ("mat", name, turned, tree), ("fn", name, tree), ("times", tree, tree),
# ("plus", tree, ...), ("scale", number, tree), ("rms", tree), ("centered", tree) --------------------------------------

X: Tree = ("x",)
HALF, QUARTER = "1/2", "1/4"
POINTS = ((HALF, HALF), (HALF, HALF), ("1", "0"), ("1", "0"), ("3/4", QUARTER), ("1", HALF), (HALF, "3/4"))
LOW = ((QUARTER, "3/4"), ("0", "1"))  # where streams grow, unless something holds them
ODD, ANY = ("tanh", "sin", "erf"), ("tanh", "relu", "silu", "gelu", "sin", "erf", "abs")
GATES = ("silu", "tanh", "relu", "gelu", "sigmoid")
PLAIN = (("1",), (("1",),), ("1",))  # what a block reads, how streams mix, and what it writes to
LAGS = {"mean": (("1", "0"), ((HALF, HALF), ("1", "0")), ("1", "0")),
        "leap": (("1", "0"), (("0", "1"), ("1", "0")), ("1", "0")),
        "delayed": (("0", "1"), (("1", "0"), ("1", "0")), ("1", "0"))}


@dataclass(frozen=True)
class Drawn:
    """A network: the tree of its block, where its norm stands, how streams go on, an optimizer and a point."""

    tree: Tree
    norm: str | None = None  # "rms" or "layer"
    norm_position: str = "pre"  # of what a block reads, "output", of what it gives, or "post", of what layers hand on
    lag: str = ""
    keep: str = "1"          # what the stream is multiplied by in a layer
    opt: str = "sgd"         # "sgd", "sign", or "adam", of which the first update is that of "sign"
    point: tuple[str, str] = (HALF, HALF)


def mat(name: str, tree: Tree, turned: bool = False) -> Tree:
    return ("mat", name, turned, tree)


def fn(name: str, tree: Tree) -> Tree:
    return ("fn", name, tree)


def one(rng: np.random.Generator, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def gate(rng: np.random.Generator) -> Tree:
    """A function of one product times another, or what that function acts on itself."""
    first, second = mat("W1", X), mat("W2", X)
    kind = int(rng.integers(4))
    gated = ("times", fn(one(rng, GATES), first), second)
    if kind == 1:
        gated = ("times", fn(one(rng, GATES), first), fn(one(rng, ANY), second))
    return gated if kind == 2 else mat("W3", gated)


def behind(rng: np.random.Generator) -> Tree:
    """A branch for a norm to stand behind."""
    return one(rng, (mat("W", X), fn(one(rng, ODD), mat("W", X)), mat("V", fn(one(rng, ANY), mat("W", X))),
                     mat("V", ("times", fn(one(rng, GATES), mat("W1", X)), mat("W2", X))),
                     ("plus", mat("W", X), fn("tanh", X))))


def loop(rng: np.random.Generator) -> Tree:
    """What comes back to the stream of its own layer: a function of the stream, or a matrix and its transpose."""
    sign = one(rng, ("1", "-1"))
    if rng.random() < 0.4:
        return ("scale", sign, mat("W", fn(one(rng, (*ODD, "cos", "relu")), mat("W", X)), True))
    branch = one(rng, (mat("W", X), mat("W", X), mat("V", fn(one(rng, ANY), mat("W", X)))))
    back = fn(one(rng, (*ODD, "tanh", "silu", "cos", "cube")), X)
    return ("plus", branch, ("scale", "-1/4" if back[1] == "cube" else sign, back))


def tied(rng: np.random.Generator) -> Tree:
    """One matrix twice in a block, or with its transpose, beside another or not."""
    phi = one(rng, ("identity", *ANY))
    inner = mat("W", X) if phi == "identity" else fn(phi, mat("W", X))
    twice = mat("W", inner, bool(rng.random() < 0.5))
    return one(rng, (twice, ("plus", twice, mat("V", X)), ("scale", "-1", twice), mat("V", fn("tanh", twice))))


def own(rng: np.random.Generator) -> Tree:
    """Terms of the stream that no matrix has met, and gates of the stream with itself."""
    return one(rng, (("plus", mat("W", X), ("scale", one(rng, (HALF, "-1/2")), X)),
                     ("times", X, fn(one(rng, ("tanh", "sin")), mat("W", X))),
                     ("times", fn(one(rng, ("tanh", "sigmoid")), X), mat("W", X)),
                     ("plus", fn(one(rng, ODD), mat("W", X)), ("scale", one(rng, ("1", "-1")), fn("tanh", X))),
                     ("plus", mat("V", fn(one(rng, ANY), mat("W", X))), ("scale", "-1", fn("sin", X))),
                     mat("W", ("times", X, fn("tanh", X))),
                     ("times", X, fn("sigmoid", mat("W", X)))))


def several(rng: np.random.Generator) -> Tree:
    """Matrices one after the other and beside each other."""
    first = fn(one(rng, ANY), mat("W1", X))
    second = fn(one(rng, ANY), mat("W2", first))
    return one(rng, (mat("W3", second), mat("W2", first), ("plus", mat("W2", first), mat("W3", X)),
                     ("centered", first), mat("W3", ("plus", first, fn(one(rng, ODD), mat("W2", X)))),
                     mat("W2", ("rms", first)), ("plus", first, mat("W2", fn("tanh", X)))))


FAMILIES: dict[str, Callable[[np.random.Generator], Tree]] = {
    "gate": gate, "norm behind": behind, "loop": loop, "tied": tied, "stream": own, "several": several}


def drawn(seed: int) -> Drawn:
    """The network of a seed; families take turns."""
    rng = np.random.default_rng([2031, seed])
    family = list(FAMILIES)[seed % len(FAMILIES)]
    tree, options = FAMILIES[family](rng), {"point": one(rng, POINTS), "opt": one(rng, ("sgd", "sgd", "sign", "adam"))}
    if family == "norm behind":
        options.update(norm=one(rng, ("rms", "rms", "layer")), norm_position=one(rng, ("output", "output", "post")))
        if options["norm_position"] == "output" and rng.random() < 0.5:
            options["point"] = one(rng, LOW)
    elif rng.random() < (0.5 if family == "gate" else 0.25):
        options.update(norm=one(rng, ("rms", "rms", "layer")))
    if family in ("several", "gate", "stream") and rng.random() < 0.4:
        options["lag"] = one(rng, tuple(LAGS))
    elif rng.random() < 0.15:
        options["keep"] = "1 - 1/L"
    return Drawn(tree, **options)


LOOPS = {"W x - tanh(x)": ("plus", mat("W", X), ("scale", "-1", fn("tanh", X))),
         "W x - x^3/4": ("plus", mat("W", X), ("scale", "-1/4", fn("cube", X))),
         "-W^T tanh(W x)": ("scale", "-1", mat("W", fn("tanh", mat("W", X)), True)),
         "W^T cos(W x)": mat("W", fn("cos", mat("W", X)), True),
         "W^T tanh(W x)": mat("W", fn("tanh", mat("W", X)), True),
         "W^T sin(W x)": mat("W", fn("sin", mat("W", X)), True)}
SILU_GATE = mat("W3", ("times", fn("silu", mat("W1", X)), mat("W2", X)))
BEHIND = {"linear": mat("W", X), "tanh": mat("V", fn("tanh", mat("W", X))), "silu gate": SILU_GATE}

# ---- networks --------------------------------------------------------------------------------------------------------


def _sigmoid(h: Array) -> Array:
    return (1 + np.tanh(h / 2)) / 2


def _normal(h: Array) -> Array:
    return np.exp(-h * h / 2) / np.sqrt(2 * np.pi).astype(h.dtype)


FUNCTIONS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "tanh": (np.tanh, lambda h: 1 - np.tanh(h)**2), "sin": (np.sin, np.cos), "cos": (np.cos, lambda h: -np.sin(h)),
    "erf": (lambda h: erf(h), lambda h: 2 / np.sqrt(np.pi).astype(h.dtype) * np.exp(-h * h)),
    "relu": (lambda h: np.maximum(h, 0), lambda h: (h > 0).astype(h.dtype)), "abs": (np.abs, np.sign),
    "sigmoid": (_sigmoid, lambda h: _sigmoid(h) * _sigmoid(-h)), "cube": (lambda h: h**3, lambda h: 3 * h * h),
    "silu": (lambda h: h * _sigmoid(h), lambda h: _sigmoid(h) * (1 + h * _sigmoid(-h))),
    "gelu": (lambda h: h * (1 + erf(h / np.sqrt(2).astype(h.dtype))) / 2,
             lambda h: (1 + erf(h / np.sqrt(2).astype(h.dtype))) / 2 + h * _normal(h))}


class Vector:
    """A vector of every network, (networks, n), and how its gradient goes back."""

    def __init__(self, value: Array, back: Callable[[Array], None] = lambda gradient: None) -> None:
        self.value, self.back, self.gradient = value, back, np.zeros_like(value)

    def give(self, gradient: Array) -> None:
        self.gradient += gradient


def mean(value: Array) -> Array:
    return value.mean(axis=-1, keepdims=True)


def ratio(text: str, depth: int = 1) -> float:
    if text == "1 - 1/L":
        return 1 - 1 / depth
    top, _, bottom = text.partition("/")
    return float(top) / float(bottom or 1)


class Network:
    """Networks of one depth, all at once: matrices (networks, n, n), by name and layer."""

    def __init__(self, what: Drawn, depth: int, rng: np.random.Generator, width: int, networks: int) -> None:
        self.what, self.depth, self.width = what, depth, width
        self.alpha, self.gamma = map(ratio, what.point)
        self.eps = depth**-self.alpha
        self.start, self.readout = (rng.standard_normal((networks, width), dtype=np.float32) for _ in range(2))
        self.start *= np.float32(INPUT)
        self.target: float | Array = TARGET
        self.weights = {(name, layer): rng.standard_normal((networks, width, width), dtype=np.float32)
                        / np.float32(np.sqrt(width)) for name in names(what.tree) for layer in range(1, depth + 1)}
        self.probed = {max(1, depth // 2), depth - 1, depth}
        self.first = {at: w.copy() for at, w in self.weights.items() if at[1] in self.probed}
        self.reads, self.mixes, self.writes = LAGS.get(what.lag, PLAIN)
        self.nodes: list[Vector] = []
        self.moves: dict[tuple[str, int], list[tuple[Array, Array]]] = {}
        self.products: list[tuple[str, int, Array, Array]] = []

    def node(self, value: Array, back: Callable[[Array], None]) -> Vector:
        self.nodes.append(Vector(value, back))
        return self.nodes[-1]

    def add(self, *terms: tuple[float, Vector]) -> Vector:
        def back(gradient: Array) -> None:
            for factor, vector in terms:
                vector.give(np.float32(factor) * gradient)
        return self.node(sum(np.float32(factor) * vector.value for factor, vector in terms), back)

    def product(self, name: str, layer: int, vector: Vector, turned: bool) -> Vector:
        weight = self.weights[name, layer]
        matrix = weight.swapaxes(1, 2) if turned else weight

        def back(gradient: Array) -> None:
            vector.give(np.matmul(matrix.swapaxes(1, 2), gradient[..., None])[..., 0])
            outer = (vector.value, gradient) if turned else (gradient, vector.value)
            self.moves.setdefault((name, layer), []).append(outer)

        value = np.matmul(matrix, vector.value[..., None])[..., 0]
        if layer in self.probed:
            first = self.first[name, layer]
            moved = weight - first
            moved = moved.swapaxes(1, 2) if turned else moved
            self.products.append((name, layer, value, np.matmul(moved, vector.value[..., None])[..., 0]))
        return self.node(value, back)

    def normed(self, vector: Vector, norm: str) -> Vector:
        if norm == "layer":
            vector = self.node(vector.value - mean(vector.value), lambda g, v=vector: v.give(g - mean(g)))
        size = np.sqrt(mean(vector.value**2))
        value = vector.value / size
        return self.node(value, lambda g: vector.give((g - value * mean(value * g)) / size))

    def evaluated(self, tree: Tree, x: Vector, layer: int) -> Vector:
        kind, *rest = tree
        if kind == "x":
            return x
        if kind == "mat":
            name, turned, inner = rest
            return self.product(name, layer, self.evaluated(inner, x, layer), turned)
        if kind == "fn":
            function, slope = FUNCTIONS[rest[0]]
            h = self.evaluated(rest[1], x, layer)
            return self.node(function(h.value), lambda g: h.give(g * slope(h.value)))
        if kind == "times":
            a, b = (self.evaluated(part, x, layer) for part in rest)

            def back(gradient: Array) -> None:
                a.give(gradient * b.value)
                b.give(gradient * a.value)
            return self.node(a.value * b.value, back)
        if kind == "plus":
            return self.add(*((1.0, self.evaluated(part, x, layer)) for part in rest))
        if kind == "scale":
            return self.add((ratio(rest[0]), self.evaluated(rest[1], x, layer)))
        inner = self.evaluated(rest[0], x, layer)
        if kind == "centered":
            return self.node(inner.value - mean(inner.value), lambda g: inner.give(g - mean(g)))
        return self.normed(inner, "rms")

    def forward(self) -> tuple[Vector, Array]:
        """What the read-out reads, and the outputs (networks,)."""
        self.nodes, self.moves, self.products = [], {}, []
        what, start = self.what, Vector(self.start)
        streams = [start] * len(self.reads)
        keep = ratio(what.keep, self.depth)
        for layer in range(1, self.depth + 1):
            x = self.add(*((ratio(a), s) for a, s in zip(self.reads, streams) if a != "0"))
            if what.norm and what.norm_position == "pre":
                x = self.normed(x, what.norm)
            new = self.evaluated(what.tree, x, layer)
            if what.norm and what.norm_position == "output":
                new = self.normed(new, what.norm)
            streams = [self.add(*((keep * ratio(a), s) for a, s in zip(row, streams) if a != "0"),
                                *[(self.eps * ratio(b), new)] * (b != "0"))
                       for row, b in zip(self.mixes, self.writes)]
            if what.norm and what.norm_position == "post":
                streams = [self.normed(s, what.norm) for s in streams]
        end = self.add(*((1.0, s) for s in streams))
        return end, mean(end.value * self.readout)[:, 0]

    def step(self, end: Vector, outputs: Array) -> None:
        """One update along the gradient of (f - y)^2/2."""
        end.give((outputs - self.target)[:, None].astype(np.float32) * self.readout)
        for vector in reversed(self.nodes):
            vector.back(vector.gradient)
        rate = RATE * self.depth**-self.gamma / self.width
        for at, pairs in self.moves.items():
            gradient = np.matmul(np.stack([u for u, _ in pairs], axis=2), np.stack([v for _, v in pairs], axis=1))
            self.weights[at] -= np.float32(rate) * (
                gradient / np.float32(self.eps) if self.what.opt == "sgd" else np.sign(gradient))

    def sizes(self, updates: int) -> dict[str, list[Array]]:
        """By name logarithms of sizes, (networks,), after each update; those at initialization once."""
        found: dict[str, list[Array]] = {name: [] for name in SIZES}
        end, outputs = self.forward()
        before = end.value, outputs, self.products
        self.target = outputs + TARGET  # at infinite width outputs are 0 at first
        found[SIZES[0]].append(size(end.value))
        found[SIZES[1]].append(largest(value for _, _, value, _ in self.products))
        for _ in range(updates):
            self.step(end, outputs)
            end, outputs = self.forward()
            found["change of f"].append(np.abs(outputs - before[1]))
            found["change of x"].append(size(end.value - before[0]))
            found["change of h"].append(largest(new[2] - old[2] for new, old in zip(self.products, before[2])))
            found["update of h"].append(largest(moved for *_, moved in self.products))
        return found


def size(vectors: Array) -> Array:
    return np.sqrt(mean(vectors.astype(float)**2))[:, 0]


def largest(vectors: Iterable[Array]) -> Array:
    return np.max([size(one) for one in vectors], axis=0)


def names(tree: Tree) -> list[str]:
    found = [tree[1]] if tree[0] == "mat" else []
    return sorted({*found, *(name for part in tree if isinstance(part, tuple) for name in names(part))})


def measured(what: Drawn, depths: Iterable[int] = DEPTHS, updates: int = 3, width: int = WIDTH, rounds: int = ROUNDS,
             seed: int = 0) -> dict[str, Any]:
    """Means over networks of logarithms of sizes, and their standard errors, at every depth and after every update;
    None where a network is not finite or a size vanishes in float32."""
    updates = 1 if what.opt == "adam" else updates
    rows = []
    for depth in depths:
        found = []
        for number in range(rounds):
            rng = np.random.default_rng([seed, depth, number])
            with np.errstate(all="ignore"):
                sizes = Network(what, depth, rng, width, NETWORKS).sizes(updates)
                found.append({name: np.log(np.array(one)) for name, one in sizes.items()})
        rows.append({name: np.concatenate([one[name] for one in found], axis=1) for name in SIZES})
    logs = {name: [[_told(row[name][number]) for row in rows] for number in range(len(rows[0][name]))]
            for name in SIZES}
    return {**asdict(what), "updates": updates, "width": width, "networks": rounds * NETWORKS, "depths": list(depths),
            "logs": logs}


def _told(logs: Array) -> list[float] | None:
    if not np.all(np.isfinite(logs)):
        return None
    return [round(float(np.mean(logs)), 4), round(float(np.std(logs, ddof=1) / np.sqrt(len(logs))), 4)]


def rows(part: str) -> Iterable[dict[str, Any]]:
    """What a part of the file has, row by row."""
    if part == "drawn":
        return ({"seed": seed, **measured(drawn(seed), rounds=2, seed=seed)} for seed in range(DRAWN))
    if part == "loops":
        return ({"name": name, **measured(Drawn(tree), seed=100)} for name, tree in LOOPS.items())
    if part == "silu_gate":
        return (measured(Drawn(SILU_GATE, "rms", point=at), (8, 16, 32, 64), width=256, rounds=2, seed=200)
                for at in ((HALF, HALF), ("1", "0"), ("1", HALF)))
    return ({"name": name, **measured(Drawn(tree, "rms", "output", point=(alpha, "1")), updates=1, seed=300)}
            for name, tree in BEHIND.items() for alpha in ("0", QUARTER, HALF, "1"))


if __name__ == "__main__":
    for number, part in enumerate(PARTS):
        print("{" if number == 0 else ",", f'"{part}": [')
        for at, row in enumerate(rows(part)):
            print(", " * (at > 0) + json.dumps(row), flush=True)
        print("]" + "}" * (part == PARTS[-1]))
