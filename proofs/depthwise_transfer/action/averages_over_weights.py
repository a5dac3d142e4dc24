"""Averages of phases: over one block's initial weights, and over Gaussian sources that have the same covariances."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

from tpcalc._types import Value
from tpcalc.calculus import Derivation
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Proof, Slip, Witness
from tpcalc.ledger.entry import line

from ..._letters import Letters
from ..._rewriting import Rewriting, of_nodes
from .._fields import Average, fields, mean_of
from ..networks._network_numbers import PRODUCTS
from ..networks._network_rules import KERNELS, LINEAR, OUT_OF_SUMS, TWO_OUTER, Dot, Outer, W, is_array, width
from ..responses._linear_sources import off
from ._action import SADDLE, STEPS, A, G, Phi, T, chih, ell, g, phi, s, t, xih

u, r = fields("u r")
NEURONS = 3

_features, _gradients, _both = (mean_of(one) for one in (
    chih(t, ell + 1) * chih(s, ell + 1), xih(t, ell) * xih(s, ell), chih(t, ell + 1) * g(s, ell + 1)))
WEIGHTS = Equation(sp.Symbol(r"\ln E_W"), -width * (sp.Sum(Phi(t, s, ell) * _features, *STEPS) / 2 + sp.Sum(G(
    t, s, ell + 1) * _gradients, *STEPS) / 2 + sp.I * sp.Sum(A(t, s, ell) * _both, *STEPS)))


def _over_sources(kernel: sp.Expr, conjugate: sp.Expr, source: sp.Expr) -> Equation:
    square = sp.Sum(kernel * conjugate * conjugate.subs(t, s), *STEPS)
    return Equation(mean_of(sp.exp(-sp.I * sp.Sum(conjugate * source, STEPS[1]))), sp.exp(-square / 2))


SOURCES = _over_sources(Phi(t, s, ell), chih(t, ell + 1), u(t, ell + 1))
SOURCES_BACK = _over_sources(G(t, s, ell + 1), xih(t, ell), r(t, ell))


class LogMean(sp.Expr):
    """The logarithm of the mean over the entries of W of the exponential of an expression."""

    is_commutative = True

    def _latex(self, printer: sp.printing.printer.Printer) -> str:
        return rf"\ln E_W \exp\left({printer.doprint(self.args[0])}\right)"


def _of_weights(average: LogMean) -> sp.Expr:
    number, product = average.args[0].as_independent(Dot, as_Add=False)
    weights, matrix = product.args
    if not isinstance(weights, W):
        raise ValueError(f"{product}: not linear in the weights")
    return number**2 / 2 * Dot(matrix, matrix.subs(t, s) if not isinstance(matrix, sp.Sum) else sp.Sum(
        matrix.function.subs(t, s), STEPS[0]))


def _of_sources(average: Average) -> sp.Expr:
    if not isinstance(average.args[0], sp.exp):
        return average
    number, total = average.args[0].args[0].as_independent(sp.Sum, as_Add=False)
    other = sp.Sum(total.function.subs(t, s), STEPS[0])
    return sp.exp(number**2 * mean_of(total * other) / 2)


def _each(average: Average) -> sp.Expr:
    """The mean of a product of two sums over sources, term by term."""
    if not average.args[0].has(sp.Sum):
        return average
    first, second = sp.Mul.make_args(average.args[0])
    numbers, sources = (first.function * second.function).as_independent(u, r, as_Add=False)
    return sp.Sum(numbers * mean_of(sources), *sorted((*first.limits, *second.limits), key=lambda one: str(one[0])))


def _covariance(average: Average) -> sp.Expr:
    first, second = sorted(average.args[0].args, key=lambda one: one.args[0] != t)
    if isinstance(first, u):
        return Phi(first.args[0], second.args[0], first.args[1] - 1)
    return G(first.args[0], second.args[0], first.args[1] + 1)


def _mean(product: Dot) -> sp.Expr:
    return width * mean_of(product.args[0] * product.args[1]) if all(map(is_array, product.args)) else product


def _response(product: Dot) -> sp.Expr:
    """phi . xi^ is i N A."""
    for first, second in (product.args, product.args[::-1]):
        if isinstance(first, phi) and isinstance(second, xih):
            return sp.I * width * A(first.args[0], second.args[0], first.args[1])
    return product


def _one_order(total: sp.Sum) -> sp.Expr:
    if not total.function.has(A(s, t, ell)):
        return total
    swapped = total.function.xreplace({t: s, s: t})
    return sp.Sum(swapped, *STEPS)


WEIGHTS_GAUSSIAN = Rewriting("Gaussian weights", "$\\ln E\\, e^{a W} = a^2 / 2$ for every entry", "analysis",
                             of_nodes(LogMean, _of_weights))
SOURCES_GAUSSIAN = Rewriting("Gaussian sources", "the mean of $e^X$ is $e^{\\langle X^2 \\rangle / 2}$", "analysis",
                             of_nodes(Average, _of_sources))
EACH = Rewriting("linearity", "of the mean", "algebra", of_nodes(Average, _each))
COVARIANCE = Rewriting("covariance", "that of the sources", "definition", of_nodes(Average, _covariance))
RESPONSE = Rewriting("response", "$A_{ts}$ is $-i \\phi_t \\cdot \\hat\\xi_s / N$", "definition",
                     of_nodes(Dot, _response))
MEANS = Rewriting("means", "a sum over neurons is $N$ times the mean", "definition", of_nodes(Dot, _mean))
ONE_ORDER = Rewriting("one order", "the names of two steps that are summed over", "algebra",
                      of_nodes(sp.Sum, _one_order))


@lru_cache(maxsize=None)
def derivation() -> Derivation:
    steps = Derivation()
    coupled = sp.Sum(Outer(chih(t, ell + 1), phi(t, ell)) + Outer(g(t, ell + 1), xih(t, ell)), STEPS[1])
    phase = LogMean(-sp.I / sp.sqrt(width) * Dot(W(0, ell), coupled))
    steps.through((WEIGHTS_GAUSSIAN, LINEAR, TWO_OUTER, KERNELS, RESPONSE, MEANS, OUT_OF_SUMS, ONE_ORDER),
                  WEIGHTS.target, phase)
    for one in (SOURCES, SOURCES_BACK):
        steps.through((SOURCES_GAUSSIAN, EACH, COVARIANCE), one.target, one.target)
    return steps


def by_quadrature(matrix: np.ndarray) -> complex:
    """ln E exp(-i sum of W_ij M_ij / sqrt N), entry by entry."""
    points, weights = np.polynomial.hermite_e.hermegauss(40)
    entries = matrix.ravel() / np.sqrt(len(matrix))
    return complex(np.sum(np.log([weights @ np.exp(-1j * points * one) / np.sqrt(2 * np.pi) for one in entries])))


def vectors(rng: np.random.Generator, neurons: int = NEURONS) -> dict[str, np.ndarray]:
    """Two steps: (step, neuron)."""
    return {name: 0.6 * rng.normal(size=(2, neurons)) for name in ("phi", "g", "chih", "xih", "xi")}


def letters_of_vectors(of: dict[str, np.ndarray]) -> Letters:
    """With the order parameters (25) and (26) of these vectors."""
    tables: dict[str, Value] = {**PRODUCTS, **{name: lambda step, _, name=name: of[name][step] for name in of}}
    plain = Letters(tables)
    for name, equation in zip(("Phi", "G", "A"), SADDLE):
        node = 2 if name == "G" else 1
        tables[name] = lambda a, b, _, value=equation.value, node=node: plain.at({t: a, s: b, ell: 1}).of(value)
    return Letters({**tables, "LogMean": lambda value: value}, {T: 2, width: of["phi"].shape[1], ell: 1})


def letters_of_sources(rng: np.random.Generator) -> Letters:
    """Two steps, means by quadrature; conjugate fields are numbers."""
    points, weights = np.polynomial.hermite_e.hermegauss(40)
    over, hats = np.outer(weights, weights) / (2 * np.pi), 0.6 * rng.normal(size=2)
    kernels, noise = {}, {}
    for kernel, source in (("Phi", "u"), ("G", "r")):
        root = np.tril(0.6 * rng.normal(size=(2, 2)))
        kernels[kernel] = root @ root.T
        noise[source] = np.einsum("ts,sij->tij", root, np.array(np.meshgrid(points, points, indexing="ij")))
    tables: dict[str, Value] = {
        "chih": lambda a, _: hats[a], "xih": lambda a, _: hats[a],
        **{name: lambda a, _, name=name: noise[name][a] for name in noise},
        **{name: lambda a, b, _, name=name: kernels[name][a, b] for name in kernels}}
    return Letters(tables, {T: 2, ell: 1}, lambda here, body: np.sum(over * here.of(body)))


def coupled(of: dict[str, np.ndarray]) -> np.ndarray:
    """What the weights are multiplied by."""
    return np.asarray(of["chih"].T @ of["phi"] + of["g"].T @ of["xih"])


def derive() -> Proof:
    def numbers(rng: np.random.Generator) -> float:
        of = vectors(rng)
        sites, sources, found = letters_of_vectors(of), letters_of_sources(rng), 0.0
        truth = by_quadrature(coupled(of))
        for step in derivation().steps:
            if step.left == WEIGHTS.target:
                before = truth if step.before.has(LogMean) else sites.of(step.before)
                found = max(found, off(before, sites.of(step.after)), off(truth, sites.of(step.after)))
            else:
                found = max(found, off(sources.of(step.before), sources.of(step.after)))
        return found
    return Proof(derivation().steps, numbers, f"both sides of every step, {NEURONS} neurons and two steps: means over "
                 "the entries of W and over the sources by quadrature")


def log_average(of: dict[str, np.ndarray]) -> complex:
    return complex(letters_of_vectors(of).of(WEIGHTS.value))


def weights_witness() -> Witness:
    """The insertions (23) averaged over the four entries of W by quadrature."""
    of = vectors(np.random.default_rng(3), 2)
    truth, right, printed = by_quadrature(coupled(of)), log_average(of), log_average({**of, "xih": of["xi"]})
    return Witness("the log average over W of what defines chi and xi, two neurons", float(truth.real), 1e-9,
                   float(printed.real), float(right.real))


def sources_witness() -> Witness:
    here = letters_of_sources(np.random.default_rng(3))
    left, right = (complex(here.of(one)) for one in (SOURCES.target, SOURCES.value))
    return Witness("a Gaussian weight of conjugate fields as a mean over sources, two steps", left.real, 1e-12, None,
                   right.real)


ENTRY = Entry(
    key="depthwise_transfer/averages_over_weights",
    kind="lemma",
    title="averages of phases over weights and over sources",
    source="Depthwise Hyperparameter Transfer, (24), (34) and (35)",
    says="One block, one input a step. $E_W$ is the average over the block's initial weights of the phases that define "
         "$\\chi$ and $\\xi$, with means over $N$ neurons; $A_{ts} = -\\tfrac{i}{N} \\phi_t \\cdot \\hat\\xi_s$ is "
         "(26). What stands in squares of conjugate fields is a mean over Gaussian sources.",
    statement=lambda: Equations((WEIGHTS, SOURCES, SOURCES_BACK)),
    uses=("depthwise_transfer/fields_and_kernels",),
    derive=derive,
    errata=(
        Erratum(Slip.MISPRINT, "(24): $\\xi$ for its conjugate $\\hat\\xi$ in the phase that is averaged",
                r"\ln E \exp\left(-\tfrac{i}{\sqrt N} \mathrm{Tr}\, W^\top \sum_t [\hat\chi_t \phi_t^\top + g_t "
                r"\xi_t^\top]\right) &= \ldots", lambda: line(WEIGHTS.target, WEIGHTS.value), weights_witness),
        Erratum(Slip.MISPRINT, "(27), (32), (34), (35): the second field at $t'$, which nothing integrates, for $s$",
                r"\exp\left(-\tfrac{1}{2} \sum_{ts} \hat\chi_t \hat\chi_{t'} \Phi_{ts}\right) &= \left\langle "
                r"e^{-i \sum_t \hat\chi_t u_t} \right\rangle", lambda: line(SOURCES.target, SOURCES.value),
                sources_witness),
    ),
)
