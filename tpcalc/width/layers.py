"""Sizes in a perceptron whose layers have widths of their own, all powers of n, as affine forms in what is set.

A sum over a layer's n^m neurons of terms that are independent grows like n^(m/2), of terms of one sign like n^m. Before
training, what an initial matrix is multiplied with is independent of it. Updates change a layer along its gradient,
which is made of the matrix ahead: this part of a change passes on aligned, and all else as before training.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Callable, Iterable, NamedTuple, Sequence

from .._checks import exponent, short
from ..orders.affine import Affine

HALF = Fraction(1, 2)
WIDEST = 4  # the power of n of the widest layer


@dataclass(frozen=True)
class Perceptron:
    """A perceptron of which every layer is trained, its input and output of fixed size.

    widths: the powers of n of its hidden layers' widths, from below; its matrices are called W1, W2, ..., the last of
    them the readout. Activations are 0 at 0, have a slope there, and grow no faster than what they act on. Raises
    ``ValueError`` for widths that are no rational numbers above 0 and up to 4, and for none.

    >>> Perceptron((1, 2)).trained
    ('W1', 'W2', 'W3')
    """

    widths: tuple[object, ...] = (1, 1)

    def __post_init__(self) -> None:
        if not isinstance(self.widths, (tuple, list)) or not self.widths:
            raise ValueError(f"widths: got {short(self.widths)}; expected powers of n of one hidden layer or more")
        found = tuple(exponent("widths", one) for one in self.widths)
        if not all(one.is_Rational and 0 < one <= WIDEST for one in found):
            raise ValueError(f"widths: got {short(self.widths)}; expected rational powers of n, above 0 and up to "
                             f"{WIDEST}")
        object.__setattr__(self, "widths", found)

    @property
    def trained(self) -> tuple[str, ...]:
        """The names of its matrices."""
        return tuple(f"W{number}" for number in range(1, len(self.widths) + 2))

    @property
    def powers(self) -> tuple[Fraction, ...]:
        """Powers of n of all layers' sizes, input and output too."""
        return (Fraction(0), *map(Fraction, self.widths), Fraction(0))  # type: ignore


class SizedProduct(NamedTuple):
    """A power of n, and the product that has it, in words."""

    power: Affine
    product: str


Choose = Callable[[Iterable[SizedProduct]], SizedProduct]  # the largest
Direction = Callable[[Affine, Fraction], Affine]  # from an entry of the gradient, and n rows times n columns


@dataclass(frozen=True)
class LayerPowers:
    """Sizes of a perceptron's layers: starts: of h, before training; changes: the largest of the updates' of h; own: of
    what a layer's own updates make of what it acts on, None where there are none. The last layer's h is the output."""

    starts: tuple[SizedProduct, ...]
    changes: tuple[SizedProduct | None, ...]
    own: tuple[SizedProduct | None, ...]


def layer_powers(net: Perceptron, inits: Sequence[Affine], rates: Sequence[Affine], direction: Direction,
                 largest: Choose, alone: int | None = None) -> LayerPowers:
    """Count a perceptron's updates on one sample, whose gradients are of rank one.

    inits, rates: powers of n of the entries of each initial matrix, and of each learning rate; direction: the power of
    an entry of an optimizer's direction; largest: chooses among powers at hand; alone: the one matrix that is trained,
    by number, None for all. Changes are counted as if hidden layers started at order one and were changed by no more,
    and derivatives of the loss in the outputs are of order one. The gradients of later updates pass through what
    matrices have learned, and meet them aligned: what has passed there is a multiple of the layer's own neurons, which
    the initial matrix below has made, and does not meet as if it were independent.
    """
    m, count = net.powers, len(inits)
    one = Affine.number(0, len(inits[0].slopes))
    starts = tuple(SizedProduct(init + _number(one, m[l] * HALF), f"W{l + 1} x{l}") for l, init in enumerate(inits))
    own: list[SizedProduct | None] = [None] * count
    along, passed = list(own), list(own)  # changes along a layer's gradient, and what a matrix makes of those below
    for later in (False, True):
        back, moved = one, one  # entries of the derivative in the layer above, and of that one's update
        echo: Affine | None = None  # of the derivative's multiple of the layer's own neurons
        for l in reversed(range(count)):
            if l < count - 1:
                ways = [inits[l + 1] + _number(one, m[l + 2] * HALF)]
                learned = [moved + _number(one, m[l + 2])] if later and alone in (None, l + 1) else []
                ways += learned
                ways += [by.power + ways[0] * times for by, times in ((passed[l + 1], 1), (along[l + 1], 2))
                         if later and by is not None]
                met = [] if echo is None else [echo + inits[l + 1] * 2 + _number(one, m[l + 2])]
                echoes = [*met, *(back + way for way in learned)]
                echo = _largest_of(largest, echoes) if echoes else None
                back = _largest_of(largest, [*(back + way for way in ways), *met])
            if alone in (None, l):
                moved = direction(back, m[l] + m[l + 1]) + rates[l]
                acted = SizedProduct(moved + _number(one, m[l]), f"(update of W{l + 1}) x{l}")
                own[l] = _larger(largest, own[l], acted)
        for l in range(count):
            below, change = (along[l - 1], _larger(largest, along[l - 1], passed[l - 1])) if l else (None, None)
            name = f"W{l + 1} (change of x{l})"
            aligned = None if below is None else SizedProduct(
                below.power + inits[l] + _number(one, m[l] - m[l + 1] * HALF), name)
            along[l] = _larger(largest, along[l], own[l], aligned)
            other = None if change is None else SizedProduct(change.power + inits[l] + _number(one, m[l] * HALF), name)
            passed[l] = _larger(largest, passed[l], other, aligned)
    return LayerPowers(starts, tuple(_larger(largest, *both) for both in zip(along, passed)), tuple(own))


def _largest_of(largest: Choose, powers: Sequence[Affine]) -> Affine:
    return largest(SizedProduct(power, "") for power in powers).power


def _number(like: Affine, value: Fraction) -> Affine:
    return Affine.number(value, len(like.slopes))


def _larger(largest: Choose, *some: SizedProduct | None) -> SizedProduct | None:
    there = [one for one in some if one is not None]
    return largest(there) if there else None
