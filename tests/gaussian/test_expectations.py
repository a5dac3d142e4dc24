"""Gaussian expectations: closed forms against quadrature, degenerate covariances, what has no closed form."""

import itertools
import math

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings

from tpcalc.gaussian import Expectation, Gaussians, Open, derive_expectation, expectation
from tpcalc.gaussian.rules import expanded_products
from tpcalc.calculus.kets import Bracket, Hat, Ket
from tpcalc.errors import Divergence

from support.nightly import few
from support.gaussians import (
    RANDOM, equal,
    A, angles, B, C, closed, exactly, legendre, line, M, node, offsets, PAIR, PAIRS, polar, relu, S, SINGLES,
    slopes, T, TWINS, U, V, variances, W)

# a pair of each kind: kinks, steps, signs, what is smooth, powers, and what is none of one variable alone
SOME = ("relu relu", "step relu", "abs abs", "sign sign", "erf erf", "erf relu", "gelu relu", "poly", "max", "exp relu")


@pytest.mark.parametrize("name", PAIRS)
@settings(max_examples=10)
@given(a=variances, b=variances, angle=angles, s=slopes, t=slopes, m=offsets)
def test_closed_forms_of_pairs(name: str, a: float, b: float, angle: float, s: float, t: float, m: float) -> None:
    found, expected = (exactly(closed(name, PAIRS[name]), a, b, angle, s, t, m),
                       polar(PAIRS[name], a, b, angle, s, t, m))
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-11)


@pytest.mark.parametrize("name", SINGLES)
@settings(max_examples=10)
@given(a=variances, s=slopes, t=slopes, m=offsets)
def test_closed_forms_of_one_variable(name: str, a: float, s: float, t: float, m: float) -> None:
    found = exactly(closed(name, SINGLES[name]), a, 1.0, 1.0, s, t, m)
    assert found == pytest.approx(line(SINGLES[name], a, s, t, m), rel=1e-10, abs=1e-11)


def smooth_enough(body: sp.Expr) -> sp.Expr:
    """sympy's derivative of Max(u, v) nests steps; with signs it does not."""
    return expanded_products(Open().apply(node(body)).body) if body.has(sp.Max(U, V), sp.Min(U, V)) else body


@pytest.mark.parametrize("name", few(PAIRS, *SOME))
def test_price_the_derivative_of_a_closed_form_is_the_closed_form_of_the_derivatives(name: str) -> None:
    body, value = smooth_enough(PAIRS[name]), expectation(PAIRS[name], PAIR)
    for parameter, second in ((C, body.diff(U, V)), (A, body.diff(U, 2) / 2), (B, body.diff(V, 2) / 2)):
        assert equal(value.diff(parameter), expectation(second, PAIR)), parameter


@pytest.mark.parametrize("name", few(PAIRS, *SOME))
def test_stein(name: str) -> None:
    body = smooth_enough(PAIRS[name])
    right = A * expectation(body.diff(U), PAIR) + C * expectation(body.diff(V), PAIR)
    assert equal(expectation(U * body, PAIR), right)


def test_symbolically_price_gives_the_kernels() -> None:
    for body in (relu(U) * relu(V), sp.sign(U) * sp.sign(V), sp.erf(U) * sp.erf(V)):
        value = expectation(body, PAIR)
        assert sp.simplify(value.diff(C) - expectation(body.diff(U, V), PAIR)) == 0
    # with these values at c = 0, where u and v are independent, Price's theorem determines the typed arcsine
    assert expectation(sp.sign(U) * sp.sign(V), Gaussians({(U, U): A, (U, V): 0, (V, V): B})) == 0


