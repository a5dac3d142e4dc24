"""Sums over layers that contract: y <- y (1 - c L^(v - 1)) with v > 0 forgets what is older than L^(1 - v) layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Mapping, Sequence

from ..errors import NotCovered
from .affine import Affine
from .cell import Cell, product_of
from .exponent import Exponent
from .quantities import Quantity, Sort
from .region import Region
from .terms import Contribution


@dataclass(frozen=True)
class Forgetting:
    """The quantities of a sweep that forget, with their rates v, and the loops that make them."""

    rates: dict[Quantity, Exponent]
    loops: frozenset[Contribution]

    @classmethod
    def of(cls, region: Region, known: Mapping[Quantity, Exponent], terms: Sequence[Contribution]
           ) -> "Forgetting | Affine":
        """What forgets on a region; or a form whose sign decides it there.

        Raises ``ValueError`` where a loop that contracts and one that amplifies are of one order, or of orders whose
        larger is not the same everywhere: then coefficients decide, which are not compared.
        """
        rates: dict[Quantity, Exponent] = {}
        loops: set[Contribution] = set()
        by_target: dict[Quantity, list[tuple[Contribution, Exponent]]] = {}
        for one in terms:
            if one.rule == "layers" and one.factors.count(one.target) == 1:  # fed with itself, from layer to layer
                others = (known.get(f, Exponent()) for f in one.factors if f != one.target)
                by_target.setdefault(one.target, []).append((one, product_of(one, others)))
        for target, own in by_target.items():
            down = [(one, weight) for one, weight in own if _sign(one) < 0]
            for _, weight in down:
                for form in weight.forms:
                    if region.sign(form) in (None, ">=") and not region.never(form, ">"):
                        return form
            strong = [(one, w) for one, w in down if any(region.sign(form) == ">" for form in w.forms)]
            if not strong:
                loops |= {one for one, w in down if all(region.sign(form) in ("<", "=", "<=") for form in w.forms)}
                continue
            rate = max((form for _, w in strong for form in w.forms), key=lambda form: form.at(region.point() or ()))
            for one, weight in own:
                if _sign(one) >= 0 and any(region.sign(rate - form) != ">" for form in weight.forms):
                    raise NotCovered(f"{target}: {one.term} amplifies it from layer to layer, other terms let it "
                                     "decay, and neither is of larger order; no rule compares their coefficients")
            rates[target] = Exponent.single(rate)
            loops |= {one for one, _ in own}
        return cls(rates, frozenset(loops))

    def limited(self, terms: Sequence[Contribution]) -> list[Contribution]:
        """The terms as they count for what forgets: without where the sweep starts, sums over fewer layers."""
        found = []
        for one in terms:
            if one in self.loops:
                continue
            rate = self.rates.get(one.target)
            if rate is None:
                found.append(one)
            elif one.rule:
                form, = rate.forms
                share = Fraction(1) if one.rule == "layers" else Fraction(1, 2)
                found.append(replace(one, weight=one.weight - form * share))
        return found

    def short(self, cell: Cell, terms: Sequence[Contribution]) -> frozenset[Quantity]:
        """The quantities that sum over the last layers alone: what forgets, and sums over base kets that it forgets."""
        forgotten = {*self.rates, *(quantity for quantity, _ in cell.forgotten)}
        return frozenset(self.rates) | {one.target for one in terms
                                        if one.rule == "base layers" and forgotten.intersection(one.factors)}


def _sign(one: Contribution) -> int:
    """The sign of a loop's coefficient: variances are positive, other quantities of unknown sign."""
    others = [f for f in one.factors if f != one.target]
    positive = all(f.sort == Sort.COVARIANCE and f.base is not None
                   and (f.number, f.step) == (f.base.number, f.base.step) for f in others)
    return one.sign if positive else 0
