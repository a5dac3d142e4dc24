"""Gaussian expectations: closed forms against quadrature, the rules against each other, and what is refused."""

import doctest
import itertools
import math
from collections.abc import Callable
from functools import cache

import mpmath
import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tpcalc.calculus import gaussian
from tpcalc.calculus.gaussian import (
    Blur, Condition, Degenerate, Expectation, Gaussians, GivenPast, Independence, Linearity, Moments, Open, Parity,
    Phases, Price, Shift, Square, Stein, Values, derive_expectation, expectation)
from tpcalc.calculus.gaussian_algebra import expanded
from tpcalc.calculus.kets import Bracket, Hat, Ket
from tpcalc.errors import Divergence

U, V, W, C, M, S, T = sp.symbols("u v w c m s t", real=True)
A, B = sp.symbols("a b", positive=True)
PAIR = Gaussians({(U, U): A, (U, V): C, (V, V): B})
TWINS = Gaussians({(U, U): A, (U, V): A, (V, V): A})
RULES = (Blur, Condition, Degenerate, Independence, Linearity, Moments, Open, Parity, Phases, Price, Shift, Square,
         Stein, Values)


def node(body: sp.Expr, gaussians: Gaussians = PAIR) -> sp.Expr:
    return Expectation(body, gaussians.variables, gaussians.matrix)


def relu(x: sp.Expr) -> sp.Expr:
    return sp.Max(x, 0)


def gelu(x: sp.Expr) -> sp.Expr:
    return x * (1 + sp.erf(x / sp.sqrt(2))) / 2


def erf_slope(x: sp.Expr) -> sp.Expr:
    return 2 / sp.sqrt(sp.pi) * sp.exp(-x**2)


PAIRS = {
    "relu relu": relu(U) * relu(V),
    "step step": sp.Heaviside(U) * sp.Heaviside(V),
    "step relu": sp.Heaviside(U) * relu(V),
    "relu^2 relu^2": relu(U)**2 * relu(V)**2,
    "relu relu, leaky": (relu(U) - relu(-U) / 10) * (relu(V) - relu(-V) / 10),
    "abs abs": sp.Abs(U) * sp.Abs(V),
    "abs relu": sp.Abs(U) * relu(V),
    "min max": sp.Min(U, V) * sp.Max(U, V),
    "max": sp.Max(U, V),
    "sign sign": sp.sign(U) * sp.sign(V),
    "sign poly": sp.sign(U) * V**3 * U**2,
    "erf erf": sp.erf(S * U) * sp.erf(T * V),
    "erf' erf'": erf_slope(S * U) * erf_slope(T * V),
    "erf relu": sp.erf(S * U) * relu(V),
    "erf^2": sp.erf(S * U)**2 * V**2,
    "gelu gelu": gelu(U) * gelu(V),
    "gelu' gelu'": gelu(U).diff(U) * gelu(V).diff(V),
    "gelu relu": gelu(U) * relu(V),
    "poly": U**4 * V**2 - 3 * U * V + 1,
    "poly exp": U**2 * V * sp.exp(S * U + T * V),
    "exp relu": sp.exp(S * V) * relu(U),
    "exp exp sin": sp.exp(S * U - V / 2) * sp.sin(T * V + M),
    "sin sin": sp.sin(S * U + M) * sp.sin(T * V),
    "poly waves": U * V * sp.sin(U)**2 * sp.cos(V + M),
    "sign wave": sp.sign(U) * sp.cos(T * V + M) * U,
    "abs wave": sp.Abs(U) * sp.sin(S * U + T * V + M),
    "squares": sp.exp(-U**2 - U * V / 2 + S * U) * V,
    "square relu": sp.exp(-U**2) * relu(V) * relu(U),
    "cosh cos": sp.cosh(S * U) * sp.cos(V),
    "erfc": sp.erfc(U) * V**2,
}
SINGLES = {
    "relu": relu(U + M), "relu^2": relu(U + M)**2, "abs": sp.Abs(U + M), "sign": sp.sign(U + M) * U**3,
    "step": sp.Heaviside(S * U + M), "erf": sp.erf(S * U + M) * U, "erf alone": sp.erf(S * U + M), "gelu": gelu(U + M),
    "gelu moment": gelu(U + M) * U**2, "exp relu": sp.exp(S * U) * relu(U + M), "wave": U**2 * sp.cos(S * U + M),
    "exp": U**3 * sp.exp(S * U + M), "erf'": erf_slope(S * U + M) * U**2, "exp wave": sp.exp(S * U) * sp.sin(T * U + M),
    "one variable twice": relu(U) * sp.sign(U) * sp.erf(U), "min": sp.Min(U, M) * U,
    "max of both": sp.Max(U, -U) * U**2,
}
PARAMETERS = (A, B, C, S, T, M)


