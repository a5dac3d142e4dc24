"""The first update of a linear network: equation (8) of Tensor Programs VI, coefficient by coefficient, and (4)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.calculus.kets import Hat
from tpcalc.interpreters.program_coefficients import ProgramCoefficients, read_program_coefficients
from tpcalc.programs.language import Family, Matrix, MatVec, Transpose, Vector

DEPTH = 16
X, DX = (Family(Vector, name, layered=True) for name in ("x", "dx"))
W = Family(Matrix, "W", layered=True)


def reading(alpha: sp.Rational, gamma: sp.Rational) -> ProgramCoefficients:
    program = tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling(alpha, gamma))
    return read_program_coefficients(program, {"T": 2, "L": DEPTH}, {"xi": ["1", "1"], "y": ["1", "1"]}, exact=True)


@pytest.mark.parametrize("alpha, gamma", [(sp.Rational(1, 2), sp.Rational(1, 2)), (sp.Rational(1), sp.Rational(1, 4)),
                                          (sp.Rational(3, 4), -sp.Rational(1, 4))])
def test_equation_8(alpha: sp.Rational, gamma: sp.Rational) -> None:
    """|x_1^l> over |U>, the hats of W x, |nV> and the hats of W^T dx, with b and c by their recursions."""
    found = reading(alpha, gamma)
    chi = next(value for name, value in found.scalars.items() if str(name) == "chi[0]")

    def of_depth(power: sp.Expr) -> Fraction:
        number = sp.Rational(sp.Integer(DEPTH)**power)
        return Fraction(int(number.p), int(number.q))

    c, b = [-chi], [Fraction(0)]
    for _ in range(DEPTH - 1):
        b.append(of_depth(-2 * alpha) * sum((x + y for x, y in zip(b, c)), Fraction(0)))
        c.append(c[-1] * (1 + of_depth(-2 * alpha)))
    layer = [of_depth(-alpha - gamma) * (x + y) for x, y in zip(b, c)]
    for at in range(1, DEPTH + 1):
        printed = {"|U>": Fraction(1), "|nV>": sum(layer[:at])}
        printed |= {str(Hat(MatVec(W[0, m], X[1, m - 1]))): of_depth(-alpha) for m in range(1, at + 1)}
        printed |= {str(Hat(MatVec(Transpose(W[0, m]), DX[0, m]))):
                    of_depth(-alpha) * sum(layer[:min(m - 1, at)]) / chi for m in range(2, DEPTH + 1)}
        own = {name if isinstance(base, Hat) else f"|{name}>": value
               for base, value in zip(found.bases, found.ket(X[1, at])) for name in [str(base)] if value}
        assert own == {name: value for name, value in printed.items() if value}, at


def test_equation_4_in_a_batch() -> None:
    """|x>_chi = |x> Diag(chi): gradients of a batch are those of its outputs, each times its loss derivative."""
    program = tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling(), batch=True)
    sizes, data = {"T": 1, "L": 4, "B": 3}, {"xi": [[1.0, -0.5, 2.0]], "y": [[0.3, 1.0, -1.0]]}
    of_loss = read_program_coefficients(program, sizes, data)
    of_outputs = read_program_coefficients(program, sizes, data, loss=lambda f, y: 1.0)
    chi = np.array([float(value) for name, value in of_loss.scalars.items() if str(name).startswith("chi[")])
    for at in range(1, 5):
        loss, outputs = (np.array([[found.bracket(u, v) for v in own] for u in own]) for found in (of_loss, of_outputs)
                         for own in [[one for one in found.vectors if str(one) in (f"dx[0, {k}, {at}]"
                                                                                   for k in range(3))]])
        assert loss == pytest.approx(np.diag(chi) @ outputs @ np.diag(chi), abs=1e-13) and abs(loss).max() > 0.1
