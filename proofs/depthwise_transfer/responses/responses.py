"""Response functions: what Gaussian sources of one matrix make of chi = W phi and xi = W^T g."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber

from tpcalc._types import Value

from ..._letters import Letters
from .._fields import Slope, fields, mean_of

t, s, ell = sp.symbols("t s ell", integer=True)
chi, xi, u, r, A, B, phi, g, Phi, G = fields("chi xi u r A B phi g Phi G")
TASK, DEPTH, SAMPLES, BATCHES = tp.Task([1.0, 0.8, -0.6], [0.9, -0.7, 0.5]), 5, 4096, 16


def statement() -> Equations:
    earlier, all_steps = (s, 0, t - 1), (s, 0, t)
    overlap = sp.Sum(A(t, s, ell) * G(s, t, ell + 1), earlier) + sp.Sum(Phi(t, s, ell) * B(t, s, ell), all_steps)
    return Equations((
        Equation(chi(t, ell + 1), u(t, ell + 1) + sp.Sum(A(t, s, ell) * g(s, ell + 1), earlier)),
        Equation(xi(t, ell), r(t, ell) + sp.Sum(B(t, s, ell) * phi(s, ell), all_steps)),
        Equation(A(t, s, ell), mean_of(Slope(phi(t, ell), r(s, ell)))),
        Equation(B(t, s, ell), mean_of(Slope(g(t, ell + 1), u(s, ell + 1)))),
        Equation(mean_of(chi(t, ell + 1) * g(t, ell + 1)), overlap)))


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
        for number, one in enumerate(statement().equations):
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
    source="Depthwise Hyperparameter Transfer, (22), (25), (26), (33) to (39), (47) to (49)",
    says="Width to infinity at finite depth: $u$ and $r$ are Gaussian with covariances $\\Phi$ and $G$, and "
         "independent of each other. By Stein's lemma one overlap of samples holds both responses, and causality "
         "parts them: $A$ is of earlier steps, $B$ of the same step too. Divided by $\\eta_0 \\mu_0 / \\sqrt L$ they "
         "are the rescaled ones.",
    statement=statement,
    assumptions=("width to infinity at fixed depth",),
    uses=("gaussian/stein", "gaussian/conditioning"),
    evidence=lambda: Evidence(numbers()),
)
