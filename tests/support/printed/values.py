"""What an expression of the language or of the calculus is in numbers: every atom has some, by its name and indices.

A vector, and a random variable, is an array of N numbers; a mean over what is random is that over them. What a ket is
of its vector, or a response of two, is some fixed function: readers must find what is inside.
"""

from __future__ import annotations

import math
import operator
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import sympy as sp

from tpcalc.calculus.kets import Averaged, Base, Bracket, Covariance, Dot, Gamma, Hat, Ket, Response
from tpcalc.gaussian.variables import Expectation
from tpcalc.programs.language import (HeadSum, LossDerivative, Matrix, MatVec, Mean, NonlinearOuter, Outer, Scalar,
                                      Transpose, Vector)
from tpcalc.optimizers.polar import Polar

N = 4
Value = Any  # a float, an array of N, or a DenseMatrix
Env = Mapping[str, Any]


class DenseMatrix:
    """A matrix: products with * are by numbers, or entrywise by another, with @ by a matrix or vector."""

    __array_ufunc__ = None

    def __init__(self, entries: np.ndarray) -> None:
        self.entries = entries

    T = property(lambda self: DenseMatrix(self.entries.T))

    def __matmul__(self, other: Value) -> Value:
        if isinstance(other, DenseMatrix):
            return DenseMatrix(self.entries @ other.entries)
        return self.entries @ np.broadcast_to(other, N)

    def _with(self, other: Value, join: Callable[[Any, Any], Any]) -> DenseMatrix:
        if not isinstance(other, DenseMatrix) and np.ndim(other):
            raise TypeError("a matrix and a vector")
        return DenseMatrix(join(self.entries, other.entries if isinstance(other, DenseMatrix) else other))

    def __add__(self, other: Value) -> DenseMatrix:
        return self._with(other, lambda a, b: a + b)

    def __mul__(self, other: Value) -> DenseMatrix:
        return self._with(other, lambda a, b: a * b)

    def __truediv__(self, other: Value) -> DenseMatrix:
        return self._with(other, lambda a, b: a / b)

    def __rtruediv__(self, other: Value) -> DenseMatrix:
        return self._with(other, lambda a, b: b / a)

    def __pow__(self, other: Value) -> DenseMatrix:
        return self._with(other, lambda a, b: a ** b)

    def __neg__(self) -> DenseMatrix:
        return DenseMatrix(-self.entries)

    __radd__, __rmul__ = __add__, __mul__

    def __sub__(self, other: Value) -> DenseMatrix:
        return self + -other

    def __rsub__(self, other: Value) -> DenseMatrix:
        return -self + other


def some(kind: str, *key: object) -> Value:
    """Numbers between 0.5 and 1.5 in size that belong to a key: of a vector or matrix, or of a scalar, with a root."""
    text = "|".join(f"{k:.9g}" if isinstance(k, (int, float)) else str(k) for k in key)
    rng = np.random.default_rng(zlib.crc32(f"{kind}|{text}".encode()))
    shape = {"scalar": (), "vector": (N,), "matrix": (N, N)}[kind]
    drawn = rng.uniform(0.5, 1.5, shape) * rng.choice([-1, 1], shape)
    return DenseMatrix(drawn) if kind == "matrix" else abs(float(drawn)) if kind == "scalar" else drawn


def ket_of(mark: str, vector: Value) -> np.ndarray:
    shift, slope = {"": (1.3, 0.7), "hat": (-0.9, 1.1), "dot": (0.6, -1.7)}[mark]
    return shift + np.sin(slope * np.broadcast_to(vector, N))


def bracket(u: Value, v: Value) -> float:
    return float(np.mean(ket_of("", u) * ket_of("", v)))


def response(vector: Value, base: Value) -> float:
    return float(np.mean(np.cos(vector) * (base + 2 * np.asarray(base) ** 2)) + 1.7)


def loss(f: float, *indices: float) -> float:
    return math.sin(f) + float(some("scalar", "loss", *indices))


def mean(vector: Value) -> float:
    return float(np.mean(vector))


def outer(u: Value, v: Value) -> DenseMatrix:
    return DenseMatrix(np.outer(np.broadcast_to(u, N), np.broadcast_to(v, N)))


def applied(name: str, *arguments: Value) -> Value:
    """A function of numbers, entry by entry."""
    entries = [a.entries if isinstance(a, DenseMatrix) else a for a in arguments]
    found = FUNCTIONS[name](*entries)
    return DenseMatrix(found) if any(isinstance(a, DenseMatrix) for a in arguments) else found


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "tanh": np.tanh, "exp": np.exp, "Abs": np.abs, "sign": np.sign, "cos": np.cos, "sqrt": np.sqrt,
    "erf": lambda x: np.vectorize(math.erf)(x), "Max": lambda *x: np.maximum.reduce(np.broadcast_arrays(*x)),
    "Heaviside": lambda x, at=0.5: np.heaviside(x, at)}


def heads(word: str, size: str, body: Value) -> Value:
    """Some operator on vectors that belongs to a word and a size."""
    return some("matrix", word, size) @ body


