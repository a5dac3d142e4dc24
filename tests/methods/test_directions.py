"""Muon at infinite width where no rule counts directions: against wide real networks, and what vanishes refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.methods import particles
from tpcalc.interpreters.training import Keep
from tpcalc.methods.sampled import training
from tpcalc.methods.particles import networks_beside, require_directions, said_of_directions
from tpcalc.training.problem import Problem

L, layer = sp.symbols("L l")
SCALE, OPT = tp.DepthScaling(0.5, 0.5), tp.Muon(0.3)
PAIRS = tp.Sequences(np.array([[[1, 0], [0.5, 0.8]], [[-0.6, 0.7], [1.1, -0.4]], [[0.3, -0.9], [0.8, 0.5]]])[:, None],
                     np.array([[1, -0.7], [0.5, 1.2], [-0.4, 0.8]])[:, None])
TRIPLES = tp.Sequences(np.random.default_rng(3).normal(size=(3, 2, 3, 3)),
                       np.random.default_rng(4).normal(size=(3, 2, 3)))
BATCH = tp.Task(np.array([[[1.0, 0.3], [-0.2, 0.9]], [[0.5, -0.8], [0.7, 0.6]], [[0.1, 1.0], [0.9, -0.3]]]),
                np.array([[1.0, -0.8], [0.6, 0.9], [-0.5, 0.7]]))
TAKEN: list[tuple[Any, Any, Any]] = [
    (tp.Transformer(head_dim=1, positions=2, mlp=None, causal=False), PAIRS, OPT),
    (tp.Transformer(head_dim=2, positions=2), PAIRS, tp.Muon(0.3, momentum=0.5, nesterov=True)),
    (tp.Transformer(head_dim=1, positions=2, norm=None, mlp=None, queries_per_key=2), PAIRS, OPT),
    (tp.Transformer(head_dim=2, positions=2, mlp="glu", norm="layer", skip=tp.Skip(keep=1 - 1 / L)), PAIRS,
     tp.Muon(0.3, newton_schulz_steps=5)),
    (tp.ResNet("tanh", "post_nonlin", norm="rms", norm_position="sandwich"), BATCH, OPT),
    (tp.ResNet("relu", "pre_nonlin", skip=tp.HyperConnections((0.5, 0.5), ((1, 0), (0.2, 0.8)), (1, 0.5))), BATCH, OPT),
    (tp.ResNet(skip=tp.Skip(inject=1 / L)), tp.Task([1.0, 0.8, -0.6], [1.0, -0.7, 0.5]), tp.Muon(0.3, momentum=0.8))]


@pytest.mark.parametrize("net, task, opt", [
    pytest.param(*one, id=f"{i}", marks=[pytest.mark.nightly] * (i in (0, 1, 2, 4))) for i, one in enumerate(TAKEN)])
def test_particles_are_where_wide_networks_are(net: Any, task: Any, opt: tp.Muon) -> None:
    wide = tp.train(net, task, opt, SCALE, 2, method=tp.methods.Particles(seed=1))
    found = np.array([tp.train(net, task, opt, SCALE, 2, 1024, seed=seed).outputs for seed in range(12)])
    error = np.hypot(found.std(axis=0, ddof=1) / np.sqrt(len(found)), wide.error_estimate / 2.5)
    assert np.abs((found.mean(axis=0) - wide.outputs) / error).max() < 4
    still = tp.train(net, task, tp.Muon(1e-9), SCALE, 2, method=tp.methods.Particles(seed=1)).outputs
    assert np.abs(wide.outputs - still).max() > 5 * wide.error_estimate  # updates are seen
    assert "singular values that Muon sets to 1 are at least" in wide.notes[1]


def vanishing(inputs: Any, targets: Any) -> Problem:
    net = tp.Transformer(head_dim=2, positions=2, norm=None)
    return tp.Problem(net, tp.Sequences(inputs, targets), OPT, SCALE, 2)


@pytest.mark.parametrize("problem, said", [
    (vanishing(PAIRS.inputs, 0 * PAIRS.targets), "layer 1 a direction that Wq .* have 0, networks of .* have 1;"),
    (vanishing(PAIRS.inputs, PAIRS.targets * np.array([[1], [0]])), "a direction that Wq .* have 0, networks"),
    (vanishing(PAIRS.inputs, PAIRS.targets * np.array([1, 1, 0])[:, None, None, None]), None),  # which nobody reads
    (tp.Problem(tp.ResNet("tanh", "pre_nonlin", norm="rms", norm_position="output"), BATCH, OPT, SCALE, 2),
     "layer 2 a direction that W moves along .* have 1, networks"),
    (tp.Problem(tp.ResNet("tanh", norm="rms", norm_scale=1 / sp.sqrt(layer)), tp.Task([1.0, 0.8], [0.01, 1]), OPT,
                SCALE, 2), "its singular value is .*e-0[23] [+]- ")])
def test_what_vanishes_at_infinite_width_alone_is_refused(problem: Problem, said: str | None) -> None:
    if said is None:
        assert tp.train(problem).method == "particles"
        return
    with pytest.raises(tp.Divergence, match=said) as caught:
        tp.train(problem)
    assert caught.value.step == 0 and caught.value.layer in (1, 2)
    assert tp.train(problem.net, problem.task, OPT, SCALE, 2, 64).outputs.shape == problem.task.targets.shape


USUAL = [(tp.ResNet("tanh"), BATCH), (tp.ResNet(), tp.Task([1.0, 0.8, -0.6], [1.0, -0.7, 0.5])),
         (tp.ResNet("tanh"), tp.Task([1.0, 0.8], [0.0, 1.0])), (tp.ResNet("relu", "pre_nonlin"), BATCH),
         (tp.ResNet(), tp.Task(BATCH.inputs, 0 * BATCH.targets)),
         (tp.ResNet("tanh"), tp.Task(BATCH.inputs, BATCH.targets * np.array([[1], [0]]))),
         (tp.ResNet("tanh", "mlp", norm="rms"), tp.Task(BATCH.inputs, BATCH.targets * np.array([[0], [1]])))]


@pytest.mark.parametrize("net, task", USUAL, ids=[f"{i}" for i in range(len(USUAL))])
def test_networks_beside_particles_say_what_loss_derivatives_say(net: tp.ResNet, task: tp.Task) -> None:
    """Two readings of where directions vanish, on usual networks, where both apply."""
    problem = tp.Problem(net, task, OPT, SCALE, 2)
    method = tp.methods.Particles(batches=4)
    try:
        method.solve(problem)
        counted = True
    except ValueError as error:
        assert "a direction of the gradient vanishes" in str(error)
        counted = False
    found = method.read(problem, Keep.NOTHING, None)
    beside = networks_beside(training(problem), found.samples, 4, 0, None)
    try:
        require_directions(problem, found, beside)
        sampled = True
    except tp.Divergence:
        sampled = False
    assert counted == sampled


def test_gradients_of_rounding_alone_are_no_directions() -> None:
    """Of one position queries and keys have none; what rounding leaves of theirs refuses nothing."""
    task = tp.Sequences(TRIPLES.inputs[:, :, :1], TRIPLES.targets[:, :, :1])
    problem = tp.Problem(tp.Transformer(head_dim=2, positions=1, causal=False), task, OPT, SCALE, 2)
    found = tp.methods.Particles(batches=4).read(problem, Keep.NOTHING, None)
    assert {member.name for member, values in particles._spectra(found.batches) if any(map(len, values))} == {
        "Wv", "Wo", "W1", "W2"}
    assert len(said_of_directions(problem, found)) == 1


def test_few_batches_and_rounded_numbers_tell_nothing() -> None:
    net, task, opt = TAKEN[0]
    with pytest.raises(ValueError, match="batches: got 2 with Muon"):
        tp.train(net, task, opt, SCALE, 2, method=tp.methods.Particles(batches=2))
    with pytest.raises(ValueError, match="dtype: got 'float32' with Muon"):
        tp.train(net, task, opt, SCALE, 2, method=tp.methods.Particles(dtype="float32"))
    assert tp.train(net, task, opt, SCALE, 2, 64, method=tp.methods.Conditioned(dtype="float32")).width == 64
    assert tp.train(tp.ResNet(), BATCH, opt, SCALE, 2, method=tp.methods.Particles(512, dtype="float32")).width is None


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"mlp": None, "causal": False, "head_dim": 1}, {}], ids=str)
def test_infinite_depth_is_where_transformers_go(options: dict[str, Any]) -> None:
    """Real networks, extrapolated; a singular value falls towards the output end, where narrow ones do not see it."""
    net = tp.Transformer(**{"head_dim": 2, "positions": 2, **options})
    deep = tp.train(net, PAIRS, OPT, SCALE, tp.oo, method=tp.methods.CommonDraws(0.01, 1e6, 1024, coarsest=4))
    means, errors = [], []
    for depth in (8, 16):
        found = np.array([tp.train(net, PAIRS, OPT, SCALE, depth, 512, seed=seed).outputs for seed in range(8)])
        means.append(found.mean(axis=0))
        errors.append(found.std(axis=0, ddof=1) / np.sqrt(8))
    limit, error = 2 * means[1] - means[0], np.sqrt(4 * errors[1]**2 + errors[0]**2)
    assert np.abs((limit - deep.outputs) / np.hypot(error, deep.error_estimate / 2)).max() < 4


def test_what_vanishes_at_infinite_depth_is_refused_at_the_first_depth() -> None:
    net = tp.Transformer(head_dim=1, positions=2, mlp=None)
    vanishes = tp.Sequences(PAIRS.inputs, 0 * PAIRS.targets)
    with pytest.raises(tp.Divergence, match="at step 0, layer 1 a direction that Wq moves along"):
        tp.train(net, vanishes, OPT, SCALE, tp.oo)
