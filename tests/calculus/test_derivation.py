"""The symbolic line for the linear residual network: derived, step by step, and right."""

import re

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.calculus.coefficients import Bases, IndependentKets
from tpcalc.calculus.kets import Base, Bracket, Covariance, Dot, Gamma, Hat, Ket, Response, ket
from tpcalc.calculus.equations import DotSum, HatDot, UpdateActs
from tpcalc.calculus.setting import Setting, solve_indices
from tpcalc.programs.language import Family, Matrix, MatVec, Mean, Outer, Transpose, Vector, kind
from tpcalc.programs.program import Assign, Loop, Program

ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)


@pytest.fixture(scope="module")
def program() -> Program:
    return tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling(ALPHA, GAMMA))


@pytest.fixture(scope="module")
def recursion(program: Program) -> tp.theory.Recursion:
    return tp.recursion(tp.kets(program))


def test_every_step_is_what_its_rule_gives(recursion: tp.theory.Recursion) -> None:
    assert all(step.check() for step in recursion.derivation.steps)


def test_a_wrong_step_fails_its_check(recursion: tp.theory.Recursion) -> None:
    from dataclasses import replace

    for step in recursion.derivation.steps:
        assert not replace(step, after=-step.after).check()
        assert not replace(step, after=step.after + sp.Symbol("z")).check()


def test_the_derivation_is_short_and_chained(recursion: tp.theory.Recursion) -> None:
    """Fewer than 40 steps; each step with the same left side starts where the last one ended."""
    steps = recursion.derivation.steps
    assert len(steps) < 40
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    last: dict[sp.Expr, sp.Expr] = {}
    for step in steps:
        if step.left in last and step.rule not in ("causality", "collect"):
            assert step.before == last[step.left]
        last[step.left] = step.after
    assert all(step.reason and step.source for step in steps)


def test_ket_equations_of_program_1(program: Program) -> None:
    """Tensor Programs VI, Program 1 and appendix C.2, with sums from s = 0: derived, as in print."""
    x, dx = Family(Vector, "x", layered=True), Family(Vector, "dx", r"\delta x", layered=True)
    W = Family(Matrix, "W", layered=True)
    t, l = sp.symbols("t l", integer=True, nonnegative=True)
    s = sp.Symbol("s", integer=True, nonnegative=True)
    L = program.sizes[1]
    equations = {e.target: e.value for e in tp.kets(program).equations}
    F, B = Hat(MatVec(W[0, l], x[t, l - 1])), Hat(MatVec(Transpose(W[0, l]), dx[t, l]))
    forward = (Ket(x[t, l - 1]) + L**-ALPHA * F + sp.Sum(
        Ket(dx[s, l]) * (L**-ALPHA * Response(x[t, l - 1], B.subs(t, s))
                         - L**(-ALPHA - GAMMA) * Bracket(x[s, l - 1], x[t, l - 1])), (s, 0, t - 1)))
    backward = (Ket(dx[t, l]) + L**-ALPHA * B + sp.Sum(
        Ket(x[s, l - 1]) * (L**-ALPHA * Response(dx[t, l], F.subs(t, s))
                            - L**(-ALPHA - GAMMA) * Bracket(dx[s, l], dx[t, l])), (s, 0, t - 1)))
    assert equations[Ket(x[t, l])].equals(forward) or sp.expand(equations[Ket(x[t, l])] - forward) == 0
    assert sp.expand(equations[Ket(dx[t, l - 1])] - backward) == 0


def test_a_backward_ket_does_not_know_its_own_forward_noise(program: Program) -> None:
    """The dot sum of W^T delta runs to s = t; causality takes the last term away, and only there."""
    steps = tp.kets(program).derivation.steps
    causal = [step for step in steps if step.rule == "causality"]
    assert len(causal) == 1 and "dx" in str(causal[0].left)
    assert tp.kets(program).support.offsets == {(0, 0): 0, (0, 1): -1, (1, 0): -1, (1, 1): 0}


def test_powers_of_L_in_the_recursion(recursion: tp.theory.Recursion) -> None:
    """Tensor Programs VI, appendix H.3: L^(1/2 - alpha) at births, L^(-alpha - gamma), L^(-alpha - 1/2) in the sum."""
    L = recursion.setting.program.sizes[1]
    for equation in recursion.equations:
        if equation.kind == "Gamma" and equation.value.has(sp.Sum):
            powers = {p.exp for p in equation.value.atoms(sp.Pow) if p.base == L}
            assert powers == {sp.Rational(1, 2) - ALPHA, -ALPHA - GAMMA, -ALPHA - sp.Rational(1, 2)}


