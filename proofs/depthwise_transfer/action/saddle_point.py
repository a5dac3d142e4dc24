"""The saddle of the action: where its slopes in the order parameters vanish, those are means over sites."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import sympy as sp

from tpcalc.calculus import Derivation
from tpcalc.ledger import Entry, Equations, Erratum, Evidence, MeasuredNumber, Proof, Slip
from tpcalc.ledger.entry import line

from ..._letters import Letters
from ..._rewriting import Rewriting, of_nodes
from .._fields import Average, Slope, mean_of
from ..responses._linear_sources import off
from ._action import (ACTION, HAMILTONIAN, SADDLE, A, B, G, Gh, Phi, Phih, Sites, Z, ell, location, s, t)
from .path_integral import DEPTH, TASK, saddle_witness, slopes, solved, untrained

# each order parameter: the one whose slope of the action has it, and its sign there
CONJUGATES = ((Phi(t, s, ell), Phih(t, s, ell), 1), (G(t, s, ell + 1), Gh(t, s, ell + 1), 1),
              (A(t, s, ell), B(s, t, ell), -1), (B(t, s, ell), A(s, t, ell), -1),
              (Phih(t, s, ell), Phi(t, s, ell), 1), (Gh(t, s, ell + 1), G(t, s, ell + 1), 1))


def _member(expression: sp.Expr, by: sp.Expr) -> sp.Expr:
    """The derivative in one member of a family that sums are over: the terms that have it."""
    found = sp.Integer(0)
    for term in sp.Add.make_args(sp.expand(expression)):
        number, total = term.as_independent(sp.Sum, as_Add=False)
        if not isinstance(total, sp.Sum):
            found += Slope(term, by)
            continue
        for own in total.function.atoms(type(by)):
            letter = sp.Dummy()
            coefficient = total.function.xreplace({own: letter}).diff(letter)
            found += number * coefficient.xreplace(dict(zip(own.args[:2], by.args[:2])))
    return found


def _differentiated(slope: Slope) -> sp.Expr:
    return _member(*slope.args) if slope.args[0].has(sp.Sum) else slope


def _of_sites(slope: Slope) -> sp.Expr:
    return -mean_of(Slope(HAMILTONIAN.value, slope.args[1])) if slope.args[0] == sp.log(Z) else slope


DIFFERENTIATE = Rewriting("differentiate", "each order parameter stands once in the sums", "calculus",
                          of_nodes(Slope, _differentiated))
OF_SITES = Rewriting("means over sites", "$Z$ is the integral of $e^{-H}$", "definition", of_nodes(Slope, _of_sites))


def _number_out(average: Average) -> sp.Expr:
    number, rest = average.args[0].as_coeff_Mul()
    turned = sp.I if rest.has(sp.I) else sp.Integer(1)
    return number * turned * mean_of(rest / turned)


NUMBER_OUT = Rewriting("linearity", "of the mean", "algebra", of_nodes(Average, _number_out))


@lru_cache(maxsize=None)
def derivation() -> Derivation:
    steps = Derivation()
    for parameter, conjugate, sign in CONJUGATES:
        flat = parameter - sign * Slope(ACTION.value, conjugate)   # the slope is zero at the saddle
        steps.through((DIFFERENTIATE, OF_SITES, DIFFERENTIATE, NUMBER_OUT), parameter, flat)
    return steps


def moved(sites: Sites, one: sp.Expr, change: complex) -> Sites:
    """With one order parameter moved."""
    reading = sites.reading.at(LOCATION)
    name, (first, second, node) = type(one).__name__, map(reading.of, one.args)
    values = sites.parameters[name].copy()
    values[location(name, node), first, second] += change
    return replace(sites, parameters={**sites.parameters, name: values})


LOCATION = {t: 1, s: 0, ell: 1}


def by_contour(sites: Sites, one: sp.Expr, of: str, points: int = 16, radius: float = 0.05) -> complex:
    """The derivative of the action or of ln Z in an order parameter: the mean over a circle around it."""
    around = radius * np.exp(2j * np.pi * np.arange(points) / points)
    return complex(np.mean([getattr(moved(sites, one, change), of) / change for change in around]))


def mean_slope(sites: Sites, one: sp.Expr) -> complex:
    """<dH/d(order parameter)>: H is quadratic in the variables, and its coefficients linear in the parameter."""
    (M, J), (more, other) = sites.form, moved(sites, one, 1.0).form
    first = np.linalg.solve(M, J)
    return complex(np.sum((more - M) * sites.moments) / 2 - (other - J) @ first)


def value(expression: sp.Expr, sites: Sites, conjugate: sp.Expr) -> complex:
    """The number of an expression with slopes, which are found without the rules."""
    known = {Slope(ACTION.value, conjugate): lambda: by_contour(sites, conjugate, "action"),
             Slope(sp.log(Z), conjugate): lambda: by_contour(sites, conjugate, "log_z"),
             mean_of(Slope(HAMILTONIAN.value, conjugate)): lambda: mean_slope(sites, conjugate)}
    letters = {one: sp.Dummy() for one in known if expression.has(one)}
    reading = Letters(sites.reading.fields, {**sites.reading.symbols, **LOCATION, **{
        letter: known[one]() for one, letter in letters.items()}}, sites.mean)
    return complex(reading.of(expression.xreplace(letters)))


def derive() -> Proof:
    def numbers(rng: np.random.Generator) -> float:
        sites, found = untrained(rng), 0.0
        conjugates = {parameter: conjugate for parameter, conjugate, _ in CONJUGATES}
        for step in derivation().steps:
            found = max(found, off(*(value(one, sites, conjugates[step.left]) for one in (step.before, step.after))))
        return found
    return Proof(derivation().steps, numbers, "both sides of every step at random order parameters and sources of "
                 "linear sites: slopes of the action by contour integrals, means exactly")


def evidence() -> Evidence:
    kernels = [float(np.max(np.abs(solved().residual(equation)))) for equation in SADDLE]
    where = f"linear, L = {DEPTH}, {TASK.steps} steps"
    return Evidence((
        MeasuredNumber(f"(33), left less right at the solver's kernels and responses, {where}", max(kernels), 1e-10,
                       0.0),
        MeasuredNumber("slopes of (30) less (33) at random order parameters and sources", slopes(), 1e-8, 0.0)))


ENTRY = Entry(
    key="depthwise_transfer/saddle_point",
    kind="proposition",
    title="the saddle of the action",
    source="Depthwise Hyperparameter Transfer, (33)",
    says="At the saddle slopes of $S$ vanish, so that every order parameter is itself less a slope. Kernels are means "
         "over sites; $\\hat\\Phi$, $\\hat G$ are given for a network that has learnt nothing, and vanish without "
         "sources.",
    statement=lambda: Equations(SADDLE),
    assumptions=("width to infinity at fixed depth",),
    uses=("depthwise_transfer/path_integral",),
    derive=derive,
    evidence=evidence,
    errata=(
        Erratum(Slip.FALSE, "(33): sign and layer of the conjugate kernels, which zero sources hide",
                r"\hat\Phi^\ell_{ts} &= -\tfrac{1}{2} \langle \hat\chi^\ell_t \hat\chi^\ell_s \rangle",
                lambda: line(SADDLE[4].target, SADDLE[4].value), saddle_witness),),
)
