"""What can be wished for: each wish as conditions on counted powers, in one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Iterable, Sequence

from ..._checks import short
from .sizes import AT_INIT, IN_TRAINING, NOISE, PowerSizes, effect_of, update_of


Clause = tuple[str, ...]  # sizes, one of which is to be of order one at least


def _one(*names: str) -> Callable[[PowerSizes], tuple[Clause, ...]]:
    return lambda sizes: tuple((name,) for name in names)


def _learning(sizes: PowerSizes) -> tuple[Clause, ...]:
    return tuple((of(name),) for name in sizes.trained for of in (update_of, effect_of))


def _complete(sizes: PowerSizes) -> tuple[Clause, ...]:
    """The second-order part of each parameter's effect on its block is as large as the first-order part.

    With another update it is as much larger as that update is, of a smooth function. What two updates do together
    through a kink is smaller, but each of them then meets the kink by itself, and is as much larger as its root. What
    a block adds as it is, a bias at its end, has no second order, and is not asked for one.
    """
    second, vectors = sizes.pairs, getattr(sizes.net, "vectors_of_block", ())
    found = {name: tuple(update_of((set(pair) - {name} or {name}).pop()) for pair in second if name in pair)
             for name in sizes.trained}
    return tuple(clause for name, clause in found.items() if clause or name not in vectors)


@dataclass(frozen=True)
class Wish:
    """says: what it is in words; at_most: sizes that are of order one at most; at_least: conditions on sizes that are
    so large, all of which are to hold; settings: what it asks of powers that are set, by name; counted_in: the
    variables in whose powers it is counted."""

    name: str
    says: str
    at_most: tuple[str, ...] = ()
    at_least: Callable[[PowerSizes], tuple[Clause, ...]] = lambda sizes: ()
    settings: str = ""
    counted_in: str = "LNn"

    def is_counted(self, sizes: PowerSizes) -> bool:
        return sizes.grows in self.counted_in


WISHES = {wish.name: wish for wish in (
    Wish("stable at initialization", "x, h and f are of order one at most before training", AT_INIT),
    Wish("stable in training", "an update changes x, h and f by order one at most, and nothing grows from step to "
         "step; a step's weight decay takes a share of order one at most", IN_TRAINING, settings="bounded decay"),
    Wish("stable", "stable at initialization and stable in training", (*AT_INIT, *IN_TRAINING),
         settings="bounded decay"),
    Wish("nontrivial", "an update changes f by order one at least", at_least=_one("change of f")),
    Wish("faithful", "h, which activations act on, is of order one at first, and is changed by order one at most",
         ("h at initialization", "change of h"), lambda sizes: tuple((name,) for name in sizes.acted)),
    Wish("feature learning", "an update changes h by order one at least", at_least=_one("change of h")),
    Wish("diverse", "layers differ by noise of order one at least, after an update, too (a diversity exponent of 1/2)",
         at_least=_one(NOISE), counted_in="L"),
    Wish("complete", "the effect of no matrix on its block becomes linear in updates", at_least=_complete,
         counted_in="LN"),
    Wish("every matrix has an effect", "the updates of each matrix alone change x or f by order one at least",
         at_least=lambda sizes: tuple((effect_of(name),) for name in sizes.trained)),
    Wish("every matrix learns", "the updates of each matrix alone change what it acts on, and x or f, by order one at "
         "least", at_least=_learning),
    Wish("one learning rate", "the learning rates of all matrices go with the same power", settings="one lr"),
    Wish("visible decay", "a step's weight decay takes a share of order one of a weight", settings="visible decay",
         counted_in="LN"),
    Wish("eps in proportion", "eps goes like the gradients that it is added to", settings="eps in proportion",
         counted_in="LN"))}

USUAL = ("stable", "faithful", "feature learning")


def wishes(want: object) -> tuple[Wish, ...]:
    """The wishes of these names, each once; ``ValueError`` for others, with the list of those there are."""
    names = (want,) if isinstance(want, str) else want
    known = ", ".join(map(repr, WISHES))
    if not isinstance(names, (tuple, list)):
        raise ValueError(f"want: got {short(want)}; expected a tuple of some of {known}")
    for name in names:
        if not isinstance(name, str) or name not in WISHES:
            raise ValueError(f"want: got {short(name)}; expected some of {known}")
    return tuple(WISHES[name] for name in dict.fromkeys(names))


def sizes_at_most(some: Iterable[Wish]) -> Sequence[str]:
    """The sizes that are to be of order one at most."""
    return tuple(dict.fromkeys(name for wish in some for name in wish.at_most))


def wish_table() -> str:
    """The table of wishes, a line each.

    >>> print(wish_table().splitlines()[3])
    nontrivial                an update changes f by order one at least
    """
    return "\n".join(f"{wish.name:<24}  {wish.says}" for wish in WISHES.values())
