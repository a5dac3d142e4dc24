"""Order parameters with positions, (119) of Depthwise Hyperparameter Transfer: convolutions and attention against plain
real networks, of one with the same weights to rounding, and of many that are wide."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support.plain.convolutions import trained_fields

import tpcalc as tp
from tpcalc.theory import Convolution

DEPTH, LR, SCALE = 2, 2.0, tp.DepthScaling()
EPS, C = DEPTH**-0.5, LR * DEPTH**-0.5
RNG = np.random.default_rng(0)
TASK = tp.Sequences(RNG.normal(size=(3, 2, 3, 1)), 2 * RNG.normal(size=(3, 2, 3, 1)))
CASES = {"zeros": Convolution(3, 3, "zero", "pre"), "around": Convolution(3, 3, "circular", "pre"),
         "behind": Convolution(3, 3, "circular", "post")}


def network(conv: Any) -> tp.Transformer:
    return tp.Transformer(positions=3, attention=conv, mlp=None, norm=None, phi="tanh")


def matrices(conv: Any) -> list[str]:
    return [f"K{number}" for number in range(1, len(conv.reads()) + 1)]


def plain(conv: Any, U: np.ndarray, nV: np.ndarray, start: np.ndarray) -> dict[str, np.ndarray]:
    return trained_fields((conv.grid, conv.kernel, conv.padding), conv.order, U, nV, start, TASK.inputs[..., 0],
                          TASK.targets[..., 0], EPS, C)


def overlap(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(layers, N, N) of (layers, t, i, p, n)."""
    rows = [part.reshape(len(part), -1, part.shape[-1]) for part in (one, other)]
    return rows[0] @ rows[1].transpose(0, 2, 1) / one.shape[-1]


def square(kernel: np.ndarray) -> np.ndarray:
    """(layers, N, N) of (layers, t, i, p, s, j, q)."""
    return kernel.reshape(len(kernel), 18, 18)


def close(ours: np.ndarray, theirs: np.ndarray, atol: float = 1e-10) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol)


@pytest.mark.parametrize("case", CASES)
def test_the_fields_of_one_network_are_those_of_a_plain_one(case: str) -> None:
    """Kernels of all pairs of positions, what initial matrices make of fields, and what matrices give: noise,
    responses and what they have learned."""
    conv = CASES[case]
    run = tp.train(network(conv), TASK, tp.SGD(LR), SCALE, DEPTH, 40, method="dense")
    found, start = tp.theory.order_parameters(run), run.initial_weights()
    own = plain(conv, start["U"], start["nV"], np.array([start[name] for name in matrices(conv)]))
    assert found.fields is not None and found.K is None and set(found.matrices) == set(matrices(conv))
    assert found.H.shape == (DEPTH + 1, 3, 2, 3, 3, 2, 3)
    read = np.tanh(own["h"]) if conv.order == "pre" else own["h"]
    for ours, theirs in ((found.f, own["f"]), (found.Delta, TASK.targets[..., 0] - own["f"]),
                         (found.fields.h, own["h"]), (found.fields.g, own["d"]),
                         (square(found.H), overlap(own["h"], own["h"])), (square(found.Phi), overlap(read, read)),
                         (square(found.G), overlap(own["d"], own["d"]))):
        close(ours, theirs)
    step = np.arange(3).repeat(6)
    for number, name in enumerate(matrices(conv)):
        z, g, chi, xi, given = (own[letter][number] for letter in ("z", "g", "chi", "xi", "given"))
        matrix, fields = found.matrices[name], found.fields.matrices[name]
        A, B = C * square(matrix.A), C * square(matrix.B)
        for ours, theirs in ((fields.chi, chi), (fields.xi, xi), (square(matrix.Phi), overlap(z, z)),
                             (square(matrix.G), overlap(g, g))):
            close(ours, theirs)
        # rows that are nearly combinations of others are taken for these
        close(A @ overlap(g, g) + overlap(z, z) @ B.transpose(0, 2, 1), overlap(chi, g), 1e-5)
        assert np.all(A[:, step[:, None] <= step] == 0) and np.all(B[:, step[:, None] < step] == 0)
        assert np.max(np.abs(A)) > 1e-3 and np.max(np.abs(B)) > 1e-3
        learned = -square(matrix.Phi) * (step[:, None] > step) / TASK.batch
        made = (learned + square(matrix.A)) @ g.reshape(DEPTH, 18, -1)
        close(fields.u.reshape(DEPTH, 18, -1) + C * made, given.reshape(DEPTH, 18, -1))


