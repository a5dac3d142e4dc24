"""Attention as a block: every position reads the others, weighed head by head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from .._checks import finite_array, positive_integer, short
from ..programs.blocks import Block, Branch
from ..programs.by_position import HeadTable, HeadTurn, TableValues
from ..programs.indices import m, p
from ..programs.language import HeadSum, Vector

LEAST_NORMED = 3  # coordinates of a head over which gradients through its root mean square have a variance


def require_normed(qk_norm: bool, head_dim: int) -> None:
    """Raise ``ValueError`` for heads of too few coordinates to be divided by their root mean square."""
    if qk_norm and head_dim < LEAST_NORMED:
        raise ValueError(f"qk_norm: got True with head_dim={head_dim}; gradients through the root mean square of so "
                         f"few coordinates have no variance; expected head_dim of at least {LEAST_NORMED}")


def angles_of(rotation: Any, head_dim: int) -> tuple[float, ...]:
    """The angles by which a position turns the pairs of coordinates of a head, none for None; of a number b, the base
    of rotary embeddings, b^(-2j/d). Raises ``ValueError`` for what is no base, and not half as many angles as
    coordinates."""
    if rotation is None:
        return ()
    angles, pairs = finite_array("rotation", rotation), head_dim // 2
    if angles.ndim == 0 and angles > 0:
        angles = angles ** (-2 * np.arange(pairs) / head_dim)
    if head_dim % 2 or angles.shape != (pairs,):
        raise ValueError(f"rotation: got {short(rotation)} for heads of {head_dim} coordinates; expected the base of "
                         "rotary embeddings, or an angle for every pair of them, and an even number of coordinates")
    return tuple(angles.tolist())


def table_of(score_table: Any) -> TableValues | None:
    """A table of scores, of shape (heads, positions, positions) or the same for all heads; raises ``ValueError`` for
    what is none."""
    if score_table is None or isinstance(score_table, TableValues):
        return score_table
    values = finite_array("score_table", score_table)
    values = values[None] if values.ndim == 2 else values
    if values.ndim != 3 or values.size == 0 or values.shape[1] != values.shape[2]:
        raise ValueError(f"score_table: got shape {values.shape}; expected (positions, positions), or heads first")
    return TableValues(values)


def alibi(heads: int, positions: int) -> np.ndarray:
    """The table of linear biases, slope (m - p) with slopes 2^(-8 h / heads) [Press et al. 2021, arXiv:2108.12409], of
    shape (heads, positions, positions). Raises ``ValueError`` for numbers that are not whole and at least 1.

    >>> alibi(2, 3)[0, 2].tolist()
    [-0.125, -0.0625, 0.0]
    """
    heads, where = positive_integer("heads", heads), np.arange(positive_integer("positions", positions))
    slopes = 2.0 ** (-8 * np.arange(1, heads + 1) / heads)
    found: np.ndarray = slopes[:, None, None] * np.minimum(where[None, :] - where[:, None], 0)
    return found


@dataclass(frozen=True)
class SoftmaxAttention:
    """Softmax attention, which a branch writes as it stands, or as what reads the branch has it instead."""

    head_dim: int
    scale_power: sp.Expr
    causal: bool
    qk_norm: bool
    queries_per_key: int
    angles: tuple[float, ...] = ()
    table: TableValues | None = None

    def __post_init__(self) -> None:
        require_normed(self.qk_norm, self.head_dim)

    def __call__(self, b: Branch) -> sp.Expr:
        b.attention.append(self)
        return self.written(b) if b.attend is None else b.attend(self, b)

    def products(self, b: Branch) -> list[Vector]:
        """Queries, keys and values. What is added to all keys adds the same to all scores of a query, which softmax
        forgets, unless keys are normed or turned."""
        forgets = not (self.qk_norm or self.angles)
        return [b.let(name, b.product(matrix, b.x, forgets=forgets and name == "k"))
                for name, matrix in (("q", "Wq"), ("k", "Wk"), ("value", "Wv"))]

    def written(self, b: Branch) -> sp.Expr:
        """The product with W_o of what is mixed."""
        d = self.head_dim
        q, k, value = self.products(b)
        k, value = (b.let(name, HeadSum(one, self.queries_per_key, d, first_read=True))
                    for name, one in (("shared_k", k), ("shared_value", value)))
        if self.qk_norm:
            q, k = (b.let(name, one * (HeadSum(one**2, d) / d) ** -sp.Rational(1, 2))
                    for name, one in (("nq", q), ("nk", k)))
        if self.angles:
            q, k = (b.let(name, HeadTurn(one, self.angles, p)) for name, one in (("turned_q", q), ("turned_k", k)))
        score = HeadSum(q * b.other(k), d) / d**self.scale_power
        score = b.let("score", score if self.table is None else score + HeadTable(self.table, d, p, m))
        read = sp.Piecewise((1, m <= p), (0, True)) if self.causal else sp.Integer(1)
        weight = b.let("weight", read * sp.exp(score))
        share = b.let("share", weight / b.let_total("total", weight))
        return b.product("Wo", b.let_total("mixed", share * b.other(value)), at_end=True)


def softmax_attention(head_dim: int, scale_power: sp.Expr, causal: bool = True, qk_norm: bool = False,
                      queries_per_key: int = 1, rotation: Any = None, score_table: Any = None) -> Block:
    """Softmax attention as a block: W_o sum_m a_pm v_m, a = softmax over m of the head's q_p . k_m / d^scale_power.

    (q, k, v) = (W_q, W_k, W_v) x.

    All is entrywise but the products with matrices and the sums over a head's d coordinates; every coordinate of a head
    has that head's weights. causal: m <= p alone is read. qk_norm: q and k are divided by their root mean squares
    over the head. queries_per_key: so many neighboring heads read the key and the value of the first of them; rows of
    W_k and W_v that belong to the others are read by nothing and never move, so that they may as well not be there.
    rotation, score_table: as ``tp.Transformer`` has them.

    >>> import tpcalc as tp
    >>> net = tp.Transformer(head_dim=2, positions=3, mlp=None, norm=None)
    >>> text = str(tp.program(net, tp.SGD(), tp.DepthScaling()))
    >>> print(*(line.strip() for line in text.splitlines() if "headsum" in line), sep=chr(10))
    score[t, p, m, l] := sqrt(2)*headsum_2(k[t, m, l]*q[t, p, l])/2
    dk[t, p, l] := Sum(headsum_2(sqrt(2)*dscore[t, m, p, l]/2)*q[t, m, l], (m, 0, P - 1))
    dq[t, p, l] := Sum(headsum_2(sqrt(2)*dscore[t, p, m, l]/2)*k[t, m, l], (m, 0, P - 1))
    """
    return SoftmaxAttention(head_dim, scale_power, causal, qk_norm, queries_per_key, angles_of(rotation, head_dim),
                            table_of(score_table))
