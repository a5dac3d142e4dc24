"""The exponents of L that a verdict reads, and how they are read off evaluated ket equations."""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Callable, Iterable, Mapping, NamedTuple, Sequence

import sympy as sp

from .._types import Fields
from ..asymptotics import CHANGE, KET, SCALAR, SizeSolution, TermEntry, Unknown
from ..asymptotics.direct_effect import DirectEffect, EffectOnOutputs
from ..asymptotics.graph import Enters
from ..asymptotics.parts import INFINITE, LARGE, Parts, exponent_of, size_of_parts
from ..calculus.kets import Bracket
from ..calculus.setting import Product
from ..errors import NotCovered
from ..gaussian.scalar_functions import scalar_function
from ..limits.inlining import vector_of
from ..orders import EXPLODES, Affine, Exponent, Region
from ..programs.algebra import power_of
from ..programs.language import MatVec, Vector, kind
from ..programs.indices import copied_from
from ..programs.program import Program
from .layer_jet import KINK, SMOOTH, joined_pairs, layer_jet

AT_START = ("x_init", "h_init", "f_init")


@dataclass(frozen=True)
class Exponents:
    """Powers of L on a region of the plane: -oo where a quantity vanishes, +oo where it explodes.

    x_init, h_init, f_init: sizes at initialization; dx, dh, df: their changes after one step on the same
    input; update: of the weight update's action on x, in h; noise, drift: what a piece of the network of
    length eps adds to x, the former times eps^(1/2), the latter times eps; linearization: the error in x of
    one layer when a smooth activation is linearized in the update. explosions: training steps and v of what grows
    like exp(L^v), the first one first; grows: exponents grow from one training step to the next; exact: these two
    are no upper bounds; bounds: the names of the exponents that are upper bounds. at_first, f_at_first: what updates do
    to x and f where all else is as at initialization, where that is asked for and known by more than a bound: if it
    grows, x does, and f does not stay where it was, however bounded functions hold back what has grown. after: how
    many updates they are after; updates: how many were counted; settled: does the last of these have the exponents of
    the one before, so that all later ones have them?
    """

    x_init: Exponent
    h_init: Exponent
    f_init: Exponent
    dx: Exponent
    dh: Exponent
    df: Exponent
    update: Exponent
    noise: Exponent
    drift: Exponent
    linearization: Exponent
    explosions: tuple[tuple[int, Exponent], ...] = ()
    grows: bool = False
    exact: bool = True
    bounds: frozenset[str] = frozenset()
    at_first: Exponent = Exponent()
    f_at_first: Exponent = Exponent()
    after: int = field(default=1, compare=False)
    updates: int = field(default=1, compare=False)
    settled: bool = field(default=False, compare=False)

    def pruned(self, region: Region) -> "Exponents":
        """Without affine forms that are nowhere on the region the largest."""
        sizes: Fields = {f.name: getattr(self, f.name).pruned(region) for f in self.sizes()}
        return replace(self, **sizes)

    def without_training(self) -> "Exponents":
        """Where the network explodes at initialization, training has nothing to start from.

        Where its gradient alone does, bounded functions may hold what updates do: the exponents are upper bounds then.
        """
        forward = any(getattr(self, name).explodes for name in AT_START)
        sizes: Fields = dict.fromkeys(self.of_updates(), EXPLODES)
        return replace(self, **sizes, bounds=self.bounds if forward else self.bounds | self.of_updates())

    def at(self, point: Sequence[sp.Expr]) -> dict[str, sp.Expr]:
        """Values at (alpha, gamma), by name."""
        return {f.name: getattr(self, f.name).at(point) for f in self.sizes()}

    def known_at(self, point: Sequence[sp.Expr], directions: Sequence[Sequence[Fraction]] = ()) -> "Exponents":
        """These, or where it is undecided what updates do, others that say nothing of updates.

        It is where training explodes by upper bounds alone, from a stable start, though no update is large directly.
        directions: along which the point is thought of as moved a little, those before first.
        """
        if self.exact or not (self.explosions or self.grows):
            return self
        sizes = [getattr(self, name) for name in (*AT_START, "dx", "df")]
        along = [[form.at(point), *(form.rise(direction) for direction in directions)]
                 for one in sizes for form in one.forms]
        if any(one.explodes for one in sizes) or any(values > [Fraction(0)] * len(values) for values in along):
            return self
        return replace(self.unknown(), at_first=Exponent(), f_at_first=Exponent())

    def unknown(self) -> "Exponents":
        """Others that say nothing of updates but what they do at first."""
        sizes: Fields = dict.fromkeys(self.of_updates(), EXPLODES)
        return replace(self, **sizes, explosions=(), grows=False, bounds=self.bounds | self.of_updates())

    @classmethod
    def common(cls, several: Sequence["Exponents"]) -> "Exponents | None":
        """What holds wherever one of several does that know no more of updates than upper bounds; None of others."""
        one, *others = (each.unknown() for each in several)
        alike = all(each.bounds >= cls.of_updates() for each in several) and all(other == one for other in others)
        return one if alike else None

    @classmethod
    def of_updates(cls) -> frozenset[str]:
        """The names of the exponents that training has, not its start."""
        return frozenset(f.name for f in cls.sizes() if f.name not in AT_START)

    @classmethod
    def sizes(cls) -> list[Field]:
        """The fields that are exponents."""
        return [f for f in fields(cls) if f.name not in (
            "explosions", "grows", "exact", "bounds", "at_first", "f_at_first", "after", "updates", "settled")]


