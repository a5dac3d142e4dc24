"""Powers of L in a derived recursion, at one point of the (alpha, gamma) plane.

Every term of the recursion is a product of powers of L and of quantities. Rules:
  product      exponents add;
  sum          the largest exponent wins (no cancellation assumed);
  layers       a term that enters at every layer adds up coherently, + 1; one that is born at a single layer
               (it carries the delta of l and m) does not; a sum over m written in the equation adds 1;
  sweep        what enters its own equation with weight v is a self-loop of the sweep over layers: v <= 0 is a
               bounded factor, v > 0 grows like exp(L^v).
Exponents are exact rationals; quantities that vanish have exponent -oo, those that explode +oo.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product as ranges
from typing import Iterator

import sympy as sp

from ..calculus.coefficients import B, R, Bases
from ..calculus.kets import Covariance, Gamma
from ..calculus.recursion import Equation, RecursionEquations
from ..programs.language import LossDerivative, Scal

Key = tuple  # (head, numbers): a quantity without its layers


@dataclass(frozen=True)
class Contribution:
    """One term of an equation for ``target``: L^weight times ``factors``; coherent: it enters at every layer;
    update: it is there because of earlier training steps."""

    target: Key
    weight: sp.Expr
    factors: tuple[Key, ...]
    coherent: bool
    update: bool


@dataclass(frozen=True)
class Orders:
    """Exponents of L of every Gamma, C and scalar of the first training steps.

    exponents: by quantity; explosion: the weight v of the first self-loop exp(L^v) met, or None, and ``culprit``,
    the quantity that explodes.
    """

    exponents: dict[Key, sp.Expr]
    contributions: tuple[Contribution, ...]
    explosion: sp.Expr | None
    culprit: Key | None

    def of(self, *key: object) -> sp.Expr:
        """The exponent of a quantity, -oo where it vanishes."""
        return self.exponents.get(_key(*key), -sp.oo)

    def weight(self, one: Contribution) -> sp.Expr:
        """The exponent of a term."""
        return one.weight + sum((self.exponents.get(f, -sp.oo) for f in one.factors), sp.Integer(0))


def _key(*parts: object) -> Key:
    return tuple(sp.sympify(p) if not isinstance(p, str) else p for p in parts)


def orders(recursion: RecursionEquations, point: dict[sp.Symbol, sp.Expr], steps: int = 2) -> Orders:
    """The exponents of L of all quantities of the first ``steps`` training steps, at rational (alpha, gamma).

    point: values of the recursion's symbols. Data, targets and learning rates have exponent 0.
    """
    setting = recursion.setting
    L = setting.depth
    if L is None:
        raise ValueError(f"program {setting.program.name} has no layers, so that nothing depends on the depth")
    found = tuple(one for t in range(steps) for equation in recursion.equations
                  for one in _contributions(recursion, equation, t, point, L))
    exponents: dict[Key, sp.Expr] = {}
    known = {one.target for one in found}
    explosion, culprit = None, None
    for _ in range(len(known) + 1):
        changed = False
        for one in found:
            if one.target in one.factors and _loop(one, exponents) <= 0:
                continue  # a self-loop that stays bounded
            value = one.weight + sum((exponents.get(f, -sp.oo) for f in one.factors), sp.Integer(0))
            if one.target in one.factors and exponents.get(one.target, -sp.oo) != -sp.oo:
                explosion, culprit = _loop(one, exponents), one.target
                break
            if value > exponents.get(one.target, -sp.oo):
                exponents[one.target] = value
                changed = True
        if explosion is not None or not changed:
            break
    else:
        raise ValueError("the exponents do not settle: a cycle of positive weight that is not a self-loop")
    return Orders(exponents, found, explosion, culprit)


def _loop(one: Contribution, exponents: dict[Key, sp.Expr]) -> sp.Expr:
    """The weight of a self-loop: the term's exponent less that of its target."""
    others = list(one.factors)
    others.remove(one.target)
    return one.weight + sum((exponents.get(f, -sp.oo) for f in others), sp.Integer(0))


