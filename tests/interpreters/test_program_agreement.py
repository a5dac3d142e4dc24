"""The readings of one program agree: drawn programs, and networks written in the language by hand."""

from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import assume, find, given, settings
from sympy import catalan

import tpcalc as tp
from support.closeness import assert_close
from tpcalc.calculus.kets import Dot, Hat
from tpcalc.interpreters.kets import Space
from tpcalc.interpreters.program_coefficients import read_program_coefficients
from tpcalc.interpreters.vectors import run_program
from tpcalc.programs.language import Family, LossDerivative, Matrix, MatVec, Mean, Outer, Scalar, Transpose, Vector
from tpcalc.programs.program import Assign, Loop, Program
from tpcalc.testing.agreement import assert_interpreters_agree
from tpcalc.testing.programs import ProgramExample, linear_programs

T, L = sp.symbols("T L", integer=True, positive=True)
t, l, i = sp.symbols("t l i", integer=True, nonnegative=True)
X, DX = Family(Vector, "x", layered=True), Family(Vector, "dx", layered=True)
H, DH = Family(Vector, "h", layered=True), Family(Vector, "dh", layered=True)
U, NV = Family(Vector, "U"), Family(Vector, "nV")
W, V, M = (Family(Matrix, name, layered=True) for name in "WVM")
XI, F, CHI = Family(Scalar, "xi"), Family(Scalar, "f"), Family(Scalar, "chi")
ETA = sp.Symbol("eta", real=True)
ZERO, ONE = sp.Integer(0), sp.Integer(1)
EPS = 1 / sp.sqrt(L)
SIZES = {T: 3, L: 4}
DATA = {"xi": [1, "4/5", "-3/5"], "y": [1, "-7/10", "1/2"], "eta": "1/2"}


def training(name: str, forward: Any, backward: Any, update: tuple, matrices: tuple, ends: tuple = (),
             before: tuple = (), read_in: Any = U(), read_out: Any = NV(), first: tuple = (U(), NV())) -> Program:
    """One input a step: forward(l) gives the statements to node l, backward(l) those to node l - 1, then updates."""
    body = (Assign(X[t, 0], XI[t] * read_in), Loop(l, ONE, L, forward), Assign(F[t], Mean(read_out * X[t, L])),
            Assign(CHI[t], LossDerivative(F[t], t)), Assign(DX[t, L], CHI[t] * read_out),
            Loop(l, L, ONE, backward, descending=True), *update, *ends)
    return Program(name, first, matrices, (XI[t],), (*before, Loop(t, ZERO, T - 1, body)), (T, L))


def tied() -> Program:
    """One matrix for all layers: its update is the sum of all of theirs."""
    W = Family(Matrix, "W")
    gradient = sp.Sum(Outer(DX[t, l], X[t, l - 1]), (l, 1, L))
    return training("tied", (Assign(X[t, l], X[t, l - 1] + EPS * MatVec(W[t], X[t, l - 1])),),
                    (Assign(DX[t, l - 1], DX[t, l] + EPS * MatVec(Transpose(W[t]), DX[t, l])),),
                    (Assign(W[t + 1], W[t] - ETA * EPS * gradient),), (W[0],))


def two_matrices() -> Program:
    """Branches V W x."""
    return training("two matrices", (Assign(H[t, l], MatVec(W[t, l], X[t, l - 1])),
                                     Assign(X[t, l], X[t, l - 1] + EPS * MatVec(V[t, l], H[t, l]))),
                    (Assign(DH[t, l], MatVec(Transpose(V[t, l]), DX[t, l])),
                     Assign(DX[t, l - 1], DX[t, l] + EPS * MatVec(Transpose(W[t, l]), DH[t, l]))),
                    (Loop(l, ONE, L, (Assign(W[t + 1, l], W[t, l] - ETA * EPS * Outer(DH[t, l], X[t, l - 1])),
                                      Assign(V[t + 1, l], V[t, l] - ETA * EPS * Outer(DX[t, l], H[t, l])))),),
                    (W[0, l], V[0, l]))


def plain(name: str, matrix: Any = W, update: tuple | None = None, **ends: Any) -> Program:
    """The residual network of one matrix a layer; update: of the matrices, SGD if None."""
    update = update or (Loop(l, ONE, L, (
        Assign(W[t + 1, l], W[t, l] - ETA * EPS * Outer(DX[t, l], X[t, l - 1])),)),)
    return training(name, (Assign(X[t, l], X[t, l - 1] + EPS * MatVec(W[t, l], X[t, l - 1])),),
                    (Assign(DX[t, l - 1], DX[t, l] + EPS * MatVec(Transpose(W[t, l]), DX[t, l])),), update,
                    (W[0, l],), **ends)


