"""The networks on which named recipes are judged, by the names of their blocks, and how."""

from __future__ import annotations

from functools import lru_cache
from typing import Mapping

import sympy as sp

from ..parametrizations import Parametrization
from ..parametrizations.recipes import BOTTLENECK, FROM_ZERO, GATED, LAYER, MLP, ONE, POST_NORM, SCALED
from ..programs import ResNet, Transformer
from ..programs.blocks import Branch, mlp
from .classify import classify
from .counted import Judged
from .from_nothing import of_gate, of_zero
from .transformers import name_on_transformer
from .verdict import Verdict


def scaled(b: Branch) -> sp.Expr:
    """An MLP behind a trained multiplier for every coordinate, as LayerScale has it."""
    return b.trained("s") * b.let("r", mlp(2)(b))


# A norm behind a branch, x <- norm(x + eps f(x)), is x <- x + eps |x| f(x / |x|) with one norm at the end, |x| being
# the root mean square of the sum of all branches: of order one where the stream is, so that powers of L are as before.
BLOCKS: dict[str, Judged] = {
    ONE: ResNet(), MLP: ResNet("relu", "mlp", norm="rms"), LAYER: Transformer(phi="relu"),
    POST_NORM: Transformer(phi="relu"), SCALED: ResNet("relu", scaled, norm="rms"),
    FROM_ZERO: ResNet("relu", "mlp"), BOTTLENECK: ResNet("relu", "mlp", matrices=3), GATED: ResNet("relu", "mlp")}


@lru_cache(maxsize=128)
def verdict_on(block: str, alpha: sp.Expr, gammas: tuple[tuple[str, sp.Expr], ...], zero: tuple[str, ...]) -> Verdict:
    """The verdict at exponents by matrix, with matrices of these names starting at zero."""
    net, own = BLOCKS[block], dict(gammas)
    if zero and isinstance(net, ResNet):
        return of_zero(net, exponents(alpha, own), zero)
    return classify(alpha, *own.values()) if len(own) == 1 else classify(exponents(alpha, own), net)


def name_on(block: str, alpha: sp.Expr, gammas: tuple[tuple[str, sp.Expr], ...], zero: tuple[str, ...]) -> str:
    """The name of that verdict, of a transformer without counting each matrix by itself."""
    net = BLOCKS[block]
    if isinstance(net, Transformer):
        return _name_on(net, exponents(alpha, dict(gammas)))
    return verdict_on(block, alpha, gammas, zero).name


@lru_cache(maxsize=128)
def _name_on(net: Transformer, scale: Parametrization) -> str:
    return name_on_transformer(net, scale)


def verdict_behind_zero(block: str) -> Verdict:
    """The verdict behind a number that starts at 0 and, moved along its gradient, stays there."""
    net = BLOCKS[block]
    assert isinstance(net, ResNet)
    return of_gate(net, dict.fromkeys(net.matrices_of_block, sp.Integer(0)))


def exponents(alpha: sp.Expr, gammas: Mapping[str, sp.Expr]) -> Parametrization:
    return Parametrization(depth={"alpha": alpha, **gammas})
