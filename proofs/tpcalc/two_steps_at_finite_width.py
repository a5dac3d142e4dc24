"""Two steps of one input at infinite depth: the covariance of the outputs in closed form."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp
from sympy.polys.rings import ring

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Proof
from tpcalc.ledger.proof import Identity

from .._line import NET

NAMES = ("tau", "xi_0", "xi_1", "y_0", "chi_1", "eta", "E")  # E: exp(1), or 1 without noise
RING, TAU, XI0, XI1, Y, CHI1, ETA, E = ring(",".join(NAMES), sp.QQ)
SYMBOLS = dict(zip(NAMES, RING.symbols))
ROWS = 4  # x_0, x_1 and their partners
Series = np.ndarray  # (2, ROWS, ROWS) of polynomials: orders 0 and 1 in the tilt


def times(one: Series, two: Series) -> Series:
    """To first order in the tilt."""
    return np.stack([one[0] @ two[0], one[0] @ two[1] + one[1] @ two[0]])


def resolvent(one: Series, two: Series) -> Series:
    """(1 - A B)^-1 A; the series ends, because products answer ever earlier steps, or ever higher orders of the
    tilt."""
    product, term, total = times(one, two), one, one
    for _ in range(4 * ROWS):
        term = times(product, term)
        total = total + term
    assert not np.any(term)
    return total


def density(C: Series, noise: int, first: int) -> Series:
    """[tpcalc/overlap_action] for two steps, in units of layer time: drift eta from the first step to the second."""
    found, second = C * noise, 2 - first
    for i, j in ((first + 1, second), (second, first + 1)):
        found[:, i, j] -= C[:, first + 1, first] * ETA
    for i, j in ((second, second + 1), (second + 1, second)):  # of the earlier step's signal, the later one's partner
        found[:, i, j] -= C[:, first, second + 1] * ETA
    return found


def primitive(value: Any, forward: bool) -> Any:
    """The integral in layer time from 0, or to 1."""
    whole = RING.from_dict({(power[0] + 1, *power[1:]): c / (power[0] + 1) for power, c in value.terms()})
    return whole if forward else whole.compose(TAU, RING.one) - whole


integrals = np.vectorize(primitive, otypes=[object])
at_the_end = np.vectorize(lambda value: value.compose(TAU, RING.one), otypes=[object])


class Solution:
    """The tilted equations at infinite depth, with Pi = exp(tau) P and R = exp(-tau) Q where there is noise.

    In P and Q exponentials cancel, P' = Theta - noise P + P Omega P and -Q' = Omega - noise Q + Q Theta Q: polynomials
    in layer time, found by integrating again and again, which ends because an answer needs earlier steps only. """

    def __init__(self, noise: int, direction: int) -> None:
        self.noise, self.direction = noise, direction
        self.P, self.Q = np.full((2, 2, ROWS, ROWS), RING.zero)
        self.P[0, :2, :2] = np.outer([XI0, XI1], [XI0, XI1])
        start = self.P
        self.chi, self.z, self.f = np.full((3, 2, 2), RING.zero)
        for _ in range(12):
            before = self.P, self.Q
            self.P = start + integrals(self.rates(True), True)
            end = self.read_out()
            self.Q = end + integrals(self.rates(False), False)
            if np.array_equal(before, (self.P, self.Q)):
                return
        raise ArithmeticError("no solution in polynomials")

    def rates(self, forward: bool) -> Series:
        own, other, first = (self.P, self.Q, 0) if forward else (self.Q, self.P, 2)
        made = density(resolvent(own, other), self.noise, first)
        theirs = density(resolvent(other, own), self.noise, 2 - first)
        return made + times(times(own, theirs), own) - own * self.noise

    def read_out(self) -> Series:
        """Q at the end, E u u^T, after f and z have been read of P there."""
        overlaps, u = resolvent(at_the_end(self.P), self.outer()), self.entering()
        leaving = np.stack([overlaps[0] @ u[0], overlaps[0] @ u[1] + overlaps[1] @ u[0]]) * E
        self.f, self.z, self.chi = leaving[:, :2], leaving[:, 2:], leaving[:, :2].copy()
        self.chi[0] = leaving[0, 0] - Y, CHI1
        return self.outer()

    def entering(self) -> np.ndarray:
        found = np.concatenate([self.z, self.chi], axis=1)
        found[1, self.direction] = found[1, self.direction] + RING.one
        return found

    def outer(self) -> Series:
        one, two = self.entering()
        return np.stack([np.outer(one, one), np.outer(one, two) + np.outer(two, one)]) * E


@lru_cache(maxsize=None)
def solution(noise: int, direction: int) -> Solution:
    return Solution(noise, direction)


SIGMA = ((0, 0), (0, 1), (1, 1))
Z, W = sp.symbols("z w")
EULER = sp.exp(1)


def symbol(t: int, s: int, noise: int) -> sp.Symbol:
    prime = "" if noise else "'"
    return sp.Symbol(rf"\Sigma{prime}_{{{t}{s}}}")


def value(t: int, s: int, noise: int) -> sp.Expr:
    """Sigma_ts as it is found."""
    found = solution(noise, s).f[1][t].as_expr()
    return sp.expand(found.subs(SYMBOLS["E"], EULER if noise else 1))


def in_z_and_w(expression: sp.Expr, t: int, s: int) -> sp.Expr:
    """By z = eta xi_0^2 and w = eta xi_0 y_0, after the inputs of both rows are taken out."""
    inputs = SYMBOLS["xi_0"], SYMBOLS["xi_1"]
    rest = sp.expand(expression / (inputs[t] * inputs[s]))
    put = {SYMBOLS["xi_0"]: 1, SYMBOLS["eta"]: Z, SYMBOLS["y_0"]: W / Z}
    return inputs[t] * inputs[s] * sp.collect(sp.expand(rest.subs(put)), W)


def back(expression: sp.Expr) -> sp.Expr:
    xi, eta, y = (SYMBOLS[name] for name in ("xi_0", "eta", "y_0"))
    return sp.expand(expression.subs({Z: eta * xi**2, W: eta * xi * y}))


def results() -> list[tuple[sp.Symbol, sp.Expr]]:
    return [(symbol(t, s, noise), back(in_z_and_w(value(t, s, noise), t, s))) for noise in (1, 0) for t, s in SIGMA]


def statement() -> Equations:
    return Equations(tuple(Equation(target, found, r"\alpha = \gamma = \tfrac{1}{2}" if "'" not in str(target) else
                                    r"\alpha > \tfrac{1}{2}") for target, found in results()))


@lru_cache(maxsize=None)
def steps() -> tuple[Identity, ...]:
    """The polynomials solve the equations, entry by entry, and the read-out of them is Sigma."""
    found: list[Identity] = []

    def add(left: sp.Expr, before: sp.Expr, after: sp.Expr, rule: str, reason: str) -> None:
        found.append(Identity(len(found) + 1, left, before, after, rule, reason, "tpcalc [tpcalc/finite_width]"))

    time = SYMBOLS["tau"]
    for noise in (1, 0):
        for direction in (0, 1):
            one = solution(noise, direction)
            for name, values, forward in (("P", one.P, True), ("Q", one.Q, False)):
                rates = one.rates(forward)
                for order in (0, 1) if direction == 0 else (1,):
                    for i in range(ROWS):
                        for j in range(i, ROWS):
                            polynomial = values[order][i][j].as_expr()
                            if polynomial.has(time):
                                mark = f"{direction}" * order + "'" * (1 - noise)
                                left = sp.Symbol(rf"\partial_\tau {name}^{{({order}){mark}}}_{{{i}{j}}}")
                                sign = 1 if forward else -1
                                add(left, polynomial.diff(time), sp.expand(sign * rates[order][i][j].as_expr()),
                                    "solution", "the slope of the polynomial found is what the tilted equations say")
    for noise in (1, 0):
        for t, s in SIGMA:
            add(symbol(t, s, noise), value(t, s, noise), back(in_z_and_w(value(t, s, noise), t, s)), "read-out",
                "the first order of f in the tilt, in the solution at layer time 1")
    return tuple(found)


def _numbers(rng: np.random.Generator) -> float:
    """Both sides of every step, and Sigma by symmetry: f_0 under the tilt of f_1 is f_1 under that of f_0."""
    draw = dict(zip(RING.symbols, rng.uniform(0.3, 1.0, len(NAMES))))
    worst = 0.0
    for step in steps():
        before, after = (float(side.subs(draw)) for side in (step.before, step.after))
        worst = max(worst, abs(before - after) / max(1.0, abs(after)))
    for noise in (1, 0):
        pair = [float(value(*location, noise).subs(draw)) for location in ((0, 1), (1, 0))]
        worst = max(worst, abs(pair[0] - pair[1]))
    return worst


def derive() -> Proof:
    return Proof(steps(), _numbers, "both sides of every step at random numbers, and that Sigma is symmetric")


def evidence() -> Evidence:
    """The solver at infinite depth."""
    numbers = []
    xi, y, eta = (0.9, 0.7), (0.8, 0.3), 0.6
    put = {SYMBOLS["xi_0"]: xi[0], SYMBOLS["xi_1"]: xi[1], SYMBOLS["y_0"]: y[0], SYMBOLS["eta"]: eta}
    known = {target: float(found.subs(put)) for target, found in results()}
    for alpha, noise in ((0.5, 1), (0.75, 0)):
        run = tp.train(NET, tp.Task(xi, y), tp.SGD(eta), tp.DepthScaling(alpha, 1 - alpha), tp.oo)
        covariance = run.fluctuations.covariance.reshape(2, 2)
        for t, s in SIGMA:
            numbers.append(MeasuredNumber(f"Sigma_{t}{s} by the solver, alpha = {alpha}", float(covariance[t, s]),
                                          run.fluctuations.covariance_error + 1e-13, known[symbol(t, s, noise)]))
    return Evidence(tuple(numbers))


ENTRY = Entry(
    key="tpcalc/two_steps_at_finite_width",
    kind="proposition",
    title="the covariance of two steps at infinite depth",
    source="tpcalc (new)",
    says="One input a step, squared loss, frozen embedding and readout, plain gradient descent of learning rate "
         "$\\eta$: $\\Sigma_{ts} = \\lim n\\, \\mathrm{Cov}(f_t, f_s)$ of the outputs before and after the first "
         "update, at infinite depth; with a prime for $\\alpha > 1/2$, $\\gamma = 1 - \\alpha$. With $\\Pi = "
         "e^{\\tau} P$, $R = e^{-\\tau} Q$ the tilted equations have polynomials in layer time for solutions, $P' = "
         "\\Theta - P + P \\Omega P$, $-Q' = \\Omega - Q + Q \\Theta Q$, and $Q = e\\, u u^\\top$ at $\\tau = 1$; "
         "without noise there are no exponentials.",
    statement=statement,
    assumptions=("width to infinity, then depth; leading order in $1/n$",),
    uses=("tpcalc/finite_width", "tpcalc/overlap_action"),
    derive=derive,
    evidence=evidence,
)