def in_the_limit(found: tp.theory.OrderParameters, sign: float = 1.0) -> dict[str, np.ndarray]:
    """What overlaps of a network are, from order parameters; sign: what A is multiplied by."""
    values = {"f": found.f, "H": square(found.H), "G": square(found.G)}
    for name, one in found.matrices.items():
        A, B = sign * C * square(one.A), C * square(one.B)
        values |= {f"z z, {name}": square(one.Phi), f"g g, {name}": square(one.G),
                   f"chi g, {name}": A @ square(one.G) + square(one.Phi) @ B.transpose(0, 2, 1)}
    return values


def of_a_network(conv: Any, rng: np.random.Generator, n: int = 192) -> dict[str, np.ndarray]:
    own = plain(conv, rng.normal(size=n), rng.normal(size=n),
                rng.normal(size=(len(conv.reads()), DEPTH, n, n)) / math.sqrt(n))
    values = {"f": own["f"], "H": overlap(own["h"], own["h"]), "G": overlap(own["d"], own["d"])}
    for number, name in enumerate(matrices(conv)):
        z, g, chi = (own[letter][number] for letter in ("z", "g", "chi"))
        values |= {f"z z, {name}": overlap(z, z), f"g g, {name}": overlap(g, g), f"chi g, {name}": overlap(chi, g)}
    return values


@pytest.mark.parametrize("case", [pytest.param("zeros", marks=pytest.mark.slow), "behind"])
def test_particles_are_wide_networks(case: str) -> None:
    """At most 5 standard errors apart, of two thousand numbers; responses with a flipped sign are far off."""
    conv, rng = CASES[case], np.random.default_rng(5)
    networks = [of_a_network(conv, rng) for _ in range(48)]
    sampled = [tp.theory.dmft(tp.Problem(network(conv), TASK, tp.SGD(LR), SCALE, DEPTH),
                              tp.methods.Particles(4096, 2, seed)) for seed in range(8)]

    def apart(sign: float) -> dict[str, float]:
        ours, found = [in_the_limit(one, sign) for one in sampled], {}
        for key in ours[0]:
            (mean, error), (truth, spread) = (
                (np.mean(many, axis=0), np.std(many, axis=0, ddof=1) / math.sqrt(len(many)))
                for many in ([one[key] for one in of] for of in (ours, networks)))
            found[key] = float(np.max(np.abs(mean - truth) / np.sqrt(error**2 + spread**2 + 2e-3**2)))
        return found

    right, wrong = apart(1.0), apart(-1.0)
    assert max(right.values()) < 5, right
    assert all(wrong[f"chi g, {name}"] > 15 for name in matrices(conv)), wrong


def test_gradients_that_are_0_have_no_responses() -> None:
    """Particles know that the first outputs are 0 to rounding, and so are gradients where targets are 0."""
    targets = TASK.targets.copy()
    targets[0] = 0
    problem = tp.Problem(network(CASES["zeros"]), tp.Sequences(TASK.inputs, targets), tp.SGD(LR), SCALE, DEPTH)
    found = tp.theory.dmft(problem, tp.methods.Particles(samples=1024, batches=2))
    assert np.max(np.abs(found.Delta[0])) < 1e-12
    for one in found.matrices.values():
        assert np.all(one.A[..., 0, :, :] == 0) and 0 < np.max(np.abs(one.A)) < 10