def test_output_is_the_coefficient_of_the_read_out(recursion: tp.theory.Recursion) -> None:
    f = next(e for e in recursion.equations if str(e.target) == "f[t]")
    t, L = recursion.setting.time, recursion.setting.program.sizes[1]
    assert f.value == Gamma(0, 1, sp.Tuple(t), sp.Tuple(-1), sp.Tuple(L), sp.Tuple(0))


def test_the_dot_of_an_outer_product_is_not_a_product_of_kets() -> None:
    """Remark E.1: |u><v| acts on |z> by a number."""
    u, v, z = (Family(Vector, name)() for name in "uvz")
    W = Family(Matrix, "W")
    t = sp.Symbol("t", integer=True, nonnegative=True)
    given = Program("outer", (u, v, z), (W[0],), (), (
        Loop(t, sp.Integer(0), sp.Symbol("T", integer=True, positive=True) - 1,
             (Assign(Family(Vector, "y")[t], MatVec(W[t], z)), Assign(W[t + 1], W[t] - 3 * Outer(u, v)))),),
        (sp.Symbol("T", integer=True, positive=True),))
    acted = UpdateActs(Setting.of(given)).apply(Ket(MatVec(W[t], z)))
    s = Setting.of(given).past
    assert sp.expand(acted - Ket(MatVec(W[0], z)) - sp.Sum(-3 * Ket(u) * Bracket(v, z), (s, 0, t - 1))) == 0
    assert HatDot(Setting.of(given)).apply(Ket(MatVec(W[0], z))) == Hat(MatVec(W[0], z)) + Dot(MatVec(W[0], z))


def test_brackets_are_symmetric_and_kets_of_moments() -> None:
    u, v = Family(Vector, "u")(), Family(Vector, "v")()
    assert Bracket(u, v) == Bracket(v, u) == ket(Mean(u * v))
    assert ket(2 * u + sp.tanh(v)) == 2 * Ket(u) + sp.tanh(Ket(v))


def test_kinds_refuse_what_is_not_a_tensor_program() -> None:
    u, W = Family(Vector, "u")(), Family(Matrix, "W")()
    assert kind(MatVec(W, u) + u) == "vector" and kind(Outer(u, u)) == "matrix" and kind(Mean(u)) == "scalar"
    for wrong in (W * W, W + u, sp.tanh(W), W * u, MatVec(u, u), MatVec(W, W)):
        with pytest.raises(TypeError):
            kind(wrong)


