"""Differentials of the tangent kernel are made by one operator: the derivative along what trains an output."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Sequence

import numpy as np
import sympy as sp
from numpy.polynomial import polynomial

from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Proof

from ..tpcalc._steps import PutIn
from ._real import drawn

AT = sp.symbols("theta_1 theta_2")   # two parameters stand for all: sums over them are written out
OUTPUTS = tuple(sp.Function(f"f_{i}")(*AT) for i in range(4))
RATES = sp.Matrix(2, 2, lambda m, n: sp.Symbol(f"lambda_{{{min(m, n) + 1}{max(m, n) + 1}}}"))  # symmetric
H, DH, DH_TURNED, DDH_I, DDH_II, DDH_II_TURNED = sp.symbols(
    "H_{01} dH_{012} dH_{102} dd_IH_{0123} dd_{II}H_{0123} dd_{II}H_{0213}")
OF_H, OF_DH = sp.symbols(r"\mathcal{D}_2H_{01} \mathcal{D}_3dH_{012}")
STEPS = (2e-3, 1e-3)


def operator(expression: sp.Expr, output: int) -> sp.Expr:
    """(A1): the derivative along what trains an output, which changes from place to place as well."""
    return sum((sp.diff(OUTPUTS[output], AT[n]) * RATES[m, n] * sp.diff(expression, AT[m])
                for m, n in itertools.product(range(2), repeat=2)), sp.Integer(0))


def contracted(outputs: Sequence[int], *indices: str) -> sp.Expr:
    """The sum over parameters of derivatives of outputs: an index is the number of a learning rate, whose other end
    has a stroke."""
    rates = sorted({one[0] for word in indices for one in word.split()})
    total = sp.Integer(0)
    for at in itertools.product(range(2), repeat=2 * len(rates)):
        known = {f"{rate}{stroke}": at[2 * k + len(stroke)] for k, rate in enumerate(rates) for stroke in ("", "'")}
        factors = [sp.diff(OUTPUTS[i], *(AT[known[one]] for one in word.split()))
                   for i, word in zip(outputs, indices)]
        total += sp.Mul(*factors, *(RATES[known[rate], known[f"{rate}'"]] for rate in rates))
    return sp.expand(total)


@cache
def definitions() -> tuple[tuple[sp.Symbol, sp.Expr], ...]:
    """(2.9), (2.12), (2.13), (2.15): which derivatives meet in which learning rates."""
    return ((H, contracted((0, 1), "1", "1'")), (DH, contracted((0, 1, 2), "1 2", "1'", "2'")),
            (DH_TURNED, contracted((1, 0, 2), "1 2", "1'", "2'")),
            (DDH_I, contracted((0, 1, 2, 3), "1 2 3", "1'", "2'", "3'")),
            (DDH_II, contracted((0, 1, 2, 3), "1 2", "1' 3", "2'", "3'")),
            (DDH_II_TURNED, contracted((0, 2, 1, 3), "1 2", "1' 3", "2'", "3'")))


def statement() -> Equations:
    return Equations((Equation(OF_H, DH + DH_TURNED), Equation(OF_DH, DDH_I + DDH_II + DDH_II_TURNED)))


def derive() -> Proof:
    """The product rule: the derivative falls on each factor, the last of which is what the operator before moved by."""
    known = dict(definitions())
    steps = tuple(PutIn(k, left, sp.expand(operator(known[of], along)), after, "product rule",
                        "each term is a differential by its definition", known=definitions())
                  for k, (left, of, along, after) in enumerate(((OF_H, H, 2, DH + DH_TURNED),
                                                                (OF_DH, DH, 3, DDH_I + DDH_II + DDH_II_TURNED)), 1))
    return Proof(steps, lambda rng: of_cubics(rng, *(one.after for one in steps)),
                 "outputs that are random cubics of two parameters, differentiated by differences that are exact")


STENCIL = np.array([-1, 9, -45, 0, 45, -9, 1]) / 60   # the derivative of a polynomial of degree 6, from -3 to 3


def of_cubics(rng: np.random.Generator, of_kernel: sp.Expr, of_differential: sp.Expr) -> float:
    """Both sides at a drawn place, with arrays for the definitions."""
    at, rates = rng.standard_normal(2), rng.standard_normal((2, 2))
    rates = (rates + rates.T) / 4
    outputs = np.where(np.add.outer(range(4), range(4)) < 4, rng.standard_normal((4, 4, 4)), 0)

    def derivatives(output: int, order: int, place: np.ndarray) -> np.ndarray:
        """All of one order, an axis each."""
        found = np.empty((2,) * order)
        for index in np.ndindex(*found.shape):
            turns = outputs[output]
            for axis in range(2):
                turns = polynomial.polyder(turns, index.count(axis), axis=axis)
            found[index] = polynomial.polyval2d(place[0], place[1], turns)
        return found

    def tensor(subscripts: str, place: np.ndarray, *factors: tuple[int, int]) -> float:
        """A contraction of derivatives (output, order), of which letter and capital meet in a learning rate."""
        letters = sorted({one for one in subscripts if one.islower()} - {","})
        meet = [f"{one}{one.upper()}" for one in letters]
        return float(np.einsum(",".join([subscripts, *meet]), *(derivatives(*one, place) for one in factors),
                               *[rates] * len(letters)))

    def along(output: int, subscripts: str, *factors: tuple[int, int]) -> float:
        direction = rates @ derivatives(output, 1, at)
        length = 4 * np.linalg.norm(direction)
        moved = (tensor(subscripts, at + step * direction / length, *factors) for step in range(-3, 4))
        return float(STENCIL @ np.fromiter(moved, float) * length)

    values = {DH: tensor("ab,A,B", at, (0, 2), (1, 1), (2, 1)),
              DH_TURNED: tensor("ab,A,B", at, (1, 2), (0, 1), (2, 1)),
              DDH_I: tensor("abc,A,B,C", at, (0, 3), (1, 1), (2, 1), (3, 1)),
              DDH_II: tensor("ab,Ac,B,C", at, (0, 2), (1, 2), (2, 1), (3, 1)),
              DDH_II_TURNED: tensor("ab,Ac,B,C", at, (0, 2), (2, 2), (1, 1), (3, 1))}
    pairs = ((along(2, "a,A", (0, 1), (1, 1)), of_kernel),
             (along(3, "ab,A,B", (0, 2), (1, 1), (2, 1)), of_differential))
    size = max(map(abs, values.values()))
    return max(abs(left - float(right.subs(values))) / max(size, 1.0) for left, right in pairs)


def evidence() -> Evidence:
    """Steps of gradient descent of a real network to and fro, along an output."""
    net, equations = drawn(np.random.default_rng(3)), statement().equations
    outputs = ((0, 0), (1, 1), (1, 0), (0, 1))   # of an input each
    at = net.differentials()

    def indexed(*indices: int) -> tuple[int, ...]:
        return tuple(outputs[i][k] for k in range(2) for i in indices)

    def along(output: int, name: str, step: float, *indices: int) -> float:
        signal = np.zeros((2, 2))
        signal[outputs[output]] = 1
        there, back = (getattr(net.stepped(signal, -sign * step).differentials(), name) for sign in (1, -1))
        return float((there - back)[indexed(*indices)] / (2 * step))

    values = {DH: at.dH[indexed(0, 1, 2)], DH_TURNED: at.dH[indexed(1, 0, 2)],
              DDH_I: at.ddH_I[indexed(0, 1, 2, 3)], DDH_II: at.ddH_II[indexed(0, 1, 2, 3)],
              DDH_II_TURNED: at.ddH_II[indexed(0, 2, 1, 3)]}
    found = []
    for equation, measured in zip(equations, ((2, "H", (0, 1)), (3, "dH", (0, 1, 2)))):
        output, name, indices = measured
        coarse, fine = (along(output, name, step, *indices) for step in STEPS)
        found.append(MeasuredNumber(f"{name} of a real network along output {output}", fine, abs(fine - coarse),
                                    float(equation.value.subs(values))))
    return Evidence(tuple(found))


ENTRY = Entry(
    key="meta_principled/generated_differentials",
    kind="lemma",
    title="differentials are made by one operator",
    source="Meta-Principled Family, (A1) to (A3)",
    says=r"The operator $\mathcal{D}_i = \sum_{\mu\nu} (\partial_\nu f_i) \lambda_{\mu\nu} \partial_\mu$ "
         "differentiates along what trains output $i$. It makes the differentials of the tangent kernel one after the "
         "other; $0$ to $3$ stand for an output of an input each.",
    statement=statement,
    assumptions=("smooth activations", r"$\lambda_{\mu\nu}$ is symmetric and does not depend on the parameters"),
    uses=("meta_principled/taylor",),
    derive=derive,
    evidence=evidence,
)
