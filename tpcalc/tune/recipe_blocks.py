"""Verdicts on the blocks that recipes are for, at exponents by matrix."""

from __future__ import annotations

from functools import lru_cache
from typing import Mapping

import sympy as sp

from ..scaling import Parametrization
from ..models import ResNet
from ..verdicts.classify import classify
from ..verdicts.counted import Judged
from ..verdicts.from_nothing import of_gate, of_zero
from ..verdicts.transformers import name_on_transformer
from ..verdicts.verdict import Verdict

Gammas = tuple[tuple[str, sp.Expr], ...]  # gamma by matrix


@lru_cache(maxsize=128)
def verdict_on(net: Judged, alpha: sp.Expr, gammas: Gammas, zero: tuple[str, ...]) -> Verdict:
    """The verdict at exponents by matrix, with matrices of these names starting at zero."""
    scale = block_exponents(alpha, dict(gammas))
    if zero:
        assert isinstance(net, ResNet)
        return of_zero(net, scale, zero)
    return classify(scale, net)


@lru_cache(maxsize=128)
def name_on(net: Judged, alpha: sp.Expr, gammas: Gammas, zero: tuple[str, ...]) -> str:
    """The name of that verdict, for which no matrix needs to be counted by itself."""
    return name_on_transformer(net, block_exponents(alpha, dict(gammas))) if net.positions else verdict_on(
        net, alpha, gammas, zero).name


def verdict_past_zero(net: Judged) -> Verdict:
    """The verdict behind a number that starts at 0 and, moved along its gradient, stays there."""
    assert isinstance(net, ResNet)
    return of_gate(net, dict.fromkeys(net.matrices_of_block, sp.Integer(0)))


def block_exponents(alpha: sp.Expr, gammas: Mapping[str, sp.Expr]) -> Parametrization:
    return Parametrization(depth={"alpha": alpha, **gammas})