MOST_LAYERS = 64  # of a loop
Value = int | None  # of an exponent, as a solution has them; None of what vanishes


class Branches(NamedTuple):
    """Branches of a layer that have multipliers of their own besides: powers of 1/L of these by the matrices in them,
    and the matrix that brings a term."""

    apart: Mapping[str, sp.Expr]
    matrix_of: Callable[[TermEntry], str | None]


ONE_MULTIPLIER = Branches({}, lambda entry: None)


def exponents_of_kets(solution: SizeSolution, source: Program, step: int = 1, exact: bool = False,
                      at_first: bool = True, branches: Branches = ONE_MULTIPLIER) -> Exponents:
    """Sizes of the stream, of what matrices make of it, and of their changes up to a training step.

    What is attained by upper bounds alone is an upper bound itself. So is all that updates make where these outgrow
    the stream, and norms or bounded functions hold it back: an update acts by the overlap of where the stream was with
    where it is, which is counted as if these were one direction. source: the program as it
    was before normal form; exact: are all terms reached, as in linear networks? at_first: is it asked for what updates
    do where all else is as it was?
    """
    return Reader(solution, source, step, branches).read(exact, at_first)


def last_update(solution: SizeSolution, updates: int) -> int:
    """The last of so many updates that has exponents: what explodes in an update has none from there on."""
    first = solution.explosions[0][0].step if solution.explosions and not solution.held else solution.steps
    return max(1, min(updates, first - 1, solution.steps - 1))


def exponent_of_value(solution: SizeSolution, value: Value) -> Exponent:
    """A value as an exponent, an affine form where the solution tells forms."""
    if value is None:
        return Exponent()
    if value > LARGE:
        return EXPLODES
    directions = solution.scale.directions
    return Exponent.single(solution.scale.form(value) if directions else Affine((), solution.scale.fraction(value)))


def rate_of(solution: SizeSolution, value: int | Fraction | None) -> Exponent:
    """The v of exp(L^v): a mean over the layers of a loop, of which every digit is a whole number once it is taken as
    often as there are layers."""
    if value is None:
        return EXPLODES
    for layers in range(1, MOST_LAYERS + 1):
        whole = 2 * layers * Fraction(value)
        if whole.denominator == 1 and solution.scale.has_digits(whole.numerator):
            return exponent_of_value(solution, whole.numerator).power(Fraction(1, 2 * layers))
    return EXPLODES


