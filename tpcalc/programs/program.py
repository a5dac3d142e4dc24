"""Programs: statements in loops over training steps and layers.

Indices have roles by name: clock, layer, visit, sample, position, width.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Union

import sympy as sp

from .._checks import short, symbolic
from .._shown import Short
from .._text import Aligned
from .._types import Sizes
from ..derivations.printing import statement_latex
from .language import Matrix, Member, Scalar, Vector, kind
from .indices import Numbered, ReadMembers, Values, at_numbers, write_out


@dataclass(frozen=True)
class Assign:
    """The statement ``target := value``; the target is a vector, a scalar, or a matrix of the next step.

    >>> from tpcalc.theory import Assign, Family, Matrix, MatVec, Vector
    >>> print(Assign(Family(Vector, "h")(), MatVec(Family(Matrix, "W")(), Family(Vector, "u")())))
    h := W @ u
    """

    target: sp.Expr
    value: sp.Expr

    def __post_init__(self) -> None:
        if not isinstance(self.target, Member):
            raise TypeError(f"{self}: only a member of a family can be assigned")
        target, value = kind(self.target), kind(self.value)
        if target != value and self.value != 0 and not (target == "vector" and value == "scalar"):
            raise TypeError(f"{self}: a {target} cannot be a {value}")

    def __str__(self) -> str:
        return f"{self.target} := {self.value}"

    def latex(self) -> str:
        return f"{statement_latex(self.target)} := {statement_latex(self.value)}"

    @property
    def expressions(self) -> tuple[sp.Expr, ...]:
        return self.target, self.value

    @property
    def bound(self) -> Iterator[sp.Symbol]:
        """The indices of its sums."""
        totals = sorted(self.value.atoms(sp.Sum), key=sp.default_sort_key)
        return (limit[0] for total in totals for limit in total.limits)

    def at(self, values: Mapping[sp.Symbol, sp.Expr]) -> "Assign":
        """The statement with these values for indices."""
        return Assign(self.target.subs(values), self.value.subs(values))

    def walked(self, loops: tuple["Loop", ...] = ()) -> Iterator[tuple["Statement", tuple["Loop", ...]]]:
        """This statement and those inside of it, in program order, each with the loops around it."""
        yield self, loops

    def mapped(self, change: "Change", around: "Around") -> Iterable["Statement"]:
        return change(self)

    def at_numbers(self, values: Values) -> "Assign":
        """The statement with numbers for all indices and sizes, sums written out."""
        return Assign(at_numbers(self.target, values), write_out(at_numbers(self.value, values)))

    def visited(self, values: Values) -> Iterator[tuple["Assign", Values]]:
        """This statement with the numbers of its indices, in the order in which they are executed."""
        yield self, values

    def count(self, values: Mapping[sp.Symbol, sp.Integer]) -> int:
        return 1


@dataclass(frozen=True)
class Loop:
    """The statement that runs a body for index = first, ..., last, downwards where ``descending`` (first >= last).

    >>> import sympy as sp
    >>> from tpcalc.theory import Assign, Family, Loop, Matrix, MatVec, Vector
    >>> l, W, x = sp.Symbol("l", integer=True), Family(Matrix, "W"), Family(Vector, "x")
    >>> loop = Loop(l, sp.Integer(1), sp.Integer(4), (Assign(x[l], MatVec(W[l], x[l - 1])),))
    >>> print(loop, loop.body[0])
    for l = 1, ..., 4: x[l] := W[l] @ x[l - 1]
    """

    index: sp.Symbol
    first: sp.Expr
    last: sp.Expr
    body: tuple["Statement", ...]
    descending: bool = False

    def __str__(self) -> str:
        return f"for {self.index} = {self.first}, ..., {self.last}:"

    def latex(self) -> str:
        index, first, last = map(sp.latex, self.expressions)
        return rf"\text{{for }} {index} = {first}, \ldots, {last}:"

    @property
    def expressions(self) -> tuple[sp.Expr, ...]:
        return self.index, self.first, self.last

    @property
    def bound(self) -> Iterator[sp.Symbol]:
        return iter((self.index,))

    @property
    def bounds(self) -> tuple[sp.Expr, sp.Expr]:
        """The lowest and the highest value of the index."""
        return (self.last, self.first) if self.descending else (self.first, self.last)

    def at(self, values: Mapping[sp.Symbol, sp.Expr]) -> "Loop":
        """The loop with these values for indices inside of it."""
        return replace(self, body=tuple(statement.at(values) for statement in self.body))

    def walked(self, loops: tuple["Loop", ...] = ()) -> Iterator[tuple["Statement", tuple["Loop", ...]]]:
        """This statement and those inside of it, in program order, each with the loops around it."""
        yield self, loops
        yield from walked(self.body, (*loops, self))

    def mapped(self, change: "Change", around: "Around") -> Iterable["Statement"]:
        return around(self, mapped(self.body, change, around))

    def visited(self, values: Values) -> Iterator[tuple[Assign, Values]]:
        """The statements inside with the numbers of their indices, in the order in which they are executed."""
        return (one for k in self.steps(values) for statement in self.body
                for one in statement.visited({**values, self.index: sp.Integer(k)}))

    def count(self, values: Mapping[sp.Symbol, sp.Integer]) -> int:
        steps = self.steps(values)
        ends = (end for loop in loops_in(self.body) for end in (loop.first, loop.last))
        alike = not any(end.has(self.index) for end in ends)
        each = (statement.count({**values, self.index: sp.Integer(k)}) for k in (steps[:1] if alike else steps)
                for statement in self.body)
        return sum(each) * (len(steps) if alike else 1)

    def steps(self, values: Mapping[sp.Symbol, sp.Integer]) -> range:
        """The values of the index, for sizes and indices of loops around."""
        first, last = (at_numbers(end, values) for end in (self.first, self.last))
        if not (first.is_Integer and last.is_Integer):
            raise ValueError(f"loop over {self.index} from {self.first} to {self.last}: {first} and {last} found for "
                             f"sizes and indices {dict(values)}; expected whole numbers")
        return range(int(first), int(last) - 1, -1) if self.descending else range(int(first), int(last) + 1)


Statement = Union[Assign, Loop]
Change = Callable[[Assign], Iterable[Statement]]
Around = Callable[[Loop, tuple[Statement, ...]], Iterable[Statement]]


@dataclass(frozen=True)
class Location:
    """Where a statement stands: the loops around it, outermost first, and its position in program order."""

    statement: Assign
    loops: tuple[Loop, ...]
    position: int

    @property
    def indices(self) -> tuple[sp.Symbol, ...]:
        return tuple(loop.index for loop in self.loops)


def walked(body: Iterable[Statement], loops: tuple[Loop, ...] = ()) -> Iterator[tuple[Statement, tuple[Loop, ...]]]:
    """All statements of a body, in program order, each with the loops around it."""
    for statement in body:
        yield from statement.walked(loops)


def loops_in(body: Iterable[Statement]) -> Iterator[Loop]:
    """All loops of a body, outer ones before those inside of them."""
    return (statement for statement, _ in walked(body) if isinstance(statement, Loop))


def assignments(body: Iterable[Statement]) -> Iterator[Assign]:
    """All assignments of a body, at whatever depth of loops, in program order."""
    return (statement for statement, _ in walked(body) if isinstance(statement, Assign))


def made_of(start: Collection[str], made: Iterable[tuple[str, Collection[str]]]) -> set[str]:
    """Names, and those of all that is made of them, directly or not. made: a name, and the names that it is made of.

    >>> sorted(made_of({"a"}, [("c", {"b"}), ("b", {"a", "x"}), ("d", {"x"})]))
    ['a', 'b', 'c']
    """
    found, known, rows = set(start), set[str](), list(made)
    while found != known:
        known = found
        found = known | {name for name, parts in rows if not known.isdisjoint(parts)}
    return found


def mapped(body: Iterable[Statement], change: Change, around: Around = lambda loop, body: [replace(loop, body=body)]
           ) -> tuple[Statement, ...]:
    """Statements, at whatever depth of loops, each assignment replaced by those that ``change`` makes of it, and each
    loop by those that ``around`` makes of it and its new body: one loop where nothing is said."""
    return tuple(made for statement in body for made in statement.mapped(change, around))


@dataclass(frozen=True, repr=False)
class Program(Short, Aligned):
    """A Tensor Program: initial vectors, matrices and data, and the statements that make all else of them.

    vectors: initial vectors, independent with entries N(0, 1); matrices: initial matrices, independent
    with entries N(0, 1/n), one for every value of their free indices; data: scalars that are given;
    body: the statements; sizes: the symbols that loops run to; meaning: names of parameters, for printing.
    roles: what indices stand for, "clock" (training steps), "layer", "visit", "sample", "position" or "width" by
    index; those that are not named have the roles that ``index_roles`` says.

    Raises ``ValueError`` for a statement that reads what is not there yet, naming it and its place, for symbols that
    have the name of a size or an index and are another one, and for unknown roles.
    Source: Tensor Programs VI, Program 1 [tensor_programs_vi/program_1] and appendix E.

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> program = tp.program(net, opt, scale)
    >>> [str(v) for v in program.sizes], program.count({"L": 4, "T": 2})
    (['T', 'L'], 32)
    """

    name: str
    vectors: tuple[Vector, ...]
    matrices: tuple[Matrix, ...]
    data: tuple[Scalar, ...]
    body: tuple[Statement, ...]
    sizes: tuple[sp.Symbol, ...]
    meaning: Mapping[sp.Expr, str] = field(default_factory=dict)
    roles: Mapping[sp.Symbol, str] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.name, self.vectors, self.matrices, self.data, self.body, self.sizes))

    def __post_init__(self) -> None:
        _check_symbols(self)
        self.index_roles()
        _check_order(self)

    def index_roles(self) -> dict[sp.Symbol, str]:
        """The role of every loop's and every sum's index, from ``roles`` or by custom.

        By custom the clock is the index of the first outermost loop that runs to the first size, layers are what stands
        among superscripts, and all else are samples.

        >>> import tpcalc as tp
        >>> program = tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling(1, 0), batch=True)
        >>> {str(index): role for index, role in program.index_roles().items()}
        {'t': 'clock', 'i': 'sample', 'l': 'layer'}
        """
        return dict(self._roles)

    @cached_property
    def layers(self) -> frozenset[sp.Symbol]:
        """The indices of layers."""
        return frozenset(index for index, role in self._roles.items() if role == "layer")

    @cached_property
    def _roles(self) -> dict[sp.Symbol, str]:
        locations = self.locations()
        members = [m for location in locations for m in (location.statement.target,
                                                         *location.statement.value.atoms(Member))]
        outermost = {loop.index: loop.last for loop in reversed(self._outermost)}
        return read_roles(self.name, self.roles, self._indices(), dict(reversed(outermost.items())), members,
                          self.sizes[0] if self.sizes else None)

    def clock(self) -> "Loop | None":
        """The loop over training steps, None for a program without one."""
        roles = self.index_roles()
        of_clock = [loop for loop in self._outermost if roles[loop.index] == "clock"]
        by_custom = [loop for loop in of_clock if self.sizes and self.sizes[0] in loop.last.free_symbols]
        return next(iter(by_custom or of_clock), None)

    def numeric_sizes(self, sizes: Sizes) -> dict[sp.Symbol, int]:
        """Sizes by the program's symbols, from sizes by symbol or name; raises ``ValueError`` for any others."""
        needed = [str(size) for size in self.sizes]
        if not isinstance(sizes, Mapping):
            raise ValueError(f"sizes: got {short(sizes)}; expected a mapping from {', '.join(needed)} to whole "
                             "numbers")
        given = [str(name) for name in sizes]
        if sorted(given) != sorted(needed):
            raise ValueError(f"sizes: got {sorted(given)}; expected {needed}, what program {self.name} needs")
        by_name = dict(zip(given, sizes.values()))
        return {size: by_name[str(size)] for size in self.sizes}

    def locations(self) -> list[Location]:
        """All assignments with their loops, in program order."""
        return list(self._locations)

    @cached_property
    def _locations(self) -> tuple[Location, ...]:
        found = ((s, loops) for s, loops in walked(self.body) if isinstance(s, Assign))
        return tuple(Location(statement, loops, position) for position, (statement, loops) in enumerate(found))

    @property
    def _outermost(self) -> list[Loop]:
        return [loop for loop in self.body if isinstance(loop, Loop)]

    def _indices(self) -> list[sp.Symbol]:
        """The indices of all loops and sums, in order of appearance."""
        return list(dict.fromkeys(index for statement, _ in walked(self.body) for index in statement.bound))

    def unroll(self, sizes: Sizes) -> Iterator[Assign]:
        """Every assignment with numbers for its indices, in the order in which they are executed.

        sizes: by the program's symbols or their names; raises ``ValueError`` for others.
        """
        values = _integers(self.numeric_sizes(sizes))
        return (one.at_numbers(at) for statement in self.body for one, at in statement.visited(values))

    def count(self, sizes: Sizes) -> int:
        """How many assignments ``unroll`` gives, without unrolling loops that are alike at every index."""
        values = _integers(self.numeric_sizes(sizes))
        return sum(statement.count(values) for statement in self.body)

    def __str__(self) -> str:
        lines = [f"program {self.name}"]
        lines += [f"  given {v}: entries N(0, 1)" for v in self.vectors]
        lines += [f"  given {m}: entries N(0, 1/n), independent" for m in self.matrices]
        lines += [f"  given {s}: a number" for s in self.data]
        lines += [f"  where {symbol} {meaning}" for symbol, meaning in self.meaning.items()]
        lines += ["  " * (len(loops) + 1) + str(statement) for statement, loops in walked(self.body)]
        return "\n".join(lines)

    def latex(self) -> str:
        """The statements as lines of an ``aligned`` environment, indented by loop."""
        given = [(self.vectors, r"\text{ with independent entries } \mathcal{N}(0, 1)"),
                 (self.matrices, r"\text{ with independent entries } \mathcal{N}(0, \tfrac{1}{n})"), (self.data, "")]
        lines = [r"&\text{given } " + ", ".join(map(statement_latex, members)) + law
                 for members, law in given if members]
        lines += ["&" + r"\quad " * len(loops) + statement.latex() for statement, loops in walked(self.body)]
        return " \\\\\n".join(lines)


