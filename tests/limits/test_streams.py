"""Streams of layer sweeps: what layers pass on is taken apart by the layers' map, whatever the program looks like."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.limits.layer_map import NoStreams, period, slow_subspace
from tpcalc.limits.inlining import at_own_layers
from tpcalc.limits.slow_streams import normal_form
from tpcalc.orders.quantities import in_powers
from tpcalc.programs.indices import L, T, l, t
from tpcalc.programs.language import Family, LossDerivative, Mean, Scalar, Vector
from tpcalc.programs.program import Assign, Loop, Program, mapped
from drawn.deep_laws import assert_limit_agrees
from drawn.drawn_programs import deep_program
from drawn.extrapolation import extrapolate
from drawn.layer_sweep import LayerSweep, Line, Term
from drawn.rolled import read_rolled

P = sp.Symbol("p", real=True)
H = sp.Rational(1, 2)
INPUTS, TARGETS = [1.0, 0.8, -0.6], [1.0, -0.7, 0.5]
BRANCH = Term("x", 1, power=1, matrix="W")


def training(*lines: Line, rate: object = H, alpha: object = H, gamma: object = H) -> Program:
    """The training of f = mean(nV x^L) by plain SGD, on one input a step."""
    sweep, eps, g = LayerSweep(lines), L ** -sp.sympify(alpha), L ** -sp.sympify(gamma)
    U, nV = Family(Vector, "U")(), Family(Vector, "nV")()
    xi, f, chi = (Family(Scalar, name) for name in ("xi", "f", "chi"))
    updates = [Assign(sweep.weights(name, t + 1), sweep.weights(name) - sp.sympify(rate) * g * gradient)
               for name, gradient in sweep.gradients().items()]
    body = (*sweep.forward(eps, xi[t] * U), Assign(f[t], Mean(nV * Family(Vector, "x", layered=True)[t, L])),
            Assign(chi[t], LossDerivative(f[t], t)), *sweep.backward(eps, chi[t] * nV),
            Loop(l, sp.Integer(sweep.first), L, tuple(updates)))
    return Program("sweep", (U, nV), tuple(sweep.weights(name, sp.Integer(0)) for name in sweep.matrices), (xi[t],),
                   (Loop(t, sp.Integer(0), T - 1, body),), (T, L))


def x_of(*terms: Term) -> Line:
    return Line("x", terms)


def region_of(program: Program) -> tp.limits.LimitRegion:
    region, = tp.depth_limit(tp.recursion(tp.kets(program))).regions
    return region


SWEEPS = {
    "two sublayers": ((Line("z", (Term("x", 1), BRANCH)), x_of(Term("z"), Term("z", power=1, matrix="V"))), H**3),
    "a mean of two layers": ((x_of(Term("x", 1, H), Term("x", 2, H), BRANCH),), H**2),
    "two interleaved streams": ((x_of(Term("x", 2), BRANCH),), H**2),
    "a branch of the layer before": ((x_of(Term("x", 1), Term("x", 2, power=1, matrix="W")),), H**2),
    "a fast average in front of the branch": (
        (Line("v", (Term("v", 1, H), Term("x", 1, H))), x_of(Term("x", 1), Term("v", power=1, matrix="W"))), H**2),
    "a second stream": ((Line("v", (Term("v", 1), Term("x", 1, power=1, matrix="R"))),
                         x_of(Term("x", 1), Term("v", power=1, matrix="W"))), H**2),
    "three vectors of two streams": (
        (Line("v", (Term("v", 1), Term("x", 1, power=1, matrix="R"))),
         Line("z", (Term("v", 1, H**2), Term("x", 1, H**2), Term("z", 1, H))),
         x_of(Term("x", 1), Term("z", 1, power=1, matrix="W"), Term("v", 1, power=1, matrix="S"))), H**4),
    "eigenvectors that turn with the layer": (
        (Line("z", (Term("x", 1, 1 / (2 * (1 + l / L))), Term("z", 1, H))),
         x_of(Term("x", 1, H), Term("z", 1, (1 + l / L) / 2), BRANCH)), H**3),
    "a damped stream": ((x_of(Term("x", 1, 1 - l / L**2), BRANCH),), H),
    "branch multipliers of the layer": ((x_of(Term("x", 1), Term("x", 1, 1 + l / L, 1, "W")),), H**4),
    "a matrix beside its transpose": (
        (Line("h", (Term("x", 1, matrix="W"),)), x_of(Term("x", 1), Term("h", power=2, matrix="W", turned=True))),
        H**5),
}


QUICK = ("a mean of two layers", "two interleaved streams", "eigenvectors that turn with the layer", "a damped stream")


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in SWEEPS])
def test_the_limit_is_what_finite_depths_converge_to(name: str) -> None:
    """The exact program knows nothing of streams; its outputs at doubled depths are extrapolated in 1/L."""
    lines, rate = SWEEPS[name]
    squared = any(term.power == 2 for line in lines for term in line.terms)  # updates of such a branch are of order 1/L
    program = training(*lines, rate=rate, gamma=0 if squared else H)
    region = region_of(program)
    assert region.has_limit and region.rate == 1, region.reason
    depths = (16, 32, 64, 128)
    outputs = np.array([read_rolled(program, {T: 3, L: depth}, {"xi": INPUTS, "y": TARGETS}).series("f")
                        for depth in depths])
    expected, error = extrapolate(depths, outputs, 1.0)
    found = region.compile()(INPUTS, TARGETS).outputs
    assert np.abs(found - outputs[-1]).max() > 1e-4  # finite depth alone would not do
    assert np.abs(found - expected).max() < 3 * error + 1e-9, (found, expected, error)


def test_what_is_read_of_two_streams_has_one_name_in_all_loops() -> None:
    """Three families of layers, two streams: the sum v of both is acted on in the sweep, and read by an update."""
    lines, rate = SWEEPS["three vectors of two streams"]
    program = training(*lines, rate=rate)
    streams = normal_form(program, L).program
    name = "carried_1(v)"
    assert [p.statement.target.name for p in streams.locations() if isinstance(p.statement.target,
                                                                               Vector)].count(name) == 1
    # u0, u1 and S
    assert sum(v.name == name for p in streams.locations() for v in p.statement.value.atoms(Vector)) == 3
    data = {"xi": INPUTS, "y": TARGETS}
    errors = [max(abs(read_rolled(streams, {T: 3, L: depth}, data).series("f")
                      - read_rolled(program, {T: 3, L: depth}, data).series("f"))) for depth in (16, 32)]
    assert 1.5 < errors[0] / errors[1] < 2.5  # of relative order 1/L


def test_what_a_layer_adds_to_a_mean_of_two_layers_counts_two_thirds() -> None:
    """At learning rate 1/4 it is the network with branch 2/3 and learning rate 1/6: as many steps, weighed twice."""
    half = tp.DepthScaling(H, H, branch=2 / 3)
    mean = region_of(training(*SWEEPS["a mean of two layers"][0], rate=H**2)).compile()(INPUTS, TARGETS).outputs
    weighed = tp.train(tp.ResNet(), tp.Task(INPUTS, TARGETS), tp.SGD(1 / 6), half, depth=tp.oo)
    # (2/3)^2 / 4 = 1/9 is what an update moves f by; that network's is (2/3) (1/6), its gradient being normalized
    assert mean == pytest.approx(weighed.outputs.ravel(), abs=1e-10)


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.slow) for seed in (50, 231)])
def test_streams_that_alternate_keep_their_layered_decay(seed: int) -> None:
    """1 - l/(2L) is 1 - l/(2L) + 1/(4L) in pairs; trivial limits are in powers of the depth, not of pairs."""
    assert_limit_agrees(deep_program(seed))


@pytest.mark.parametrize("lines, reason", [
    ((x_of(Term("x", 1, sp.Integer(2)), BRANCH),), r"explodes at initialization like exp\(L\^\(1\)\)"),
    ((x_of(Term("x", 1), Term("x", 1, power=1), BRANCH),), r"explodes at initialization like exp\(L\^\(1/2\)\)"),
    ((x_of(Term("x", 1), Term("x", 1, -H, power=1), BRANCH),), r"decays.* like 1 / exp\(L\^\(1/2\)\)"),
    ((x_of(Term("x", 1, H), BRANCH),), r"decays.* like 1 / exp\(L\^\(1\)\)")])
def test_loops_have_signs(lines: tuple[Line, ...], reason: str) -> None:
    region = region_of(training(*lines))
    assert not region.has_limit and re.search(reason, region.reason), region.reason
    with pytest.raises(tp.Divergence, match=re.escape(region.reason)):
        region.compile()


@pytest.mark.parametrize("drift", [-H / 2, sp.Integer(-1)])
def test_noise_as_fast_as_what_forgets_is_refused(drift: sp.Rational) -> None:
    """At alpha = 1/4 noise adds L^(-1/2) C a layer, and the drift takes 2 |drift| as much: it grows, and it decays."""
    program = training(x_of(Term("x", 1), Term("x", 1, drift, power=2), BRANCH), alpha=H / 2, gamma=H)
    with pytest.raises(ValueError, match="as fast as it forgets it; coefficients decide"):
        region_of(program)


@pytest.mark.parametrize("couplings", [((0, 1), (2, 0)), ((1, 3), (3, 2)), ((2, 0), (3, 1)), ((2, 1), (1, 2))])
def test_coupled_streams_grow_like_the_fastest_mean_of_a_loop(couplings: tuple[tuple[int, int], ...]) -> None:
    """At alpha = 1/4: numbers p couple two streams with L^(-p/4), 0 does not; held against eigenvalues of the map."""
    names = ("v", "x")
    lines = [Line(to, (Term(to, 1), *(Term(source, 1, power=p) for source, p in zip(names, row) if p)))
             for to, row in zip(names, couplings)]
    lines[1] = x_of(*lines[1].terms, Term("v", 1, power=2, matrix="W"))
    growths = []
    for depth in (2**50, 2**60):
        small = np.array([[depth ** (-p / 4) if p else 0.0 for p in row] for row in couplings])
        growths.append(depth * max(abs(np.linalg.eigvals(small))))
    measured = sp.Rational(round(np.log2(growths[1] / growths[0]) / 10 * 16), 16)
    region = region_of(training(*lines, alpha=H / 2, gamma=3 * H / 2))
    assert f"explodes at initialization like exp(L^({measured}))" in region.reason


@pytest.mark.parametrize("lines, said", [
    ((x_of(Term("x", 1, sp.Integer(2)), Term("x", 2, sp.Integer(-1)), BRANCH),), "Jordan block"),
    ((x_of(Term("x", 1), Term("x", 2, sp.Integer(-1)), BRANCH),), None),
    ((x_of(Term("x", 1, sp.Rational(6, 5)), Term("x", 2, sp.Integer(-1)), BRANCH),), "modulus 1 besides 1"),
    ((x_of(Term("x", 1), Term("x", 1, 1 / sp.sqrt(l), 1, "W")),), "not bounded on")])
def test_what_no_rule_covers_is_refused_by_name(lines: tuple[Line, ...], said: str | None) -> None:
    program = training(*lines)
    if said is None:  # eigenvalues exp(i pi / 3): six layers in one are streams
        assert normal_form(program, L).period == 6
        return
    with pytest.raises(ValueError, match=said):
        region_of(program)


def test_names_for_products_are_no_difference() -> None:
    plain = training(x_of(Term("x", 1), BRANCH))
    named = training(Line("h", (Term("x", 1, matrix="W"),)), x_of(Term("x", 1), Term("h", power=1)))
    assert plain != named and normal_form(plain, L) == normal_form(named, L)


def test_names_for_multiples_are_no_difference() -> None:
    plain = training(x_of(Term("x", 1), Term("x", 1, sp.Integer(2), power=1, matrix="W")))
    named = training(Line("h", (Term("x", 1, sp.Integer(2)),)), x_of(Term("x", 1), Term("h", power=1, matrix="W")))
    assert plain != named and normal_form(plain, L) == normal_form(named, L)


def test_vectors_that_one_layer_makes_for_itself_are_at_its_own_layer() -> None:
    """What layer l makes and reads alone may be called a vector of layer l - 1."""
    def earlier(value: sp.Expr) -> sp.Expr:
        return value.xreplace({v: v.at(t, l - 1) for v in value.atoms(Vector) if v.name == "h"})

    own = training(Line("h", (Term("x", 1, matrix="W"),)), x_of(Term("x", 1), Term("h", power=1)))
    before = replace(own, body=mapped(own.body, lambda s: [Assign(earlier(s.target), earlier(s.value))]))
    assert at_own_layers(before) == own != before


def test_the_slow_directions_of_a_companion_matrix() -> None:
    found = slow_subspace(sp.Matrix([[H, H], [1, 0]]), ("x", "x before"))
    assert (list(found.weigh), list(found.read)) == ([sp.Rational(2, 3), sp.Rational(1, 3)], [1, 1])
    turning = slow_subspace(sp.Matrix([[H, (1 + P) / 2], [1 / (2 * (1 + P)), H]]), ("x", "z"))
    assert sp.simplify((turning.weigh * turning.read)[0]) == 1
    assert sp.simplify((turning.weigh.diff(P) * turning.read)[0] - 1 / (2 * (1 + P))) == 0
    with pytest.raises(NoStreams, match="Jordan"):
        slow_subspace(sp.Matrix([[1, 1], [0, 1]]), ("x", "z"))
    for location, said in ((sp.Rational(3, 10), "at layer time 3/10"), (H, "modulus 1 besides 1")):
        with pytest.raises(NoStreams, match=said):  # there a second eigenvalue becomes 1
            slow_subspace(sp.Matrix([[1, 0], [P - location, 1 - (P - location) ** 2]]), ("x", "z"))
    assert [period(sp.Matrix(m)) for m in ([[0, 1], [1, 0]], [[0, 0, 1], [1, 0, 0], [0, 1, 0]], [[H, H], [1, 0]])] == [
        2, 3, 1]


def test_powers_of_the_depth_in_coefficients_of_the_layer() -> None:
    (power, function), = in_powers(1 / (2 * sp.sqrt(L) + 2 * l / sp.sqrt(L)), l, L)
    assert power == -H and sp.simplify(function - 1 / (2 * (P + 1))) == 0
    assert dict(in_powers(1 + l / L**2, l, L)) == {sp.Integer(0): 1, sp.Integer(-1): P}
    assert dict(in_powers(1 / (L + 3), None, L)) == {sp.Integer(-1): 1, sp.Integer(-2): -3}


@pytest.mark.parametrize("end", [0, 1])
def test_what_is_not_bounded_at_an_end_of_the_layers_has_no_powers(end: int) -> None:
    with pytest.raises(ValueError, match="not bounded on"):
        in_powers(1 / (sp.sqrt(l / L) - end), l, L)
    assert in_powers(1 / (sp.sqrt(l / L) + 1 + end), l, L) == ((0, 1 / (sp.sqrt(P) + 1 + end)),)


@pytest.mark.parametrize("opt", [tp.SGD(0.5, momentum=0.5), tp.SGD(0.5, weight_decay=0.2),
                                 tp.SGD(0.5, momentum=0.3, nesterov=True, weight_decay=0.2, decoupled=True)], ids=str)
def test_limits_of_optimizers_with_memory_are_those_of_training(opt: tp.SGD) -> None:
    net, scale = tp.ResNet(), tp.DepthScaling()
    region = region_of(tp.program(net, opt, scale))
    run = tp.train(net, tp.Task(INPUTS, TARGETS), opt, scale, depth=tp.oo)
    assert region.compile()(INPUTS, TARGETS).outputs == pytest.approx(run.outputs.ravel(), abs=1e-11)
    assert "rho_W[t + 1]" in str(region)


def test_what_forgets_reads_the_stream_through_what_is_small_too() -> None:
    """z = z / 2 + x / sqrt(L) settles at 2 x / sqrt(L), while x hardly moves."""
    lines = (Line("z", (Term("z", 1, H), Term("x", 1, power=1))),
             x_of(Term("x", 1), BRANCH, Term("z", matrix="W")))
    found = {p.statement.target.name: p.statement for p in normal_form(training(*lines), L).program.locations()}
    assert found["z"].value == 2 * Family(Vector, "x", layered=True)[t, l - 1] / sp.sqrt(L)


def test_a_loop_inside_of_the_layers_is_refused_by_name() -> None:
    part, c = sp.Symbol("part", integer=True), Family(Scalar, "c")

    def around(loop: Loop, body: tuple) -> list[Loop]:
        last = body[-1].target if isinstance(body[-1], Assign) else None
        inner = Loop(part, sp.Integer(0), sp.Integer(1), (Assign(c[t, l, part], Mean(x[t, l] ** 2)),))
        return [replace(loop, body=(*body, inner) if last == x[t, l] else body)]

    x = Family(Vector, "x", layered=True)
    program = training(x_of(Term("x", 1, H), Term("x", 2, H), BRANCH))
    with pytest.raises(NoStreams, match="program sweep: a loop over part inside the layers"):
        normal_form(replace(program, body=mapped(program.body, lambda s: (s,), around)), L)


def test_decimal_numbers_are_what_they_say() -> None:
    exact = training(x_of(Term("x", 1, 3 * H), Term("x", 2, -H), BRANCH))
    floats = training(x_of(Term("x", 1, sp.Float(1.5)), Term("x", 2, sp.Float(-0.5)), BRANCH))
    assert exact != floats and normal_form(exact, L) == normal_form(floats, L)
