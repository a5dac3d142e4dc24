"""What is set for a matrix, as powers of one growing variable, and mappings of them that are values."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Iterator, Mapping, TypeVar

import sympy as sp

from .._types import Value
from .._checks import exponent, short

V = TypeVar("V")
ROLES = ("input", "hidden", "output")


class Frozen(Mapping[str, V]):
    """A mapping from names that is a value: hashable, and equal to any with the same entries."""

    def __init__(self, entries: Mapping[str, V]) -> None:
        self._entries = dict(entries)

    def __getitem__(self, name: str) -> V:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(frozenset(self._entries.items()))

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name!r}: {value}" for name, value in self._entries.items()) + "}"


@dataclass(frozen=True)
class MatrixPowers:
    """Powers of n or of L for one matrix, each set apart: ``rate=-1`` is a learning rate like 1/n.

    init: of the standard deviation of initial entries; multiplier: of the number in front of the matrix; rate: of its
    learning rate; eps: of Adam's eps, None one that is negligible; decay: of the weight decay, None without one.
    Raises ``ValueError`` for exponents that are not real and finite.

    >>> MatrixPowers(init=-0.5, rate=-1)
    MatrixPowers(init=-1/2, multiplier=0, rate=-1, eps=None, decay=None)
    """

    init: sp.Expr = sp.Integer(0)
    multiplier: sp.Expr = sp.Integer(0)
    rate: sp.Expr = sp.Integer(0)
    eps: sp.Expr | None = None
    decay: sp.Expr | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None or one.name in ("init", "multiplier", "rate"):
                object.__setattr__(self, one.name, exponent(one.name, value))

    @classmethod
    def of(cls, name: str, given: Value) -> "MatrixPowers":
        """Powers from a mapping of the names above; ``ValueError`` for other names and other things."""
        if isinstance(given, cls):
            return given
        allowed = [one.name for one in fields(cls)]
        if not isinstance(given, Mapping) or not set(given) <= set(allowed):
            raise ValueError(f"{name}: got {short(given)}; expected a mapping from {', '.join(allowed)} to powers")
        return cls(**given)


def roles(name: str, given: Mapping[str, Value]) -> Frozen[MatrixPowers]:
    """Powers of n of all three roles; ``ValueError`` where one is missing or there is another."""
    if set(given) != set(ROLES):
        raise ValueError(f"{name}: got {short(dict(given))}; expected powers of n for each of {', '.join(ROLES)}")
    return Frozen({role: MatrixPowers.of(f"{name}[{role!r}]", given[role]) for role in ROLES})
