"""Appendices H and J: the forms of equations on sensitivities of kernels, on the propagator, and on errors."""

from __future__ import annotations

from typing import Callable

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, MeasuredNumber, Slip, Witness
from tpcalc.ledger.entry import line

from ..._letters import NODES, WEIGHTS, Letters
from .._fields import mean_of
from ..networks.finite_network import depth as L

DEPTH = 6
D, Sigma, kappa, F, u = sp.Function("D"), sp.Function("Sigma"), sp.Function("kappa"), sp.Function("F"), sp.Function("u")
p, q, a, b = sp.symbols(r"tau {\tau'} sigma {\sigma'}")
f = sp.Function("f")

CARRIED = sp.Symbol(r"\dot\phi \phi \frac{\partial h}{\partial \Phi}")
BEND = F(u(q)).diff(u(q), 2)
SENSITIVITY = Equation(D(p, q), L / 2 * mean_of(BEND) + 2 * L * mean_of(CARRIED))
PROPAGATOR = Equation(kappa(p, q), Sigma(p, q) - sp.Integral(D(p, a) * Sigma(a, q), (a, 0, 1)) - sp.Integral(
    Sigma(p, a) * D(q, a), (a, 0, 1)) + sp.Integral(D(p, a) * Sigma(a, b) * D(q, b), (a, 0, 1), (b, 0, 1)))
mu, mu2, L2 = sp.symbols(r"mu_0 {\mu_0'} L'")
DIFFERENCE = Equation(f(mu, L) - f(mu2, L2), sp.Add(*(sp.UnevaluatedExpr(part) for part in (
    f(mu, L) - f(mu, sp.oo), f(mu, sp.oo) - f(mu2, sp.oo), f(mu2, sp.oo) - f(mu2, L2)))))


def squares(variances: np.ndarray) -> float:
    """<phi(h)^2> of a tanh network before training, h being 1 / sqrt L times the sum of sources of these variances."""
    points, weights = np.polynomial.hermite_e.hermegauss(80)
    size = np.sqrt(np.mean(variances))
    return float(weights @ np.tanh(size * points)**2 / np.sqrt(2 * np.pi))


def sensitivity_witness(step: float = 1e-5) -> Witness:
    """D of a source's layer, from the change of the mean with its variance; by Price's theorem, from second slopes."""
    variances = np.linspace(0.5, 1.5, DEPTH)
    change = np.zeros(DEPTH)
    change[2] = step
    truth = DEPTH * (squares(variances + change) - squares(variances - change)) / (2 * step)
    points, weights = np.polynomial.hermite_e.hermegauss(80)
    h = np.sqrt(np.mean(variances)) * points
    bend = 2 * np.cosh(h)**-4.0 - 4 * np.tanh(h)**2 * np.cosh(h)**-2.0   # of tanh^2
    half = float(weights @ bend / np.sqrt(2 * np.pi)) / DEPTH / 2        # h has u / sqrt L
    return Witness(f"D of a network of depth {DEPTH} before training", truth, 1e-7, half, DEPTH * half)


def stated_sensitivity(step: float = 1e-5, middle: float = 0.4, carried: float = 0.7) -> float:
    """The first equation, of h = middle + a source of every layer over sqrt L + what it carries of a layer's kernel,
    the variance of that source: against the change of the mean of tanh(h)^2."""
    points, weights = np.polynomial.hermite_e.hermegauss(80)

    def mean(of: Callable[[np.ndarray], np.ndarray], change: float = 0.0) -> float:
        size = np.sqrt(1.0 + change / DEPTH)
        return float(weights @ of(middle + carried * change + size * points) / np.sqrt(2 * np.pi))
    bend = mean(lambda h: 2 * np.cosh(h)**-4.0 - 4 * np.tanh(h)**2 * np.cosh(h)**-2.0) / DEPTH
    slope = carried * mean(lambda h: np.tanh(h) * np.cosh(h)**-2.0)
    here = Letters({}, {L: DEPTH, CARRIED: slope, BEND: bend}, lambda reading, body: reading.of(body))
    change = DEPTH * (mean(lambda h: np.tanh(h)**2, step) - mean(lambda h: np.tanh(h)**2, -step)) / (2 * step)
    return abs(float(here.of(SENSITIVITY.value)) - change)


def propagator() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """kappa, D and Sigma = (1 - D/L)^-1 kappa (1 - D/L)^-T on layers, (107), drawn at random."""
    rng = np.random.default_rng(2)
    root, D_ = rng.normal(size=(2, DEPTH, DEPTH))
    source, inverse = root @ root.T, np.linalg.inv(np.eye(DEPTH) - D_ / DEPTH)
    return source, D_ / DEPTH, inverse @ source @ inverse.T


def propagator_witness() -> Witness:
    source, D_, covariance = propagator()
    rest = covariance - D_ @ covariance + D_ @ covariance @ D_.T
    # as printed the third term has Sigma(tau'', tau') D(tau, tau''), the second once more but for a transpose
    third = np.einsum("ka,ik->ia", covariance, D_)
    return Witness("kappa between layers 2 and 5, from Sigma by (107)", float(source[1, 4]), 1e-12,
                   float((rest - third)[1, 4]), float((rest - covariance @ D_.T)[1, 4]))