def test_the_printed_kernels_of_kinked_activations() -> None:
    """Hand formulas, typed: V = E phi' phi', K = E phi'' phi'', E phi''' phi', Cov(phi'', phi); j the jump of slope."""
    r, pi = C / sp.sqrt(A * B), sp.pi
    for phi, j, slopes_ in ((relu, 1, sp.Rational(1, 4) + sp.asin(r) / (2 * pi)), (sp.Abs, 2, 2 / pi * sp.asin(r))):
        f, g = phi(U), phi(V)
        assert equal(expectation(f.diff(U) * g.diff(V), PAIR), slopes_)
        assert equal(expectation(f.diff(U, 2) * g.diff(V, 2), PAIR), j**2 / (2 * pi * sp.sqrt(A * B * (1 - r**2))))
        assert equal(expectation(f.diff(U, 3) * g.diff(V), PAIR), -j**2 * r / (2 * pi * A * sp.sqrt(1 - r**2)))
        product, apart = (expectation(body, PAIR) for body in (f.diff(U, 2) * g, f.diff(U, 2)))
        assert equal(product - apart * expectation(g, PAIR), j**2 * sp.sqrt(B / A) * (sp.sqrt(1 - r**2) - 1) / (2 * pi))


def test_known_forms_come_out_as_they_are_written() -> None:
    root, angle = sp.sqrt(A * B - C**2), sp.asin(C / (sp.sqrt(A) * sp.sqrt(B)))
    assert expectation(relu(U) * relu(V), PAIR) == root / (2 * sp.pi) + C / 4 + C * angle / (2 * sp.pi)
    assert expectation(sp.Heaviside(U) * sp.Heaviside(V), PAIR) == sp.Rational(1, 4) + angle / (2 * sp.pi)
    assert expectation(sp.erf(U) * sp.erf(V), PAIR) == \
        2 / sp.pi * sp.asin(2 * C / (sp.sqrt(1 + 2 * A) * sp.sqrt(1 + 2 * B)))
    exponent = expectation(sp.exp(S * U + T * V), PAIR).exp
    assert exponent.expand() == A * S**2 / 2 + C * S * T + B * T**2 / 2
    assert expectation(5 + C, PAIR) == 5 + C


def test_moments_are_sums_over_pairings() -> None:
    names = sp.symbols("x:4", real=True)
    matrix = sp.Matrix(4, 4, lambda i, j: sp.Symbol(f"k{min(i, j)}{max(i, j)}", real=True))

    def pairings(left: tuple[int, ...]) -> sp.Expr:
        return sp.Integer(1) if not left else sp.Add(*(
            matrix[left[0], left[i]] * pairings(left[1:i] + left[i + 1:]) for i in range(1, len(left))))

    for powers in itertools.product(range(3), repeat=4):
        factors = tuple(i for i, power in enumerate(powers) for _ in range(power))
        expected = 0 if len(factors) % 2 else sp.expand(pairings(factors))
        body = sp.Mul(*(names[i] for i in factors))
        assert sp.expand(expectation(body, Gaussians.from_matrix(names, matrix)) - expected) == 0
    assert expectation(U**30, PAIR) == sp.factorial2(29) * A**15


def test_three_signs() -> None:
    K = sp.Matrix(3, 3, lambda i, j: sp.Symbol(f"k{min(i, j)}{max(i, j)}", positive=True))
    steps = sp.Heaviside(U) * sp.Heaviside(V) * sp.Heaviside(W)
    value = expectation(steps, Gaussians.from_matrix((U, V, W), K))
    half = {K[i, j]: sp.Rational(1, 1 if i == j else 2) for i in range(3) for j in range(3)}
    assert value.subs(half) == sp.Rational(1, 4)  # equal correlations of 1/2: the largest of four independent ones
    rectified = expectation(relu(U) * relu(V) * relu(W), Gaussians.from_matrix((U, V, W), K))
    slope = expectation(sp.Heaviside(U) * sp.Heaviside(V) * relu(W), Gaussians.from_matrix((U, V, W), K))
    assert abs(sp.N((rectified.diff(K[0, 1]) - slope).subs(half), 30, chop=True)) < 1e-25
    apart = {K[0, 1]: 0, K[0, 2]: 0, K[1, 2]: 0}
    assert sp.simplify(rectified.subs(apart) - sp.sqrt(K[0, 0] * K[1, 1] * K[2, 2] / (2 * sp.pi)**3)) == 0


