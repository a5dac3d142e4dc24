"""The kets of a layer to first order in what is small in it.

What updates and the other layers owe to one layer's matrices is small where the depth is large: it carries a negative
power of L. Streams are what they would be without the layer, and what they answer to it; all else follows by Taylor's
formula, and numbers are means over the layer's own hats and over streams that know nothing of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Callable

import sympy as sp

from ...calculus.kets import Bracket, Hat, Ket, Response
from ...derivations.derivation import Derivation
from ...errors import NotCovered
from ...models.activations import H
from ...gaussian.scalar_functions import DerivativeAt
from ...gaussian.variables import Expectation
from ...programs.algebra import multiplied_out
from ...programs.language import Scalar, Vector
from .letters import Lettering
from .nodes import Answer, E, LeadingBracket, R
from .layer import KetLayer
from .means import AppliedFunctions, LayerMeans
from .sums import depth_power, factors_inside, terms_of, total

SMALL = sp.Dummy("small", positive=True)
SOURCE = "Tensor Programs VI, appendix G"


@dataclass
class Rewriting:
    """A rule by the function that rewrites."""

    name: str
    reason: str
    rewrite: Callable[[sp.Expr], sp.Expr]
    source: str = SOURCE

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return self.rewrite(expression)


class LayerExpansion:
    """Kets of one layer as leading parts and corrections of first order, in hats and streams.

    depth: the symbol L; every power of it in the layer's equations is negative, and small.
    """

    def __init__(self, layer: KetLayer, depth: sp.Symbol) -> None:
        self.layer, self.depth = layer, depth
        self.letters = Lettering(self)
        self.derivation = Derivation(shown=self.letters.step)
        self.passes = layer.passes
        self.leading: dict[Ket, sp.Expr] = {}
        self.whole: dict[Ket, sp.Expr] = {}
        self.laws: dict[sp.Expr, sp.Expr] = {}
        x, gradient = layer.streams
        streams = frozenset(one for ket in (x, gradient) for one in (ket, layer.before(ket)))
        self.means = LayerMeans(AppliedFunctions(), {}, streams)
        self.fronts = {stream.after: _front(stream.added, depth) for stream in (layer.forward, layer.backward)}
        self.added: dict[Ket, sp.Expr] = {}

    @property
    def small(self) -> list[sp.Expr]:
        """The exponents of L of what updates add to kets within the layer."""
        sums = [term for equation in self.layer.inner for term in terms_of(equation.value) if isinstance(term, sp.Sum)]
        updates = [part for term in sums for part in sp.Add.make_args(multiplied_out(term.function))
                   if not part.has(Response)]
        return [depth_power(part, self.depth) for part in updates]

    @property
    def inside(self) -> bool:
        """Do updates move kets of the layer by as much as hats do, or more, so that there is nothing to expand in?"""
        return any(power.is_nonnegative for power in self.small)

    def expand(self) -> None:
        """Find leading parts, then corrections."""
        layer, streams = self.layer, self.layer.streams
        for equation in layer.inner:  # functions as the forward pass applies them; the others are their derivatives
            self._canonical(equation.value)
        self.leading.update({ket: ket for ket in streams})
        for equation in layer.inner:
            self.leading[equation.target] = self._led(equation.target, equation.value)
            self._require_no_stream_beside_hats(equation.target)
        for stream in (layer.forward, layer.backward):
            self.added[stream.before] = self._led(stream.after, stream.added)
            self._require_fresh(stream.after, self.added[stream.before])
        self.whole.update({ket: self._without_layer(ket) for ket in streams})
        for equation in layer.inner:
            self.whole[equation.target] = self._expand(equation.target, equation.value)

    def _require_no_stream_beside_hats(self, ket: Ket) -> None:
        if self.leading[ket].has(self.layer.streams[0]) and self.leading[ket].has(Hat):
            raise self.layer.refused(f"{ket} = {self.leading[ket]} is a function of the stream itself beside a product")

    def _require_fresh(self, stream: Ket, added: sp.Expr) -> None:
        """What a layer adds has no mean and nothing of the streams: all layers add up like the root of their number."""
        if any(added.has(ket) for ket in self.layer.streams):
            raise self.layer.refused(f"it adds a stream itself to {stream}, {added}")
        if self.means.over_all(added) != 0:
            raise self.layer.refused(f"what it adds to {stream} has a mean that is not zero, {added}")

    def drift(self, stream_after: Ket, added: sp.Expr) -> sp.Expr:
        """What the layer adds to a stream on average, given the streams, to first order."""
        front = self.depth**self.fronts[stream_after]
        value = self._expand(stream_after, factors_inside(added / front)) - self._led(stream_after, added) / front
        rule = Rewriting("law of large numbers", "terms that add up over the layers: of their parts that are "
                         "independent from layer to layer only means count", self.means.given_streams)
        return self.derivation.apply(rule, stream_after, factors_inside(front * value))

    def power_of_drawn(self, term: sp.Expr) -> sp.Expr:
        """The exponent of L in what a layer draws, beside what it has in front: 0, or, where all that its matrices meet
        is made by updates, that of the updates."""
        found = sp.Integer(0)
        for hat in term.atoms(Hat):
            ket = Ket(hat.vector.vector)
            if self._found(self.leading, ket.vector) != 0:
                continue
            powers = {depth_power(one.function if isinstance(one, sp.Sum) else one, self.depth)
                      for one in terms_of(self._found(self.whole, ket.vector))}
            if len(powers) != 1:
                raise self.layer.refused(f"{hat} is of a ket that is 0 before updates, and of no one power of "
                                         f"{self.depth} after them")
            found += powers.pop()
        return found

    # -- leading parts

    def _led(self, target: Ket, value: sp.Expr) -> sp.Expr:
        """The leading part of a value: without what earlier steps owe to it."""
        front = self.depth**self.fronts.get(target, sp.Integer(0))
        value = factors_inside(value / front).replace(lambda e: isinstance(e, sp.Sum), lambda e: sp.Integer(0))
        value = self._canonical(value).xreplace(self.leading)
        for hat in value.atoms(Hat):
            self._meet(hat)
        return factors_inside(front * self._numbers(value, first=False))

    def _meet(self, hat: Hat) -> None:
        """Note the covariance of a hat with itself and with that of an earlier step."""
        if (hat, hat) in self.means.covariances:
            return
        earlier = self.layer.before(hat)
        u, v = hat.vector.vector, self.layer.before(hat.vector.vector)
        for one, two, vectors in ((hat, earlier, (u, v)), (hat, hat, (u, u)), (earlier, earlier, (v, v))):
            value = self.means.over_all(sp.Mul(*(self._found(self.leading, vector) for vector in vectors)))
            named = LeadingBracket(*vectors) if value.has(Expectation) else value  # means of means of means grow fast
            self.means.covariances[one, two], self.laws[named] = named, value

    def _found(self, known: dict[Ket, sp.Expr], vector: Vector) -> sp.Expr:
        ket = Ket(vector)
        if ket in known:
            return known[ket]
        now = self.passes.of_now(ket)
        if now in known and self.layer.before(now) == ket:
            return self.layer.before(known[now])
        raise NotCovered(f"{ket}: is no ket of the layer, nor a stream that enters it")

    # -- first order

    def _without_layer(self, ket: Ket) -> sp.Expr:
        """A stream as it would be without the layer, and what it answers to the layer."""
        x, gradient = self.layer.streams
        now, other, p = self.passes.now, self.passes.other, self.layer.index
        if ket == x:
            return x + sp.Sum(Answer(R, now, other, p) * self.layer.before(self.added[gradient]), *self.passes.earlier)
        pushed = self.added[x]
        return (gradient + Answer(E, now, now, p) * pushed
                + sp.Sum(Answer(E, now, other, p) * self.layer.before(pushed), *self.passes.earlier))

    def _expand(self, target: Ket, value: sp.Expr) -> sp.Expr:
        """The leading part and corrections of first order, by recorded steps."""
        own = "sums over earlier steps and the step's own term" + (
            "; samples of one step do not answer each other" if self.passes.several else "")
        rules = (
            Rewriting("the step itself apart", own, self._apart),
            Rewriting("numbers to first order", "means of what the layer's kets are to first order; hats and streams "
                      "are independent, and a hat acts through what the streams answer", self._first_numbers),
            Rewriting("leave one layer out", "kets of the layer in its hats and in streams that know nothing of it, "
                      "and what these answer, by Taylor's formula to first order in what carries a negative power of L",
                      self._left_out))
        if target in self.fronts:  # what multiplies streams stands inside sums; kets of the layer are expanded first
            rules = (rules[0], replace(rules[1], rewrite=self._numbers_in_sums), rules[2])
        return self.derivation.through(rules, target, self._canonical(value))

    def _apart(self, value: sp.Expr) -> sp.Expr:
        """Sums up to the step itself as sums over earlier steps and a term of the step."""
        def split(one: sp.Sum) -> sp.Expr:
            *samples, (s, first, last) = one.limits
            known = (*samples, (s, first, self.passes.t - 1)) == self.passes.earlier
            if last == self.passes.t and known and all(
                    part.has(Response) for part in sp.Add.make_args(one.function)):
                return sp.Sum(one.function, *self.passes.earlier) + self.passes.of_now(one.function)
            if last != self.passes.t - 1 or not known:
                raise NotCovered(f"{one}: expected sums over earlier steps")
            return one
        return value.replace(lambda e: isinstance(e, sp.Sum), split)

    def _first_numbers(self, value: sp.Expr) -> sp.Expr:
        return self._numbers(value, first=True)

    def _numbers_in_sums(self, value: sp.Expr) -> sp.Expr:
        return factors_inside(self._first_numbers(value))

    def _left_out(self, value: sp.Expr) -> sp.Expr:
        return self._taylor(self.inserted(value))

    def _numbers(self, value: sp.Expr, first: bool) -> sp.Expr:
        """Brackets, means and responses as what they are to leading or first order."""
        def bracket(node: sp.Expr) -> sp.Expr:
            u, v = node.args
            if self.means.streams >= {Ket(u), Ket(v)}:
                return node
            return self._mean_product([u, v], first)

        def mean(node: sp.Expr) -> sp.Expr:
            body = node.body.xreplace(self.whole if first else self.leading)
            return self.means.over_all(self._taylor(body) if first else body)
        value = value.replace(lambda e: isinstance(e, Response), self._response)
        value = value.replace(lambda e: isinstance(e, Expectation) and not e.has_law, mean)
        return value.replace(lambda e: isinstance(e, Bracket), bracket)

    def _mean_product(self, vectors: list[Vector], first: bool) -> sp.Expr:
        now = all(Ket(v) in self.whole for v in vectors)  # of two steps only leading parts stand: see ``inserted``
        known = self.whole if first and now else self.leading
        product = sp.Mul(*(self._found(known, v) for v in vectors))
        return self.means.over_all(self._taylor(product) if first and now else product)

    def _response(self, node: Response) -> sp.Expr:
        """E[d |y> / d hat], by what y is to first order."""
        y, base = self._found(self.whole, node.vector), node.base
        unknown = sp.Dummy("u", real=True)

        def slope(value: sp.Expr) -> sp.Expr:
            return value.xreplace({base: unknown}).diff(unknown).xreplace({unknown: base})
        found = sp.Integer(0)
        own = self.passes.of_now(base) == base
        for term in terms_of(y):
            if not isinstance(term, sp.Sum):
                found += slope(term)
                continue
            found += total(slope(term.function), *term.limits) if own else slope(term.function)
        return self.means.over_all(found)

    def inserted(self, value: sp.Expr) -> sp.Expr:
        """Kets of the layer as what they are to first order; those of earlier steps stand in small terms."""
        earlier = {self.layer.before(ket): self.layer.before(leading) for ket, leading in self.leading.items()}
        return value.xreplace({**earlier, **self.whole})

    def _taylor(self, value: sp.Expr) -> sp.Expr:
        """The terms without a power of L, and those with one."""
        def marked(e: sp.Expr) -> sp.Expr:
            return e * SMALL
        value = value.replace(lambda e: e.is_Pow and e.base == self.depth, marked)
        value = value.replace(lambda e: isinstance(e, sp.Sum), lambda e: SMALL * e.xreplace({SMALL: sp.Integer(1)})
                              if e.has(SMALL) else e)
        return sp.Add(*(factors_inside(part.xreplace({SMALL: sp.Integer(0)})) for part in (value, value.diff(SMALL))))

    # -- functions

    def _canonical(self, value: sp.Expr) -> sp.Expr:
        """Functions of one ket as derivatives of the functions that the layer applies."""
        groups: dict[tuple[sp.Expr, ...], sp.Expr] = {}
        kept: list[sp.Expr] = []
        for term in sp.Add.make_args(multiplied_out(value)):
            of: dict[Ket, sp.Expr] = {}
            rest: list[sp.Expr] = []
            for factor in sp.Mul.make_args(term):
                inside = factor.xreplace({mean: sp.Dummy() for mean in factor.atoms(Expectation)}).atoms(Ket)
                if isinstance(factor, (sp.Sum, DerivativeAt)) or len(inside) != 1:
                    rest.append(factor)
                else:
                    ket, = inside
                    of[ket] = of.get(ket, sp.Integer(1)) * factor
            curved = {ket: f for ket, f in of.items() if not f.is_polynomial(ket)}
            if not curved:
                kept.append(term)
                continue
            if len(curved) > 1:
                straight = [f for ket, f in of.items() if ket not in curved]
                kept.append(sp.Mul(*rest, *straight, *(self._known(f, ket) for ket, f in curved.items())))
                continue
            (ket, f), = curved.items()
            others = sp.Mul(*rest, *(g for one, g in of.items() if one != ket))
            number, others = others.as_coeff_Mul()
            groups[ket, others] = groups.get((ket, others), sp.Integer(0)) + number * f
        # what is linear in a ket and multiplies the same others belongs to its function
        for term in list(kept):
            for (ket, others), f in groups.items():
                ratio = term / others
                if ratio.atoms(Ket) == {ket} and not ratio.has(sp.Sum, Expectation) or ratio.is_number:
                    groups[ket, others] = f + ratio
                    kept.remove(term)
                    break
        found = sp.Add(*kept)
        for (ket, others), f in groups.items():
            found += others * self._known(f, ket)
        return found

    def _known(self, f: sp.Expr, ket: Ket) -> sp.Expr:
        """A function of a ket as a derivative of one that the layer applies."""
        f = f.xreplace({ket: H})
        if inside := sorted(f.atoms(Scalar, Bracket, Expectation), key=str):
            raise self.layer.refused(f"{f.xreplace({H: ket})} has a number of the network's within a function of a "
                                     f"ket, {inside[0]}")
        number, g, order = self.means.functions.named(f)
        return number * DerivativeAt(g, order, ket)


def _front(added: sp.Expr, depth: sp.Symbol) -> sp.Expr:
    """The exponent of L that what a layer adds has in front, sums over earlier steps set aside."""
    terms = [term for term in terms_of(added) if not term.has(sp.Sum)]
    if not terms:
        return sp.Integer(0)
    found = {depth_power(term, depth) for term in terms}
    if len(found) != 1:
        raise NotCovered(f"{added}: what a layer adds has no one power of {depth} in front")
    return found.pop()