def test_one_position_is_the_residual_network_of_the_block() -> None:
    """With gradients of the loss, which are those of outputs times loss derivatives; so responses to them."""
    net = tp.Transformer(positions=1, attention=Convolution(1, 1, order="pre"), mlp=None, norm=None, phi="tanh")
    sequences = tp.Sequences(TASK.inputs[:, :, :1], TASK.targets[:, :, :1])
    run = tp.train(net, sequences, tp.SGD(LR), SCALE, DEPTH, 24, method="dense")
    start = run.initial_weights()
    weights = {"U": start["U"], "nV": start["nV"], "W": start["K1"]}
    same = tp.train(tp.ResNet("tanh", "pre_nonlin"), tp.Task(TASK.inputs[:, :, 0], TASK.targets[:, :, 0]), tp.SGD(LR),
                    SCALE, DEPTH, 24, method=tp.methods.Dense(weights=weights))
    ours, theirs = (tp.theory.order_parameters(one) for one in (run, same))
    ours_K1, chi = ours.matrices["K1"], -theirs.Delta
    close(ours.f[..., 0], theirs.f)
    close(ours.H[:, :, :, 0, :, :, 0], theirs.H)
    close(ours.G[:, :, :, 0, :, :, 0], theirs.G * chi[:, :, None, None] * chi)
    close(ours_K1.A[:, :, :, 0, :, :, 0] * chi, theirs.A, 1e-6 * np.max(np.abs(theirs.A)))
    close(ours_K1.B[:, :, :, 0, :, :, 0], theirs.B * chi[:, :, None, None], 1e-6 * np.max(np.abs(theirs.B)))


def test_attention_has_order_parameters_of_every_matrix() -> None:
    """Of a causal transformer by Adam: what queries, keys and values read is the normed stream, and what the last
    matrix of a layer answers is its gradient at the node behind."""
    run = tp.train(tp.Transformer(head_dim=4, positions=3), TASK, tp.Adam(0.2, eps=0.1), SCALE, DEPTH, 24,
                   method="dense")
    found, start = tp.theory.order_parameters(run), run.initial_weights()
    assert found.fields is not None and tuple(found.matrices) == ("Wq", "Wk", "Wv", "Wo", "W1", "W2")
    h, g = found.fields.h[:-1], found.fields.g[1:]
    z = h / np.sqrt(np.mean(h**2, axis=-1, keepdims=True))
    for name in ("Wq", "Wk", "Wv"):
        close(found.fields.matrices[name].chi, np.einsum("lij,ltbpj->ltbpi", start[name], z))
        close(square(found.matrices[name].Phi), overlap(z, z))
    close(square(found.Phi)[:-1], overlap(z, z))
    close(found.fields.matrices["W2"].xi, np.einsum("lij,ltbpi->ltbpj", start["W2"], g))
    step = np.arange(3).repeat(6)
    for one in found.matrices.values():
        assert np.all(square(one.A)[:, step[:, None] <= step] == 0) and np.max(np.abs(one.B)) > 1e-4


def test_infinite_depth_is_extrapolated() -> None:
    """Kernels and responses are those of a deep network, within the errors of both."""
    problem = tp.Problem(network(CASES["around"]), tp.Sequences([[[[1.0]] * 3], [[[0.8]] * 3]][:1], [[[0.5] * 3]]),
                         tp.SGD(LR), SCALE, tp.oo)
    sampling = tp.methods.Particles(samples=512, batches=4, coarsest=4)
    limit = tp.theory.dmft(problem, sampling, layer_times=[0.0, 0.5, 1.0])
    deep = tp.theory.dmft(tp.Problem(problem.net, problem.task, problem.opt, SCALE, 32), sampling)
    error = np.hypot(limit.standard_errors["H"][1], deep.standard_errors["H"][16])
    assert np.all(np.abs(limit.H[1] - deep.H[16]) < 6 * error + limit.bias_bounds["H"][1] + 0.03)
    assert not limit.fields and limit.K is None
