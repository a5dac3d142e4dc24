"""Networks whose layers are visited several times: their programs, against networks written by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.interpreters.program_coefficients import read_program_coefficients
from tpcalc.models.skips import visits_apart
from tpcalc.theory import Family, Mean, Vector

from ..support.plain import visited

INPUTS, TARGETS = np.array([1.0, 0.8, -0.6, 1.1]), np.array([1.0, -0.7, 0.5, 1.2])
TASK = tp.Task(INPUTS, TARGETS)
PLAIN = {"linear": (tp.ResNet(), visited.linear), "mlp": (tp.ResNet("tanh", "mlp"), visited.mlp),
         "normed": (tp.ResNet("tanh", "mlp", norm="rms"), visited.normed_mlp)}
# at N visits of L layers, eps = g = 1/(N sqrt L): f_1, f_2, f_3, and <x|x> at the end
REFERENCES = [
    (4, 1, "cycle", (1.034423828125, .184047542280, -.448994671809), (2.144546508789, 2.691501621901, .293543543391)),
    (4, 2, "cycle", (1.160477666376, .174982810360, -.390666070346), (2.217750018696, 3.217288910582, .184770740483)),
    (2, 4, "cycle", (1.265553833544, .168247627573, -.364608600081), (2.276819020743, 3.629731764727, .150996396103)),
    (4, 2, "block", (1.404885046935, .119310907153, -.261512231434), (2.358207055368, 4.289939977939, .117644562299))]


@pytest.mark.parametrize("name", list(PLAIN))
@pytest.mark.parametrize("how", [
    {"visits": 3}, {"visits": 2, "order": "block"}, {"visits": 2, "inject": sp.Rational(1, 2)},
    {"visits": 2, "train_embedding_readout": True}], ids=lambda how: "-".join(how))
@pytest.mark.parametrize("opt", [tp.SGD(0.3), tp.SignSGD(0.3)], ids=["sgd", "signs"])
@pytest.mark.parametrize("batch", [1, 2])
def test_a_real_network_is_the_one_written_by_hand(name: str, how: dict, opt: tp.SGD | tp.SignSGD, batch: int) -> None:
    net, block = PLAIN[name]
    inputs, targets = INPUTS.reshape(-1, batch), TARGETS.reshape(-1, batch)
    task = tp.Task(inputs[..., None], targets[..., None])
    run = tp.train(replace(net, **how), task, opt, tp.DepthScaling(0.75, 0.25), depth=2, width=5,
                   method=tp.methods.Dense(seed=3))
    trained = ("U", "nV") if how.get("train_embedding_readout") else ()
    order, inject = how.get("order", "cycle"), float(how.get("inject", 0))
    plain = visited.PlainLoop(block, 2, how["visits"], order, inject, 0.75, 0.25, trained)
    expected = plain.trace(run.initial_weights(), inputs, targets, 0.3, isinstance(opt, tp.SignSGD))
    assert np.allclose(run.outputs[..., 0], expected, rtol=1e-10, atol=1e-12)
    assert abs(expected[1, 0] - plain.output(run.initial_weights(), inputs[1, 0]).real) > 1e-3  # it has learned


def test_what_a_skip_carries_stays_the_embedding() -> None:
    """x^0 is added by every layer and by every visit, and the second does not change the first."""
    net = tp.ResNet(visits=3, inject=0.5, skip=tp.Skip(inject=0.25), train_embedding_readout=True)
    task = tp.Task(INPUTS, TARGETS)
    run = tp.train(net, task, tp.SGD(0.1), tp.DepthScaling(), depth=2, width=5, method=tp.methods.Dense(seed=3))
    plain = visited.PlainLoop(visited.linear, 2, 3, inject=0.5, trained=("U", "nV"), skip=0.25)
    expected = plain.trace(run.initial_weights(), INPUTS[:, None], TARGETS[:, None], 0.1)
    assert np.allclose(run.outputs[..., 0], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("opt", [tp.Adam(0.2), tp.Lion(0.2), tp.Muon(0.2), tp.NormalizedSGD(0.2)],
                         ids=lambda opt: type(opt).__name__)
def test_particles_are_wide_networks(opt: tp.Adam) -> None:
    """On batches, whose means over visits and samples are sums of many outer products."""
    task = tp.Task(INPUTS.reshape(2, 2, 1), TARGETS.reshape(2, 2, 1))
    problem = tp.Problem(tp.ResNet("tanh", "mlp", visits=2, inject=1), task, opt, tp.DepthScaling(), depth=2)
    sampled = tp.train(problem, method=tp.methods.Particles(samples=2048))
    real = np.array([tp.train(replace(problem, width=256), method=tp.methods.Dense(seed=seed)).outputs[1, :, 0]
                     for seed in range(12)])
    off = np.abs(real.mean(axis=0) - sampled.outputs[1, :, 0])
    assert np.all(off < 4 * real.std(axis=0, ddof=1) / np.sqrt(12) + sampled.error_estimate)
    assert np.max(np.abs(sampled.outputs[1])) > 0.05


def test_visits_are_no_layers() -> None:
    """Of as many layers with matrices of their own outputs are others, and so they are in another order."""
    def outputs(net: tp.ResNet, depth: int) -> np.ndarray:
        return tp.train(net, TASK, tp.SGD(1.0), tp.DepthScaling(), depth=depth).outputs.ravel()

    found = [outputs(tp.ResNet(visits=2), 4), outputs(tp.ResNet(visits=2, order="block"), 4), outputs(tp.ResNet(), 8)]
    apart = min(np.max(np.abs(a - b)) for a, b in ((found[0], found[1]), (found[0], found[2]), (found[1], found[2])))
    assert apart > 0.01


@pytest.mark.parametrize("visits, layers, order, outputs, squares", REFERENCES)
def test_references(visits: int, layers: int, order: str, outputs: tuple, squares: tuple) -> None:
    """By the program's coefficients, which "auto" finds, and by the recursion that is derived and compiled."""
    net = tp.ResNet(visits=visits, order=order)
    run = tp.train(net, TASK, tp.SGD(1.0), tp.DepthScaling(), depth=layers)
    assert run.method == "coefficients" and run.exact
    assert np.allclose(run.outputs[1:, 0, 0], outputs, rtol=0, atol=1e-11)
    found = read_program_coefficients(tp.program(net, tp.SGD(1.0), tp.DepthScaling()),
                                      dict(T=4, L=layers, N=visits), dict(xi=INPUTS, y=TARGETS))
    ends = [Family(Vector, "x", layered=True)[t, visits, layers] for t in range(3)]
    assert np.allclose([float(found.value(Mean(end**2))) for end in ends], squares, rtol=0, atol=1e-11)


