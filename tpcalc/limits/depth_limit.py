"""``depth_limit``: what a derived recursion becomes at infinite depth, and where, or why nothing but zero."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Mapping, Sequence, overload

import sympy as sp

from .._checks import function
from .._types import LossRule, Number
from ..calculus.coefficients import R
from ..calculus.equations import KetEquations, kets
from ..calculus.kets import Gamma
from ..calculus.recursion import RecursionEquations, derive_recursion
from ..derivations.printing import latex
from ..errors import Divergence, NotCovered
from ..orders.affine import Cell, Region, exact_parameters, join
from ..orders.counting import Orders, settled_orders
from ..orders.quantities import Quantity, Sort, in_names_of
from ..programs.language import LossDerivative
from .collocation import CompiledLimit
from .functions import P, Q, Coefficient, CovarianceFunction, OwnCoefficient, scaled_scalar
from .integral_equations import LimitEquation, limit_equations
from .kets.ket_limit import KetLimit, ket_limit
from .slow_streams import normal_form
from .survival import Kind, RegionPart, divide_cell, kind_of
from .translation import Remembered, Translator
from .writing import ByRegions, OnRegion


@dataclass(frozen=True)
class Obstacle:
    """What grows with depth: ``quantity``, at a training step, with an exponent of L.

    kind: "explodes" (like exp(L^exponent), oo where there is no rule for it), "decays" (like exp(-L^exponent)), "grows"
    (an output, like L^exponent) or "accelerates" (an output's exponent grows by so much, or by at least so much, with
    every step; exponent None where it is another quantity's).
    """

    kind: str
    quantity: str
    step: int
    exponent: sp.Expr | None

    def words(self, values: Mapping[sp.Symbol, sp.Expr] | None = None) -> str:
        """The reason as a sentence, with the parameters' values where given."""
        power = "" if self.exponent is None else str(self.exponent.subs(values or {}))
        return self._sentence(f"exp(L^({power}))", f"L^({power})", power)

    def latex(self) -> str:
        """The reason as LaTeX text with formulas in it."""
        power = "" if self.exponent is None else latex(self.exponent)
        return self._sentence(rf"$\exp(L^{{{power}}})$", rf"$L^{{{power}}}$", f"${power}$")

    def _sentence(self, exponential: str, polynomial: str, power: str) -> str:
        if self.kind == "explodes":
            when = "at initialization" if self.step == 0 else f"at step {self.step}"
            how = "faster than every power of L" if self.exponent is sp.oo else f"like {exponential}"
            return f"the network explodes {when} {how}"
        if self.kind == "decays":
            return f"the network decays: its layers forget what they are given, and outputs fall like 1 / {exponential}"
        if self.kind == "grows":
            update = "the first update" if self.step == 1 else f"update {self.step}" if self.step else "initialization"
            return f"{update} moves the output by {polynomial}"
        if self.exponent is None:
            return "exponents of L grow from each training step to the next"
        return f"the output's exponent of L grows by {power} from step {self.step - 1} to step {self.step}, and so on"


def obstacle(cell: Cell, outputs: Sequence[str], parameters: Sequence[sp.Symbol]) -> Obstacle | None:
    """What stands in the way of a limit on a cell; None where there is one."""
    if cell.explosions:
        key, _ = cell.explosions[0]
        fastest = join(guard for other, guard in cell.explosions if other.step == key.step).pruned(cell.region)
        return Obstacle("explodes", str(key), key.step, fastest.expression(parameters))
    keys = sorted((k for k in cell.exponents if k.name in outputs), key=lambda k: (k.step, k.name))
    if cell.forgotten:
        quantity, rate = cell.forgotten[0]
        cell.require_forgotten(parameters)
        return Obstacle("decays", str(quantity), quantity.step, rate.expression(parameters))
    if cell.grows:
        return _accelerating(cell, keys, parameters)
    for key in keys:
        if not cell.is_bounded([key]):
            return Obstacle("grows", key.name, key.step, cell.of(key).expression(parameters))
    return None


def _accelerating(cell: Cell, keys: Sequence[Quantity], parameters: Sequence[sp.Symbol]) -> Obstacle:
    for before, after in zip(keys, keys[1:]):
        growth = {a - b for a in cell.of(after).forms for b in cell.of(before).forms}
        if before.name == after.name and len(growth) == 1:
            form, = growth
            if cell.region.sign(form) == ">":
                return Obstacle("accelerates", after.name, after.step, form.expression(parameters))
    return Obstacle("accelerates", "", keys[-1].step if keys else 0, None)


@dataclass(frozen=True)
class LimitTerm:
    """A term of the recursion's equation for one kind of quantity, and its order in L relative to it.

    kind: see ``LimitRegion.exponents``; rule: how it enters ("layers": at every layer; "born": at one; "base layers":
    summed over base kets; "own layer": the one of them in the layer itself; "loss": through an output's size).

    >>> import tpcalc as tp
    >>> equations = tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling()))
    >>> tp.depth_limit(tp.recursion(equations)).regions[0].kept[0].order
    0
    """

    kind: tuple
    term: sp.Expr
    rule: str
    order: sp.Expr


@dataclass(frozen=True, repr=False)
class LimitRegion(OnRegion):
    """A region of the parameters on which the same terms survive at infinite depth, or on which there is no limit.

    region: exact inequalities; obstacle: what grows where there is no limit, else None. Quantities are sorted by kind:
    ("Gamma", -1 or 0, a, b) for coefficients of vector family a over initial vector b or over the hat-kets of product
    b, ("C", b), and (name,) for scalars; coefficients of vectors made in every layer over base kets of their own
    layer apart.

    Source: Tensor Programs VI, Propositions C.4 [tensor_programs_vi/proposition_c4] and D.2
    [tensor_programs_vi/proposition_d2], appendix H.3 [tensor_programs_vi/recursion_h3].

    >>> import tpcalc as tp
    >>> import sympy as sp
    >>> scale = tp.DepthScaling(*sp.symbols("alpha gamma", real=True))
    >>> limit = tp.depth_limit(tp.recursion(tp.kets(tp.program(tp.ResNet(), tp.SGD(1.0), scale))))
    >>> region = limit.at(alpha=sp.Rational(3, 4), gamma=sp.Rational(1, 4))
    >>> region.has_limit, region.rate
    (True, Min(1, 2*alpha - 1))
    """

    recursion: RecursionEquations
    parameters: tuple[sp.Symbol, ...]
    region: Region
    part: RegionPart | None
    obstacle: Obstacle | None
    period: int = 1

    @property
    def has_limit(self) -> bool:
        return self.obstacle is None

    @property
    def is_trivial(self) -> bool:
        """Does training leave the outputs where they were, in the limit?"""
        return self.part is not None and all(self.region.sign(form) == "<" for kind, form in self.part.exponents.items()
                                             if kind.name in computed_scalars(self.recursion))

    @property
    def reason(self) -> str:
        """Why there is no limit, or why it is trivial; empty elsewhere."""
        if self.obstacle is not None:
            return self.obstacle.words()
        name, = computed_scalars(self.recursion)[:1]
        return (f"trivial limit: updates add up to nothing; {name} changes like L^({self.exponents[(name,)]})"
                if self.is_trivial else "")

    @cached_property
    def exponents(self) -> dict[tuple, sp.Expr]:
        """The power of L of every kind of quantity; the limit functions are the quantities divided by it."""
        return {kind.written: exponent for kind, exponent in self.exponents_by_kind.items()}

    @cached_property
    def exponents_by_kind(self) -> dict[Kind, sp.Expr]:
        """The powers of L by typed kinds."""
        return {kind: self._written(form) for kind, form in self._part().exponents.items()}

    @cached_property
    def kept(self) -> tuple[LimitTerm, ...]:
        """The surviving terms."""
        return tuple(LimitTerm(t.target.written, t.term, t.rule, sp.Integer(0)) for t in self._part().kept)

    @cached_property
    def dropped(self) -> tuple[LimitTerm, ...]:
        """The terms that vanish, with the order at which they do."""
        return tuple(LimitTerm(t.target.written, t.term, t.rule, sp.Max(*(self._written(f) for f in t.order.forms)))
                     for t in self._part().dropped)

    @cached_property
    def equations(self) -> tuple[LimitEquation, ...]:
        """The equations of the limit functions, boundary values among them, in program order."""
        with in_names_of(self.recursion.setting):
            return self._equations()

    def _equations(self) -> tuple[LimitEquation, ...]:
        part = self._part()
        scaled = frozenset(kind.head for kind, form in part.exponents.items()
                           if not kind.own and self.region.sign(form) != "=")
        return limit_equations(Translator(self.recursion, scaled), part)

    @cached_property
    def memory(self) -> tuple[Remembered, ...]:
        """What optimizers remember where it is no plain sum: members of rho and w, and their values."""
        translator = Translator(self.recursion, frozenset())
        return tuple(translator.memory(e) for e in self.recursion.equations if e.kind == "memory")

    @property
    def boundary(self) -> tuple[LimitEquation, ...]:
        """The equations at layer times 0 and 1."""
        return tuple(e for e in self.equations if e.boundary)

    @cached_property
    def rate(self) -> sp.Expr:
        """r with |value at depth L - limit| ~ L^-r for the outputs, divided by their power of L.

        The smaller of 1, from sums over layers that become integrals, and of the rates at which those dropped terms
        vanish that outputs depend on.
        """
        outputs = (kind_of(Quantity.scalar(name, 0)) for name in computed_scalars(self.recursion))
        largest = self._part().corrections(outputs)
        return sp.Min(1, *(-self._written(form) for form in largest.forms))

    def compile(self, loss: LossRule | None = None, **values: Number) -> CompiledLimit:
        """The limit equations as a collocation problem, to be called with data.

        loss: the derivative of the loss in the output, of output and target; default f - y. values: numbers for
        parameters that constants of the equations contain. Raises ``Divergence`` where there is no limit,
        ``ValueError`` for a parameter that is left.
        """
        function("loss", loss, "a function of an output and a target")
        numbers = exact_parameters(values, self.parameters)
        equations = tuple(LimitEquation(e.target, e.value.subs(numbers), e.kinds, e.where, e.boundary)
                          for e in self.equations)
        left = set().union(*(e.value.free_symbols for e in equations)) & set(self.parameters)
        if left:
            raise ValueError(f"no value for {', '.join(sorted(map(str, left)))}; given: {values}")
        output = computed_scalars(self.recursion)[0]
        power = self.exponents.get((output,), sp.Integer(0)).subs(numbers)
        unit = 1.0 if self.period == 1 or power is -sp.oo else float(self.period**-power)
        return CompiledLimit.of(self.recursion.setting, equations, output, loss, self.memory, unit)

    def reason_latex(self) -> str:
        """Why there is no limit, as LaTeX text."""
        return "" if self.obstacle is None else self.obstacle.latex()

    def remembered(self) -> tuple[Remembered, ...]:
        return self.memory

    def scaled(self) -> list[tuple[str, list[sp.Expr], sp.Expr]]:
        depth, found = "L" if self.period == 1 else f"{self.period} L", dict[sp.Expr, list[sp.Expr]]()
        for kind, exponent in self.exponents_by_kind.items():
            if exponent != 0:
                found.setdefault(exponent, []).append(self._function(kind))
        return [(depth, functions, exponent) for exponent, functions in found.items()]

    def _function(self, kind: Kind) -> sp.Expr:
        """The limit function of a kind of quantity, for generic steps."""
        t, s = self.recursion.setting.time, self.recursion.setting.past
        if kind.sort == Sort.COVARIANCE:
            return CovarianceFunction(kind.number, kind.base, t, s, P, 1)
        if kind.sort == Sort.COEFFICIENT:
            if kind.own:
                return OwnCoefficient(kind.number, kind.base, t, R, P)
            return Coefficient(kind.number, kind.base, t, R if kind.start == 0 else -1, P, Q, 0, 1)
        return scaled_scalar(next(e.target for e in self.recursion.equations if e.kind == "scalar"
                                  and e.target.name == kind.name))

    def _part(self) -> RegionPart:
        if self.part is None:
            assert self.obstacle is not None
            raise Divergence(f"no limit of infinite depth where {', '.join(map(str, self.conditions)) or 'asked'}: "
                             f"{self.obstacle.words()}")
        return self.part


@dataclass(frozen=True, repr=False)
class DepthLimit(ByRegions[LimitRegion]):
    """The limits of infinite depth of one recursion, by regions that cover the parameters' space.

    parameters: the symbols in the exponents of L; orders: of all quantities at finite depth.

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> limit = tp.depth_limit(tp.recursion(tp.kets(tp.program(net, opt, scale))))
    >>> len(limit.regions), limit.regions[0].has_limit
    (1, True)
    """

    recursion: RecursionEquations
    parameters: tuple[sp.Symbol, ...]
    orders: Orders
    regions: tuple[LimitRegion, ...]

    def compile(self, loss: LossRule | None = None, **values: Number) -> CompiledLimit:
        """``LimitRegion.compile`` at a point."""
        return self.at(**values).compile(loss, **values)


@overload
def depth_limit(recursion: RecursionEquations) -> DepthLimit: ...


@overload
def depth_limit(recursion: KetEquations) -> KetLimit: ...


def depth_limit(recursion: RecursionEquations | KetEquations) -> DepthLimit | KetLimit:
    """Derive the limit of infinite depth of a recursion or of kets, on all regions of the depth scaling's symbols.

    recursion: what ``tp.recursion`` returns, of linear networks, or what ``tp.kets`` returns, of networks whose layers
    are nonlinear too; with a numeric depth scaling there is one region. Raises ``ValueError`` for a program without
    layers or with trained embedding and readout, and for a term that no rule covers, naming it.

    Source: Tensor Programs VI, Propositions C.4 and D.2 at alpha = gamma = 1/2, appendix H.3 elsewhere; of kets
    appendix G.

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> limit = tp.depth_limit(tp.recursion(tp.kets(tp.program(net, opt, scale))))
    >>> limit.regions[0].rate
    1
    >>> nonlinear = tp.depth_limit(tp.kets(tp.program(tp.ResNet("tanh"), opt, scale)))
    >>> print(nonlinear.regions[0].equations[5])
    d|x[t, p]> = sqrt(dp)*phi(u[t]) + dp*Sum(A[t,s](p)*|dx[s, p]>, (s, 0, t - 1))
    """
    if isinstance(recursion, KetEquations):
        return ket_limit(recursion)
    if not isinstance(recursion, RecursionEquations):
        raise ValueError(f"recursion: got {recursion!r}; expected what tp.recursion(...) or tp.kets(...) returns")
    with in_names_of(recursion.setting):
        return _limit(recursion)


def _limit(recursion: RecursionEquations) -> DepthLimit:
    outside = next((g for e in recursion.equations for g in e.value.atoms(Gamma) if not g.args[4]), None)
    if outside is not None and recursion.setting.depth is not None:
        raise NotCovered(f"program {recursion.setting.program.name}: {outside} belongs to a vector outside the layers "
                         "that changes in training; the depth limit has no rule for it")
    recursion, everywhere, period = _in_normal_form(recursion)
    orders = settled_orders(recursion)
    with in_names_of(recursion.setting):
        return _by_regions(recursion, orders, everywhere, period)


def _by_regions(recursion: RecursionEquations, orders: Orders, everywhere: Obstacle | None, period: int) -> DepthLimit:
    if everywhere is not None:
        region = LimitRegion(recursion, orders.parameters, Region(len(orders.parameters)), None, everywhere)
        return DepthLimit(recursion, orders.parameters, orders, (region,))
    regions: list[LimitRegion] = []
    for cell in orders.cells:
        grows = obstacle(cell, computed_scalars(recursion), orders.parameters)
        if grows is not None:
            regions.append(LimitRegion(recursion, orders.parameters, cell.region.reduced(), None, grows, period))
        else:
            regions += [LimitRegion(recursion, orders.parameters, part.region.reduced(), part, None, period)
                        for part in divide_cell(cell, orders.contributions)]
    return DepthLimit(recursion, orders.parameters, orders, tuple(regions))


def _in_normal_form(recursion: RecursionEquations) -> tuple[RecursionEquations, Obstacle | None, int]:
    """The recursion in normal form, its layers' map of order one, and how many layers are one of its layers."""
    setting = recursion.setting
    if setting.depth is None:
        return recursion, None, 1
    found = normal_form(setting.program, setting.depth)
    if found.explodes or found.forgets:
        kind, what = ("explodes", found.explodes) if found.explodes else ("decays", found.forgets)
        return recursion, Obstacle(kind, what, 0, sp.Integer(1)), found.period
    same = found.program == setting.program
    return recursion if same else derive_recursion(kets(found.program)), None, found.period


def computed_scalars(recursion: RecursionEquations) -> tuple[str, ...]:
    """The names of the scalars that a program computes, those of held-out inputs too, but for loss derivatives."""
    return tuple(dict.fromkeys(e.target.name for e in recursion.equations
                               if e.kind == "scalar" and not e.value.has(LossDerivative)))
