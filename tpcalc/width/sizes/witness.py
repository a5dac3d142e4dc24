"""A number for a sum whose terms might cancel: means of functions over Gaussian samples, all else drawn.

A polynomial in independent numbers that are random or given is not zero unless it vanishes identically. Means of
functions are numbers among which there may be relations; where several of them meet in one coefficient it is evaluated,
and held to be nonzero only where it is so beyond the error of the evaluation.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Iterable

import numpy as np
import sympy as sp

from ...interpreters.vectors import numpy_function
from ...models.activations import H
from .atoms import (Atom, AveragedMatrix, Expected, Function, Given, HatPart, Joint, Key, Monomial, Noise,
                    NumberFunction, Total, slot)

if TYPE_CHECKING:
    from .algebra import Algebra

SAMPLES = 1 << 16
BATCHES = 16
UNKNOWN = np.full((BATCHES, SAMPLES // BATCHES), np.nan)  # what is not evaluated cannot be told from zero


def is_certainly_nonzero(algebra: "Algebra", total: Total) -> bool:
    """Is a sum of numbers of order one, whose terms are already collected, not zero for certain?"""
    by_others: dict[Monomial, Total] = {}
    for (power, monomial), value in total.terms.items():
        means = tuple(f for f in monomial if _is_mean(algebra, f[0]))
        others = tuple(f for f in monomial if f not in means)
        by_others[others] = by_others.get(others, Total()) + Total({(power, means): value})
    if any(len(one.terms) == 1 for one in by_others.values()):
        return True
    return any(_Sampler(algebra).differs_from_zero(one) for one in by_others.values())


def _is_mean(algebra: "Algebra", number: int) -> bool:
    atom = algebra.atoms[number]
    return isinstance(atom, Expected) or isinstance(atom, NumberFunction) and atom.what == "power"


class _Sampler:
    """Vectors of the limit as arrays of samples, (BATCHES, SAMPLES / BATCHES); numbers as one value a batch."""

    def __init__(self, algebra: "Algebra") -> None:
        self.algebra = algebra
        self.numbers: dict[int, np.ndarray] = {}

    def differs_from_zero(self, total: Total) -> bool:
        """Is the sum farther from zero than five standard errors, which batches tell?"""
        values = self.total(total)
        error = values.std(ddof=1) / np.sqrt(BATCHES)
        return bool(np.isfinite(values).all() and abs(values.mean()) > 5 * error + 1e-12)

    def total(self, total: Total) -> np.ndarray:
        """The value of a sum of numbers, n aside."""
        return self._sum(total.terms.items(), {})[:, 0]

    def number(self, number: int) -> np.ndarray:
        if number not in self.numbers:
            atom = self.algebra.atoms[number]
            if isinstance(atom, Expected):
                self.numbers[number] = self._mean(atom.body)
            elif isinstance(atom, NumberFunction):
                self.numbers[number] = self.total(Total(dict(atom.of)))
            else:
                self.numbers[number] = np.full(BATCHES, _drawn(atom, self.algebra, number))
        return self.numbers[number]

    def _mean(self, body: Monomial) -> np.ndarray:
        limits, atoms = self.algebra.limits, self.algebra.atoms
        sources = sorted(frozenset().union(*(limits.sources(number) for number, _ in body)))
        covariance = np.array([[self.total(limits.covariance(a, b)).mean() for b in sources] for a in sources])
        if not np.isfinite(covariance).all():  # averages of matrices' entries are in it, which are not evaluated
            return np.full(BATCHES, np.nan)
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.clip(values, 0, None))
        rng = np.random.default_rng([7, *sources])
        half = rng.standard_normal((len(sources), BATCHES, SAMPLES // BATCHES // 2))
        drawn = np.einsum("ij,jbk->ibk", root, np.concatenate([half, -half], axis=2))
        at = dict(zip(sources, drawn))
        product = np.ones((BATCHES, SAMPLES // BATCHES))
        for number, power in body:
            product = product * self._vector(number, at) ** int(power)
        assert all(atoms.is_vector(number) for number, _ in body)
        return product.mean(axis=1)

    def _vector(self, number: int, at: dict[int, np.ndarray]) -> np.ndarray:
        atom = self.algebra.atoms[number]
        if isinstance(atom, (Joint, AveragedMatrix)):
            return self._joint(atom, at) if isinstance(atom, Joint) else UNKNOWN
        if not isinstance(atom, Function):
            return at[number]
        argument = self._sum(atom.argument, at)
        if atom.body.has(sp.DiracDelta):  # as narrow as the samples resolve
            return np.exp(-(argument / 0.05) ** 2 / 2) / (0.05 * np.sqrt(2 * np.pi))
        return numpy_function(atom.body, (H,))(argument)

    def _joint(self, atom: Joint, at: dict[int, np.ndarray]) -> np.ndarray:
        """A function of several vectors; not known with deltas in it, and with numbers that nothing is known of."""
        slots = [slot(k) for k in range(len(atom.arguments))]
        if atom.body.has(sp.DiracDelta) or not atom.body.free_symbols <= set(slots):
            return UNKNOWN
        values = [self._sum(of, at) for of in atom.arguments]
        return np.broadcast_to(sp.lambdify(slots, atom.body, ["scipy", "numpy"])(*values), values[0].shape)

    def _sum(self, terms: Iterable[tuple[Key, Fraction]], at: dict[int, np.ndarray]) -> np.ndarray:
        """A sum of products of vectors and numbers; (BATCHES, 1) where there are no vectors."""
        argument = np.zeros((BATCHES, 1))
        for (_, monomial), value in terms:
            term = np.full((BATCHES, 1), float(value))
            for inner, power in monomial:
                factor = self._vector(inner, at) if self.algebra.atoms.is_vector(inner) else self.number(inner)[:, None]
                term = term * (factor ** int(power) if power.denominator == 1 else np.abs(factor) ** float(power))
            argument = argument + term
        return argument


def _drawn(atom: Atom, algebra: "Algebra", number: int) -> float:
    """A number of order one that nothing is known of."""
    assert not isinstance(atom, HatPart)
    if isinstance(atom, Given) and atom.value is not None:
        return atom.value
    name = atom.name.encode() if isinstance(atom, Given) else str(number).encode()
    rng = np.random.default_rng([3, *name])
    return float(rng.standard_normal() if isinstance(atom, Noise) else rng.uniform(0.5, 1.5))
