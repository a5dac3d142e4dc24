"""``train`` by sampling: particles at infinite width, conditioned networks at finite width, any block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.closeness import assert_close

OPT, SCALE = tp.SGD(0.5), tp.DepthScaling()
TASK = tp.Task([1, 0.8, -0.6], [1, -0.7, 0.5])
RNG = np.random.default_rng(0)
BATCH = tp.Task(RNG.normal(size=(3, 2, 1)), RNG.normal(size=(3, 2, 1)))
WIDE = tp.Task(RNG.normal(size=(3, 2, 3)) / 2, RNG.normal(size=(3, 2, 2)), probes=RNG.normal(size=(2, 3)) / 2)


@pytest.mark.parametrize("task", [TASK, BATCH, WIDE], ids=repr)
def test_particles_give_what_the_exact_solver_gives(task: tp.Task) -> None:
    """Linear network: outputs, covariances and differences, to the error that is said."""
    exact = tp.train(tp.ResNet(), task, OPT, SCALE, 6, keep_nodes="all")
    run = tp.train(tp.ResNet(), task, OPT, SCALE, 6, keep_nodes="all", method="particles", samples=3000)
    assert (run.method, run.depth, run.width) == ("particles", 6, None) and "8 batches of 3000" in run.notes[0]
    assert 1e-4 < run.error_estimate < 0.05
    assert np.max(np.abs(run.outputs - exact.outputs)) < 6 * run.error_estimate
    if exact.probe_outputs is not None:
        assert run.probe_outputs is not None and run.probe_outputs.shape == (3, 2, 2)
        assert np.max(np.abs(run.probe_outputs - exact.probe_outputs)) < 6 * run.error_estimate
    for ours, theirs in ((run.forward_covariance, exact.forward_covariance),
                         (run.backward_covariance, exact.backward_covariance)):
        assert_close(ours, theirs, 0.04)
    index = (2, 1) if task.batch > 1 else 2
    assert_close(run.feature_difference(index, 1 / 6, 0.5), exact.feature_difference(index, 1 / 6, 0.5), 0.03)
    assert_close(run.cross_covariance(index, index, 0, 1, 0.5, 1),
                 exact.cross_covariance(index, index, 0, 1, 0.5, 1), 0.03, 1.0)


def test_conditioned_networks_have_the_mean_of_dense_ones() -> None:
    for task in (TASK, BATCH, WIDE):
        runs = [[tp.train(tp.ResNet(), task, OPT, SCALE, 3, width=200, seed=seed, method=method) for seed in range(40)]
                for method in ("dense", "conditioned")]
        found = [np.array([run.outputs for run in several]) for several in runs]
        if task.probes is not None:
            found = [np.array([np.concatenate([run.outputs, run.probe_outputs], axis=1) for run in several])
                     for several in runs]
        error = np.sqrt(sum(np.var(values, axis=0, ddof=1) / 40 for values in found))
        assert np.all(np.abs(found[0].mean(0) - found[1].mean(0)) < 5 * error)
        assert np.all(np.abs(np.log(found[0].std(0)[0] / found[1].std(0)[0])) < 0.6)


def test_a_conditioned_run_has_the_shapes_it_declares() -> None:
    run = tp.train(tp.ResNet("tanh", train_embedding_readout=True), BATCH, tp.SGD([0.5, 0.4, 0.3]), SCALE, 4, width=50,
                   seed=3,
                   keep_nodes=[0, 0.5, 1])
    assert (run.method, run.depth, run.width) == ("conditioned", 4, 50)
    assert run.outputs.shape == (3, 2, 1) and run.probe_outputs is None
    assert_close(run.layer_times, [0, 0.5, 1], 1e-15)
    assert run.forward_covariance.shape == run.backward_covariance.shape == (3, 6, 6)
    again = tp.train(tp.ResNet("tanh", train_embedding_readout=True), BATCH, tp.SGD([0.5, 0.4, 0.3]), SCALE, 4,
                     width=50, seed=3)
    assert_close(again.outputs, run.outputs, 1e-12)
    assert_close(again.forward_covariance[[0, 2, 4]], run.forward_covariance, 1e-12)
    rough = tp.train(tp.ResNet("tanh"), BATCH, OPT, SCALE, 4, width=50, seed=3, dtype="float32")
    assert np.all(np.isfinite(rough.outputs))


def test_the_error_of_a_real_network_is_its_fluctuation() -> None:
    """At initialization f = nV . x / n has standard deviation |x| / n given x."""
    runs = [tp.train(tp.ResNet("relu"), TASK, OPT, SCALE, 3, width=100, seed=seed) for seed in range(60)]
    measured = np.std([run.outputs[0, 0, 0] for run in runs])
    assert abs(np.log(measured / np.mean([run.error_estimate for run in runs]))) < 0.4


def test_methods_are_chosen_by_network_width_and_depth() -> None:
    for net, width, method in ((tp.ResNet(), 20, "dense"), (tp.ResNet("tanh"), 20, "conditioned"),
                               (tp.ResNet(block="mlp"), tp.oo, "coefficients"),
                               (tp.ResNet("tanh"), tp.oo, "particles"), (tp.ResNet(), tp.oo, "reflection"),
                               (tp.ResNet(train_embedding_readout=True), tp.oo, "reflection")):
        options = {"samples": 200, "batches": 2} if method == "particles" else {}
        assert tp.train(net, TASK, OPT, SCALE, 2, width=width, **options).method == method


def test_digits() -> None:
    """64 inputs and 10 outputs, in batches of 8: a real network of width 4096 beside its own limit."""
    task = tp.tasks.digits(steps=3, batch=8)
    run = tp.train(tp.ResNet("relu"), task, tp.SGD(1.0), SCALE, depth=4, width=2**12)
    assert run.method == "conditioned" and run.outputs.shape == (3, 8, 10)
    limit = tp.train(tp.ResNet("relu"), task, tp.SGD(1.0), SCALE, depth=4, samples=2048, batches=2)
    assert np.max(np.abs(run.outputs - limit.outputs)) < 6 * run.error_estimate
    assert np.max(np.abs(run.outputs[1:])) > 10 * run.error_estimate


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="method: got 'conditioned' with width tp.oo; expected 'dense' and"):
        tp.train(tp.ResNet(), TASK, OPT, SCALE, 2, method="conditioned")
    with pytest.raises(ValueError, match="method: got 'particles' with width 10"):
        tp.train(tp.ResNet(), TASK, OPT, SCALE, 2, width=10, method="particles")
    with pytest.raises(ValueError, match="method: got 'particles' with depth tp.oo"):
        tp.train(tp.ResNet("tanh"), TASK, OPT, SCALE, tp.oo, method="particles")
    with pytest.raises(ValueError, match="method='reflection' takes phi='linear'"):
        tp.train(tp.ResNet("tanh"), TASK, OPT, SCALE, 2, method="reflection")
    with pytest.raises(ValueError, match="samples: got 10; program .* at least"):
        tp.train(tp.ResNet("tanh"), TASK, OPT, SCALE, 2, samples=10)
    for call in ("gamma", "c"):
        run = tp.train(tp.ResNet("tanh"), TASK, OPT, SCALE, 2, samples=200, batches=2)
        with pytest.raises(ValueError, match=f"{call}: sampled kets have no"):
            run.gamma(1, 0, 0, 0, 1, 0.5) if call == "gamma" else run.c(1, 0, 0, 0.5)


@pytest.mark.parametrize("options", [dict(samples=512), dict(width=64)], ids=["particles", "dense"])
def test_neurons_without_a_gradient_are_named(options: dict) -> None:
    """relu's dead neurons have gradients of 0, of which Adam has no direction unless its eps says so."""
    net = tp.ResNet("relu", "mlp")
    with pytest.raises(tp.Divergence, match="eps=0 and so no direction, 0/0"):
        tp.train(net, TASK, tp.Adam(0.1), SCALE, 2, **options)
    assert np.all(np.isfinite(tp.train(net, TASK, tp.Adam(0.1, eps=1e-6), SCALE, 2, **options).outputs))
    with pytest.raises(tp.Divergence) as caught:
        tp.train(net, TASK, tp.SGD(1e200), SCALE, 2, **options)
    assert "eps" not in str(caught.value)


