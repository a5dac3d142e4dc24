"""What matrices of a layer read and make: vectors as wide as the stream, or as a hidden layer."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import sympy as sp

from ..models.network import Network
from ..programs.language import Matrix, MatVec, Mean, Transpose, Vector
from .carried import carried

STREAM, HIDDEN = "n", "m"  # widths
WHOLE = "attention"  # the kind of branch whose heads together are as wide as the stream


class Fans(NamedTuple):
    """reads, makes: ``STREAM`` or ``HIDDEN``."""

    reads: str
    makes: str


@lru_cache(maxsize=32)
def fans_of(net: Network) -> dict[str, Fans]:
    """By the name of a matrix or trained vector of a layer, as its program has them, what it reads and makes.

    Vectors that stand in one function of coordinates are equally wide. Those that are not so with a stream, through
    whatever is between them, are of a hidden layer; but in attention, whose heads are together as wide as the stream. A
    vector that numbers are read off with reads, and one that multiplies coordinates makes, what it stands beside.

    >>> import tpcalc as tp
    >>> fans_of(tp.ResNet("tanh", "glu"))
    {'W1': Fans(reads='n', makes='m'), 'W2': Fans(reads='n', makes='m'), 'W3': Fans(reads='m', makes='n')}
    """
    same = _Classes()
    streams = [f"vector {one.name}" for families in net.carried for one in families]
    same.join(*streams)
    for s in net.statements:
        made = [f"vector {s.target.name}"] if isinstance(s.target, Vector) else []
        same.join(*made, *_widths(s.value, same))
    stream, homes = same.of(streams[0]), carried(net).homes

    def width(name: str, part: str) -> str:
        of_heads = net.branch_kinds[homes[name]:][:1] == (WHOLE,)
        return STREAM if of_heads or same.of(f"{part} {name}") == stream else HIDDEN

    found = {name: Fans(width(name, "reads"), width(name, "makes")) for name in net.families_of_matrices}
    return {**found, **{name: Fans(*(width(name, "vector"),) * 2) for name in net.vectors_of_block}}


def _widths(value: sp.Expr, same: _Classes) -> list[str]:
    """What all is as wide as a vector expression, whose parts are joined; nothing of a number."""
    if isinstance(value, Vector):
        return [f"vector {value.name}"]
    if isinstance(value, MatVec):
        matrix: Matrix = value.matrix.args[0] if isinstance(value.matrix, Transpose) else value.matrix
        reads, makes = (f"{part} {matrix.name}" for part in (("makes", "reads") if isinstance(
            value.matrix, Transpose) else ("reads", "makes")))
        same.join(reads, *_widths(value.vector, same))
        return [makes]
    inside = [one for part in value.args for one in _widths(part, same)] if isinstance(value, sp.Expr) else []
    if isinstance(value, Mean):
        same.join(*inside)
        return []
    return inside


class _Classes:
    """Names in classes: union and find."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The name that stands for its class."""
        while (above := self._above.get(name, name)) != name:
            name = above
        return name

    def join(self, *names: str) -> None:
        """Make one class of several."""
        for one, other in zip(names, names[1:]):
            self._above[self.of(one)] = self.of(other)
