"""A derived recursion as the source of a numba kernel: its equations, in the loops of its program."""

from __future__ import annotations

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


class _Source(PythonCodePrinter):
    """Source lines at a growing indentation, of expressions as Python: members of families as array elements, sums as
    names of accumulators, each a fresh one."""

    def __init__(self, recursion: RecursionEquations, loss: RowRule) -> None:
        super().__init__({"allow_unknown_functions": False})
        self.recursion, self.setting, self.loss = recursion, recursion.setting, loss
        self.bases, self.lines, self.depth, self.sums = Bases(self.setting), list[str](), 1, 0

    def add(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def open(self, text: str) -> None:
        self.add(text)
        self.depth += 1

    def loop(self, index: sp.Expr, first: sp.Expr, last: sp.Expr) -> None:
        """The head of a loop; may stand inside of what is printed."""
        self.open(f"for {self._print(index)} in range({self._print(first)}, {self._print(last + 1)}):")

    def fresh(self, what: str = "sum") -> str:
        self.sums += 1
        return f"{what}{self.sums}"

    def assign(self, target: sp.Expr, value: sp.Expr) -> None:
        self.add(f"{self.doprint(target)} = {self.doprint(value)}")

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
        name = self.fresh()
        self.add(f"{name} = 0.0")
        depth = self.depth
        for limits in reversed(expr.limits):  # sympy's first limit is the innermost
            self.loop(*limits)
        self.add(f"{name} += {self._print(expr.function)}")
        self.depth = depth
        return name

    def initial_members(self) -> None:
        """Coefficients that are there from the start: of initial vectors that are trained, and of trained matrices."""
        setting = self.setting
        for number, v in enumerate(setting.program.vectors):
            if any(v.same_family(w) for w in setting.families):
                below, above = self.bases.initial()
                cut = len(v.indices) - int(v.args[2])
                member = Gamma(setting.family_number(v), number, v.indices[:cut], below, v.indices[cut:], above)
                self.add(f"{self.doprint(member)} = 1.0")
        remembered = {e.target.name: e.target for e in self.recursion.equations if e.kind == "memory"}
        for m in setting.program.matrices:
            rho = remembered.get(initial_weight_factor_of(m).name)
            if rho is not None:
                layers = ", :" * (len(rho.indices) - 1)
                self.add(f"{rho.name}[{self.doprint(setting.step_index(m))}{layers}] = 1.0")

    def enter(self, opened: tuple[Loop, ...], wanted: tuple[Loop, ...]) -> tuple[Loop, ...]:
        """Close loops that the next equation does not stand in, open those it does."""
        shared = 0
        while shared < min(len(opened), len(wanted)) and opened[shared] is wanted[shared]:
            shared += 1
        self.depth = 1 + shared
        for loop in wanted[shared:]:
            first, last = self.doprint(loop.first), self.doprint(loop.last)
            span = f"{first}, {last} - 1, -1" if loop.descending else f"{first}, {last} + 1"
            self.open(f"for {loop.index} in range({span}):")
        return wanted

    def write(self, equation: RecursionEquation) -> None:
        depth = self.depth
        self.add(f"# {equation.target}")
        kinds = {"scalar": self._scalar, "memory": self._memory, "C": self._covariance, "Gamma": self._gamma}
        kinds[equation.kind](equation)
        self.depth = depth

    def _scalar(self, e: RecursionEquation) -> None:
        def derivative(of: LossDerivative) -> sp.Expr:
            """In one output; of several, the one of its last index."""
            outputs, location = of.outputs, of.indices
            if not of.several:
                return self.loss(outputs, (sp.Symbol(self.element("y", location)),), 0)
            targets = (sp.Symbol(self.element("y", (*location[:-1], sp.Integer(k)))) for k in range(len(outputs)))
            return self.loss(outputs, tuple(targets), int(location[-1]))

        self.assign(e.target, replaced(e.value, LossDerivative, derivative))

    def _memory(self, e: RecursionEquation) -> None:
        if e.target.has(self.setting.past):
            self.loop(self.setting.past, sp.Integer(0), self.setting.time)
        self.assign(e.target, e.value)

    def _covariance(self, e: RecursionEquation) -> None:
        """With every earlier product of the same matrix; unborn ones have coefficients 0 and are met again."""
        setting, free = self.setting, e.target.free_symbols - {loop.index for loop in e.location.loops}
        value = self._contracted(e.value, free)
        for loop in e.products[1].location.loops:
            away = setting.past if loop is setting.clock else sp.Symbol(f"{loop.index}_1", integer=True)
            if away in free:
                first, last = loop.bounds if loop is not setting.clock else (loop.first, setting.time)
                self.loop(away, first, last)
        self.assign(e.target, value)
        b, c, t, s, l, m = e.target.args
        if b == c:
            name = f"C{b}_{c}"
            layers = _free_layers(e.products[1], l, setting)
            self.add(f"{self.element(name, (*s, *t, *m, *layers))} = {self.doprint(e.target)}")

    def _contracted(self, value: sp.Expr, away: set[sp.Symbol]) -> sp.Expr:
        """A covariance whose sums over base kets of the one vector are carried out before the loops over the other.

        away: the other's indices; the one's coefficients times C become an array over the other's base kets.
        """
        latest = {self.setting.past: self.setting.time}  # of all earlier products of the other vector

        def contracted(total: sp.Sum) -> sp.Expr:
            factors = sp.Mul.make_args(total.function)
            theirs = sp.Mul(*(f for f in factors if f.free_symbols & away))
            outer = _in_memory([limit for limit in total.limits if limit[0] in theirs.free_symbols], self.setting)
            inner = [limit for limit in total.limits if limit not in outer]
            if not inner or any(bound.free_symbols & away for _, *bounds in inner for bound in bounds):
                return total
            name, depth = self.fresh("product"), self.depth
            element = sp.Symbol(self.element(name, [limit[0] for limit in outer]))
            extents = [sp.Max(0, last.subs(latest) + 1) for _, _, last in outer] or [sp.Integer(1)]
            self.add(f"{name} = np.zeros(({', '.join(map(self.doprint, extents))},))")
            for variable, first, last in (*inner, *outer):
                self.loop(variable, first, last.subs(latest))
            self.add(f"{element} += {self.doprint(total.function / theirs)}")
            self.depth = depth
            return sp.Sum(element * theirs, *reversed(outer)) if outer else element * theirs

        return replaced(value, sp.Sum, contracted)

    def _gamma(self, e: RecursionEquation) -> None:
        setting, bases, depth = self.setting, self.bases, self.depth
        generic = bases.generic()
        below, above = bases.initial()
        first = dict(zip((*generic.args[1], *generic.args[2]), (*below, *above)))
        value = _at(e.value, first)
        if value != 0:  # arrays are 0 at first
            self.loop(generic.number, sp.Integer(0), sp.Integer(len(setting.program.vectors) - 1))
            self.assign(e.target.subs(first), value)
        self.depth = depth
        if setting.clock is not None and setting.clock not in e.location.loops:
            return  # before the first step there are no hat-kets
        for product in setting.products:
            fixed = bases.fixed(product, generic)
            value = _at(e.value, fixed)
            if value == 0:
                continue
            for limits in _in_memory(bases.ranges(product, generic, setting.time), setting):
                self.loop(*limits)
            self.assign(e.target.subs(fixed), value)
            self.depth = depth


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
    _require_names(recursion)
    out = _Source(recursion, loss)
    for name, shape in _shapes(recursion).items():
        out.add(f"{name} = np.zeros(({', '.join(map(out.doprint, shape))},))")
    out.initial_members()
    if recursion.setting.clock is None:
        out.add(f"{recursion.setting.time} = 0")
    opened: tuple[Loop, ...] = ()
    for equation in recursion.equations:
        opened = out.enter(opened, equation.location.loops)
        out.write(equation)
    out.depth = 1
    out.add("return (" + "".join(f"{name}, " for name in result_names(recursion)) + ")")
    head = ['"""Generated by tpcalc from a derived recursion; rewritten when the recursion changes."""', "",
            "import math", "", "import numpy as np", "from numba import njit", "", "", "@njit(cache=True)",
            f"def kernel({', '.join(argument_names(recursion))}):"]
    return "\n".join(head + out.lines) + "\n"


def _require_names(recursion: RecursionEquations) -> None:
    """Raise for two things of one name in the source, and for names that Python or the source needs."""
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

    steps = sp.Integer(1) if setting.clock is None else setting.clock.bounds[1] + 1
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


def _in_memory(limits: list[tuple], setting: Setting) -> list[tuple]:
    """Ranges of a base ket's indices, in the order in which arrays have them."""
    bases = Bases(setting)
    order = [i for prime in ("", "'", "''") for part in bases.generic(prime).args[1:] for i in part]
    return sorted(limits, key=lambda limit: order.index(limit[0]))


def _at(value: sp.Expr, numbers: dict[sp.Symbol, sp.Expr]) -> sp.Expr:
    """An equation for one kind of base ket; steps are at least 0, so that deltas with -1 vanish."""
    inside = value.subs(numbers)
    return inside.replace(
        lambda e: isinstance(e, sp.KroneckerDelta) and any(i.is_negative for i in e.args), lambda e: sp.Integer(0))
