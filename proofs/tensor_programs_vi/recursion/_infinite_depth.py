"""From the recursion at finite depth to its limit, by rules.

Layers that were passed are summed, sums over layers become integrals over layer time, and what belongs to initial
vectors is written as what belongs to hat-kets is.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Mapping

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.calculus.kets import Covariance, Gamma
from tpcalc.calculus.recursion import RecursionEquation
from tpcalc.limits.functions import AnyCoefficient, Coefficient, CovarianceFunction, Indicator as Behind
from tpcalc.limits.translation import Translator
from tpcalc.orders.terms import is_carried
from tpcalc.orders.quantities import additive_terms
from tpcalc.programs.language import LossDerivative

from ..._continuum import CLimit, GammaLimit, Indicator
from ..._line import compiled, random_task, recursion, relative
from ..._rewriting import Rewriting

PASSED = sp.Symbol("k", integer=True)  # a layer that was passed


@lru_cache(maxsize=None)
def limit() -> tp.theory.LimitRegion:
    """The one region of alpha = gamma = 1/2."""
    region, = tp.depth_limit(recursion()).regions
    return region


def summed(value: sp.Expr) -> sp.Expr:
    """The right side of an equation that goes from layer to layer, as its start and a sum over layers passed."""
    equation = next(e for e in recursion().equations if e.value == value)
    carried = [term for term in additive_terms(value) if is_carried(equation, term)]
    if not carried:
        return value
    loop, (before,) = equation.location.loops[-1], carried
    passed = (PASSED, loop.index, loop.first) if loop.descending else (PASSED, loop.first, loop.index)
    return before.subs(loop.index, loop.first) + sp.Sum((value - before).subs(loop.index, PASSED), passed)


def in_layer_time(value: sp.Expr) -> sp.Expr:
    """The limit of an equation's right side, from the terms whose power of L is that of the left side."""
    equation = next(e for e in recursion().equations if value in (e.value, summed(e.value)))
    if not all(term.order.is_negative for term in limit().dropped):
        raise ValueError("a term is dropped that does not vanish with depth")
    return limit_of(equation)


def limit_of(equation: RecursionEquation) -> sp.Expr:
    """The right side in the limit of an equation of the recursion."""
    target = Translator(recursion(), frozenset()).target(equation)
    return next(e.value for e in limit().equations if e.target == target)


def with_starts(value: sp.Expr) -> sp.Expr:
    """Coefficients at an end of the network, by the equation there: they are of initial vectors alone."""
    starts = {e.target: e.value for e in limit().equations if e.boundary}

    def start(coefficient: Coefficient) -> sp.Expr:
        only = sp.KroneckerDelta(-1, coefficient.step)
        if not starts[coefficient].has(only):
            raise ValueError(f"{coefficient}: its start is not of initial vectors alone")
        return only * coefficient.func(*coefficient.args[:3], -1, *coefficient.args[4:])

    return value.xreplace({c: start(c) for c in value.atoms(Coefficient) if c in starts})


def in_letters(value: sp.Expr) -> sp.Expr:
    """Gamma, C and indicators as they are printed; coefficients over initial vectors are constant in q."""
    names: dict[sp.Basic, sp.Basic] = {}
    for one in value.atoms(AnyCoefficient):
        side, base, step, source, p, q, where, _ = one.args
        if where != 0 and source == step:
            raise ValueError(f"{one}: of its own step, which jumps where it is born")
        names[one] = GammaLimit(step, source, side, base, p, p if source == -1 else q)
    for one in value.atoms(CovarianceFunction):
        base, _, step, other, p, _ = one.args
        names[one] = CLimit(step, other, base, p)
    return sp.Add(*(_with_indicators(term) for term in sp.Add.make_args(value))).xreplace(names)


def _with_indicators(term: sp.Expr) -> sp.Expr:
    """Kronecker's deltas of a term that is born at a layer, or at an end, as conditions."""
    factors = sp.Mul.make_args(term)
    deltas = [f for f in factors if isinstance(f, sp.KroneckerDelta)]
    behind = [f for f in factors if isinstance(f, Behind)]
    if not deltas or term.has(sp.Integral) or not (behind or term.has(Coefficient)):
        return term
    pairs = [sorted(delta.args, key=lambda e: (e.is_number, str(e) == "r")) for delta in deltas]
    where = [sp.Ge(*one.args[:2]) if one.sign > 0 else sp.Le(*one.args[:2]) for one in behind]
    rest = [f for f in factors if f not in deltas and f not in behind]
    conditions = sorted((sp.Eq(*pair) for pair in pairs), key=lambda e: bool(e.rhs.is_number))
    return sp.Mul(Indicator(*conditions, *where), *rest)


