"""Softmax attention of a branch, read as the network's: heads, mask, scale, and what stands beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from math import isclose, prod
from typing import Callable, Mapping

import numpy as np
import sympy as sp
import torch
from torch import Tensor

from ...errors import NotCovered
from ...models.transformer import SCALES
from ...programs.by_position import TableValues
from .functions import NORM_VALUES
from ..reading.kinds_of_ops import ATTENTIONS, CONTRACTIONS, MOVES
from .products import BlockInside, BranchProducts
from .segments import CLOSE, LARGE, ROUNDED, Segment, as_written, factor_between, same
from ..reading.tape import Op

MASKED = -5e3  # below which a score is none: its weight is 0 in float64 beside scores of order one
TABLE = "table added to scores"
TRAINED = "table, which the network does not train"


@dataclass(frozen=True)
class HeadRows:
    """Queries, keys or values of all heads: product: that they are rows of; rows: shape (heads, head_dim), which;
    factor: that multiplies them; normed: over the head; turn: of shape (positions, head_dim, head_dim), what turns them
    within the head, or None; left_out: parameters beside them."""

    product: Op
    rows: Tensor
    factor: float
    normed: bool
    turn: Tensor | None
    left_out: Mapping[str, str]


class AttentionReader:
    """Reads the attention in front of the last matrix of a branch. weights: the operation that makes its weights."""

    def __init__(self, products: BranchProducts, last: Op, weights: Op) -> None:
        self.products, self.last, self.weights = products, last, weights
        self.network = network = products.network
        self.into = products.input(last)
        self.segment = partial(Segment, network, products.roles)
        self.turned = weights.name not in ATTENTIONS  # keys, in a product that is written out
        if self.turned:
            mixing = self._ahead(weights.output)
            self.out, self.v, self.scores = mixing.output, mixing.argument(1), weights.argument(0)
            scoring = self._back(self.scores)
            adds = scoring.name == "baddbmm"  # a table, which is its first operand
            self.q, self.k = scoring.argument(int(adds)), scoring.argument(1 + adds)
        else:
            self.q, self.k, self.v = map(weights.argument, range(3))
            self.out, self.scores = weights.output, -1
        self.positions, self.size = network.tape.shape(self.q)[-2:]
        self.batch = prod(network.tape.shape(self._product(self.q).output)[:-1]) // self.positions

    def read(self) -> BlockInside:
        """The attention, each of its parts tested by numbers; raises ``NotCovered`` for what no network has."""
        q, k, v = self._rows(self.q), self._rows(self.k, self.turned), self._rows(self.v)
        taken = [(one.product.index, int(row)) for one in (q, k, v) for row in one.rows.unique()]
        if len(set(taken)) != len(taken) or len(q.rows.unique()) != q.rows.numel():
            raise self._refused("rows of matrices that queries, keys or values share", "rows of their own")
        if q.normed != k.normed or v.normed or v.turn is not None or not _same_turns(q.turn, k.turn):
            raise self._refused("norms or rotations of queries without keys, or of values", "those of both, or none")
        merged = self.segment([self.out], self.into)
        heads = len(q.rows)
        out = merged.draw(self.out)
        joined = out.reshape(self.batch, heads, self.positions, self.size).transpose(1, 2)
        if not same(merged(out), joined):
            raise self._refused(f"{merged} between heads and the last matrix", "heads beside each other")
        scale, causal, beside, table = self._scores(len(k.rows))
        power, factor = self._power(scale * q.factor * k.factor, q.normed)
        shared = self._shared(k.rows, v.rows, heads)
        left_out = {**q.left_out, **k.left_out, **v.left_out, **merged.left_out, **beside}
        options = dict(head_dim=self.size, inner=heads * self.size, positions=self.positions, causal=causal,
                       scale_power=power, qk_norm=q.normed, queries_per_key=shared)
        if q.turn is not None:
            options["rotation"] = self._rotation(q.turn)
        if table is not None:
            options["score_table"] = table
        made = {"Wq": q.product, "Wk": k.product, "Wv": v.product, "last": self.last}
        return BlockInside("attention", options, made, {"Wq": factor, "Wv": v.factor}, left_out)

    def _refused(self, got: str, expected: str) -> NotCovered:
        return NotCovered(f"{self.weights.place}: got {got}; expected {expected}, as in a tp.Transformer")

    def _ahead(self, number: int) -> Op:
        """The product of the weights with values."""
        graph, front = self.network.graph, [number]
        while front:
            for op in graph.readers.get(front.pop(), []):
                if op.name in CONTRACTIONS:
                    return op
                front += op.outputs if op.name in MOVES else ()
        raise self._refused("weights that multiply no values", "softmax attention")

    def _back(self, number: int) -> Op:
        """The product of queries and keys that scores are made of."""
        ops = [self.network.tape.ops[i] for i in sorted(self.network.graph.cone(number, {self.products.stream}))[::-1]]
        found = next((op for op in ops if op.name in CONTRACTIONS), None)
        if found is None:
            raise self._refused("scores that are no products", "softmax attention")
        return found

    def _by_head(self, value: Tensor, turned: bool = False) -> Tensor:
        """Values of the shape (batch, heads, positions, head_dim)."""
        shape = (self.size, self.positions) if turned else (self.positions, self.size)
        found = value.reshape(self.batch, -1, *shape)
        return found.transpose(2, 3) if turned else found

    def _product(self, number: int) -> Op:
        """The product with a matrix that queries, keys or values are made of."""
        found = self.products.behind(number)
        if len(found) != 1:
            raise self._refused(f"queries, keys or values of {len(found)} matrices", "one each")
        return found[0]

    def _rows(self, number: int, turned: bool = False) -> HeadRows:
        product = self._product(number)
        start = product.output
        whole = self.segment([start], number)
        parts, normed = [whole], bool(whole.norms)
        if normed:
            norm = whole.norms[0]
            parts = [self.segment([start], norm.x), self.segment([norm.op.output], number)]
        count = self.network.tape.shape(start)[-1]

        def through(value: Tensor) -> Tensor:
            for part in parts:
                value = part(value)
            return self._by_head(value, turned)

        tokens = torch.ones(self.batch * self.positions, count, dtype=torch.float64)
        first = through(tokens)[:, :, 0]  # which rotations leave as it is
        factor = float(first.mean())
        rows = (through(tokens * (1 + torch.arange(count)))[0, :, 0] / (factor or 1.0) - 1).round().long()
        if factor <= 0 or not same(first, torch.full_like(first, factor)) or not (
                (rows >= 0).all() and (rows < count).all()):
            raise self._refused(f"{whole} between a matrix and heads", "rows of the matrix")
        rotated = False
        for tails in (False, True):
            value = whole.draw(start, tails=tails)
            expected = value.reshape(self.batch, self.positions, count)[..., rows].transpose(1, 2)
            expected = factor * (NORM_VALUES["rms"](expected) if normed else expected)
            found = self._by_head(whole(value), turned)
            rotated |= not same(found, expected)
            if not rotated or same(found.norm(dim=-1), expected.norm(dim=-1)) and self._is_linear(parts[-1]):
                continue
            raise self._refused(f"{whole} between a matrix and heads", "rows of the matrix, divided by their root mean "
                                "square over the head or not, rotated within the head or not")
        gains = {use.parameter: "gain of queries or keys" for use in whole.gains}
        turn = self._turn(through, rows, count, factor) if rotated else None
        return HeadRows(product, rows, factor, normed, turn, {**whole.left_out, **gains})

    def _turn(self, through: Callable[[Tensor], Tensor], rows: Tensor, count: int, factor: float) -> Tensor:
        """What every position multiplies a head's coordinates by."""
        columns = []
        for coordinate in range(self.size):
            token = torch.zeros(count, dtype=torch.float64)
            token[rows[:, coordinate]] = 1 / factor
            found = through(token.expand(self.batch * self.positions, count))
            columns.append(found[0, 0])
            if not same(found, columns[-1].expand_as(found)):
                raise self._refused("rotations that differ by head", "the same in all heads")
        return torch.stack(columns, dim=-1)

    def _rotation(self, turn: Tensor) -> float | tuple[float, ...]:
        """The angles of a network's rotation, or the base that they are of. Its pairs of coordinates are j and j + d/2
        whichever these are in the model: which row of a head is which is no matter of the network."""
        positions, size = turn.shape[:2]
        off = turn - torch.diag_embed(turn.diagonal(dim1=1, dim2=2))
        partner = off.abs().sum(0).argmax(0)
        turned = off.abs().sum(0).max(0).values > CLOSE
        pairs = [(i, int(j)) for i, j in enumerate(partner) if turned[i] and i < j]
        angles = [float(torch.atan2(turn[1, j, i], turn[1, i, i])) for i, j in pairs]
        expected = torch.eye(size, dtype=turn.dtype).repeat(positions, 1, 1)
        for (i, j), angle in zip(pairs, angles):
            for p in range(positions):
                cosine, sine = math.cos(p * angle), math.sin(p * angle)
                expected[p][[i, i, j, j], [i, j, i, j]] = turn.new_tensor([cosine, -sine, sine, cosine])
        if size % 2 or not same(turn, expected):
            raise self._refused("queries and keys multiplied by matrices that positions have",
                                "rotations of pairs of coordinates by multiples of the position")
        angles = [as_written(angle) for angle in angles] + [0.0] * (size // 2 - len(angles))
        base = round(angles[1] ** (-size / 2), 6) if len(angles) > 1 and angles[1] > 0 else 0
        base = round(base) if isclose(base, round(base), rel_tol=1e-4) else base
        rotary = [base ** (-2 * j / size) for j in range(len(angles))] if base else []
        return float(base) if rotary and np.allclose(angles, rotary, rtol=10 * ROUNDED, atol=0) else tuple(angles)

    @staticmethod
    def _is_linear(part: Segment) -> bool:
        one, two = (part.draw(part.starts[0], seed) for seed in (1, 2))
        return same(part(one + two), part(one) + part(two))

    def _scores(self, keys: int) -> tuple[float, bool, dict[str, str], TableValues | None]:
        """The scale of scores, whether they are masked causally, what is left out of what is added to them, and the
        table that is; all of it tested."""
        core = self.segment([self.q, self.k, self.v], self.out, tables=True)
        q, k, v = (core.draw(number, seed) for seed, number in enumerate(core.starts))
        by_head = [self._by_head(q), self._by_head(k, self.turned), self._by_head(v)]
        heads = by_head[0].shape[1]
        by_head[1:] = [one.repeat_interleave(heads // one.shape[1], dim=1) for one in by_head[1:]]
        products = by_head[0] @ by_head[1].transpose(2, 3)
        scale, table = self._measured(q, k, products)
        allowed = table > MASKED
        lower = torch.ones(self.positions, self.positions, dtype=torch.bool).tril()
        causal = bool((allowed == lower).all())
        if not (causal or bool(allowed.all())) or self.positions < 2:
            raise self._refused("a mask, or a batch, of which every position reads neither all nor all earlier ones",
                                "causal masks, none, and batches of several positions")
        expected = torch.softmax((scale * products + table).masked_fill(~allowed, float("-inf")), -1) @ by_head[2]
        if not same(core(q, k, v), expected):
            raise self._refused(f"{core} of queries, keys and values", "softmax attention")
        beside = {name: TRAINED if kind == "table" else kind for name, kind in core.left_out.items()}
        table = torch.where(allowed, table - table.diagonal(dim1=-2, dim2=-1)[..., None], 0)  # which softmax forgets
        if same(table + 1, torch.ones_like(table)):
            return scale, causal, beside, None
        if self.network.tape.on_meta or not same(table, table[:1].expand_as(table)):
            return scale, causal, {**beside, self.weights.place: TABLE}, None
        alike = same(table[0], table[0, :1].expand_as(table[0]))
        return scale, causal, beside, TableValues(table[0, :1 if alike else None].numpy())

    def _measured(self, q: Tensor, k: Tensor, products: Tensor) -> tuple[float, Tensor]:
        """The factor of products in scores, and what is added to them, of which masks are a part."""
        positions = torch.ones(self.positions, self.positions, dtype=torch.float64)
        if not self.turned:
            positional, named = self.weights.arguments
            given = named.get("scale")
            is_causal = any(one is True for one in (*positional, named.get("is_causal")))
            mask = positional[3] if len(positional) > 3 else None
            numbers = [getattr(one, "number", -1) for one in (mask, named.get("attn_mask"))]
            table = next((self.network.tape.values[one].detach() for one in numbers if one >= 0), positions * 0)
            if table.dtype == torch.bool:
                table = torch.zeros(table.shape, dtype=torch.float64).masked_fill(~table, float("-inf"))
            table = table.double() if not is_causal else table.double().masked_fill(positions.tril() == 0,
                                                                                    float("-inf"))
            return float(given) if isinstance(given, (int, float)) else self.size**-0.5, table.expand_as(products)
        scores = self.segment([self.q, self.k], self.scores, tables=True)
        table = scores(q * 0, k * 0).reshape(products.shape)
        allowed = table > MASKED
        first, large = (factor_between(products[allowed], (scores(q * size, k).reshape(products.shape) - table)[
            allowed] / size) for size in (1.0, LARGE**2))  # of large ones, too, which a function may cut off
        scale = first if first and large and isclose(first, large, rel_tol=CLOSE) else None
        if scale is None:
            raise self._refused(f"{scores} between products and weights", "a scale, a mask and a table of scores")
        return scale, table

    def _power(self, scale: float, normed: bool) -> tuple[sp.Expr, float]:
        """The power of a head's size that scores are divided by, and what is left of their scale."""
        for power in SCALES:
            if abs(scale * self.size**float(power) - 1) < 1e-6:
                return power, 1.0
        if normed:
            raise self._refused(f"scores of normed queries and keys times {scale:.4g}",
                                f"1/{self.size} or 1/sqrt({self.size})")
        return SCALES[0], scale * self.size**0.5

    def _shared(self, keys: Tensor, values: Tensor, heads: int) -> int:
        """How many query heads share a key and a value."""
        each = heads // len(keys)
        of_key, of_value = ([tuple(map(int, rows)) for rows in one.repeat_interleave(heads // len(one), dim=0)]
                            for one in (keys, values))
        if len(set(zip(of_key, of_value))) != len(set(of_key)) or len(set(of_key)) != len(set(of_value)):
            raise self._refused("heads that share a key and no value", "heads that share both")
        counts = {of_key.count(one) for one in set(of_key)}
        if len(counts) != 1:
            raise self._refused("keys that different numbers of heads share", "the same number for all")
        return max(each, *counts)


def _same_turns(one: Tensor | None, other: Tensor | None) -> bool:
    return one is other if one is None or other is None else same(one, other)