def test_brackets_as_covariances() -> None:
    """Nothing is known to be positive; the closed form is the same."""
    x, y = sp.symbols("x y")
    kets = Gaussians({(Hat(p), Hat(q)): Bracket(p, q) for p, q in ((x, x), (x, y), (y, y))})
    entries = {Bracket(x, x): A, Bracket(x, y): C, Bracket(y, y): B}
    for name in ("relu relu", "relu^2 relu^2", "gelu gelu", "erf relu", "sign wave"):
        value, derivation = derive_expectation(PAIRS[name].xreplace({U: Hat(x), V: Hat(y)}), kets)
        assert all(step.check() for step in derivation.steps)
        assert equal(value.xreplace(entries), expectation(PAIRS[name], PAIR))
    assert expectation(relu(Hat(x)) * relu(Hat(y)), kets).xreplace(entries) == expectation(relu(U) * relu(V), PAIR)


# degenerate covariances


def test_equal_variables_are_one() -> None:
    assert expectation(relu(U) * relu(V), TWINS) == A / 2
    assert expectation(relu(U)**2, PAIR) == A / 2
    assert expectation(sp.sign(U) * sp.sign(V), TWINS) == 1
    assert expectation(sp.tanh(U) * sp.tanh(V), TWINS) == expectation(sp.tanh(U)**2, TWINS)
    assert expectation(sp.erf(U) * sp.erf(V), TWINS) == expectation(sp.erf(U)**2, PAIR)
    opposite = Gaussians({(U, U): 0.3, (U, V): -0.3, (V, V): 0.3})
    assert expectation(relu(U) * relu(V), opposite) == 0
    assert expectation(sp.Abs(U) * sp.Abs(V), opposite) == sp.Rational(3, 10)
    certain = Gaussians({(U, U): 1, (U, V): 0, (V, V): 0})
    assert expectation(relu(U) * sp.cos(V) + V**2 * U**2, certain) == 1 / sp.sqrt(2 * sp.pi)


def test_rounded_degenerate_numbers() -> None:
    near_twins = Gaussians({(U, U): 0.3, (U, V): 0.1 + 0.2, (V, V): 0.3})
    assert float(expectation(relu(U) * relu(V), near_twins)) == pytest.approx(0.15, rel=1e-14)


def test_what_is_infinite_says_so() -> None:
    for body, gaussians in ((sp.DiracDelta(U)**2, PAIR), (sp.DiracDelta(U) * sp.DiracDelta(V), TWINS)):
        with pytest.raises(Divergence, match="delta"):
            expectation(body, gaussians)
    one = Gaussians({(U, U): 1, (U, V): 0, (V, V): 1})
    with pytest.raises(Divergence, match="outgrows"):
        expectation(sp.exp(U**2), one)
    squares = sp.exp(sp.Rational(3, 10) * U**2 - sp.Rational(6, 10) * U * V)
    assert expectation(squares, one) == 5  # 1 + 2 A = [[.4, .6], [.6, 1]] is positive though one square alone is not
    with pytest.raises(Divergence):
        expectation(squares.subs(V, sp.Rational(11, 10) * V), one)


# what has no closed form


def test_the_unknown_stays_and_the_rest_is_closed() -> None:
    value = expectation((relu(U) + sp.tanh(U))**2 + sp.tanh(V), PAIR)
    nodes = {node.body for node in value.atoms(Expectation)}
    assert nodes == {sp.tanh(U)**2, sp.tanh(U) * relu(U)}
    assert expectation(sp.tanh(U)**2 * W**2, Gaussians.from_matrix((U, W), [[A, 0], [0, B]])) == \
        B * Expectation(sp.tanh(U)**2, (U,), sp.Matrix([[A]]))
    shifted = relu(U + 1) * relu(V)
    assert expectation(shifted, PAIR) == Expectation(shifted, PAIR.variables, PAIR.matrix)


