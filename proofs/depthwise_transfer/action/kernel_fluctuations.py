"""Fluctuations of kernels at finite width, from second derivatives of the action: before training, of one input."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import sympy as sp

from tpcalc._types import Value
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber

from ..._letters import Letters
from ._action import Sites
from .._fields import SymmetricField, fields, mean_of

DEPTH, WIDTH, NETWORKS, SAMPLES, START = 3, 128, 3000, 200_000, 1.4
ell, k, j, L = sp.symbols("ell k j L", integer=True)
N = sp.Symbol("N")
phi, g, Phi, G, kPG, DPhi, DG, DPG, DGP, SPhi, SG, SPG = fields("phi g Phi G kPG DPhi DG DPG DGP SPhi SG SPG")
kPhi, kG = fields("kPhi kG", SymmetricField)
KAPPAS = (Equation(kPhi(ell, k), mean_of(phi(ell)**2 * phi(k)**2) - Phi(ell) * Phi(k)),
          Equation(kG(ell, k), mean_of(g(ell)**2 * g(k)**2) - G(ell) * G(k)),
          Equation(kPG(ell, k), mean_of(phi(ell)**2 * g(k)**2) - Phi(ell) * G(k)))


def derivative(of: sp.Expr, by: sp.Expr) -> sp.Symbol:
    return sp.Symbol(rf"\frac{{\partial {sp.latex(of)}}}{{\partial {sp.latex(by)}}}")


PAIRS = ((DPhi, phi, Phi), (DG, g, G), (DPG, phi, G), (DGP, g, Phi))
SENSITIVITIES = tuple(Equation(D(ell, k), L * derivative(mean_of(field(ell)**2), kernel(k)))
                      for D, field, kernel in PAIRS)
_kappa, _D = sp.Matrix([[kPhi(ell, k), kPG(ell, k)], [kPG(k, ell), kG(ell, k)]]), sp.Matrix(
    [[DPhi(ell, k), DPG(ell, k)], [DGP(ell, k), DG(ell, k)]])
KAPPA_BLOCKS, D_BLOCKS = (Equation(sp.Symbol(r"\kappa_{\ell k}"), _kappa), Equation(sp.Symbol(r"D_{\ell k}"), _D))
INVERSE = sp.Symbol(r"(\nabla^2 S)^{-1}")
COVARIANCE = Equation(sp.Symbol(r"\mathrm{Cov}(q)"), -INVERSE / N)
VARIANCE = Equation(sp.Symbol(r"\mathrm{Var}(K)"), sp.Sum(
    SPhi(ell, k) * G(ell + 1) * G(k + 1) + SG(ell + 1, k + 1) * Phi(ell) * Phi(k) + 2 * SPG(ell, k + 1) * G(
        ell + 1) * Phi(k), (ell, 1, L), (k, 1, L)) / (N * L**2))


def means(kernels: np.ndarray) -> np.ndarray:
    """<phi phi> of nodes 1 to L and <g g> of nodes 2 to L + 1 of a tanh network, given these kernels."""
    features, gradients = np.split(kernels, 2)
    points, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / np.sqrt(2 * np.pi)
    sizes = np.sqrt(START + np.concatenate([[0.0], np.cumsum(features)])[:-1] / DEPTH)[:, None] * points
    slopes = np.cosh(sizes)**-4.0 @ weights * gradients / DEPTH
    behind = np.concatenate([np.cumsum(slopes[:0:-1])[::-1], [0.0]])
    return np.concatenate([np.tanh(sizes)**2 @ weights, 1 + behind])


@lru_cache(maxsize=None)
def solved() -> tuple[np.ndarray, np.ndarray]:
    """The kernels, and what they change by with each other, D / L, by differences."""
    kernels = np.ones(2 * DEPTH)
    for _ in range(3 * DEPTH):
        kernels = means(kernels)
    steps = 1e-5 * np.eye(2 * DEPTH)
    return kernels, np.array([(means(kernels + step) - means(kernels - step)) / 2e-5 for step in steps]).T


@lru_cache(maxsize=None)
def propagator() -> np.ndarray:
    """Sigma of Phi at nodes 1 to L and G at nodes 2 to L + 1, by kappa of sampled sites and D."""
    (kernels, D), rng = solved(), np.random.default_rng(5)
    features, gradients = np.split(kernels, 2)
    h = [np.sqrt(START) * rng.standard_normal(SAMPLES)]
    for one in features[:-1]:
        h.append(h[-1] + np.sqrt(one / DEPTH) * rng.standard_normal(SAMPLES))
    back = [rng.standard_normal(SAMPLES)]
    for site, one in zip(h[:0:-1], gradients[::-1]):
        back.append(back[-1] + np.cosh(site)**-2.0 * np.sqrt(one / DEPTH) * rng.standard_normal(SAMPLES))
    sites = {"phi": np.tanh(h), "g": np.array(back[::-1])}
    tables: dict[str, Value] = {"phi": lambda node: sites["phi"][node - 1], "g": lambda node: sites["g"][node - 2],
                                "Phi": lambda node: features[node - 1], "G": lambda node: gradients[node - 2]}
    reading = Letters(tables)
    kappas: dict[str, Value] = {
        type(one.target).__name__: lambda p, q, one=one: reading.at({ell: p, k: q}).of(one.value) for one in KAPPAS}
    inverse = response(D)
    found: np.ndarray = inverse @ of_blocks(KAPPA_BLOCKS, Letters(kappas)) @ inverse.T
    return found


def of_blocks(equation: Equation, reading: Letters) -> np.ndarray:
    """A matrix over Phi at nodes 1 to L and G at nodes 2 to L + 1, by its printed blocks."""
    nodes = range(1, DEPTH + 1)
    return np.block([[np.array([[reading.at({ell: p + row, k: q + column}).of(equation.value[row, column])
                                 for q in nodes] for p in nodes]) for column in (0, 1)] for row in (0, 1)])


def response(slopes: np.ndarray) -> np.ndarray:
    """(1 - D / L)^-1, D by its printed blocks of slopes of means by kernels."""
    rows = {"phi": -1, "g": DEPTH - 2, "Phi": -1, "G": DEPTH - 2}   # of node 0

    def table(equation: Equation, field: type, kernel: type) -> Value:
        def value(p: int, q: int) -> Value:
            slope = slopes[rows[field.__name__] + p, rows[kernel.__name__] + q]
            return Letters({}, {L: DEPTH, derivative(mean_of(field(ell)**2), kernel(k)): slope}).of(equation.value)
        return value
    tables = {type(one.target).__name__: table(one, *pair) for one, (_, *pair) in zip(SENSITIVITIES, PAIRS)}
    inverse: np.ndarray = np.linalg.inv(np.eye(2 * DEPTH) - of_blocks(D_BLOCKS, Letters(tables)) / DEPTH)
    return inverse


def sources(step: float = 1e-5) -> float:
    """What kernels answer to sources beside their means, less (1 - D/L)^-1, for drawn means that all kernels move."""
    rng, many = np.random.default_rng(7), 2 * DEPTH
    weights, shift = 0.4 * rng.normal(size=(many, many)) / np.sqrt(many), rng.normal(size=many)

    def solution(source: np.ndarray) -> np.ndarray:
        found = np.zeros(many)
        for _ in range(200):
            found = np.tanh(weights @ found + shift) + source
        return found
    steps = step * np.eye(many)
    answers = np.array([(solution(one) - solution(-one)) / (2 * step) for one in steps]).T
    slopes = (1 - np.tanh(weights @ solution(np.zeros(many)) + shift)**2)[:, None] * weights
    return float(np.max(np.abs(response(slopes) - answers)))


@lru_cache(maxsize=None)
def networks() -> np.ndarray:
    """Kernels of real tanh networks, Phi, G and K: (networks, 2 L + 1)."""
    rng, found = np.random.default_rng(6), []
    for _ in range(NETWORKS // 100):
        W = rng.standard_normal((DEPTH, 100, WIDTH, WIDTH), dtype=np.float32) / np.sqrt(WIDTH * DEPTH)
        h, g_ = [np.sqrt(START) * rng.standard_normal((100, WIDTH))], [rng.standard_normal((100, WIDTH))]
        for layer in W:
            h.append(h[-1] + np.einsum("nij,nj->ni", layer, np.tanh(h[-1])))
        for layer, before in zip(W[::-1], h[-2::-1]):
            g_.append(g_[-1] + np.cosh(before)**-2.0 * np.einsum("nij,ni->nj", layer, g_[-1]))
        features, gradients = ([np.mean(one**2, axis=1) for one in part] for part in (
            list(map(np.tanh, h[:-1])), g_[-2::-1]))
        tangent = np.mean(np.array(features) * gradients, axis=0)
        found.append(np.stack([*features, *gradients, tangent], axis=1))
    return np.concatenate(found)


def tangent_variance() -> float:
    """Var(K) at the networks' width by (111): the kernels in it are of the nodes that each block joins."""
    kernels, sigma = solved()[0], propagator()
    at = {"Phi": lambda node: kernels[node - 1], "G": lambda node: kernels[DEPTH + node - 2]}
    tables: dict[str, Value] = {
        **at, "SPhi": lambda p, q: sigma[p - 1, q - 1], "SG": lambda p, q: sigma[DEPTH + p - 2, DEPTH + q - 2],
        "SPG": lambda p, q: sigma[p - 1, DEPTH + q - 2]}
    return float(Letters(tables, {N: WIDTH, L: DEPTH}).of(VARIANCE.value))


