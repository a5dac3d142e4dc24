"""Programs that users write: other names, multiples at the ends, and what is refused because it is something else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Mapping

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.programs.indices import L, T, l, t
from tpcalc.theory import Assign, Family, Loop, LossDerivative, Matrix, MatVec, Mean, Outer, Scalar, Transpose, Vector

XI, Y = (1.0, 0.8, -0.6), (1.0, -0.7, 0.5)
ONE, ZERO = sp.Integer(1), sp.Integer(0)
EPS = L ** -sp.Rational(1, 2)


@dataclass(frozen=True)
class Written:
    """A residual network of tanh as somebody writes it down.

    names: of x, its gradient, the initial vectors, the data, output and loss; start, read, push: factors of x at first,
    of the output, of the loss's derivative; bounds: of the layers' loop; hat: what multiplies W x; after: what is read;
    beside: what a layer adds besides; back: the backward layers' index; frozen: how many of the first
    layers; named: what the start is called, if it has a name; rate, keep: of updates; clock: the steps' index;
    returned: what multiplies the gradient that a layer adds.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    start: sp.Expr = ONE
    read: sp.Expr = ONE
    push: sp.Expr = ONE
    bounds: tuple[sp.Expr, sp.Expr] = (ONE, L)
    read_at: sp.Expr = L
    hat: sp.Expr = ONE
    after: Callable[[sp.Expr], sp.Expr] = lambda z: z
    beside: Callable[[Family, Family], sp.Expr] = lambda x, z: ZERO
    back: sp.Symbol = l
    frozen: int = 0
    named: str | None = None
    rate: sp.Expr = ONE
    keep: sp.Expr = ONE
    clock: sp.Symbol = t
    returned: sp.Expr = EPS

    def _family(self, kind: type, name: str, layered: bool = False) -> Family:
        return Family(kind, self.names.get(name, name), layered=layered)

    def program(self) -> tp.Program:
        t = self.clock
        x, h, z, dx, dh = (self._family(Vector, name, True) for name in ("x", "h", "z", "dx", "dh"))
        W, (U, nV) = self._family(Matrix, "W", True), (self._family(Vector, name)() for name in ("U", "nV"))
        xi, f, chi = (self._family(Scalar, name) for name in ("xi", "f", "chi"))
        first, last = self.bounds
        forward = Loop(l, first, last, (
            Assign(h[t, l], self.hat * MatVec(W[t, l], x[t, l - 1])), Assign(z[t, l], sp.tanh(h[t, l])),
            Assign(x[t, l], x[t, l - 1] + EPS * z[t, l] + self.beside(x, z))))
        lags = (Assign(x[t, -1], xi[t] * U), Assign(z[t, 0], U)) if self.beside(x, z) != 0 else ()
        m = self.back
        backward = Loop(m, last, first, (
            Assign(dh[t, m], (1 - sp.tanh(h[t, m]) ** 2) * self.hat * dx[t, m]),
            Assign(dx[t, m - 1], dx[t, m] + self.returned * MatVec(Transpose(W[t, m]), dh[t, m]))),
            descending=True)
        update = Loop(m, first + self.frozen, last, (
            Assign(W[t + 1, m], self.keep * W[t, m] - self.rate * EPS * Outer(dh[t, m], x[t, m - 1])),))
        begun, given = self.start * xi[t] * U, list[Assign]()
        if self.named is not None:
            named = self._family(Vector, self.named)[t]
            begun, given = named, [Assign(named, begun)]
        body = (*given, Assign(x[t, first - 1], begun), *lags, forward,
                Assign(f[t], self.read * Mean(nV * self.after(x[t, self.read_at]))),
                Assign(chi[t], self.push * LossDerivative(f[t], t)),
                Assign(dx[t, last], self.read * chi[t] * nV), backward, update,
                *(Assign(W[t + 1, k], W[t, k]) for k in range(1, 1 + self.frozen)))
        return tp.Program("written", (U, nV), (W[0, l],), (xi[t],), (Loop(t, ZERO, T - 1, body),), (T, L),
                          roles={m: "layer"})

    def limit(self) -> tp.theory.KetLimitRegion:
        region, = tp.depth_limit(tp.kets(self.program())).regions
        return region

    def outputs(self, loss: Callable[[float, float], float] = lambda f, y: f - y, inputs: tuple[float, ...] = XI
                ) -> np.ndarray:
        found: np.ndarray = self.limit().compile(loss)(inputs, Y).outputs
        return found


@pytest.fixture(scope="module")
def plain() -> np.ndarray:
    return Written().outputs()


def test_written_as_the_library_writes_it(plain: np.ndarray) -> None:
    run = tp.train(tp.ResNet("tanh"), tp.Task(XI, Y), tp.SGD(), tp.DepthScaling(), depth=tp.oo)
    assert plain == pytest.approx(run.outputs.ravel(), abs=1e-5)


