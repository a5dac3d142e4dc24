"""The lazy limit: kernels in layer time, and the tangent kernel as one integral."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.calculus import Derivation
from tpcalc.derivations.derivation import Step
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Proof, Rate

from ..._line import relative
from ..._rewriting import Rewriting, of_nodes
from .._fields import Average, fields, mean_of
from ._lazy_sites import L as BLOCKS_OF_SITES, many_layers, on_grid, one_block
from ._network_numbers import worst
from ._network_rules import OUT_OF_SUMS, G, Phi, chi, depth, dphi, g, h, insert, r, read, unroll, unroll_back
from ._real_kernels import real_kernels
from .fields_and_kernels import ell, t
from .finite_network import BACKWARD, FORWARD, Delta, c
from .tangent_kernel import BLOCKS, FLOW, K as FLOW_K, a, b, df, eta0, size

k, tau, sigma = sp.Symbol("k", integer=True), sp.Symbol("tau"), sp.Symbol("sigma")
u, du, dr, H, K, Theta = fields("u du dr H K Theta")
NET = tp.ResNet("tanh", "pre_nonlin")
INPUTS = np.array([[1.0, 0.0], [0.5, 0.8]])
DEPTHS = (16, 32, 64, 128, 256)
DEPTH, WIDTH, SEEDS = 8, 512, 48

BENT = mean_of(dphi(a, tau) * dphi(b, tau))
STREAM = Equation(h(a, tau), h(a, 0) + sp.Integral(du(a, sigma), (sigma, 0, tau)))
GRADIENT = Equation(g(a, tau), g(a, 1) + sp.Integral(dphi(a, sigma) * dr(a, sigma), (sigma, tau, 1)))
FORWARD_KERNEL = Equation(H(a, b, tau).diff(tau), Phi(a, b, tau))
BACKWARD_KERNEL = Equation(G(a, b, tau).diff(tau), -BENT * G(a, b, tau))
TANGENT = Equation(K(a, b, t), sp.Integral(G(a, b, sigma) * Phi(a, b, sigma), (sigma, 0, 1)))
OUTPUTS = Equation(df(a), eta0 / size * sp.Sum(Delta[b] * TANGENT.value, (b, 0, size - 1)))
PART = sp.Integral(G(a, b, sigma) * Phi(a, b, sigma), (sigma, 0, tau))
PARTIAL = PART / G(a, b, tau)   # Theta
UPWARD = Equation(Theta(a, b, tau).diff(tau), Phi(a, b, tau) + BENT * Theta(a, b, tau))

LAZY = read(c, sp.Integer(0), "$\\mu_0 \\to 0$: nothing is learned that moves features",
            "depthwise_transfer/parametrization")
GAUSSIAN = read(chi(a, ell + 1), u(a, ell + 1), "what an initial matrix makes of features it does not know is Gaussian",
                "tensor_programs_vi/master_theorem")


def _white(expression: sp.Expr) -> sp.Expr:
    """Sums over blocks of noise: each has L^(-1/2) of white noise in layer time."""
    def integral(total: sp.Sum) -> sp.Expr:
        (index, first, _), = total.limits
        dense = {u(a, index + 1): du(a, sigma), r(a, index): dr(a, sigma), dphi(a, index): dphi(a, sigma)}
        limits = (sigma, 0, tau) if first == 1 else (sigma, tau, 1)
        return sp.sqrt(depth) * sp.Integral(total.function.xreplace(dense), limits)
    found = of_nodes(sp.Sum, integral)(expression)
    return found.xreplace({h(a, sp.Integer(1)): h(a, 0), g(a, depth + 1): g(a, 1)})


WHITE = Rewriting("white noise", "noise of a block is $L^{-1/2}$ of noise that is white in layer time", "definition",
                  _white)


def _moments(average: Average) -> sp.Expr:
    """Means of products: noise of a block knows nothing of streams before it, nor of gradients behind it."""
    total, known = sp.Integer(0), {h: H, g: G}
    for term in sp.Add.make_args(sp.expand(average.args[0])):
        number, body = term.as_independent(h, g, u, r, dphi, as_Add=False)
        kinds = [type(one) for one in sp.Mul.make_args(body)]
        if any(kinds.count(noise) % 2 for noise in (u, r)):
            continue
        slopes = sp.Mul(*(one for one in sp.Mul.make_args(body) if isinstance(one, dphi)))
        first, second = sorted((one for one in sp.Mul.make_args(body) if not isinstance(one, dphi)),
                               key=lambda one: str(one.args[0]))
        kernel = known[type(first)](a, b, first.args[1]) if type(first) in known else {
            u: lambda node: Phi(a, b, node - 1), r: lambda node: G(a, b, node + 1)}[type(first)](first.args[1])
        total += number * kernel * (mean_of(slopes) if slopes != 1 else 1)
    return total


MOMENTS = Rewriting("moments", "sources of a block are Gaussian with the covariances $\\Phi$ and $G$, independent of "
                    "the stream before it and of the gradient behind it", "Tensor Programs VI, definition C.1",
                    of_nodes(Average, _moments))


def _dense(expression: sp.Expr) -> sp.Expr:
    """Kernels of neighboring nodes have one limit; sums over blocks over L become integrals."""
    def integral(total: sp.Sum) -> sp.Expr:
        (index, _, _), = total.limits
        return depth * sp.Integral(total.function.xreplace({index + 1: sigma}).xreplace({index: sigma}), (sigma, 0, 1))
    found = of_nodes(sp.Sum, integral)(sp.expand(expression))
    return found.xreplace({ell + 1: tau}).xreplace({ell: tau})


LAYER_TIME = Rewriting("layers to layer time", "$\\ell = \\tau L$, $L \\to \\infty$: neighboring nodes have one limit",
                       "Tensor Programs VI, proposition C.4", _dense)
LEIBNIZ = Rewriting("product rule", "of an integral up to the layer time, and of a quotient", "calculus",
                    lambda expression: sp.expand(expression.doit(integrals=False)))


@dataclass(frozen=True)
class Lazy:
    """Steps by what they are tried on."""

    of_fields: Derivation
    of_means: Derivation
    limits: Derivation
    of_tangents: Derivation

    @property
    def steps(self) -> tuple[Step, ...]:
        parts = (self.of_fields, self.of_means, self.limits, self.of_tangents)
        return tuple(replace(step, number=number) for number, step in enumerate(
            (step for part in parts for step in part.steps), 1))


@lru_cache(maxsize=None)
def derivation() -> Lazy:
    found = Lazy(Derivation(), Derivation(), Derivation(), Derivation())
    fields_, means, limits = found.of_fields, found.of_means, found.limits
    up = fields_.through((LAZY, GAUSSIAN), h(a, ell + 1), FORWARD.value.subs(t, a))
    down = fields_.through((LAZY, OUT_OF_SUMS), g(a, ell), BACKWARD.value.subs(t, a))
    stream = fields_.through((unroll(h(a, ell + 1), up, ell, k, sp.Integer(1)), OUT_OF_SUMS), h(a, ell), h(a, ell))
    fields_.apply(WHITE, h(a, tau), stream)
    gradient = fields_.through((unroll_back(g(a, ell), down, ell, k, depth + 1), OUT_OF_SUMS), g(a, ell), g(a, ell))
    fields_.apply(WHITE, g(a, tau), gradient)
    for field, kernel, following, now, value in ((h, H, ell + 1, ell, up), (g, G, ell, ell + 1, down)):
        left = kernel(a, b, following)
        inserts = [insert(field(one, following), value.subs(a, one)) for one in (a, b)]
        after = means.through((*inserts, MOMENTS), left, mean_of(field(a, following) * field(b, following)))
        difference = depth * (left - kernel(a, b, now)) * (1 if field is h else -1)
        change = means.through((insert(left, after), OUT_OF_SUMS), difference, difference)
        limits.apply(LAYER_TIME, kernel(a, b, tau).diff(tau), change)
    whole = limits.apply(LAYER_TIME, K(a, b, t), BLOCKS.value)
    limits.through((insert(K(a, b, t), whole), OUT_OF_SUMS), df(a), FLOW.value.xreplace({FLOW_K(a, b, t): K(a, b, t)}))
    tangent = found.of_tangents
    left = Theta(a, b, tau).diff(tau)
    value = tangent.through((LEIBNIZ, insert(G(a, b, tau).diff(tau), BACKWARD_KERNEL.value), OUT_OF_SUMS), left,
                            sp.Derivative(PARTIAL, tau))
    tangent.apply(read(PART, Theta(a, b, tau) * G(a, b, tau), "the integral up to a layer time, by its name",
                       "definition"), left, value)
    return found


def statement() -> Equations:
    return Equations((STREAM, GRADIENT, FORWARD_KERNEL, BACKWARD_KERNEL, TANGENT, OUTPUTS, UPWARD))


def linear_case(tau_: float) -> float:
    """The stated kernels of a linear network are powers of e, and those of 10^14 layers agree with them."""
    grown, returned = sp.exp(tau), sp.exp(1 - tau)

    def of(expression: sp.Expr) -> float:
        known = expression.replace(lambda e: isinstance(e, (H, Phi, G)), lambda e: (
            returned if isinstance(e, G) else grown).subs(tau, e.args[-1])).xreplace({BENT: sp.Integer(1)})
        return float(known.doit().subs(tau, tau_))
    found = 0.0
    for equation in (FORWARD_KERNEL, BACKWARD_KERNEL):
        found = max(found, relative(of(equation.target), of(equation.value)))
    stated = (float(grown.subs(tau, tau_)), float(returned.subs(tau, tau_)), of(TANGENT.value))
    return max(found, relative(stated, many_layers(tau_)))


def with_functions(step: Step, tau_: float) -> float:
    """Both sides of a step for kernels that are written out: a polynomial, and e^(kappa (1 - tau))."""
    kappa = sp.Rational(7, 5)

    def of(expression: sp.Expr) -> float:
        named = expression.replace(lambda e: isinstance(e, Theta), lambda e: PARTIAL.subs(tau, e.args[-1]))
        known = named.xreplace({BENT: kappa}).replace(lambda e: isinstance(e, (Phi, G)), lambda e: (
            sp.exp(kappa * (1 - e.args[-1])) if isinstance(e, G) else 1 + e.args[-1]**2))
        return float(known.doit().subs(tau, tau_))
    left, before, after = map(of, (step.left, step.before, step.after))
    return max(relative(left, after), relative(before, after))


def derive() -> Proof:
    lazy = derivation()

    def numbers(rng: np.random.Generator) -> float:
        where = {a: 0, ell: 3, tau: 2 / BLOCKS_OF_SITES, depth: BLOCKS_OF_SITES, c: 0.0}
        block = {a: 0, b: 1, ell: 1, depth: BLOCKS_OF_SITES}
        return max(worst(lazy.of_fields.steps, on_grid(rng, where)), worst(lazy.of_means.steps, one_block(rng, block)),
                   linear_case(rng.uniform(0.1, 0.9)),
                   *(with_functions(step, rng.uniform(0.1, 0.9)) for step in lazy.of_tangents.steps))
    return Proof(lazy.steps, numbers, "both sides of every step: of fields at a random site of several blocks; of "
                 "means in one tanh block, by quadrature; of the last two for kernels that are written out; limits by "
                 "a linear network of $10^{14}$ layers")


def rates() -> tuple[Rate, ...]:
    limit = tp.kernel_fn(NET)(INPUTS)
    finite = [tp.kernel_fn(NET, depth)(INPUTS) for depth in DEPTHS]
    return tuple(Rate(f"{what} of depth L, from its limit", "L", 1.0, DEPTHS, tuple(
        float(np.max(np.abs(getattr(one, name) - getattr(limit, name)))) for one in finite))
        for name, what in (("nngp", "the kernel"), ("ntk", "the tangent kernel")))


@lru_cache(maxsize=None)
def numbers() -> tuple[MeasuredNumber, ...]:
    """Real networks, means over seeds."""
    rng = np.random.default_rng(0)
    found = np.array([real_kernels(np.tanh, lambda h: np.cosh(h)**-2.0, INPUTS, DEPTH, WIDTH, rng)
                      for _ in range(SEEDS)])
    means, errors = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(SEEDS)
    expected = tp.kernel_fn(NET, DEPTH)(INPUTS)
    return tuple(MeasuredNumber(f"{what} of two inputs, {SEEDS} networks of width {WIDTH} and depth {DEPTH}",
                                float(means[k, 0, 1]), float(errors[k, 0, 1]), float(expected[k][0, 1]))
                 for k, what in enumerate(("the kernel", "the tangent kernel")))


ENTRY = Entry(
    key="depthwise_transfer/proposition_2",
    kind="proposition",
    title="the lazy limit of residual networks",
    source="Depthwise Hyperparameter Transfer, proposition 2 and appendix G.1",
    says="A network that does not learn features, $\\mu_0 \\to 0$: streams and gradients are driven by noise alone, "
         "which is white in layer time and has the covariances $\\Phi$ and $G$. $\\Phi$ is the mean of "
         "$\\phi(h) \\phi(h')$ for Gaussian $h$ with the covariances $H$. The package integrates upward: $\\Theta$ at "
         "$\\tau$ is the integral of $G \\Phi$ up to it over $G$ there, and $K$ at the end; its numbers are measured.",
    statement=statement,
    assumptions=("width to infinity, then depth", "frozen embedding and readout", "$\\alpha = \\gamma = 1/2$", "a "
                 "read-out of the stream", "a block that acts on the stream first, $W \\phi(x)$"),
    uses=("depthwise_transfer/finite_network", "depthwise_transfer/tangent_kernel",
          "tensor_programs_vi/master_theorem"),
    derive=derive,
    evidence=lambda: Evidence(numbers(), rates()),
)
