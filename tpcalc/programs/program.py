"""Programs: statements in loops over training steps and layers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Callable, Iterable, Iterator, Mapping, Union

import sympy as sp

from .._types import Sizes
from .._checks import short, symbolic
from .._shown import Short
from .._text import Aligned
from .language import Mat, Member, Scal, Vec, kind
from .roles import read_roles


@dataclass(frozen=True)
class Assign:
    """``target := value``: a vector, a scalar, or a matrix of the next step."""

    target: sp.Expr
    value: sp.Expr

    def __post_init__(self) -> None:
        if not isinstance(self.target, Member):
            raise TypeError(f"{self.target} := {self.value}: only a member of a family can be assigned")
        target, value = kind(self.target), kind(self.value)
        if target != value and self.value != 0 and not (target == "vector" and value == "scalar"):
            raise TypeError(f"{self.target} := {self.value}: a {target} cannot be a {value}")


@dataclass(frozen=True)
class Loop:
    """The body for index = first, ..., last, downwards where ``descending`` (then first >= last)."""

    index: sp.Symbol
    first: sp.Expr
    last: sp.Expr
    body: tuple["Statement", ...]
    descending: bool = False


Statement = Union[Assign, Loop]


@dataclass(frozen=True)
class Place:
    """Where a statement stands: the loops around it, outermost first, and its position in program order."""

    statement: Assign
    loops: tuple[Loop, ...]
    position: int

    @property
    def indices(self) -> tuple[sp.Symbol, ...]:
        return tuple(loop.index for loop in self.loops)


def mapped(body: Iterable[Statement], change: Callable[[Assign], Iterable[Statement]]) -> tuple[Statement, ...]:
    """Statements, at whatever depth of loops, each assignment replaced by those that ``change`` makes of it."""
    found: list[Statement] = []
    for statement in body:
        if isinstance(statement, Loop):
            found.append(replace(statement, body=mapped(statement.body, change)))
        else:
            found += change(statement)
    return tuple(found)


@dataclass(frozen=True, repr=False)
class Program(Short, Aligned):
    """A Tensor Program.

    vectors: initial vectors, independent with entries N(0, 1); matrices: initial matrices, independent
    with entries N(0, 1/n), one for every value of their free indices; data: scalars that are given;
    body: the statements; sizes: the symbols that loops run to; meaning: names of parameters, for printing.
    roles: what indices stand for, "clock" (training steps), "layer", "sample", "position" or "width" by index; those
    that are not named have the roles that ``index_roles`` says.

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
    vectors: tuple[Vec, ...]
    matrices: tuple[Mat, ...]
    data: tuple[Scal, ...]
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
        places = self.places()
        members = [m for place in places for m in (place.statement.target, *place.statement.value.atoms(Member))]
        outermost = {loop.index: loop.last for loop in reversed(self.body) if isinstance(loop, Loop)}
        return read_roles(self.name, self.roles, list(_indices(self.body)), dict(reversed(outermost.items())), members,
                          self.sizes[0] if self.sizes else None)

    def clock(self) -> "Loop | None":
        """The loop over training steps, None for a program without one."""
        roles = self.index_roles()
        loops = (statement for statement in self.body if isinstance(statement, Loop))
        of_clock = [loop for loop in loops if roles[loop.index] == "clock"]
        by_custom = [loop for loop in of_clock if self.sizes and self.sizes[0] in loop.last.free_symbols]
        return next(iter(by_custom or of_clock), None)

    def numeric_sizes(self, sizes: Sizes) -> dict[sp.Symbol, int]:
        """Sizes by the program's symbols, from sizes by symbol or name; raises ``ValueError`` for any others."""
        needed = [str(size) for size in self.sizes]
        if not isinstance(sizes, Mapping):
            raise ValueError(f"sizes: {short(sizes)} given; allowed is a mapping from {', '.join(needed)} to whole "
                             "numbers")
        given = [str(name) for name in sizes]
        if sorted(given) != sorted(needed):
            raise ValueError(f"sizes: {sorted(given)} given; program {self.name} needs {needed}, which is "
                             "all that is allowed")
        by_name = dict(zip(given, sizes.values()))
        return {size: by_name[str(size)] for size in self.sizes}

    def places(self) -> list[Place]:
        """All assignments with their loops, in program order."""
        found: list[Place] = []

        def walk(body: tuple[Statement, ...], loops: tuple[Loop, ...]) -> None:
            for statement in body:
                if isinstance(statement, Loop):
                    walk(statement.body, loops + (statement,))
                else:
                    found.append(Place(statement, loops, len(found)))

        walk(self.body, ())
        return found

    def unroll(self, sizes: Sizes) -> Iterator[Assign]:
        """Every assignment with numbers for its indices, in the order in which they are executed.

        sizes: by the program's symbols or their names; raises ``ValueError`` for others.
        """

        def walk(body: tuple[Statement, ...], values: dict[sp.Symbol, sp.Integer]) -> Iterator[Assign]:
            for statement in body:
                if isinstance(statement, Assign):
                    yield Assign(_at(statement.target, values), write_out(_at(statement.value, values)))
                    continue
                for value in _steps(statement, values):
                    yield from walk(statement.body, {**values, statement.index: sp.Integer(value)})

        return walk(self.body, _integers(self.numeric_sizes(sizes)))

    def count(self, sizes: Sizes) -> int:
        """How many assignments ``unroll`` gives, without unrolling loops that are alike at every index."""

        def of(body: tuple[Statement, ...], values: dict[sp.Symbol, sp.Integer]) -> int:
            total = 0
            for statement in body:
                if isinstance(statement, Assign):
                    total += 1
                    continue
                steps, inner = _steps(statement, values), statement.body
                alike = not any(end.has(statement.index) for end in _ends(inner))
                each = (of(inner, {**values, statement.index: sp.Integer(k)}) for k in (steps[:1] if alike else steps))
                total += sum(each) * (len(steps) if alike else 1)
            return total

        return of(self.body, _integers(self.numeric_sizes(sizes)))

    def __str__(self) -> str:
        lines = [f"program {self.name}"]
        lines += [f"  given {v}: entries N(0, 1)" for v in self.vectors]
        lines += [f"  given {m}: entries N(0, 1/n), independent" for m in self.matrices]
        lines += [f"  given {s}: a number" for s in self.data]
        lines += [f"  where {symbol} {meaning}" for symbol, meaning in self.meaning.items()]

        def walk(body: tuple[Statement, ...], depth: int) -> None:
            for statement in body:
                if isinstance(statement, Loop):
                    lines.append("  " * depth + f"for {statement.index} = {statement.first}, ..., {statement.last}:")
                    walk(statement.body, depth + 1)
                else:
                    lines.append("  " * depth + f"{statement.target} := {statement.value}")

        walk(self.body, 1)
        return "\n".join(lines)

    def latex(self) -> str:
        """The statements as lines of an ``aligned`` environment, indented by loop."""
        lines: list[str] = []

        def walk(body: tuple[Statement, ...], depth: int) -> None:
            indent = r"\quad " * depth
            for statement in body:
                if isinstance(statement, Loop):
                    index, first, last = map(sp.latex, (statement.index, statement.first, statement.last))
                    lines.append(rf"&{indent}\text{{for }} {index} = {first}, \ldots, {last}:")
                    walk(statement.body, depth + 1)
                else:
                    lines.append(rf"&{indent}{sp.latex(statement.target)} := {sp.latex(statement.value)}")

        walk(self.body, 0)
        return " \\\\\n".join(lines)