@pytest.mark.parametrize("names", [
    dict(xi="rho_1", f="w_2", chi="error"), dict(x="u", z="v", U="y", nV="a", h="c"),
    dict(x="R", dx="E", W="A", nV="B"), dict(chi="u", f="p"), dict(x="k", dx="q", xi="r")])
def test_names_do_not_matter(plain: np.ndarray, names: dict[str, str]) -> None:
    assert Written(names).outputs() == pytest.approx(plain, abs=1e-12)


def test_the_start_may_have_a_name(plain: np.ndarray) -> None:
    """It is no trained vector: it answers nothing, and training that moves nothing is trivial."""
    assert Written(named="a").outputs() == pytest.approx(plain, abs=1e-12)
    more = {str(e.target) for e in Written(named="a").limit().equations}
    assert more - {str(e.target) for e in Written().limit().equations} == {"|a[t]>"}
    slow = Written(named="a", rate=1 / L)
    assert slow.limit().is_trivial and slow.outputs() == pytest.approx(np.zeros(3), abs=1e-12)


def test_another_symbol_for_the_layers_backward(plain: np.ndarray) -> None:
    assert Written(back=sp.Symbol("m", integer=True)).outputs() == pytest.approx(plain, abs=1e-12)


def test_clocks_rates_and_decays(plain: np.ndarray) -> None:
    """A clock named as the library names earlier steps; rates by step; what a matrix loses like 1 / L."""
    assert Written(clock=sp.Symbol("s", integer=True, nonnegative=True)).outputs() == pytest.approx(plain, abs=1e-12)
    falling = tp.train(tp.ResNet("tanh"), tp.Task(XI, Y), tp.SGD([1.0, 0.5, 0.25]), tp.DepthScaling(), depth=tp.oo)
    assert Written(rate=sp.Rational(1, 2)**t).outputs() == pytest.approx(falling.outputs.ravel(), abs=1e-5)
    assert Written(keep=1 - 1 / L).outputs() == pytest.approx(plain, abs=1e-12)
    assert np.abs(Written(keep=sp.Rational(4, 5)).outputs() - plain).max() > 1e-3
    assert Written(rate=ZERO).outputs() == pytest.approx(np.zeros(3), abs=1e-12)


def test_a_constant_that_a_program_names(plain: np.ndarray) -> None:
    limit = tp.depth_limit(tp.kets(Written(rate=sp.Symbol("eta")).program()))
    assert limit.compile(eta=1)(XI, Y).outputs == pytest.approx(plain, abs=1e-12)
    with pytest.raises(ValueError, match="no value for eta"):
        limit.compile()


def test_a_gradient_that_runs_through_unchanged_does_not_grow() -> None:
    """It is what a return that vanishes with the depth leads to."""
    assert Written(returned=ZERO).outputs() == pytest.approx(Written(returned=1 / L**2).outputs(), abs=1e-12)


def test_multiples_at_the_ends(plain: np.ndarray) -> None:
    """Of the output: another loss of half of it; of the loss's derivative: another loss; of x: other inputs."""
    two, three, half = sp.Integer(2), sp.Integer(3), sp.Rational(1, 2)
    halves = Written().outputs(lambda f, y: 2 * (2 * f - y))
    assert Written(read=two).outputs() == pytest.approx(2 * halves, abs=1e-12)
    assert Written(push=three).outputs() == pytest.approx(Written().outputs(lambda f, y: 3 * (f - y)), abs=1e-12)
    assert Written(start=half).outputs() == pytest.approx(
        Written().outputs(inputs=tuple(x / 2 for x in XI)), abs=1e-12)
    assert np.abs(2 * halves - plain).max() > .1


@pytest.mark.parametrize("written, says", [
    (Written(bounds=(sp.Integer(2), L)), "has layers 2 to L; expected all of them, 1 to L"),
    (Written(bounds=(ONE, L - 1), read_at=L - 1), "has layers 1 to L - 1"),
    (Written(read_at=L - 1), r"reads the stream at a layer within, x\[t, L - 1\]"),
    (Written(read=EPS), "has a power of L"), (Written(start=EPS), "has a power of L"),
    (Written(beside=lambda x, z: EPS * z[t, l - 1]), r"reads z\[t, l - 1\], of another layer"),
    (Written(beside=lambda x, z: EPS * x[t, l - 2]), r"reads x\[t, l - 2\], of another layer"),
    (Written(frozen=1), "is made in another way in each layer"),
    (Written(hat=EPS), "a power of L stands in a function or before what is no update")])
def test_other_programs_are_refused(written: Written, says: str) -> None:
    with pytest.raises(tp.NotCovered, match=says):
        written.limit()


def test_a_function_of_the_stream_that_is_read_is_refused_in_numbers() -> None:
    with pytest.raises(tp.NotCovered, match=r"f\[t\] = .* expected a combination of"):
        Written(after=sp.tanh).outputs()
