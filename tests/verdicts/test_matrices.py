"""Verdicts matrix by matrix: against programs in which one matrix alone is trained, real blocks and real networks."""

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from tpcalc.verdicts import counting
from tpcalc.verdicts.exponents import exponents_of
from tpcalc.verdicts.counting import as_gradient_descent
from tpcalc.verdicts.phases.plane import decisive
from tpcalc.verdicts.layer_jet import block_jet, pair_power, second_order
from tpcalc.verdicts.verdict import judge_exponents
from tpcalc.orders import Affine
from tpcalc.programs.indices import L
from tpcalc.programs.language import MatVec, Mean

LINEAR, RELU = tp.ResNet("linear", "mlp"), tp.ResNet("relu", "mlp")
NEVER = 40  # an exponent of updates that are nothing
ALPHAS, GAMMAS = st.sampled_from(["1/2", "3/4", 1]), st.fractions(0, 1, max_denominator=4)


def by_matrix(alpha, first, second):
    return tp.Parametrization(depth={"alpha": alpha, "W1": first, "W2": second})


@given(ALPHAS, GAMMAS, GAMMAS)
@settings(deadline=None, max_examples=2)
def test_a_matrix_alone_is_a_program_in_which_the_other_never_moves(alpha, first, second):
    """Both are counts; that of a linear network by itself is one of coefficients, the other one of kets."""
    check_alone(alpha, first, second)


@pytest.mark.slow
@given(ALPHAS, GAMMAS, GAMMAS)
@settings(deadline=None, max_examples=25)
def test_many_matrices_alone(alpha, first, second):
    check_alone(alpha, first, second)


def check_alone(alpha, first, second):
    matrices = tp.classify(by_matrix(alpha, first, second), net=LINEAR).matrices
    for name, others in (("W1", (first, NEVER)), ("W2", (NEVER, second))):
        alone, found = tp.classify(by_matrix(alpha, *others), net=LINEAR), matrices[name]
        assert found.update == alone.exponents["update of h"] == -found.gamma
        if alone.output_stable:
            assert (found.effect, found.output) == (alone.exponents["change of x"], alone.exponents["change of f"])
            assert (found.name == "lazy") == (not alone.nontrivial)
        else:
            assert found.name == "unstable"


@pytest.mark.slow
@given(ALPHAS, GAMMAS)
@settings(deadline=None, max_examples=2)
def test_one_gamma_for_all_is_classified_as_the_depth_scaling(alpha, gamma):
    for net, names in ((LINEAR, ("W1", "W2")), (tp.ResNet("relu"), ("W",))):
        plain = tp.classify(alpha, gamma, net)
        ours = tp.classify(tp.Parametrization(depth={"alpha": alpha, **dict.fromkeys(names, gamma)}), net=net)
        assert ours == plain and str(ours) == str(plain)
        assert tp.classify(tp.Parametrization(depth=tp.DepthScaling(alpha, gamma)), net=net) == plain


def renamed(branch):
    z = branch.let("z", MatVec(branch.weights("Query"), branch.x))
    return MatVec(branch.weights("A"), z)


def test_names_of_matrices_mean_nothing():
    scale = {"alpha": "3/4", "Query": "1/4", "A": "3/4"}
    ours = tp.classify(tp.Parametrization(depth=scale), net=tp.ResNet("linear", renamed))
    theirs = tp.classify(by_matrix("3/4", "1/4", "3/4"), net=LINEAR)
    assert ours.name == theirs.name and ours.exponents == theirs.exponents
    for mine, other in (("Query", "W1"), ("A", "W2")):
        a, b = ours.matrices[mine], theirs.matrices[other]
        assert (a.name, a.update, a.effect, a.second_order) == (b.name, b.update, b.effect, b.second_order)


def test_verdicts_say_what_learns_and_what_is_left_out():
    kinds = {(1, 0, 0): ("learns", "learns", True), ("1/2", "1/2", "1/2"): ("drifts", "drifts", False),
             ("1/2", "1/2", 1): ("drifts", "lazy", False), (1, 0, 1): ("learns", "lazy", False),
             ("1/2", "1/4", "1/2"): ("unstable", "drifts", False)}
    for point, (first, second, complete) in kinds.items():
        found = tp.classify(by_matrix(*point), net=LINEAR)
        assert (found.matrices["W1"].name, found.matrices["W2"].name) == (first, second), point
        assert found.complete_in_feature_learning == complete, point
    with pytest.raises(tp.Divergence, match="initialization"):
        tp.classify(by_matrix(0, 1, 1), net=LINEAR).matrices["W1"]