@cache
def closed(name: str, body: sp.Expr, gaussians: Gaussians = PAIR) -> Callable[..., mpmath.mpf]:
    value = expectation(body, gaussians)
    assert not value.has(Expectation), name
    return sp.lambdify(PARAMETERS, value, modules="mpmath")


def exactly(function: Callable[..., mpmath.mpf], a: float, b: float, angle: float, *rest: float) -> float:
    """The closed form in 60 digits at correlation cos(angle)."""
    with mpmath.workdps(60):
        values = [mpmath.mpf(x) for x in (a, b, *rest)]
        values.insert(2, mpmath.sqrt(values[0] * values[1]) * mpmath.cos(mpmath.mpf(angle)))
        result = mpmath.mpmathify(function(*values))
        assert abs(result.imag) < 1e-30
        return float(result.real)


def legendre(edges: np.ndarray, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    x, weight = np.polynomial.legendre.leggauss(nodes)
    half = np.diff(edges) / 2
    return ((edges[:-1] + half)[:, None] + half[:, None] * x).ravel(), (half[:, None] * weight).ravel()


def polar(body: sp.Expr, a: float, b: float, angle: float, s: float, t: float, m: float) -> float:
    """E of a body whose kinks lie on rays, in polar coordinates: u = sqrt(a) r cos x, v = sqrt(b) r cos(x - angle)."""
    slope = math.sqrt(a) - math.sqrt(b) * math.cos(angle), -math.sqrt(b) * math.sin(angle)  # u = v, where Max bends
    rays = np.array([math.pi / 2, angle + math.pi / 2, math.atan2(-slope[0], slope[1])])
    edges = np.unique(np.concatenate([np.linspace(0, 2 * math.pi, 5), rays % (2 * math.pi),
                                      (rays + math.pi) % (2 * math.pi)]))
    x, angular = legendre(edges, 40)
    r, radial = legendre(np.linspace(0, 13, 27), 12)
    plain = sp.lambdify((U, V, S, T, M), body, modules=["scipy", "numpy"])
    values = plain(math.sqrt(a) * r[:, None] * np.cos(x), math.sqrt(b) * r[:, None] * np.cos(x - angle), s, t, m)
    return float(np.sum((radial * r * np.exp(-r * r / 2))[:, None] * angular * values)) / (2 * math.pi)


def line(body: sp.Expr, a: float, s: float, t: float, m: float) -> float:
    """E of a body in u alone with kinks at u = 0, -m, m and -m / s."""
    kinks = np.clip(np.array([0, -m, m, -m / s]) / math.sqrt(a), -13, 13)
    x, weight = legendre(np.unique(np.concatenate([np.linspace(-13, 13, 53), kinks])), 16)
    values = sp.lambdify((U, S, T, M), body, modules=["scipy", "numpy"])(math.sqrt(a) * x, s, t, m)
    return float(np.sum(weight * values * np.exp(-x * x / 2))) / math.sqrt(2 * math.pi)


variances = st.floats(0.05, 2.5)
slopes = st.floats(0.1, 1.2) | st.floats(-1.2, -0.1)
offsets = st.floats(-1.5, 1.5)
near = st.sampled_from([1e-3, 1e-6, 1e-9])
# correlations: any, near 0, near 1, near -1
angles = (st.floats(0.01, 3.13) | near.map(lambda e: math.pi / 2 - e) | near.map(lambda e: math.pi / 2 + e) | near
          | near.map(lambda e: math.pi - e))


@pytest.mark.parametrize("name", PAIRS)
@settings(max_examples=30)
@given(a=variances, b=variances, angle=angles, s=slopes, t=slopes, m=offsets)
def test_closed_forms_of_pairs(name: str, a: float, b: float, angle: float, s: float, t: float, m: float) -> None:
    found, expected = (exactly(closed(name, PAIRS[name]), a, b, angle, s, t, m),
                       polar(PAIRS[name], a, b, angle, s, t, m))
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-11)


