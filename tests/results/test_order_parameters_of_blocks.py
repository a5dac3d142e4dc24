"""Order parameters of all blocks and optimizers against plain real networks: of one with the same weights to rounding,
and of many that are wide, with the responses that particles have."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support.nightly import few
from support.plain.block_fields import BlockFields, drawn

import tpcalc as tp
from tpcalc.programs.blocks import preactivated

DEPTH, LR = 3, 0.8
WIDTH, SEEDS, BIAS = 256, 96, 2e-3  # of real networks; means of theirs are off by some 1 / WIDTH
TASK = tp.Task([[[1.0], [-0.5]], [[0.8], [0.4]], [[-0.6], [1.2]]], [[[1.0], [0.3]], [[-0.7], [0.4]], [[0.5], [-1.0]]])
SCALE = tp.DepthScaling()
ADAM = tp.Adam(0.4, beta1=0.7, beta2=0.9, eps=0.3)
CASES: dict[str, tuple[tp.ResNet, Any, str]] = {
    "one matrix": (tp.ResNet("tanh", "pre_nonlin"), tp.SGD(LR), "pre"),
    "two matrices": (tp.ResNet("tanh", preactivated(2)), tp.SGD(LR), "pre"),
    "three matrices": (tp.ResNet("tanh", "mlp", matrices=3), tp.SGD(LR), "mlp"),
    "linear, two matrices": (tp.ResNet("linear", "mlp"), tp.SGD(LR), "mlp"),
    "behind": (tp.ResNet("tanh"), tp.SGD(LR), "post"),
    "relu behind": (tp.ResNet("relu"), tp.SGD(LR), "post"),
    "layer norm": (tp.ResNet("tanh", "pre_nonlin", norm="layer"), tp.SGD(LR), "pre"),
    "rms norm": (tp.ResNet("relu", "mlp", norm="rms"), tp.SGD(LR), "mlp"),
    "readout": (tp.ResNet("tanh", "pre_nonlin", readout="relu"), tp.SGD(LR), "pre"),
    "momentum and decay": (tp.ResNet("tanh", "pre_nonlin"), tp.SGD(LR, momentum=0.5, weight_decay=0.2), "pre"),
    "Adam": (tp.ResNet("tanh", "pre_nonlin"), ADAM, "pre"),
    "Adam, two matrices": (tp.ResNet("relu", "mlp"), ADAM, "mlp"),
    "signs": (tp.ResNet("tanh"), tp.SignSGD(0.1), "post")}


def plain(case: str, weights: dict[str, np.ndarray]) -> BlockFields:
    net, opt, kind = CASES[case]
    adam = (opt.beta1, opt.beta2, opt.eps) if isinstance(opt, tp.Adam) else (0, 0, 0) if isinstance(
        opt, tp.SignSGD) else None
    return BlockFields(kind, str(net.phi), net.norm, weights, DEPTH**-0.5, DEPTH**-0.5, opt.lr,
                       float(getattr(opt, "weight_decay", 0)), float(getattr(opt, "momentum", 0)), adam,
                       str(net.readout)).train(TASK)


def names(case: str) -> tuple[str, ...]:
    return CASES[case][0].families_of_matrices


def rows(fields: np.ndarray) -> np.ndarray:
    """(layers, steps * batch, n)."""
    return fields.reshape(len(fields), -1, fields.shape[-1])


def overlap(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return rows(one) @ rows(other).transpose(0, 2, 1) / one.shape[-1]


def square(kernel: np.ndarray) -> np.ndarray:
    """(layers, N, N) of (layers, t, i, s, j)."""
    return kernel.reshape(-1, TASK.steps * TASK.batch, TASK.steps * TASK.batch)


def order_parameters(case: str, method: Any, width: Any = tp.oo) -> tp.theory.OrderParameters:
    net, opt, _ = CASES[case]
    return tp.theory.order_parameters(tp.train(net, TASK, opt, SCALE, DEPTH, width, method=method))


@pytest.mark.parametrize("case", CASES)
def test_the_fields_of_one_network_are_those_of_a_plain_one(case: str) -> None:
    """With the same initial weights, to rounding: fields, kernels, products with initial matrices, tangent kernel."""
    found = order_parameters(case, "dense", 20)
    start = found.run.initial_weights()
    own = plain(case, {name: start[name] for name in ("U", "nV", *names(case))})
    assert found.fields is not None and tuple(found.matrices) == names(case)
    same = [(found.f, own.f), (found.fields.h, own.fields["h"]), (found.fields.g, own.fields["g"]),
            (square(found.H), overlap(own.fields["h"], own.fields["h"])),
            (square(found.G), overlap(own.fields["g"], own.fields["g"]))]
    tangent, step = 0.0, np.arange(TASK.steps).repeat(TASK.batch)
    for name, matrix in found.matrices.items():
        z, d, chi, xi = (own.fields[letter + name] for letter in ("z", "d", "chi", "xi"))
        fields, c = found.fields.matrices[name], found.run.problem.opt.lr / math.sqrt(DEPTH)
        same += [(fields.chi, chi), (fields.xi, xi), (square(matrix.Phi), overlap(z, z)),
                 (square(matrix.G), overlap(d, d)),
                 (rows(fields.u), rows(chi) - c * square(matrix.A) @ rows(d)),
                 (rows(fields.r), rows(xi) - c * square(matrix.B) @ rows(z))]
        A, B = c * square(matrix.A), c * square(matrix.B)
        # rows that are nearly combinations of others, as tanh of six multiples of one vector, are taken for these
        np.testing.assert_allclose(A @ overlap(d, d) + overlap(z, z) @ B.transpose(0, 2, 1), overlap(chi, d), rtol=0,
                                   atol=1e-5)
        assert np.all(A[:, step[:, None] <= step] == 0) and np.all(B[:, step[:, None] < step] == 0)
        assert np.max(np.abs(A)) > 1e-3 and np.max(np.abs(B)) > 1e-3
        gradients = np.einsum("lai,laj->laij", rows(d), rows(z)) / z.shape[-1]  # of all entries of the matrix
        tangent += np.einsum("laij,lbij->ab", gradients, gradients) / DEPTH
    for ours, theirs in (*same, (square(found.K)[0], tangent)):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("case", ["two matrices", "three matrices", "behind", "layer norm"])
def test_a_matrix_gives_noise_responses_and_what_it_learned(case: str) -> None:
    """eps W(t) z = eps u + (eta0 mu0 / L) sum of (Phi Delta / batch + A) g, of every matrix of one network."""
    found = order_parameters(case, "dense", 20)
    start = found.run.initial_weights()
    own = plain(case, {name: start[name] for name in ("U", "nV", *names(case))})
    assert found.fields is not None
    step = np.arange(TASK.steps).repeat(TASK.batch)
    for name, matrix in found.matrices.items():
        g = rows(own.fields["d" + name])
        learned = square(matrix.Phi) * (step[:, None] > step) * found.Delta.ravel() / TASK.batch
        made = rows(found.fields.matrices[name].u) + LR / math.sqrt(DEPTH) * (learned + square(matrix.A)) @ g
        np.testing.assert_allclose(made, rows(own.fields["h" + name]), rtol=0, atol=1e-10)


def in_the_limit(found: tp.theory.OrderParameters, sign: float = 1.0) -> dict[str, np.ndarray]:
    """What overlaps of a network's own products are, from order parameters; sign: what A is multiplied by."""
    values = {"f": found.f, "H": square(found.H), "G": square(found.G), "K": square(found.K)}
    c = found.run.problem.opt.lr / math.sqrt(DEPTH)
    for name, matrix in found.matrices.items():
        Phi, G, A, B = square(matrix.Phi), square(matrix.G), sign * c * square(matrix.A), c * square(matrix.B)
        u_g, r_z = Phi @ B.transpose(0, 2, 1), G @ A.transpose(0, 2, 1)
        back = A.transpose(0, 2, 1), B.transpose(0, 2, 1)
        values.update({f"z z, {name}": Phi, f"d d, {name}": G, f"chi d, {name}": A @ G + u_g,
                       f"chi chi, {name}": Phi + A @ u_g.transpose(0, 2, 1) + u_g @ back[0] + A @ G @ back[0],
                       f"xi xi, {name}": G + B @ r_z.transpose(0, 2, 1) + r_z @ back[1] + B @ Phi @ back[1]})
    return values