def test_what_cannot_be_counted_is_refused_by_name():
    for width, why in (("SP", "unstable"), ("NTP", "kernel regime")):
        with pytest.raises(ValueError, match=f"width: got '{width}'.* {why}"):
            tp.classify(tp.Parametrization(width))
    with pytest.raises(ValueError, match="nothing for the matrix 'W2'"):
        tp.classify(tp.Parametrization(depth={"alpha": 1, "W1": 0}), net=LINEAR)
    with pytest.raises(ValueError, match=r"W: got a decay whose share of a weight goes like L\^\(1/2\)"):
        tp.classify(tp.Parametrization(depth={"W": tp.Powers(decay={"L": "1/2"})}), opt="adamw")
    with pytest.raises(ValueError, match="tp.Program"):
        symbols = tp.DepthScaling(*sp.symbols("alpha gamma", real=True))
        tp.classify(1, 0, tp.program(tp.ResNet(), tp.SGD(), symbols), "sgd")
    with pytest.raises(ValueError, match="opt: got 'lamb'"):
        tp.classify(1, 0, opt="lamb")


@pytest.mark.parametrize("opt", ["momentum", "signsgd", tp.SGD([1.0, 0.5]), tp.Adam(0.1, eps=1e-3)], ids=str)
def test_optimizers_without_decay_count_as_their_powers(opt):
    for point in ((0.5, 0.5), (1, 0), (0.5, 0.25)):
        assert tp.classify(*point, opt=opt).name == tp.classify(*point).name


def test_decay_is_counted_in_every_form():
    for opt in (tp.SGD(weight_decay=0.1), tp.SGD(weight_decay=0.1, decoupled=True), tp.AdamW(weight_decay=0.1)):
        found = tp.classify(0.5, 1, opt=opt)
        assert found.exponents["change of h"] == 0 and found.exponents["update of h"] == -1
        assert tp.classify(0.5, 1).exponents["change of h"] == sp.Rational(-1, 2)
        nonlinear = tp.classify(0.5, 1, RELU, opt)  # a share of W_0 is gone, which changes what relu acts on
        assert nonlinear.exponents["change of h"] == 0 and nonlinear.exponents["update of h"] == -1


def small_gate(branch):
    """A product of two vectors of which one is small: gradients of the other's matrix are L^(-1/2)."""
    z = branch.let("z", MatVec(branch.weights("W1"), branch.x))
    return MatVec(branch.weights("W2"), z) / sp.sqrt(L)


@pytest.mark.parametrize("later, refused", [(sp.Rational(1, 2), True), (0, False), (sp.oo, False)])
def test_gradients_that_change_their_power_are_refused(monkeypatch, later, refused):
    """The size of Adam's direction would change with them; what explodes is said to explode."""
    class Terms:
        def gradients(self, step):
            return {"W": (sp.Integer(0), sp.sympify(later))[step]}

    monkeypatch.setattr(counting, "training_terms", lambda net, scale: Terms())
    if refused:
        with pytest.raises(ValueError, match=r"gradients of W go from L\^\(0\) to L\^\(1/2\)"):
            as_gradient_descent(tp.ResNet(), tp.Adam(), tp.DepthScaling())
    else:
        assert as_gradient_descent(tp.ResNet(), tp.Adam(), tp.DepthScaling())[0] == tp.SGD()


def test_directions_of_degree_zero_do_not_shrink_with_gradients():
    """A block that divides by sqrt(L) is alpha + 1/2 to gradient descent; a sign of its gradient is a sign."""
    net = tp.ResNet("linear", small_gate)
    plain = {"alpha": "1/2", "W1": "1/2", "W2": 0}
    _, moved = as_gradient_descent(net, tp.SignSGD(), tp.Parametrization(depth=plain))
    assert {name: moved.update_exponent(name) for name in ("W1", "W2")} == {"W1": 0, "W2": sp.Rational(-1, 2)}
    for eps, shift in ((0.0, sp.Rational(1, 2)), (1e-3, 0)):  # below a fixed eps Adam is linear
        _, moved = as_gradient_descent(net, tp.Adam(eps=eps), tp.Parametrization(depth=plain))
        assert moved.update_exponent("W1") == sp.Rational(1, 2) - shift


@pytest.mark.parametrize("phi, kind", [("relu", "kink"), ("tanh", "smooth")])
def test_second_order_parts_of_one_matrix_go_like_those_of_its_activation(phi, kind):
    """f(h + d u) - f(h) - d f'(h) u of standard normal h, u: d^(3/2) with a kink and d^2 without, over d."""
    assert block_jet(tp.ResNet(phi, "mlp")).second[("W1", "W1")] == kind
    h, u = np.random.default_rng(0).standard_normal((2, 400000))
    f, slope = {"relu": (lambda h: np.maximum(h, 0), lambda h: h > 0),
                "tanh": (np.tanh, lambda h: 1 - np.tanh(h)**2)}[phi]
    sizes = 2.0 ** -np.arange(3, 9)
    ratio = [np.sqrt(np.mean((f(h + d * u) - f(h) - d * slope(h) * u)**2) / np.mean((d * slope(h) * u)**2))
             for d in sizes]
    measured = np.polyfit(np.log(sizes), np.log(ratio), 1)[0]
    derived = -second_order(block_jet(tp.ResNet(phi)), {"W": sp.Integer(-1)})["W"][0]
    assert abs(measured - float(derived)) < 0.05