TWO = 2  # blocks of the linear network
ORDER = [(name, block) for name in ("Phi", "G", "Phih", "Gh") for block in range(TWO)]


def linear() -> np.ndarray:
    """Kernels before training: H of nodes 1 and 2, G of nodes 2 and 3."""
    growth = (1 + 1 / TWO)**np.arange(TWO)
    return np.concatenate([START * growth, growth[::-1]])


def hessian(step: float = 2e-4) -> np.ndarray:
    """Second derivatives of the action of a linear network in Phi, G and their conjugates, by differences."""
    zero, none = np.zeros((TWO, 1, 1), dtype=complex), np.zeros((TWO, 1))
    features, gradients = np.split(linear(), 2)
    values = {"Phi": features[:, None, None] + 0j, "G": gradients[:, None, None] + 0j}
    sites = Sites({name: values.get(name, zero) for name in ("Phi", "G", "Phih", "Gh", "A", "B")}, np.zeros(1),
                  np.array([np.sqrt(START)]), 0.0, none, none)

    def action(*moves: tuple[int, float]) -> float:
        parameters = {name: value.copy() for name, value in sites.parameters.items()}
        for number, change in moves:
            name, block = ORDER[number]
            parameters[name][block, 0, 0] += change
        return replace(sites, parameters=parameters).action.real
    found = np.zeros((len(ORDER), len(ORDER)))
    for a in range(len(ORDER)):
        for b in range(a, len(ORDER)):
            found[a, b] = found[b, a] = sum(p * q * action((a, p * step), (b, q * step)) for p in (1, -1) for q in (
                1, -1)) / (4 * step**2)
    return found


