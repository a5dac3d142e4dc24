"""Equations of streams in layer time, from what one layer adds to them.

Kets have stochastic equations, and what they answer to pushes has integral ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import sympy as sp

from ...calculus.kets import Ket
from ...errors import NotCovered
from ...models.activations import H
from ...gaussian.variables import Expectation
from ...orders.affine import Affine, Region
from ...programs.language import Vector
from ..functions import INNER, P, Q, Indicator
from ..integral_equations import LimitEquation
from .boundaries import initial_vectors
from .expansion import LayerExpansion
from .nodes import A, Answer, B, Density, E, LayerGaussian, LeadingBracket, Increment, Push, R, STEP
from .letters import K, Lettering
from .passes import other_sample
from .sums import collected, total


@dataclass(frozen=True)
class LayerTerm:
    """A term of what a layer adds: its value without the power of L, and that power as all layers add it up."""

    value: sp.Expr
    order: Affine


@dataclass(frozen=True)
class StreamEquations:
    """The equations on one region.

    drift: of every stream, what adds up coherently; noise: what every layer draws; small: the orders of what updates
    add within a layer; memory: of what optimizers remember, targets and values."""

    expansion: LayerExpansion
    region: Region
    parameters: tuple[sp.Symbol, ...]
    drift: dict[Ket, tuple[LayerTerm, ...]]
    noise: dict[Ket, tuple[LayerTerm, ...]]
    small: tuple[Affine, ...]
    memory: tuple[tuple[sp.Expr, sp.Expr], ...] = ()

    def on(self, region: Region) -> "StreamEquations":
        """These streams on another region."""
        return replace(self, region=region)

    def keeps(self, term: LayerTerm) -> bool:
        """Does the term survive? Without updates streams answer nothing: their equations start from 0."""
        return self.region.sign(term.order) == "=" and (not term.value.has(Answer) or self.has_updates)

    @property
    def kept(self) -> tuple[Affine, ...]:
        """The powers of L in what optimizers remember."""
        depth = self.expansion.depth
        found = {e.exp for _, value in self.memory for e in value.atoms(sp.Pow) if e.base == depth}
        return tuple(sorted(Affine.of(power, self.parameters) for power in found))

    def settled(self, value: sp.Expr, layers: sp.Expr = sp.Integer(0)) -> sp.Expr:
        """The value with its powers of L, times ``layers`` more, as 1 where they are none on the region; else as 0."""
        def one(power: sp.Pow) -> sp.Expr:
            order = Affine.of(power.exp + layers, self.parameters)
            return sp.Integer(int(self.region.sign(order) == "="))
        return value.replace(lambda e: e.is_Pow and e.base == self.expansion.depth, one)

    @property
    def has_updates(self) -> bool:
        """Do any of the updates' terms survive, or are vectors outside of the layers trained?"""
        survive = any(self.region.sign(term.order) == "=" for terms in self.drift.values() for term in terms
                      if not term.value.has(Answer))
        return survive or bool(self.expansion.layer.trained_vectors)

    @cached_property
    def equations(self) -> tuple[LimitEquation, ...]:
        """All of them: Gaussians and their covariances, kets, densities, answers."""
        (x, gradient), now = self.expansion.layer.streams, self.expansion.passes.now
        found: list[LimitEquation] = []
        for sign, ket, source, letter in ((1, x, gradient, A), (-1, gradient, x, B)):
            noise = sp.sqrt(STEP) * sp.Add(*(one.value for one in self.noise[ket] if self.keeps(one)))
            taken, densities = self._densities(ket, source, letter)
            found.append(_equation(sign * Increment(ket), noise + STEP * taken))
            found += densities
        answers = {one.args[0] for equation in found for one in equation.value.atoms(Answer)}
        at_step = any(isinstance(e.target, Density) and e.target.args[:3] == (B, now, now) for e in found)
        found += self._answers(x, gradient, at_step) if answers else []
        shown = [_equation(self.shown(e.target), self.shown(e.value)) for e in found]
        functions = [LimitEquation(sp.Function(str(name))(H), f, ()) for f, name in self.letters.names.items()]
        return (*functions, *self._gaussians(shown), *shown)

    def _densities(self, ket: Ket, source: Ket, letter: sp.Symbol) -> tuple[sp.Expr, list[LimitEquation]]:
        """What a stream takes, per layer time, with names for what multiplies kets, and their equations."""
        passes = self.expansion.passes
        now, other, earlier = passes.now, passes.other, passes.before(source)
        past = own = by_past = sp.Integer(0)
        for term in (one.value for one in self.drift[ket] if self.keeps(one)):
            inside = term.function if isinstance(term, sp.Sum) else term
            for of, rest in ((earlier, inside / earlier), (source, inside / source)):
                if not rest.has(Ket):
                    break
            else:
                raise NotCovered(f"{term}: what a layer adds to {ket} is expected to be a multiple of {source}")
            if not isinstance(term, sp.Sum):
                own += rest
            elif of == source:
                by_past += rest
            else:
                past += rest
        taken, equations = sp.Integer(0), []
        if past != 0:
            taken += sp.Sum(Density(letter, now, other, P) * earlier, *passes.earlier)
            equations.append(_equation(Density(letter, now, other, P), collected(past)))
        if own != 0 or by_past != 0:
            taken += Density(letter, now, now, P) * source
            equations.append(_equation(Density(letter, now, now, P),
                                       collected(own) + total(collected(by_past), *passes.earlier)))
        return taken, equations

    def _answers(self, x: Ket, gradient: Ket, at_step: bool) -> list[LimitEquation]:
        """What streams answer to pushes: the linear equations of the kets, without what does not depend on the push.
        at_step: whether the gradient takes something of x at the same step."""
        passes = self.expansion.passes
        t, s = passes.now, passes.other
        one, two = (ket.vector.at() for ket in (x, gradient))
        found = [_equation(Answer(R, t, s, P), Push(one, two, t, s, P, P)),
                 _equation(Answer(E, t, s, P), Push(two, one, t, s, P, P))]
        between = None if passes.i is None else other_sample(other_sample(passes.i))
        k, samples = passes.label(K, between), passes.samples(between)
        for pushed in (two, one):
            here = passes.same
            above = sp.Sum(Density(A, t, k, INNER) * Push(two, pushed, k, s, INNER, Q),
                           *samples, (K, passes.s, passes.t - 1))
            from_x = Density(B, t, k, INNER) * Push(one, pushed, k, s, INNER, Q)
            together = at_step and not passes.several  # of a batch a sample takes something of itself alone
            below = sp.Sum(from_x, *samples, (K, passes.s, passes.t if together else passes.t - 1))
            if at_step and passes.several:
                below += Density(B, t, t, INNER) * Push(one, pushed, t, s, INNER, Q)
            starts = self._boundary_answers(pushed)
            known = {e.target for e in starts}
            first, last = (start if start in known else sp.Integer(0) for start in (
                Push(one, pushed, t, s, sp.Integer(0), Q), Push(two, pushed, t, s, sp.Integer(1), Q)))
            found += [_equation(Push(one, pushed, t, s, P, Q), first + sp.Integral(above, (INNER, 0, P))
                                + (here * Indicator(P, Q, 1) if pushed == one else 0)),
                      _equation(Push(two, pushed, t, s, P, Q), last + sp.Integral(below, (INNER, P, 1))
                                + (here * Indicator(P, Q, -1) if pushed == two else 0)), *starts]
        return found

    def _boundary_answers(self, pushed: Vector) -> list[LimitEquation]:
        """What trained vectors outside of the layers answer, and streams where they start."""
        layer, other = self.expansion.layer, self.expansion.passes.other
        trained = {e.target.vector.name for e in layer.trained_vectors}
        streams = {ket.vector.name for ket in layer.streams}

        def answer(ket: Ket) -> sp.Expr:
            step, *others = (index.xreplace({self.expansion.depth: sp.Integer(1)}) for index in ket.vector.indices)
            if ket.vector.name in streams:
                *sample, time = others
                return Push(ket.vector.at(), pushed, sp.Tuple(step, *sample) if sample else step, other, time, Q)
            return Push(ket.vector.at(*others), pushed, step, other, Q) if ket.vector.name in trained else sp.Integer(0)
        found = [_equation(answer(Ket(one)), sp.Integer(0)) for one in initial_vectors(layer.setting, layer.outside)
                 if one.name in trained]
        for equation in layer.outside if trained else ():
            if isinstance(equation.target, Ket) and equation.target.vector.name in (*streams, *trained):
                kets = {ket: answer(ket) for ket in equation.value.atoms(Ket)}
                found.append(_equation(answer(equation.target), sp.expand(equation.value.xreplace(kets))))
        return found

    # -- as they are printed

    def shown(self, value: sp.Expr) -> sp.Expr:
        """With letters and names, and what leading overlaps are, at layer time p. Means are known by the overlaps that
        stand in them, so that they are named before these are written out."""
        laws, value = self.expansion.laws, self.letters.named(value)
        while inner := value.atoms(LeadingBracket):
            value = self.letters.named(value.xreplace({one: laws[one] for one in inner}))
        return self.in_time(value)

    @property
    def letters(self) -> Lettering:
        """Letters for what layers draw."""
        return self.expansion.letters

    def in_time(self, value: sp.Expr) -> sp.Expr:
        """The expression at layer time p instead of a layer."""
        index = self.expansion.layer.index
        return value.xreplace({index - 1: P}).xreplace({index: P})

    def _gaussians(self, shown: list[LimitEquation]) -> list[LimitEquation]:
        """What the letters are, and their covariances."""
        passes = self.expansion.passes
        met = {one.args[0] for e in shown for one in e.value.atoms(LayerGaussian)}
        names, laws = [], []
        waiting = sorted(met, key=str)
        while waiting:
            letter = waiting.pop(0)
            hat = next(h for h, _ in self.expansion.means.covariances if self.letters.letter(h) == letter)
            earlier = passes.before(hat)
            scale = self.letters.scale(hat)
            covariance = scale * passes.before(scale) * self.expansion.means.covariance(hat, earlier)
            law = self.shown(collected(covariance))
            names.append(_equation(LayerGaussian(letter, passes.now), self.in_time(scale * hat)))
            product = Expectation(LayerGaussian(letter, passes.now) * LayerGaussian(letter, passes.other))
            laws.append(_equation(product, law))
            new = {one.args[0] for one in law.atoms(LayerGaussian)} - met
            met |= new
            waiting += sorted(new, key=str)
        return [*names, *laws]


def _equation(target: sp.Expr, value: sp.Expr) -> LimitEquation:
    return LimitEquation(target, value, ())
