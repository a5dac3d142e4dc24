"""Drift and noise of steps on batches, and the rates that keep both where batches grow on the same data."""

from __future__ import annotations

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.horizon.batches import batch_step, below_critical
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Proof, Rate

from ._steps import Simplified

BATCH, DATA, RATE, MEAN, NOISE, DEGREE, RANK = sp.symbols(r"B D \eta m \sigma k r", positive=True)
DRIFT, VARIANCE, FIXED, GROWING = sp.symbols(r"d V \eta_r(B)/\eta_r(1) \eta_B(B)/\eta_B(1)")
SIZES, WIDTH, SMALL = (2, 4, 8, 16), 96, 1e-4


def statement() -> Equations:
    drift = DATA * RATE * MEAN * NOISE ** (DEGREE - 1) * BATCH ** (-(DEGREE + 1) / 2) * RANK ** ((1 - DEGREE) / 2)
    variance = DATA * RATE**2 * NOISE ** (2 * DEGREE) * BATCH ** (-DEGREE - 1) * RANK ** (1 - DEGREE)
    return Equations((Equation(DRIFT, drift), Equation(VARIANCE, variance),
                      Equation(FIXED, BATCH ** ((DEGREE + 1) / 2)), Equation(GROWING, BATCH**DEGREE)))


def kept(total: sp.Expr, rank: sp.Expr) -> sp.Expr:
    """The rate that makes of a batch what rate 1 makes of a batch of one, all being a power of the rate."""
    here = total.subs(RANK, rank)
    power = sp.degree(here, RATE)
    return (here.subs({BATCH: 1, RATE: 1}) / here.subs(RATE, 1)) ** (sp.Integer(1) / power)


def derive() -> Proof:
    drift, variance, fixed, growing = (equation.value for equation in statement().equations)
    value, steps = NOISE / sp.sqrt(BATCH * RANK), DATA / BATCH
    known = steps * RATE * MEAN * value ** (DEGREE - 1), steps * RATE**2 * RANK * value ** (2 * DEGREE)
    said = "a mean of B samples has the noise sigma / B^(1/2), of r singular values"
    made = [Simplified(1, DRIFT, known[0], drift, "direction", f"{said}, beside which the mean m is turned with them"),
            Simplified(2, VARIANCE, known[1], variance, "direction", f"{said}, each to the power k")]
    for total, of in zip(known, ("drift", "noise")):
        made += [Simplified(len(made) + 1, FIXED, kept(total, RANK), fixed, "solve", f"of the same {of}, at one rank"),
                 Simplified(len(made) + 2, GROWING, kept(total, BATCH), growing, "solve",
                            f"of the same {of}, where the rank is the batch")]
    return Proof(made, numbers, "powers that verdicts and rules of transfer take, at random sizes")


def numbers(rng: np.random.Generator) -> float:
    """Drift and variance of two batches, and rates, beside what the package counts."""
    drift, variance, fixed, growing = (equation.value for equation in statement().equations)
    worst = 0.0
    for opt, degree, grows in ((tp.SGD(), 1, False), (tp.SignSGD(), 0, False), (tp.NormalizedSGD(), 0, False),
                               (tp.Muon(), 0, True)):
        known = {one: sp.Float(rng.uniform(0.5, 2)) for one in (DATA, RATE, MEAN, NOISE)}
        batch = sp.Float(rng.uniform(2, 9))
        step, letter = batch_step(opt, "width" if grows else "fixed"), sp.Symbol("b", nonnegative=True)
        rank = BATCH if grows else sp.Float(rng.uniform(1, 5))
        totals = [one.subs({**known, DEGREE: degree}).subs(RANK, rank) for one in (drift, variance)]
        below = {sp.Symbol("n", nonnegative=True): 1000}  # a batch below the width
        by_drift, by_noise = (below_critical(one).subs(below).subs(sp.Min(1000, letter), letter).coeff(letter)
                              for one in (step.drift, step.noise))
        counted = by_drift - 1, 2 * by_noise - 1  # with D/B steps
        for total, power in zip(totals, counted):
            worst = max(worst, abs(float(total.subs(BATCH, batch) / total.subs(BATCH, 1) / batch**power) - 1))
        region, = [one for one in tp.transfer_rule(opt).regions if one.where != "above the width"]
        said = (growing if grows else fixed).subs({DEGREE: degree, BATCH: batch})
        worst = max(worst, abs(float(said / batch**region.rate.at_fixed_data) - 1))
        level = [float((one.subs({**known, DEGREE: degree, RANK: 1, BATCH: 1}) / value) - 1) for one, value in zip(
            (drift, variance), (known[DATA] * known[RATE] * known[MEAN] * known[NOISE] ** (degree - 1),
                                known[DATA] * known[RATE] ** 2 * known[NOISE] ** (2 * degree)))]
        worst = max(worst, *map(abs, level))
    return worst


