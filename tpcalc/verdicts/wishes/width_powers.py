"""Wishes in width: sizes of a perceptron as maxima of affine forms in powers of n, and the settings that these are."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Iterable, Mapping, Sequence

import sympy as sp

from ...asymptotics.cells import FAR
from ...errors import NotCovered
from ...orders import Affine
from ...orders.polytope import Point, Polytope
from ...scaling import WidthScaling
from ...optimizers import SGD, SOAP, Muon, NormalizedSGD, Shampoo
from ...optimizers.faithful import acts_on_entries, degree
from ...optimizers.updates import Optimizer, finite_batches
from ...width.layers import LayerPowers, Perceptron, SizedProduct, layer_powers
from .settings import INIT, LR, MULTIPLIER, EpsRegime, Key, PowerSettings
from .sizes import CHANGES, GROWTH, Form, Forms, PowerSizes, Reason, effect_of, update_of

SAMPLE = "one sample at every step, whose gradients are of rank one, stands for batches that stay as n grows"
STABLE = "training is counted where hidden layers start at order one and it is stable, which is always wished for"
HALF = Fraction(1, 2)


@dataclass(frozen=True)
class ProductForm(Form):
    """product: what has the size, in words."""

    product: str

    @property
    def reason(self) -> Reason:
        return Reason(sp.Symbol(self.product), self.name)


class WidthSizes(PowerSizes):
    """The sizes of a perceptron's training, at points (power of 1/n of initial entries and of the rate, by matrix)."""

    grows, required = "n", ("stable", "faithful")
    net: Perceptron

    def __init__(self, net: Perceptron, opt: Optimizer) -> None:
        self.net, self.trained = net, net.trained
        self.symbols = [sp.Symbol(f"{kind}_{name}", real=True) for name in net.trained for kind in (INIT, LR)]
        self.acted = tuple(f"h{number} at initialization" for number in range(1, len(net.trained)))
        self.base = tuple(Fraction(6) + Fraction(i, 7) for i in range(self.size))
        self.far = Polytope.simplex([-FAR] * self.size, FAR * self.size)
        self._by_norm = isinstance(opt, (Muon, NormalizedSGD, Shampoo, SOAP))
        if not self._by_norm and not acts_on_entries(opt):
            raise NotCovered(f"opt: got {opt!r}, whose direction is one of whole matrices; powers of n are solved for "
                             "where it is one of entries, and by tp.Muon, tp.NormalizedSGD, tp.Shampoo and tp.SOAP")
        self._degree = 0 if self._by_norm else Fraction(str(degree(opt)))

    def _direction(self, entry: Affine, size: Fraction) -> Affine:
        """An entry of the optimizer's direction; that of a matrix of rank one over its norm has no other size."""
        return entry * self._degree - Affine.number(size * HALF * self._by_norm, self.size)

    def asked(self, names: Iterable[str], point: Point, inner: Point | None = None) -> Forms:
        def largest(some: Iterable[SizedProduct]) -> SizedProduct:
            return max(some, key=lambda one: (one.power.at(point), one.power.at(inner or point), one.power))

        minus = [Affine(tuple(Fraction(-(i == j)) for j in range(self.size)), Fraction(0)) for i in range(self.size)]

        @lru_cache(maxsize=None)
        def counted(alone: int | None) -> LayerPowers:
            return layer_powers(self.net, minus[::2], minus[1::2], self._direction, largest, alone)

        found: Forms = {}
        for name in names:
            sizes = self._named(name, counted)
            found[name] = [ProductForm(name, one.power, False, one.product)
                           for one in ([largest(sizes)] if sizes else [])]
        return found

    def _named(self, name: str, counted) -> list[SizedProduct]:  # type: ignore[no-untyped-def]
        together = counted(None)
        for number, matrix in enumerate(self.trained):
            alone = {update_of(matrix): lambda one: one.own[number], effect_of(matrix): lambda one: one.changes[-1]}
            if name in alone:
                size = alone[name](counted(number))
                return [] if size is None else [size]
        *inner, output = together.starts
        *moved, last = together.changes
        sizes = {"x at initialization": inner, "h at initialization": inner, "f at initialization": [output],
                 **{f"h{number} at initialization": [one] for number, one in enumerate(inner, 1)},
                 **dict.fromkeys(GROWTH, []), **dict.fromkeys(CHANGES, moved), "change of f": [last]}
        return [one for one in sizes[name] if one is not None]


class WidthSettings(PowerSettings):
    """What initial sizes, learning rates and weight decays are set to, as powers of n."""

    sizes: WidthSizes

    def __init__(self, sizes: WidthSizes, opt: Optimizer, fixed: Mapping[Key, object] | None) -> None:
        if opt.weight_decay:
            raise NotCovered(f"opt: got {opt!r} for a perceptron; powers of n of a weight decay are not solved for; "
                             "expected weight_decay=0")
        self.names = {**dict.fromkeys((INIT, LR), sizes.trained), MULTIPLIER: sizes.trained}
        super().__init__(sizes, opt, fixed)
        powers = {(name, kind): self.affine(-symbol) for symbol, (name, kind) in zip(
            sizes.symbols, ((name, kind) for name in sizes.trained for kind in (INIT, LR)))}
        self.regimes = (EpsRegime(powers, tuple(self.as_fixed(powers, (INIT, LR)))),)

    @property
    def unset(self) -> Mapping[str, str]:
        return {MULTIPLIER: "a number in front of a matrix is one of its initial size and of its learning rate; "
                "expected 0, and these"}

    def in_settings(self, form: Affine, regime: EpsRegime) -> sp.Expr:
        keys = (key for name in self.sizes.trained for key in ((name, INIT), (name, LR)))
        values = {s: -self.fixed.get(key, self.symbol(key)) for s, key in zip(self.sizes.symbols, keys)}
        return sp.expand(form.expression(self.sizes.symbols).subs(values, simultaneous=True))

    def written(self, form: Affine) -> tuple[Affine, Sequence[sp.Symbol]]:
        symbols = tuple(self.free.values())
        return Affine.of(self.in_settings(form, self.regimes[0]), symbols), symbols

    def recipe(self, point: Sequence[Fraction]) -> WidthScaling | None:
        """For gradient descent, of whose rates a width scaling is, where all layers are as wide."""
        if not isinstance(self.opt, SGD) or set(self.sizes.net.widths) != {1}:
            return None
        inits, rates = ([-sp.Rational(x) for x in point[k::2]] for k in (0, 1))
        fans = self.sizes.net.powers
        return WidthScaling([-2 * init - fan for init, fan in zip(inits, fans)],
                            [-rate - fan for rate, fan in zip(rates, fans)], 0).canonical()

    @property
    def assumed(self) -> list[str]:
        eps = bool(getattr(self.opt, "eps", 0))
        return [SAMPLE, *finite_batches(self.opt), STABLE, *["eps is taken to be negligible beside gradients"] * eps]