def output(mu0: float, depth: object) -> float:
    """f_2 of a linear network."""
    scaling, task = tp.theory.DepthwiseScaling(mu0=mu0, eta0=0.3), tp.Task([1.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    raw = tp.theory.raw_problem(scaling, tp.ResNet(), task, depth)  # type: ignore[arg-type]
    return float(raw.output_scale * tp.train(raw.problem).outputs[2, 0, 0])


def difference_witness() -> Witness:
    """Outputs after two steps of linear networks of two depths, whose mu0 depends on the depth."""
    sizes = ((4, 0.5), (16, 1.0))
    (one, mu_one), (two, mu_two) = sizes
    start, between = output(mu_one, one) - output(mu_one, tp.oo), output(mu_one, tp.oo) - output(mu_two, tp.oo)
    truth = output(mu_one, one) - output(mu_two, two)
    right, printed = (start + between + output(mu_two, tp.oo) - output(mu, two) for mu in (mu_two, mu_one))
    return Witness(f"f_2 at depth {one} less that at depth {two}, linear, mu0 = {mu_one} and {mu_two}", truth, 1e-9,
                   printed, right)


def stated_propagator() -> float:
    """The second equation, of kernels that are polynomials in layer times, on whose nodes quadrature is exact."""
    rng, places = np.random.default_rng(3), (NODES + 1) / 2
    slopes, root = rng.normal(size=(2, 3, 3))

    def of(coefficients: np.ndarray) -> Callable[[float, float], float]:
        return lambda one, two: float(np.polynomial.polynomial.polyval2d(one, two, coefficients))
    known = {"D": of(slopes), "Sigma": of(root @ root.T)}
    spread, change = (np.array([[known[name](one, two) for two in places] for one in places])
                      for name in ("Sigma", "D"))
    kept = np.eye(len(places)) - change * WEIGHTS / 2
    truth = kept @ spread @ kept.T   # (1 - D) Sigma (1 - D)^T
    here = Letters(known)
    return max(abs(float(here.at({p: places[i], q: places[j]}).of(PROPAGATOR.value)) - truth[i, j])
               for i, j in ((0, 3), (5, 2)))


def stated_difference() -> float:
    """The third equation, of outputs of networks of two depths and of the limit."""
    depths, scales = {L: 4.0, L2: 16.0, sp.oo: np.inf}, {mu: 0.5, mu2: 1.0}
    known = {(scale, size): output(scale, tp.oo if size == np.inf else int(size))
             for scale in scales.values() for size in depths.values()}
    here = Letters({"f": lambda scale, size: known[scale, size]}, {**depths, **scales})
    return abs(float(here.of(DIFFERENCE.target) - here.of(DIFFERENCE.value)))


def evidence() -> Evidence:
    source, D_, covariance = propagator()
    left = covariance - D_ @ covariance - covariance @ D_.T + D_ @ covariance @ D_.T
    return Evidence((MeasuredNumber("(109) with Sigma of (107), left less right, the largest entry",
                                    float(np.max(np.abs(left - source))), 1e-12, 0.0),
                     MeasuredNumber("the first equation, tanh, left less right", stated_sensitivity(), 1e-8, 0.0),
                     MeasuredNumber("the second equation, polynomial kernels, left less right", stated_propagator(),
                                    1e-11, 0.0),
                     MeasuredNumber("the third equation, linear networks, left less right", stated_difference(), 1e-12,
                                    0.0)))


ENTRY = Entry(
    key="depthwise_transfer/finite_size",
    kind="remark",
    title="sensitivities, propagators and errors of finite networks",
    source="Depthwise Hyperparameter Transfer, (103), (107), (109), (110) and (117)",
    says="$D$ is $L$ times the change of a kernel with that of another layer; $F$ is the product of features whose "
         "mean the kernel is, $u$ the sources. The second equation is (109) with sums as integrals. The third is "
         "what the triangle inequality of (117) is applied to, at infinite width: every network is compared with its "
         "own limit.",
    statement=lambda: Equations((SENSITIVITY, PROPAGATOR, DIFFERENCE)),
    uses=("gaussian/price", "depthwise_transfer/parametrization"),
    evidence=evidence,
    errata=(
        Erratum(Slip.MISPRINT, "(103): no $L$ in the first term, which the definition in (102) gives it",
                r"D_\Phi &= \tfrac{1}{2} \left\langle \partial_u^2 [\phi(h) \phi(h)] \right\rangle + 2 L \left\langle "
                r"\dot\phi \phi \frac{\partial h}{\partial \Phi} \right\rangle",
                lambda: line(SENSITIVITY.target, SENSITIVITY.value), sensitivity_witness),
        Erratum(Slip.MISPRINT, "(110): transpose and arguments of the third term; (109) has them right",
                r"\kappa(\tau, \tau') &= \Sigma(\tau, \tau') - \int D(\tau, \tau'') \Sigma(\tau'', \tau') - \int "
                r"\Sigma(\tau'', \tau') D(\tau, \tau'')^\top + \ldots",
                lambda: line(PROPAGATOR.target, PROPAGATOR.value), propagator_witness),
        Erratum(Slip.MISPRINT, "(117): $\\mu_0(N, L)$ for $\\mu_0(N', L')$ in the second network",
                r"|f^{\mu_0(N,L)}_{N,L} - f^{\mu_0(N',L')}_{N',L'}| &\leq |f^{\mu_0(N,L)}_{N,L} - "
                r"f^{\mu_0(N,L)}_{\infty}| + |f^{\mu_0(N,L)}_{N',L'} - f^{\mu_0(N',L')}_\infty| + \ldots",
                lambda: line(DIFFERENCE.target, DIFFERENCE.value), difference_witness),
    ),
)
