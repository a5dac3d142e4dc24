"""What is set for a trained parameter, as powers of everything that grows, and mappings that are values."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Iterator, Mapping, TypeVar

import sympy as sp

from .._types import Value
from .._checks import choice, exponent, short

V = TypeVar("V")
ROLES = ("input", "hidden", "output")
FAN_IN = dict(zip(ROLES, (0, 1, 1)))  # the power of n that a role's fan-in grows with
NEEDED = ("multiplier", "init", "lr")  # settings that every parameter has


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
class Powers:
    """What is set for a trained parameter: ``lr={"L": -1/2, "n": -1}`` is a learning rate like L^(-1/2) / n.

    multiplier: of the number in front of the parameter; init: of the standard deviation of initial entries; lr: of its
    learning rate; eps: of Adam's eps, None one that is negligible; decay: of the weight decay, None without one, or
    where a step of the optimizer's takes the same share of a weight at every size. Each is a mapping from what grows, a
    symbol or its name, to its power; n is the width and L the depth, and what is left out has the power 0. Raises
    ``ValueError`` for exponents that are not real and finite, for names that are no identifiers, and for a size that is
    named twice.

    >>> Powers(init={"n": -0.5}, lr={"n": -1, sp.Symbol("L"): "-1/2"})
    Powers(multiplier={}, init={'n': -1/2}, lr={'L': -1/2, 'n': -1}, eps=None, decay=None)
    """

    multiplier: Mapping[str, sp.Expr] = Frozen({})
    init: Mapping[str, sp.Expr] = Frozen({})
    lr: Mapping[str, sp.Expr] = Frozen({})
    eps: Mapping[str, sp.Expr] | None = None
    decay: Mapping[str, sp.Expr] | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None or one.name in NEEDED:
                object.__setattr__(self, one.name, _of_sizes(one.name, value))

    @classmethod
    def in_one(cls, size: str, name: str, given: Value) -> "Powers":
        """Powers of one size, from {"init": -1/2, ...}; ``ValueError`` for other names and other things."""
        if isinstance(given, cls):
            return given
        allowed = [one.name for one in fields(cls)]
        if not isinstance(given, Mapping) or not set(given) <= set(allowed):
            raise ValueError(f"{name}: got {short(given)}; expected a mapping from {', '.join(allowed)} to powers")
        powers: dict[str, Value] = {one: None if value is None else {size: value} for one, value in given.items()}
        return cls(**powers)

    def of(self, setting: str, size: str) -> sp.Expr:
        """The power of a size with which a setting goes; ``ValueError`` for what is no setting."""
        if setting not in self.__dataclass_fields__:
            choice("setting", setting, list(self.__dataclass_fields__))
        return (getattr(self, setting) or {}).get(size, sp.Integer(0))

    def times(self, other: "Powers") -> "Powers":
        """The powers of a product, setting by setting."""
        found: dict[str, Value] = {}
        for one in fields(self):
            ours, theirs = getattr(self, one.name), getattr(other, one.name)
            if ours is not None or theirs is not None:
                found[one.name] = {size: self.of(one.name, size) + other.of(one.name, size)
                                   for size in {**(ours or {}), **(theirs or {})}}
        return Powers(**found)

    @property
    def sizes(self) -> frozenset[str]:
        """What anything that is set grows with."""
        return frozenset(size for one in fields(self) for size in getattr(self, one.name) or ())


def as_power(exponent: sp.Expr, base: str = "L") -> str:
    """L^(1/2), L, 1."""
    return "1" if exponent == 0 else base if exponent == 1 else f"{base}^({exponent})"


def _of_sizes(setting: str, given: Value) -> Frozen[sp.Expr]:
    """Powers by the names of sizes, in their order, without those that are 0."""
    if not isinstance(given, Mapping) or not all(str(size).isidentifier() for size in given):
        raise ValueError(f"{setting}: got {short(given)}; expected a mapping from what grows, such as \"n\" and \"L\", "
                         "to powers")
    if len({str(size) for size in given}) < len(given):
        raise ValueError(f"{setting}: got {short(given)}; expected each size once, as a symbol or by its name")
    found = {str(size): exponent(f"{setting}[{str(size)!r}]", power) for size, power in given.items()}
    return Frozen({size: found[size] for size in sorted(found) if found[size] != 0})


def roles(name: str, given: Mapping[str, Value]) -> Frozen[Powers]:
    """Powers of n of all three roles; ``ValueError`` where one is missing or there is another."""
    if set(given) != set(ROLES):
        raise ValueError(f"{name}: got {short(dict(given))}; expected powers of n for each of {', '.join(ROLES)}")
    return Frozen({role: Powers.in_one("n", f"{name}[{role!r}]", given[role]) for role in ROLES})
