"""Skip connections: functions that write how a sublayer's streams go on.

A skip is given a ``Junction``, and returns what the streams are after the sublayer, one expression for each. The
built-in ones and a user's own use the same door; the backward pass and the updates follow from what was written.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Callable, Sequence

import sympy as sp

from .._checks import exact, flag, short
from ..programs.indices import L, l
from ..programs.language import Vector


@dataclass(frozen=True)
class Junction:
    """Where a residual sublayer joins the streams that pass it, while it is being written.

    streams: the vectors that it finds; number: what its names end with, the sublayer's number within its layer where
    there are several; enter: what stands after ``branch``; let, trained: write a vector of this sublayer, and give a
    coordinatewise trained vector of this layer, which starts at 1, by names without that number.
    """

    streams: tuple[Vector, ...]
    number: str
    enter: Callable[[Vector, bool], sp.Expr]
    let: Callable[[str, sp.Expr], Vector]
    trained: Callable[[str], Vector]

    def branch(self, x: sp.Expr, named: bool = False) -> sp.Expr:
        """The block on ``x``, norms included, times the branch multiplier. named: whether the block's vector gets a
        name first, as one that several streams read should."""
        return self.enter(self.let("inlet", x), named)


@dataclass(frozen=True)
class Skip:
    """The skip connection x^l = a x^(l-1) + eps f + b x^0, around every sublayer.

    Parameters
    ----------
    keep:
        a, a number other than 0 or an expression in the depth, ``sympy.Symbol("L")``: such as DeepNorm's (2 L)^(1/4)
        [Wang et al. 2022, arXiv:2203.00555], 1 - 1/L, or sqrt(1 - b/L), which damps [contested/damped_stream].
    inject:
        b, likewise; 0 for none. The embedding x^0 is carried along as a stream of its own.
    learned:
        whether the stream is multiplied by a trained vector a^l first, coordinate by coordinate, which starts at 1. Its
        updates are of size eps g, those of matrices being g: as no eps stands before it, what those of all layers do to
        the stream is then of the order of what the matrices' do.

    Raises ``ValueError`` for what is no finite real number and no expression in L alone, a keep of 0, and a flag that
    is neither True nor False.

    >>> import sympy as sp, tpcalc as tp
    >>> net = tp.ResNet(skip=tp.Skip(keep=1 - 1 / sp.Symbol("L"), inject=0.5))
    >>> lines = str(tp.program(net, tp.SGD(), tp.DepthScaling(1, 0))).splitlines()
    >>> print(*(line.strip() for line in lines if line.strip().startswith(("x[t, l]", "x2[t, l]"))), sep="\\n")
    x[t, l] := (1 - 1/L)*x[t, l - 1] + x2[t, l - 1]/2 + (W[t, l] @ x[t, l - 1])/L
    x2[t, l] := x2[t, l - 1]
    """

    keep: Any = sp.Integer(1)
    inject: Any = sp.Integer(0)
    learned: bool = False

    def __post_init__(self) -> None:
        for name in ("keep", "inject"):
            object.__setattr__(self, name, of_depth(name, getattr(self, name)))
        if self.keep == 0:
            raise ValueError(f"keep: got {short(self.keep)}; expected a number other than 0, without which there "
                             "is no skip")
        object.__setattr__(self, "learned", flag("learned", self.learned))

    @property
    def streams(self) -> int:
        return 1 if self.inject == 0 else 2

    def __call__(self, junction: Junction) -> tuple[sp.Expr, ...]:
        x, *start = junction.streams
        passed = self.keep * (junction.trained("a") * x if self.learned else x)
        new = passed + junction.branch(x)
        return (new + self.inject * start[0], start[0]) if start else (new,)


@dataclass(frozen=True)
class HyperConnections:
    """Two residual streams around every sublayer f, as hyper-connections have them.

    h = a_1 x_1 + a_2 x_2, and x_i becomes sum_j A_ij x_j + eps b_i f(h).

    Both streams start as U xi, and the readout reads their sum. Coefficients are not trained. Source: Zhu et al. 2024,
    arXiv:2409.19606, static hyper-connections at expansion rate 2.

    Parameters
    ----------
    reads:
        a, a pair of numbers or expressions in the depth ``sympy.Symbol("L")``.
    mixes:
        A, two pairs of them.
    writes:
        b, a pair of them.

    Raises ``ValueError`` for anything else, where a or b is 0 altogether, and for reads that add up to 0: streams that
    start alike are then read as nothing.

    >>> import tpcalc as tp
    >>> net = tp.ResNet(skip=tp.HyperConnections(reads=(1, 0), mixes=((1, 0), (0.5, 0.5)), writes=(1, 1)))
    >>> lines = str(tp.program(net, tp.SGD(), tp.DepthScaling(1, 0))).splitlines()
    >>> print(*(line.strip() for line in lines if line.strip().startswith(("x2[t, l]", "f["))), sep="\\n")
    x2[t, l] := x[t, l - 1]/2 + x2[t, l - 1]/2 + r[t, l]/L
    f[t] := mean((x[t, L] + x2[t, L])*nV)
    """

    reads: Sequence[Any] = (1, 0)
    mixes: Sequence[Sequence[Any]] = ((1, 0), (0, 1))
    writes: Sequence[Any] = (1, 1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reads", _pair("reads", self.reads))
        object.__setattr__(self, "writes", _pair("writes", self.writes))
        if not isinstance(self.mixes, (tuple, list)) or len(self.mixes) != 2:
            raise ValueError(f"mixes: got {short(self.mixes)}; expected two pairs of numbers")
        object.__setattr__(self, "mixes", tuple(_pair("mixes", row) for row in self.mixes))
        for name in ("reads", "writes"):
            if not any(getattr(self, name)):
                raise ValueError(f"{name}: got {short(getattr(self, name))}; expected a pair that is not 0, "
                                 "without which the sublayer is not connected")
        if sp.simplify(sp.Add(*self.reads)) == 0:
            raise ValueError(f"reads: got {short(self.reads)}; both streams start as the same vector, of which this "
                             "reads nothing; expected pairs that do not add up to 0")

    streams = 2
    readout = (sp.Integer(1), sp.Integer(1))

    def __call__(self, junction: Junction) -> tuple[sp.Expr, ...]:
        read = sp.Add(*(a * x for a, x in zip(self.reads, junction.streams)))
        new = junction.branch(read, named=True)
        return tuple(sp.Add(*(a * x for a, x in zip(row, junction.streams))) + b * new
                     for row, b in zip(self.mixes, self.writes))


SkipConnection = Callable[[Junction], Sequence[sp.Expr]]


def of_depth(name: str, value: object, *others: sp.Symbol) -> sp.Expr:
    """A number, or an expression in the depth, and others of the builders' indices, whose symbols are taken by name."""
    found = exact(name, value)
    ours = {str(symbol): symbol for symbol in (L, *others)}
    unknown = sorted(str(s) for s in found.free_symbols if str(s) not in ours)
    if unknown:
        raise ValueError(f"{name}: got {short(value)}, with {', '.join(unknown)}; expected numbers and "
                         f"expressions in {' and '.join(ours)}")
    if found.is_number and not abs(found) <= sys.float_info.max:
        raise ValueError(f"{name}: got {short(value)}; expected a number that a float can hold")
    return by_name(found)


def by_name(value: Any) -> Any:
    """An expression with the builders' layer and depth in the place of symbols of their names."""
    if not isinstance(value, sp.Expr):
        return value
    return value.subs({s: ours for s in value.free_symbols for ours in (L, l) if str(s) == str(ours) and s != ours})


def _pair(name: str, value: object) -> tuple[sp.Expr, sp.Expr]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ValueError(f"{name}: got {short(value)}; expected a pair of numbers")
    return of_depth(name, value[0]), of_depth(name, value[1])
