"""The programs whose powers of L are counted: a training as it is, and of a transformer one that has its powers."""

from __future__ import annotations

from dataclasses import replace
from typing import Union

import sympy as sp

from ..parametrizations import Scaling
from ..programs import SGD, ResNet, Transformer
from ..programs.blocks import Block, Branch, block_name
from ..programs.builders import program
from ..programs.convolution import Convolution
from ..programs.indices import m, p
from ..programs.language import MatVec, Moment
from ..programs.one_position import TWO, one_position
from ..programs.program import Program
from ..programs.updates import Optimizer

Judged = Union[ResNet, Transformer]
UPDATES = 1  # of a transformer that are counted
# Vectors that stand-ins have, and networks do not: the sum of scores of a row, and q and k over root mean squares.
ROW, OVER = "row", {"q": "over_q", "k": "over_k"}
HELPERS = frozenset((ROW, *OVER.values()))

# What a verdict on a transformer takes for granted, in its own words.
ASSUMED = (f"counted: with heads of one coordinate and {TWO} positions, which stand for all head_dim, "
           "queries_per_key and positions that stay as L grows, and over the first update; scale_power is a constant "
           "there")

# And without a norm: x' = x^2 blows up at a finite layer time, a later one for smaller inputs.
UNNORMED = ("counted: without a norm, where a sublayer grows faster than linearly in the stream, as products of "
            "vectors do, with inputs and learning rates so small that the stream does not blow up at a finite layer "
            "time")

# And with norms of q and k, which heads of one coordinate would make signs.
NORMED = ("counted: with tanh of a coordinate of q, and of k, over the root mean square of all heads' in the place of "
          "q over that of its own head; both are odd, bounded, and the same where q is multiplied by a number")


def counted_program(net: Judged, opt: Optimizer, scale: Scaling) -> Program:
    """The training whose powers of L are those of ``net``'s, each matrix under its own name.

    A transformer's is that of two positions and of heads of one coordinate, softmax being a logistic function of the
    difference of two scores, and all positions joined into one. Raises ``ValueError`` for what has no such form.
    """
    return program(net, opt, scale) if isinstance(net, ResNet) else one_position(two_positions(net, opt, scale))


def written_out(net: Judged, scale: Scaling) -> Program:
    """The training by plain SGD in which positions, where there are any, are still two."""
    return program(net, SGD(), scale) if isinstance(net, ResNet) else two_positions(net, SGD(), scale)


def two_positions(net: Transformer, opt: Optimizer, scale: Scaling) -> Program:
    """The training of two positions and heads of one coordinate, of symbolic P, without exponentials in softmax."""
    if net.positions < TWO:
        raise ValueError(f"positions: {net.positions} given; alone, a position reads itself whatever its scores, "
                         f"allowed for a verdict is at least {TWO}")
    if isinstance(net.attention, Convolution) and net.mlp is not None:
        raise ValueError(f"mlp: {block_name(net.mlp)} given with a convolution; allowed for a verdict is None")
    if net.at_one_position is not None:
        raise ValueError(f"attention: {net.attention!r} given; its powers of L are those of the block on one position, "
                         f"allowed is {net.at_one_position!r}")
    attention = net.attention if callable(net.attention) else softmax_of_two(net.causal, net.qk_norm)
    alike = replace(net, heads=None, head_dim=1, queries_per_key=1, positions=TWO, attention=attention, qk_norm=False)
    return program(alike, opt, scale)


def softmax_of_two(causal: bool, qk_norm: bool = False) -> Block:
    """Softmax attention of heads of one coordinate at two positions, the second of which reads both.

    The share of one of two scores is (1 + tanh((score - other)/2))/2, and the difference of the scores of a row is
    twice one of them less their sum. qk_norm: q over its root mean square in a head is an odd function of the head's q,
    bounded, and unchanged where q is multiplied by a number; so is tanh of a coordinate of q over the root mean square
    of all of them.
    """
    def softmax(b: Branch) -> sp.Expr:
        q, k, v = (b.let(name, MatVec(b.weights(matrix), b.x))
                   for name, matrix in (("q", "Wq"), ("k", "Wk"), ("value", "Wv")))
        if qk_norm:
            q, k = (b.let(f"n{name}", sp.tanh(b.let(OVER[name], one / sp.sqrt(Moment(one**2)))))
                    for name, one in (("q", q), ("k", k)))
        score = b.let("score", q * b.other(k))
        share = (1 + sp.tanh(score - b.let_total(ROW, score) / 2)) / 2
        if causal:
            share = sp.Piecewise((share, p >= 1), (1, m <= 0), (0, True))
        return MatVec(b.weights("Wo"), b.let_total("mixed", b.let("share", share) * b.other(v)))
    return softmax