def together(value: sp.Expr) -> sp.Expr:
    """The sum over initial vectors and that over hat-kets as one over base kets, initial ones being those of step -1:
    orthonormal, and independent of hats."""
    parts = {type(part): part for part in sp.Add.make_args(value)}
    if set(parts) != {sp.Sum, sp.Integral}:
        return value
    ends, hats = parts[sp.Sum], parts[sp.Integral]
    inner, place = hats.function, hats.limits[0][0]
    numbers, *steps = inner.limits
    first = {step: sp.Integer(-1) for step, *_ in steps}
    initial = inner.function.xreplace(first)
    ones = {c: sp.Integer(1) for c in initial.atoms(CLimit)}
    at_p = {g: GammaLimit(*g.args[:5], g.args[4]) for g in initial.atoms(GammaLimit)}
    if ends != sp.Sum(initial.xreplace({**ones, **at_p}), numbers) or any(low != 0 for _, low, _ in steps):
        raise ValueError(f"{ends}: not what step -1 of {hats} is")
    every = sp.Sum(inner.function, numbers, *((step, -1, high) for step, _, high in steps))
    return sp.Integral(every, (place, *hats.limits[0][1:]))


SOURCE = "Tensor Programs VI, propositions C.4 and D.2"
LAYERS = Rewriting("layers passed", "what each layer adds, summed from the end where a sweep starts", SOURCE, summed)
TIMES = Rewriting("layer time", "sums over layers, each divided by $L$, become integrals; the layer of a base ket "
                  "itself is $1/L$ of them and vanishes", "counted orders [tensor_programs_vi/recursion_h3]",
                  in_layer_time)
STARTS = Rewriting("starts", "at the end where a sweep starts, coefficients are of initial vectors", SOURCE,
                   with_starts)
LETTERS = Rewriting("names", "coefficients over kets of earlier steps do not jump at $p = q$; those over initial "
                    "vectors have no $q$", SOURCE, in_letters)
TOGETHER = Rewriting("base kets together", "initial vectors are base kets of step $-1$: $C_{-1,-1} = 1$, "
                     "$C_{-1,s} = 0$", SOURCE, together)


INITIAL = Rewriting("initial vectors", "$r = -1$", SOURCE,
                    lambda value: value.xreplace({s: sp.Integer(-1) for s in value.free_symbols if s.name == "r"}))
LOSS = Rewriting("loss", "$\\chi$ is the derivative of the loss", "Tensor Programs VI, Program 1",
                 lambda value: value.xreplace({e.target: e.value for e in recursion().equations
                                               if e.value.has(LossDerivative)}))


def layer_by_layer(rng: np.random.Generator, layers: int = 4, steps: int = 3) -> float:
    """How far sums over layers passed are from coefficients of a network that was trained at a finite depth."""
    task, worst = random_task(rng, steps), 0.0
    trained = compiled()(layers, task.inputs.ravel(), task.targets.ravel())
    for equation in (e for e in recursion().equations if summed(e.value) != e.value):
        l, m = equation.location.loops[-1].index, equation.target.args[5][0]
        for _ in range(6):
            step, base, layer, born = (int(rng.integers(low, high)) for low, high in (
                (1, steps), (0, 2), (1, layers + 1), (1, layers + 1)))
            source = int(rng.integers(-1, step + 1))
            numbers = {"t": step, "r": source, "b": base, "L": layers, l.name: layer, m.name: born}
            sides = [_number(one, numbers, trained.arrays) for one in (equation.target, summed(equation.value))]
            worst = max(worst, relative(*sides))
    return worst


def _number(value: sp.Expr, numbers: dict[str, int], arrays: Mapping[str, np.ndarray]) -> float:
    """A value at finite depth, from the arrays of a compiled recursion."""
    whole = value.subs({s: numbers[s.name] for s in value.free_symbols if s.name in numbers}).doit()
    known: dict[sp.Basic, float] = {}
    for one in whole.atoms(Gamma):
        a, b, (t,), (r,), (l,), base = one.args
        known[one] = float(arrays[f"Gamma{a}"][t, l, r + 1, b, base[0] if r >= 0 else 0])
    for one in whole.atoms(Covariance):
        b, c, (t,), (s,), (l,), _ = one.args
        known[one] = float(arrays[f"C{b}_{c}"][t, s, l])
    return float(whole.xreplace(known))