def _integers(sizes: Mapping[sp.Symbol, int]) -> dict[sp.Symbol, sp.Integer]:
    return {size: sp.Integer(value) for size, value in sizes.items()}


def _check_symbols(program: Program) -> None:
    """Two symbols of one name, such as L and an L that is positive, are two things: one of them is a mistake."""
    known = {str(symbol): symbol for symbol in (*program._indices(), *program.sizes)}
    for statement, _ in walked(program.body):
        strange = {symbol for e in statement.expressions for symbol in symbolic(e).free_symbols
                   if known.get(symbol.name, symbol) != symbol}
        if strange:
            symbol = min(strange, key=str)
            raise ValueError(f"program {program.name}: {statement} has a symbol {symbol} that is not the size or "
                             f"index {symbol} of the program: their assumptions differ; expected one symbol "
                             "of a name")


def _check_order(program: Program) -> None:
    """Run the program at small sizes: every member that is read must be given or assigned before, once."""
    assigned: set[Numbered] = set()
    sizes = _integers({size: 2 for size in program.sizes})
    visits = (visit for statement in program.body for visit in statement.visited(sizes))
    ways = {id(location.statement): ReadMembers.of(location.statement.value) for location in program.locations()}
    given = [Numbered.of(one, {}) for one in (*program.vectors, *program.matrices, *program.data)]
    for statement, values in visits:
        for read in ways[id(statement)].at(values):
            if read not in assigned and not _is_given(given, read):
                raise ValueError(f"{_location(program, statement, values)} reads {read.member()}, which is neither "
                                 "given nor assigned before")
        target = Numbered.of(statement.target, {symbol: int(value) for symbol, value in values.items()})
        if target in assigned or _is_given(given, target):
            raise ValueError(f"{_location(program, statement, values)} assigns {target.member()} a second time")
        assigned.add(target)