@pytest.mark.parametrize("name", SINGLES)
@settings(max_examples=30)
@given(a=variances, s=slopes, t=slopes, m=offsets)
def test_closed_forms_of_one_variable(name: str, a: float, s: float, t: float, m: float) -> None:
    found = exactly(closed(name, SINGLES[name]), a, 1.0, 1.0, s, t, m)
    assert found == pytest.approx(line(SINGLES[name], a, s, t, m), rel=1e-10, abs=1e-11)


RANDOM = {A: sp.Rational(13, 10), B: sp.Rational(7, 11), C: sp.Rational(-3, 7), S: sp.Rational(4, 5),
          T: sp.Rational(-5, 8), M: sp.Rational(2, 9)}


def equal(left: sp.Expr, right: sp.Expr) -> bool:
    """At a point of no meaning, to 40 digits: analytic functions do not agree there by chance."""
    return abs(sp.N((left - right).subs(RANDOM), 40, maxn=400, chop=True)) < sp.Float("1e-35")


def smooth_enough(body: sp.Expr) -> sp.Expr:
    """sympy's derivative of Max(u, v) nests steps; with signs it does not."""
    return expanded(Open().apply(node(body)).body) if body.has(sp.Max(U, V), sp.Min(U, V)) else body


@pytest.mark.parametrize("name", PAIRS)
def test_price_the_derivative_of_a_closed_form_is_the_closed_form_of_the_derivatives(name: str) -> None:
    body, value = smooth_enough(PAIRS[name]), expectation(PAIRS[name], PAIR)
    for parameter, second in ((C, body.diff(U, V)), (A, body.diff(U, 2) / 2), (B, body.diff(V, 2) / 2)):
        assert equal(value.diff(parameter), expectation(second, PAIR)), parameter


@pytest.mark.parametrize("name", PAIRS)
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
    """MATH.md, 6.3, typed: V = E phi' phi', K = E phi'' phi'', E phi''' phi', Cov(phi'', phi); j the jump of slope."""
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


# rules and derivations


@pytest.mark.parametrize("name", [*PAIRS, *SINGLES])
def test_every_step_is_what_its_rule_gives_and_keeps_the_value(name: str) -> None:
    value, derivation = derive_expectation({**PAIRS, **SINGLES}[name], PAIR)
    assert derivation.steps and all(step.check() for step in derivation.steps)
    last: dict[sp.Expr, sp.Expr] = {}
    for step in derivation.steps:
        assert step.before == last.get(step.left, step.left)
        last[step.left] = step.after
    assert not any(end.has(Expectation) for left, end in last.items() if left != derivation.steps[0].left)


def test_the_derivation_prints() -> None:
    _, derivation = derive_expectation(relu(U) * relu(V), PAIR)
    assert [step.rule for step in derivation.steps] == [
        "kinks as signs", "linearity", "parity", "moments", "Stein's lemma", "linearity",
        "conditioning on a delta function", "Stein's lemma", "linearity", "conditioning on a delta function",
        "means of waves and signs"]
    assert r"\mathbb{E}\left[ \max\left(0, u\right) \max\left(0, v\right) \right] &=" in derivation.latex()
    assert str(node(sp.tanh(U))) == "E[tanh(u)]"


def test_rules_say_what_they_are() -> None:
    for rule in (*(kind() for kind in RULES), GivenPast((V,))):
        assert rule.name and rule.reason and rule.source
        assert rule.apply(A + C) == A + C


def test_stein_and_price_on_what_has_no_closed_form() -> None:
    tanh = sp.tanh(V)
    assert Stein(U).apply(node(U * tanh)) == C * node(1 - tanh**2)
    assert Stein(V).apply(node(U * tanh)) == node(U * tanh)
    smooth = node(sp.tanh(U) * tanh)
    price = Price().apply(sp.Derivative(smooth, C))
    assert price == smooth.diff(C) == node((sp.tanh(U)**2 - 1) * (tanh**2 - 1))
    values, step = {A: 1.1, B: 0.6, C: 0.3}, 1e-4
    for parameter in (A, B, C):
        up, down = (smooth.evaluate({**values, parameter: values[parameter] + h}) for h in (step, -step))
        derivative = sum(float(c) * e.evaluate(values) for e, c in
                         smooth.diff(parameter).as_coefficients_dict().items())
        assert derivative == pytest.approx((up - down) / (2 * step), rel=1e-6)
    inside = node(sp.tanh(S * U)).diff(S)  # a parameter of the body
    assert inside == node(U * (1 - sp.tanh(S * U)**2))