def polar(body: DenseMatrix, steps: int) -> DenseMatrix:
    return DenseMatrix(np.sin(body.entries) + steps)


def value(node: sp.Basic, env: Env) -> Value:
    """The number of an expression; env has those of its symbols."""
    read = next((f for kind, f in READ.items() if isinstance(node, kind)), None)
    if read is not None:
        return read(node, env)
    if isinstance(node, (sp.Function, sp.Max)):
        return applied(node.func.__name__, *(value(a, env) for a in node.args))
    raise TypeError(f"{type(node).__name__} {node}")


def _values(nodes: Any, env: Env) -> list[Value]:
    return [value(node, env) for node in nodes]


def _member(kind: str) -> Callable[[Any, Env], Value]:
    return lambda node, env: some(kind, node.name, *_values(node.indices, env))


def _added(node: sp.Expr, env: Env) -> Value:
    total, *rest = _values(node.args, env)
    for one in rest:
        total = total + one
    return total


def _multiplied(node: sp.Expr, env: Env) -> Value:
    total, *rest = _values(node.args, env)
    for one in rest:
        total = total * one
    return total


def _summed(node: sp.Sum, env: Env) -> Value:
    (index, first, last), *inner = node.limits[::-1]
    body = sp.Sum(node.function, *inner[::-1]) if inner else node.function
    total: Value = 0.0
    for i in range(int(value(first, env)), int(value(last, env)) + 1):
        total = total + value(body, {**env, str(index): i})
    return total


def _averaged(node: Averaged, env: Env) -> Value:
    copies = value(node.body, {**env, OUTER: lambda u, v: ket_of("", u)[:, None] * ket_of("", v)[None, :]})
    return np.broadcast_to(copies * ket_of("", value(node.args[1], env)), (N, N)).mean(1)


def _outer(node: Outer, env: Env) -> Value:
    plain = {k: v for k, v in env.items() if k != OUTER}
    join = env.get(OUTER, lambda u, v: outer(u, v) / N)
    return join(value(node.left, plain), value(node.right, plain))


def _chosen(node: sp.Piecewise, env: Env) -> Value:
    for part, condition in node.args:
        if condition == sp.true or RELATIONS[condition.func](*_values(condition.args, env)):
            return value(part, env)
    raise ValueError(f"{node}: nothing holds")


def _gamma(node: Gamma, env: Env) -> Value:
    a, b, t, r, l, m = node.args
    if r[0] == -1:
        r, m = r[:1], ()
    return some("scalar", "Gamma", *(value(i, env) for i in (*t, *r, a, b, *l, *m)))


def _covariance(node: Covariance, env: Env) -> Value:
    b, c, t, s, l, m = node.args
    numbers, locations = ((b,) if b == c else (b, c)), ((*l,) if l == m else (*l, *m))
    return some("scalar", "C", *(value(i, env) for i in (*t, *s, *numbers, *locations)))


OUTER = " outer"  # in env: what an outer product is within functions of its entries
RELATIONS = {sp.Le: operator.le, sp.Lt: operator.lt, sp.Ge: operator.ge, sp.Gt: operator.gt, sp.Eq: operator.eq,
             sp.Ne: operator.ne}
READ: dict[type, Callable[[Any, Env], Value]] = {
    Vector: _member("vector"), Matrix: _member("matrix"), Scalar: _member("scalar"),
    Transpose: lambda n, e: value(n.args[0], e).T,
    MatVec: lambda n, e: value(n.matrix, e) @ value(n.vector, e),
    Outer: _outer, NonlinearOuter: lambda n, e: value(n.body, {**e, OUTER: outer}) / N,
    Polar: lambda n, e: polar(value(n.body, e), n.steps),
    Mean: lambda n, e: mean(value(n.args[0], e)),
    HeadSum: lambda n, e: heads(*n._said, value(n.body, e)),
    LossDerivative: lambda n, e: loss(value(n.outputs[0], e), *_values(n.indices, e)),
    Ket: lambda n, e: ket_of("", value(n.vector, e)), Hat: lambda n, e: ket_of("hat", value(n.vector, e)),
    Dot: lambda n, e: ket_of("dot", value(n.vector, e)),
    Base: lambda n, e: some("vector", "beta", *_values((*n.args[1], n.args[0], *n.args[2]), e)),
    Bracket: lambda n, e: bracket(*_values(n.args, e)), Averaged: _averaged,
    Response: lambda n, e: response(value(n.vector, e), value(n.base, e)),
    Expectation: lambda n, e: mean(value(n.body, e)), Gamma: _gamma, Covariance: _covariance,
    sp.Sum: _summed, sp.Add: _added, sp.Mul: _multiplied, sp.Pow: lambda n, e: value(n.base, e) ** value(n.exp, e),
    sp.Symbol: lambda n, e: e[str(n)], sp.Number: lambda n, e: float(n), sp.NumberSymbol: lambda n, e: float(n),
    sp.Piecewise: _chosen, sp.KroneckerDelta: lambda n, e: float(value(n.args[0], e) == value(n.args[1], e)),
}
