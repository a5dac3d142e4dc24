"""The universal curve of outputs at infinite depth: two singular values of the product of all layers, and a turn."""

from __future__ import annotations

import numpy as np
import sympy as sp
from scipy.integrate import solve_ivp

from tpcalc.horizon import OutputCurve
from tpcalc.horizon.curve import INPUT, PULL, READOUT
from tpcalc.horizon.end_to_end import velocity
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Proof
from tpcalc.ledger.proof import StepLike

from . import long_training
from ._steps import PutIn, Trigonometric

LARGE, SMALL, TURN = sp.symbols(r"\sigma_1 \sigma_2 \theta", positive=True)
STATE = LARGE, SMALL, TURN
MOTIONS = tuple(sp.Symbol(rf"\partial_z {one}") for one in STATE)
OUTPUT, KERNEL, ACROSS, VOLUME, LAPSE = sp.symbols(
    r"F \partial_z{F} K_\perp \partial_z\log\det{M} \partial_z(\sigma_2^{-1}-\sigma_1^{-1})")
FROM = f"[{long_training.ENTRY.key}]"
TINY, FIRST, LAST = 1e-30, 1e-4, 1.4  # a complex step, and of z


def factors() -> tuple[sp.Matrix, sp.Matrix, sp.Matrix]:
    """Left singular vectors, singular values and right singular vectors of M, of the input and the readout in order.

    M and its mirror image, transposed with input and readout in each other's places, start alike and obey one equation:
    both have one diagonal, and M turns by half of theta before and after a symmetric matrix.
    """
    cos, sin, even = sp.cos(TURN / 2), sp.sin(TURN / 2), sp.Matrix([[1, 1], [1, -1]]) / sp.sqrt(2)
    half = sp.Matrix([[cos, -sin], [sin, cos]])
    return half * even, sp.diag(LARGE, SMALL), even * half


def mean(first: sp.Expr, second: sp.Expr) -> sp.Expr:
    """What an entry of the pull is multiplied by, of two singular values."""
    if first == second:
        return first**2
    known = {long_training.FIRST: first**2, long_training.SECOND: second**2}
    return sp.expand_log(long_training.statement().equations[-1].value.xreplace(known), force=True)


def statement() -> Equations:
    up, down, ratio = 1 + sp.sin(TURN), 1 - sp.sin(TURN), sp.log(LARGE) - sp.log(SMALL)
    kernel = (LARGE**2 * up**2 + SMALL**2 * down**2 + sp.cos(TURN) ** 2 * (LARGE**2 - SMALL**2) / ratio) / 4
    across = up * (LARGE**2 - 1) / (4 * sp.log(LARGE)) + down * (SMALL**2 - 1) / (4 * sp.log(SMALL))
    motions = LARGE**2 * up / 2, -SMALL**2 * down / 2, sp.cos(TURN) * (LARGE - SMALL) / (2 * ratio)
    output = (LARGE * up - SMALL * down) / 2
    return Equations((*map(Equation, MOTIONS, motions), Equation(OUTPUT, output), Equation(KERNEL, kernel),
                      Equation(ACROSS, across), Equation(VOLUME, OUTPUT), Equation(LAPSE, sp.Integer(1))))


def slope(of: sp.Expr) -> sp.Expr:
    """How fast it moves, of the motions of the state."""
    return sp.Add(*(sp.diff(of, one) * motion for one, motion in zip(STATE, MOTIONS)))


def derive() -> Proof:
    *motions, output, kernel, across, volume, lapse = (equation.value for equation in statement().equations)
    left, sizes, right = factors()
    pull = left.T * sp.Matrix(PULL).applyfunc(sp.Rational) * right.T
    steps: list[StepLike] = []
    for target, one, motion, (i, j) in zip(MOTIONS, STATE, motions, ((0, 0), (1, 1), (0, 1))):
        tangent = (left.T * (left * sizes * right).diff(one) * right.T)[i, j]
        said = f"entry {i + 1}{j + 1} in singular vectors; their turn alone has entries off the diagonal"
        moved = mean(sizes[i, i], sizes[j, j]) * pull[i, j] / tangent
        steps.append(Trigonometric(len(steps) + 1, target, moved, motion, "motion of the product", said, FROM))
    steps.append(Trigonometric(4, OUTPUT, (left * sizes * right)[READOUT, INPUT], output, "singular vectors",
                               "from the input to the readout"))
    known, said = tuple(zip(MOTIONS, motions)), "the motions of the state"
    steps.append(PutIn(5, KERNEL, slope(output), kernel, "chain rule", said, known=known))
    of_others = sum((left[READOUT, k] ** 2 * mean(sizes[k, k], sp.Integer(1)) for k in range(2)), sp.Integer(0))
    steps.append(Trigonometric(6, ACROSS, of_others, across, "motion of the product",
                               "an input that M leaves as it is has the singular value 1", FROM))
    steps.append(PutIn(7, VOLUME, slope(sp.log(LARGE * SMALL)), volume, "chain rule",
                       "det M is the product of singular values", known=(*known, (OUTPUT, output))))
    steps.append(PutIn(8, LAPSE, slope(1 / SMALL - 1 / LARGE), lapse, "chain rule", said, known=known))
    return Proof(steps, numbers, "motions, output and kernels of a product of layers, at random states", 1e-9)


