"""What a branch computes, read as a network's block: perceptrons, gates, functions and norms, tested by numbers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from math import isclose, prod
from typing import Callable, Mapping, Sequence

import torch
from torch import Tensor

from ...errors import NotCovered
from ...models.networks import OF_NORMS
from ..reading.kinds_of_ops import ATTENTIONS
from ..reading.network import RecordedNetwork
from ..reading.roles import Role
from ..reading.stream import StreamBranch
from ..reading.tape import Op
from .functions import NORM_VALUES, Phi, activation_between
from .heads import AttentionReader
from .products import BlockInside, BranchProducts
from .segments import CLOSE, Segment, factor_between, same

Pieces = Callable[[list[int], int], Segment]


def read_perceptron(products: BranchProducts, piece: Pieces, last: Op, width: int) -> BlockInside:
    """What a branch without attention computes. piece: makes a segment of what is between two tensors.

    Raises ``NotCovered`` for functions that no activation is, and for different ones.
    """
    hidden = products.behind(products.input(last))
    if products.sides(last)[1] != width:
        raise products.refused("a last matrix of another width than the stream", "one as wide")
    if not hidden:
        return BlockInside("mlp", {"matrices": 1, "phi": "linear"}, {"last": last})
    ratio, chain, phis = Fraction(products.sides(last)[0], width), [last], list[Phi]()
    if (sizes := [products.sides(op)[1] for op in hidden]) in ([products.sides(last)[0]] * 2,
                                                               [2 * products.sides(last)[0]]):
        phi, gated = _gate(products, piece, last, hidden, sizes)
        return BlockInside("glu", {"phi": phi, "ratio": ratio}, {**gated, "last": last})
    while hidden:
        if len(hidden) != 1:
            raise products.refused(f"{len(hidden)} products that one matrix reads", "one, or gate and value of a glu")
        between = piece([hidden[0].output], products.input(chain[-1]))
        values = [between.draw(hidden[0].output, tails=tails) for tails in (False, True)]
        phi = activation_between(*((h, between(h)) for h in values))
        if phi is None:
            raise products.refused(f"{between} between two matrices", "an activation that is known")
        phis.append(phi)
        chain.append(hidden[0])
        hidden = products.behind(products.input(chain[-1]))
    if len(set(map(str, phis))) != 1:
        raise products.refused("different functions between its matrices", "one activation")
    widths = {products.sides(op)[1] for op in chain[1:]}
    if len(chain) > 2 and widths != {width}:
        raise products.refused(f"{len(chain)} matrices of hidden widths {sorted(widths)}", "those of the stream")
    return BlockInside("mlp", {"matrices": len(chain), "phi": phis[0], "ratio": ratio},
                       {**{f"W{i}": op for i, op in enumerate(chain[:0:-1], 1)}, "last": last})


def _gate(products: BranchProducts, piece: Pieces, last: Op, hidden: list[Op],
          sizes: list[int]) -> tuple[Phi, dict[str, Op]]:
    """phi and the products of phi(h) v, W1 that of the gate; two products, or halves of one."""
    between, size = piece([op.output for op in hidden], products.input(last)), products.sides(last)[0]
    h, large = (between.draw(hidden[0].output, tails=tails).reshape(-1, sizes[0])[:, :size] for tails in (False, True))
    v = between.draw(hidden[-1].output, 1).reshape(-1, sizes[-1])[:, -size:]

    def glued(gate: Tensor, value: Tensor) -> Tensor:
        pair = (gate, value) if gate_first else (value, gate)
        return (between(*pair) if len(hidden) == 2 else between(torch.cat(pair, -1))).reshape(h.shape)

    for gate_first in (True, False):
        gate, gates = (glued(one, torch.ones_like(h)) for one in (h, large))
        phi = activation_between((h, gate), (large, gates))
        if phi is not None and same(glued(h, v), gate * v) and same(glued(h, v**5), gate * v**5):
            first, second = (hidden * 2)[:2] if gate_first else (hidden * 2)[:2][::-1]
            return phi, {"W1": first, "W2": second}
    raise products.refused(f"{between} of two products", "phi(h) v, with an activation phi that is known")


MULTIPLIED = "branch"  # what is multiplied, where a norm stands behind the last matrix
LAST = {"mlp": "W2", "glu": "W3"}  # of perceptrons beside attention
OTHER_GAIN = "gain of a norm beside that of attention, which is the network's"
OTHER_BIAS = "bias of a norm beside that of attention, which is the network's"
FULL = (torch.float32, torch.float64)


@dataclass(frozen=True)
class BlockRead:
    """A branch as a block. kind: "attention", "mlp", "glu", "preactivated" or "parallel", with options; norm, position,
    gains, keep: what is around it, as ``tp.ResNet`` names it; multipliers: {matrix: what multiplies its product};
    biases: of products, by matrix, and of norms, ``OF_NORMS``; matrices: {matrix of the network: parameter}; biases_of:
    {matrix: parameter that is added to its product}; behind_norms: biases of norms, parameters; left_out: {parameter or
    operation: what it is}."""

    kind: str
    options: tuple[tuple[str, object], ...]
    norm: str | None
    position: str
    gains: bool
    biases: tuple[str, ...]
    keep: float = field(compare=False)
    multipliers: Mapping[str, float] = field(compare=False)
    matrices: Mapping[str, str] = field(compare=False)
    biases_of: Mapping[str, str] = field(compare=False)
    behind_norms: tuple[str, ...] = field(compare=False)
    left_out: Mapping[str, str] = field(compare=False)

    def is_like(self, other: BlockRead) -> bool:
        """Is another branch the same but for its parameters?"""
        return self == other and isclose(self.keep, other.keep, rel_tol=CLOSE) and all(
            isclose(one, other.multipliers[name], rel_tol=CLOSE) for name, one in self.multipliers.items())

    def __str__(self) -> str:
        numbers = {**self.multipliers, "keep": self.keep}
        return " ".join([self.kind, *(f"{name}={value}" for name, value in self.options), f"norm={self.norm}",
                         self.position, f"gains={self.gains}", f"biases={self.biases}",
                         *(f"{name}={one:.6g}" for name, one in numbers.items())])


class BranchReader:
    """Reads one branch of a stream, or two that read it at one point. x: number of the stream's tensor that they read;
    y: of that which the next branch, or what stands behind, reads."""

    def __init__(self, network: RecordedNetwork, roles: Mapping[str, Role], branches: Sequence[StreamBranch], x: int,
                 y: int) -> None:
        self.network, self.branches, self.x, self.y = network, branches, x, y
        self.products = BranchProducts(network, roles, x, self._refused)
        self.segment = partial(Segment, network, roles)
        self.segments: list[Segment] = []
        self.width = network.tape.shape(x)[-1]
        if network.tape.layouts[x].dtype not in FULL:
            raise NotCovered(f"make: got a model in {network.tape.layouts[x].dtype}; expected one in float32 or "
                             "float64, in which functions are told apart")

    def read(self) -> BlockRead:
        """The block; raises ``NotCovered`` for what no block of a network is, naming operation and module."""
        lasts = {op.index: op for branch in self.branches for op in self.products.behind(branch.end)}
        attending = sorted(lasts.values(), key=lambda op: not self._weights(op))
        if len(lasts) != 1 and [bool(self._weights(op)) for op in attending] != [True, False]:
            raise self._refused(f"a branch that ends in {len(lasts)} products at once", "one matrix at its end, or "
                                "attention and a perceptron beside each other")
        keep, factors, after, position = self._added([op.output for op in attending])
        parts = [self._part(last) for last in attending]
        before, inside = parts[0]
        multiplied = MULTIPLIED if after and position == "output" else "last"
        multipliers = {**inside.multipliers, multiplied: factors[0]}
        if len(parts) == 2:
            inside = self._beside(parts)
            multipliers = {**inside.multipliers, "Wo": factors[0], LAST[parts[1][1].kind]: factors[1]}
        norm, where = self._position(before, after, position)
        gains, beside = self._gains(before, after, len(parts) == 2)
        biases = {name: found for name, op in inside.products.items() if (found := self.products.bias(op))}
        of_norms, others = self._shifts(before, after, factors[0] if position == "output" else 1.0)
        everything = [inside.left_out, *(one.left_out for one in self.segments), {
            name: "bias" for op in inside.products.values() for name in self.products.biases_left_out(op)}]
        left_out = {name: kind for one in everything for name, kind in one.items()
                    if name not in (*of_norms, *biases.values())}
        return BlockRead(inside.kind, tuple(sorted(inside.options.items())), norm, where, gains,
                         (*sorted(biases), *[OF_NORMS] * bool(of_norms)), keep, multipliers,
                         {name: self.products.matrix(op).parameter for name, op in inside.products.items()}, biases,
                         of_norms, {**left_out, **beside, **others})

    def _part(self, last: Op) -> tuple[str | None, BlockInside]:
        """The norm in front of what ends in one matrix, and what that is."""
        inside = self._inside(last)
        made, kind, options = inside.products, inside.kind, dict(inside.options)
        first = [made.get("W1", last)] if kind == "mlp" else [op for op in made.values() if op is not last]
        before, phi = self._before(first)
        if phi != "linear":
            if kind != "mlp" or len(made) > 1 and options["phi"] != phi:
                raise self._refused(f"an activation {phi} in front of its first matrices", "none there")
            kind, options["phi"] = "preactivated", phi
        return before, replace(inside, kind=kind, options=options)

    def _beside(self, parts: Sequence[tuple[str | None, BlockInside]]) -> BlockInside:
        """Attention and a perceptron that read the stream behind one norm, or two of one kind."""
        (norm, attention), (other, mlp) = parts
        if norm != other or mlp.kind not in LAST or len(mlp.products) != int(LAST[mlp.kind][1]):
            raise self._refused(f"attention behind a norm {norm} beside {mlp.kind} of {len(mlp.products)} matrices "
                                f"behind {other}", "an mlp of 2 matrices or a glu, behind a norm of the same kind")
        own = {**mlp.products, LAST[mlp.kind]: mlp.products["last"]}
        made = {**attention.products, "Wo": attention.products["last"], **own}
        return BlockInside("parallel", {**attention.options, **mlp.options, "mlp": mlp.kind},
                           {name: op for name, op in made.items() if name != "last"},
                           {**attention.multipliers, **mlp.multipliers}, {**attention.left_out, **mlp.left_out})

    def _weights(self, last: Op) -> list[Op]:
        """What makes weights of attention between the stream and a last matrix."""
        into = self.products.input(last)
        ops = [self.network.tape.ops[i] for i in self.network.graph.cone(
            into, {self.x, *(op.output for op in self.products.behind(into))})]
        return [op for op in ops if op.name in ATTENTIONS or "softmax" in op.name]

    def _inside(self, last: Op) -> BlockInside:
        """What stands between the stream and the last matrix."""
        weights = self._weights(last)
        if len(weights) != 1:
            return read_perceptron(self.products, self._piece, last, self.width)
        return AttentionReader(self.products, last, weights[0]).read()

    def _refused(self, got: str, expected: str) -> NotCovered:
        first = self.branches[0]
        return NotCovered(f"branch {first.index} ({first.add.place}): got {got}; expected {expected}, as blocks of "
                          "networks have it")

    def _piece(self, starts: list[int], end: int) -> Segment:
        self.segments.append(self.segment(starts, end))
        return self.segments[-1]

    def _added(self, lasts: list[int]) -> tuple[float, tuple[float, ...], str | None, str]:
        """What multiplies the stream and last products where they are added, and the norm behind the product, or
        behind both."""
        joined = self._piece([self.x, *lasts], self.y)
        shape = self.network.tape.shape
        if any(prod(shape(last)) != prod(shape(self.x)) for last in lasts):
            raise self._refused("a branch of another shape than the stream", "one for every coordinate of it")
        for large in (False, True):  # of the stream, beside a branch that is large
            found, cut = (self._sum(joined, lasts, large, tails) for tails in (False, True))
            if found and cut and found[2:] == cut[2:] and all(map(
                    partial(isclose, rel_tol=CLOSE), (found[0], *found[1]), (cut[0], *cut[1]))):
                return found
        raise self._refused(f"{joined} between a branch, the stream and what follows", "x + b, times numbers, or a "
                            "norm of b or of the sum")

    def _sum(self, joined: Segment, lasts: list[int], large: bool, tails: bool
             ) -> tuple[float, tuple[float, ...], str | None, str] | None:
        """What ``_added`` returns, by drawn values; None where they are something else."""
        x = joined.draw(self.x, 1, large, tails)
        if len(lasts) > 1:
            return self._plain_sum(joined, x, [joined.draw(last, 2 + i, tails=tails) for i, last in enumerate(lasts)])
        b = joined.draw(lasts[0], 2, tails=tails).reshape(x.shape)
        both, other = joined(x, b).reshape(x.shape), joined(x, -b).reshape(x.shape)
        alone, added = (both + other) / 2, (both - other) / 2  # for norms are odd
        keep = factor_between(x, alone)
        for norm, normed in NORM_VALUES.items():
            factor = factor_between(normed(b), added)
            if keep and factor is not None and factor > 0:
                return keep, (factor,), norm, "output" if norm else "pre"
            if large and norm is not None and same(both, normed(x + b)):
                return 1.0, (1.0,), norm, "post"
        return None

    def _plain_sum(self, joined: Segment, x: Tensor, added: list[Tensor]
                   ) -> tuple[float, tuple[float, ...], str | None, str] | None:
        """As for one product, of several without norms behind them."""
        zeros = [0 * b for b in added]
        alone = joined(x, *zeros).reshape(x.shape)
        keep = factor_between(x, alone)
        factors = [factor_between(b, joined(0 * x, *zeros[:i], b, *zeros[i + 1:])) for i, b in enumerate(added)]
        if not keep or any(factor is None or factor <= 0 for factor in factors):
            return None
        known = tuple(factor for factor in factors if factor is not None)
        expected = keep * x + sum(factor * b.reshape(x.shape) for factor, b in zip(known, added))
        return (keep, known, None, "pre") if same(joined(x, *added), expected) else None

    def _before(self, products: list[Op]) -> tuple[str | None, Phi]:
        """The norm of the stream that first matrices read, and an activation behind it."""
        found: dict[tuple[str | None, str], tuple[str | None, Phi]] = {}
        for op in {op.index: op for op in products}.values():
            front = self._piece([self.x], self.products.input(op))
            pairs = [(x := front.draw(self.x, tails=tails), front(x)) for tails in (False, True)]
            if pairs[0][1].shape[-1] != self.width:
                raise self._refused(f"{front} in front of its first matrix", "one input for every coordinate")
            for norm, normed in NORM_VALUES.items():
                if bool(norm) == bool(front.norms) and (phi := activation_between(
                        *((normed(x), z) for x, z in pairs))) is not None:
                    found[norm, str(phi)] = norm, phi
                    break
            else:
                raise self._refused(f"{front} in front of its first matrix", "a norm and an activation that are known")
        if len(found) != 1:
            raise self._refused("first matrices that read different functions of the stream", "one function")
        return next(iter(found.values()))

    def _position(self, before: str | None, after: str | None, position: str) -> tuple[str | None, str]:
        """One norm, and where it stands."""
        if before is None or after is None:
            return before or after, position if before is None else "pre"
        if before != after or position == "post":
            raise self._refused(f"norms {before} in front and {after} behind", "norms of one kind around a branch")
        return before, "sandwich"

    def _gains(self, before: str | None, after: str | None, beside: bool) -> tuple[bool, dict[str, str]]:
        """Are norms of what is read and of what is added followed by gains, one of each coordinate? And gains that are
        left out: beside attention a perceptron may have a norm of its own."""
        front = [one.gains for one in self.segments if one.starts == (self.x,)]
        joined = [one.gains for one in self.segments if one.end == self.y and one.starts != (self.x,)]
        gains = [*(front if before else []), *(joined if after else [])]
        for use in (use for own in gains for use in own):
            if len(self.network.uses_of(use.parameter)) > 1:
                raise self._refused(f"{use.parameter}, which is the gain of several norms", "gains of their own")
        sizes = {prod(self.network.tape.shapes[use.parameter]) for own in gains for use in own}
        of_norm = list(dict.fromkeys(tuple(use.parameter for use in own) for own in front))
        if len(set(map(len, gains))) > 1 or any(len(own) > 1 for own in gains) or len(of_norm) > 1 + beside or sizes - {
                self.width}:
            raise self._refused("gains of some of its norms, or several, or of several coordinates together",
                                "one gain of each coordinate behind every norm, or none")
        return bool(sizes), {name: OTHER_GAIN for own in of_norm[1:] for name in own}

    def _shifts(self, before: str | None, after: str | None, factor: float) -> tuple[tuple[str, ...], dict[str, str]]:
        """The biases behind norms, where all have one that is added to what they make; and those of other norms beside
        attention, which are left out. factor: of what is added to the stream."""
        fronts = [one.added_behind(NORM_VALUES[before]) for one in self.segments if before and one.starts == (self.x,)]
        found = [*fronts, *([self.segments[0].added(factor)] if after else [])]
        first, *others = dict.fromkeys(fronts) or [None]
        if None in found:
            return (), {}
        return tuple(dict.fromkeys(map(str, found))), {str(name): OTHER_BIAS for name in others}