@lru_cache(maxsize=4096)
def _acts(term: sp.Expr) -> bool:
    """Does a term of an update act on what is there?"""
    return bool(term.has(Bracket))


@lru_cache(maxsize=4096)
def _is_of_vector(term: sp.Expr) -> bool:
    return bool(vector_of(term))


def together(how: str, one: Value, other: Value) -> Value:
    """What two updates do together, as ``pair_power`` says it."""
    if one is None or other is None:
        return None
    if max(one, other) > LARGE:
        return INFINITE
    small, large = sorted((exponent_of(one), exponent_of(other)))
    return 2 * small + (2 if how == SMOOTH else 1) * large - (one & 1 | other & 1)


def larger(values: Iterable[Value]) -> Value:
    """The value of a sum."""
    return max((value for value in values if value is not None), default=None)


def value_times(value: Value, *weights: int) -> Value:
    """The value of a product with powers of L."""
    return value if value is None or value > LARGE else value + sum(weights)


class Reader:
    """Sizes of kets, with every part that they have; what layers add to the stream is taken per layer."""

    def __init__(self, solution: SizeSolution, source: Program, step: int = 1,
                 branches: Branches = ONE_MULTIPLIER) -> None:
        self.branches = branches
        self.solution, self.source, self.step, self.reading = solution, source, step, solution.counted.reading
        self.equations, self.setting = solution.counted.equations, solution.counted.equations.setting
        self.stream = self.reading.stream
        self.exploded = bool(solution.explosions) and not solution.held

    def read(self, exact: bool = False, at_first: bool = True) -> Exponents:
        forward = [p for p in self.setting.products if not p.transposed]
        dx, df = self.change_of(self.stream), self.output(self.step)
        if self.exploded:
            df = dx
        changes = larger(self.change(p, False) for p in forward)
        updates = [*(self.change(p, True) for p in forward), *(
            self._updates(family, _is_of_vector) for family in sorted(self.reading.forward))]  # trained vectors
        values = {
            "x_init": self.ket(self.stream, 0), "f_init": self.output(0), "dx": dx, "df": df,
            "h_init": larger(self.ket(self.setting.family_number(p.matvec.vector), 0) for p in forward),
            "dh": changes, "update": larger(updates),
            "noise": self.adds("independent layers"), "drift": self.adds("layers"),
            "linearization": self.error(exact)}
        if exact:
            values["drift"] = dx  # what updates add; what a skip takes away of x is no drift of theirs
        bounds = {name for name, value in values.items() if value is not None and value & 1}
        bounds |= Exponents.of_updates() if self.is_held_back() else set()
        rates = tuple((key.step, rate_of(self.solution, v)) for key, v in self.solution.explosions if self.exploded)
        sizes: Fields = {name: exponent_of_value(self.solution, value) for name, value in values.items()}
        found = Exponents(**sizes, explosions=rates, grows=self.solution.grows, exact=exact, after=self.step,
                          updates=max(1, self.solution.steps - 1), settled=self.solution.settled)
        if rates and rates[0][0] == 0 or self.solution.unsigned is not None:
            found = found.without_training()
        if exact:
            return found
        found = replace(found, bounds=found.bounds | bounds)
        if not found.bounds or not at_first:
            return found
        return replace(found, at_first=self.at_first(), f_at_first=self.outputs_at_first())

    # Sizes.

    def ket(self, family: int, step: int) -> Value:
        return self.solution.value_of(Unknown(KET, step, family))

    def change_of(self, family: int) -> Value:
        """The change of a vector; where something explodes, what updates do to it directly."""
        key = Unknown(CHANGE, self.step, family)
        return size_of_parts(self.direct.of(key)) if self.exploded else self.solution.value_of(key)

    def output(self, step: int) -> Value:
        return larger(self.solution.value_of(Unknown(SCALAR, step, name)) for name in self.reading.outputs)

    @cached_property
    def direct(self) -> DirectEffect:
        return DirectEffect(self.solution)

    @cached_property
    def direct_at_first(self) -> DirectEffect:
        return DirectEffect(self.solution, untouched=True)

    def at_first(self) -> Exponent:
        """The direct effect of the first updates on the stream, where all else is as it was; none where a bound alone
        is known of it."""
        return self.known_at_first(size_of_parts(self.direct_at_first.of(Unknown(CHANGE, self.step, self.stream))))

    def outputs_at_first(self) -> Exponent:
        """What changes do to outputs."""
        effect = EffectOnOutputs(self.solution, untouched=True)
        return self.known_at_first(larger(size_of_parts(effect.of(Unknown(SCALAR, self.step, name)))
                                          for name in self.reading.outputs))

    def known_at_first(self, value: Value) -> Exponent:
        return Exponent() if value is None or value & 1 or self.saturates_at_once else exponent_of_value(
            self.solution, value)

    @cached_property
    def saturates_at_once(self) -> bool:
        """Do updates make large at once what a bounded function acts on, within a block whose other matrices read it?

        The function is then another one than before from the first layer on, and what updates of these do by the
        overlap of both is not what it would be at first.
        """
        forward = [p for p in self.setting.products if not p.transposed]
        for p in forward:
            if len(forward) > 1 and any(not scalar_function(f).growth for f in self.reading.bent(p)):
                value = self._updates(self.setting.family_number(p.location.statement.target), _acts,
                                      self.direct_at_first)
                if value is not None and exponent_of(value) > 0:
                    return True
        return False

    def is_held_back(self) -> bool:
        """Do updates make the stream grow, and norms or bounded functions hold it back?"""
        value = self.solution.value_of(Unknown(CHANGE, self.step, self.stream))
        if value is None or exponent_of(value) <= 0:
            return False
        bounded = any(not scalar_function(f).growth for p in self.setting.products if not p.transposed
                      for f in self.reading.bent(p))
        return bounded or self.reading.divides_by_norms

    # What layers do.

    @cached_property
    def branch(self) -> int:
        """The power of L of the branch multiplier, as a value: what a layer adds is its root mean square."""
        for rule in ("independent layers", "layers"):
            found = (self.solution.weight(self._power_of(entry.term)) for entry in self._to_stream(0)
                     if not entry.update and rule in self._rules(entry))
            first = next(found, None)
            if first is not None:
                return max([first, *(found if self.branches.apart else ())])
        if self.solution.forgets:  # nothing is left of anything
            return 0
        written = self._written_branch()
        if written is not None:
            return self.solution.weight(written)
        named = [str(p.statement.target) for p in self.setting.program.locations()
                 if kind(p.statement.value) == "scalar" and p.loops[1:]]
        if named:
            raise NotCovered(f"program {self.setting.program.name}: the scalar {named[0]} is computed in every layer, "
                             "and no rule counts what it multiplies; expected averages that stand where they are "
                             "used, as in branch.x / sqrt(Mean(branch.x**2))")
        raise NotCovered(f"program {self.setting.program.name}: no layer adds anything to the stream at the first "
                         "step; no rule for its exponents")

    def multiplier(self, matrix: str | None) -> int:
        """What multiplies the branch that a matrix is in."""
        apart = self.branches.apart.get(matrix or "", 0)
        return self.branch - (self.solution.weight(Affine.of(apart, self.reading.parameters)) if apart else 0)

    def _to_stream(self, step: int) -> list[TermEntry]:
        """The terms that layers add to the stream."""
        key = Unknown(KET, step, self.stream)
        found = self.solution.entries(key) if key in self.solution.counted.entries.of else []
        return [entry for entry in found if entry.enters == Enters.LAYERS and self.solution.value(entry.node)]

    def _rules(self, entry: TermEntry) -> set[str]:
        return {one.rule for one in self.solution.terms_of(entry)}

    def _power_of(self, term: sp.Expr) -> Affine:
        """The largest power of L in front of a term."""
        return max(self.reading.powers_of(term), key=lambda form: form.at(self.solution.scale.point))

    def _written_branch(self) -> Affine | None:
        """The power of L in front of what matrices that start at zero add to the stream, once they are trained."""
        if not any(entry.update for entry in self._to_stream(self.step)):
            return None
        setting, found = self.setting, set()
        for p in setting.program.locations():
            target, value = p.statement.target, sp.expand(p.statement.value)
            if isinstance(target, Vector) and target.same_family(setting.families[self.stream]):
                found |= {sp.powsimp(value.coeff(one)) for one in value.atoms(MatVec)}
        powers = {power_of(number, setting.depth) for number in found}
        return Affine.of(powers.pop(), self.reading.parameters) if len(powers) == 1 else None

    def adds(self, rule: str) -> Value:
        """What all layers add to the stream at the step that is asked for, coherently or independently."""
        if self.exploded:  # as at first, and what updates do to that directly
            moved = self.solution.entries(Unknown(CHANGE, self.step, self.stream)) if self.step < self.solution.steps \
                else []
            direct = [term.value for entry in moved for term in self.solution.ways(entry, self.direct.of_entry(entry))
                      if term.rule == rule]
            return larger([*direct, *self._adds_at(0, rule)])
        return larger(self._adds_at(self.step, rule))

    def _adds_at(self, step: int, rule: str) -> list[int]:
        return [term.value for entry in self._to_stream(step)
                for term in self.solution.terms_of(entry) if term.rule == rule]

    # What updates do.

    def change(self, product: Product, acts: bool) -> Value:
        """The change of W v in one layer; acts: only what updates of W do to v."""
        target = self.setting.family_number(product.location.statement.target)
        vector = self.setting.family_number(product.matvec.vector)
        found = self._updates(target, _acts if acts else lambda term: True)
        if not acts and self.reading.decays(product.matrix):
            found = larger((found, self.ket(vector, 0)))  # a share of it, as a matrix keeps sizes
        return found if acts else larger((found, self.change_of(vector)))

    def _updates(self, family: int, chosen: Callable[[sp.Expr], bool], effect: DirectEffect | None = None) -> Value:
        """What terms of updates that are chosen change of a family in one layer."""
        effect = effect or (self.direct if self.exploded else None)
        key = Unknown(CHANGE, self.step, family)
        found = []
        for entry in self.solution.entries(key) if key in self.solution.counted.entries.of else ():
            if entry.update and chosen(entry.term):
                parts: Parts = effect.of_entry(entry) if effect else self.solution.value(entry.node)
                found.append(value_times(size_of_parts(parts),
                                         *([-self.multiplier(self.branches.matrix_of(entry))]
                                           if entry.enters == Enters.LAYERS else [])))
        return larger(found)

    def error(self, linear: bool) -> Value:
        """What a layer is wrong by in which only the first order of its updates is kept: products of two of them, of
        one matrix or of two; in a linear network, those of a smooth activation, too. What a product adds to a stream
        on which functions act in the next layer is linearized in these."""
        jet, moves, _ = layer_jet(self.source), {}, self.branch  # refused where no layer adds anything
        for name in jet.first:
            products = [p for p in self.setting.products if not p.transposed and copied_from(p.matrix.name) == name]
            moves[name] = larger([*(self.change(p, True) for p in products),
                                  *(self._updates(family, lambda term: vector_of(term) == name)
                                    for family in sorted(self.reading.forward))])
        bent: dict[str, list[sp.Expr]] = {}
        for p in self.setting.products:
            if not p.transposed:  # one matrix may make several vectors
                bent.setdefault(copied_from(p.matrix.name), []).extend(self.reading.bent(p))
        alone = {(name, name): KINK if not linear and any(scalar_function(f).has_kinks for f in found) else SMOOTH
                 for name, found in bent.items() if linear or found}
        return larger(value_times(together(how, moves.get(one), moves.get(other)), self.multiplier(one))
                      for (one, other), how in joined_pairs(alone, jet.second).items())