def test_a_blow_up_names_the_step_and_the_layer() -> None:
    h = sp.Symbol("h", real=True)
    with pytest.raises(tp.Divergence, match=r"step \d, layer \d: .* is not finite") as caught:
        tp.train(tp.ResNet(h**7), TASK, tp.SGD(1e50), SCALE, 3, samples=200, batches=2)
    assert caught.value.step == 1 and caught.value.layer in (1, 2, 3)
    with pytest.raises(tp.Divergence, match=r"step 1: U\[1, \d\] is not finite") as caught:
        tp.train(tp.ResNet(train_embedding_readout=True), WIDE, tp.SGD(1e308), SCALE, 1, samples=400, batches=2,
                 method="particles")
    assert caught.value.layer is None


@pytest.mark.parametrize("opt", [tp.SignSGD(0.5), tp.Adam([0.5, 0.3, 0.2], 0.8, 0.9, 0.1)], ids=["SignSGD", "Adam"])
@pytest.mark.parametrize("net", [tp.ResNet(), tp.ResNet("tanh", block="mlp", train_embedding_readout=True)], ids=repr)
def test_entrywise_optimizers_in_every_sampled_reading(net: tp.ResNet, opt: Any) -> None:
    limit = tp.train(net, TASK, opt, SCALE, 2, batches=4)
    assert limit.method == "particles" and limit.error_estimate < 0.05
    assert ("1024 particles" in limit.notes[0]) == isinstance(opt, tp.Adam)
    for method, width, seeds in (("conditioned", 400, 8), ("dense", 200, 8)):
        runs = [tp.train(net, TASK, opt, SCALE, 2, width=width, method=method, seed=seed) for seed in range(seeds)]
        assert {run.method for run in runs} == {method}
        values = np.array([run.outputs for run in runs])
        error = np.hypot(values.std(0, ddof=1) / np.sqrt(seeds), limit.error_estimate)
        assert np.all(np.abs(values.mean(0) - limit.outputs) < 5 * error + 4 / width)
    assert tp.train(net, TASK, opt, SCALE, 2, width=50).method == "conditioned"