def numbers(rng: np.random.Generator) -> float:
    """Slopes of the state and of what is made of it, by complex steps along the velocity of the product."""
    small, ratio, turn = rng.uniform(0.4, 1.0), rng.uniform(1.5, 4.0), rng.uniform(0.2, 1.3)
    put = dict(zip(STATE, (small * ratio, small, turn)))
    product = np.linalg.multi_dot([np.array(one.subs(put), dtype=float) for one in factors()])
    moved = product + 1j * TINY * velocity(product, PULL, np.inf)
    sum_of_both = ((moved[0, 0] + moved[1, 1]) ** 2 + (moved[1, 0] - moved[0, 1]) ** 2) ** 0.5
    difference = moved[1, 0] + moved[0, 1]
    large, small = (sum_of_both + difference) / 2, (sum_of_both - difference) / 2
    turned = np.arctan((moved[1, 0] - moved[0, 1]) / (moved[0, 0] + moved[1, 1]))
    wide = np.zeros((3, 3))  # and an input beside, that M leaves as it is
    wide[:2, :2], wide[2, 2] = product, 1.0
    pull = np.zeros((3, 3))
    pull[READOUT, 2] = 1.0
    found = (*(one.imag / TINY for one in (large, small, turned)), product[READOUT, INPUT],
             moved[READOUT, INPUT].imag / TINY, velocity(wide, pull, np.inf)[READOUT, 2],
             np.log(large * small).imag / TINY, (1 / small - 1 / large).imag / TINY)
    equations = statement().equations
    put[OUTPUT] = float(equations[3].value.subs(put))
    return max(abs(one / float(equation.value.subs(put)) - 1) for one, equation in zip(found, equations))


def evidence() -> Evidence:
    """The three numbers from where singular values are a little apart, beside the curve of the product itself."""
    motions = sp.lambdify(STATE, [equation.value for equation in statement().equations[:3]])
    start = 1 + FIRST / 2, 1 - FIRST / 2, FIRST / 2
    solved = solve_ivp(lambda _, state: motions(*state), (FIRST, LAST), start, "DOP853", rtol=1e-11, atol=1e-12).y
    large, small, turn = solved[:, -1]
    output = float(statement().equations[3].value.subs(dict(zip(STATE, solved[:, -1]))))
    curve = OutputCurve(1e3).at(np.array(LAST))
    return Evidence((MeasuredNumber("output of the three numbers at z = 1.4, over that of the product",
                                    output / float(curve.value), 1e-6, 1.0),
                     MeasuredNumber("their 1 / sigma_2 - 1 / sigma_1 there", float(1 / small - 1 / large), 1e-6, LAST)))


ENTRY = Entry(
    key="tpcalc/output_curve",
    kind="proposition",
    title="outputs of one direction of the gradient move on one curve",
    source="tpcalc (new)",
    says="Gradients keep one direction, $G = v u^\\top$ in units of $dz = -\\eta \\chi\\, dt$, $u$ the input and "
         "$v$ the readout, two orthogonal unit vectors, and $M = 1$ at $z = 0$. On their span $M = R(\\theta / 2) "
         "S R(\\theta / 2)$, $R$ a rotation and $S$ symmetric with eigenvectors $u \\pm v$ and eigenvalues "
         "$\\sigma_1$, $\\sigma_2$, from 1, 1 and $\\theta = 0$. $F(z) = v^\\top M u$ is the output of $u$, which "
         "is one curve for all data, widths and rates; $\\partial_z F$ is the tangent kernel of $u$, and "
         "$K_\\perp$ that of an input orthogonal to $u$ and $v$. So $z = 1 / \\sigma_2 - 1 / \\sigma_1$, and "
         "$\\log \\det M$ is the integral of outputs.",
    statement=statement,
    assumptions=("gradient flow at infinite depth, alpha above 1/2", "gradients of one direction"),
    uses=("tpcalc/long_training",),
    derive=derive,
    evidence=evidence,
)