def _integers(sizes: Mapping[sp.Symbol, int]) -> dict[sp.Symbol, sp.Integer]:
    return {size: sp.Integer(value) for size, value in sizes.items()}


def _indices(body: tuple[Statement, ...]) -> dict[sp.Symbol, None]:
    """The indices of all loops and sums in a body, in order of appearance."""
    found: dict[sp.Symbol, None] = {}
    for statement in body:
        if isinstance(statement, Loop):
            found.update({statement.index: None, **_indices(statement.body)})
        else:
            totals = sorted(statement.value.atoms(sp.Sum), key=sp.default_sort_key)
            found.update(dict.fromkeys(limit[0] for total in totals for limit in total.limits))
    return found


def _steps(loop: Loop, values: Mapping[sp.Symbol, sp.Integer]) -> range:
    ends = [_at(end, values) for end in (loop.first, loop.last)]
    if not all(end.is_Integer for end in ends):
        raise ValueError(f"loop over {loop.index} from {loop.first} to {loop.last}: {ends[0]} and {ends[1]} found for "
                         f"sizes and indices {dict(values)}; allowed are whole numbers")
    first, last = map(int, ends)
    return range(first, last - 1, -1) if loop.descending else range(first, last + 1)


def _ends(body: tuple[Statement, ...]) -> Iterator[sp.Expr]:
    """The bounds of all loops in a body."""
    for statement in body:
        if isinstance(statement, Loop):
            yield from (statement.first, statement.last, *_ends(statement.body))


