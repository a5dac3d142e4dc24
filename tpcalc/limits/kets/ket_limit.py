"""``depth_limit`` of kets: what the streams of a nonlinear network become at infinite depth, and where."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from operator import sub
from typing import Iterator

import sympy as sp

from ..._checks import function
from ..._types import LossRule, Number
from ...calculus.equations import KetEquations
from ...calculus.kets import Ket
from ...calculus.memory import memory_equations
from ...derivations.derivation import Derivation
from ...derivations.printing import latex
from ...errors import Divergence
from ...gaussian.scalar_functions import scalar_function
from ...orders.affine import Affine, Region, exact_parameters
from ...orders.quantities import in_names_of
from ..integral_equations import LimitEquation
from ..writing import ByRegions, OnRegion
from .expansion import LayerExpansion
from .in_layer_time import StreamEquations, LayerTerm
from .inside import inside_equations
from .layer import is_drawn, layer_of
from .compiled_streams import CompiledStreams
from .sums import depth_power, factors_inside, terms_of


@dataclass(frozen=True)
class KetTerm:
    """A term of what a layer adds to a stream, and its order in L once all layers have added it up.

    ket: the stream; drawn: whether every layer draws it anew, so that layers add up like the root of their number.

    >>> import tpcalc as tp
    >>> limit = tp.depth_limit(tp.kets(tp.program(tp.ResNet("tanh"), tp.SGD(), tp.DepthScaling())))
    >>> limit.regions[0].kept[0].order
    0
    """

    ket: Ket
    term: sp.Expr
    order: sp.Expr
    drawn: bool


@dataclass(frozen=True, repr=False)
class KetLimitRegion(OnRegion):
    """A region of the parameters on which the same terms survive, or on which something grows without bound.

    region: exact inequalities; growing: what grows where there is no limit, and its power of L; inside: whether updates
    stand inside the activation, as at alpha = 1, gamma = 0.

    Source: Tensor Programs VI, appendix G [tensor_programs_vi/nonlinear_limits].

    >>> import tpcalc as tp
    >>> import sympy as sp
    >>> scale = tp.DepthScaling(*sp.symbols("alpha gamma", real=True))
    >>> limit = tp.depth_limit(tp.kets(tp.program(tp.ResNet("tanh"), tp.SGD(), scale)))
    >>> region = limit.at(alpha=sp.Rational(3, 4), gamma=sp.Rational(1, 4))
    >>> region.has_limit, region.is_trivial, region.rate
    (True, False, Min(1, 2 - 2*alpha, 2*alpha - 1))
    """

    kets: KetEquations
    parameters: tuple[sp.Symbol, ...]
    region: Region
    streams: StreamEquations
    growing: tuple[str, Affine] | None
    inside: bool

    @property
    def has_limit(self) -> bool:
        return self.growing is None

    @property
    def is_trivial(self) -> bool:
        """Do updates add up to nothing?"""
        return self.has_limit and not self.streams.has_updates

    @property
    def reason(self) -> str:
        """Why there is no limit, or why it is trivial; empty elsewhere."""
        if self.growing is not None:
            what, order = self.growing
            return f"{what} like L^({self._written(order)})"
        return "trivial limit: updates add up to nothing" if self.is_trivial else ""

    @cached_property
    def equations(self) -> tuple[LimitEquation, ...]:
        """The equations in layer time p: Gaussians that layers draw, kets, densities, answers, then both ends."""
        if self.growing is not None:
            raise Divergence(f"no limit of infinite depth where {', '.join(map(str, self.conditions)) or 'asked'}: "
                             f"{self.reason}")
        found = inside_equations(self.streams) if self.inside else self.streams.equations
        memory = [LimitEquation(target, self.streams.settled(value), ()) for target, value in self.streams.memory]
        return (*found, *self._ends(), *memory)

    def _ends(self) -> Iterator[LimitEquation]:
        setting = self.kets.setting
        for equation in self.streams.expansion.layer.outside:
            target, value = ((e.xreplace({setting.depth: sp.Integer(1)})) for e in (equation.target, equation.value))
            yield LimitEquation(target, value, (), boundary=True)

    @cached_property
    def kept(self) -> tuple[KetTerm, ...]:
        """The surviving terms."""
        return tuple(one for one in self._terms() if one.order == 0)

    @cached_property
    def dropped(self) -> tuple[KetTerm, ...]:
        """The terms that vanish, with the order at which they do."""
        return tuple(one for one in self._terms() if one.order != 0)

    def _terms(self) -> Iterator[KetTerm]:
        for ket, terms in self.streams.drift.items():
            for drawn, several in ((False, terms), (True, self.streams.noise[ket])):
                for term in several:
                    order = self._written(term.order) if self.region.sign(term.order) != "=" else sp.Integer(0)
                    yield KetTerm(ket, term.value, order, drawn)

    @cached_property
    def rate(self) -> sp.Expr:
        """r with |averages of kets at depth L - limit| ~ L^-r at least.

        The least of 1, from sums over layers that become integrals, of the orders of dropped terms, twice those of
        terms that layers draw anew, and of the order at which Taylor's formula is broken off, twice that where all
        functions are odd or even.
        """
        if self.growing is not None:
            raise Divergence(f"no limit of infinite depth: {self.reason}")
        found = [-one.order * (2 if one.drawn else 1) for one in self.dropped]
        functions = self.streams.expansion.means.functions.known
        times = 2 if all(scalar_function(f).parity for f in functions) else 1
        found += [-times * self._written(order) for order in self.streams.small if not self.inside]
        found += [-self._written(order) for order in self.streams.kept if self.region.sign(order) != "="]
        return sp.Min(1, *found)

    def compile(self, loss: LossRule | None = None, **values: Number) -> CompiledStreams:
        """The equations as a function of data and targets.

        loss: the derivative of the loss in the output, of output and target; default f - y. values: numbers for symbols
        that the equations contain: parameters, and the program's own constants. Raises ``Divergence`` where there is no
        limit, ``ValueError`` for a symbol that is left or unknown, ``NotCovered`` by name for what has no numerical
        reading.
        """
        function("loss", loss, "a function of an output and a target")
        layer, constants = self.streams.expansion.layer, self.constants
        numbers = exact_parameters(values, {*constants, *self.parameters})
        equations = tuple(replace(e, value=e.value.xreplace(numbers)) for e in self.equations)
        left = sorted(map(str, (set().union(*(e.value.free_symbols for e in equations)) & constants)))
        if left:
            raise ValueError(f"no value for {', '.join(left)}; given: {values}")
        return CompiledStreams(self.kets.setting, layer.passes, layer.streams, equations, loss or sub, self.inside)

    @property
    def constants(self) -> set[sp.Symbol]:
        """Symbols that a program has besides its sizes and the indices of its loops."""
        layer, program = self.streams.expansion.layer, self.kets.setting.program
        known = {*program.sizes, *program.index_roles(), self.kets.setting.past}
        found = set().union(*(e.value.free_symbols for e in (*layer.equations, *layer.outside)))
        return {symbol for symbol in found - known if isinstance(symbol, sp.Symbol)}

    @property
    def derivation(self) -> Derivation:
        """The recorded steps from the ket equations to what one layer adds to its streams."""
        return self.streams.expansion.derivation

    def reason_latex(self) -> str:
        """Why there is no limit, as LaTeX text."""
        assert self.growing is not None
        what, order = self.growing
        for ket in self.streams.drift:
            what = what.replace(f"|{ket.vector.name}>", rf"$| {ket.vector.args[1]} \rangle$")
        return f"{what} like $L^{{{latex(self._written(order))}}}$"


@dataclass(frozen=True, repr=False)
class KetLimit(ByRegions[KetLimitRegion]):
    """The limits of infinite depth of a network's kets, by regions that cover the parameters' space.

    parameters: the symbols in the exponents of L.

    >>> import tpcalc as tp
    >>> limit = tp.depth_limit(tp.kets(tp.program(tp.ResNet("tanh"), tp.SGD(), tp.DepthScaling())))
    >>> for equation in limit.regions[0].equations[5:7]:
    ...     print(equation)
    d|x[t, p]> = sqrt(dp)*phi(u[t]) + dp*Sum(A[t,s](p)*|dx[s, p]>, (s, 0, t - 1))
    A[t,s](p) = (r[t,s](p) - <x[s, p]|x[t, p]>)*E[phi'(u[s])*phi'(u[t])]
    """

    kets: KetEquations
    parameters: tuple[sp.Symbol, ...]
    regions: tuple[KetLimitRegion, ...]

    def compile(self, loss: LossRule | None = None, **values: Number) -> CompiledStreams:
        """``KetLimitRegion.compile`` at a point, given by the parameters' names."""
        names = set(map(str, self.parameters))
        return self.at(**{name: value for name, value in values.items() if name in names}).compile(loss, **values)