@pytest.mark.parametrize("powers", [(1, 1), (1, 2), (2, 1), (3, 1)])
def test_second_order_parts_of_two_matrices_at_a_kink(powers):
    """Mixed differences of relu(h + d1 u1 + d2 u2): the smaller change, where the larger crosses the kink."""
    h, u, v = np.random.default_rng(1).standard_normal((3, 1000000))
    sizes, found = 2.0 ** -np.arange(3, 7), []
    for d in sizes:
        one, two = d ** powers[0] * u, d ** powers[1] * v
        f = [np.maximum(h + a, 0) for a in (0, one, two, one + two)]
        found.append(np.sqrt(np.mean((f[3] - f[2] - f[1] + f[0])**2)))
    measured = np.polyfit(np.log(sizes), np.log(found), 1)[0]
    jet = block_jet(tp.ResNet("relu", "mlp", matrices=3))
    assert jet.second[("W1", "W2")] == "kink"
    derived = -pair_power(jet.second[("W1", "W2")], *(sp.Integer(-power) for power in powers))
    assert abs(measured - float(derived)) < 0.12


@pytest.mark.slow
@given(st.sampled_from(["1/2", "5/8", "3/4", 1, "5/4"]), st.fractions(0, 1, max_denominator=4),
       st.fractions(0, 1, max_denominator=4))
@settings(deadline=None, max_examples=15)
def test_no_diverse_parametrization_of_two_matrices_is_complete(alpha, first, second):
    """Tensor Programs VI, K.3: stable, faithful, nontrivial and diverse, a block becomes linear in its updates."""
    found = tp.classify(by_matrix(alpha, first, second), net=LINEAR)
    if found.stable_in_training and found.faithful_in_training and found.nontrivial and found.redundant is False:
        assert not any(one.complete for one in found.matrices.values())


@pytest.mark.slow
def test_all_parametrizations_of_two_matrices_at_once():
    """K.3 on the whole space of three exponents, exactly: diverse at alpha = 1/2 and the smaller gamma 1/2 alone."""
    space = sp.symbols("alpha gamma_1 gamma_2", real=True)
    program = tp.program(LINEAR, tp.SGD(), by_matrix(*space))
    found = []
    for region, sizes in exponents_of(program):
        parts = [region]
        for form in dict.fromkeys(decisive(region, sizes)):
            parts = [piece for part in parts for _, piece in part.split(form)]
        for part in parts:
            point = part.point()
            at = {s: sp.Rational(x.numerator, x.denominator) for s, x in zip(space, point)}
            verdict = judge_exponents(at[space[0]], None, part, sizes, {}, point)
            if verdict.stable_in_training and verdict.faithful_at_init and verdict.faithful_in_training:
                best = (at[space[0]] == sp.Rational(1, 2), min(at[s] for s in space[1:]) + at[space[0]] == 1)
                assert verdict.nontrivial == best[1]
                if verdict.nontrivial:
                    found.append(part)
                    assert (verdict.redundant is False) == best[0]
                    for gamma in space[1:] if best[0] else ():  # second over first order is L^-gamma of the other
                        assert part.sign(Affine.of(gamma - sp.Rational(1, 2), space)) in ("=", ">", ">=")
    assert len(found) > 5


@pytest.mark.slow
def test_complete_parametrizations_are_redundant():
    """The other side of it: with an update as large as the weights, drift is all there is."""
    for point in ((1, 0, 0), (1, 0, "1/2")):
        found = tp.classify(by_matrix(*point), net=LINEAR)
        assert found.redundant and any(one.complete for one in found.matrices.values())


@pytest.mark.slow
@pytest.mark.parametrize("name, others", [("W1", ("1/2", NEVER)), ("W2", (NEVER, 1))])
def test_outputs_of_networks_in_which_one_matrix_is_trained_have_its_power(name, others):
    """f of the second step over depth, of infinitely wide networks, at (1/2; 1/2, 1)."""
    derived = tp.classify(by_matrix("1/2", "1/2", 1), net=LINEAR).matrices[name].output
    depths, task = (8, 32, 128), tp.Task([1.0, 1.0], [1.0, 1.0])
    method = tp.methods.Particles(samples=2048, batches=4)
    runs = [tp.train(LINEAR, task, tp.SGD(0.3), by_matrix("1/2", *others), depth, method=method) for depth in depths]
    moved = [float(run.outputs.ravel()[1]) for run in runs]
    assert abs(np.polyfit(np.log(depths), np.log(moved), 1)[0] - float(derived)) < 0.1


