"""A program in normal form for infinite depth: streams to which every layer adds, and vectors that one layer makes.

What layers pass on is taken apart by the eigenvectors of the layers' map (``layer_map.py``):
streams u = Q y, to which what enters counts with weight Q, and reads y = R u. Fast modes are geometric sums over
neighboring layers and count in Q. Errors are of relative order 1/L. Source: perturbation of a matrix's eigenspaces.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Sequence

import sympy as sp
from sympy.core.symbol import Str

from .._checks import exact
from ..calculus.setting import Setting
from ..errors import NotCovered
from ..programs.algebra import multiplied_out
from ..programs.language import Mean, Vector
from ..programs.program import Assign, Loop, Program, Statement, mapped
from .layer_map import LayerState, NoStreams, Slow, Sweep, period, slow_subspace, sweeps
from .forgetting_layers import Entering
from .inlining import at_own_layers, with_moves, with_multiple, without_names
from .interleaving import interleaved
from ..orders.quantities import LAYER_TIME
from ..programs.indices import made_name


@dataclass(frozen=True)
class NormalForm:
    """A program whose limits of infinite depth are those of the one it was made from.

    period: how many layers of that one are one of its layers; explodes: the vectors whose layers' map has an eigenvalue
    outside the unit disk, empty where there is none; forgets: those whose layers keep nothing of what they find.
    """

    program: Program
    period: int = 1
    explodes: str = ""
    forgets: str = ""


def normal_form(program: Program, depth: sp.Symbol | None = None) -> NormalForm:
    """The normal form of a program: without names for intermediate vectors, trained ones as sums over steps, and with
    streams that layers add to.

    depth: the symbol of the number of layers, by default the program's. Raises ``NoStreams`` or ``ValueError`` for what
    no rule covers, naming it, and ``ValueError`` for a program without layers.

    >>> import tpcalc as tp
    >>> program = tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling())
    >>> normal_form(program).program == program  # the stream of a residual network is one as it stands
    True
    """
    depth = Setting.of(program).depth if depth is None else depth
    if depth is None:
        raise NotCovered(f"program {program.name} has no layers, so that nothing depends on the depth")
    plain = without_names(at_own_layers(with_moves(_in_rationals(program))))
    found = list(sweeps(plain, depth))
    together = int(sp.ilcm(1, *(period(s.matrix[sp.Integer(0)]) for s in found)))
    if together > 1:
        plain = without_names(interleaved(plain, depth, together))
    for number in range(len(list(sweeps(plain, depth)))):
        sweep = list(sweeps(plain, depth))[number]
        carried = ", ".join(map(str, sweep.carried))
        if _grows(sweep, carried):
            return NormalForm(plain, together, explodes=carried)
        slow = slow_subspace(sweep.matrix[sp.Integer(0)], sweep.states)
        written = _Rewriting(sweep, slow)
        if slow.explodes:
            return NormalForm(plain, together, explodes=carried)
        if not slow.streams:
            written.require_homogeneous()
            if number:
                raise NoStreams(f"program {program.name}: layers forget {carried} and keep what stands before it; no "
                                "rule for a stream of order one that nothing far from its end changes")
            return NormalForm(plain, together, forgets=carried)
        plain = written.elsewhere(_with_loop(plain, sweep, written.before(), written.body()))
    return NormalForm(without_names(at_own_layers(plain)), together)


def _in_rationals(program: Program) -> Program:
    """Decimal numbers as what they say, 0.1 as 1/10: in floating point an eigenvalue 1 is 1 and something."""
    if not any(p.statement.value.atoms(sp.Float) for p in program.locations()):
        return program
    return replace(program, body=mapped(program.body, lambda s: [Assign(s.target, s.value.xreplace(
        {number: exact("a number", float(number)) for number in s.value.atoms(sp.Float)}))]))


def _grows(sweep: Sweep, carried: str) -> bool:
    """Does a layer multiply what it carries by a positive power of the depth? Raises ``NoStreams`` where it does so to
    what later layers do not carry on."""
    powers = [e for e, matrix in sweep.matrix.items() if e.is_positive and not matrix.is_zero_matrix]
    if not powers:
        return False
    largest = sweep.matrix[max(powers)]
    if (largest ** len(sweep.states)).applyfunc(sp.simplify).is_zero_matrix:
        raise NoStreams(f"the layers' map of {carried} grows with the depth, and its powers do not; no rule for that")
    return True


def _with_loop(program: Program, sweep: Sweep, before: Sequence[Statement], body: tuple[Statement, ...]) -> Program:
    def around(loop: Loop, same: tuple[Statement, ...]) -> Sequence[Statement]:
        return (*before, replace(loop, body=body)) if loop is sweep.loop else (replace(loop, body=same),)

    return replace(program, body=mapped(program.body, lambda s: (s,), around))


@dataclass(frozen=True)
class _Rewriting:
    """One sweep written anew through its streams."""

    sweep: Sweep
    slow: Slow

    # -- streams ----------------------------------------------------------------------------------------------------

    @property
    def _states(self) -> tuple[LayerState, ...]:
        return self.sweep.states

    @property
    def _small(self) -> sp.Matrix:
        """What a layer does to the state besides its map of order one."""
        size = len(self._states)
        return sum((self.sweep.depth**e * m for e, m in self.sweep.matrix.items() if e != 0), sp.zeros(size, size))

    @property
    def _weigh(self) -> sp.Matrix:
        return self.slow.weigh + self.slow.weigh * self._small * self.slow.relax

    @property
    def _read(self) -> sp.Matrix:
        return self.slow.read + self.slow.relax * self._small * self.slow.read

    @property
    def _drift(self) -> sp.Matrix:
        """What streams do to each other in one layer: small terms, and the turning of the eigenvectors themselves."""
        turning = self.sweep.direction * self.slow.weigh.diff(LAYER_TIME) * self.slow.read / self.sweep.depth
        return self._weigh * self._small * self.slow.read + turning

    def _own(self, number: int) -> Vector | None:
        """The vector that is a stream by itself, as it stands."""
        for i, state in enumerate(self._states):
            alone = [sp.Integer(int(j == i)) for j in range(len(self._states))]
            reads = [sp.Integer(int(j == number)) for j in range(self.slow.streams)]
            if state.lag == 1 and list(self._weigh.row(number)) == alone and list(self.slow.read.row(i)) == reads:
                return state.family
        return None

    def _stream(self, number: int, back: int = 0) -> Vector:
        """A stream after this passage, or ``back`` passages ago."""
        own = self._own(number)
        layer = self.sweep.layer - back * self.sweep.direction
        if own is not None:
            return own.subs(self.sweep.layer, layer)
        pattern, shift = self.sweep.carried[0], 0 if self.sweep.direction > 0 else -1
        taken = {v.name for p in self.sweep.program.locations() for v in p.statement.value.atoms(Vector)} | {
            v.name for v in self.sweep.program.vectors}
        name = made_name(f"stream_{number}", *dict.fromkeys(v.name for v in self.sweep.carried))
        while name in taken:
            name += "'"
        indices = [layer + shift if self.sweep.layer in i.free_symbols else i for i in pattern.indices]
        return pattern.func(Str(name), Str(self._latex(number, name)), pattern.args[2], *indices)

    def _latex(self, number: int, name: str) -> str:
        letter = "u" if self.sweep.direction > 0 else r"\delta u"
        return "{%s_{%s}}" % (letter, number) + r"'" * (len(name) - len(name.rstrip("'")))

    def _at_layer(self, function: sp.Expr) -> sp.Expr:
        return function.subs(LAYER_TIME, self.sweep.layer / self.sweep.depth)

    # -- statements -------------------------------------------------------------------------------------------------

    def before(self) -> list[Statement]:
        """Where streams start: what they weigh of the vectors that the first layer finds."""
        found: list[Statement] = []
        start = self.sweep.loop.first
        time = sp.Integer(0) if self.sweep.direction > 0 else sp.Integer(1)
        for number in range(self.slow.streams):
            if self._own(number) is not None:
                continue
            value = sp.Add(*(
                w.subs(LAYER_TIME, time) * self._given(
                    s.family.subs(self.sweep.layer, start - s.lag * self.sweep.direction))
                for s, w in zip(self._states, self.slow.weigh.row(number)) if w != 0))
            found.append(Assign(self._stream(number, 1).subs(self.sweep.layer, start), value))
        return found

    def _given(self, member: Vector) -> sp.Expr:
        """What a vector in front of the first layer was assigned."""
        return next((p.statement.value for p in self.sweep.program.locations() if p.statement.target == member), member)

    def body(self) -> tuple[Statement, ...]:
        """The passage with reads of earlier layers as reads of streams, and the streams' own sums."""
        found: list[Statement] = []
        written: set[int] = set()
        for statement in self.sweep.loop.body:
            if not isinstance(statement, Assign) or not isinstance(statement.target, Vector):
                found.append(self._with_reads(statement, found))
                continue
            number = next((n for n in range(self.slow.streams) if self._own(n) == statement.target), None)
            if number is not None:
                found.append(Assign(statement.target, self._sum(number, found)))
                written.add(number)
            elif statement.target in self.sweep.carried:
                found.append(Assign(statement.target, self._made(statement.target, found)))
            else:
                found.append(self._with_reads(statement, found))
        for number in range(self.slow.streams):
            if number not in written:
                found.append(Assign(self._stream(number), self._sum(number, found)))
        return tuple(found)

    def _sum(self, number: int, names: list[Statement]) -> sp.Expr:
        """A stream's sum: the last layer's, its drift, and what enters, weighed."""
        total = self._stream(number, 1) + sp.Add(*(
            self._at_layer(d) * self._stream(other, 1) for other, d in enumerate(self._drift.row(number)) if d != 0))
        for source, columns in self.sweep.entry.items():
            weight = sum((self.sweep.depth**e * (self._weigh.row(number) * c)[0] for e, c in columns.items()),
                         sp.Integer(0))
            if weight != 0:
                total += self._at_layer(weight) * self._entering(source, names)
        return multiplied_out(total)

    def _made(self, target: Vector, names: list[Statement]) -> sp.Expr:
        """A vector of this layer: what it reads of the streams, and what has entered it in this layer."""
        state = self._states.index(LayerState(target, 1))
        total = sp.Add(*(self._at_layer(r) * self._stream(n, 1) for n, r in enumerate(self._read.row(state)) if r != 0))
        for source, powers in self.sweep.rows[target].entering.items():
            weight = sum((self.sweep.depth**e * c for e, c in powers.items()), sp.Integer(0))
            total += self._at_layer(weight) * self._entering(source, names)
        return multiplied_out(total)

    def _entering(self, source: Vector, names: list[Statement]) -> sp.Expr:
        return self._read_through(self.sweep.entering(source), names)

    def _with_reads(self, statement: Statement, names: list[Statement]) -> Statement:
        if isinstance(statement, Loop):
            raise NoStreams(f"program {self.sweep.program.name}: a loop over {statement.index} inside the layers")
        return Assign(statement.target, self._read_through(statement.value, names))

    def elsewhere(self, program: Program) -> Program:
        """The program where statements after the sweep, too, read streams in the place of its vectors."""
        swept: list[Statement] = []
        named: dict[object, list[Statement]] = {}  # by the layers of a loop: later loops over the same need no more

        def rebuilt(statements: Sequence[Statement], after: bool, layers: object = None) -> tuple[Statement, ...]:
            found: list[Statement] = []
            for s in statements:
                mine = isinstance(s, Loop) and s.index == self.sweep.layer and any(
                    isinstance(a, Assign) and a.target in self.sweep.carried for a in s.body)
                if mine or not after and not isinstance(s, Loop):
                    found.append(s)
                    swept.extend(s.body if isinstance(s, Loop) else ())
                elif isinstance(s, Loop):
                    found.append(replace(s, body=rebuilt(s.body, after, s.bounds)))
                else:
                    names = [*swept, *named.get(layers, ())]
                    known = len(names)
                    value = self._read_behind(s.value, names)
                    named[layers] = [*named.get(layers, ()), *names[known:]]
                    found += [*names[known:], Assign(s.target, value)]
                after = after or mine
            return tuple(found)

        return replace(program, body=rebuilt(program.body, False))

    def _read_behind(self, value: sp.Expr, names: list[Statement]) -> sp.Expr:
        """In other loops over layers as in this one, and where the sweep ends."""
        end = self.sweep.loop.last
        ends: dict[Vector, sp.Expr] = {}
        for vector in value.atoms(Vector):
            for target in self.sweep.carried:
                if vector == target.subs(self.sweep.layer, end):
                    row = self.slow.read.row(self._states.index(LayerState(target, 1)))
                    time = sp.Integer(1) if self.sweep.direction > 0 else sp.Integer(0)
                    if any(r != 0 for r in row):
                        ends[vector] = sp.Add(*(r.subs(LAYER_TIME, time) * self._stream(n).subs(self.sweep.layer, end)
                                                for n, r in enumerate(row) if r != 0))
        value = Mean(value.args[0].xreplace(ends)) if isinstance(value, Mean) else value.xreplace(ends)
        return self._read_through(value, names)

    def _read_through(self, value: sp.Expr, names: list[Statement]) -> sp.Expr:
        """The value with every vector of an earlier layer as what it is of the streams."""
        for vector in sorted(value.atoms(Vector), key=sp.default_sort_key):
            target = self.sweep.assigned(vector)
            lag = None if target is None else self.sweep.lag_of(vector, target)
            if target is None or not lag or target not in self.sweep.carried or any(
                    self._own(n) == target and lag == 1 for n in range(self.slow.streams)):
                continue
            state = self._states.index(LayerState(target,
                                                  min(lag, max(s.lag for s in self._states if s.family == target))))
            row = self._read.row(state)
            parts = [(self._at_layer(r), self._stream(n, 1)) for n, r in enumerate(row) if r != 0]
            if all(r == 0 for r in self.slow.read.row(state)):
                self._require_no_memory(target, vector)
            if len(parts) == 1:
                value = with_multiple(value, vector, *parts[0])
                continue
            name = vector.func(Str(made_name(f"carried_{lag}", vector.name)), Str(rf"\bar{{{vector.args[1]}}}"),
                               *target.args[2:])
            if all(s.target != name for s in names if isinstance(s, Assign)):
                names.append(Assign(name, sp.Add(*(r * u for r, u in parts))))
            value = value.xreplace({vector: name})
        return value

    # -- refusals ---------------------------------------------------------------------------------------------------

    def _require_no_memory(self, target: Vector, read: Vector) -> None:
        raise NoStreams(f"program {self.sweep.program.name}: {read} is read from an earlier layer, and layers do not "
                        "carry it on: it fluctuates from layer to layer; no rule for what its neighbors in depth have "
                        "in common")

    def require_homogeneous(self) -> None:
        """Where layers carry nothing on, all is forgotten that is proportional to what they carry."""
        term = Entering(self.sweep).foreign()
        if term is not None:
            raise NoStreams(f"program {self.sweep.program.name}: its layers keep nothing of what they find, and {term} "
                            "enters, which is not known to be a small multiple of what they find; a limit is known "
                            "where all that enters is")
