"""What a branch computes, read as a block of a network: which matrices, functions and norms, tested by numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from math import isclose, prod
from typing import Mapping

import torch
from torch import Tensor

from ...errors import NotCovered
from .functions import NORM_VALUES, Phi, activation_between
from .heads import AttentionReader
from .kinds_of_ops import ATTENTIONS
from .network import RecordedNetwork
from .roles import Role
from .segments import Segment, factor_between, same, sources
from .stream import StreamBranch
from .tape import Op
from .uses import Use

PLAIN = frozenset("mm addmm linear".split())  # products with a matrix from its input axis to its output axis
BEHIND = "branch"  # what is multiplied, where a norm stands behind the last matrix
CLOSE = 1e-5  # relative, of numbers that multiply, in layers that are alike
FULL = (torch.float32, torch.float64)


@dataclass(frozen=True)
class BlockRead:
    """A branch as a block. kind: "attention", "mlp", "glu" or "preactivated", with options; norm, position, gains,
    keep: what is around it, as ``tp.ResNet`` names it; multipliers: {matrix: what multiplies its product}; matrices:
    {matrix of the network: parameter}; left_out: {parameter or operation: what it is}."""

    kind: str
    options: tuple[tuple[str, object], ...]
    norm: str | None
    position: str
    gains: bool
    keep: float = field(compare=False)
    multipliers: Mapping[str, float] = field(compare=False)
    matrices: Mapping[str, str] = field(compare=False)
    left_out: Mapping[str, str] = field(compare=False)

    def is_like(self, other: BlockRead) -> bool:
        """Is another branch the same but for its parameters?"""
        return self == other and isclose(self.keep, other.keep, rel_tol=CLOSE) and all(
            isclose(one, other.multipliers[name], rel_tol=CLOSE) for name, one in self.multipliers.items())

    def __str__(self) -> str:
        numbers = {**self.multipliers, "keep": self.keep}
        return " ".join([self.kind, *(f"{name}={value}" for name, value in self.options), f"norm={self.norm}",
                         self.position, f"gains={self.gains}", *(f"{name}={one:.6g}" for name, one in numbers.items())])


class BranchReader:
    """Reads one branch of a stream. x: number of the stream's tensor that it reads; y: of that which the next branch,
    or what stands behind, reads."""

    def __init__(self, network: RecordedNetwork, roles: Mapping[str, Role], branch: StreamBranch, x: int,
                 y: int) -> None:
        self.network, self.branch, self.x, self.y = network, branch, x, y
        self.segment = partial(Segment, network, roles)
        self.roles = roles
        self.segments: list[Segment] = []
        self.width = network.tape.shape(x)[-1]
        if network.tape.layouts[x].dtype not in FULL:
            raise NotCovered(f"make: got a model in {network.tape.layouts[x].dtype}; expected one in float32 or "
                             "float64, in which functions are told apart")

    def read(self) -> BlockRead:
        """The block; raises ``NotCovered`` for what no block of a network is, naming operation and module."""
        products, reached = sources(self.network, self.branch.end, self.x)
        if len(products) != 1 or reached:
            raise self._refused(f"a branch that ends in {len(products)} products at once", "one matrix at its end")
        last = products[0]
        keep, factor, after, position = self._added(last.output)
        hidden, reached = sources(self.network, self._input(last), self.x)
        ops = [self.network.tape.ops[i] for i in self.network.graph.cone(
            self._input(last), {self.x, *(one.output for one in hidden)})]
        weights = [op for op in ops if op.name in ATTENTIONS or "softmax" in op.name]
        if reached and hidden:
            raise self._refused("a matrix of the stream and of products with matrices", "one of both")
        if len(weights) == 1 and hidden:
            kind, options, made, multipliers, left_out = self._attention(last, weights[0])
        else:
            kind, options, made, multipliers, left_out = self._perceptron(last, hidden)
        before, inner = self._before([op for name, op in made.items() if name not in ("Wo", "last")] or [last])
        if inner != "linear":
            if kind != "mlp" or len(made) > 1 and options["phi"] != inner:
                raise self._refused(f"an activation {inner} in front of its first matrices", "none there")
            kind, options = "preactivated", {**options, "phi": inner}
        norm, where = self._position(before, after, position)
        multipliers[BEHIND if after and position == "output" else "Wo" if kind == "attention" else "last"] = factor
        gains = self._gains(before, after)
        return BlockRead(kind, tuple(sorted(options.items())), norm, where, gains, keep, multipliers,
                         {name: self._matrix(op).parameter for name, op in made.items()},
                         {**left_out, **self._left_out(made)})

    def _refused(self, got: str, expected: str) -> NotCovered:
        return NotCovered(f"branch {self.branch.index} ({self.branch.add.place}): got {got}; expected {expected}, as "
                          "blocks of networks have it")

    def _piece(self, starts: list[int], end: int) -> Segment:
        self.segments.append(self.segment(starts, end))
        return self.segments[-1]

    def _matrix(self, op: Op) -> Use:
        """The matrix of a product, which is one parameter as it is, of an input axis and an output axis."""
        uses = [use for use in self.network.uses if use.op.index == op.index and use.how == "matrix"]
        use = uses[0]
        role = self.roles[use.parameter]
        if len(uses) != 1 or use.through or op.name not in PLAIN or op.arguments[1] or len(role.shape) != 2 or len(
                self.network.uses_of(use.parameter)) != 1 or role.note not in ("", "as given"):
            raise self._refused(f"{use.parameter} ({role}), read as {use}",
                                "matrices that are parameters by themselves, each used once")
        return use

    def _input(self, op: Op) -> int:
        """The number of what a product multiplies its matrix with."""
        self._matrix(op)
        return op.argument(1 if op.name == "addmm" else 0)

    def _sides(self, op: Op) -> tuple[int, int]:
        """Lengths of what a product reads and returns."""
        return self.network.tape.shape(self._input(op))[-1], self.network.tape.shape(op.output)[-1]

    def _added(self, last: int) -> tuple[float, float, str | None, str]:
        """What multiplies the stream and the last product where they are added, and the norm behind the product, or
        behind both."""
        joined = self._piece([self.x, last], self.y)
        for large in (False, True):  # of the stream, beside a branch that is large
            x, b = joined.draw(self.x, 1, large), joined.draw(last, 2)
            if b.numel() != x.numel():
                raise self._refused("a branch of another shape than the stream", "one for every coordinate of it")
            b = b.reshape(x.shape)
            both, other = joined(x, b).reshape(x.shape), joined(x, -b).reshape(x.shape)
            alone, added = (both + other) / 2, (both - other) / 2  # for norms are odd
            keep = factor_between(x, alone)
            for norm, normed in NORM_VALUES.items():
                factor = factor_between(normed(b), added)
                if keep and factor is not None and factor > 0 and same(both, keep * x + factor * normed(b)):
                    return keep, factor, norm, "output" if norm else "pre"
                if large and norm is not None and same(both, normed(x + b)):
                    return 1.0, 1.0, norm, "post"
        raise self._refused(f"{joined} between a branch, the stream and what follows", "x + b, times numbers, or a "
                            "norm of b or of the sum")

    def _before(self, products: list[Op]) -> tuple[str | None, Phi]:
        """The norm of the stream that first matrices read, and an activation behind it."""
        found: dict[tuple[str | None, str], tuple[str | None, Phi]] = {}
        for op in {op.index: op for op in products}.values():
            front = self._piece([self.x], self._input(op))
            x = front.draw(self.x)
            z = front(x)
            if z.shape[-1] != self.width:
                raise self._refused(f"{front} in front of its first matrix", "one input for every coordinate")
            for norm, normed in NORM_VALUES.items():
                if bool(norm) == bool(front.norms) and (phi := activation_between(normed(x), z)) is not None:
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

    def _gains(self, before: str | None, after: str | None) -> bool:
        """Are norms of what is read and of what is added followed by gains, one of each coordinate?"""
        front = [one.gains for one in self.segments if one.starts == (self.x,)]
        joined = [one.gains for one in self.segments if one.end == self.y and one.starts != (self.x,)]
        gains = [*(front if before else []), *(joined if after else [])]
        sizes = {prod(self.network.tape.shapes[use.parameter]) for own in gains for use in own}
        of_norm = {tuple(use.parameter for use in own) for own in front}
        if len(set(map(len, gains))) > 1 or any(len(own) > 1 for own in gains) or len(of_norm) > 1 or sizes - {
                self.width}:
            raise self._refused("gains of some of its norms, or several, or of several coordinates together",
                                "one gain of each coordinate behind every norm, or none")
        return bool(sizes)

    def _attention(self, last: Op, weights: Op) -> tuple[str, dict[str, object], dict[str, Op], dict[str, float],
                                                         dict[str, str]]:
        reader = AttentionReader(self.network, self.roles, self.x, self._input(last), weights)
        found = reader.read()
        return "attention", dict(found.options), {**found.products, "Wo": last}, dict(found.multipliers), dict(
            found.left_out)

    def _perceptron(self, last: Op, hidden: list[Op]) -> tuple[str, dict[str, object], dict[str, Op],
                                                               dict[str, float], dict[str, str]]:
        """A chain of matrices with one activation, or a gated one."""
        if self._sides(last)[1] != self.width:
            raise self._refused("a last matrix of another width than the stream", "one as wide")
        if not hidden:
            return "mlp", {"matrices": 1, "phi": "linear"}, {"last": last}, {}, {}
        ratio = Fraction(self._sides(last)[0], self.width)
        gated = self._gate(last, hidden)
        if gated is not None:
            phi, products = gated
            return "glu", {"phi": phi, "ratio": ratio}, {**products, "last": last}, {}, {}
        chain, phis, factor = [last], list[Phi](), 1.0
        while hidden:
            if len(hidden) != 1:
                raise self._refused(f"{len(hidden)} products that one matrix reads", "one, or gate and value of a glu")
            between = self._piece([hidden[0].output], self._input(chain[-1]))
            h = between.draw(hidden[0].output)
            z = between(h)
            linear = factor_between(h, z)
            phi = "linear" if linear is not None and linear > 0 else activation_between(h, z)
            if phi is None:
                raise self._refused(f"{between} between two matrices", "an activation that is known")
            factor *= linear if phi == "linear" and linear is not None else 1.0
            phis.append(phi)
            chain.append(hidden[0])
            hidden, reached = sources(self.network, self._input(chain[-1]), self.x)
            if reached and hidden:
                raise self._refused("a matrix of the stream and of products with matrices", "one of both")
        if len(set(map(str, phis))) != 1 or abs(factor - 1) > 1e-6:
            raise self._refused("different functions between its matrices", "one activation")
        widths = {self._sides(op)[1] for op in chain[1:]}
        if len(chain) > 2 and widths != {self.width}:
            raise self._refused(f"{len(chain)} matrices of hidden widths {sorted(widths)}", "those of the stream")
        made = {f"W{i}": op for i, op in enumerate(chain[:0:-1], 1)}
        return "mlp", {"matrices": len(chain), "phi": phis[0], "ratio": ratio}, {**made, "last": last}, {}, {}

    def _gate(self, last: Op, hidden: list[Op]) -> tuple[Phi, dict[str, Op]] | None:
        """phi and the products of a glu, W1 that of the gate; None where it is none."""
        into = self._input(last)
        piece = self.segment([op.output for op in hidden], into)
        size = self._sides(last)[0]
        shapes = [self._sides(op)[1] for op in hidden]
        if shapes not in ([size, size], [2 * size]):
            return None
        self.segments.append(piece)
        h = piece.draw(hidden[0].output).reshape(-1, shapes[0])[:, :size]
        v = piece.draw(hidden[-1].output, 1).reshape(-1, shapes[0])[:, -size:]
        for gate_first in (True, False):
            phi = activation_between(h, self._glued(piece, h, torch.ones_like(h), gate_first))
            if phi is None:
                continue
            gate = self._glued(piece, h, torch.ones_like(h), gate_first)
            if not same(self._glued(piece, h, v, gate_first).reshape(h.shape), gate.reshape(h.shape) * v):
                continue
            first, second = (hidden * 2)[:2] if gate_first else (hidden * 2)[:2][::-1]
            return phi, {"W1": first, "W2": second}
        raise self._refused(f"{piece} of two products", "phi(h) v, with an activation phi that is known")

    @staticmethod
    def _glued(piece: Segment, h: Tensor, v: Tensor, gate_first: bool) -> Tensor:
        pair = (h, v) if gate_first else (v, h)
        return piece(*pair) if len(piece.starts) == 2 else piece(torch.cat(pair, -1))

    def _left_out(self, made: Mapping[str, Op]) -> dict[str, str]:
        """Biases of products and of what stands between them."""
        found = {use.parameter: "bias" for use in self.network.uses for op in made.values()
                 if use.op.index == op.index and use.how == "bias"}
        for piece in self.segments:
            found.update(piece.left_out)
        return found