def test_dense_networks_of_any_block() -> None:
    """The program at finite width: what is kept is what the run says."""
    run = tp.train(tp.ResNet("relu"), BATCH, OPT, SCALE, 3, width=40, method="dense", keep_nodes=[0, 1])
    assert (run.method, run.width, run.forward_covariance.shape) == ("dense", 40, (2, 6, 6))
    assert np.min(np.linalg.eigvalsh(run.backward_covariance)) > -1e-12 and np.any(run.backward_covariance)


def test_progress_counts_steps_of_real_networks() -> None:
    for method in ("conditioned", "dense"):
        seen: list[tuple[int, int]] = []
        tp.train(tp.ResNet("tanh"), TASK, OPT, SCALE, 2, width=10, method=method, progress=lambda *at: seen.append(at))
        assert seen == [(1, 3), (2, 3), (3, 3)]


def test_entrywise_optimizers_are_refused_by_the_exact_solvers() -> None:
    for method, depth in (("reflection", 2), ("coefficients", 2), ("collocation", tp.oo)):
        said = r"opt: got SignSGD\(lr=1.0, sphere=False\); method='\w+' takes a tp.SGD( or a tp.Muon)?, whose"
        with pytest.raises(ValueError, match=said):
            tp.train(tp.ResNet(), TASK, tp.SignSGD(), SCALE, depth, method=method)
    with pytest.raises(ValueError, match="lr: got 2 learning rates for a task of 3 steps"):
        tp.train(tp.ResNet(), TASK, tp.Adam([1, 2]), SCALE, 2)
    for opt in (tp.SignSGD(sp.Symbol("s")), tp.Adam(beta1=sp.Symbol("s"))):
        with pytest.raises(ValueError, match="got s; expected a number|expected numbers for s"):
            tp.train(tp.ResNet(), TASK, opt, SCALE, 2)
