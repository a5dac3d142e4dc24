"""The networks of tests/references/measured_slopes.py, written as blocks of a tp.ResNet."""

from __future__ import annotations

from itertools import count
from typing import Any, Callable, Mapping, Sequence

import sympy as sp

import tpcalc as tp
from tpcalc.programs.blocks import Branch
from tpcalc.programs.language import MatVec, Mean, Transpose, Vector

HALF = sp.Rational(1, 2)
# Refused, by what is in the way: loops through sin or cos of the stream, which has many places to rest at (2, 26, 62,
# 86); a branch whose size its own terms decide in turn (1, 67); branches that outgrow a stream which is divided by its
# size (61, 73); a loop through silu behind a norm (110); a matrix met again after it moved, behind a norm (117).
REFUSED = frozenset({1, 2, 26, 61, 62, 67, 73, 86, 110, 117})
LAGS = {"mean": tp.HyperConnections((1, 0), ((HALF, HALF), (1, 0)), (1, 0)),
        "leap": tp.HyperConnections((1, 0), ((0, 1), (1, 0)), (1, 0)),
        "delayed": tp.HyperConnections((0, 1), ((1, 0), (1, 0)), (1, 0))}
OPTIMIZERS = {"sgd": tp.SGD, "sign": tp.SignSGD, "adam": tp.Adam}


def function(name: str) -> Callable[[sp.Expr], sp.Expr]:
    """An activation, of an expression."""
    own: dict[str, Callable[[sp.Expr], sp.Expr]] = {
        "sin": sp.sin, "cos": sp.cos, "cube": lambda h: h**3, "tanh": sp.tanh, "erf": sp.erf, "abs": sp.Abs,
        "relu": lambda h: sp.Max(0, h), "sigmoid": lambda h: 1 / (1 + sp.exp(-h)),
        "silu": lambda h: h / (1 + sp.exp(-h)), "gelu": lambda h: h * (1 + sp.erf(h / sp.sqrt(2))) / 2}
    return own[name]


def block_of(tree: Sequence[Any], named: bool = True) -> Callable[[Branch], sp.Expr]:
    """The block that a tree says. Products have names, and values of functions where ``named``."""
    def block(b: Branch) -> sp.Expr:
        numbers = count()

        def vector(one: Sequence[Any]) -> Vector:
            value = written(one)
            return value if isinstance(value, Vector) else b.let(f"v{next(numbers)}", value)

        def written(one: Sequence[Any]) -> sp.Expr:
            kind, *rest = one
            if kind == "x":
                return b.x
            if kind == "mat":
                name, turned, inner = rest
                weights = b.weights(name)
                return b.let(f"h{next(numbers)}", MatVec(Transpose(weights) if turned else weights, vector(inner)))
            if kind == "fn":
                value = function(rest[0])(vector(rest[1]))
                return b.let(f"z{next(numbers)}", value) if named else value
            if kind == "times":
                return written(rest[0]) * written(rest[1])
            if kind == "plus":
                return sp.Add(*map(written, rest))
            if kind == "scale":
                return sp.Rational(rest[0]) * written(rest[1])
            inner = vector(rest[0])
            return inner - Mean(inner) if kind == "centered" else inner / sp.sqrt(Mean(inner**2))

        return written(tree)

    block.__name__ = "drawn"
    return block


def asked(row: Mapping[str, Any], named: bool = True) -> tuple[tp.DepthScaling, tp.ResNet, Any]:
    """What ``tp.classify`` is asked about a row of the measured networks."""
    L = sp.Symbol("L")
    skip = LAGS[row["lag"]] if row["lag"] else None if row["keep"] == "1" else tp.Skip(keep=1 - 1 / L)
    functions = sorted(functions_of(row["tree"]))
    # ResNet asks for an activation, also where a block has its own
    phi = function(functions[0])(sp.Symbol("h", real=True)) if functions else "linear"
    net = tp.ResNet(phi, block=block_of(row["tree"], named), norm=row["norm"],
                    norm_position=row["norm_position"], skip=skip)
    return tp.DepthScaling(*map(sp.Rational, row["point"])), net, OPTIMIZERS[row["opt"]]()


def functions_of(tree: Sequence[Any]) -> set[str]:
    found = {tree[1]} if tree[0] == "fn" else set()
    return found.union(*(functions_of(part) for part in tree if isinstance(part, (list, tuple))))
