"""Weights on spheres against plain NumPy networks, against their own recursion, and against free training."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from tpcalc.finite_width.crossover import as_free_update, brought_back
from tpcalc.interpreters.dense import run_dense
from tpcalc.interpreters.vectors import run_program
from tpcalc.optimizers.updates import finite_batches
from tpcalc.programs.language import Family, Matrix, Outer, Scalar, Vector
from tpcalc.programs.special import NormRatio, at_infinite_width
from tpcalc.programs.program import Assign, Program

XI, Y, STEPS, LAYERS = np.array([1, 0.8, -0.6, 0.5]), np.array([1, -0.7, 0.5, 0.9]), 4, 3
TASK, SCALE = tp.Task(XI, Y), tp.DepthScaling()
Direction = Callable[[np.ndarray], np.ndarray]


def orthogonal(gradient: np.ndarray) -> np.ndarray:
    left, s, right = np.linalg.svd(gradient)
    known: np.ndarray = left[:, s > 1e-9] @ right[s > 1e-9]
    return known


def normalized(gradient: np.ndarray) -> np.ndarray:
    return gradient / np.linalg.norm(gradient)


def signs(gradient: np.ndarray) -> np.ndarray:
    """Entries of order one over the width, as real networks of muP have them."""
    return np.sign(gradient) / len(gradient)


OPTIMIZERS: list[tuple[type, float, Direction]] = [
    (tp.Muon, 0.3, orthogonal), (tp.NormalizedSGD, 0.3, normalized), (tp.SignSGD, 0.2, signs)]


def real_network(weights: dict[str, np.ndarray], lr: float, direction: Direction, on_sphere: bool = True
                 ) -> tuple[np.ndarray, np.ndarray]:
    """Outputs, and norms after updates over those before, (steps, layers): x + W2 tanh(W1 x) / sqrt(L)."""
    (w1, w2), (u, v) = (weights[name].copy() for name in ("W1", "W2")), (weights[name] for name in ("U", "nV"))
    n, eps = len(u), 1 / np.sqrt(LAYERS)
    radii = {id(w): np.linalg.norm(w, axis=(1, 2)) for w in (w1, w2)}
    outputs, norms = [], []
    for xi, y in zip(XI, Y):
        x, hidden = [xi * u], []
        for a, b in zip(w1, w2):
            hidden.append(np.tanh(a @ x[-1]))
            x.append(x[-1] + eps * b @ hidden[-1])
        outputs.append(v @ x[-1] / n)
        dx = (outputs[-1] - y) * v
        moved = []
        for layer in reversed(range(LAYERS)):
            dh = (1 - hidden[layer] ** 2) * (w2[layer].T @ dx)
            moved.append((layer, np.outer(dh, x[layer]), np.outer(dx, hidden[layer])))
            dx = dx + eps * w1[layer].T @ dh
        ratios = np.ones((2, LAYERS))
        for layer, *gradients in moved:
            for which, (w, gradient) in enumerate(zip((w1, w2), gradients)):
                w[layer] -= lr * eps * direction(gradient)
                ratios[which, layer] = np.linalg.norm(w[layer]) / radii[id(w)][layer]
                if on_sphere:
                    w[layer] /= ratios[which, layer]
        norms.append(ratios)
    return np.array(outputs), np.array(norms)


@pytest.mark.parametrize("kind, lr, direction", OPTIMIZERS, ids=lambda one: getattr(one, "__name__", ""))
def test_against_numpy(kind: type, lr: float, direction: Direction) -> None:
    opt, net = kind(lr, sphere=True), tp.ResNet("tanh", "mlp")
    run = tp.train(net, TASK, opt, SCALE, depth=LAYERS, width=24, method="dense", seed=3)
    outputs, norms = real_network(run.initial_weights(), lr, direction)
    assert run.outputs.ravel() == pytest.approx(outputs, abs=1e-13)
    assert "norms of W1" in repr(run.sphere) and run.sphere is not None and set(run.sphere.norms) == {"W1", "W2"}
    for which, name in enumerate(("W1", "W2")):
        assert run.sphere.norms[name] == pytest.approx(norms[:, which], abs=1e-14)
        assert run.sphere.rho[name] * np.cumprod(np.vstack([np.ones(LAYERS), norms[:-1, which]]), axis=0) == (
            pytest.approx(np.ones((STEPS, LAYERS)), abs=1e-14))
    free = tp.train(net, TASK, kind(lr), SCALE, depth=LAYERS, width=24, method="dense", seed=3)
    assert np.abs(free.outputs - run.outputs).max() > 1e-4 and free.sphere is None


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 2), st.integers(1, 4))
def test_rho_is_a_number_from_gram_matrices(seed: int, lr: float, rank: int) -> None:
    """W_t = rho_t W_0 - sum_s w_ts U_s, where N^2 = 1 - 2 g <W, U> / R^2 + g^2 |U|^2 / R^2 and <W, U> is a sum over
    pairs <delta_a|W x_b>: by products with W_0 alone, and by matrices."""
    rng, n, steps = np.random.default_rng(seed), 12, 5
    start = rng.standard_normal((n, n)) / np.sqrt(n)
    whole, radius = start.copy(), np.linalg.norm(start)
    rho, w, known, ratios = 1.0, list[float](), list[np.ndarray](), list[float]()
    for _ in range(steps):
        u = orthogonal(rng.standard_normal((n, rank)) @ rng.standard_normal((rank, n)))
        inner = rho * np.sum(start * u) - sum(c * np.sum(one * u) for c, one in zip(w, known))
        size = np.sqrt(1 - 2 * lr * inner / radius**2 + lr**2 * rank / radius**2)
        whole = whole - lr * u
        ratios.append(radius / np.linalg.norm(whole))
        whole *= ratios[-1]
        rho, w, known = rho / size, [c / size for c in (*w, lr)], [*known, u]
        assert size * ratios[-1] == pytest.approx(1, abs=1e-14)
        assert rho * start - sum(c * one for c, one in zip(w, known)) == pytest.approx(whole, abs=1e-13)


def test_at_infinite_width_training_is_free() -> None:
    """By definition of the reading, and by real networks: n times the distance stays where n grows sixteenfold."""
    net, opt = tp.ResNet("tanh", "mlp"), tp.Muon(0.8, sphere=True)
    limit, free = (tp.train(net, TASK, one, SCALE, depth=LAYERS).outputs for one in (opt, tp.Muon(0.8)))
    assert np.array_equal(limit, free)
    apart = []
    for width in (32, 512):
        far = [tp.train(net, TASK, one, SCALE, depth=LAYERS, width=width, method="dense", seed=seed).outputs
               for seed in range(12) for one in (opt, tp.Muon(0.8))]
        apart.append(width * np.sqrt(np.mean((np.array(far[::2]) - np.array(far[1::2])) ** 2)))
    assert 0.5 < apart[1] / apart[0] < 2, apart


@pytest.mark.parametrize("net, opt", [
    (tp.ResNet("tanh"), tp.NormalizedSGD(0.3, momentum=0.5)),
    (tp.ResNet("tanh", "mlp"), tp.NormalizedSGD(0.3, momentum=0.5, nesterov=True)),
    (tp.ResNet("tanh", skip=tp.Skip(keep=0.9)), tp.Muon(0.3)),  # directions that real networks beside tell
    (tp.Transformer(head_dim=2, positions=2, mlp=None), tp.Muon(0.3))], ids=str)
def test_other_readings_are_free_too(net: tp.ResNet | tp.Transformer, opt: tp.NormalizedSGD | tp.Muon) -> None:
    task = tp.Sequences([[[[1, 0], [.5, .8]]], [[[-.6, .7], [1.1, -.4]]]], [[[1, -.7]], [[.5, 1.2]]]) if (
        net.positions) else TASK
    limit, free = (tp.train(net, task, one, SCALE, depth=2).outputs for one in (replace(opt, sphere=True), opt))
    assert np.array_equal(limit, free)


@pytest.mark.parametrize("lr, weights", [(1e160, None), (0.3, np.zeros((2, 8, 8)))])
def test_norms_that_are_none_stop_the_training(lr: float, weights: np.ndarray | None) -> None:
    method = tp.methods.Dense() if weights is None else tp.methods.Dense(
        weights={"W": weights, "U": np.ones(8), "nV": np.ones(8)})
    with pytest.raises(tp.Divergence, match="layer 1 of 2: shrinkW"):
        tp.train(tp.ResNet(), TASK, tp.Muon(lr, sphere=True), SCALE, depth=2, width=8, method=method)


@pytest.mark.parametrize("net", [tp.ResNet("tanh", "mlp", mlp_ratio=3), tp.ResNet("relu", "mlp", norm="rms"),
                                 tp.Transformer(positions=2, mlp=None)], ids=str)
def test_norms_stay(net: tp.ResNet | tp.Transformer) -> None:
    """Of a wide hidden layer's matrix as a whole: its parts' norms move, and those of all parts together do not."""
    opt, n = tp.Muon(1.0, sphere=True), 16
    program = tp.program(net, opt, SCALE)
    sizes = {"T": 3, "L": 2, **({"P": 2} if net.positions else {})}
    shape = (3, 2) if net.positions else (3,)
    data = {name: np.linspace(low, 2, int(np.prod(shape))).reshape(shape) for name, low in (("xi", 1), ("y", -1))}
    slow = run_program(program, sizes, data, width=n)
    weights: dict[str, list[np.ndarray]] = {}
    norms: dict[tuple[int, str, int], float] = {}
    met = {m for s in program.unroll(sizes) for m in (s.target, *s.value.atoms(Matrix))}
    for member in met:
        if isinstance(member, Matrix) and not member.name.startswith("free"):
            step, layer = map(int, member.indices)
            entries = slow.execution.entries(slow.execution.value(member))
            norms[step, net.whole(member.name), layer] = norms.get((step, net.whole(member.name), layer), 0.0) + float(
                np.sum(entries**2))
            if step == 0:
                weights.setdefault(member.name, []).append(entries)
    assert len(norms) > 8
    for (_, name, layer), square in norms.items():
        assert square == pytest.approx(norms[0, name, layer], rel=1e-12)
    assert weights and set(weights) == {m.name for m in program.matrices}


def test_lowered_as_statement_by_statement() -> None:
    program = tp.program(tp.ResNet("tanh"), tp.Adam(0.1, sphere=True), SCALE)
    sizes, data = {"T": 3, "L": 2}, dict(xi=XI[:3], y=Y[:3])
    slow = run_program(program, sizes, data, width=8)
    start = {"W": np.stack([slow.execution.entries(slow.execution.value(Family(Matrix, "W", layered=True)[0, k]))
                            for k in (1, 2)])}
    start |= {one.name: slow.vector(one) for one in program.vectors}
    fast = run_dense(program, sizes, data, width=8, weights=start)
    assert fast.series("f") == pytest.approx(slow.series("f"), abs=1e-13)


@pytest.mark.parametrize("made, says", [
    (lambda: tp.Muon(0.3, weight_decay=0.1, sphere=True), r"lr / \(1 - lr weight_decay\)"),
    (lambda: tp.NormalizedSGD(0.3, weight_decay=0.1, independent=True, sphere=True), r"lr / \(1 - weight_decay\)"),
    (lambda: tp.AdamW(0.1, sphere=True), "a no-op"), (lambda: tp.Adam(0.1, sphere=1), "sphere: got 1")])
def test_decay_is_refused(made: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        made()


def test_decay_would_be_a_rate() -> None:
    """What the refusal says: W (1 - lr wd) - lr U and W - lr / (1 - lr wd) U have one direction."""
    rng = np.random.default_rng(1)
    w, u = rng.standard_normal((2, 5, 5))
    decayed, faster = (1 - 0.3 * 0.2) * w - 0.3 * u, w - 0.3 / (1 - 0.3 * 0.2) * u
    assert normalized(decayed) == pytest.approx(normalized(faster), abs=1e-14)


def test_products_alone_have_no_norms() -> None:
    with pytest.raises(tp.NotCovered, match="knows products of matrices and not their norms; .* 'dense'"):
        tp.train(tp.ResNet(), TASK, tp.Muon(sphere=True), SCALE, depth=2, width=16, method="conditioned")


def test_other_ratios_have_no_limit_here() -> None:
    a, b = Family(Matrix, "A"), Family(Matrix, "B")
    c = Family(Scalar, "c")
    program = Program("ratio", (), (a(), b()), (), (Assign(c(), NormRatio((a(),), (b(),))),), ())
    with pytest.raises(tp.NotCovered, match="B is not A and what an update adds to it, so that the ratio is not known"):
        at_infinite_width(program)
    u, m, m2 = Family(Vector, "u"), Family(Matrix, "m"), Family(Matrix, "m2")
    of_buffers = Program("ratio", (u(),), (), (), (
        Assign(m(), Outer(u(), u())), Assign(m2(), m() + 2 * Outer(u(), u())),
        Assign(c(), NormRatio((m(),), (m2(),)))), ())
    with pytest.raises(tp.NotCovered, match="m is made of outer products alone"):
        at_infinite_width(of_buffers)  # it is 1/3
    itself = Program("ratio", (), (a(),), (), (Assign(c(), NormRatio((a(),), (a(),))),), ())
    assert at_infinite_width(itself).body == ()
    twice = Program("ratio", (), (a(), b()), (), (Assign(c(), 2 * NormRatio((a(),), (a(),))),), ())
    with pytest.raises(tp.NotCovered, match="stands alone"):
        at_infinite_width(twice)
    for wrong in (((a(),), ()), (a(), b()), ((2 * a(),), (b(),))):
        with pytest.raises(TypeError, match="two tuples of members of families of matrices, as many above as below"):
            NormRatio(*wrong)


@pytest.mark.parametrize("net", [tp.ResNet(), tp.ResNet("tanh", "mlp"), tp.Transformer(positions=2)], ids=str)
@pytest.mark.parametrize("kind", [tp.Muon, tp.NormalizedSGD, tp.SignSGD, tp.Adam])
def test_verdicts_are_those_of_free_training(net: tp.ResNet, kind: type) -> None:
    for point in ((sp.Rational(1, 2), sp.Rational(1, 2)), (1, 0), (sp.Rational(1, 2), 0)):
        on_sphere, free = (tp.classify(*point, net=net, opt=kind(0.1, **more)) for more in ({"sphere": True}, {}))
        assert replace(on_sphere, assumptions=free.assumptions) == free
        assert set(on_sphere.assumptions) == {*free.assumptions, *finite_batches(kind(sphere=True))}


def test_trained_embedding_and_readout_move_freely() -> None:
    """Vectors are not brought back: a linear network by signs, whose matrices are."""
    net, opt = tp.ResNet(train_embedding_readout=True), tp.SignSGD(0.2, sphere=True)
    run = tp.train(net, TASK, opt, SCALE, depth=LAYERS, width=24, method="dense", seed=5)
    start = run.initial_weights()
    w, (u, v), n, eps = start["W"].copy(), (start[name].copy() for name in ("U", "nV")), 24, LAYERS**-0.5
    radii, outputs = np.linalg.norm(w, axis=(1, 2)), []
    for xi, y in zip(XI, Y):
        xs = [xi * u]
        for one in w:
            xs.append(xs[-1] + eps * one @ xs[-1])
        outputs.append(v @ xs[-1] / n)
        chi, dx = outputs[-1] - y, (outputs[-1] - y) * v
        moved = w.copy()
        for layer in reversed(range(LAYERS)):
            moved[layer] -= 0.2 * eps * signs(np.outer(dx, xs[layer]))
            dx = dx + eps * w[layer].T @ dx
        w = moved * (radii / np.linalg.norm(moved, axis=(1, 2)))[:, None, None]
        u, v = u - 0.2 * np.sign(xi * dx), v - 0.2 * np.sign(chi * xs[-1])
    assert run.outputs.ravel() == pytest.approx(outputs, abs=1e-13)
    assert run.sphere is not None and set(run.sphere.norms) == {"W"}


def after_one_update(n: int, seed: int, lr: float, sphere: bool) -> np.ndarray:
    """Outputs for two inputs of a linear network of four layers at (1, 0), by a gradient over its norm."""
    rng, inputs, eps = np.random.default_rng([seed, n]), np.array([1.0, 0.8]), 1 / 4
    u, v = rng.standard_normal((2, n))
    weights = [rng.standard_normal((n, n)) / np.sqrt(n) for _ in range(4)]

    def forward(layers: list[np.ndarray]) -> list[np.ndarray]:
        xs = [np.outer(inputs, u)]
        for w in layers:
            xs.append(xs[-1] + eps * xs[-1] @ w.T)
        return xs

    xs, moved = forward(weights), []
    dx = np.outer(xs[-1] @ v / n - np.array([1.0, -0.7]), v)
    for w, x in zip(weights[::-1], xs[-2::-1]):
        after = w - lr * normalized(dx.T @ x)
        moved.append(after * (np.linalg.norm(w) / np.linalg.norm(after) if sphere else 1))
        dx = dx + eps * dx @ w
    found: np.ndarray = forward(moved[::-1])[-1] @ v / n
    return found


@pytest.mark.parametrize("opt", (tp.Muon, pytest.param(tp.NormalizedSGD, marks=pytest.mark.slow)))
def test_the_projection_has_a_term_of_order_one_over_n(opt: type) -> None:
    """n times what it takes of the mean after an update, beside plain networks; gradients of rank one are alike."""
    n, task = 64, tp.Task(*(np.array([one, one]) for one in ([[1.0], [0.8]], [[1.0], [-0.7]])))
    on, free = (tp.train(tp.ResNet(), task, opt(1.5, sphere=sphere), tp.DepthScaling(1, 0), 4).at_width(n)
                for sphere in (True, False))
    real = n * np.array([after_one_update(n, seed, 1.5, True) - after_one_update(n, seed, 1.5, False)
                         for seed in range(500)])
    expected, error = n * (on.mean[1] - free.mean[1]).ravel(), real.std(axis=0) / np.sqrt(len(real))
    assert np.all(np.abs(expected) > 15 * error)
    assert np.all(np.abs(real.mean(axis=0) - expected) < 3 * error + 4 / n)  # and terms of order 1 / n
    assert "that of the projection is in it" in str(on.warning) and "projection" not in str(free.warning)


@pytest.mark.parametrize("net, kind", [
    (tp.ResNet(), tp.Muon), (tp.ResNet("tanh", "mlp", matrices=3), tp.NormalizedSGD),
    (tp.ResNet("tanh", "glu"), tp.SignSGD), (tp.ResNet("tanh", "mlp", norm="rms"), tp.Adam),
    (tp.Transformer(positions=2, head_dim=2), tp.NormalizedSGD)], ids=str)
def test_norms_after_the_first_update_are_those_of_real_networks(net: tp.ResNet, kind: type) -> None:
    """n (N - 1) of every matrix, whose mean over networks meets that of infinite width like 1/n."""
    n, scale, opt = 64, tp.DepthScaling(1, 0.25, branch=0.7), kind(2.0, sphere=True)
    task = tp.Sequences([[[[1, 0], [.5, .8]]]] * 2, [[[1, -.7]]] * 2) if net.positions else tp.Task([1, .8], [1, -.7])
    expected = n * (1 / brought_back(tp.Problem(net, task, opt, scale, 2), n) - 1)
    spheres = [tp.train(net, task, opt, scale, 2, width=n, method="dense", seed=seed).sphere for seed in range(8)]
    for name in spheres[0].norms:
        found = n * (np.array([one.norms[name][0] for one in spheres]) - 1)
        assert abs(np.mean(found) - expected) < 3.5 * np.std(found) / found.size**0.5 + 5 / n, name


def test_where_the_term_is_not_known_networks_are_drawn() -> None:
    """Those have it. At infinite depth one update of a layer is none where gamma is more than 0."""
    two = tp.Task([1, 0.8], [1, -0.7])
    for net, opt, scale in ((tp.ResNet("tanh", "mlp", mlp_ratio=2), tp.NormalizedSGD(sphere=True), SCALE),
                            (tp.ResNet("tanh"), tp.Muon(sphere=True), SCALE),
                            (tp.ResNet(), tp.Muon(sphere=True, newton_schulz_steps=5), SCALE),
                            (tp.ResNet("linear", "mlp"), tp.Muon(sphere=True),
                             tp.Parametrization(depth={"alpha": 1, "W1": 0, "W2": 0.5}))):
        run = tp.train(net, two, opt, scale, 2, method="dense", width=8)
        with pytest.raises(tp.NotCovered, match="adds to norms of matrices is known"):
            brought_back(run.problem, 8)
        assert "drawn: the mean over 32 networks" in str(run.at_width(8).warning)
    longer = tp.train(tp.ResNet(), tp.Task([1, 0.8, 0.5], [1, -0.7, 0.2]), tp.Muon(sphere=True), SCALE, 2)
    warning = str(longer.at_width(8).warning)
    assert "drawn" in warning and "the mean has the terms of their projections" in warning
    deep = tp.Problem(tp.ResNet(), two, tp.Muon(sphere=True), SCALE, tp.oo)
    assert brought_back(deep, 8) == 1
    first = as_free_update(tp.Problem(tp.ResNet(), two, tp.SignSGD((1, 1), sphere=True), SCALE, 4), 8)
    rho = (1 + 1 / 4 / 8) ** -0.5
    assert first.opt.lr == (rho, rho) and first.opt.weight_decay == 1 - rho
