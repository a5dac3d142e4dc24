"""The action of the order parameters at finite depth as expressions, and read for a linear network."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, Iterator, Mapping, Sequence

import numpy as np
import sympy as sp

from tpcalc._types import Value
from tpcalc.ledger import Equation

from ..._letters import Letters
from .._fields import Field, fields, mean_of
from ..networks._network_rules import G, Phi, chi, chih, g, h, phi, xih
from ..networks.finite_network import BACKWARD, FORWARD, c, depth, ell, s, t

T = sp.Symbol("T", integer=True)
Z = sp.Symbol("Z")
xi, Phih, Gh, A, B, jh, jg = fields("xi Phih Gh A B jh jg")
STEPS, BLOCKS = ((s, 0, T - 1), (t, 0, T - 1)), (ell, 1, depth)

QUADRATIC = sp.Rational(1, 2) * Phi(t, s, ell) * chih(t, ell + 1) * chih(s, ell + 1) + sp.Rational(1, 2) * G(
    t, s, ell + 1) * xih(t, ell) * xih(s, ell)
KERNEL_PART = Phih(t, s, ell) * phi(t, ell) * phi(s, ell) + Gh(t, s, ell + 1) * g(t, ell + 1) * g(s, ell + 1)
RESPONSE_PART = sp.I * A(t, s, ell) * chih(t, ell + 1) * g(s, ell + 1) + sp.I * B(t, s, ell) * xih(t, ell) * phi(s, ell)
LINEAR = sp.I * chih(t, ell + 1) * chi(t, ell + 1) + sp.I * xih(t, ell) * xi(t, ell) + jh(t, ell + 1) * h(
    t, ell + 1) + jg(t, ell) * g(t, ell)
HAMILTONIAN = Equation(sp.Symbol("H"), sp.Sum(QUADRATIC + KERNEL_PART + RESPONSE_PART, *STEPS, BLOCKS)
                       - sp.Sum(LINEAR, STEPS[1], BLOCKS))
ACTION = Equation(sp.Symbol("S"), sp.Sum(Phi(t, s, ell) * Phih(t, s, ell) + G(t, s, ell + 1) * Gh(
    t, s, ell + 1) - A(t, s, ell) * B(s, t, ell), *STEPS, BLOCKS) + sp.log(Z))
SADDLE = (Equation(Phi(t, s, ell), mean_of(phi(t, ell) * phi(s, ell))),
          Equation(G(t, s, ell + 1), mean_of(g(t, ell + 1) * g(s, ell + 1))),
          Equation(A(t, s, ell), -sp.I * mean_of(phi(t, ell) * xih(s, ell))),
          Equation(B(t, s, ell), -sp.I * mean_of(g(t, ell + 1) * chih(s, ell + 1))),
          Equation(Phih(t, s, ell), mean_of(chih(t, ell + 1) * chih(s, ell + 1)) / 2),
          Equation(Gh(t, s, ell + 1), mean_of(xih(t, ell) * xih(s, ell)) / 2))
COUNTED_AFTER = {"G", "Gh", "chi", "chih"}   # counted by the node behind a block


def location(name: str, node: int) -> int:
    """The block of a letter, from 0."""
    return node - (2 if name in COUNTED_AFTER else 1)


@lru_cache(maxsize=None)
def terms(energy: sp.Expr) -> tuple[tuple[sp.Expr, tuple[Field, ...], sp.Tuple], ...]:
    """The terms of a sum of sums: coefficient, one or two fields of sites, and what is summed over."""
    found = []
    for part in sp.Add.make_args(energy):
        total, = part.atoms(sp.Sum)
        for term in sp.Add.make_args(sp.expand(part / total * total.function)):
            sites = tuple(one for one in sp.Mul.make_args(term) if type(one).__name__ in Sites.LETTERS)
            found.append((term / sp.Mul(*sites), sites, total.limits))
    return tuple(found)


def summands(reading: Letters, limits: Sequence[sp.Tuple]) -> Iterator[Letters]:
    """A reading for every value of what is summed over."""
    if not limits:
        yield reading
        return
    *inner, (index, first, last) = limits
    for k in range(reading.of(first), reading.of(last) + 1):
        yield from summands(reading.at({index: k}), inner)


@dataclass(frozen=True)
class Sites:
    """Single sites of a linear network, whose density is Gaussian, given order parameters.

    parameters: by letter (L, T, T), of blocks, complex; jh, jg: sources (L, T); Delta, inputs: (T,); c: eta0 mu0.
    """

    parameters: Mapping[str, np.ndarray]
    Delta: np.ndarray
    inputs: np.ndarray
    c: float
    jh: np.ndarray
    jg: np.ndarray
    energy: sp.Expr | None = None  # None: the Hamiltonian as it is printed
    LETTERS = ("h", "g", "phi", "chi", "xi", "chih", "xih", "hh", "gh", "u", "r")
    NORMAL: ClassVar[tuple[str, ...]] = ("U", "w")   # rows that are normal variables

    @property
    def shape(self) -> tuple[int, int]:
        return self.jh.shape  # type: ignore[return-value]

    @cached_property
    def reading(self) -> Letters:
        """Coefficients."""
        L, steps = self.shape
        tables: dict[str, Value] = {name: lambda t_, s_, node, name=name: self.parameters[name][
            location(name, node), t_, s_] for name in self.parameters}
        tables["jh"], tables["jg"] = (lambda t_, node: self.jh[node - 2, t_]), (lambda t_, node: self.jg[node - 1, t_])
        tables[r"\Delta"], tables["dphi"] = (lambda s_: self.Delta[s_]), (lambda t_, node: 1.0)
        return Letters(tables, {depth: L, T: steps, c: self.c})

    @cached_property
    def rows(self) -> dict[tuple[str, int, int], np.ndarray]:
        """(letter, t, node) -> coefficients in the integration variables, by the network's own recursions."""
        L, steps = self.shape
        names = [(name, t_, k + (2 if name in COUNTED_AFTER else 1)) for name in ("chih", "xih", "chi", "xi")
                 for t_ in range(steps) for k in range(L)] + [("U", 0, 0), ("w", 0, 0)]
        unit = dict(zip(names, np.eye(len(names), dtype=complex)))
        found: dict[tuple[str, int, int], np.ndarray] = dict(unit)
        tables: dict[str, Value] = {name: lambda *key, name=name: found[name, key[0], key[1]]
                                    for name in ("h", "g", "chi")}
        tables.update(phi=tables["h"], r=lambda *key: found["xi", key[0], key[1]])
        reading = Letters({**self.reading.fields, **tables}, self.reading.symbols)
        for t_ in range(steps):
            found["h", t_, 1], found["g", t_, L + 1] = self.inputs[t_] * unit["U", 0, 0], unit["w", 0, 0]
            for node in range(1, L + 1):
                found["h", t_, node + 1] = reading.at({t: t_, ell: node}).of(FORWARD.value)
            for node in range(L, 0, -1):
                found["g", t_, node] = reading.at({t: t_, ell: node}).of(BACKWARD.value)
        found.update({("phi", *key[1:]): row for key, row in list(found.items()) if key[0] == "h"})
        return found

    def row(self, reading: Letters, one: Field) -> np.ndarray:
        return self.rows[(type(one).__name__, *map(reading.of, one.args))]

    @cached_property
    def form(self) -> tuple[np.ndarray, np.ndarray]:
        """M and J of exp(-z M z / 2 + J z)."""
        size = len(self.rows["U", 0, 0])
        M, J = np.zeros((size, size), dtype=complex), np.zeros(size, dtype=complex)
        for key, row in self.rows.items():
            M += (key[0] in self.NORMAL) * np.outer(row, row)
        for coefficient, sites, limits in terms(HAMILTONIAN.value if self.energy is None else self.energy):
            for here in summands(self.reading, limits):
                value, rows = here.of(coefficient), [self.row(here, one) for one in sites]
                if len(rows) == 1:
                    J -= value * rows[0]
                else:
                    M += value * (np.outer(*rows) + np.outer(*rows).T)
        return M, J

    @cached_property
    def log_z(self) -> complex:
        M, J = self.form
        sign, size = np.linalg.slogdet(M)
        return complex(-(np.log(sign) + size) / 2 + J @ np.linalg.solve(M, J) / 2)

    @cached_property
    def moments(self) -> np.ndarray:
        """<z z>."""
        M, J = self.form
        inverse = np.linalg.inv(M)
        found: np.ndarray = inverse + np.outer(inverse @ J, inverse @ J)
        return found

    def residual(self, equation: Equation) -> np.ndarray:
        """Left side less right side at all blocks and pairs of steps, (L, T, T)."""
        L, steps = self.shape
        reading = Letters(self.reading.fields, self.reading.symbols, self.mean)
        difference = equation.target - equation.value
        return np.array([[[reading.at({t: a, s: b, ell: node}).of(difference) for b in range(steps)]
                          for a in range(steps)] for node in range(1, L + 1)])

    def mean(self, reading: Letters, body: sp.Expr) -> complex:
        """The mean of a product of two fields of sites and numbers."""
        sites = [one for one in body.args if type(one).__name__ in self.LETTERS]
        first, second = (self.row(reading, one) for one in sites)
        return complex(first @ self.moments @ second) * reading.of(body / sp.Mul(*sites))

    @property
    def action(self) -> complex:
        return complex(self.reading.at({Z: np.exp(self.log_z)}).of(ACTION.value))
