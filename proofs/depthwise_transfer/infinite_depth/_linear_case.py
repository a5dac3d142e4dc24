"""A linear network in the source's units, where every kernel and every field derivative of the DMFT is known."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc._types import Value
from tpcalc.ledger import Equation

from ..._letters import Letters
from .._fields import Slope
from ._stochastic_equations import c, ddphi, dphi, g, h, phi, s, t, tau

MU0, ETA0, TAU, DEPTH = 0.7, 0.8, 0.4, 6
C = MU0 * ETA0
TASK = tp.Task([1.0, 0.8, -0.6, 1.1], [0.9, -0.7, 0.5, 1.2])
STEPS, NODES, STEP = 4, 17, 1e-9
TIMES = (1 - np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)) / 2


class Case:
    """One input a step, four steps; kernels (t, s) at layer time TAU, slopes by interpolation, derivatives of fields.

    gh: <g_t h_s>; before: dh_t(TAU) / du_s a little later, h anticipating its noise; behind: dg_t(TAU) / dr_s a little
    earlier.
    """

    def __init__(self) -> None:
        self.raw = tp.theory.raw_problem(tp.theory.DepthwiseScaling(mu0=MU0, eta0=ETA0), tp.ResNet(), TASK, tp.oo)
        self.run = run = tp.train(self.raw.problem)
        found = tp.theory.order_parameters(run, self.raw, np.append(TIMES, TAU))
        self.curves = {name: getattr(found, name)[:, :, 0, :, 0] for name in "HGAB"}
        self.H, self.G, self.A, self.B = (self.curves[name][-1] for name in "HGAB")
        self.f, self.Delta = found.f[:, 0], found.Delta[:, 0]
        self.chi = (run.outputs - self.raw.problem.task.targets).ravel()
        self.earlier = np.tril(np.ones((STEPS, STEPS)), -1)
        self.Ch, self.Cg = self.kernels("H", "A")[-1], self.kernels("G", "B")[-1]
        self.gh = self.table(lambda t, s: run.cross_covariance(t, s, 1, 0, TAU, TAU) / self.chi[t])
        self.before = self.table(lambda t, s: run.gamma(t, s, 0, 0, TAU - STEP, TAU))
        self.behind = self.table(lambda t, s: run.gamma(t, s, 1, 1, TAU + STEP, TAU) * self.chi[s] / self.chi[t])

    def kernels(self, covariance: str, response: str) -> np.ndarray:
        """C_h or C_g at all layer times."""
        found: np.ndarray = self.earlier * self.curves[covariance] * self.Delta + self.curves[response]
        return found

    @staticmethod
    def table(entry: object) -> np.ndarray:
        return np.array([[entry(t, s) for s in range(STEPS)] for t in range(STEPS)])  # type: ignore[operator]

    def slope(self, name: str) -> np.ndarray:
        """The derivative in layer time, by Chebyshev interpolation."""
        return self.table(lambda t, s: curve(self.curves[name][:-1, t, s]).deriv()(TAU))

    @property
    def reading(self) -> Letters:
        """Letters at layer time TAU: averages are those of two fields, whose activation is linear."""
        numbers = {"Phi": self.H, "H": self.H, "G": self.G, "A": self.A, "B": self.B, "Ch": self.Ch, "Cg": self.Cg,
                   "J": self.before, "R": self.behind}
        tables: dict[str, Value] = {name: lambda a, b, _, table=table: table[a, b] for name, table in numbers.items()}
        slopes: dict[str, Value] = {"dphi": lambda *_: 1.0, "ddphi": lambda *_: 0.0,
                                    r"\Delta": lambda a: self.Delta[a]}
        return Letters({**tables, **slopes}, {c: C, tau: TAU}, self.mean)

    def mean(self, reading: Letters, body: sp.Expr) -> Value:
        return sum(self._mean_of_product(reading, term) for term in products(body))

    def _mean_of_product(self, reading: Letters, term: sp.Expr) -> Value:
        powers = term.as_powers_dict()
        of = [one for one, power in powers.items() if isinstance(one, (phi, g, h)) for _ in range(int(power))]
        rest = reading.of(sp.Mul(*(one**power for one, power in powers.items() if one not in of)))
        if rest == 0 or not of:
            return rest
        first, second = sorted(of, key=lambda one: not isinstance(one, g))  # gradients first
        table = self.H if not isinstance(first, g) else self.G if isinstance(second, g) else self.gh
        return rest * table[reading.of(first.args[0]), reading.of(second.args[0])]

    def slope_by(self, equation: Equation) -> np.ndarray:
        """The right side of an equation of kernels, (t, s)."""
        here = self.reading
        return self.table(lambda a, b: here.at({t: a, s: b}).of(equation.value))


@lru_cache(maxsize=None)
def products(value: sp.Expr) -> tuple[sp.Expr, ...]:
    """The terms of an average, derivatives of products of phi(h) and of its slope in h written out."""
    behind = {phi: dphi, dphi: ddphi}

    def derivative(product: sp.Expr, by: sp.Expr) -> sp.Expr:
        of = {one: sp.Dummy() for one in product.atoms(phi, dphi)}
        return sp.Add(*(product.xreplace(of).diff(x).xreplace({y: other for other, y in of.items()})
                        * behind[type(one)](*one.args) * sp.KroneckerDelta(one.args[0], by.args[0])
                        for one, x in of.items()))

    def written(of: sp.Expr, *by: sp.Expr) -> sp.Expr:
        return written(derivative(of, by[0]), *by[1:]) if by else of
    return sp.Add.make_args(sp.expand(value.replace(Slope, written)))


def curve(values: np.ndarray) -> np.polynomial.Chebyshev:
    return np.polynomial.Chebyshev.fit(TIMES, values, NODES - 1, domain=[0, 1])


@lru_cache(maxsize=None)
def case() -> Case:
    return Case()
