"""Means over what a layer draws: hats of its matrices, Gaussian and independent of the streams that enter it."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import sympy as sp

from ...calculus.kets import Bracket, Hat, Ket
from ...errors import NotCovered
from ...gaussian.rules import gaussian_mean, overlap
from ...models.activations import H
from ...gaussian.scalar_functions import DerivativeAt, scalar_function
from ...gaussian.variables import Expectation
from .sums import terms_of, total

HIGHEST = 3  # order of a known function's derivative that is looked for


@dataclass
class AppliedFunctions:
    """The functions of one variable that a layer applies. Their derivatives are written as such: means of them are
    tabulated by function and order."""

    known: list[sp.Expr] = field(default_factory=list)

    def named(self, f: sp.Expr) -> tuple[sp.Expr, sp.Expr, int]:
        """(c, g, k) with f = c g^(k), g one of the known functions, f itself where it is new."""
        if f.is_polynomial(H):
            return sp.Integer(1), f, 0
        for g in self.known:
            derivative = scalar_function(g)
            for order in range(HIGHEST + 1):
                ratio = _ratio(f, derivative.expression)
                if ratio is not None:
                    return ratio, g, order
                if derivative.expression.has(sp.DiracDelta):
                    break
                derivative = derivative.derivative
        self.known.append(f)
        return sp.Integer(1), f, 0


def _ratio(f: sp.Expr, g: sp.Expr) -> sp.Expr | None:
    """The number c with f = c g."""
    points = [sp.Rational(*pair) for pair in ((-17, 9), (-3, 5), (1, 7), (9, 8), (31, 9))]
    values = [(complex(f.subs(H, p)), complex(g.subs(H, p))) for p in points] if not (
        (f.free_symbols | g.free_symbols) - {H}) else []
    numbers = {round((a / b).real, 10) for a, b in values if abs(b) > 1e-12}
    if len(numbers) != 1 or any(abs(b) <= 1e-12 < abs(a) for a, b in values):
        return None
    ratio = sp.Rational(Fraction(numbers.pop()).limit_denominator(10**6))
    rest = (f - ratio * g).rewrite(sp.Heaviside).xreplace({sp.Heaviside(-H): 1 - sp.Heaviside(H)})
    return ratio if sp.simplify(rest) == 0 else None


@dataclass(frozen=True)
class LayerMeans:
    """E[ ] over hats, streams given or averaged too.

    covariances: of two hats at their steps, to leading order; streams: kets that enter the layer, centred; whose: of
    the means that were met, hats and functions.
    """

    functions: AppliedFunctions
    covariances: dict[tuple[Hat, Hat], sp.Expr]
    streams: frozenset[Ket]
    whose: dict[Expectation, tuple[tuple[Hat, sp.Expr, int], ...]] = field(default_factory=dict)

    def given_streams(self, value: sp.Expr) -> sp.Expr:
        """The mean over hats alone."""
        return sp.Add(*(self._term(term, True) for term in terms_of(value)))

    def over_all(self, value: sp.Expr) -> sp.Expr:
        """The mean over hats and streams."""
        return sp.Add(*(self._term(term, False) for term in terms_of(value)))

    def _term(self, term: sp.Expr, given: bool) -> sp.Expr:
        if isinstance(term, sp.Sum):
            value = (self.given_streams if given else self.over_all)(term.function)
            return total(value, *term.limits)
        numbers: list[sp.Expr] = []
        streams: list[Ket] = []
        of_hats: dict[Hat, sp.Expr] = {}
        for factor in sp.Mul.make_args(term):
            base, power = factor.as_base_exp()
            hats = factor.atoms(Hat) if not isinstance(factor, Bracket) else set()
            if isinstance(factor, sp.Sum) or len(hats) > 1:
                raise NotCovered(f"{factor}: a function of several products of a layer; expected functions of one each")
            if hats:
                hat, = hats
                of_hats[hat] = of_hats.get(hat, sp.Integer(1)) * factor
            elif base in self.streams and power.is_Integer:
                streams += [base] * int(power)
            elif not factor.atoms(Ket):
                numbers.append(factor)
            else:
                raise NotCovered(f"{factor}: a function of a stream itself, before a matrix of the layer is")
        mean = sp.Mul(*numbers, *(streams if given else [self._of_streams(streams)]))
        while of_hats and mean != 0:
            hat = min(of_hats, key=sp.default_sort_key)
            partner = next((one for one in sorted(of_hats, key=sp.default_sort_key) if one != hat
                            and self._family(one) == self._family(hat)), None)
            f, g = of_hats.pop(hat), sp.Integer(1) if partner is None else of_hats.pop(partner)
            mean *= self._of_hats(hat, f, partner, g)
        return mean

    def _of_streams(self, streams: list[Ket]) -> sp.Expr:
        if len(streams) % 2:
            return sp.Integer(0)
        if len(streams) > 2:
            raise NotCovered(f"{sp.Mul(*streams)}: the mean of more than two streams has no rule")
        return Bracket(*(one.vector for one in streams)) if streams else sp.Integer(1)

    def _family(self, hat: Hat) -> tuple[object, ...]:
        matrix = hat.vector.matrix
        return matrix.member.family_key, matrix.turned

    def covariance(self, one: Hat, two: Hat) -> sp.Expr:
        found = self.covariances.get((one, two), self.covariances.get((two, one)))
        if found is None:
            raise NotCovered(f"{one} and {two}: their covariance is not known where it is asked for")
        return found

    def _of_hats(self, one: Hat, f: sp.Expr, two: Hat | None, g: sp.Expr) -> sp.Expr:
        scale, f = _rescaled(f, one)
        own = scale**2 * self.covariance(one, one)
        if two is None:
            pair = _as_pair(f)
            if pair is not None:
                (f, j), (g, k) = pair
                return self._named(overlap(f, g, j, k, own, own, own), (one, f, j), (one, g, k))
            number, f, j = self._function(f)
            return number * self._named(gaussian_mean(f, j, own), (one, f, j))
        other, g = _rescaled(g, two)
        number, f, j = self._function(f)
        factor, g, k = self._function(g)
        found = overlap(f, g, j, k, scale * other * self.covariance(one, two), own,
                        other**2 * self.covariance(two, two))
        return number * factor * self._named(found, (one, f, j), (two, g, k))

    def _named(self, found: sp.Expr, *functions: tuple[Hat, sp.Expr, int]) -> sp.Expr:
        """The mean, and a note of whose it is; means of polynomials are covariances, and of others."""
        if not all(f.is_polynomial(H) for _, f, _ in functions):
            outer = found.atoms(Expectation) - {inner for mean in found.atoms(Expectation)
                                                for entry in mean.matrix for inner in entry.atoms(Expectation)}
            for mean in outer:
                self.whose.setdefault(mean, functions)
        return found

    def _function(self, f: sp.Expr) -> tuple[sp.Expr, sp.Expr, int]:
        """A product of functions of ``H`` as c g^(k)."""
        nodes = f.atoms(DerivativeAt)
        if len(nodes) == 1:
            node, = nodes
            if not (f / node).has(H):
                return f / node, node.args[0], int(node.args[1])
        return self.functions.named(f.xreplace({node: node.doit() for node in nodes}))


def _rescaled(f: sp.Expr, hat: Hat) -> tuple[sp.Expr, sp.Expr]:
    """(c, f in the symbol ``H``, which stands for c times the hat): decayed matrices have c = rho in all functions."""
    scales = {sp.cancel(node.args[2] / hat) for node in f.atoms(DerivativeAt)}
    if len(scales) > 1 or any(scale.has(Hat) for scale in scales):
        raise NotCovered(f"{f}: functions of several multiples of {hat}, or of it and of something beside it")
    scale = scales.pop() if scales else sp.Integer(1)
    nodes = {node: DerivativeAt(*node.args[:2], H) for node in f.atoms(DerivativeAt)}
    return scale, f.xreplace(nodes).xreplace({hat: H / scale})


def _as_pair(f: sp.Expr) -> list[tuple[sp.Expr, int]] | None:
    """A product of two derivatives of functions as these, (g, k) each; None for anything else."""
    found: list[tuple[sp.Expr, int]] = []
    for factor in sp.Mul.make_args(f):
        base, power = factor.as_base_exp()
        if not isinstance(base, DerivativeAt) or not power.is_Integer or power < 1:
            return None
        found += [(base.args[0], int(base.args[1]))] * int(power)
    return found if len(found) == 2 else None