def _contributions(recursion: RecursionEquations, equation: Equation, t: int, point: dict[sp.Symbol, sp.Expr],
                   L: sp.Symbol) -> Iterator[Contribution]:
    """The terms of one equation at step t, with numbers for steps and families."""
    setting = recursion.setting
    now = {setting.time: sp.Integer(t)}
    computed = {e.target.name for e in recursion.equations if e.kind == "scalar"}
    if equation.kind == "C":
        instances = [{**now, setting.past: sp.Integer(s)} for s in range(t + 1)]
    elif equation.kind == "Gamma":
        instances = [{**now, R: sp.Integer(-1), B: sp.Integer(b)} for b in range(len(setting.program.vectors))]
        instances += [{**now, R: sp.Integer(r), B: sp.Integer(b)} for r in range(t + 1)
                      for b in range(len(setting.products))]
    else:
        instances = [now]
    for numbers in instances:
        target = _key_of(equation.target.xreplace(numbers))
        past = setting.past if equation.kind != "C" else None
        for term, extra, update in _terms(equation.value, numbers, past, Bases(setting)):
            yield from _contribution(equation, target, term, extra, update, point, L, computed)


def _terms(value: sp.Expr, numbers: dict, past: sp.Symbol | None, bases: Bases) -> Iterator[tuple[sp.Expr, int, bool]]:
    """Additive terms with sums over steps and families written out: (term, 1 for a sum over layers, update)."""
    for term in sp.Add.make_args(sp.expand(value)):
        sums = [f for f in sp.Mul.make_args(term) if isinstance(f, sp.Sum)]
        if not sums:
            yield term.xreplace(numbers), 0, False
            continue
        total, = sums
        front = sp.Mul(*(f for f in sp.Mul.make_args(term) if f is not total)).xreplace(numbers)
        deep = {*bases.generic().args[2], *bases.generic("'").args[2]}
        finite = [(v, lo.xreplace(numbers), hi.xreplace(numbers)) for v, lo, hi in total.limits if v not in deep]
        layers = len(total.limits) - len(finite)
        if not all(lo.is_Integer and hi.is_Integer for _, lo, hi in finite):
            raise ValueError(f"{total}: a sum whose range is not that of steps, families or layers")
        for values in ranges(*(range(int(lo), int(hi) + 1) for _, lo, hi in finite)):
            inner = {v: sp.Integer(i) for (v, _, _), i in zip(finite, values)}
            # bound variables shadow the free ones of the same name
            body = total.function.xreplace(inner).xreplace({k: v for k, v in numbers.items() if k not in inner})
            for part in sp.Add.make_args(sp.expand(body)):
                yield front * part, layers, past is not None and any(v == past for v, _, _ in finite)


def _contribution(equation: Equation, target: Key, term: sp.Expr, layers: int, update: bool,
                  point: dict[sp.Symbol, sp.Expr], L: sp.Symbol, computed: set[str]) -> Iterator[Contribution]:
    if term == 0:
        return
    weight, factors, born = sp.Integer(layers), [], False
    for factor in sp.Mul.make_args(term):
        base, power = factor.as_base_exp()
        if base == L:
            weight += power.xreplace(point)
        elif isinstance(base, (Gamma, Covariance)):
            factors += [_key_of(base)] * int(power)
        elif isinstance(factor, sp.KroneckerDelta):
            if all(i.is_number for i in factor.args):
                raise AssertionError("a delta of numbers evaluates")
            born = True
        elif isinstance(factor, Scal) and factor.name in computed:
            factors.append(_key_of(factor))
        elif isinstance(factor, LossDerivative):
            # the derivative of a loss in an output of order one is of order one, beyond that of the output's order
            yield Contribution(target, sp.Integer(0), (_key_of(factor.args[0]),), False, update)
        elif not (factor.is_number or isinstance(factor, Scal) or factor.free_symbols <= set(point)):
            raise ValueError(f"{factor} in {equation.target}: no rule for its order in L")
    itself = target in factors and len(factors) == 1 and weight == 0
    if itself:
        return  # y(l) = y(l - 1) + ...: the sweep itself
    sweeps = equation.kind == "Gamma" and bool(equation.place.loops[1:]) and not born
    yield Contribution(target, weight + int(sweeps), tuple(factors), sweeps, update)


def _key_of(quantity: sp.Expr) -> Key:
    if isinstance(quantity, Gamma):
        a, b, t, r = quantity.args[:4]
        return ("Gamma", t[0], r[0], a, b)
    if isinstance(quantity, Covariance):
        b, c, t, s = quantity.args[:4]
        return ("C", max(t[0], s[0]), min(t[0], s[0]), b) + ((c,) if b != c else ())
    return (quantity.name, *quantity.indices)