def ket_limit(kets: KetEquations) -> KetLimit:
    """The limit of infinite depth of kets. Raises ``NotCovered`` for programs without one residual stream, updates that
    are no combinations of gradients, positions, and functions of the stream before a matrix of the layer, by name."""
    layer, depth = layer_of(kets), kets.setting.depth
    assert depth is not None
    with in_names_of(kets.setting):
        memory = tuple((target, value) for matrix in kets.setting.trained()
                       for target, value, _ in memory_equations(kets.setting, matrix))
        values = [*(equation.value for equation in layer.equations), *(value for _, value in memory)]
        powers = {e.exp for value in values for e in value.atoms(sp.Pow) if e.base == depth}
        parameters = tuple(sorted(set().union(*(p.free_symbols for p in powers)), key=str))
        expansion = LayerExpansion(layer, depth)
        drift, noise = {}, {}
        inside = expansion.inside
        if not inside:
            expansion.expand()
        for stream in (layer.forward, layer.backward):
            front = expansion.fronts[stream.after]
            found = factors_inside(stream.added) if inside else expansion.drift(stream.after, stream.added)
            drawn = sp.Integer(0) if inside else factors_inside(expansion.added[stream.before] / depth**front)
            orders = {term: front + sp.Rational(1, 2) + expansion.power_of_drawn(term) for term in terms_of(drawn)}
            drift[stream.before] = tuple(_term(one, depth, sp.Integer(1), parameters)
                                         for one in terms_of(found) if not is_drawn(one))
            noise[stream.before] = tuple(LayerTerm(sp.Add(*(term for term in orders if orders[term] == order)),
                                                   Affine.of(order, parameters))
                                         for order in dict.fromkeys(orders.values()))
        small = tuple(sorted({Affine.of(one, parameters) for one in expansion.small}))
        streams = StreamEquations(expansion, Region(len(parameters)), parameters, drift, noise, small, memory)
        return KetLimit(kets, parameters, tuple(_regions(kets, parameters, streams)))


