"""Response functions: what Gaussian sources of one matrix make of chi = W phi and xi = W^T g."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc._types import Value
from tpcalc.calculus import Derivation
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Proof

from ..._letters import Letters
from ..._rewriting import Rewriting, of_nodes
from .._fields import Average, Field, Slope, fields, mean_of
from ..action._action import A, B, G, HAMILTONIAN, Phi, SADDLE, STEPS, T, chi, chih, g, h, phi, xi, xih
from ..networks._network_rules import OUT_OF_SUMS, dphi, insert, r as returned, read
from ..networks.finite_network import BACKWARD, FORWARD, Delta, c, depth, ell, s, t
from ._linear_sources import L as BLOCKS, T as SOURCE_STEPS, Sources, off, random_sources

v = sp.Symbol("v", integer=True)
u, r, Ar, Br = fields("u r Ar Br")
TASK, DEPTH, SAMPLES, BATCHES = tp.Task([1.0, 0.8, -0.6], [0.9, -0.7, 0.5]), 5, 4096, 16

EARLIER, ALL_STEPS, WHENEVER = (s, 0, t - 1), (s, 0, t), (s, 0, T - 1)
CHI = Equation(chi(t, ell + 1), u(t, ell + 1) + sp.Sum(A(t, s, ell) * g(s, ell + 1), EARLIER))
XI = Equation(xi(t, ell), r(t, ell) + sp.Sum(B(t, s, ell) * phi(s, ell), ALL_STEPS))
FORWARD_RESPONSE = Equation(A(t, s, ell), mean_of(Slope(phi(t, ell), r(s, ell))))
BACKWARD_RESPONSE = Equation(B(t, s, ell), mean_of(Slope(g(t, ell + 1), u(s, ell + 1))))
OVERLAP = Equation(mean_of(chi(t, ell + 1) * g(t, ell + 1)), sp.Sum(A(t, s, ell) * G(s, t, ell + 1), EARLIER) + sp.Sum(
    Phi(t, s, ell) * B(t, s, ell), ALL_STEPS))
STREAM = Equation(h(t, ell + 1), h(t, ell) + u(t, ell + 1) / sp.sqrt(depth) + sp.Sum(
    A(t, s, ell) * g(s, ell + 1), EARLIER) / sp.sqrt(depth) + c / depth * sp.Sum(
    Delta[s] * Phi(t, s, ell) * g(s, ell + 1), EARLIER))
GRADIENT = Equation(g(t, ell), g(t, ell + 1) + dphi(t, ell) * (r(t, ell) / sp.sqrt(depth) + sp.Sum(
    B(t, s, ell) * phi(s, ell), ALL_STEPS) / sp.sqrt(depth) + c / depth * sp.Sum(
    Delta[s] * G(t, s, ell + 1) * phi(s, ell), EARLIER)))
RESCALED = tuple(Equation(new(t, s, ell), sp.sqrt(depth) / c * one.value) for new, one in (
    (Ar, FORWARD_RESPONSE), (Br, BACKWARD_RESPONSE)))


def statement() -> Equations:
    return Equations((CHI, XI, FORWARD_RESPONSE, BACKWARD_RESPONSE, OVERLAP, STREAM, GRADIENT, *RESCALED))


def log_factor(conjugate: type[Field]) -> sp.Expr:
    """The logarithm of the factor of e^-H that has the conjugate fields of one block."""
    found = sp.Integer(0)
    for term in sp.Add.make_args(sp.expand(-HAMILTONIAN.value)):
        number, total = term.as_independent(sp.Sum, as_Add=False)
        if total.function.has(conjugate):
            found += number * sp.Sum(total.function, *(limit for limit in total.limits if limit[0] != ell))
    return found


def linearize(kernel: sp.Expr, conjugate: sp.Expr, source: sp.Expr) -> Rewriting:
    """(34), (35): the square of conjugate fields as a mean over Gaussian sources, under whose mean the rest stands."""
    square = sp.Sum(kernel * conjugate * conjugate.subs(t, s) / 2, *STEPS)
    return Rewriting("Hubbard-Stratonovich", "the mean over Gaussian sources that have this covariance",
                     "depthwise_transfer/averages_over_weights", lambda expression: expression.xreplace(
                         {square: sp.Sum(sp.I * conjugate * source, STEPS[1])}))


def gather(conjugate: sp.Expr) -> Rewriting:
    """Everything that a conjugate field is multiplied by, in one sum over its steps."""
    def apply(expression: sp.Expr) -> sp.Expr:
        total = sp.Integer(0)
        for term in sp.Add.make_args(expression):
            number, whole = term.as_independent(sp.Sum, as_Add=False)
            inner = [limit for limit in whole.limits if limit[0] != t]
            body = whole.function / (sp.I * conjugate)
            total += number * (sp.Sum(body, *inner) if inner else body)
        return sp.Sum(sp.I * conjugate * total, STEPS[1])
    return Rewriting("gather", "by the conjugate field", "algebra", apply)


def delta(exponent: sp.Sum, conjugate: sp.Expr, field: sp.Expr) -> Rewriting:
    """The integral over a conjugate field of e^(i field X) is a delta of X, which is solved for the field."""
    zero = exponent.function / (sp.I * conjugate)
    if sp.expand(zero).coeff(field) != 1:
        raise ValueError(f"{zero}: expected {field} once in it")
    return Rewriting("delta", "the integral over the conjugate field is a delta", "analysis",
                     lambda expression: expression.xreplace({field: sp.expand(field - zero)}))


def causal(response: type[Field], limits: tuple[sp.Expr, ...]) -> Rewriting:
    return Rewriting("causality", "no field answers a source of a later step", "definition",
                     of_nodes(sp.Sum, lambda e: sp.Sum(e.function, limits) if e.has(response) else e))


def _derivative(average: Average) -> sp.Expr:
    """Under e^-H a conjugate field is i times the derivative in its source, of all that stands beside it."""
    source = {chih: u, xih: r}
    found = [one for one in sp.Mul.make_args(average.args[0]) if type(one) in source]
    if len(found) != 1:
        return average
    conjugate, = found
    return sp.I * mean_of(Slope(average.args[0] / conjugate, source[type(conjugate)](*conjugate.args)))


CONJUGATE = Rewriting("conjugate fields", "a source enters e^-H beside its conjugate field alone: that is a derivative",
                      "depthwise_transfer/path_integral", of_nodes(Average, _derivative))


def _each(average: Average) -> sp.Expr:
    """The mean of a sum, kernels and responses in front."""
    total = sp.Integer(0)
    for term in sp.Add.make_args(sp.expand(average.args[0])):
        numbers, body = term.as_independent(sp.Sum, u, g, as_Add=False)
        whole, = [one for one in sp.Mul.make_args(body) if isinstance(one, sp.Sum)] or [None]
        rest = body / whole if whole is not None else body
        if whole is None:
            total += numbers * mean_of(rest)
            continue
        kernel, fields_ = whole.function.as_independent(u, g, as_Add=False)
        total += numbers * sp.Sum(kernel * mean_of(fields_ * rest), *whole.limits)
    return total


EACH = Rewriting("linearity", "of the mean", "algebra", of_nodes(Average, _each))


def _stein(average: Average) -> sp.Expr:
    factors = [one for one in sp.Mul.make_args(average.args[0]) if isinstance(one, u)]
    if len(factors) != 1:
        return average
    source, = factors
    rest = average.args[0] / source
    return sp.Sum(Phi(t, s, ell) * mean_of(Slope(rest, u(s, ell + 1))), WHENEVER)


STEIN = Rewriting("Stein's lemma", "$u$ is Gaussian of the covariance $\\Phi$", "gaussian/stein",
                  of_nodes(Average, _stein))


@lru_cache(maxsize=None)
def derivation() -> Derivation:
    steps = Derivation()
    found = {}
    for name, kind, kernel, conjugate, source, field, response, limits in (
            (r"\chi", chih, Phi(t, s, ell), chih(t, ell + 1), u(t, ell + 1), chi(t, ell + 1), A, EARLIER),
            (r"\xi", xih, G(t, s, ell + 1), xih(t, ell), r(t, ell), xi(t, ell), B, ALL_STEPS)):
        weight = steps.through((linearize(kernel, conjugate, source), gather(conjugate)), sp.Symbol(
            rf"\ln w_{{{name}}}"), log_factor(kind))
        found[field] = steps.through((delta(weight, conjugate, field), causal(response, limits)), field, field)
    for one, defined in ((FORWARD_RESPONSE, SADDLE[2]), (BACKWARD_RESPONSE, SADDLE[3])):
        steps.apply(CONJUGATE, one.target, defined.value)
    overlap = steps.through((insert(CHI.target, found[CHI.target]), EACH, STEIN), OVERLAP.target, OVERLAP.target)
    kernel = read(mean_of(g(s, ell + 1) * g(t, ell + 1)), G(s, t, ell + 1), "gradients meet in their kernel",
                  "depthwise_transfer/path_integral")
    answer = insert(BACKWARD_RESPONSE.value, B(t, s, ell))
    steps.through((kernel, answer, causal(B, ALL_STEPS)), OVERLAP.target, overlap)
    back = BACKWARD.value.xreplace({returned(t, ell): xi(t, ell)})   # the paper's name
    for target, value, field in ((STREAM.target, FORWARD.value, CHI.target), (GRADIENT.target, back, XI.target)):
        steps.through((insert(field, found[field]), OUT_OF_SUMS), target, value)
    for one, scaled in ((FORWARD_RESPONSE, RESCALED[0]), (BACKWARD_RESPONSE, RESCALED[1])):
        steps.apply(insert(one.target, one.value), scaled.target, sp.sqrt(depth) / c * one.target)
    return steps


def log_mean(of: Sources, exponent: sp.Expr, conjugate: str, source: str, covariance: np.ndarray) -> complex:
    """The logarithm of the mean over sources of e^exponent at one block, other letters fixed numbers."""
    points, weights = np.polynomial.hermite_e.hermegauss(24)
    noise = np.einsum("ts,sijk->tijk", np.linalg.cholesky(covariance), np.array(np.meshgrid(
        *[points] * SOURCE_STEPS, indexing="ij")))
    over = np.einsum("i,j,k->ijk", *[weights] * SOURCE_STEPS) / (2 * np.pi)**1.5
    fixed = {name: 0.3 + 0.2 * k for k, name in enumerate(("g", "phi", "chi", "xi"))}
    tables: dict[str, Value] = {**of.letters({}).fields, **{name: lambda a, _, value=value: value * (1 + a)
                                                            for name, value in fixed.items()},
                                conjugate: lambda a, _: 0.4 - 0.3 * a, source: lambda a, _: noise[a]}
    value = Letters(tables, {T: SOURCE_STEPS, ell: 1, depth: 2}).of(exponent)
    return complex(np.log(np.sum(over * np.exp(value))))


def derive() -> Proof:
    def numbers(rng: np.random.Generator) -> float:
        of = random_sources(rng)
        true, found = of.consistent(), of.difference()
        for step in derivation().steps:
            if step.before.has(chih, xih) and not step.before.has(Average):
                conjugate, source, covariance = ("chih", "u", of.Phi[0]) if step.before.has(chih) else (
                    "xih", "r", of.G[0])
                sides = [log_mean(of, one, conjugate, source, covariance) for one in (step.before, step.after)]
                found = max(found, off(*sides))
                continue
            for block in range(1, BLOCKS + 1):
                here = true.letters({t: 2, s: 1, ell: block, c: true.c})
                left, before, after = map(here.of, (step.left, step.before, step.after))
                found = max(found, off(before, after), off(left, after))
        return found
    return Proof(derivation().steps, numbers, "both sides of every step at a linear site: exponents by quadrature over "
                 "sources, means exactly, with conjugate fields under $e^{-H}$; and second moments of all fields, by "
                 "sources and under $e^{-H}$, for arbitrary order parameters")


def stated(exact: tp.theory.OrderParameters, sampled: tp.theory.OrderParameters) -> tuple[MeasuredNumber, ...]:
    """Left sides less right sides at particles, block by block of samples: kernels and responses are exact, fields are
    the particles', derivatives in sources those of Stein's lemma, of a linear network; vectors by their mean with a
    field."""
    c, later, block = 0.7 * 0.8 / np.sqrt(DEPTH), 2, DEPTH // 2 + 1
    found: dict[int, list[float]] = {}
    of = sampled.fields
    assert of is not None and of.xi is not None and of.r is not None
    sites = {name: np.array_split(getattr(of, name)[:, :, 0], BATCHES, axis=-1)
             for name in ("h", "g", "chi", "u", "xi", "r")}
    for batch in range(BATCHES):
        here = {name: parts[batch] for name, parts in sites.items()}

        def mean(first: np.ndarray, second: np.ndarray) -> np.ndarray:
            return np.asarray(first @ second.T / first.shape[-1])

        def slope(field_: np.ndarray, source: np.ndarray) -> np.ndarray:
            """By step of the field and of the source, which is Gaussian with the covariance of its own samples."""
            return mean(field_, source) @ np.linalg.inv(mean(source, source) + 1e-9 * np.eye(len(source)))
        tables: dict[str, Value] = {
            "chi": lambda step, node: here["chi"][node - 2][step], "u": lambda step, node: here["u"][node - 2][step],
            "xi": lambda step, node: here["xi"][node - 1][step], "r": lambda step, node: here["r"][node - 1][step],
            "g": lambda step, node: here["g"][node - 1][step], "phi": lambda step, node: here["h"][node - 1][step],
            "A": lambda a, b, node: c * exact.A[node - 1, a, 0, b, 0],
            "B": lambda a, b, node: c * exact.B[node - 1, a, 0, b, 0],
            "Phi": lambda a, b, node: exact.Phi[node - 1, a, 0, b, 0],
            "G": lambda a, b, node: exact.G[node - 1, a, 0, b, 0],
            "phi/r": lambda a, node, b, other: slope(here["h"][node - 1], here["r"][other - 1])[a, b],
            "g/u": lambda a, node, b, other: slope(here["g"][node - 1], here["u"][other - 2])[a, b]}
        letters = Letters(tables, {t: later, s: 1, ell: block})
        for number, one in enumerate((CHI, XI, FORWARD_RESPONSE, BACKWARD_RESPONSE, OVERLAP)):
            left = letters.of(one.target) - letters.of(one.value)
            probe = {0: here["g"][block][1], 1: here["h"][block - 1][1]}.get(number, 1.0)
            found.setdefault(number, []).append(float(np.mean(left * probe)))
    return tuple(MeasuredNumber(f"equation {number + 1}, left less right, {BATCHES} batches of particles",
                                float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(BATCHES)) + 1e-3, 0.0)
                 for number, values in found.items())


@lru_cache(maxsize=None)
def numbers() -> tuple[MeasuredNumber, ...]:
    """Linear networks: particles, whose responses are found by causality, against reflections, which know them."""
    raw = tp.theory.raw_problem(tp.theory.DepthwiseScaling(mu0=0.7, eta0=0.8), tp.ResNet(), TASK, DEPTH)
    exact = tp.theory.dmft(raw)
    sampled = tp.theory.dmft(raw, tp.methods.Particles(samples=SAMPLES, batches=BATCHES, seed=2))
    found, layer = [*stated(exact, sampled)], DEPTH // 2
    for name in "AB":
        for later, earlier in ((1, 0), (2, 1)):
            location = (layer, later, 0, earlier, 0)
            what = f"{name}_{later}{earlier} of block {layer + 1} of {DEPTH}, {BATCHES} batches of particles"
            error = float(sampled.standard_errors[name][location]) + 1e-3
            found.append(MeasuredNumber(what, float(getattr(sampled, name)[location]), error,
                                        float(getattr(exact, name)[location])))
    assert sampled.fields is not None
    sources = sampled.fields.u[layer, :, 0]
    parts = np.array([part @ part.T / SAMPLES for part in np.split(sources, BATCHES, axis=1)])
    for later, earlier in ((1, 1), (2, 0)):
        values = parts[:, later, earlier]
        found.append(MeasuredNumber(f"<u_{later} u_{earlier}>, the same", float(np.mean(values)),
                                    float(np.std(values, ddof=1) / np.sqrt(BATCHES)) + 1e-3,
                                    float(exact.Phi[layer, later, 0, earlier, 0])))
    return tuple(found)


ENTRY = Entry(
    key="depthwise_transfer/responses",
    kind="proposition",
    title="sources and responses of one matrix",
    source="Depthwise Hyperparameter Transfer, (36), (38), (39) and (47) to (49)",
    says="Width to infinity at finite depth: $u$ and $r$ are Gaussian with covariances $\\Phi$ and $G$, and "
         "independent of each other. By Stein's lemma one overlap of samples holds both responses, and causality "
         "parts them: $A$ is of earlier steps, $B$ of the same step too. $\\bar A$, $\\bar B$ are rescaled ones, "
         "of order one; $c = \\eta_0 \\mu_0$. The definitions that this starts from, and the weight $e^{-H}$ of sites, "
         "are those of the action.",
    statement=statement,
    assumptions=("width to infinity at fixed depth",),
    uses=("gaussian/stein", "depthwise_transfer/path_integral", "depthwise_transfer/saddle_point",
          "depthwise_transfer/averages_over_weights", "depthwise_transfer/finite_network"),
    derive=derive,
    evidence=lambda: Evidence(numbers()),
)