def along(batch: int, orthogonal: bool, rng: np.random.Generator) -> float:
    """What a small linear map of inputs, in gradients that are noise, adds to a direction along itself: differences of
    directions from both sides."""
    found = []
    for _ in range(16):
        noise, inputs = rng.normal(size=(2, WIDTH, batch))
        mean = rng.normal(size=(WIDTH, WIDTH)) / WIDTH
        plus, minus = (direction((noise + sign * SMALL * mean @ inputs) @ inputs.T / batch, orthogonal)
                       for sign in (1, -1))
        found.append(float(np.sum((plus - minus) * mean)) / (2 * SMALL))
    return float(np.mean(found))


def direction(gradient: np.ndarray, orthogonal: bool) -> np.ndarray:
    if not orthogonal:
        return np.asarray(gradient / np.linalg.norm(gradient))
    left, values, right = np.linalg.svd(gradient)
    some = values > 1e-9 * values[0]
    return np.asarray(left[:, some] @ right[some[:len(right)]])


def trained(batch: int, rate: float, samples: int, seed: int) -> np.ndarray:
    """Weights of 4000 networks of four inputs after so many samples, by steps along normalized gradients."""
    rng, w = np.random.default_rng(seed), np.zeros((4000, 4))
    for _ in range(samples // batch):
        x = rng.normal(size=(4000, batch, 4))
        error = np.einsum("rbi,ri->rb", x, w) - 0.2 * x[..., 0] - rng.normal(size=(4000, batch))
        gradient = np.einsum("rb,rbi->ri", error, x) / batch
        w = w - rate * gradient / np.linalg.norm(gradient, axis=1, keepdims=True)
    return w[:, 0]


def evidence() -> Evidence:
    """Matrices of noise, and trainings that see the same data in batches of 8 and 32 at twice the rate."""
    rng = np.random.default_rng(0)
    muon, norm = (tuple(1 / along(batch, orthogonal, rng) for batch in SIZES) for orthogonal in (True, False))
    small, large = trained(8, 0.004, 1024, 1), trained(32, 0.008, 1024, 2)
    error = float(np.hypot(small.std(), large.std())) / len(small) ** 0.5
    return Evidence((MeasuredNumber("weights after the same data in batches of 8, over those of 32 at twice the rate",
                                    float(small.mean() / large.mean()), error / float(large.mean()) + 0.02, 1.0),),
                    (Rate("one over the drift of orthogonal steps of rank B", "B", 1.0, SIZES, muon, allowance=0.15),
                     Rate("one over the drift of normalized steps", "B", 0.5, SIZES, norm, allowance=0.1)))


ENTRY = Entry(
    key="tpcalc/batches",
    kind="proposition",
    title="drift and noise of all steps say how the rate goes with the batch",
    source="tpcalc (new)",
    says="Steps of rate $\\eta$ along directions of degree $k$ in the gradient, on batches of $B$ fresh samples, below "
         "the critical batch: a sample's noise is of size $\\sigma$, its mean $m$ is small beside $\\sigma B^{-1/2}$. "
         "Directions of whole matrices are of that degree in each of the $r$ singular values of the noise, others have "
         "$r = 1$. $D / B$ steps drift by $d$ and have the variance $V$. Both are those of $B = 1$ at the same data "
         "where the rate goes like $\\eta_r$, at one rank, or like $\\eta_B$, where the rank is the batch: gradient "
         "descent like $B$, signs, Adam, normalized gradients like $B^{1/2}$, Muon above the width, too, and like "
         "$B^0$ below it. On spheres what a step adds to the norm is of drift and variance as well.",
    statement=statement,
    assumptions=("batches below the critical one", "small steps", "fresh samples"),
    derive=derive,
    evidence=evidence,
)
