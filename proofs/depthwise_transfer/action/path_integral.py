"""From averages over weights to an action of order parameters, whose saddle is the DMFT of finite depth."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import product

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, MeasuredNumber, Slip, Witness
from tpcalc.ledger.entry import line

from ._action import ACTION, HAMILTONIAN, SADDLE, Sites, Z, h, jh
from .._fields import Slope, mean_of
from ..networks.finite_network import ell, s, t

TASK, DEPTH, SCALING = tp.Task([1.0, 0.8, -0.6], [0.9, -0.7, 0.5]), 2, tp.theory.DepthwiseScaling(mu0=0.7, eta0=0.8)
SOURCE, START = 0.3, 1.2   # of all neurons at the end; the variance of h before the block

MOMENTS = Equation(mean_of(h(t, ell) * h(s, ell)), Slope(sp.log(Z), jh(t, ell), jh(s, ell)))


@lru_cache(maxsize=None)
def solved() -> Sites:
    """Sites at the kernels and responses that the solver finds, without sources."""
    raw = tp.theory.raw_problem(SCALING, tp.ResNet(), TASK, DEPTH)
    found = tp.theory.dmft(raw)
    H, K, A_, B_ = (getattr(found, name)[:, :, 0, :, 0].astype(complex) for name in ("H", "G", "A", "B"))
    c = SCALING.mu0 * SCALING.eta0
    nothing, none = np.zeros_like(A_), np.zeros(A_.shape[:2])
    return Sites({"Phi": H[:-1], "G": K[1:], "A": A_ * c / np.sqrt(DEPTH), "B": B_ * c / np.sqrt(DEPTH),
                  "Phih": nothing, "Gh": nothing}, found.Delta[:, 0], TASK.inputs[:, 0, 0], c, none, none)


def slope(sites: Sites, letter: str, where: tuple[int, int, int], step: float = 1e-5) -> complex:
    """The derivative of the action in one order parameter, by differences."""
    def at(change: float) -> complex:
        moved = sites.parameters[letter].copy()
        moved[where] += change
        return replace(sites, parameters={**sites.parameters, letter: moved}).action
    return (at(step) - at(-step)) / (2 * step)


def untrained(rng: np.random.Generator | None = None) -> Sites:
    """Random order parameters of two steps, and sources, of a network that has learnt nothing."""
    rng = np.random.default_rng(0) if rng is None else rng

    def draw() -> np.ndarray:
        return 0.2 * rng.normal(size=(DEPTH, 2, 2)) + 0j
    roots = [draw() + np.eye(2) for _ in range(2)]
    hats = [0.2 * (one + one.transpose(0, 2, 1)) for one in (draw(), draw())]
    kernels = [root @ root.transpose(0, 2, 1) for root in roots]
    return Sites(dict(zip(("Phi", "G", "Phih", "Gh", "A", "B"), (*kernels, *hats, draw(), draw()))), np.zeros(2),
                 np.array([1.0, 0.7]), 0.0, rng.normal(size=(DEPTH, 2)), rng.normal(size=(DEPTH, 2)))


def slopes() -> float:
    """The largest difference between a slope of the action and what is zero at the saddle by (33)."""
    sites, worst = untrained(), 0.0
    for letter, equation, sign in (("Phih", SADDLE[0], 1), ("Gh", SADDLE[1], 1), ("B", SADDLE[2], -1),
                                   ("A", SADDLE[3], -1), ("Phi", SADDLE[4], 1), ("G", SADDLE[5], 1)):
        found = sites.residual(equation)
        turned = found.transpose(0, 2, 1) if letter in "AB" else found   # A of (t, s) goes with B of (s, t)
        for where in ((0, 1, 0), (1, 1, 1)):
            worst = max(worst, abs(slope(sites, letter, where) - sign * turned[where]))
    return worst


def one_block(Phi_: complex, Phih_: complex) -> Sites:
    """A block of an untrained network with a source at its end."""
    def as_parameter(value: complex) -> np.ndarray:
        return np.array([[[value]]], dtype=complex)
    parameters = dict(zip(("Phi", "Phih", "G", "Gh", "A", "B"), map(as_parameter, (Phi_, Phih_, 1.0, 0.0, 0.0, 0.0))))
    return Sites(parameters, np.zeros(1), np.array([np.sqrt(START)]), 0.0, np.array([[SOURCE]]), np.zeros((1, 1)))


@lru_cache(maxsize=None)
def saddle_with_source(turned: bool = False) -> Sites:
    """By iteration of (33), or of (33) with the printed sign of the conjugate kernel."""
    sites = one_block(START, 0.0)
    for _ in range(4):   # the slopes are linear here: it ends after two
        gone = [sites.residual(SADDLE[k])[0, 0, 0] for k in (0, 4)]
        Phi_, Phih_ = (sites.parameters[name][0, 0, 0] - one for name, one in zip(("Phi", "Phih"), gone))
        sites = one_block(Phi_, -Phih_ if turned else Phih_)
    return sites


def exact_functional() -> float:
    """ln E exp(j sum of h^2) / N of N neurons: given h^1, h^2 is Gaussian, and neurons of h^1 are independent."""
    points, weights = np.polynomial.hermite_e.hermegauss(80)
    first = np.sqrt(START) * points
    return float(np.log(weights @ np.exp(SOURCE * first + SOURCE**2 * first**2 / 2) / np.sqrt(2 * np.pi)))


def second_moment(later: int, earlier: int, step: float = 1e-3) -> float:
    """<h h> of two steps behind the last block by (21), in which derivatives are differences."""
    def differentiated(of: sp.Expr, *by: sp.Expr) -> sp.Expr:
        total = sp.Integer(0)
        for signs in product((1, -1), repeat=len(by)):
            sources = np.zeros(solved().shape)
            for sign, source in zip(signs, by):
                assert type(source) is jh
                at, node = map(int, source.args)
                sources[node - 2, at] += sign * step
            log_z = replace(solved(), jh=sources).log_z.real
            total += sp.prod(signs) * of.subs(Z, sp.exp(log_z)) / (2 * step)**len(by)
        return total
    return float(MOMENTS.value.subs({t: later, s: earlier, ell: DEPTH + 1}).replace(Slope, differentiated))


def evidence() -> Evidence:
    sites, where = solved(), f"linear, L = {DEPTH}, {TASK.steps} steps"
    flat = [abs(slope(sites, letter, (1, 2, 1))) for letter in ("Phih", "A", "B")]
    orders = tp.theory.dmft(tp.theory.raw_problem(SCALING, tp.ResNet(), TASK, DEPTH)).H[-1, :, 0, :, 0]
    return Evidence((
        MeasuredNumber(f"slopes of (30) there, {where}", max(flat), 1e-8, 0.0),
        MeasuredNumber(f"ln Z of (31) without sources and conjugate kernels, {where}", abs(sites.log_z), 1e-12, 0.0),
        *(MeasuredNumber(f"<h_{later} h_{earlier}> at the end by (21), {where}", second_moment(later, earlier), 1e-6,
                         float(orders[later, earlier])) for later, earlier in ((1, 0), (2, 1))),
        MeasuredNumber("(29), the action at its saddle with a source, one block", saddle_with_source().action.real,
                       1e-10,
                       exact_functional())))


def action_witness() -> Witness:
    """Z itself, in the place of its logarithm, at the same saddle."""
    sites = saddle_with_source()
    printed = sites.action - sites.log_z + np.exp(sites.log_z)
    return Witness("the log functional of N neurons over N, one block with a source at its end", exact_functional(),
                   1e-10, float(printed.real), float(sites.action.real))


def measure_witness() -> Witness:
    return Witness("ln Z at the solver's order parameters, linear", 0.0, 1e-12, None, float(solved().log_z.real))


def saddle_witness() -> Witness:
    """The printed sign ends at another value; its layer, the one before, has no conjugate field at all."""
    return Witness("the log functional of N neurons over N, one block with a source at its end", exact_functional(),
                   1e-10, float(saddle_with_source(True).action.real), float(saddle_with_source().action.real))


ENTRY = Entry(
    key="depthwise_transfer/path_integral",
    kind="proposition",
    title="the action of the order parameters",
    source="Depthwise Hyperparameter Transfer, appendix D.3, (20), (21), (23), (26) to (32), (74)",
    says="$L$ blocks between nodes $1$ and $L + 1$, one input a step. $\\hat\\chi$ and $\\hat\\xi$ enforce what "
         "$\\chi$ and $\\xi$ are; $H$ is the energy of one site, $Z$ its partition function, $S$ the action of order "
         "parameters, with weight $e^{N S}$. Read for linear networks, whose "
         "sites are Gaussian, the solver's kernels and responses are its saddle.",
    statement=lambda: Equations((HAMILTONIAN, ACTION, MOMENTS)),
    assumptions=("width to infinity at fixed depth", "plain gradient descent"),
    uses=("depthwise_transfer/finite_network", "depthwise_transfer/averages_over_weights"),
    evidence=evidence,
    errata=(
        Erratum(Slip.MISPRINT, "(30) and (74): $Z_i$ for $\\ln Z_i$; (77) has the logarithm",
                r"S &= \ldots + \tfrac{1}{N} \sum_i Z_i", lambda: line(ACTION.target, ACTION.value), action_witness),
        Erratum(Slip.MISPRINT, "(31): the measure of one field four times", r"Z_i &= \int \prod d\hat\chi\, "
                r"d\hat\chi\, d\hat\chi\, d\hat\chi\, e^{-H}", lambda: line(HAMILTONIAN.target, HAMILTONIAN.value),
                measure_witness),
    ),
)
