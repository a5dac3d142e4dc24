"""A program as Python source: one loop nest over arrays, and one that only says what is read and when."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Callable, Mapping

import sympy as sp

from .._types import Array, Fields
from ..programs.language import Matrix, Member, NonlinearOuter, Outer, Transpose, Vector
from ..optimizers.spectral import Spectral
from ..programs.program import Assign, Program
from .arithmetic import NONREAL
from .code_lines import Value
from .expressions import EntryTerms, Writer, matrix_terms, simple_products, written_terms
from .names import Names
from .nest import Axes, Leaf, Lines, Nest, distributed, find_axes

OPERATIONS = ("asarray", "broadcast", "dot", "head_sum", "head_table", "head_turn", "inner", "mean", "total",
              "permuted", "quantile", "reshaped", "stacked", "finite")
ARRAY_FUNCTIONS = ("matvec", "combine", "spectral", "advanced", "entry_product", "entry_function", "chi", "chis",
                   "norm_ratio", "not_finite", "parts")
REPORTS = ("begin", "need", "data", "multiplied", "made", "holds", "parts")


@dataclass(frozen=True)
class Lowered:
    """A program compiled once for all sizes and data.

    source, reads: the loop nest over arrays, and the one that reports reads, products and assignments to ``need``,
    ``multiplied`` and ``made``; leaves: the statements in the order of their numbers, with the loops around each;
    names: what the code calls families, numbers and functions; plans, known_numbers, known_terms: those made so far, by
    sizes and parameters; spectral: functions of whole matrices by their numbers in the code.
    """

    program: Program
    axes: Axes
    names: Names
    leaves: tuple[tuple[Leaf, tuple[sp.Symbol, ...]], ...]
    source: str
    reads: str
    functions_of_entries: tuple[Array, ...] = ()
    spectral: tuple[Spectral, ...] = ()
    plans: dict[Array, Array] = field(default_factory=dict, repr=False, compare=False)
    known_numbers: dict[Array, list] = field(default_factory=dict, repr=False, compare=False)
    known_terms: dict[Array, EntryTerms] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def functions(self) -> tuple[Callable[[Array], None], Callable[[Array], None]]:
        """``run(w)`` and ``reads(w)``."""
        found: Fields = {}
        for text, name in ((self.source, "run"), (self.reads, "reads")):
            exec(compile(text, f"<lowered {self.program.name}: {name}>", "exec"), found)
        return found["run"], found["reads"]

    def statement(self, at: tuple[int, ...]) -> Assign:
        """The statement that runs at (number, loop indices), with numbers for these."""
        leaf, indices = self.leaves[at[0]]
        return Assign(self.target(at), leaf.assign.value.subs(dict(zip(indices, map(sp.Integer, at[1:])))))

    def target(self, at: tuple[int, ...]) -> Member:
        """What the statement assigns that runs at (number, loop indices), with numbers for these."""
        leaf, indices = self.leaves[at[0]]
        return leaf.assign.target.xreplace(dict(zip(indices, map(sp.Integer, at[1:]))))

    def beside(self, at: tuple[int, ...], node: Spectral) -> tuple[int, ...]:
        """The loop indices of a place that say no step of what a function of whole matrices remembers: all of them
        where steps do not begin at a number."""
        _, indices = self.leaves[at[0]]
        low, high = node.past[0].limits[-1][1:] if node.past else (sp.Integer(0), sp.Integer(0))
        steps = set() if low.free_symbols else high.free_symbols
        return tuple(number for index, number in zip(indices, at[1:]) if index not in steps)

    def member(self, location: tuple[int, tuple[int, ...]], on_axes: tuple[int, ...]) -> sp.Expr:
        """The member of a family at indices that are no axes, and at indices that are."""
        kind, *name = self.names.families[location[0]]
        layout = self.names.layouts[location[0]]
        keys, axes = iter(location[1]), iter(on_axes)
        indices = [sp.Integer(next(keys) if axis is None else next(axes)) for axis in layout]
        return kind(*name, *indices)

    def entry_terms(self, number: int, at: tuple[int, ...], sizes: Mapping[str, int]) -> EntryTerms:
        """Function of entries ``number`` at loop indices: its arguments, compiled once for all loop indices that no sum
        in it depends on."""
        node, indices, is_axis = self.functions_of_entries[number]
        limits = {s for total in node.atoms(sp.Sum) for _, *ends in total.limits for end in ends
                  for s in end.free_symbols}
        values = {s: sp.Integer(value) for s, value in zip(indices, at) if s in limits}
        values |= {s: sp.Integer(sizes[str(s)]) for s in self.program.sizes}
        key = (number, tuple(values.items()))
        if key not in self.known_terms:
            self.known_terms[key] = self._written_terms(node, indices, is_axis, values)
        return self.known_terms[key]

    def _written_terms(self, node: NonlinearOuter, indices: tuple[sp.Symbol, ...], is_axis: Array,
                       values: Mapping[sp.Symbol, Array]) -> EntryTerms:
        plain = {s for total in node.atoms(sp.Sum) for s, *_ in total.limits if not is_axis(s)}
        phi, names, numbers, arguments = written_terms(node, values, plain)
        w = Writer(self.names, False)
        w.index, w.is_axis = {s: f"i{p}" for p, s in enumerate(indices)}, is_axis
        numbers_code = ", ".join(w.value(number).code for number in numbers)
        blocks = ["[" + ", ".join("(" + ", ".join(w.outer(c * term)) + ")" for c, term in terms) + "]"
                  for terms in arguments]
        head = f"def evaluate(w, at):\n    {''.join(code + ', ' for code in w.index.values()) or '_'} = at"
        text = "\n".join([head, *_heading(self.names, True), *w.code,
                          f"    return [{numbers_code}], [{', '.join(blocks)}]", ""])
        found: Fields = {}
        exec(compile(text, f"<lowered {self.program.name}: {node}>"[:200], "exec"), found)
        return EntryTerms(phi, names, found["evaluate"])


KNOWN: dict[tuple[int, bool], tuple[Array, Lowered]] = {}


def lower(program: Program, entries: bool = True) -> Lowered:
    """Compile a program into a loop nest; the same program object is compiled once.

    entries: whether functions of matrix entries are arrays of n^2 entries, whose sums over the past are carried; else
    they are left to the reading. Raises ``NotLowered`` naming a node that array code cannot be written for.
    """
    key = (id(program), entries)
    if key in KNOWN and KNOWN[key][0]() is program:
        return KNOWN[key][1]
    axes = find_axes(program)
    writer = _Program(program, axes, entries)
    found = writer.written(distributed(program, axes))
    KNOWN[key] = (weakref.ref(program, partial(_forget, KNOWN, key)), found)
    return found


def _forget(known: dict[tuple[int, bool], Array], key: tuple[int, bool], _: Array) -> None:
    known.pop(key, None)


class _Program:
    """Writes loops and statements."""

    def __init__(self, program: Program, axes: Axes, entries: bool) -> None:
        self.program, self.axes, self.names = program, axes, Names(program, axes)
        self.writer = Writer(self.names, entries)
        self.leaves: list[tuple[Leaf, tuple[sp.Symbol, ...]]] = []
        self.positions = {id(location.statement): location.position for location in program.locations()}
        self.spectral: list[Spectral] = []
        self.at = ""  # code of the place of the statement that is written
        for location in program.locations():
            self.names.number_of(location.statement.target)

    def written(self, lines: tuple[Lines, ...]) -> Lowered:
        nests = [line for line in lines if isinstance(line, Nest)]
        clock = max(nests, key=lambda nest: nest.statements) if nests else None
        for line in lines:
            self._line(line, line is clock)
        w = self.writer
        source, reads = (self._function(*part) for part in (("run", w.code), ("reads", w.reads)))
        return Lowered(self.program, self.axes, self.names, tuple(self.leaves), source, reads,
                       tuple(w.functions_of_entries), tuple(self.spectral))

    def _function(self, name: str, code: list[str]) -> str:
        return "\n".join([f"def {name}(w):", *_heading(self.names, name == "run"), *code, ""])

    def _line(self, line: Lines, is_clock: bool = False) -> None:
        w = self.writer
        if isinstance(line, Leaf):
            return self._leaf(line)
        loop, name = line.loop, f"i_{line.loop.index}"
        first, last = (self.names.integer(end, w.index) for end in (loop.first, loop.last))
        before = dict(w.index)
        steps = f"range({first}, {last} - 1, -1)" if loop.descending else f"range({first}, {last} + 1)"
        if loop.index in w.index:
            name = w.fresh("i")
        if is_clock:
            w.line(f"done, steps = 0, len({steps})")
        with w.block(f"for {name} in {steps}:"):
            w.index[loop.index] = name
            if not loop.descending:
                w.ascending.append((loop.index, loop.first))
            for inner in line.body:
                self._line(inner)
            if is_clock:
                w.line("done += 1")
                w.line("step_done(done, steps)")
        w.index.clear()
        w.index.update(before)
        if not loop.descending:
            w.ascending.pop()

    def _leaf(self, leaf: Leaf) -> None:
        w, assign, number = self.writer, leaf.assign, len(self.leaves)
        position = self.positions[id(assign)]
        w.statement, w.order = assign, [loop.index for loop in leaf.axes]
        w.is_axis = lambda index: self.axes.is_axis(position, index)
        ends = {loop.index: loop.bounds for loop in leaf.axes}
        w.bounds = {i: (self.names.integer(low, {}), self.names.integer(high, {})) for i, (low, high) in ends.items()}
        around, w.known, w.large = w.known, [{}], []
        self.leaves.append((leaf, tuple(w.index)))
        at = f"({number}, {''.join(code + ', ' for code in w.index.values())})"
        w.line(f"# {assign.target}")
        w.line(f"begin({at})", reads=True)
        for node in assign.value.atoms(*NONREAL):
            raise w.refused(node, "it is no real number, or the derivative of a function that has none")
        value = simple_products(assign.value)
        if isinstance(assign.target, Matrix):
            self.at = at
            code = self._matrix(value, at)
        else:
            code = self._array(assign, value)
        location = f"F{self.names.number_of(assign.target)}[{self.names.key(assign.target, w.index)}]"
        code = code if code.isidentifier() else w.kept(code, (), "scalar").code
        if not isinstance(assign.target, Matrix) or w.entries and value.has(NonlinearOuter):
            w.line(f"if not finite({code}): not_finite({at}, {code})")
        w.line(f"{location} = {code}")
        made = "".join("({}, {}), ".format(*w.bounds[i]) for i in assign.target.indices if i in w.bounds)
        w.line(f"made({self.names.location(assign.target, w.index)}, ({made}))", reads=True)
        w.line(f"if {at} in ends: forget({at})")
        if w.large:
            w.line(" = ".join(w.large) + " = None")
        w.known = around

    def _array(self, assign: Assign, expression: sp.Expr) -> str:
        """A vector or scalar with all axes of its family, in the order of its indices."""
        w, is_vector = self.writer, isinstance(assign.target, Vector)
        value = w.value(expression)
        axes = tuple(w.order)
        shape = [*map(w.length, axes), *(["width"] if is_vector else [])]
        if shape and (value.axes != axes or is_vector and value.kind == "scalar"):
            fitted = w.fitted(value, axes, "vector" if is_vector else "scalar")
            value = Value(f"broadcast({fitted}, ({', '.join(shape)},))", axes, value.kind)
        wanted = tuple(i for i in assign.target.indices if i in axes)
        if wanted != axes:
            order = tuple(axes.index(a) for a in wanted) + ((len(axes),) if is_vector else ())
            return f"permuted({value.code}, {order})"
        return value.code

    def _matrix(self, expression: sp.Expr, at: str) -> str:
        """A linear combination as lists of members, outer products and functions of entries."""
        w, name = self.writer, self.writer.fresh("m")
        w.line(f"{name} = [], [], []")
        for number, one in matrix_terms(expression):
            self._term(name, number, one)
        return w.kept(f"combine(*{name}, ends.get({at}, ()))", (), "scalar").code

    def _term(self, name: str, number: sp.Expr, one: sp.Expr) -> None:
        rule = {Outer: self._outer_term, sp.Sum: self._sum_term, NonlinearOuter: self._entry_term}
        found = self._spectral_term if isinstance(one, Spectral) else rule.get(type(one), self._member_term)
        found(name, number, one)

    def _sum_term(self, name: str, number: sp.Expr, one: sp.Sum) -> None:
        w = self.writer
        if one.has(Outer) and all(w.is_axis(s) for s, *_ in one.limits):
            for term in sp.Add.make_args(one.function):
                self._outer_term(name, number, sp.Sum(term, *one.limits))
            return
        (index, low, high), inner = one.limits[-1], one.limits[:-1]
        body = sp.Sum(one.function, *inner) if inner else one.function
        with w.running(index, self.names.integer(low, w.index), self.names.integer(high, w.index)):
            for factor, part in matrix_terms(body):
                self._term(name, number * factor, part)

    def _outer_term(self, name: str, number: sp.Expr, one: Outer | sp.Sum) -> None:
        left, right = self.writer.outer(one)
        self.writer.line(f"{name}[1].append(({self._scalar(number)}, {left}, {right}))")

    def _entry_term(self, name: str, number: sp.Expr, one: NonlinearOuter) -> None:
        w, factor = self.writer, self._scalar(number)
        if not w.entries:
            return w.entry_terms(name, factor, one)
        parts = w.fresh("m")
        w.line(f"{parts} = []")
        with w.in_parts():
            w.line(f"{parts}.append((rows, {w.value(one.body).code}))")
        w.line(f"{name}[2].append(({factor}, {parts}))")

    def _spectral_term(self, name: str, number: sp.Expr, one: Spectral) -> None:
        w = self.writer
        now = ", ".join(map(self._outers, one.now))
        past = w.fresh("m")
        w.line(f"{past} = []")
        if one.past:
            step, low, high = one.past[0].limits[-1]
            with w.running(step, self.names.integer(low, w.index), self.names.integer(high, w.index)):
                w.line(f"{past}.append([{', '.join(self._outers(total.at(step)) for total in one.past)}])")
        self.spectral.append(one)
        given = f"{len(self.spectral) - 1}, [{now}], {past}, {self.at}"
        w.line(f"{name}[1].append(({self._scalar(number)}, *spectral({given})))")

    def _outers(self, matrix: sp.Expr) -> str:
        """The code of a list of (c, u, v), for a sum of outer products."""
        inside = self.writer.fresh("m")
        self.writer.line(f"{inside} = [], [], []")
        for factor, part in matrix_terms(matrix):
            self._term(inside, factor, part)
        return f"{inside}[1]"

    def _member_term(self, name: str, number: sp.Expr, one: Matrix | Transpose) -> None:
        code = self.writer.matrix(one.member)
        self.writer.line(f"{name}[0].append(({self._scalar(number)}, {code}, {one.turned}))")

    def _scalar(self, number: sp.Expr) -> str:
        return self.writer.value(number).code


def _heading(names: Names, arrays: bool) -> list[str]:
    """What the code calls by short names: operations on arrays, or what reports reads."""
    head = ["    carried = {}"]
    head += [f"    size_{s} = w.sizes[{str(s)!r}]" for s in names.program.sizes]
    head += [f"    n{i} = w.numbers[{i}]{'' if used else '()'}" for i, (_, used) in enumerate(names.numbers)]
    if not arrays:
        return [*head, *(f"    {one} = w.{one}" for one in REPORTS)]
    head += [f"    F{i} = w.F[{i}]" for i in range(len(names.families))]
    head += ["    arrays_of, numbers_of, first = w.arrays_of, w.numbers_of, w.first",
             "    forget, ends, step_done = w.forget, w.ends, w.step_done",
             "    width, nan, where = w.width, float('nan'), w.arrays.xp.where"]
    head += [f"    {one} = w.arrays.{one}" for one in OPERATIONS]
    head += [f"    {one} = w.{one}" for one in ARRAY_FUNCTIONS]
    return [*head, *(f"    {one} = w.functions[{one!r}]" for one in names.functions)]
