"""Every reading of a residual network takes its options, or refuses them by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import tpcalc as tp
from tpcalc.programs.language import MatVec
from tpcalc.models.skips import Junction

TASK, OPT, SCALE = tp.Task([1.0, 0.8, -0.6], [1.0, -0.7, 0.5]), tp.SGD(0.3), tp.DepthScaling()
L, layer = sp.symbols("L l")
OPTIONS: dict[str, dict[str, Any]] = {
    "pre": {}, "output": {"norm": "rms", "norm_position": "output"},
    "sandwich": {"norm": "layer", "norm_position": "sandwich"},
    "post": {"norm": "rms", "norm_position": "post"}, "gains": {"norm": "rms", "gains": True},
    "norm_scale": {"norm": "rms", "norm_scale": 1 / sp.sqrt(layer)}, "keep": {"skip": tp.Skip(keep=1 - 1 / L)},
    "inject": {"skip": tp.Skip(inject=1 / L)}, "learned": {"skip": tp.Skip(learned=True)},
    "hyper": {"skip": tp.HyperConnections((0.5, 0.5), ((1, 0), (0.2, 0.8)), (1, 0.5))}}
WORDS = {"gains": "gains", "post": "norm_position", "norm_scale": "norm_scale", "keep": "Skip", "inject": "Skip",
         "learned": "learned", "hyper": "HyperConnections"}
CLOSES = {"pre", "output", "sandwich"}  # what a layer adds to the stream closes on kernels, as the block does
WIDE = tp.methods.Particles(samples=128, batches=2)


def net_of(name: str, phi: str = "tanh", block: str = "mlp", **more: Any) -> tp.ResNet:
    return tp.ResNet(phi, block, **OPTIONS[name], **more)


BLOCK_READINGS: dict[str, Callable[[tp.ResNet], Any]] = {  # which know blocks by themselves
    "kernel_fn": lambda net: tp.kernel_fn(net)([[1.0]]), "gradient_correlation": tp.theory.gradient_correlation,
    "collocation": lambda net: tp.train(net, TASK, OPT, SCALE, tp.oo, method="collocation")}
NEVER: dict[str, Callable[[tp.ResNet], Any]] = {  # which take a layer of norms before blocks and nothing else
    "raw_problem": lambda net: tp.theory.raw_problem(tp.theory.DepthwiseScaling(), net, TASK, 4),
    "reflection": lambda net: tp.train(net, TASK, OPT, SCALE, 4, method="reflection"),
    "cauchy_differences": lambda net: tp.studies.cauchy_differences(net, TASK, OPT, SCALE, (2, 4, 8, 16))}


@pytest.mark.parametrize("reading", BLOCK_READINGS)
@pytest.mark.parametrize("name", sorted(set(OPTIONS) - CLOSES))
def test_what_knows_blocks_alone_refuses_streams_of_another_kind(name: str, reading: str) -> None:
    """By the option, however the block is made."""
    for phi, block in (("tanh", "mlp"), ("relu", "pre_nonlin"), ("linear", "post_nonlin")):
        with pytest.raises(ValueError, match=WORDS[name]):
            BLOCK_READINGS[reading](net_of(name, phi, block))


@settings(deadline=None, max_examples=40)
@given(name=st.sampled_from(sorted(set(OPTIONS) - {"pre"})), reading=st.sampled_from(sorted(NEVER)),
       how=st.sampled_from([("tanh", "mlp"), ("relu", "pre_nonlin"), ("linear", "post_nonlin")]))
def test_what_knows_one_kind_of_layer_refuses_all_others(name: str, reading: str, how: tuple[str, str]) -> None:
    net = net_of(name, *how)
    with pytest.raises(ValueError, match=WORDS.get(name, "norm")):
        NEVER[reading](net)


@pytest.mark.parametrize("name", ["inject", "learned", "keep"])
def test_order_parameters_are_of_streams_that_are_added_to(name: str) -> None:
    with pytest.raises(ValueError, match="Skip"):
        tp.theory.order_parameters(tp.train(net_of(name, "relu", "pre_nonlin"), TASK, OPT, SCALE, 1, method=WIDE))


@pytest.mark.parametrize("name", ["gains", "learned"])
def test_trained_vectors_have_an_exponent_and_no_orthogonal_factor(name: str) -> None:
    net = net_of(name)
    word = "trained vectors"
    for asked in (lambda: tp.program(net, tp.Muon(0.1), SCALE),
                  lambda: tp.Problem(net, TASK, OPT, tp.Parametrization("SP"), 4, 16),
                  lambda: tp.Problem(net, TASK, tp.Muon(0.1), SCALE, 4, 16), lambda: tp.phase_diagram(net),
                  lambda: tp.classify(sp.sqrt(2), 0, net)):
        with pytest.raises(ValueError, match=word):
            asked()
    same = tp.Parametrization(depth={"alpha": 0.5, "gamma": 0.5})
    assert str(tp.program(net, OPT, same)) == str(tp.program(net, OPT, SCALE))
    vector, = net.vectors_of_block
    each = {"alpha": 0.5, "W1": 0.5, "W2": 0.5}
    alike, other = (tp.Parametrization(depth={**each, vector: power}) for power in (0.5, 0.25))
    assert str(tp.program(net, OPT, alike)) == str(tp.program(net, OPT, SCALE)) != str(tp.program(net, OPT, other))
    with pytest.raises(ValueError, match=f"nothing for the matrix '{vector}'"):
        tp.program(net, OPT, tp.Parametrization(depth=each))


@pytest.mark.parametrize("name, word", [("norm_scale", "norm_scale"), ("hyper", "HyperConnections")])
def test_what_no_rule_counts_is_refused_with_the_network(name: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        tp.classify(0.5, 0.5, net_of(name, "linear", "post_nonlin"))


@pytest.mark.parametrize("name", ["post", "norm_scale", "hyper"])
def test_what_no_rule_counts_is_refused_with_a_transformer(name: str) -> None:
    net = tp.Transformer(head_dim=1, positions=2, **OPTIONS[name])
    task = tp.Sequences(np.ones((1, 1, 2, 1)), np.ones((1, 1, 2)))
    with pytest.raises(ValueError, match=WORDS[name]):
        tp.train(net, task, OPT, SCALE, tp.oo)


def test_skips_of_a_transformer_at_infinite_depth_are_those_of_every_layer() -> None:
    task = tp.Sequences(np.ones((1, 1, 2, 1)), np.ones((1, 1, 2)))
    with pytest.raises(ValueError, match="skip: .*expected None, a tp.Skip"):
        tp.train(tp.Transformer(head_dim=1, positions=2, skip=by_hand), task, OPT, SCALE, tp.oo)
    with pytest.raises(tp.Divergence, match="explodes at initialization"):
        tp.train(tp.Transformer(head_dim=1, positions=2, skip=tp.Skip(keep=sp.sqrt(L))), task, OPT, SCALE, tp.oo)
    with pytest.raises(ValueError, match="keep nothing of what they find"):
        tp.train(tp.Transformer(head_dim=1, positions=2, skip=tp.Skip(keep=0.5)), task, OPT, SCALE, tp.oo)


def by_hand(junction: Junction) -> tuple[sp.Expr, ...]:
    x, = junction.streams
    return (x + junction.branch(x),)


DEEP: dict[str, dict[str, Any]] = {
    "gains": {"gains": True}, "keep and inject": {"skip": tp.Skip(keep=1 - 1 / L, inject=1 / L)},
    "learned": {"skip": tp.Skip(learned=True)},
    "all": {"gains": True, "skip": tp.Skip(keep=1 - 1 / L, inject=1 / L, learned=True)}}


@pytest.mark.nightly
@pytest.mark.parametrize("options", DEEP.values(), ids=DEEP)
def test_infinite_depth_is_where_transformers_with_gains_and_skips_go(options: dict[str, Any]) -> None:
    """Real networks at large depths, within their errors; a network without the options is elsewhere."""
    inputs = [[[[1, 0], [0.5, 0.8]]], [[[-0.6, 0.7], [1.1, -0.4]]], [[[0.3, -0.9], [0.8, 0.5]]]]
    task = tp.Sequences(inputs, np.array([[[1, -0.7]], [[0.5, 1.2]], [[-0.4, 0.8]]]) / 2)
    net = tp.Transformer(head_dim=1, positions=2, mlp=None, causal=False, norm="rms", **options)
    method = tp.methods.CommonDraws(tolerance=0.01, budget=1e6, coarsest=4)
    deep, plain = (tp.train(one, task, OPT, SCALE, tp.oo, method=method) for one in (
        net, tp.Transformer(head_dim=1, positions=2, mlp=None, causal=False, norm="rms")))
    means, errors = [], []
    for depth in (8, 16):  # extrapolated: what is left is of second order in 1/L
        found = np.array([tp.train(net, task, OPT, SCALE, depth, 256, seed=s, method="dense").outputs.ravel()
                          for s in range(16)])
        means.append(found.mean(axis=0))
        errors.append(found.std(axis=0, ddof=1) / 4)
    limit, error = 2 * means[1] - means[0], np.sqrt(4 * errors[1]**2 + errors[0]**2)
    spread = np.hypot(error, deep.standard_error.ravel()) + deep.bias_bound.ravel() / 2
    assert np.abs((limit - deep.outputs.ravel()) / spread)[2:].max() < 4
    assert np.abs(deep.outputs - plain.outputs).max() > 2 * deep.error_estimate


def test_verdicts_count_what_skips_do() -> None:
    """Damping by 1 - c/L and injections b/L change no power; by a share they forget, or explode."""
    for name in ("keep", "inject"):
        found, plain = (tp.classify(0.5, 0.25, one) for one in (net_of(name, "linear", "post_nonlin"), tp.ResNet()))
        assert (found.name, found.exponents["change of f"]) == (plain.name, plain.exponents["change of f"])
    assert tp.classify(0.5, 0.5, tp.ResNet(skip=tp.Skip(keep=0.9))).name == "decays"
    assert tp.classify(0.5, 0.5, tp.ResNet(skip=tp.Skip(keep=1.1))).name == "explodes at initialization"
    damped, plain = (tp.classify(0.5, 0.75, tp.ResNet(skip=skip)).matrices["W"] for skip in (
        tp.Skip(keep=1 - 1 / L), None))
    assert (damped.name, damped.effect) == (plain.name, plain.effect) == ("lazy", -sp.Rational(1, 4))


@pytest.mark.slow
def test_what_a_norm_divides_is_not_said_to_explode() -> None:
    with pytest.raises(ValueError, match="divided by its own size"):
        tp.classify(0.5, 0.25, net_of("output"))
    assert tp.classify(0.5, 0.5, net_of("output")).name == "Depth-muP"


def test_covariances_are_of_one_stream() -> None:
    net = net_of("hyper")
    run = tp.train(net, TASK, OPT, SCALE, 2, 16)
    for asked in (lambda: tp.train(net, TASK, OPT, SCALE, 2, 16, keep_nodes="all"), lambda: run.details(),
                  lambda: run.forward_covariance):
        with pytest.raises(ValueError, match="HyperConnections"):
            asked()
    inject = tp.train(net_of("inject"), TASK, OPT, SCALE, 2, 16, keep_nodes="all")
    assert inject.forward_covariance.shape == (3, 3, 3)


@settings(deadline=None, max_examples=8)
@given(name=st.sampled_from(sorted(OPTIONS)), other=st.sampled_from(sorted(OPTIONS)))
def test_networks_are_values(tmp_path_factory: pytest.TempPathFactory, name: str, other: str) -> None:
    """Equality, hashes, representations and files tell networks apart by their options."""
    net, another = net_of(name), net_of(other)
    problem = tp.Problem(net, TASK, OPT, SCALE, 2, 8)
    assert (problem == tp.Problem(another, TASK, OPT, SCALE, 2, 8)) == (name == other) == (repr(net) == repr(another))
    assert (hash(net) == hash(net_of(name))) and replace(net, phi="relu") != net
    program = tp.program(net, OPT, SCALE)
    assert program.latex().count(r"\\") and (program.latex() == tp.program(another, OPT, SCALE).latex()) == (
        name == other)
    run = tp.train(problem)
    path = tmp_path_factory.mktemp("runs") / "run.npz"
    run.save(path)
    if name in ("keep", "inject", "norm_scale"):  # expressions are no numbers
        with pytest.raises(ValueError, match="does not hold it .*" + name):
            tp.Run.load(path)
        assert tp.Run.load(path, problem) == run
    else:
        assert tp.Run.load(path).problem.net == net


def test_a_skip_of_ones_own_is_a_function_of_a_junction() -> None:
    """The built-in ones, by the same door; what is no such function is refused by name."""
    def damped(junction: Junction) -> tuple[sp.Expr]:
        x, = junction.streams
        return (sp.Rational(4, 5) * x + junction.branch(x),)

    own, known = (tp.ResNet("tanh", "mlp", skip=skip) for skip in (damped, tp.Skip(keep=0.8)))
    assert str(tp.program(own, OPT, SCALE)) == str(tp.program(known, OPT, SCALE))
    for wrong, said in ((lambda j: (j.streams[0], j.streams[0]), "as many vectors"), (3, "skip: got 3"),
                        (tp.Skip, "an object of it"), (lambda j: (j.streams[0] * 2,), "trained matrix")):
        with pytest.raises(ValueError, match=said):
            tp.ResNet(skip=wrong)


@pytest.mark.parametrize("options, said", [
    ({"norm_position": "output"}, "norm_position: got 'output' with norm=None"),
    ({"gains": True}, "gains: got True with"),
    ({"norm_scale": 2}, "norm_scale: got 2 with norm=None"),
    ({"norm": "rms", "norm_position": "behind"}, "norm_position"),
    ({"norm": "rms", "norm_position": "output", "norm_scale": 2}, "norm_scale: got 2 with norm_position='output'"),
    ({"norm": "rms", "norm_scale": sp.Symbol("t")}, "norm_scale: got t, with t")])
def test_options_that_say_nothing_are_refused(options: dict, said: str) -> None:
    for kind in (lambda **given: tp.ResNet("tanh", "mlp", **given), lambda **given: tp.Transformer(
            **{"norm": None, **given})):
        with pytest.raises(ValueError, match=said):
            kind(**options)


def test_expressions_in_the_depth_have_values_at_it() -> None:
    net = tp.ResNet(skip=tp.Skip(keep=1 / (L - 2)))
    with pytest.raises(ValueError, match="keep: got .* at depth 2"):
        tp.Problem(net, TASK, OPT, SCALE, 2, 8)
    assert tp.train(net, TASK, OPT, SCALE, 3, 8).outputs.shape == (3, 1, 1)


def doubled(b: Any) -> sp.Expr:
    return b.trained("W") * b.let("h", MatVec(b.weights("W"), b.x))


def test_names_of_matrices_and_vectors_differ() -> None:
    with pytest.raises(ValueError, match="name: got 'W'"):
        tp.ResNet(block=doubled)


@pytest.mark.parametrize("name", ["output", "sandwich"])
def test_the_lazy_limit_normalizes_what_blocks_give(name: str) -> None:
    """One small step of wide real networks, beside the tangent kernel of the same depth."""
    inputs, targets, rate = np.array([[1.0, 0.2], [0.3, -0.8]]), np.array([1.0, -0.7]), 1e-3
    net = net_of(name, "relu", "pre_nonlin") if name == "output" else tp.ResNet(
        "relu", "pre_nonlin", norm="rms", norm_position=name)
    kernel = tp.kernel_fn(net, depth=2)(inputs, get="ntk")
    apart = []
    for seed in range(12):
        run = tp.train(net, tp.Task(np.array([inputs, inputs]), np.array([targets, targets])), tp.SGD(rate), SCALE, 2,
                       256, method="dense", seed=seed)
        first, second = run.outputs[:, :, 0]
        apart.append((second - first) * -2 / rate - kernel @ (first - targets))
    assert np.all(np.abs(np.mean(apart, axis=0)) < 4 * np.std(apart, axis=0, ddof=1) / np.sqrt(len(apart)) + 0.02)
    plain = tp.kernel_fn(replace(net, norm=None, norm_position="pre"), depth=2)(inputs, get="ntk")
    assert np.abs(plain - kernel).max() > 0.1  # of order one, and seen


@pytest.mark.parametrize("name, opt", [("output", tp.SGD(0.3)), ("post", tp.SGD(0.3)), ("gains", tp.SGD(0.3)),
                                       ("inject", tp.SGD(0.3)), ("learned", tp.SGD(0.3, momentum=0.5)),
                                       ("hyper", tp.SGD(0.3)), ("norm_scale", tp.SGD(0.3))])
@pytest.mark.slow
def test_real_networks_agree_with_particles(name: str, opt: Any) -> None:
    """relu before the matrix, by matrices and by what is known of their products."""
    net = net_of(name, "relu", "pre_nonlin")
    wide = tp.train(net, TASK, opt, SCALE, 3, method=tp.methods.Particles(samples=1 << 13))
    for method in ("dense", "conditioned"):
        found = np.array([tp.train(net, TASK, opt, SCALE, 3, 256, seed=s, method=method).outputs for s in range(24)])
        error = np.hypot(found.std(axis=0, ddof=1) / np.sqrt(len(found)), wide.error_estimate / 2)
        assert np.abs((found.mean(axis=0) - wide.outputs) / error).max() < 4


@pytest.mark.slow
@pytest.mark.parametrize("alpha, gamma", [(0.5, 0.5), (1, 0), (1, 0.5), (0.5, 0.25)])
@pytest.mark.parametrize("options", [{"norm": "rms", "gains": True}, {"skip": tp.Skip(learned=True)},
                                     {"norm": "rms", "norm_position": "post", "gains": True}], ids=str)
def test_trained_vectors_move_the_output_by_the_power_of_the_depth_that_matrices_do(
        options: dict, alpha: float, gamma: float) -> None:
    """One small step of real networks with the same matrices, with vectors and without: slopes against the depth."""
    net = tp.ResNet("tanh", "mlp", **options)
    plain = replace(net, gains=False, skip=None)
    task, depths, sizes = tp.Task([1.0, 1.0], [1.0, 1.0]), (8, 16, 32, 64), []
    for depth in depths:
        moved = []
        for seed in range(2):
            with_them, without = (tp.train(one, task, tp.SGD(1e-3), tp.DepthScaling(alpha, gamma), depth, 64, seed=seed,
                                           method="dense").outputs.ravel() for one in (net, plain))
            assert with_them[0] == without[0]
            moved.append([abs(with_them[1] - without[1]), abs(without[1] - without[0])] / abs(1 - without[0]))
        sizes.append(np.mean(moved, axis=0))
    slopes = np.polyfit(np.log(depths), np.log(sizes), 1)[0]
    assert np.abs(slopes - (1 - alpha - gamma)).max() < 0.15
    assert abs(slopes[0] - slopes[1]) < 0.1 and 0.2 < sizes[-1][0] / sizes[-1][1] < 5
