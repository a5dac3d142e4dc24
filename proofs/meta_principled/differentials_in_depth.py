"""The first power of the depth in dNTK and ddNTKs, which the paper takes from its reference."""

from __future__ import annotations

import math

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, MeasuredNumber, OrderBound, Slip, Witness
from tpcalc.studies.convergence import fit_order
from tpcalc.width.counting import contraction, preactivations
from tpcalc.width.jets import draw_weights, kernel_series, output_series
from tpcalc.width.measured import measure_differentials

WIDTH, WIDTHS, DEPTHS, SAMPLES, INPUT = 48, (24, 48, 96), (4, 8, 16), 400, np.array([1.0, -0.5])
BEND = 0.1  # what the next power of L / n does to a slope at these sizes
N, L = sp.symbols("n L", positive=True)
AVERAGES = Z_DH, Z_SQUARED, ONE, TWO, H = tuple(sp.Symbol(rf"{{E\left[{name}\right]}}") for name in (
    r"z \eta^2 dH", "z^2", r"\eta^3 dd_I H", r"\eta^3 dd_{II} H", r"\eta H"))
COMBINATIONS = (Z_DH / H**2, Z_SQUARED * ONE / H**3, Z_SQUARED * TWO / H**3)
CLAIM = Equations(tuple(Equation(combination, L / N, relation=r"\sim") for combination in COMBINATIONS))


def ratios(layers: int, width: int = WIDTH) -> tuple[np.ndarray, np.ndarray]:
    """The three combinations at s = 0, critical initialization of tanh, and their standard errors by batches."""
    widths = (2, *(width,) * (layers - 1), 1)
    sizes, rng = tp.meta_principled(0, layers).sizes(widths), np.random.default_rng(layers)
    batches = []
    for _ in range(10):
        drawn = draw_weights(sizes, widths, SAMPLES // 10, rng)
        f, kernel = output_series(drawn, INPUT, sizes, "tanh", 3), kernel_series(drawn, INPUT, sizes, "tanh", 2)
        z, rate, dH, one = f[0], f[1], 2 * f[2], 6 * f[3]
        two = kernel[2] - one
        batches.append([np.mean(x) for x in (z * dH, z**2, one, two, rate)])
    found = np.stack([sp.lambdify(AVERAGES, one.target)(*np.array(batches).T) for one in CLAIM.equations])
    return found.mean(axis=1), found.std(axis=1, ddof=1) / math.sqrt(len(batches))


def evidence() -> Evidence:
    """Powers of L at one width, and of n at the least depth."""
    return Evidence((*powers(L, DEPTHS, list(map(ratios, DEPTHS)), f"n = {WIDTH}"),
                     *powers(N, WIDTHS, [ratios(DEPTHS[0], width) for width in WIDTHS], f"L = {DEPTHS[0]}")))


def powers(of: sp.Symbol, sizes: tuple[int, ...], measured: list[tuple[np.ndarray, np.ndarray]], where: str
           ) -> tuple[MeasuredNumber, ...]:
    """The power of a size in each combination, against that which is claimed."""
    values, errors = (np.array(part).T for part in zip(*measured))
    found = []
    for name, claimed, value, error in zip(("dH", "dd_I H", "dd_II H"), CLAIM.equations, np.abs(values), errors):
        fitted = fit_order(np.array(sizes, dtype=float), value)
        spread = math.hypot(error[0] / value[0], error[-1] / value[-1]) / math.log(sizes[-1] / sizes[0])
        what = f"power of {of} in the combination with {name}, tanh, {sizes[0]} to {sizes[-1]}, {where}"
        found.append(MeasuredNumber(what, -fitted.order, max(spread, BEND), float(claimed.value.as_powers_dict()[of])))
    return tuple(found)


def linear_power(family: tp.WidthScaling) -> sp.Expr:
    """Without activations, at three layers, d^3 f along the gradient is 6 f^2 times |x|^2 and all three rates."""
    rates = sum((contraction(family.p[i], family.q[i], rates=1) for i in (1, 2)), -family.q[0])
    return sp.expand(rates + preactivations(family.p[-1]) + 3 * family.r)


LINEAR = OrderBound((r"E[\eta^3 dd_I H]",), linear_power(tp.meta_principled(0, layers=3)),
                    r"\text{linear activations, three layers}", "n")


def linear() -> Witness:
    """Linear perceptrons of three layers at s = 0."""
    family = tp.meta_principled(0, layers=3)
    third = measure_differentials(family, (16, 32, 64), highest=3, phi="linear", samples=3000, seed=3)[2]
    return Witness("power of n in E[eta^3 dd_I H] of a linear network of three layers at s = 0", third.slope,
                   max(third.slope_error, 0.02), float(tp.ntk_exponent(3, 0)),
                   float(LINEAR.power))


ENTRY = Entry(
    key="meta_principled/differentials_in_depth",
    kind="remark",
    title="dNTK and ddNTKs in powers of the depth",
    source="Meta-Principled Family, (4.3), (4.6), (4.9), footnote 16, after The Principles of Deep Learning Theory",
    says="At critical initialization and $s = 0$. Measured here for tanh; what a proof lacks is the solution of the "
         "forward equations at large depth for each class of activations.",
    statement=lambda: CLAIM,
    assumptions=("activations that are not linear", "critical initialization", "depth small against the width"),
    uses=("meta_principled/differentials_in_width", "meta_principled/dimensionless"),
    evidence=evidence,
    errata=(Erratum(Slip.INCOMPLETE, "(4.6), which names no activations", r"E[\eta^3 dd_I H] &= O(L/n)",
                    LINEAR.latex, linear),),
)