def test_conditioning_on_the_past() -> None:
    rng = np.random.default_rng(1)
    root = rng.integers(-3, 4, (4, 5))
    names = sp.symbols("x:4", real=True)
    gaussians = Gaussians.from_matrix(names, sp.Matrix(root @ root.T))
    law = gaussians.given(names[2], names[0])
    matrix = (root @ root.T).astype(float)
    past, future = [0, 2], [1, 3]
    weights = matrix[np.ix_(future, past)] @ np.linalg.inv(matrix[np.ix_(past, past)])
    for i, row in zip(future, weights):
        assert [float(law.mean[names[i]].coeff(names[j])) for j in past] == pytest.approx(row.tolist())
    residual = matrix[np.ix_(future, future)] - weights @ matrix[np.ix_(past, future)]
    assert np.allclose(np.array(law.residual.extract(future, future), dtype=float), residual)
    assert law.mean[names[0]] == names[0] and law.residual[:, 0].is_zero_matrix
    assert PAIR.given(V).mean[U] == C * V / B and PAIR.given(V).residual[0, 0] == (A * B - C**2) / B


def test_conditioning_on_a_past_that_repeats_itself() -> None:
    three = Gaussians({(U, U): A, (U, V): C, (V, V): B, (V, W): 2 * B, (W, W): 4 * B, (U, W): 2 * C})
    law = three.given(V, W)
    assert law.mean[U] == C * V / B and law.mean[W] == 2 * V
    with pytest.raises(ValueError, match="s: not among the Gaussians u, v"):
        PAIR.given(S)


@pytest.mark.parametrize("name", ["poly", "exp exp sin", "sin sin", "poly waves"])
def test_conditioning_keeps_the_value(name: str) -> None:
    conditioned = GivenPast((V,)).apply(node(PAIRS[name]))
    assert conditioned != node(PAIRS[name])
    gaussians = Gaussians.from_matrix(conditioned.variables, conditioned.matrix)
    body = conditioned.body.expand(func=True, trig=False)
    assert equal(expectation(body, gaussians), expectation(PAIRS[name], PAIR))


# bad input


@pytest.mark.parametrize("covariance, message", [
    ({(U, U): 1, (U, V): 0.5, (V, U): 0.4, (V, V): 1}, "covariance of u and v: not symmetric, 1/2 and 2/5"),
    ({(U, U): A, (U, V): C, (V, U): -C, (V, V): B}, "covariance of u and v: not symmetric"),
    ({(U, U): 1, (V, V): 1}, "covariance of u and v: missing"),
    ({(U, U): 1, (U, V): 0}, "covariance of v and v: missing"),
    ({(U, U): -1}, "variance of u: -1 is negative"),
    ({(U, U): -A}, "variance of u: -a is negative"),
    ({(U, U): 1, (U, V): 2, (V, V): 1}, "variance of v given the variables before it: -3"),
    ({(U, U): 0, (U, V): 1, (V, V): 1}, "covariance of u and v given the variables before them: 1.0"),
    ({(U, U): float("nan")}, "covariance of u and u: nan"),
    ({(U, U): U}, "covariance of u and u: u depends on a Gaussian"),
    ({(sp.Symbol("z"), sp.Symbol("z")): 1}, "z: a Gaussian variable is a real symbol"),
])
def test_bad_covariances(covariance: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Gaussians(covariance)


def test_bad_matrix_and_parameter() -> None:
    with pytest.raises(ValueError, match="not symmetric"):
        Gaussians.from_matrix((U, V), [[1, 0], [C, 1]])
    with pytest.raises(ValueError, match="a matrix of shape"):
        Gaussians.from_matrix((U, V), [[1]])
    with pytest.raises(ValueError, match="z not known to be real"):
        expectation(sp.Abs(sp.Symbol("z") * U + V), PAIR)


def test_the_example_in_the_docs() -> None:
    assert doctest.testmod(gaussian).failed == 0