def _term(value: sp.Expr, depth: sp.Symbol, layers: sp.Expr, parameters: tuple[sp.Symbol, ...]) -> LayerTerm:
    """The term without its power of L, and that of all layers together."""
    inside = value.function if isinstance(value, sp.Sum) else value
    power = depth_power(inside, depth)
    rest = inside / depth**power
    return LayerTerm(sp.Sum(rest, *value.limits) if isinstance(value, sp.Sum) else rest,
                     Affine.of(layers + power, parameters))


def _regions(kets: KetEquations, parameters: tuple[sp.Symbol, ...], streams: StreamEquations
             ) -> Iterator[KetLimitRegion]:
    """Parts of the space by what grows, then by what survives."""
    def named(ket: Ket) -> str:
        return f"the stream |{ket.vector.name}>"
    forms = [(f"what layers draw adds up in {named(ket)}", term.order) for ket, terms in streams.noise.items()
             for term in terms]
    forms += [(f"updates add up in {named(ket)}", term.order) for ket, terms in streams.drift.items() for term in terms]
    forms += [("updates add up within a layer", order) for order in streams.small]
    forms += [("what a matrix keeps of itself grows", order) for order in streams.kept]

    def divided(region: Region, left: list[tuple[str, Affine]]) -> Iterator[KetLimitRegion]:
        if not left:
            inside = any(region.sign(order) == "=" for order in streams.small)
            yield KetLimitRegion(kets, parameters, region.reduced(), streams.on(region), None, inside)
            return
        (what, form), *rest = left
        for relation, part in region.split(form):
            if relation == ">":
                yield KetLimitRegion(kets, parameters, part.reduced(), streams.on(part), (what, form), False)
            else:
                yield from divided(part, rest)
    yield from divided(streams.region, list(dict.fromkeys(forms)))
