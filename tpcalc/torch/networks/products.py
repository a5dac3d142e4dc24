"""Products with the matrices of a branch: what they read, and what a tensor is made of by way of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Mapping

from ...errors import NotCovered
from ..reading.network import RecordedNetwork
from ..reading.roles import Role
from ..reading.tape import Op
from ..reading.uses import Use

PLAIN = frozenset("mm addmm linear".split())  # products with a matrix from its input axis to its output axis
SHAPES = frozenset("view _unsafe_view reshape alias".split())  # which keep the last axis where it is as long


@dataclass(frozen=True)
class BlockInside:
    """What a branch has between the stream and its last matrix. kind: "attention", "mlp" or "glu"; options: as
    ``tp.Transformer`` and ``tp.ResNet`` have them; products: {matrix of the network: operation}, the last one as
    "last"; multipliers: by matrix; left_out: {parameter or module: what it is}."""

    kind: str
    options: Mapping[str, object]
    products: Mapping[str, Op]
    multipliers: Mapping[str, float] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BranchProducts:
    """The products of a branch that reads the tensor ``stream``. refused: makes an error of what was got, and what
    was expected."""

    network: RecordedNetwork
    roles: Mapping[str, Role]
    stream: int
    refused: Callable[[str, str], NotCovered]

    def matrix(self, op: Op) -> Use:
        """The matrix of a product, which is one parameter as it is, of an input axis and an output axis."""
        use, *others = [use for use in self.network.uses if use.op.index == op.index and use.how == "matrix"]
        role, shape = self.roles[use.parameter], self.network.tape.shape
        if others or use.through or op.name not in PLAIN or op.arguments[1] or sorted(role.shape) != sorted(
                (shape(_input(op))[-1], shape(op.output)[-1])) or len(
                    self.network.uses_of(use.parameter)) != 1 or role.note not in ("", "as given"):
            raise self.refused(f"{use.parameter} ({role}), read as {use}",
                               "matrices that are parameters by themselves, each used once")
        return use

    def bias(self, op: Op) -> str | None:
        """The parameter that is added to what a product returns, one number for every entry, as it is and there alone;
        or None."""
        found = self._biases(op)
        alike = len(found) == 1 and self.network.tape.shapes[found[0].parameter] == (self.sides(op)[1],)
        return found[0].parameter if alike and is_alone(self.network, found[0]) else None

    def biases_left_out(self, op: Op) -> list[str]:
        """Other parameters that are added to a product."""
        return [use.parameter for use in self._biases(op) if use.parameter != self.bias(op)]

    def _biases(self, op: Op) -> list[Use]:
        """What a product adds by itself, or else the sum that alone reads it."""
        readers = self.network.graph.readers
        last, added = op, list[Use]()
        while last is op or last.name in SHAPES:
            added = [use for use in self.network.uses if use.op.index == last.index and use.how == "bias"]
            if added or len(readers.get(last.output, [])) != 1:
                return added
            last, = readers[last.output]
        if last.name != "add" or last.numbers() or self.network.tape.shape(last.output)[-1:] != self.sides(op)[1:]:
            return []
        return [use for use in self.network.uses if use.op.index == last.index and use.how == "bias"]

    def input(self, op: Op) -> int:
        """The number of what a product multiplies its matrix with."""
        self.matrix(op)
        return _input(op)

    def sides(self, op: Op) -> tuple[int, int]:
        """Lengths of what a product reads and returns."""
        return self.network.tape.shape(self.input(op))[-1], self.network.tape.shape(op.output)[-1]

    def behind(self, number: int) -> list[Op]:
        """The products that a tensor is computed from; none where it is computed from the stream itself.

        Raises ``NotCovered`` where it is from both, and for what is computed from other numbers of the batch.
        """
        graph, found, reached = self.network.graph, dict[int, Op](), False
        front, seen = [number], set[int]()
        matrices = {use.op.index for use in self.network.uses if use.how == "matrix"}
        while front:
            one = front.pop()
            if one in seen:
                continue
            seen.add(one)
            op = graph.tape.maker(one)
            reached |= one == self.stream
            if one == self.stream or op is None and not graph.tape.is_floating(one):
                continue
            if op is None:
                raise self.refused(f"{graph.readers[one][0].place}, which reads the batch beside the stream",
                                   "branches of the stream")
            if op.index in matrices:
                found[op.index] = op
            else:
                front += graph.activations(op)
        if reached and found:
            raise self.refused("a function of the stream and of products with matrices", "one of both")
        return [found[index] for index in sorted(found)]


def is_alone(network: RecordedNetwork, use: Use) -> bool:
    """Is a parameter read as it is, and nowhere else?"""
    return not use.through and len(network.uses_of(use.parameter)) == 1


def _input(op: Op) -> int:
    return op.argument(1 if op.name == "addmm" else 0)