def test_a_program_that_reads_the_future_is_refused_by_name() -> None:
    t, T = sp.Symbol("t", integer=True, nonnegative=True), sp.Symbol("T", integer=True, positive=True)
    x = Family(Vector, "x")
    with pytest.raises(ValueError, match=r"x\[0\] := x\[1\] reads x\[1\]"):
        Program("future", (), (), (), (Loop(t, sp.Integer(0), T - 1, (Assign(x[t], x[t + 1]),)),), (T,))


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="program: got 3"):
        tp.kets(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="equations: got 'x'"):
        tp.recursion("x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="net: got 1"):
        tp.program(1, tp.SGD(), tp.DepthScaling())  # type: ignore[arg-type]


def test_latex_writes_the_papers_symbols(program: Program, recursion: tp.theory.Recursion) -> None:
    kets_latex, text = tp.kets(program).latex(), recursion.latex()
    assert r"| W_{0}^{l} x_{t}^{l - 1} \hat{\rangle}" in kets_latex
    assert r"| W_{0}^{l\top} \delta x_{s}^{l} \hat{\rangle}" in kets_latex
    assert r"\Gamma_{t,s,0,1}\left(\tfrac{l - 1}{L},\tfrac{l}{L}\right)" in text
    assert r"f_{t} &= \Gamma_{t,-1,0,1}\left(1\right)" in text
    for body in (program.latex(), kets_latex, text, recursion.derivation.latex()):
        assert body.count("{") == body.count("}") and not re.search(r"KroneckerDelta|Sum\(", body)


def test_brackets_are_expanded_over_pairs_that_correlate(recursion: tp.theory.Recursion) -> None:
    """No step writes terms that vanish in the next one, or a bracket within a bracket."""
    steps = recursion.derivation.steps
    pairs = [(step, after) for step, after in zip(steps, steps[1:]) if step.rule == "bilinearity"]
    assert len(pairs) == 3
    for step, after in pairs:
        assert after.rule == "independence" and len(step.after.args) == len(after.after.args)
        assert "<|" not in str(step) and r"\langle |" not in step.latex()


def test_independence_keeps_only_what_correlates(program: Program) -> None:
    """Two hat-kets of one matrix correlate; those of a matrix and its transpose, or of two layers, do not."""
    rule, r, q = IndependentKets(Setting.of(program)), *sp.symbols("r q", integer=True)

    def base(b: int, step: sp.Expr, layer: int) -> Base:
        return Base(b, sp.Tuple(step), sp.Tuple(layer))

    pair = rule.apply(Bracket(base(0, r, 3), base(0, q, 3)))
    assert pair == Covariance(0, 0, sp.Tuple(r), sp.Tuple(q), sp.Tuple(3), sp.Tuple(3))
    assert rule.apply(Bracket(base(0, r, 3), base(1, q, 3))) == 0
    assert rule.apply(Bracket(base(0, r, 3), base(0, q, 4))) == 0
    U, nV = program.vectors
    assert rule.apply(Bracket(Ket(U), Ket(U))) == 1 and rule.apply(Bracket(Ket(U), Ket(nV))) == 0
    assert rule.apply(Bracket(base(0, r, 3), Ket(U))) == 0


def test_a_program_says_where_it_is_wrong() -> None:
    x, u, W, t = Family(Vector, "x"), Family(Vector, "u")(), Family(Matrix, "W"), sp.Symbol("t", integer=True)
    with pytest.raises(ValueError, match=r"y := x\[5\] reads x\[5\]"):
        Program("unassigned", (x[0],), (), (), (Assign(Family(Vector, "y")(), x[5]),), ())
    with pytest.raises(ValueError, match=r"assigns x\[0\] a second time"):
        Program("given", (x[0], u), (), (), (Assign(x[0], u),), ())
    with pytest.raises(ValueError, match=r"assigns x\[1\] a second time"):
        Program("twice", (u,), (), (), (Assign(x[1], u), Assign(x[1], 2 * u)), ())
    for wrong in (lambda: Assign(2 * u, u), lambda: Mean(W[0]), lambda: kind(Outer(W[0], u)),
                  lambda: kind(Transpose(u))):
        with pytest.raises(TypeError):
            wrong()
    assert str(Transpose(W[0] + W[1])) == "(W[0] + W[1]).T" and Mean(5) == 5
    assert t not in Mean(5).free_symbols


def test_a_product_that_comes_later_is_in_no_dot_of_an_earlier_one() -> None:
    """Without training steps: W a comes first and knows nothing of W^T b, which knows W a."""
    A, B, x, y = (Family(Vector, name)() for name in "abxy")
    W = Family(Matrix, "W")()
    first, second = MatVec(W, A), MatVec(Transpose(W), B)
    setting = Setting.of(Program("p", (A, B), (W,), (), (Assign(x, first), Assign(y, second)), ()))
    locations = [product.location.position for product in setting.products]
    assert DotSum(setting, locations[0]).apply(Dot(first)) == 0
    assert DotSum(setting, locations[1]).apply(Dot(second)) == Ket(A) * Response(B, Hat(first))


def test_indices_are_solved_for_and_fixed_ones_compared() -> None:
    t = sp.Symbol("t", integer=True)
    two, three = sp.Integer(2), sp.Integer(3)
    assert solve_indices((two, t + 1), (two, three), {t}) == {t: 2} and solve_indices((two,), (-two,), {t}) is None
    assert solve_indices((t + 1, t), (three, three), {t}) is None


def test_products_outside_of_the_layers_stand_at_layer_zero() -> None:
    """A U before the layers has a base ket of no layer, beside those of W in every layer."""
    t, l = (sp.Symbol(name, integer=True, nonnegative=True) for name in "tl")
    steps, depth = (sp.Symbol(name, integer=True, positive=True) for name in "TL")
    U, x = Family(Vector, "U")(), Family(Vector, "x", layered=True)
    A, W = Family(Matrix, "A")(), Family(Matrix, "W", layered=True)[l]
    setting = Setting.of(Program("p", (U,), (A, W), (), (Loop(t, sp.Integer(0), steps - 1, (
        Assign(x[t, 0], (t + 1) * MatVec(A, U)),
        Loop(l, sp.Integer(1), depth, (Assign(x[t, l], x[t, l - 1] + MatVec(W, x[t, l - 1])),)))),), (steps, depth)))
    outside, inside = setting.products
    bases = Bases(setting)
    assert bases.location(outside, {})[1] == sp.Tuple(0) and bases.location(inside, {})[1] == sp.Tuple(l)
    assert bases.fixed(outside, bases.generic())[bases.generic().args[2][0]] == 0
