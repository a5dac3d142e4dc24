"""What a model has in front of its stream and behind it, beside the embedding's and the readout's matrix."""

from __future__ import annotations

from typing import Mapping

from ...errors import NotCovered
from .functions import NORM_VALUES, Phi, activation_between
from ..reading.kinds_of_ops import MOVES, SUMS
from ..reading.network import RecordedNetwork
from ..reading.roles import Role
from .segments import Segment, factor_between
from ..reading.stream import ResidualStream
from ..reading.tape import Op

HOW = {"gather": "rows looked up"}
AVERAGES = frozenset(["mean", "sum"])  # of positions, which no output of a network is made of


def before_stream(recorded: RecordedNetwork, stream: ResidualStream) -> list[str]:
    """What stands in front of the stream besides matrices and sums, a sentence each."""
    found = []
    for op in recorded.tape.ops:
        if recorded.places.get(op.index) != ("in", stream.index, -1) or not recorded.graph.is_activation(op.output):
            continue
        uses = [use for use in recorded.uses if use.op.index == op.index]
        found += [f"{use.parameter}, {HOW.get(use.how, use.how)} in front of the stream" for use in uses
                  if use.how != "matrix"]
        if not uses and op.call is not None and op.name not in MOVES | SUMS:
            found.append(f"{op.place}, in front of the stream")
    return found


def after_stream(recorded: RecordedNetwork, roles: Mapping[str, Role], stream: ResidualStream) -> tuple[Phi, list[str]]:
    """The activation that the readout acts on, and what else stands behind the stream, a sentence each."""
    tape, x = recorded.tape, stream.path.values[stream.last + 1]
    matrices = {use.op.index for use in recorded.uses if use.how == "matrix"}
    heads = [k for k, index in enumerate(stream.path.ops) if k > stream.last and index in matrices]
    if not heads:
        return "linear", ["no readout"]
    head, into = tape.ops[stream.path.ops[heads[0]]], stream.path.values[heads[0]]
    found = [f"{use.parameter}, bias" for use in recorded.uses if use.how == "bias" and use.op.index == head.index]
    phi: Phi | None = None
    try:
        segment = Segment(recorded, roles, [x], into)
        value, read = pair = (drawn := segment.draw(x)), segment(drawn)
        large = segment.draw(x, tails=True)
        phi = None if segment.norms else activation_between(pair, (large, segment(large)))
        norm = next((name for name, normed in NORM_VALUES.items() if name and factor_between(
            normed(value), read)), None) if value.numel() == read.numel() else None
        if phi is None:
            found.insert(0, f"{f'{norm} norm' if norm else segment} behind the stream")
    except NotCovered:
        found.insert(0, f"{_named([tape.ops[i] for i in sorted(recorded.graph.cone(into, {x}))])} behind the stream")
    rest = _named([tape.ops[i] for i in stream.path.ops[heads[0] + 1:]])
    return "linear" if phi is None else phi, [*found, *([f"{rest} behind the readout"] if rest else [])]


def _named(ops: list[Op]) -> str:
    return ", ".join(dict.fromkeys(op.name for op in ops if op.call is not None and op.name not in MOVES - AVERAGES))