def scaled(branch, named=False):
    """Normalized by an average that stands in the vector, or has a name."""
    size = branch.let("s", Mean(branch.x**2)) if named else Mean(branch.x**2)
    v = branch.let("v", branch.x / sp.sqrt(size))
    return MatVec(branch.weights("W2"), branch.let("z", MatVec(branch.weights("W1"), v)))


def named(branch):
    return scaled(branch, True)


def summed(branch):
    return MatVec(branch.weights("W1"), branch.x) + MatVec(branch.weights("W2"), branch.x)


NORMALIZED = [tp.ResNet("linear", "mlp", norm="rms"), tp.ResNet("linear", scaled)]


@pytest.mark.parametrize("net", [NORMALIZED[0], pytest.param(NORMALIZED[1], marks=pytest.mark.slow)],
                         ids=("mlp", "of its own"))
def test_normalized_blocks_are_judged_matrix_by_matrix(net):
    """What normalizes the stream is of order one, and no update."""
    scale = by_matrix(1, 0, "1/2")
    found, plain = (tp.classify(scale, one).matrices for one in (net, LINEAR))
    assert [(one.name, one.update, one.effect, one.output, one.second_order) for one in found.values()] == [
        (one.name, one.update, one.effect, one.output, one.second_order) for one in plain.values()]


@pytest.mark.slow
@pytest.mark.parametrize("net", NORMALIZED, ids=("rms", "written"))
@pytest.mark.parametrize("point", [("1/2", "1/2", "1/2"), ("1/2", "1/2", 1), (1, 0, "1/4"), ("1/2", "1/4", "1/2")])
def test_a_matrix_of_a_normalized_block_alone(net, point):
    alpha, first, second = point
    matrices = tp.classify(by_matrix(*point), net=net).matrices
    for name, others in (("W1", (first, NEVER)), ("W2", (NEVER, second))):
        alone, found = tp.classify(by_matrix(alpha, *others), net=net), matrices[name]
        if alone.output_stable:
            assert (found.effect, found.output) == (alone.exponents["change of x"], alone.exponents["change of f"])
        else:
            assert found.name in ("unstable", "undecided")


def test_updates_that_cannot_be_told_apart_are_refused_by_name():
    with pytest.raises(ValueError, match="summed blocks.* update of one of the matrices W1, W2.*branch.let"):
        tp.classify(1, 0, tp.ResNet("linear", summed)).matrices["W1"]
    with pytest.raises(ValueError, match=r"named blocks.* the scalar s\[t, l\] .* every layer"):
        tp.classify(1, 0, tp.ResNet("linear", named))


@pytest.mark.slow
def test_smooth_activations_are_counted_as_kinks_are():
    """Gradients of a smooth activation are multiplied out, so that products stand in equations of other vectors too."""
    for scale in (tp.DepthScaling(), by_matrix(1, 0, "1/2")):
        smooth, kinked = (tp.classify(scale, net).matrices for net in (tp.ResNet("tanh", "mlp"), RELU))
        assert [(one.name, one.update, one.effect) for one in smooth.values()] == [
            (one.name, one.update, one.effect) for one in kinked.values()]


def test_a_matrix_of_the_block_may_have_the_name_of_the_read_out():
    """Ends are not trained here, so that an exponent of V is that of the block's V, whatever the optimizer."""
    net = tp.ResNet("linear", lambda b: MatVec(b.weights("V"), b.let("h", MatVec(b.weights(), b.x))) / sp.sqrt(L))
    scale = tp.Parametrization(depth={"alpha": "1/2", "W": "1/2", "V": 0})
    _, moved = as_gradient_descent(net, tp.SignSGD(), scale)
    assert {name: moved.update_exponent(name) for name in ("W", "V")} == {"W": 0, "V": sp.Rational(-1, 2)}


def test_a_vector_that_a_layer_amplifies_changes_by_as_much_more():
    """h reads sqrt(L) (x + W x), of which x, changed by all layers below, changes by order one."""
    def amplified(branch):
        k = branch.let("k", MatVec(branch.weights("W1"), branch.x))
        v = branch.let("v", sp.sqrt(L) * (k + branch.x))
        return branch.let("h", MatVec(branch.weights("W2"), v)) / sp.sqrt(L)

    net = tp.ResNet("linear", amplified)
    (_, found), = exponents_of(tp.program(net, tp.SGD(), by_matrix("1/2", "1/2", NEVER)))
    assert (found.dx.at(()), found.dh.at(())) == (0, sp.Rational(1, 2))
