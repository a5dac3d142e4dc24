"""Nonlinear outer products, and SignSGD: Tensor Programs VI, appendix E.1.3."""

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.calculus.kets import Averaged, Ket, random_parts
from tpcalc.calculus.equations import UpdateActs
from tpcalc.calculus.setting import Setting
from tpcalc.interpreters import UnhandledNode, read_program_coefficients
from tpcalc.programs.language import Family, Matrix, MatVec, NonlinearOuter, Outer, Transpose, Vector, kind
from tpcalc.programs.program import Assign, Program

SCALE = tp.DepthScaling(*sp.symbols("alpha gamma", real=True))
U, V, Z = (Family(Vector, name)() for name in "uvz")


def test_the_identity_gives_the_linear_outer_product() -> None:
    outer = Outer(U, V)
    assert NonlinearOuter(outer) == outer and NonlinearOuter(3 * outer + 2 * Outer(V, U)) == 3 * outer + 2 * Outer(V, U)
    nonlinear = NonlinearOuter(sp.sign(outer))
    assert isinstance(nonlinear, NonlinearOuter) and kind(nonlinear) == "matrix"
    assert nonlinear.transposed() == NonlinearOuter(sp.sign(Outer(V, U)))
    with pytest.raises(TypeError, match="needs an outer product"):
        NonlinearOuter(sp.Integer(1))


def act(matrix: sp.Expr, transposed: bool = False) -> sp.Expr:
    W, y = Family(Matrix, "W"), Family(Vector, "y")()
    product = MatVec(Transpose(W[1]) if transposed else W[1], Z)
    program = Program("act", (U, V, Z), (W[0],), (), (Assign(W[1], W[0] + matrix), Assign(y, product)), ())
    return UpdateActs(Setting.of(program)).apply(Ket(product))


def test_it_acts_as_an_average_over_a_copy_of_the_right_vector() -> None:
    """|y> depends on u alone, and on v under the transpose."""
    phi = sp.tanh(Outer(U, V))
    acted = act(NonlinearOuter(phi))
    assert acted.has(Averaged(phi, Z)) and random_parts(Averaged(phi, Z)) == {Ket(U)}
    swapped = sp.tanh(Outer(V, U))
    assert act(NonlinearOuter(phi), transposed=True).has(Averaged(swapped, Z))
    assert random_parts(Averaged(swapped, Z)) == {Ket(V)}


def test_a_square_is_not_the_square_of_the_operator() -> None:
    """Remark E.2: entrywise, (u v^T)^2 sends z to u^2 times the mean of v^2 z; checked on real vectors."""
    n = 20000
    rng = np.random.default_rng(0)
    u, v, z = rng.normal(size=(3, n)) + np.array([[0.0], [1.0], [2.0]])
    entrywise = np.array([np.mean((u[i] * v) ** 2 * z) for i in range(200)])
    np.testing.assert_allclose(entrywise, u[:200] ** 2 * np.mean(v**2 * z), rtol=1e-12)
    operator_squared = u[:200] * np.mean(v * u) * np.mean(v * z)
    assert np.abs(entrywise - operator_squared).max() > 1


def test_sign_sgd_has_ket_equations() -> None:
    equations = tp.kets(tp.program(tp.ResNet("tanh", train_embedding_readout=True), tp.SignSGD(0.5), SCALE))
    assert all(step.check() for step in equations.derivation.steps)
    by_target = {str(e.target): e.value for e in equations.equations}
    averages = by_target["|h[t, l]>"].atoms(Averaged)
    assert len(averages) == 1 and "sign" in str(averages)
    assert "-sign(" in str(by_target["|U[t + 1]>"]) and by_target["|dx[t, l - 1]>"].has(Averaged)
    with pytest.raises(ValueError, match="not linear in kets"):
        tp.recursion(equations)


def test_the_exact_reading_refuses_it_by_name() -> None:
    program = tp.program(tp.ResNet(), tp.SignSGD(0.5), SCALE)
    with pytest.raises(UnhandledNode, match="NonlinearOuter.*full rank"):
        read_program_coefficients(program, {"T": 2, "L": 2}, dict(xi=[1.0, 1.0], y=[1.0, 1.0], alpha=0.5, gamma=0.5))


def test_bad_learning_rates_are_named() -> None:
    with pytest.raises(ValueError, match="lr"):
        tp.SignSGD(float("nan"))
    with pytest.raises(ValueError, match="opt: got 3; expected a tp.SGD, tp.SignSGD, tp.Lion, tp.Adam or tp.Muon"):
        tp.program(tp.ResNet(), 3, SCALE)  # type: ignore[arg-type]