def _at(expression: sp.Expr, values: Mapping[sp.Symbol, sp.Integer]) -> sp.Expr:
    """Numbers for indices; ``xreplace`` is much faster than ``subs``, but would rename a sum's own index."""
    return expression.subs(values) if expression.has(sp.Sum) else expression.xreplace(values)


def write_out(expression: sp.Expr) -> sp.Expr:
    """Sums over ranges of numbers, term by term."""
    if not expression.has(sp.Sum):
        return expression

    def terms(total: sp.Sum) -> sp.Expr:
        (index, first, last), *outer = total.limits
        body = sp.Add(*(_at(total.function, {index: sp.Integer(k)}) for k in range(int(first), int(last) + 1)))
        return write_out(sp.Sum(body, *outer)) if outer else body

    return expression.replace(lambda e: isinstance(e, sp.Sum), terms)


def _check_symbols(program: Program) -> None:
    """Two symbols of one name, such as L and an L that is positive, are two things: one of them is a mistake."""
    known = {str(symbol): symbol for symbol in (*_indices(program.body), *program.sizes)}

    def walk(body: tuple[Statement, ...]) -> None:
        for statement in body:
            read: tuple[sp.Expr, ...]
            if isinstance(statement, Loop):
                place, read = f"the loop over {statement.index}", (statement.index, statement.first, statement.last)
                walk(statement.body)
            else:
                place, read = f"{statement.target} := {statement.value}", (statement.target, statement.value)
            for symbol in sorted(set().union(*(symbolic(e).free_symbols for e in read)), key=str):
                if known.get(str(symbol), symbol) != symbol:
                    raise ValueError(f"program {program.name}: {place} has a symbol {symbol} that is not the size or "
                                     f"index {symbol} of the program: their assumptions differ; allowed is one symbol "
                                     "of a name")

    walk(program.body)


def _check_order(program: Program) -> None:
    """Run the program at small sizes: every member that is read must be given or assigned before, once."""
    assigned: set[sp.Expr] = set()
    for statement in program.unroll({size: 2 for size in program.sizes}):
        place = f"program {program.name}: {statement.target} := {statement.value}"
        for read in statement.value.atoms(Member):
            if read not in assigned and not _is_given(program, read):
                raise ValueError(f"{place} reads {read}, which is neither given nor assigned before")
        if statement.target in assigned or _is_given(program, statement.target):
            raise ValueError(f"{place} assigns {statement.target} a second time")
        assigned.add(statement.target)


def _is_given(program: Program, member: Member) -> bool:
    """Is it an initial vector or matrix, or data? Indices that are symbols in what is given stand for any."""
    for given in (*program.vectors, *program.matrices, *program.data):
        if given.same_family(member) and len(given.indices) == len(member.indices):
            if all(g == i for g, i in zip(given.indices, member.indices) if g.is_number):
                return True
    return False