def trained_embedding_readout() -> Program:
    """Read-in and read-out move by their gradients too."""
    return plain("trained ends", read_in=U[t], read_out=NV[t], first=(U[0], NV[0]), ends=(
        Assign(U[t + 1], U[t] - ETA * XI[t] * DX[t, 0]), Assign(NV[t + 1], NV[t] - ETA * CHI[t] * X[t, L])))


def heavy_ball(buffers: bool) -> Program:
    """Momentum 1/2 and decay 1/8: with a buffer for every matrix, 0 at first, or with a sum over all earlier steps."""
    s = sp.Symbol("s", integer=True)
    start: tuple = (Loop(l, ONE, L, (Assign(M[0, l], ZERO),)),)
    moved = sp.Rational(1, 2) * M[t, l] + Outer(DX[t, l], X[t, l - 1])
    total = sp.Sum(sp.Rational(1, 2) ** (t - s) * Outer(DX[s, l], X[s, l - 1]), (s, 0, t))
    decayed = sp.Rational(7, 8) * W[t, l]
    update: tuple = (Assign(M[t + 1, l], moved), Assign(W[t + 1, l], decayed - ETA * EPS * M[t + 1, l]))
    if not buffers:
        start, update = (), (Assign(W[t + 1, l], decayed - ETA * EPS * total),)
    return plain("heavy ball", update=(Loop(l, ONE, L, update),), before=start)


def batch(size: int) -> Program:
    """Several inputs a step: one more index, and updates by the mean."""
    body = (
        Loop(i, ZERO, sp.Integer(size - 1), (
            Assign(X[t, i, 0], XI[t, i] * U()),
            Loop(l, ONE, L, (Assign(X[t, i, l], X[t, i, l - 1] + EPS * MatVec(W[t, l], X[t, i, l - 1])),)),
            Assign(F[t, i], Mean(NV() * X[t, i, L])), Assign(CHI[t, i], LossDerivative(F[t, i], t, i)),
            Assign(DX[t, i, L], CHI[t, i] * NV()),
            Loop(l, L, ONE, (Assign(DX[t, i, l - 1], DX[t, i, l] + EPS * MatVec(Transpose(W[t, l]), DX[t, i, l])),),
                 descending=True))),
        Loop(l, ONE, L, (Assign(W[t + 1, l], W[t, l] - ETA * EPS / size * sp.Sum(
            Outer(DX[t, i, l], X[t, i, l - 1]), (i, 0, size - 1))),)))
    return Program("batch", (U(), NV()), (W[0, l],), (XI[t, i],), (Loop(t, ZERO, T - 1, body),), (T, L))


NETWORKS = (plain("residual"), tied(), two_matrices(), trained_embedding_readout(), heavy_ball(True))


@settings(max_examples=25)
@given(linear_programs())
def test_drawn_programs(example: ProgramExample) -> None:
    """Floats, rationals and real networks; values so large that a network of width 500 has not converged aside."""
    reading = read_program_coefficients(*example)
    assume(max(reading.bracket(v, v) for v in reading.vectors) < 100)
    assert_interpreters_agree(*example, seeds=10, width=300)


@settings(max_examples=30)
@given(linear_programs(max_statements=12))
def test_drawn_programs_in_floats_and_rationals(example: ProgramExample) -> None:
    assert_interpreters_agree(*example, seeds=0)


@pytest.mark.parametrize("program", NETWORKS, ids=lambda p: p.name)
def test_networks_written_by_hand(program: Program) -> None:
    assert_interpreters_agree(program, SIZES, DATA)


@pytest.mark.slow
@pytest.mark.parametrize("program", NETWORKS, ids=lambda p: p.name)
def test_networks_written_by_hand_at_large_width(program: Program) -> None:
    assert_interpreters_agree(program, SIZES, DATA, seeds=24, width=2000)


def test_one_network_written_in_two_ways_is_one_network() -> None:
    """Momentum as buffers or as sums; a batch of copies or one input; weights in one matrix at depth 1 or not."""
    one, two = (read_program_coefficients(heavy_ball(b), SIZES, DATA, exact=True) for b in (True, False))
    assert one.scalars == two.scalars and one.bracket(X[2, 4], DX[1, 2]) == two.bracket(X[2, 4], DX[1, 2]) != 0
    many = {**DATA, **{name: np.array([DATA[name]] * 2).T for name in ("xi", "y")}}
    one = read_program_coefficients(plain("residual"), SIZES, DATA, exact=True)
    two = read_program_coefficients(batch(2), SIZES, many, exact=True)
    assert np.array_equal(np.array([one.series("f")] * 2).T, two.series("f"))
    shallow = {T: 3, L: 1}
    one, two = (read_program_coefficients(p, shallow, DATA, exact=True) for p in (plain("residual"), tied()))
    assert one.scalars == two.scalars
    finite = [run_program(heavy_ball(b), SIZES, DATA, width=30).series("f") for b in (True, False)]
    assert_close(finite[0], finite[1], 1e-12)


