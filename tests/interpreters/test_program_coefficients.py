"""Any linear program's kets: against the hand-written recursion, and identities proved in rationals."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import tpcalc as tp
from support.closeness import assert_close
from tpcalc.calculus.kets import Dot, Hat
from tpcalc.interpreters import read_coefficients
from tpcalc.interpreters.given import NotRational
from tpcalc.interpreters.program_coefficients import ProgramCoefficients, read_program_coefficients
from tpcalc.training.builders import L, T
from tpcalc.programs.language import (Family, LossDerivative, Matrix, MatVec, Member, Mean, Outer, Scalar, Transpose,
                                      Vector)
from tpcalc.programs.program import Assign, Loop, Program
from tpcalc.testing.programs import ProgramExample, linear_programs

X, DX = Family(Vector, "x", layered=True), Family(Vector, "dx", r"\delta x", layered=True)
U, NV, F = Family(Vector, "U")(), Family(Vector, "nV")(), Family(Scalar, "f")
W0 = Family(Matrix, "W", layered=True)
ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)
BUILT_IN = tp.program(tp.ResNet(), tp.SGD(0.5), tp.DepthScaling(ALPHA, GAMMA))
RATIONAL = {"xi": [1, "4/5", "-3/5"], "y": [1, "-7/10", "1/2"], "alpha": "1/2", "gamma": "1/2"}


@pytest.fixture(scope="module")
def proved() -> ProgramCoefficients:
    return read_program_coefficients(BUILT_IN, {T: 3, L: 4}, RATIONAL, exact=True)


@settings(max_examples=20)
@given(steps=st.integers(1, 4), depth=st.integers(1, 6), alpha=st.floats(0.5, 1), gamma=st.floats(0, 1),
       seed=st.integers(0, 2**32 - 1))
def test_the_residual_network_has_the_coefficients_of_the_written_recursion(
        steps: int, depth: int, alpha: float, gamma: float, seed: int) -> None:
    """Outputs, coefficients of every ket over every base ket, and covariances of the hats."""
    xi, y = np.random.default_rng(seed).uniform(-1, 1, (2, steps))
    found = read_program_coefficients(BUILT_IN, {T: steps, "L": depth}, dict(xi=xi, y=y, alpha=alpha, gamma=gamma))
    known = read_coefficients(tp.Task(xi, y), tp.SGD(0.5), tp.DepthScaling(alpha, gamma), depth)
    assert_close(found.series("f"), known.outputs.ravel(), 1e-12, 1.0)
    location = {base: i for i, base in enumerate(found.bases)}
    hats = np.array([[[location[Hat(MatVec(W0[0, m], X[s, m - 1]))] for s in range(steps)]
                      for m in range(1, depth + 1)],
                     [[location[Hat(MatVec(Transpose(W0[0, m]), DX[s, m]))] for s in range(steps)]
                      for m in range(1, depth + 1)]])
    for family, ours, ends in ((X, known.x, known.x_outputs), (DX, known.delta, known.delta_inputs)):
        kets = np.array([[found.ket(family[s, l]) for l in range(depth + 1)] for s in range(steps)])
        assert_close(kets[:, :, hats], ours, 1e-12, 1.0)
        assert_close(kets[:, :, [location[U], location[NV]]], ends, 1e-12, 1.0)
    covariance = found.covariance
    assert_close(covariance[hats[..., :, None], hats[..., None, :]], known.covariance, 1e-12, 1.0)
    between = covariance.copy()
    between[hats[..., :, None], hats[..., None, :]] = 0
    assert np.array_equal(between, np.diag([float(not isinstance(base, Hat)) for base in found.bases]))


def test_rationals_are_what_the_floats_round(proved: ProgramCoefficients) -> None:
    floats = read_program_coefficients(BUILT_IN, {T: 3, L: 4}, RATIONAL)
    assert all(isinstance(value, Fraction) for value in proved.scalars.values())
    assert_close(floats.series("f"), proved.series("f"), 1e-14)


def test_the_second_output_by_hand() -> None:
    """With update size g and eps = L^-alpha the coefficient p of -delta_0 in x_1 obeys, from layer to layer,
    p -> p + eps^2 p + lr eps g (1 + eps^2)^(l - 1): the dot, and the update met by |x_0|^2. Hence
    f_1 = y_0 lr eps g L (1 + eps^2)^(L - 1)."""
    for depth, alpha, eps in ((1, 0, Fraction(1)), (4, "1/2", Fraction(1, 2)), (9, "1/2", Fraction(1, 3)),
                              (3, 1, Fraction(1, 3))):
        found = read_program_coefficients(BUILT_IN, {T: 2, L: depth}, dict(
            xi=[1, 1], y=["3/7", 0], alpha=alpha, gamma=1), exact=True)
        assert list(found.series("f")) == [0, Fraction(3, 7) / 2 * eps * (1 + eps**2) ** (depth - 1)]


def test_the_overlap_of_a_signal_and_its_gradient_is_the_same_at_every_node(proved: ProgramCoefficients) -> None:
    """<x_t^l|dx_t^l> = chi_t f_t for every l: proved at T = 3, L = 4."""
    chi = proved.series("chi")
    for step, f in enumerate(proved.series("f")):
        overlaps = {proved.bracket(X[step, l], DX[step, l]) for l in range(5)}
        assert overlaps == {chi[step] * f}


def test_an_operator_moves_to_the_other_side_as_its_transpose(proved: ProgramCoefficients) -> None:
    """<dx_t^l|W_t^l x_t^(l-1)> = <W_t^l T dx_t^l|x_t^(l-1)>, with the updates in W_t."""
    for step in range(3):
        for l in range(1, 5):
            W = W0[step, l]
            assert (proved.bracket(DX[step, l], MatVec(W, X[step, l - 1]))
                    == proved.bracket(MatVec(Transpose(W), DX[step, l]), X[step, l - 1]))


def proof(example: ProgramExample) -> ProgramCoefficients:
    return read_program_coefficients(example.program, example.sizes, example.data, exact=True)


def products(reading: ProgramCoefficients) -> list[MatVec]:
    return [base.vector for base in reading.bases if isinstance(base, Hat)]


@given(linear_programs())
def test_adjoints_of_a_matrix_its_hat_and_its_dot(example: ProgramExample) -> None:
    """<u|W v> = <W^T u|v>, <u|hat(W v)> = <dot(W^T u)|v>, <u|dot(W v)> = <hat(W^T u)|v>, wherever a program makes W v
    and W^T u, in whatever order: both sides sum the same <u|z> and <y|v> over the products W y and W^T z. Exactly.
    Source: Definition F.1."""
    reading = proof(example)
    made = products(reading)
    for one in made:
        for two in made:
            if two.matrix == Transpose(one.matrix):
                u, v = two.vector, one.vector
                assert reading.bracket(u, one) == reading.bracket(two, v)
                assert reading.bracket(u, Hat(one)) == reading.bracket(Dot(two), v)


@given(linear_programs())
def test_hats_covary_like_what_is_multiplied_and_dots_are_the_rest(example: ProgramExample) -> None:
    reading = proof(example)
    for one in products(reading):
        assert np.array_equal(reading.ket(one), reading.ket(Hat(one)) + reading.ket(Dot(one)))
        for two in products(reading):
            expected = reading.bracket(one.vector, two.vector) if one.matrix == two.matrix else 0
            assert reading.bracket(Hat(one), Hat(two)) == expected
    assert np.linalg.eigvalsh(reading.covariance.astype(float)).min() > -1e-10


@given(linear_programs(loops=False))
def test_products_are_linear_as_random_variables(example: ProgramExample) -> None:
    """|W (2 y - z)> and 2 |W y> - |W z> are one random variable, though made of different hats."""
    program = example.program
    assigned = [location.statement.target for location in program.locations()]
    *_, z, y = (program.vectors[0], *program.vectors, *(v for v in assigned if isinstance(v, Vector)))
    for matrix in (program.matrices[0], Transpose(program.matrices[0])):
        three = [Family(Vector, f"new{i}")() for i in range(3)]
        whole, first, second = three
        more = tuple(Assign(p, MatVec(matrix, v)) for p, v in zip(three, (2 * y - z, y, z)))
        longer = Program("longer", program.vectors, program.matrices, (), program.body + more, program.sizes)
        reading = read_program_coefficients(longer, example.sizes, example.data, exact=True)
        difference = whole - 2 * first + second
        assert reading.bracket(difference, difference) == 0
        assert all(reading.bracket(difference, v) == 0 for v in reading.vectors)


def turned(program: Program) -> Program:
    """The program of the transposed matrices: W^T in the place of W, v u^T in the place of u v^T."""
    def turn(node: Any) -> Any:
        if isinstance(node, MatVec):
            return MatVec(Transpose(node.matrix), turn(node.vector))
        if isinstance(node, Outer):
            return Outer(node.right, node.left)
        return node if isinstance(node, Member) or not node.args else node.func(*map(turn, node.args))

    def walk(body: tuple) -> tuple:
        return tuple(Loop(s.index, s.first, s.last, walk(s.body)) if isinstance(s, Loop)
                     else Assign(s.target, turn(s.value)) for s in body)

    return Program("turned", program.vectors, program.matrices, program.data, walk(program.body), program.sizes)


@given(linear_programs())
def test_a_program_of_the_transposed_matrices_has_the_same_scalars(example: ProgramExample) -> None:
    one = proof(example)
    two = read_program_coefficients(turned(example.program), example.sizes, example.data, exact=True)
    assert one.scalars == two.scalars and set(one.vectors) == set(two.vectors)
    assert all(one.bracket(u, v) == two.bracket(u, v) == one.bracket(v, u) for u in one.vectors for v in one.vectors)


def test_outer_products_are_associative_and_are_not_products_of_kets() -> None:
    """(|x><y|)|z> = |x><y|z>, <w|(|x><y|) = <w|x><y|, Remark E.1: not <x|y> |z>. Source: appendix E.1.2."""
    a, b, c = (Family(Vector, name)() for name in "abc")
    W, M = Family(Matrix, "W")[0], Family(Matrix, "M")[1]
    x, y, z, w, p, q = (Family(Vector, name)() for name in "xyzwpq")
    program = Program("outer", (a, b, c), (W,), (), (
        Assign(x, MatVec(W, a) + 2 * b), Assign(y, MatVec(Transpose(W), x) - c), Assign(z, a + 3 * c),
        Assign(w, MatVec(W, y) + b), Assign(M, Outer(x, y)), Assign(p, MatVec(M, z)),
        Assign(q, MatVec(Transpose(M), w))), ())
    reading = read_program_coefficients(program, {}, exact=True)
    yz, wx = reading.bracket(y, z), reading.bracket(w, x)
    assert yz == -2 and wx not in (0, 1)  # <W^T x|a> = <x|W a> = 1, <c|3 c> = 3
    assert np.array_equal(reading.ket(p), yz * reading.ket(x)) and np.array_equal(reading.ket(q), wx * reading.ket(y))
    assert reading.bracket(w, p) == reading.bracket(q, z) == wx * yz
    assert not np.array_equal(reading.ket(p), reading.bracket(x, y) * reading.ket(z))


def test_means_are_brackets_with_the_constant() -> None:
    """A mean of a polynomial of degree 2; constants ride along: subtracting a mean leaves a mean of 0."""
    a, b = (Family(Vector, name)() for name in "ab")
    W, x, y = Family(Matrix, "W")[0], Family(Vector, "x")(), Family(Vector, "y")()
    means = (Mean(x), Mean(x**2), Mean((x + 1) * (a - 2) / 3), Mean(sp.Integer(5)), Mean(y),
             Mean(sp.Sum(F[0] * x * a, (sp.Symbol("k", integer=True), 1, 3)).doit() + x))
    program = Program("means", (a, b), (W,), (), (
        Assign(x, 2 * a + MatVec(W, b + 1) + 3), *(Assign(F[i], mean) for i, mean in enumerate(means[:4])),
        Assign(y, x - F[0]), Assign(F[4], means[4]), Assign(F[5], means[5])), ())
    reading = read_program_coefficients(program, {}, exact=True)
    assert list(reading.series("f")) == [3, 4 + 2 + 9, Fraction(2 - 6 - 2, 3), 5, 0, 3 * 3 * 2 + 3]


def test_scalars_are_computed_with() -> None:
    """Quotients, powers, functions, sums and losses of scalars, in both arithmetics where they are rational."""
    a, k = Family(Vector, "a")(), sp.Symbol("k", integer=True)
    G = Family(Scalar, "g")
    program = Program("scalars", (a,), (), (G[k],), (
        Assign(F[0], Mean(a**2) / 4), Assign(F[1], sp.sqrt(F[0]) + sp.Sum(k * G[k], (k, 0, 2))),
        Assign(F[2], sp.Max(F[0], F[1]) ** -2), Assign(F[3], sp.Piecewise((7, F[0] > F[1]), (F[1] / F[0], True))),
        Assign(F[4], LossDerivative(F[3], sp.Integer(1)))), ())
    data = {"g": [5, "1/2", -1], "y": [100, 3]}
    reading = read_program_coefficients(program, {}, data, exact=True)
    assert list(reading.series("f")) == [Fraction(1, 4), -1, 16, 7, 4]
    floats = read_program_coefficients(program, {}, data, loss=lambda f, y: np.tanh(f - y))
    assert_close(floats.series("f"), [0.25, -1, 16, 7, np.tanh(4)], 1e-15)
    with pytest.raises(NotRational, match="tanh"):
        other = Program("other", (a,), (), (), (Assign(F[0], sp.tanh(Mean(a**2))),), ())
        read_program_coefficients(other, {}, exact=True)


def test_what_is_given_is_checked_before_the_work() -> None:
    good = dict(xi=[1.0, 1.0], y=[1.0, 1.0], alpha=0.5, gamma=0.5)
    for sizes, data, message in (
            ({T: 2}, good, r"sizes: got \['T'\]; expected \['T', 'L'\], what program .* needs"),
            ({T: 2, L: 0}, good, "L: got 0"),
            ({T: 2, L: 2}, {**good, "eta": 1.0}, r"data: got .*'eta'.*; expected \['alpha', 'gamma', 'xi', 'y'\]"),
            ({T: 2, L: 2}, {**good, "xi": [1.0]}, r"xi: got data of shape \(1,\); expected xi\[1\]"),
            ({T: 2, L: 2}, {**good, "y": 1.0}, r"y: got data of shape \(\); expected y\[0\]"),
            ({T: 2, L: 2}, {**good, "xi": [1.0, np.nan]}, "xi: 1 values are NaN")):
        with pytest.raises(ValueError, match=message):
            read_program_coefficients(BUILT_IN, sizes, data)
    before = Program("before", (U,), (), (F[1 + L],), (Assign(Family(Vector, "y")(), F[L - 2] * U),), (L,))
    with pytest.raises(ValueError, match=r"f: got data of shape \(3,\); expected f\[-1\]"):
        read_program_coefficients(before, {L: 1}, {"f": [1, 2, 3]})
    with pytest.raises(NotRational, match=r"is not rational; exact evaluation takes .* \(L = 4 for L\^\(1/2\)\)"):
        read_program_coefficients(BUILT_IN, {T: 2, L: 2}, good, exact=True)
    with pytest.raises(tp.Divergence, match=r"SGD diverges: f\[1\] is not finite"):
        read_program_coefficients(BUILT_IN, {T: 3, L: 2}, dict(xi=[1e150, 1e150, 1], y=[1, 1, 1], alpha=0.5, gamma=0))


def test_what_is_asked_of_a_reading_must_be_there(proved: ProgramCoefficients) -> None:
    with pytest.raises(ValueError, match="does not make|is not a product"):
        proved.ket(MatVec(W0[0, 1], NV))
    with pytest.raises(ValueError, match="does not make"):
        proved.ket(Hat(MatVec(W0[0, 1], NV)))
    with pytest.raises(ValueError, match=r"x\[7, 0\], which is neither given nor assigned"):
        proved.ket(X[7, 0])
    with pytest.raises(ValueError, match=r"got 'g'; .* assigns: \['chi', 'f'\]"):
        proved.series("g")
