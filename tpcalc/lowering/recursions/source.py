"""A derived recursion as the source of a numba kernel: its equations, in the loops of its program."""

from __future__ import annotations

from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Any

import sympy as sp
from sympy.printing.pycode import PythonCodePrinter

from ...calculus.coefficients import Bases
from ...calculus.kets import Covariance, Gamma
from ...calculus.memory import initial_weight_factor_of
from ...calculus.recursion import RecursionEquation, RecursionEquations
from ...calculus.setting import Product, Setting
from ...errors import NotCovered
from ...programs.algebra import replaced
from ...programs.language import LossDerivative, Scalar
from ...programs.program import Loop
from .losses import RowRule


@dataclass
class _Lines:
    """Source lines at a growing indentation, with fresh names for sums."""

    lines: list[str] = field(default_factory=list)
    depth: int = 1
    sums: int = 0

    def add(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def open(self, text: str) -> None:
        self.add(text)
        self.depth += 1

    def fresh(self, what: str = "sum") -> str:
        self.sums += 1
        return f"{what}{self.sums}"


class _Printer(PythonCodePrinter):
    """Expressions as Python: members of families as array elements, sums as names of accumulators."""

    def __init__(self, out: _Lines, setting: Setting) -> None:
        super().__init__({"allow_unknown_functions": False})
        self.out, self.setting = out, setting

    def element(self, name: str, indices: object) -> str:
        inside = ", ".join(map(self._print, indices))  # type: ignore[call-overload]
        return f"{name}[{inside}]" if inside else f"{name}[0]"

    def _print_Symbol(self, expr: sp.Symbol) -> str:
        return expr.name.replace("'", "_")

    def _print_Scalar(self, expr: Scalar) -> str:
        return self.element(expr.name, expr.indices)

    def _print_Gamma(self, expr: Gamma) -> str:
        a, b, t, r, l, m = expr.args
        if r[0] == -1:
            return self.element(f"Gamma{a}", (*t, *l, sp.Integer(0), b, *(sp.Integer(0) for _ in (*r[1:], *m))))
        return self.element(f"Gamma{a}", (*t, *l, r[0] + 1, b, *r[1:], *m))

    def _print_Covariance(self, expr: Covariance) -> str:
        b, c, t, s, l, m = expr.args
        return self.element(f"C{b}_{c}", (*t, *s, *l, *_free_layers(self.setting.products[int(c)], m, self.setting)))

    def _print_KroneckerDelta(self, expr: sp.KroneckerDelta) -> str:
        return "(1.0 if {} == {} else 0.0)".format(*map(self._print, expr.args))

    def _print_Rational(self, expr: sp.Rational) -> str:
        return f"({expr.p} / {expr.q})" if expr.q != 1 else str(expr.p)

    def _print_Pow(self, expr: sp.Pow, **settings: Any) -> str:
        if expr.exp.is_integer and not expr.exp.is_nonnegative and expr.exp != -1:  # of ints numba makes an int
            return f"float({self._print(expr.base)})**({self._print(expr.exp)})"
        return super()._print_Pow(expr, **settings)

    def _print_Sum(self, expr: sp.Sum) -> str:
        name = self.out.fresh()
        self.out.add(f"{name} = 0.0")
        depth = self.out.depth
        for variable, first, last in reversed(expr.limits):  # sympy's first limit is the innermost
            self.out.open(f"for {self._print(variable)} in range({self._print(first)}, {self._print(last + 1)}):")
        self.out.add(f"{name} += {self._print(expr.function)}")
        self.out.depth = depth
        return name


def _free_layers(product: Product, layers: sp.Tuple, setting: Setting) -> tuple[sp.Expr, ...]:
    """Those of a hat-ket's layers that its matrix does not fix: the others are those of its partner."""
    fixed = {s for index in product.matrix.indices for s in index.free_symbols}
    return tuple(layer for symbol, layer in zip(Bases(setting).above, layers) if symbol not in fixed)


def recursion_parameters(recursion: RecursionEquations) -> tuple[sp.Symbol, ...]:
    """The symbols that stay free, such as alpha and gamma, sorted by name."""
    bound: set[sp.Symbol] = set(recursion.setting.program.sizes) | {recursion.setting.time, recursion.setting.past}
    free: set[sp.Symbol] = set()
    for equation in recursion.equations:
        bound |= {loop.index for loop in equation.location.loops} | set(equation.target.free_symbols)
        bound |= {limit[0] for total in equation.value.atoms(sp.Sum) for limit in total.limits}
        free |= equation.value.free_symbols
    return tuple(sorted(free - bound, key=str))


def argument_names(recursion: RecursionEquations) -> tuple[str, ...]:
    """Names of the kernel's arguments: sizes, data, the targets y, parameters."""
    program = recursion.setting.program
    return (*(s.name for s in program.sizes), *(d.name for d in program.data), "y",
            *(s.name for s in recursion_parameters(recursion)))


def result_names(recursion: RecursionEquations) -> tuple[str, ...]:
    """Names of the kernel's arrays, in order: scalars, Gamma0, Gamma1, ... by number of family, C0_1, ... by numbers of
    two products."""
    setting = recursion.setting
    scalars = dict.fromkeys(e.target.name for e in recursion.equations if e.kind == "scalar")
    pairs = dict.fromkeys(tuple(sorted((e.products[0].number, e.products[1].number)))
                          for e in recursion.equations if e.kind == "C")
    return (*scalars, *(f"Gamma{a}" for a in range(len(setting.families))), *(f"C{b}_{c}" for b, c in pairs))


def widths(recursion: RecursionEquations) -> dict[str, int]:
    """How many inputs each data array has in its last axis, and outputs the targets y, where there are several."""
    found: dict[str, int] = {}
    data = {d.name for d in recursion.setting.program.data}
    read = [("y", d.indices) for e in recursion.equations for d in e.value.atoms(LossDerivative)]
    read += [(s.name, s.indices) for e in recursion.equations for s in e.value.atoms(Scalar) if s.name in data]
    for name, indices in read:
        if len(indices) > 1 and indices[-1].is_Integer:
            found[name] = max(found.get(name, 0), int(indices[-1]) + 1)
    return found


def numba_source(recursion: RecursionEquations, loss: RowRule) -> str:
    """The source of ``kernel(*argument_names) -> result_names``.

    loss: the derivative of the loss in one of a sample's outputs, from expressions of all of them and of the targets.
    Arrays are indexed by what their names stand for, steps, samples and layers by their values (index 0 unused where a
    loop starts at 1): Gamma_a[vector's indices, r + 1, b, base ket's samples, layers] with r + 1 = 0 for
    initial vectors; C_b_b'[below, below', layers, layers that the matrix of b' does not fix].
    """
    out = _Lines()
    setting = recursion.setting
    _require_names(recursion)
    printer = _Printer(out, setting)
    for name, shape in _shapes(recursion).items():
        out.add(f"{name} = np.zeros(({', '.join(map(printer.doprint, shape))},))")
    _initial_members(out, printer, recursion)
    if setting.clock is None:
        out.add(f"{setting.time} = 0")
    opened: tuple[Loop, ...] = ()
    for equation in recursion.equations:
        opened = _enter(out, printer, opened, equation.location.loops)
        _assign(out, printer, recursion, equation, loss)
    out.depth = 1
    out.add("return (" + "".join(f"{name}, " for name in result_names(recursion)) + ")")
    head = ['"""Generated by tpcalc from a derived recursion; rewritten when the recursion changes."""', "",
            "import math", "", "import numpy as np", "from numba import njit", "", "", "@njit(cache=True)",
            f"def kernel({', '.join(argument_names(recursion))}):"]
    return "\n".join(head + out.lines) + "\n"


def _require_names(recursion: RecursionEquations) -> None:
    """Raise ``ValueError`` for two things of one name in the source, and for names that are none in Python, or that
    Python or the source needs."""
    memory = dict.fromkeys(e.target.name for e in recursion.equations if e.kind == "memory")
    indices = map(str, recursion.setting.program.index_roles())
    names = [*argument_names(recursion), *result_names(recursion), *memory, *indices, "np", "math", "njit", "range"]
    bad = sorted({name for name in names if names.count(name) > 1 or iskeyword(name)})
    if bad:
        raise NotCovered(f"program {recursion.setting.program.name}: the names {', '.join(bad)} stand for two things, "
                         "or for something of Python's; expected in a compiled recursion is one thing a name")
    for name in names:
        if not name.replace("'", "_").isidentifier():
            raise ValueError(f"name: got {name!r} in program {recursion.setting.program.name}; expected "
                             "identifiers, as names go into generated source")


def _extent(loop: Loop) -> sp.Expr:
    """One more than the largest value of a loop's index."""
    return (loop.first if loop.descending else loop.last) + 1


def _shapes(recursion: RecursionEquations) -> dict[str, tuple[sp.Expr, ...]]:
    """Shapes of all arrays, by name."""
    setting = recursion.setting
    ends_of: dict[sp.Symbol, dict[sp.Expr, None]] = {}  # several loops may share an index
    for location in setting.program.locations():
        for loop in location.loops:
            ends_of.setdefault(loop.index, {}).update(dict.fromkeys((loop.first, loop.last)))
    bases = Bases(setting)

    def extent(index: sp.Symbol) -> sp.Expr:
        return sp.Max(*ends_of[index]) + 1

    steps = sp.Integer(1) if setting.clock is None else _extent(setting.clock)
    base = (steps + 1, sp.Integer(max(len(setting.products), len(setting.program.vectors), 1)),
            *map(extent, bases.below + bases.above))

    def values(index: sp.Expr) -> list[sp.Expr]:
        """The extreme values of an index."""
        ends = [index]
        for symbol in index.free_symbols & set(ends_of):
            ends = [e.subs(symbol, end) for e in ends for end in ends_of[symbol]]
        return ends

    def extents(members: list[tuple[sp.Expr, ...]]) -> tuple[sp.Expr, ...]:
        """Room for all members of a family; indices below 0 count from the end, as in Python."""
        found = []
        for indices in zip(*members):
            ends = [v for index in indices for v in values(index)]
            found.append(sp.Max(0, *ends) + 1 + max([0] + [-int(v) for v in ends if v.is_Integer]))
        return tuple(found)

    families: dict[str, list[tuple[sp.Expr, ...]]] = {}
    for e in recursion.equations:
        if e.kind == "Gamma":
            families.setdefault(f"Gamma{e.target.args[0]}", []).append((*e.target.args[2], *e.target.args[4]))
        elif e.kind in ("scalar", "memory"):
            now = {setting.past: setting.time}
            families.setdefault(e.target.name, []).append(tuple(i.subs(now) for i in e.target.indices))
    for v in setting.program.vectors:
        if any(v.same_family(w) for w in setting.families):
            families[f"Gamma{setting.family_number(v)}"].append(v.indices)
    shapes: dict[str, tuple[sp.Expr, ...]] = {}
    for e in recursion.equations:
        if e.kind == "Gamma":
            name = f"Gamma{e.target.args[0]}"
            shapes[name] = extents(families[name]) + base
        elif e.kind == "C":
            b, c = sorted(p.number for p in e.products)
            one, two = setting.products[b], setting.products[c]
            fixed = {s for index in two.matrix.indices for s in index.free_symbols}
            samples, layers = [*map(extent, bases.below)], [*map(extent, bases.above)]
            free = [extent(i) for i in bases.above if i not in fixed]
            shapes[f"C{one.number}_{two.number}"] = (steps, *samples, steps, *samples, *layers, *free)
        else:
            shapes[e.target.name] = extents(families[e.target.name]) or (sp.Integer(1),)
    return shapes


def array_entries(recursion: RecursionEquations) -> sp.Expr:
    """How many numbers the kernel's arrays hold, in the program's sizes."""
    return sp.Add(*(sp.Mul(*shape) for shape in _shapes(recursion).values()))


def _initial_members(out: _Lines, printer: _Printer, recursion: RecursionEquations) -> None:
    """Coefficients that are there from the start: of initial vectors that are trained, and of trained matrices."""
    setting = recursion.setting
    bases = Bases(setting)
    for number, v in enumerate(setting.program.vectors):
        if any(v.same_family(w) for w in setting.families):
            below, above = bases.initial()
            cut = len(v.indices) - int(v.args[2])
            member = Gamma(setting.family_number(v), number, v.indices[:cut], below, v.indices[cut:], above)
            out.add(f"{printer.doprint(member)} = 1.0")
    remembered = {e.target.name: e.target for e in recursion.equations if e.kind == "memory"}
    for m in setting.program.matrices:
        rho = remembered.get(initial_weight_factor_of(m).name)
        if rho is not None:
            layers = ", :" * (len(rho.indices) - 1)
            out.add(f"{rho.name}[{printer.doprint(setting.step_index(m))}{layers}] = 1.0")


def _enter(out: _Lines, printer: _Printer, opened: tuple[Loop, ...], wanted: tuple[Loop, ...]) -> tuple[Loop, ...]:
    """Close loops that the next equation does not stand in, open those it does."""
    shared = 0
    while shared < min(len(opened), len(wanted)) and opened[shared] is wanted[shared]:
        shared += 1
    out.depth = 1 + shared
    for loop in wanted[shared:]:
        first, last = printer.doprint(loop.first), printer.doprint(loop.last)
        span = f"{first}, {last} - 1, -1" if loop.descending else f"{first}, {last} + 1"
        out.open(f"for {loop.index} in range({span}):")
    return wanted


def _assign(out: _Lines, printer: _Printer, recursion: RecursionEquations, equation: RecursionEquation,
            loss: RowRule) -> None:
    depth = out.depth
    out.add(f"# {equation.target}")
    {"scalar": _assign_scalar, "memory": _assign_memory, "C": _assign_covariance,
     "Gamma": _assign_gamma}[equation.kind](out, printer, recursion, equation, loss)
    out.depth = depth


def _assign_scalar(out: _Lines, printer: _Printer, recursion: RecursionEquations, e: RecursionEquation,
                   loss: RowRule) -> None:
    def derivative(of: LossDerivative) -> sp.Expr:
        """In one output; of several, the one of its last index."""
        outputs, location = of.outputs, of.indices
        if not of.several:
            return loss(outputs, (sp.Symbol(printer.element("y", location)),), 0)
        targets = (sp.Symbol(printer.element("y", (*location[:-1], sp.Integer(k)))) for k in range(len(outputs)))
        return loss(outputs, tuple(targets), int(location[-1]))

    value = replaced(e.value, LossDerivative, derivative)
    out.add(f"{printer.doprint(e.target)} = {printer.doprint(value)}")


def _assign_memory(out: _Lines, printer: _Printer, recursion: RecursionEquations, e: RecursionEquation,
                   loss: RowRule) -> None:
    setting = recursion.setting
    if e.target.has(setting.past):
        out.open(f"for {setting.past} in range({setting.time} + 1):")
    out.add(f"{printer.doprint(e.target)} = {printer.doprint(e.value)}")


def _assign_covariance(out: _Lines, printer: _Printer, recursion: RecursionEquations, e: RecursionEquation,
                       loss: RowRule) -> None:
    """With every earlier product of the same matrix; unborn ones have coefficients 0 and are met again."""
    setting = recursion.setting
    free = e.target.free_symbols - {loop.index for loop in e.location.loops}
    value = _contracted(out, printer, e.value, free, setting)
    for loop in e.products[1].location.loops:
        away = setting.past if loop is setting.clock else sp.Symbol(f"{loop.index}_1", integer=True)
        if away in free:
            last = setting.time if loop is setting.clock else _extent(loop) - 1
            first = loop.last if loop.descending else loop.first
            out.open(f"for {away} in range({printer.doprint(first)}, {printer.doprint(last)} + 1):")
    out.add(f"{printer.doprint(e.target)} = {printer.doprint(value)}")
    b, c, t, s, l, m = e.target.args
    if b == c:
        name = f"C{b}_{c}"
        layers = _free_layers(e.products[1], l, setting)
        out.add(f"{printer.element(name, (*s, *t, *m, *layers))} = {printer.doprint(e.target)}")


def _contracted(out: _Lines, printer: _Printer, value: sp.Expr, away: set[sp.Symbol], setting: Setting) -> sp.Expr:
    """A covariance whose sums over base kets of the one vector are carried out before the loops over the other.

    away: the other's indices; the one's coefficients times C become an array over the other's base kets.
    """
    latest = {setting.past: setting.time}  # of all earlier products of the other vector

    def contracted(total: sp.Sum) -> sp.Expr:
        factors = sp.Mul.make_args(total.function)
        theirs = sp.Mul(*(f for f in factors if f.free_symbols & away))
        outer = _in_memory([limit for limit in total.limits if limit[0] in theirs.free_symbols], setting)
        inner = [limit for limit in total.limits if limit not in outer]
        if not inner or any(bound.free_symbols & away for _, *bounds in inner for bound in bounds):
            return total
        name, depth = out.fresh("product"), out.depth
        element = sp.Symbol(printer.element(name, [limit[0] for limit in outer]))
        extents = [sp.Max(0, last.subs(latest) + 1) for _, _, last in outer] or [sp.Integer(1)]
        out.add(f"{name} = np.zeros(({', '.join(map(printer.doprint, extents))},))")
        for variable, first, last in (*inner, *outer):
            start, stop = printer.doprint(first), printer.doprint(last.subs(latest) + 1)
            out.open(f"for {printer.doprint(variable)} in range({start}, {stop}):")
        out.add(f"{element} += {printer.doprint(total.function / theirs)}")
        out.depth = depth
        return sp.Sum(element * theirs, *reversed(outer)) if outer else element * theirs

    return replaced(value, sp.Sum, contracted)


def _in_memory(limits: list[tuple], setting: Setting) -> list[tuple]:
    """Ranges of a base ket's indices, in the order in which arrays have them."""
    bases = Bases(setting)
    order = [i for prime in ("", "'", "''") for part in bases.generic(prime).args[1:] for i in part]
    return sorted(limits, key=lambda limit: order.index(limit[0]))


def _assign_gamma(out: _Lines, printer: _Printer, recursion: RecursionEquations, e: RecursionEquation,
                  loss: RowRule) -> None:
    setting = recursion.setting
    bases, depth = Bases(setting), out.depth
    generic = bases.generic()
    below, above = bases.initial()
    first = dict(zip((*generic.args[1], *generic.args[2]), (*below, *above)))
    value = _at(e.value, first)
    if value != 0:  # arrays are 0 at first
        out.open(f"for {generic.number} in range({len(setting.program.vectors)}):")
        out.add(f"{printer.doprint(e.target.subs(first))} = {printer.doprint(value)}")
    out.depth = depth
    if setting.clock is not None and setting.clock not in e.location.loops:
        return  # before the first step there are no hat-kets
    for product in setting.products:
        fixed = bases.fixed(product, generic)
        value = _at(e.value, fixed)
        if value == 0:
            continue
        for variable, first, last in _in_memory(bases.ranges(product, generic, setting.time), setting):
            index, start, stop = map(printer.doprint, (variable, first, last + 1))
            out.open(f"for {index} in range({start}, {stop}):")
        out.add(f"{printer.doprint(e.target.subs(fixed))} = {printer.doprint(value)}")
        out.depth = depth


def _at(value: sp.Expr, numbers: dict[sp.Symbol, sp.Expr]) -> sp.Expr:
    """An equation for one kind of base ket; steps are at least 0, so that deltas with -1 vanish."""
    inside = value.subs(numbers)
    return inside.replace(
        lambda e: isinstance(e, sp.KroneckerDelta) and any(i.is_negative for i in e.args), lambda e: sp.Integer(0))