def test_a_batch_trains_as_the_solvers_say() -> None:
    xi, y = np.random.default_rng(0).uniform(-1, 1, (2, 3, 2))
    run = tp.train(tp.ResNet(), tp.Task(xi[..., None], y[..., None]), tp.SGD(0.5), tp.DepthScaling(), depth=5)
    found = read_program_coefficients(batch(2), {T: 3, L: 5}, {"xi": xi, "y": y, "eta": 0.5})
    assert_close(found.series("f"), run.outputs[..., 0], 1e-12, 1.0)


def test_tied_weights_at_initialization_are_powers_of_one_matrix() -> None:
    """x^n = (1 + W / 2)^n U and W^k U are orthonormal: <x^m|x^n> = sum of binomials C(m, k) C(n, k) / 4^k."""
    reading = read_program_coefficients(tied(), {T: 1, L: 4}, {**DATA, "xi": [1], "y": [1]}, exact=True)
    for m in range(5):
        for n in range(5):
            known = sum(Fraction(comb(m, k) * comb(n, k), 4**k) for k in range(5))
            assert reading.bracket(X[0, m], X[0, n]) == reading.bracket(DX[0, 4 - m], DX[0, 4 - n]) == known


def test_moments_of_random_matrices() -> None:
    """<a|(W^T W)^k a> and <a|((W + W^T) / sqrt 2)^2k a> are Catalan numbers (Marchenko-Pastur, Wigner)."""
    a, matrix, y, z = Family(Vector, "a")(), Family(Matrix, "W")[0], Family(Vector, "y"), Family(Vector, "z")
    symmetric = Family(Matrix, "S")[1]
    program = Program("powers", (a,), (matrix,), (), (
        Assign(symmetric, matrix + Transpose(matrix)), Assign(y[0], a), Assign(z[0], a),
        Loop(i, ZERO, sp.Integer(11), (
            Assign(y[i + 1], MatVec(Transpose(matrix), MatVec(matrix, y[i]))),
            Assign(z[i + 1], MatVec(symmetric, z[i]))))), ())
    reading = read_program_coefficients(program, {}, exact=True)
    for k in range(13):
        assert reading.bracket(a, y[k]) == catalan(k)
        assert reading.bracket(a, z[k]) == (0 if k % 2 else 2 ** (k // 2) * catalan(k // 2))


def test_readings_that_disagree_are_named() -> None:
    program = plain("residual")
    known = read_program_coefficients(program, SIZES, DATA)
    assert_interpreters_agree(program, SIZES, DATA, seeds=0, readings={
        "object": lambda p, sizes, data: known, "mapping": lambda p, sizes, data: {F[1]: known.scalars[F[1]]}})
    for wrong, message in (({F[1]: known.scalars[F[1]] + 1e-9}, r"f\[1\]: coefficients .*, other .* 1.00e-09 is more"),
                           ({F[9]: 1.0}, "reading 'other' gives none of the scalars"),
                           ({F[1]: np.nan}, r"f\[1\]: coefficients .* nan")):
        with pytest.raises(AssertionError, match=message):
            assert_interpreters_agree(program, SIZES, DATA, seeds=0, readings={"other": lambda p, sizes, data: wrong})


def test_a_wrong_limit_is_seen_in_real_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the dots had the wrong sign, or were left out, drawn widths would tell."""
    true = Space.dot
    for factor in (-1, 0):
        monkeypatch.setattr(Space, "dot", lambda self, *args: factor * true(self, *args))
        with pytest.raises(AssertionError, match="mean of 12 networks of width 500"):
            assert_interpreters_agree(plain("residual"), {T: 3, L: 4}, DATA)


@settings(max_examples=60)
@given(linear_programs())
def test_drawn_programs_are_what_they_say(example: ProgramExample) -> None:
    """Sizes and data fit, the program prints, straight-line programs have no T."""
    text = repr(example)
    assert text.startswith("program drawn") and ("for t" in text) == (T in example.sizes)
    assert set(example.sizes) == set(example.program.sizes) and set(example.data) <= {"alpha"}
    assert all(size in (1, 4, 9) for symbol, size in example.sizes.items() if symbol == L)


@pytest.mark.slow
def test_a_failing_program_shrinks_to_a_small_one() -> None:
    def has_dot(example: ProgramExample) -> bool:
        reading = read_program_coefficients(*example)
        return any(np.any(reading.ket(Dot(h.vector)) != 0) for h in reading.bases if isinstance(h, Hat))

    smallest = find(linear_programs(), has_dot, settings=settings(max_examples=200, database=None, derandomize=True))
    assert len(smallest.program.locations()) <= 2 and smallest.sizes == {}