def test_quadrature_of_what_is_smooth() -> None:
    grid = np.arange(-12, 12, 1 / 32)
    x, y = np.meshgrid(grid, grid)
    values = {A: 1.0, B: 2.0, C: 0.5}
    for body in (sp.tanh(U) * sp.tanh(V), sp.tanh(U + 1) * sp.sin(V), sp.log(1 + U**2) * V**2):
        plain = sp.lambdify((U, V), body)(x, 0.5 * x + math.sqrt(1.75) * y)  # the trapezoid, exponentially exact
        expected = float(np.sum(plain * np.exp(-(x * x + y * y) / 2))) / 32**2 / (2 * math.pi)
        assert node(body).evaluate(values) == pytest.approx(expected, rel=1e-11, abs=1e-12)


@settings(max_examples=8)
@given(a=variances, b=variances, angle=angles)
def test_quadrature_of_kinks(a: float, b: float, angle: float) -> None:
    covariance = math.sqrt(a * b) * math.cos(angle)
    for name in ("relu relu", "step relu", "max"):
        values = {A: a, B: b, C: covariance, S: 0.5, T: 0.7, M: 0.2}
        expected = exactly(closed(name, PAIRS[name]), a, b, angle, 0.5, 0.7, 0.2)
        # near correlation 1 the rounding of the covariance itself moves signs by its square root
        assert node(PAIRS[name]).evaluate(values) == pytest.approx(expected, rel=1e-9, abs=3e-8)


def test_quadrature_of_shifted_kinks() -> None:
    values = {A: 1.3, B: 0.7, C: 0.4}
    found = node(relu(U + 1) * relu(V)).evaluate(values)
    x, weight = legendre(np.linspace(0, 11, 45), 12)  # over v > 0: given v, u is Gaussian and E relu is closed
    spread, mean = math.sqrt(1.3 - 0.16 / 0.7), 1 + 0.4 / 0.7 * x
    inner = np.array([m * (1 + math.erf(m / spread / math.sqrt(2))) / 2
                      + spread * math.exp(-(m / spread)**2 / 2) / math.sqrt(2 * math.pi) for m in mean])
    outer = float(np.sum(weight * x * inner * np.exp(-x * x / 1.4))) / math.sqrt(1.4 * math.pi)
    assert found == pytest.approx(outer, rel=1e-12)


def test_evaluate_on_kets_and_through_sympy() -> None:
    x, y = Ket(sp.Symbol("x")), Ket(sp.Symbol("y"))
    kets = Gaussians({(x, x): A, (x, y): C, (y, y): B})
    value = expectation(sp.tanh(x) * sp.tanh(y) + relu(x) * relu(y), kets)
    plain = expectation(sp.tanh(U) * sp.tanh(V) + relu(U) * relu(V), PAIR)
    assert float(value.subs(RANDOM)) == float(plain.subs(RANDOM))
    assert value.diff(C).xreplace({x: U, y: V}) == plain.diff(C)


def test_what_quadrature_refuses() -> None:
    body = sp.tanh(U) * V
    with pytest.raises(ValueError, match="no value for b, c"):
        node(body).evaluate({A: 1})
    with pytest.raises(ValueError, match="no covariance"):
        node(body).evaluate({A: 1, B: 1, C: 2})
    with pytest.raises(ValueError, match="delta function"):
        node(sp.DiracDelta(U) * sp.tanh(V)).evaluate({A: 1, B: 1, C: 0})
    with pytest.raises(ValueError, match="3 dimensions"):
        node(sp.tanh(U + V * W), Gaussians.from_matrix((U, V, W), sp.eye(3))).evaluate()
    with pytest.raises(ValueError, match="grows too fast"):
        node(sp.tanh(U) * sp.exp(9 * U)).evaluate({A: 1})
    one = Gaussians.from_matrix((U, V, W), sp.ones(3))  # three variables in one dimension
    assert node(sp.tanh(U) * sp.tanh(V * W), one).evaluate() == pytest.approx(
        node(sp.tanh(U) * sp.tanh(U**2), one).evaluate(), abs=1e-14)