def test_the_derived_recursion_of_a_symbolic_number_of_visits() -> None:
    compiled = tp.recursion(tp.kets(tp.program(tp.ResNet(visits=2), tp.SGD(1.0), tp.DepthScaling()))).compile()
    for visits, layers, order, outputs, _ in REFERENCES:
        if order == "cycle":
            found = compiled.evaluate(T=4, L=layers, N=visits, xi=INPUTS, y=TARGETS)["f"]
            assert np.allclose(found[1:], outputs, rtol=0, atol=1e-11)


def test_infinite_depth_is_derived_and_extrapolated() -> None:
    """The integral equations of two visits, solved as they stand, and depths that are extrapolated."""
    program = visits_apart(tp.program(tp.ResNet(visits=2), tp.SGD(1.0), tp.DepthScaling()), 2)
    region, = tp.depth_limit(tp.recursion(tp.kets(program))).regions
    solved = region.compile()(INPUTS, TARGETS)
    assert np.allclose(solved.outputs[1:], (1.44595408, .09239479, -.20729959), rtol=0, atol=6e-9)
    run = tp.train(tp.ResNet(visits=2), TASK, tp.SGD(1.0), tp.DepthScaling(), depth=tp.oo)
    off = float(np.max(np.abs(run.outputs.ravel() - solved.outputs)))
    assert run.method == "extrapolated" and off <= run.error_estimate < 1e-5


@pytest.mark.parametrize("net", [tp.ResNet("linear", "mlp", visits=2), tp.ResNet(skip=tp.Skip(keep=sp.Rational(9, 10))),
                                 tp.ResNet(visits=3, train_embedding_readout=True)], ids=["mlp", "skip", "ends"])
