"""Random programs with powers of the width in them, and the powers of n that real vectors and matrices show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Mapping

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.interpreters.vectors import run_program
from tpcalc.programs.language import Family, Matrix, MatVec, Mean, Outer, Scalar, Transpose, Vector, kind
from tpcalc.programs.program import Assign, Program
from tpcalc.width.sizes import WIDTH, perceptron

INITIAL = [Family(Vector, name)() for name in "abc"]
MATRICES = [Family(Matrix, name) for name in ("W", "V")]
POWERS = (0, 0, 0, 0, -1, 1, -2, 2)  # of n, in halves
HALF = sp.Rational(1, 2)
FUNCTIONS = ("tanh", "relu", "abs", "square", "erf", "gelu")
OPTIMIZERS = (tp.SGD(2.0), tp.SGD(2.0, momentum=0.5), tp.SGD(2.0, weight_decay=0.4), tp.SignSGD(1.0),
              tp.SGD(2.0, weight_decay=0.4, decoupled=True))
DATA = {"xi": 0.8, "y": [2.0, 0.7]}  # of perceptrons, two steps
FORMS = ("product", "product", "product", "sum", "sum", "function", "function", "mean", "mean", "scaled", "update",
         "entrywise product")


def function(name: str, v: sp.Expr) -> sp.Expr:
    return {"tanh": sp.tanh, "relu": lambda h: sp.Max(h, 0), "abs": sp.Abs, "square": lambda h: h**2, "erf": sp.erf,
            "gelu": lambda h: h * (1 + sp.erf(h / sp.sqrt(2))) / 2}[name](v)


def drawn(seed: int, statements: int = 7) -> Program:
    """A straight-line program of any statements; every term may have a power of n in front.

    Entries are polynomials of degree 2 at most in Gaussian ones, whose fourth powers average well over coordinates.
    """
    rng = np.random.default_rng(seed)
    vectors = list(INITIAL[:rng.integers(1, 4)])
    degree: dict[sp.Expr, int] = dict.fromkeys(vectors, 1)
    given = tuple(vectors)
    scalars: list[sp.Expr] = []
    versions = [0, 0]
    body: list[Assign] = []

    def pick() -> sp.Expr:
        return vectors[-1] if rng.random() < 0.45 else vectors[rng.integers(len(vectors))]

    def power() -> sp.Expr:
        return WIDTH ** (HALF * int(POWERS[rng.integers(len(POWERS))]))

    def let(kind_of: type, value: sp.Expr, size: int) -> None:
        if kind_of is Vector and size > 2:
            return
        name = Family(kind_of, ("x" if kind_of is Vector else "f") + str(len(body)))()
        body.append(Assign(name, value))
        (vectors if kind_of is Vector else scalars).append(name)
        degree[name] = size

    while len(body) < statements:
        form, u, v, m = FORMS[rng.integers(len(FORMS))], pick(), pick(), int(rng.integers(2))
        matrix = MATRICES[m][versions[m]]
        both = max(degree[u], degree[v])
        if form == "product":
            let(Vector, power() * MatVec(Transpose(matrix) if rng.random() < 0.5 else matrix, u), 1)
        elif form == "sum" and u != v:
            let(Vector, power() * u + sp.Rational(int(rng.integers(1, 3)), 2) * (-1) ** int(rng.integers(2)) * v, both)
        elif form == "function":
            name = FUNCTIONS[rng.integers(len(FUNCTIONS))]
            let(Vector, function(name, u), {"square": 2 * degree[u], "tanh": 0, "erf": 0}.get(name, degree[u]))
        elif form == "entrywise product":
            let(Vector, u * v, degree[u] + degree[v])
        elif form == "mean":
            let(Scalar, power() * Mean(u * v), 0)
        elif form == "scaled" and scalars:
            let(Vector, u + power() * scalars[rng.integers(len(scalars))] * v, both)
        elif form == "update":
            versions[m] += 1
            body.append(Assign(MATRICES[m][versions[m]], matrix + power() * Outer(u, v)))
    return Program(f"drawn {seed}", given, tuple(family[0] for family in MATRICES), (), tuple(body), ())


def drawn_perceptron(seed: int) -> Program:
    """A perceptron of two or three layers whose widths' exponents are those of a recipe, some of them changed."""
    rng = np.random.default_rng(seed)
    layers = int(rng.integers(2, 4))
    names = ("muP", "NTP", "SP, rate 1/n")
    a, b, c = (tp.width.width_recipe(names[rng.integers(3)], layers) if rng.random() < 0.8
               else tp.meta_principled(0, layers)).abc()
    changes = [HALF * int(rng.integers(-1, 2) * (rng.random() < 0.4)) for _ in range(2 * layers + 1)]
    a = [x + d for x, d in zip(a, changes)]
    b = [x - d + (e if i == layers - 1 else 0) for i, (x, d, e) in enumerate(zip(b, changes, changes[layers:]))]
    scaling = tp.WidthScaling.from_abc(a, b, c + changes[-1])
    return perceptron(scaling, ("tanh", "relu")[rng.integers(2)], OPTIMIZERS[rng.integers(len(OPTIMIZERS))])


@dataclass(frozen=True)
class Slope:
    """The power of n that real values show, and its standard error; zero: they are zero but for rounding."""

    power: float
    error: float
    zero: bool = False

    def agrees(self, power: sp.Expr) -> bool:
        if self.zero or power == -sp.oo:
            return bool(self.zero and power == -sp.oo)
        return bool(abs(self.power - float(power)) < max(0.1, 3 * self.error) and self.error < 0.1)


def slopes(program: Program, sizes: Mapping[str, int], asked: Iterable[sp.Expr], samples: Mapping[int, int],
           data: Mapping[str, object] = {}, first: int = 0) -> dict[sp.Expr, Slope]:
    """Powers of n of vectors (root mean squares) and numbers, from geometric means over samples: so many by width."""
    asked = list(asked)
    has_width = any(location.statement.value.has(WIDTH) for location in program.locations())
    means, errors = np.empty((2, len(asked), len(samples)))
    for j, (width, count) in enumerate(samples.items()):
        logs = np.empty((len(asked), count))
        values = {**({"n": float(width)} if has_width else {}), **data}
        for seed in range(count):
            run = run_program(program, sizes, values, width=width, seed=first + seed)
            for i, e in enumerate(asked):
                value = np.sqrt(np.mean(run.vector(e) ** 2)) if kind(e) == "vector" else abs(run.execution.value(e))
                logs[i, seed] = np.log(max(value, 1e-300))
        means[:, j], errors[:, j] = logs.mean(axis=1), logs.std(axis=1, ddof=1) / np.sqrt(count) + 1e-9
    widths = np.array(list(samples), dtype=float)
    return {e: Slope(0.0, 0.0, True) if np.exp(mean).max() < 1e-11 else _fitted(widths, mean, error)
            for e, mean, error in zip(asked, means, errors)}


def _fitted(widths: np.ndarray, mean: np.ndarray, error: np.ndarray) -> Slope:
    """A power of n times 1 + c n^(-1/2), which is what next terms bring; without c where samples do not resolve it."""
    x = np.log(widths)
    found = Slope(0.0, np.inf)
    for columns in ([x, np.ones_like(x), 1 / np.sqrt(widths)], [x, np.ones_like(x)]):
        weighted = np.stack(columns, axis=1) / error[:, None]
        covariance = np.linalg.inv(weighted.T @ weighted)
        fit = covariance @ weighted.T @ (mean / error)
        found = Slope(float(fit[0]), float(np.sqrt(covariance[0, 0])))
        if found.error < 0.04:
            break
    return found
