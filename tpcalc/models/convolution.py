"""Convolutions as a block: every position reads its neighbors on a grid, through a matrix for each of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, product
from math import prod
from typing import Sequence

import numpy as np
import sympy as sp

from .._checks import choice, short, whole_number
from ..programs.blocks import Branch
from ..programs.indices import m, p
from ..programs.language import MatVec, Mean

ORDERS, PADDINGS = ("post", "pre"), ("zero", "circular")


@dataclass(frozen=True)
class Convolution:
    """A convolution over positions on a grid: sum_o W_o phi(x_(p + o)), or phi(sum_o W_o x_(p + o)).

    Parameters
    ----------
    grid:
        positions along every axis, a number or a tuple such as (height, width); the last axis runs fastest.
    kernel:
        entries of the filter along every axis, odd, at most as many as positions; a number stands for all axes.
    padding:
        "zero": what lies outside of the grid is 0; "circular": its ends meet.
    order:
        "pre": the activation acts before the matrices; "post": after them, less its mean over coordinates where it is
        not the identity.

    Matrices are K1, K2, ..., one for every entry of the filter, the last axis running fastest, each N(0, 1 / n): sums
    over the filter are not divided by anything. Position p reads x at p + o for the offset o of an entry, as
    ``torch.nn.Conv2d`` does. It is a block of positions, for ``attention`` of a ``tp.Transformer`` whose ``positions``
    are the grid's; with ``mlp=None`` that is a residual convolutional network. Source: Depthwise Hyperparameter
    Transfer, (118) [depthwise_transfer/convolutions].

    Raises ``ValueError`` for anything else, naming what is allowed.

    >>> import tpcalc as tp
    >>> from tpcalc.models.convolution import Convolution
    >>> conv = Convolution(grid=4, kernel=3, order="pre")
    >>> net = tp.Transformer(positions=4, attention=conv, mlp=None, norm=None, phi="relu")
    >>> text = str(tp.program(net, tp.SGD(), tp.DepthScaling()))
    >>> print(*(line.strip() for line in text.splitlines() if line.strip().startswith("seen")), sep=chr(10))
    seen1[t, p, l] := Sum(Max(0, 1 - Abs(m - p + 1))*acted[t, m, l], (m, 0, P - 1))
    seen3[t, p, l] := Sum(Max(0, 1 - Abs(-m + p + 1))*acted[t, m, l], (m, 0, P - 1))
    """

    grid: int | Sequence[int]
    kernel: int | Sequence[int] = 3
    padding: str = "zero"
    order: str = "pre"

    def __post_init__(self) -> None:
        grid = _sizes("grid", self.grid, None)
        kernel = _sizes("kernel", self.kernel, len(grid))
        if any(one % 2 == 0 or one > most for one, most in zip(kernel, grid)):
            raise ValueError(f"kernel: got {short(self.kernel)} on a grid of {short(grid)}; expected odd numbers "
                             "of at most as many entries as positions")
        for name, value in (("grid", grid), ("kernel", kernel), ("padding", choice("padding", self.padding, PADDINGS)),
                            ("order", choice("order", self.order, ORDERS))):
            object.__setattr__(self, name, value)

    @property
    def positions(self) -> int:
        return prod(self.grid)  # type: ignore[arg-type]

    def reads(self) -> np.ndarray:
        """The position that every entry of the filter reads at every position, -1 outside, shape (entries, P)."""
        grid, kernel = np.array(self.grid), np.array(self.kernel)
        locations = np.array(list(np.ndindex(*self.grid)))  # type: ignore[misc]
        found = []
        for entry in product(*map(range, kernel)):
            there = locations + np.array(entry) - kernel // 2
            inside = np.all((there >= 0) & (there < grid), axis=1) | (self.padding == "circular")
            found.append(np.where(inside, np.ravel_multi_index(tuple((there % grid).T), tuple(grid)), -1))
        return np.array(found)

    def __call__(self, b: Branch) -> sp.Expr:
        pre = self.order == "pre" and not b.is_linear
        z = b.let("acted", b.phi(b.x)) if pre else b.x
        total = sp.Integer(0)
        for number, read in enumerate(self.reads(), 1):
            if np.any(read >= 0):
                own = np.array_equal(read, np.arange(self.positions))
                seen = z if own else b.let_total(f"seen{number}", is_read(read) * b.other(z))
                total += MatVec(b.weights(f"K{number}"), seen)
        if self.order == "pre" or b.is_linear:
            return total
        after = b.let("acted", b.phi(b.let("filtered", total)))
        return after - Mean(after)

    @property
    def title(self) -> str:
        """The block in words."""
        return f"convolution of {'x'.join(map(str, self.kernel))}"  # type: ignore[arg-type]


def is_read(read: np.ndarray) -> sp.Expr:
    """1 where m is the position that p reads, 0 elsewhere, for whole numbers; neighbors that are shifted alike are one
    term. (Of pieces sums over positions would make pieces of vectors.)"""
    locations = [(at, int(there) - at) for at, there in enumerate(read) if there >= 0]
    runs = [[at for _, (at, _) in run] for _, run in groupby(enumerate(locations), lambda k: (k[1][1], k[1][0] - k[0]))]
    total = sp.Integer(0)
    for low, high in ((run[0], run[-1]) for run in runs):
        away = sp.Abs(p + int(read[low]) - low - m)
        beyond = [low - p] * (low > max(0, low - int(read[low]))) + [p - high] * (
            high < len(read) - 1 - max(0, int(read[low]) - low))
        total += sp.Max(0, 1 - away - sum(sp.Max(0, one) for one in beyond))
    return total


def _sizes(name: str, given: object, count: int | None) -> tuple[int, ...]:
    """Whole numbers along axes; one number stands for all axes, or for one axis where nothing says how many."""
    if isinstance(given, (tuple, list)):
        if not given or count is not None and len(given) != count:
            raise ValueError(f"{name}: got {short(given)}; expected a number for every axis of the grid")
        return tuple(whole_number(name, one, 1) for one in given)
    return (whole_number(name, given, 1),) * (count or 1)