def of_the_hessian() -> tuple[MeasuredNumber, ...]:
    found, kernels = hessian(), linear()
    half = 2 * TWO
    kappa = np.zeros((half, half))  # of Gaussian sites, h and g independent, each a martingale over layers
    for part in (slice(0, TWO), slice(TWO, half)):
        kappa[part, part] = 2 * np.minimum.outer(kernels[part], kernels[part])**2
    where = f"linear, L = {TWO}, before training"
    spread = 2 * kernels[1]**2 + START**2 * (4 / TWO + 2 / TWO**2)   # of |h + W h / sqrt(L N)|^2 / N, to order 1 / N
    return (MeasuredNumber(f"second slopes of the action in kernels, {where}",
                           float(np.max(np.abs(found[:half, :half]))), 1e-6,
                           0.0),
            MeasuredNumber(f"those in conjugate kernels, less kappa, {where}",
                           float(np.max(np.abs(found[half:, half:] - kappa))), 1e-4, 0.0),
            MeasuredNumber(f"Var of H at node 2 by (100), width {WIDTH}, {where}", float(Letters({}, {
                INVERSE: np.linalg.inv(found)[1, 1], N: WIDTH}).of(COVARIANCE.value)), 1e-4 / WIDTH, spread / WIDTH))


def evidence() -> Evidence:
    real, sigma, kernels = networks(), propagator(), solved()[0]
    centered = real - real.mean(axis=0)
    last = DEPTH - 1
    cases = [("Phi, Phi", last, last, sigma[last, last]), ("Phi, Phi of other nodes", 0, last, sigma[0, last]),
             ("G, G", DEPTH, DEPTH, sigma[DEPTH, DEPTH]), ("Phi, G", last, DEPTH, sigma[last, DEPTH]),
             ("K, K, (111)", 2 * DEPTH, 2 * DEPTH, WIDTH * tangent_variance())]
    numbers = []
    for what, a, b, expected in cases:
        products = WIDTH * centered[:, a] * centered[:, b]
        error = float(np.std(products, ddof=1) / np.sqrt(NETWORKS))
        numbers.append(MeasuredNumber(f"N Cov of {what}, {NETWORKS} tanh networks of width {WIDTH}",
                                      float(np.mean(products)),
                                      error + 2 * abs(expected) / WIDTH, float(expected)))
    off = real.mean(axis=0)[:-1] - kernels
    return Evidence((
        *of_the_hessian(), *numbers,
        MeasuredNumber("answers of kernels to sources, of drawn means, less (1 - D / L)^-1", sources(), 1e-8, 0.0),
        MeasuredNumber("covariances of two kernels less those of them in the other order", float(np.max(np.abs(
            sigma - sigma.T))), 1e-12, 0.0),
        MeasuredNumber("means of kernels, the same networks, less their limits", float(np.max(np.abs(off))), 3 / WIDTH,
                       0.0)))


ENTRY = Entry(
    key="depthwise_transfer/kernel_fluctuations",
    kind="proposition",
    title="fluctuations of kernels at finite width",
    source="Depthwise Hyperparameter Transfer, appendix H, (100), (102), (104) to (106), (108) and (111)",
    says="One input, before training: $\\phi_\\ell$ and $g_\\ell$ are fields of one site at a node, with nothing else "
         "counted. Second derivatives of the action vanish in two kernels, are $1 - D / L$ in a conjugate kernel and a "
         "kernel, and $\\kappa$ in two conjugate ones; responses do not mix with kernels there, as the signs of all "
         "gradients may be turned. $\\Sigma = (1 - D / L)^{-1} \\kappa (1 - D / L)^{-\\top}$ is then $N$ times the "
         "covariance of kernels over initializations.",
    statement=lambda: Equations((COVARIANCE, *KAPPAS, *SENSITIVITIES, KAPPA_BLOCKS, D_BLOCKS, VARIANCE)),
    assumptions=("width to infinity at fixed depth", "no step was made"),
    uses=("depthwise_transfer/path_integral", "depthwise_transfer/finite_size"),
    evidence=evidence,
)