def of_a_network(case: str, width: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The same of the fields and matrices of one real network."""
    own = plain(case, drawn(names(case), DEPTH, width, rng))
    fields, values = own.fields, {"f": own.f, "K": np.zeros(1)}
    values.update({letter: overlap(fields[small], fields[small]) for letter, small in (("H", "h"), ("G", "g"))})
    for name in names(case):
        for pair in ("z z", "d d", "chi d", "chi chi", "xi xi"):
            values[f"{pair}, {name}"] = overlap(*(fields[letter + name] for letter in pair.split()))
        values["K"] = values["K"] + np.mean(values[f"z z, {name}"] * values[f"d d, {name}"], axis=0, keepdims=True)
    return values


def estimate(values: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return np.mean(values, axis=0), np.std(values, axis=0, ddof=1) / math.sqrt(len(values))


def scores(particles: list[dict[str, np.ndarray]], networks: list[dict[str, np.ndarray]]) -> dict[str, float]:
    """By overlap, how many standard errors the means are apart at most."""
    found = {}
    for key in particles[0]:
        (ours, error), (theirs, spread) = (estimate([one[key] for one in many]) for many in (particles, networks))
        found[key] = float(np.max(np.abs(ours - theirs) / np.sqrt(error**2 + spread**2 + BIAS**2)))
    return found


@pytest.mark.parametrize("case", few(sorted(set(CASES) - {"Adam", "signs"}), "Adam, two matrices", "behind"))
def test_particles_are_wide_networks(case: str) -> None:
    """Fields and products of networks with their own matrices, of kernels and responses that particles have: at most
    5 of some thousand standard errors; a response with a flipped sign is far off."""
    samples = 1024 if isinstance(CASES[case][1], tp.Adam) else 4096
    sampled = [order_parameters(case, tp.methods.Particles(samples, 2, seed)) for seed in range(8)]
    rng = np.random.default_rng(5)
    networks = [of_a_network(case, WIDTH, rng) for _ in range(SEEDS)]
    right, wrong = (scores([in_the_limit(one, sign) for one in sampled], networks) for sign in (1.0, -1.0))
    assert max(right.values()) < 5, right
    assert all(wrong[f"chi d, {name}"] > 6 for name in names(case)), wrong


@pytest.mark.parametrize("opt", [tp.Lion(0.2), tp.Muon(0.3), tp.NormalizedSGD(0.3), tp.Shampoo(0.2, eps=0.1),
                                 tp.Clipped(tp.SGD(LR), 0.5), tp.AdamW(0.2, eps=0.1, weight_decay=0.1)], ids=str)
def test_matrices_that_any_optimizer_moves_are_read_from_their_start(opt: Any) -> None:
    """W(0) phi(h) and W(0)^T g, and their Gaussian parts, whatever moved W since; responses are of earlier steps."""
    run = tp.train(tp.ResNet("tanh", "pre_nonlin"), TASK, opt, SCALE, DEPTH, 24, method="dense")
    found, W = tp.theory.order_parameters(run), run.initial_weights()["W"]
    assert found.fields is not None
    fields, step = found.fields, np.arange(TASK.steps).repeat(TASK.batch)
    z, g = np.tanh(rows(fields.h))[:-1], rows(fields.g)[1:]
    A, B = (opt.lr / math.sqrt(DEPTH) * square(kernel) for kernel in (found.A, found.B))
    for ours, theirs in ((fields.chi, z @ W.transpose(0, 2, 1)), (fields.xi, g @ W),
                         (fields.u, z @ W.transpose(0, 2, 1) - A @ g), (fields.r, g @ W - B @ z)):
        np.testing.assert_allclose(rows(ours), theirs, rtol=0, atol=1e-10)
    assert np.all(A[:, step[:, None] <= step] == 0) and np.all(B[:, step[:, None] < step] == 0)
    assert np.max(np.abs(A)) > 1e-3 and np.max(np.abs(B)) > 1e-3
    schedule = tp.train(tp.ResNet("tanh"), TASK, tp.Adam((0.1, 0.2, 0.1), eps=0.1), SCALE, DEPTH, 8)
    with pytest.raises(ValueError, match="expected .* an optimizer of one learning rate"):
        tp.theory.order_parameters(schedule)


@pytest.mark.parametrize("net", [
    tp.ResNet("silu", "glu"), tp.ResNet("tanh", "mlp", norm="rms", norm_position="sandwich"),
    tp.ResNet("tanh", "pre_nonlin", norm="layer", norm_position="output"),
    tp.ResNet("tanh", preactivated(3), norm="layer", train_embedding_readout=True),
    tp.ResNet("relu", "pre_nonlin", readout="tanh", train_embedding_readout=True)],
    ids=["gates", "norms on both sides", "norm of the branch", "three matrices, trained ends", "readout of tanh"])
def test_outputs_move_by_the_tangent_kernel(net: tp.ResNet) -> None:
    """Of gated blocks and of norms elsewhere, too: the first small step moves f by its rate times K Delta."""
    run = tp.train(net, tp.Task([[[1.0], [-0.5]]] * 2, [[[1.0], [0.3]]] * 2), tp.SGD(1e-6), SCALE, DEPTH, 16,
                   method="dense")
    found = tp.theory.order_parameters(run)
    moved = found.run.problem.opt.lr * found.K[0, :, 0] @ found.Delta[0] / 2
    np.testing.assert_allclose(found.f[1] - found.f[0], moved, rtol=1e-4)


def test_two_matrices_at_infinite_depth() -> None:
    """Extrapolated kernels and responses of both matrices are those of a deep network, within the errors of both."""
    problem = tp.Problem(tp.ResNet("tanh", preactivated(2)), tp.Task([1.0, 0.8], [1.0, -0.7]), tp.SGD(LR), SCALE, tp.oo)
    sampling = tp.methods.Particles(samples=1024, batches=4)
    limit = tp.theory.dmft(problem, sampling, layer_times=[0.0, 0.5, 1.0])
    deep = tp.theory.dmft(tp.Problem(problem.net, problem.task, problem.opt, SCALE, 64), sampling)
    for name, matrix in limit.matrices.items():
        other = deep.matrices[name]
        for letter in ("Phi", "G", "A"):
            error = np.hypot(matrix.standard_errors[letter][1], other.standard_errors[letter][32])
            apart = np.abs(getattr(matrix, letter)[1] - getattr(other, letter)[32])
            assert np.all(apart < 6 * error + matrix.bias_bounds[letter][1] + 0.02), (name, letter)
    assert not limit.fields and np.max(np.abs(limit.matrices["W1"].A[1])) > 0.05
