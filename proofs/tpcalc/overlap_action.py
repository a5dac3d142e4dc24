"""A layer of a linear network in the action of overlaps, and what it makes of them under a tilt."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

from tpcalc.calculus import Derivation
from tpcalc.action.action import (FIELD_LATEX, ChainRule, Field, Inner, Kernel, MultiplyOut, OverlapCoefficient,
                                  ReadCoefficient, a, action, at, b, delta, dt, x, xt)
from tpcalc.ledger import Entry, Equation, Equations, Proof
from tpcalc.finite_width.tilted import layer_density

from .._line import relative
from .._rewriting import Rewriting, of_nodes

SITES = (a, b)
NOISE, DRIFT = "nu", "w"


def _of_one_matrix(kernel: Kernel) -> sp.Expr:
    """kappa_ab = nu_ab x_a . x_b and theta_ab = x_a . x_b, or a slope of it."""
    name, i, j, k, overlap = kernel.args[:5]
    one, two = (overlap.args[0].args[1], overlap.args[1].args[1])
    factor = at(NOISE, *sorted((one, two), key=str)) if str(name) == "kappa" else sp.Integer(1)
    return factor * (overlap if (i, j, k) == (0, 0, 0) else sp.Integer(int((i, j, k) == (1, 0, 0))))


LINEAR_KERNELS = Rewriting("linear block", "a matrix adds to outputs, and to gradients, what its inputs overlap by",
                           "tpcalc [tpcalc/action_principle]",
                           lambda expression: sp.expand(of_nodes(Kernel, _of_one_matrix)(expression)))


def psi(one: sp.Symbol, two: sp.Symbol) -> sp.Symbol:
    return at("Psi", one, two)


def fields(behind: bool) -> tuple[sp.Symbol, sp.Symbol]:
    """A signal's field and its partner's: those behind a layer, or those before it."""
    return (xt, delta) if behind else (x, dt)


def entry_name(letter: str, one: sp.Symbol, two: sp.Symbol, sites: str) -> sp.Symbol:
    return sp.Symbol(rf"\{letter}^{{{FIELD_LATEX[one]} {FIELD_LATEX[two]}}}_{{{sites}}}", real=True)


def entries() -> list[tuple[sp.Symbol, sp.Expr, int]]:
    """What a layer adds: its name, the overlap of which it is the coefficient, 2 for squares."""
    found = []
    for letter, behind in (("Theta", True), ("Omega", False)):
        for one in fields(behind):
            for two in fields(behind):
                found.append((entry_name(letter, one, two, "ab"), Inner(Field(one, a), Field(two, b)), 1))
            found.append((entry_name(letter, one, one, "aa"), Inner(Field(one, a), Field(one, a)), 2))
    return found


@lru_cache(maxsize=None)
def derivation() -> tuple[Derivation, tuple[Equation, ...]]:
    steps, psis, found = Derivation(), dict[sp.Symbol, sp.Expr](), []
    for second in (b, a):
        value = action(a, second, ("",)).replace(at("w^", a, b), at(DRIFT, a, b))
        psis[second] = value = steps.through((MultiplyOut(), ChainRule(), LINEAR_KERNELS), psi(a, second), value)
        found.append(Equation(psi(a, second), value, "b < a" if second == b else ""))
    for target, overlap, double in entries():
        whole = psis[b if double == 1 else a]
        value = steps.apply(ReadCoefficient(), target, OverlapCoefficient(whole, overlap, sp.Integer(double)))
        found.append(Equation(target, value, "b < a" if double == 1 else ""))
    return steps, tuple(found)


def statement() -> Equations:
    return Equations(derivation()[1])


def numbers(rng: np.random.Generator) -> float:
    """The kernel's density against the derived coefficients, at random overlaps of two sites."""
    symmetric = [m + m.T for m in rng.normal(size=(2, 4, 4))]
    noise, drift = rng.uniform(0.5, 1, (2, 2)), np.array([[0.0, 0.0], [rng.normal(), 0.0]])
    noise += noise.T
    number = {b: 0, a: 1}
    known: dict[sp.Expr, float] = {at(DRIFT, a, b): drift[1, 0], at(NOISE, a, b): noise[1, 0],
                                   at(NOISE, a, a): noise[1, 1]}
    for overlaps, behind in zip(symmetric, (False, True)):
        for p, one in enumerate(fields(behind)):
            for q, two in enumerate(fields(behind)):
                for i in SITES:
                    for j in SITES:
                        known[Inner(Field(one, i), Field(two, j))] = overlaps[2 * p + number[i], 2 * q + number[j]]
    worst = 0.0
    for overlaps, behind in zip(symmetric, (True, False)):
        made = layer_density(overlaps, noise, drift, behind)
        worst = max(worst, relative(made, made.T))
        for target, overlap, _ in entries():
            (one, i), (two, j) = (field.args for field in overlap.args)
            if {one, two} <= set(fields(behind)):
                locations = [2 * fields(behind).index(f) + number[s] for f, s in ((one, i), (two, j))]
                value = next(e.value for e in derivation()[1] if e.target == target).xreplace(known)
                worst = max(worst, relative(made[tuple(locations)], float(value)))
    return worst


def derive() -> Proof:
    return Proof(derivation()[0].steps, numbers, "what the solver's kernel makes of random overlaps of two sites, "
                 "not at the saddle, in both directions")


ENTRY = Entry(
    key="tpcalc/overlap_action",
    kind="proposition",
    title="a linear layer in the action of overlaps",
    source="tpcalc (new)",
    says="Averaged over its initial matrix, a linear layer $x^l = x^{l-1} + \\varepsilon W_t x^{l-1}$, $W_t = \\rho_t "
         "W_0 - g \\sum_s w_{ts} \\delta_s \\otimes x_s / n$ multiplies the law of all fields by $e^{n \\Psi}$, "
         "$\\Psi$ a sum over pairs of sites of products of overlaps, $\\nu_{ab} = \\varepsilon^2 \\rho_a \\rho_b$ and "
         "$w_{ab}$ short for $\\varepsilon g w_{ab}$: the action of a block, exact at every depth because a linear "
         "layer is Gaussian. Linearized, it is a Gaussian weight: $\\Theta$ on the fields $(\\tilde{x}, \\delta)$ "
         "behind the layer, whose entries are coefficients of their overlaps, and $\\Omega$ on $(x, "
         "\\tilde{\\delta})$ before it. Overlaps that vanish at the saddle are kept: they fluctuate, and a tilt moves "
         "them.",
    statement=statement,
    uses=("tpcalc/action_principle",),
    derive=derive,
)
