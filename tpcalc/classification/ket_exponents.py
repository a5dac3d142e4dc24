"""The exponents of L that a verdict reads, from the terms of any network's ket equations."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import takewhile
from typing import Callable

import sympy as sp

from ..calculus import KetEquations
from ..calculus.kets import Bracket, Hat, Ket, random_parts
from ..calculus.memory import decays
from ..calculus.setting import Product
from ..gaussian import Expectation
from ..orders import Affine, Cell, Contribution, Exponent, KetTerms, Quantity, Sort, exact_part, join
from ..gaussian.scalar_functions import H, scalar_function
from ..asymptotics.factors import argument_of, factors_of, squares
from ..orders.terms import split
from ..limits.outputs import outputs_of
from ..limits.trained_vectors import vector_of
from ..programs.language import LossDerivative, MatVec, Scal, Vec, kind
from .sizes import Exponents


def read_exponents(equations: KetEquations, cell: Cell, unsaturated: tuple[Contribution, ...] = (), step: int = 1
                   ) -> Exponents:
    """Sizes of the stream, of what matrices make of it, and of their changes up to a training step.

    What comes out smaller when only terms that are no upper bounds are counted is an upper bound itself. So is all that
    updates make where these outgrow the stream, and norms or bounded functions hold it back: an update acts by the
    overlap of where the stream was with where it is, which is counted as if these were one direction.
    unsaturated: all terms where no function is saturated, which tell whether x grows when only a bound of it is known.
    """
    reader = _KetReader(equations, cell, step)
    found = reader.read()
    bounds = found.bounds | (Exponents.of_updates() if reader.is_held_back() else frozenset())
    if any(one.bound for one in cell.contributions):
        least = _KetReader(equations, exact_part(cell), step).read()
        bounds |= {one.name for one in Exponents.sizes() if getattr(found, one.name) != getattr(least, one.name)}
    if not (bounds and unsaturated):
        return replace(found, bounds=bounds)
    return replace(found, bounds=bounds, at_first=_at_first(equations, cell, unsaturated))


def _at_first(equations: KetEquations, cell: Cell, unsaturated: tuple[Contribution, ...]) -> Exponent:
    """The direct effect of the first updates on the stream, where nothing is saturated and all else is as it was."""
    order_one = Exponent.single(Affine.number(0, cell.region.size))
    exponents = {q: order_one if q.sort == Sort.SHRINK else e for q, e in cell.exponents.items()}
    return _KetReader(equations, replace(cell, exponents=exponents, contributions=tuple(
        one for one in unsaturated if not one.bound))).direct_effect()


class _KetReader:
    """Sizes of kets, with every part that they have; what layers add to the stream is taken per layer."""

    def __init__(self, equations: KetEquations, cell: Cell, step: int = 1) -> None:
        self.setting, self.equations, self.cell, self.step = equations.setting, equations, cell, step
        terms = KetTerms(equations)
        read = {self.setting.family_number(v) for e in equations.equations if isinstance(e.target, Scal)
                for mean in e.value.atoms(Bracket, Expectation) for v in mean.atoms(Vec)
                if self.setting.initial_number(v) is None}
        self.stream = min(terms.accumulating & read or terms.accumulating)
        self.size = cell.region.size
        self.branch = self._branch()
        self.exploded = bool(cell.explosions) and not cell.held

    def _output(self, t: int) -> Exponent:
        return join(self.cell.of(Quantity.scalar(name, t)) for name in outputs_of(self.equations.equations))

    def _branch(self) -> Affine:
        """The power of L of the branch multiplier: what a layer adds is its root mean square."""
        gains = {"independent layers": Fraction(1, 2), "layers": Fraction(1)}
        for rule, gain in gains.items():
            for one in self._to_stream(0):
                if one.rule == rule and not one.update:
                    return one.weight - Affine.number(gain, self.size)
        written = self._written_branch()
        if written is not None:
            return written
        named = [str(p.statement.target) for p in self.setting.program.places()
                 if kind(p.statement.value) == "scalar" and p.loops[1:]]
        if named:
            raise ValueError(f"program {self.setting.program.name}: the scalar {named[0]} is computed in every layer, "
                             "and no rule counts what it multiplies; allowed are averages that stand where they are "
                             "used, as in branch.x / sqrt(Moment(branch.x**2))")
        raise ValueError(f"program {self.setting.program.name}: no layer adds anything to the stream at the first "
                         "step; no rule for its exponents")

    def _written_branch(self) -> Affine | None:
        """The power of L in front of what matrices that start at zero add to the stream, once they are trained."""
        if not any(one.update for one in self._to_stream(self.step)):
            return None
        setting, found = self.setting, set()
        for p in setting.program.places():
            target, value = p.statement.target, sp.expand(p.statement.value)
            if isinstance(target, Vec) and target.same_family(setting.families[self.stream]):
                found |= {sp.powsimp(value.coeff(one)) for one in value.atoms(MatVec)}
        powers = {setting.depth * sp.diff(number, setting.depth) / number for number in found}
        if len(powers) != 1:
            return None
        return Affine.of(sp.simplify(powers.pop()), KetTerms(self.equations).parameters)

    def read(self) -> Exponents:
        forward = [p for p in self.setting.products if not p.transposed]
        dx, df = self._of(Sort.CHANGE, self.step, self.stream), self._output(self.step)
        if self.exploded:
            dx = df = self.direct_effect()
        hidden = join(self._of(Sort.KET, 0, self.setting.family_number(p.matvec.vector)) for p in forward)
        changes = join(self._change(p, False) for p in forward)
        updates = join([*(self._change(p, True) for p in forward), *map(self._by_vectors, self._forward)])
        errors = [join([self._change(p, True), self._by_vectors(self.setting.family_number(p.matvec.vector))]).power(
            Fraction(3 if any(scalar_function(f).has_kinks for f in bent) else 4, 2))
            for p in forward if (bent := self._bent(p))]
        adding = {rule: join(self.cell.weight(one) for one in self._to_stream(self.step) if one.rule == rule)
                  for rule in ("layers", "independent layers")}
        explosions = tuple((key.step, v) for key, v in self.cell.explosions) if self.exploded else ()
        found = Exponents(
            x_init=self._of(Sort.KET, 0, self.stream), h_init=hidden, f_init=self._output(0), dx=dx,
            dh=changes.plus(dx), df=df, update=updates,
            noise=adding["independent layers"], drift=adding["layers"],
            linearisation=Exponent.single(self.branch).times(join(errors)), explosions=explosions,
            grows=self.cell.grows, exact=False).pruned(self.cell.region)
        return found.without_training() if explosions and explosions[0][0] == 0 else found

    def _of(self, sort: Sort, t: int, family: int) -> Exponent:
        """The size of a ket, or of its change since the first step."""
        return join(self.cell.of(key) for key in self._parts(sort, t, family))

    def _parts(self, sort: Sort, t: int, family: int) -> list[Quantity]:
        return [key for key in self.cell.exponents if (key.sort, key.step, key.number) == (sort, t, family)]

    def _is_change(self, key: Quantity, family: int) -> bool:
        """Is the quantity a change of the family, up to the step that is asked for?"""
        return (key.sort, key.step, key.number) == (Sort.CHANGE, self.step, family)

    def is_held_back(self) -> bool:
        """Does the first update make the stream grow, and norms or bounded functions hold it back?"""
        if self.cell.is_bounded(self._parts(Sort.CHANGE, self.step, self.stream)):
            return False
        bounded = any(not scalar_function(f).growth for p in self.setting.products if not p.transposed
                      for f in self._bent(p))
        return bounded or any(power.exp.is_negative and squares(power.base)
                              for e in self.equations.equations for power in e.value.atoms(sp.Pow))

    def direct_effect(self) -> Exponent:
        """What the first updates do to the stream that was there before them."""
        return join(self._moved(key, frozenset()) for key in self._by_target if self._is_change(key, self.stream))

    def _moved(self, key: Quantity, seen: frozenset[Quantity]) -> Exponent:
        """A change in the second step, all that does not change as it was at the first; no way round a loop."""
        return join(self._moved_by(one, seen | {key}) for one in self._by_target.get(key, ()))

    @cached_property
    def _by_target(self) -> dict[Quantity, list[Contribution]]:
        found: dict[Quantity, list[Contribution]] = {}
        for one in self.cell.contributions:
            found.setdefault(one.target, []).append(one)
        return found

    def _moved_by(self, one: Contribution, seen: frozenset[Quantity]) -> Exponent:
        found = Exponent.single(one.weight)
        for factor in one.factors:
            if factor.sort == Sort.SHRINK:
                found = found.times(self.cell.of(factor))
            elif factor.sort != Sort.CHANGE:
                found = found.times(self.cell.of(factor.at_step(0)))
            else:
                found = found.times(Exponent() if factor in seen else self._moved(factor, seen))
        return found

    def _to_stream(self, t: int) -> list[Contribution]:
        return [one for one in self.cell.contributions
                if (one.target.sort, one.target.step, one.target.number) == (Sort.KET, t, self.stream)]

    def _change(self, product: Product, acts: bool) -> Exponent:
        """The change of W v in one layer; acts: only what updates of W do to v."""
        target = self.setting.family_number(product.place.statement.target)
        vector = self.setting.family_number(product.matvec.vector)
        found = self._updates(target, lambda term: not acts or term.has(Bracket))
        if not acts and decays(self.setting, product.matrix):
            found = found.plus(self._of(Sort.KET, 0, vector))  # a share of it, as a matrix keeps sizes
        return found if acts or self.exploded else found.plus(self._of(Sort.CHANGE, self.step, vector))

    def _by_vectors(self, family: int) -> Exponent:
        """What updates of trained vectors do in one layer to the vectors of a family, as factors of theirs."""
        return self._updates(family, lambda term: bool(vector_of(term)))

    def _updates(self, family: int, chosen: Callable[[sp.Expr], bool]) -> Exponent:
        """What terms of updates that are chosen change of a family in one layer."""
        found = []
        for one in self.cell.contributions:
            if one.update and self._is_change(one.target, family) and chosen(one.term):
                gain = {"layers": Fraction(1), "independent layers": Fraction(1, 2)}.get(one.rule)
                inside = Affine.number(0, self.size) if gain is None else self.branch + Affine.number(gain, self.size)
                weight = self._moved_by(one, frozenset()) if self.exploded else self.cell.weight(one)
                found.append(weight.times(Exponent.single(inside * -1)))
        return join(found)

    @cached_property
    def _forward(self) -> list[int]:
        """The families that a step makes before it knows its loss."""
        places = takewhile(lambda p: not p.statement.value.has(LossDerivative), self.setting.program.places())
        return sorted({self.setting.family_number(p.statement.target) for p in places
                       if isinstance(p.statement.target, Vec)})

    def _bent(self, product: Product) -> list[sp.Expr]:
        """The functions, not linear ones, that are taken of what the product makes."""
        made, found = product.place.statement.target, []
        for e in self.equations.equations:
            if isinstance(e.target, Ket) and e.place.loops == product.place.loops:
                factors = [factor for term in split(e.value) if not isinstance(term, sp.Sum)
                           for factor in factors_of(term) if any(k.vector.same_family(made) for k in factor.atoms(Ket))]
                forms = [argument_of(f)[1] for f in factors if not isinstance(f, (Ket, Hat)) and random_parts(f)]
                square = [H**2] if len(factors) != len(set(factors)) else []
                found += [form for form in (*forms, *square) if sp.diff(form, H, 2) != 0]
        return found