def _location(program: Program, statement: Assign, values: Values) -> str:
    return f"program {program.name}: {statement.at_numbers(values)}"


def _is_given(given: list[Numbered], member: Numbered) -> bool:
    """Is it an initial vector or matrix, or data? Indices that are symbols in what is given stand for any."""
    return any(one.family == member.family and len(one.indices) == len(member.indices)
               and all(g == i for g, i in zip(one.indices, member.indices) if isinstance(g, int)) for one in given)


ROLES = ("clock", "layer", "visit", "sample", "position", "width")


def read_roles(program: str, given: Mapping[sp.Symbol, str], indices: Sequence[sp.Symbol],
               outermost: Mapping[sp.Symbol, sp.Expr], members: Iterable[Member], size: sp.Symbol | None
               ) -> dict[sp.Symbol, str]:
    """The role of every index: the one that is given for it, or else the customary one.

    By custom the clock is the index of the first outermost loop that runs to the first size, layers stand among
    superscripts, and all else are samples; a program that names a clock has no other. program: its name; indices: of
    all loops and sums; outermost: last values of outermost loops by index; members: all that its statements have;
    size: the first size. Raises ``ValueError`` for a role that is unknown or of no index, and for a clock that is not
    the index of one outermost loop.
    """
    for index, role in given.items():
        if role not in ROLES:
            raise ValueError(f"roles: got {role!r} for {index}; expected {', '.join(map(repr, ROLES))}")
        if index not in indices:
            raise ValueError(f"roles: got {role!r} for {index}, which is the index of no loop and no sum; expected "
                             f"indices of program {program}, {', '.join(map(str, indices)) or 'none'}")
    clocks = [index for index, role in given.items() if role == "clock"]
    if len(clocks) > 1 or not set(clocks) <= set(outermost):
        raise ValueError(f"roles: got the clock {', '.join(map(str, clocks))}; expected the index of one outermost "
                         f"loop of program {program}, one of {', '.join(map(str, outermost)) or 'none'}")
    found = dict.fromkeys(indices, "sample")
    found.update(dict.fromkeys((i for i in indices if i in _superscripts(members)), "layer"))
    customary = [index for index, last in outermost.items() if size is not None and size in last.free_symbols]
    found.update(dict.fromkeys([] if clocks else customary[:1], "clock"))
    return {**found, **given}


def _superscripts(members: Iterable[Member]) -> set[sp.Symbol]:
    """Symbols among the superscripts of some member."""
    found: set[sp.Symbol] = set()
    for member in members:
        cut = len(member.indices) - int(member.args[2])
        found |= {s for index in member.indices[cut:] for s in index.free_symbols}
    return found