def test_linear_networks_of_any_make_are_exact(net: tp.ResNet) -> None:
    """Batches, several inputs and outputs, probes, momentum and decay: particles are within their errors."""
    rng = np.random.default_rng(0)
    task = tp.Task(rng.normal(size=(3, 2, 2)), rng.normal(size=(3, 2, 2)), probes=rng.normal(size=(2, 2)))
    problem = tp.Problem(net, task, tp.SGD(0.2, momentum=0.4, weight_decay=0.1), tp.DepthScaling(), depth=3)
    exact = tp.train(problem)
    sampled = tp.train(problem, method=tp.methods.Particles(samples=2**13))
    assert exact.method == "coefficients"
    for one, other in ((exact.outputs, sampled.outputs), (exact.probe_outputs, sampled.probe_outputs)):
        assert one is not None and other is not None
        assert np.max(np.abs(one - other)) < 2 * sampled.error_estimate


@pytest.mark.parametrize("net", [tp.ResNet("linear", "mlp"), tp.ResNet(skip=tp.Skip(keep=sp.Rational(9, 10)))],
                         ids=["mlp", "skip"])
def test_covariances_of_linear_networks_of_any_make(net: tp.ResNet) -> None:
    """Of the stream and of its gradients at all layers, kept or found when asked for; inputs stand at the first one."""
    task = tp.Task(INPUTS.reshape(2, 2, 1), TARGETS.reshape(2, 2, 1))
    problem = tp.Problem(net, task, tp.SGD(0.3), tp.DepthScaling(), depth=3)
    exact, kept = tp.train(problem), tp.train(problem, keep_nodes=[0.0, 1.0])
    sampled = tp.train(problem, method=tp.methods.Particles(samples=2**13))
    assert exact.method == kept.method == "coefficients"
    for one, other in ((exact.forward_covariance, sampled.forward_covariance),
                       (exact.backward_covariance, sampled.backward_covariance)):
        assert one.shape == (4, 4, 4) and np.max(np.abs(one - other)) < 0.02 and np.max(np.abs(one[1] - one[0])) > 0.03
    assert np.allclose(exact.forward_covariance[0], np.outer(INPUTS, INPUTS), atol=1e-12)
    assert np.allclose(kept.forward_covariance, exact.forward_covariance[[0, -1]], atol=1e-12)
    with pytest.raises(tp.NotCovered, match="gamma: its kets were read from its program"):
        tp.train(net, TASK, tp.SGD(0.3), tp.DepthScaling(), depth=2).gamma(1, 0, 0, 0, 0.5, 0.5)


def test_a_transformer_at_first_is_one_of_copied_layers() -> None:
    task = tp.Sequences(np.random.default_rng(0).normal(size=(1, 1, 2, 1)), np.zeros((1, 1, 2, 1)))
    net = dict(heads=2, head_dim=3, positions=2, norm="rms")
    for order in ("cycle", "block"):
        once = tp.train(tp.Transformer(**net, visits=2, order=order), task, tp.SGD(0.1), tp.DepthScaling(), depth=3,
                        method="dense")
        way = [0, 1, 2, 0, 1, 2] if order == "cycle" else [0, 0, 1, 1, 2, 2]
        copied = {name: value if name in ("U", "nV") else value[way] for name, value in once.initial_weights().items()}
        twice = tp.train(tp.Transformer(**net), task, tp.SGD(0.1), tp.DepthScaling(branch=2**-0.5), depth=6,
                         method=tp.methods.Dense(weights=copied))
        assert np.allclose(once.outputs, twice.outputs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("given, said", [
    (dict(visits=0), "visits: got 0"), (dict(visits=1.5), "visits: got 1.5"), (dict(order="block"), "visits: got 1"),
    (dict(visits=2, order="row"), "order: got"), (dict(visits=2, order="block", inject=1), "inject: got 1"),
    (dict(visits=2, inject=sp.Symbol("L")), "inject: got L")])
def test_wrong_loops_are_refused(given: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tp.ResNet(**given)


def test_what_is_not_known_of_loops_is_refused_by_name() -> None:
    net = tp.ResNet("tanh", "mlp", visits=2)
    scale = tp.DepthScaling()
    for call in (lambda: tp.program(tp.ResNet(visits=tp.oo), tp.SGD(), scale),
                 lambda: tp.train(tp.ResNet("tanh", visits=tp.oo), TASK, tp.SGD(), scale, depth=2),
                 lambda: tp.train(tp.ResNet(visits=tp.oo, order="block"), TASK, tp.SGD(), scale, depth=2),
                 lambda: tp.train(net, TASK, tp.SGD(), scale, depth=2, method="reflection"),
                 lambda: tp.train(net, TASK, tp.SGD(), scale, depth=tp.oo, method="collocation")):
        with pytest.raises(tp.NotCovered, match="visits: got|order, inject: got|net: got"):
            call()
