"""What a Gaussian variable is, given another one."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from tpcalc.calculus import Derivation
from tpcalc.gaussian import Gaussians
from tpcalc.ledger import Entry, Equation, Equations, Proof

from .._gaussian import A, B, C, MATRIX, U, V, VARIABLES, random_covariance
from .._line import relative
from .._rewriting import Rewriting, of_nodes

LAW = Gaussians.from_matrix(VARIABLES, MATRIX).given(V)
GAIN, K = LAW.mean[U].coeff(V), sp.Symbol("k", real=True)
REST = sp.Symbol("u'", real=True)  # u - k v with the right k


class Cov(sp.Expr):
    """The covariance of two linear forms in u and v."""

    is_commutative = True

    def _latex(self, printer: Any) -> str:
        return rf"\mathrm{{Cov}}\left({', '.join(map(printer.doprint, self.args))}\right)"


def _by_entries(covariance: Cov) -> sp.Expr:
    rows = [sp.Matrix([form.coeff(v) for v in VARIABLES]) for form in covariance.args]
    return sp.expand((rows[0].T * MATRIX * rows[1])[0])


BILINEAR = Rewriting("bilinearity", "covariances are bilinear", "definition", of_nodes(Cov, _by_entries))
GAIN_FOUND = Rewriting("the factor", "it is the one for which nothing that is left correlates with $v$", "elimination",
                       lambda expression: sp.expand(expression.subs(K, GAIN)))


def statement() -> Equations:
    return Equations((Equation(Cov(REST, V), sp.Integer(0)),
                      Equation(Cov(REST, REST), sp.expand(LAW.residual[0, 0]))))


def derive() -> Proof:
    derivation, rest = Derivation(), U - K * V
    for other, written in ((V, V), (REST, rest)):
        derivation.through((BILINEAR, GAIN_FOUND), Cov(REST, other), Cov(rest, written))

    def numbers(rng: np.random.Generator) -> float:
        """The factor that least squares find, and what it leaves."""
        covariance = random_covariance(rng)
        at = {A: covariance[0, 0], B: covariance[1, 1], C: covariance[0, 1]}
        u, v = np.linalg.cholesky(covariance)  # over two independent variables
        (gain,), left, _, _ = np.linalg.lstsq(v[:, None], u, rcond=None)
        return max(relative(gain, float(GAIN.subs(at))), relative(left[0], float(LAW.residual[0, 0].subs(at))))

    return Proof(derivation.steps, numbers, "least squares in the space of two independent variables")


ENTRY = Entry(
    key="gaussian/conditioning",
    kind="lemma",
    title="conditioning",
    source="classical; C. F. Gauss, Theoria combinationis observationum (1823)",
    says="$u = (c / b)\\, v + u'$, where $u'$ does not correlate with $v$. As jointly Gaussian variables that do not "
         "correlate are independent, $(c / b)\\, v$ is the mean of $u$ given $v$, and the law of $u'$ is that of what "
         "is left. Several variables $v$ are met one after the other.",
    statement=statement,
    assumptions=("$b > 0$",),
    derive=derive,
)
