"""The way of a stream: skip connections, which write how it goes on in a layer, and visits of layers.

A skip is given a ``Junction``, and returns what the streams are after the sublayer, one expression for each. The
built-in ones and a user's own use the same door; the backward pass and the updates follow from what was written. Layers
are visited once, or as often as they are, in cycles or layer by layer; ``visits_apart`` makes families of every visit's
vectors.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Iterator, Mapping, Sequence

import sympy as sp
from sympy.core.symbol import Str

from .._checks import exact, flag, instance, short, whole_number
from ..programs.indices import L, VISITS, c, l, made_name, write_out
from ..programs.language import Family, Member, Vector
from ..programs.program import Assign, Loop, Program, Statement, mapped
from .network import Network


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


Index = tuple[sp.Expr, ...]
Each = Callable[..., list[Statement]]
ONE = sp.Integer(1)


@dataclass(frozen=True)
class Way:
    """Where a stream goes, behind the indices of a sample.

    first, last: the indices of x^0 and of what the readout reads; before, after: of what a layer acts on and of what it
    makes, as the network writes them; read: of what it acts on, as the program has it; inject: what every visit adds of
    x^0 to a stream that is read out. Streams that are not are memories of their own, such as the x^0 of a ``tp.Skip``.

    Layers in cycles have x[c - 1, L] go on as x[c, 0]. Where every layer is visited N times in a row, a visit acts on
    x[c - 1, l], and x[N, l - 1] goes on as x[0, l].
    """

    first: Index
    last: Index
    before: Index
    after: Index
    read: Index
    inject: Mapping[str, sp.Expr] = field(default_factory=dict)

    @classmethod
    def of(cls, net: Network) -> Way:
        """The way through the layers of a network."""
        if net.visits == 1:
            return cls((sp.Integer(0),), (L,), (l - 1,), (l,), (l - 1,))
        if net.order == "cycle":
            read_out = [stream.name for stream, weight in zip(net.streams, net.readout_weights) if weight != 0]
            return cls((sp.Integer(0), L), (VISITS, L), (c, l - 1), (c, l), (c, l - 1),
                       dict.fromkeys(read_out, net.inject / VISITS))
        return cls((VISITS, sp.Integer(0)), (VISITS, L), (c, l - 1), (c, l), (c - 1, l))

    @property
    def visits(self) -> Index:
        """The index of visits, where there are several."""
        return self.before[:-1]

    @property
    def parts(self) -> sp.Expr:
        """How many visits the change by a layer is made of."""
        return VISITS if self.visits else ONE

    def at(self, expression: sp.Expr) -> sp.Expr:
        """What a layer reads where the program has it."""
        if self.read == self.before:
            return expression
        count = len(self.before)
        return expression.xreplace({one: one.func(*one.args[:-count], *self.read) for one in expression.atoms(Member)
                                    if one.args[-count:] == self.before})

    def placed(self, one: Assign) -> Assign:
        """A statement of a layer where the program has it."""
        return Assign(self.at(one.target), self.at(one.value))

    def total(self, gradient: sp.Expr) -> sp.Expr:
        """Over visits, of what each of them asks of a layer."""
        return sp.Sum(gradient, (c, 1, VISITS)) if self.visits else gradient

    def forward(self, layer: Sequence[Statement], streams: Sequence[Family], sample: Index, each: Each
                ) -> list[Statement]:
        """The statements of all layers; each: loops for statements over what else a sample has."""
        joined = [Assign(stream[(*sample, *self._entered)], stream[(*sample, *self._left)]
                         + self.inject.get(stream.name, 0) * stream[(*sample, *self.first)])
                  for stream in streams] if self.visits else []
        return self._looped(layer, each(*joined), False)

    def backward(self, layer: Sequence[Statement], gradients: Sequence[Family], sample: Index, each: Each
                 ) -> list[Statement]:
        """The statements that go back through all layers."""
        joined = [Assign(one[(*sample, *self._left)], one[(*sample, *self._entered)])
                  for one in gradients] if self.visits else []
        return self._looped(layer, each(*joined), True)

    def of_start(self, stream: Family, gradient: Family, sample: Index) -> sp.Expr:
        """The gradient of x^0, which every visit may have read."""
        entered, inject = gradient[(*sample, *self._entered)], self.inject.get(stream.name, 0)
        return gradient[(*sample, *self.first)] + (inject * sp.Sum(entered, (c, 1, VISITS)) if inject else 0)

    @property
    def _in_cycles(self) -> bool:
        return self.read == self.before

    @property
    def _entered(self) -> Index:
        """What a visit of all layers, or all visits of a layer, start from."""
        return (c, sp.Integer(0)) if self._in_cycles else (sp.Integer(0), l)

    @property
    def _left(self) -> Index:
        """What the one before has made."""
        return (c - 1, L) if self._in_cycles else (VISITS, l - 1)

    def _looped(self, layer: Sequence[Statement], joined: Sequence[Statement], down: bool) -> list[Statement]:
        indices = [(c, VISITS), (l, L)] if self._in_cycles else [(l, L), (c, VISITS)]
        *outer, (inner, size) = indices if self.visits else [(l, L)]
        body: list[Statement] = [_loop(inner, size, layer, down)]
        for index, size in outer:
            body = [_loop(index, size, [*body, *joined] if down else [*joined, *body], down)]
        return body


def _loop(index: sp.Symbol, size: sp.Symbol, body: Sequence[Statement], down: bool) -> Loop:
    first, last = (size, ONE) if down else (ONE, size)
    return Loop(index, first, last, tuple(body), down)


def visits_apart(program: Program, visits: int) -> Program:
    """The program with the loop over visits written out: x[t, c, l] is x(1)[t, l], x(2)[t, l], ... .

    So a matrix acts on several vectors in a layer, and no index but layers' runs over layers: recursions and limits of
    infinite depth are derived of this form, at a number of visits. visits: how many, instead of N. A program without
    visits stays as it is. Raises ``ValueError`` for what is no program, and no whole number of at least 1.

    >>> import tpcalc as tp
    >>> program = tp.program(tp.ResNet(visits=2), tp.SGD(), tp.DepthScaling(1, 0))
    >>> print(*[line.strip() for line in str(visits_apart(program, 2)).splitlines() if "@ x" in line], sep=chr(10))
    x(1)[t, l] := x(1)[t, l - 1] + (W[t, l] @ x(1)[t, l - 1])/(2*L)
    x(2)[t, l] := x(2)[t, l - 1] + (W[t, l] @ x(2)[t, l - 1])/(2*L)
    """
    instance("program", program, Program)
    visits = whole_number("visits", visits, 1)
    indices = {index for index, role in program.index_roles().items() if role == "visit"}
    if not indices:
        return program
    slots = {(type(one), one.name): k for location in program.locations()
             for one in (location.statement.target, *location.statement.value.atoms(Member))
             for k, index in enumerate(one.indices) if index.free_symbols & indices}

    def named(one: sp.Expr) -> sp.Expr:
        slot = slots.get((type(one), one.name))
        if slot is None:
            return one
        before, visit, after = one.indices[:slot], one.indices[slot], one.indices[slot + 1:]
        made = Str(made_name(one.name, visit)), Str(f"{{{one.args[1]}}}^{{({visit})}}")
        return one.func(*made, one.args[2], *before, *after)

    def written(value: sp.Expr) -> sp.Expr:
        at_number = value.subs(VISITS, visits).replace(
            lambda e: isinstance(e, sp.Sum) and any(limit[0] in indices for limit in e.limits), terms)
        return at_number.replace(lambda e: isinstance(e, Member), named)

    def terms(total: sp.Sum) -> sp.Expr:
        """Those over visits; sums over others stay."""
        over = [limit for limit in total.limits if limit[0] in indices]
        rest = [limit for limit in total.limits if limit[0] not in indices]
        return write_out(sp.Sum(total.function, *rest, *over))

    def around(loop: Loop, body: tuple[Statement, ...]) -> Iterator[Statement]:
        if loop.index not in indices:
            yield replace(loop, body=body)
            return
        for visit in loop.steps({VISITS: sp.Integer(visits)}):
            yield from (inner.at({loop.index: sp.Integer(visit)}) for inner in body)

    body = mapped(mapped(program.body, lambda s: (s,), around),
                  lambda s: (Assign(written(s.target), written(s.value)),))
    return replace(program, body=body, sizes=tuple(size for size in program.sizes if size != VISITS),
                   meaning={one: said for one, said in program.meaning.items() if one != VISITS},
                   roles={index: role for index, role in program.roles.items() if index not in indices})
