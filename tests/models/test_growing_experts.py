"""Mixtures of experts that grow in number with the width: groups of coordinates, chosen by a quantile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
from scipy.stats import norm

import tpcalc as tp
from support.nightly import few_of
from support.plain.experts import PlainGroups
from tpcalc.interpreters.dense import run_dense
from tpcalc.interpreters.lowered_particles import particles
from tpcalc.interpreters.vectors import run_program
from tpcalc.lowering.array_backends import Arrays
from tpcalc.programs.language import Family, Vector
from tpcalc.programs.special import Mask, Quantile
from tpcalc.theory import HeadSum, MatVec

QUARTER, HALF = sp.Rational(1, 4), sp.Rational(1, 2)
TASK, SCALE = tp.Task([1, 0.8, -0.6], [1, -0.7, 0.5]), tp.DepthScaling()
ALPHA, GAMMA, DEPTH, WIDTH, RATE = 0.7, 0.4, 2, 8, 0.3


def net(size: int = 4, phi: str = "tanh", **options: Any) -> tp.ResNet:
    return tp.ResNet(phi, tp.MoE(expert_dim=size, **options), norm="rms")


CASES = [(4, HALF, "mlp", None), (2, QUARTER, "mlp", 0.3), (1, QUARTER, "glu", None), (1, HALF, "glu", 0.1),
         (2, sp.Integer(1), "mlp", None)]


@pytest.mark.parametrize("size, share, expert, balance", few_of(CASES, CASES[1], CASES[3]))
def test_transformers_and_residual_networks_train_as_plain_arrays_do(size: int, share: sp.Expr, expert: str,
                                                                     balance: float | None) -> None:
    rng = np.random.default_rng(1)
    block, gated = tp.MoE(expert_dim=size, share=share, expert=expert, balance=balance), expert == "glu"
    names = ["Wr", "W1", "W2", *["W3"] * gated]
    for head_dim in (None, 2):
        inputs, targets = rng.standard_normal((3, 2, 2, 2)), rng.standard_normal((3, 2, 2))
        if head_dim is None:
            one: Any = tp.ResNet("tanh", block, norm="rms")
            task: Any = tp.Task(inputs.reshape(3, 4, 2), targets.reshape(3, 4))
            given = inputs.reshape(3, 4, 1, 2), targets.reshape(3, 4, 1)
        else:
            one, task = tp.Transformer(head_dim=2, positions=2, phi="tanh", mlp=block), tp.Sequences(inputs, targets)
            given = inputs, targets
        run = tp.train(one, task, tp.SGD(RATE), tp.DepthScaling(ALPHA, GAMMA), DEPTH, WIDTH, method="dense", seed=2)
        assert one.matrices_of_block == (*["Wq", "Wk", "Wv", "Wo"] * (head_dim is not None), *names)
        start = run.initial_weights()
        w = {**start, "U": start["U"].reshape(-1, WIDTH).T, "nV": start["nV"].ravel()}
        plain = PlainGroups(DEPTH**-ALPHA, head_dim=head_dim, norm="rms", size=size, share=float(share), gated=gated,
                            balance=balance or 0.0)
        found = plain.trained(w, *given, RATE, DEPTH**-GAMMA)
        assert np.abs(run.outputs.reshape(found.shape) - found).max() < 1e-10


@pytest.mark.parametrize("inside", [False, True])
def test_they_stand_under_post_norms_and_inside_of_experts(inside: bool) -> None:
    """Outputs before training, by hand; names of the mixture are its own."""
    block = tp.MoE(expert_dim=2, share=HALF)
    one = tp.ResNet("tanh", tp.MoE(2, gate="sigmoid", expert=block) if inside else block, norm="rms",
                    norm_position="post")
    run = tp.train(one, TASK, tp.SGD(RATE), tp.DepthScaling(ALPHA, GAMMA), 1, WIDTH, method="dense", seed=3)
    w = run.initial_weights()
    x, added = TASK.inputs[0, 0, 0] * w["U"], np.zeros(WIDTH)
    for e in ("_1", "_2") if inside else ("",):
        s = (w["Wr" + e][0] @ x)[::2]
        gate = np.repeat((s >= np.sort(s)[2]) / (1 + np.exp(-s)), 2)
        weight = 1 / (1 + np.exp(-np.mean(w["R" + e][0] * x))) if inside else np.sqrt(2)
        added += weight * w["W2" + e][0] @ (gate * np.tanh(w["W1" + e][0] @ x))
    x = x + added
    assert run.outputs[0, 0, 0] == pytest.approx(np.mean(w["nV"] * x) / np.sqrt(np.mean(x**2)), abs=1e-12)


@pytest.mark.parametrize("namespace", ["numpy", "torch"])
def test_a_quantile_is_midway_to_the_next_number(namespace: str) -> None:
    pytest.importorskip(namespace)
    s, y = (Family(Vector, name)() for name in "sy")
    values = np.array([3.0, 1.0, 2.0, 5.0, 4.0, 0.0])
    arrays = Arrays(namespace)
    assert [arrays.quantile(arrays.asarray(values), share) for share in (1 / 3, 1 / 2, 0.4)] == [3.5, 2.5, 3.5]
    rows = arrays.numpy(arrays.quantile(arrays.asarray(np.stack([values, 2 * values])), 1 / 6))
    assert rows.tolist() == [4.5, 9.0]
    with pytest.raises(tp.NotCovered, match="a share of 0.1 of 6 coordinates, none of them"):
        Arrays("numpy").quantile(values, 0.1)
    for share in (0, 1, 2, sp.Symbol("a")):
        with pytest.raises(ValueError, match="expected a number between 0 and 1"):
            Quantile(s, share)
    with pytest.raises(TypeError, match="has no coordinates"):
        Quantile(sp.Integer(1), QUARTER)
    with pytest.raises(tp.NotCovered, match="a quantile has no derivative here"):
        sp.diff(Quantile(sp.Symbol("a") * s, QUARTER), sp.Symbol("a"))
    program = tp.Program("one", (s,), (), (), (tp.theory.Assign(y, Mask(s - Quantile(s, QUARTER))),), ())
    assert run_program(program, {}, width=64).vectors[y].sum() == 16


def test_a_population_has_the_numbers_of_a_block_written_by_hand() -> None:
    found = tp.train(net(4), TASK, tp.SGD(0.5), SCALE, 4)
    assert found.method == "particles"  # .1410(22), -.0147(22)
    np.testing.assert_allclose(found.outputs.ravel(), [0, 0.1410, -0.0147], rtol=0, atol=0.005)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"share": QUARTER}, {"share": HALF, "expert": "glu"},
                                     {"share": QUARTER, "balance": 0.5}])
def test_particles_are_wide_networks(options: dict) -> None:
    limit = tp.train(net(**options), TASK, tp.SGD(0.5), SCALE, 4)
    found = np.array([tp.train(net(**options), TASK, tp.SGD(0.5), SCALE, 4, 256, method=tp.methods.Dense(seed=seed)
                               ).outputs for seed in range(64)])
    error = found.std(axis=0, ddof=1) / 8 + limit.error_estimate + 1 / 256
    assert np.all(np.abs(found.mean(axis=0) - limit.outputs) < 3.5 * error)


def spread_of_loads(balance: float | None, width: int | None) -> np.ndarray:
    """The standard deviation over experts of how many of 8 vectors they act on, over 2, what they should, before steps
    and after 11: of four runs, (run, 2). width: of real networks, None of particles."""
    program = tp.program(net(2, share=QUARTER, balance=balance), tp.SGD(0.3), SCALE, batch=True, d_in=4)
    rng = np.random.default_rng(0)
    inputs, targets = rng.standard_normal((8, 4)) / 2, rng.standard_normal(8)
    sizes, data = {"T": 12, "L": 1, "B": 8}, {"xi": np.tile(inputs, (12, 1, 1)), "y": np.tile(targets, (12, 1))}
    runs = particles(program, sizes, data, 2048, batches=4, keep=("gate",)).batches if width is None else [
        run_dense(program, sizes, data, width, seed, keep=("gate",)) for seed in range(4)]
    gates = [{str(v): value for v, value in run.vectors.items()} for run in runs]
    return np.array([[np.std(np.sum([one[f"gate[{t}, {i}, 1]"] > 0 for i in range(8)], axis=0)) / 2 for t in (0, 11)]
                     for one in gates])


@pytest.mark.slow
def test_biases_balance_experts_as_they_do_in_wide_networks() -> None:
    """Fluctuations over vectors alone are .61 of a load; half of that is left, and all of it without biases."""
    alone, limit, real = (spread_of_loads(*of) for of in ((None, None), (0.2, None), (0.2, 512)))
    error = np.hypot(limit.std(axis=0, ddof=1), real.std(axis=0, ddof=1)) / 2
    assert np.all(np.abs(limit.mean(axis=0) - real.mean(axis=0)) < 4 * error + 8 / 512)
    assert alone[:, 1].min() > 0.6 and limit[:, 1].max() < 0.33 and np.all(limit[:, 0] > 0.6)


def gate_means(share: float, rho: float) -> tuple[float, float]:
    """P and E[g g'], each over the share, of gates sigmoid(s) above the quantile, by quadrature in plain NumPy."""
    nodes, weights = np.polynomial.legendre.leggauss(120)
    q, top = norm.isf(share), 9.0

    def sigmoid(s: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-s))

    s, w = q + (top - q) * (nodes + 1) / 2, (top - q) * weights / 2 * norm.pdf(q + (top - q) * (nodes + 1) / 2)
    if rho == 1:
        return float(np.sum(w)) / share, float(np.sum(w * sigmoid(s) ** 2)) / share
    spread = np.sqrt(1 - rho**2)
    low = (q - rho * s) / spread
    t = low[:, None] + (top - low[:, None]) * (nodes + 1) / 2
    inner = (top - low[:, None]) * weights / 2 * norm.pdf(t)
    both = w[:, None] * inner
    return float(np.sum(both)) / share, float(np.sum(both * sigmoid(s)[:, None] * sigmoid(
        rho * s[:, None] + spread * t))) / share


def kernel_of(phi: str, rho: float) -> float:
    """E[phi phi'] of standard Gaussians, by quadrature."""
    nodes = np.arange(-9.0, 9.05, 0.1)
    weights = 0.1 * norm.pdf(nodes)
    if phi == "relu":
        return (np.sqrt(1 - rho**2) + rho * (np.pi - np.arccos(rho))) / (2 * np.pi)
    u, v = nodes[:, None], rho * nodes[:, None] + np.sqrt(1 - rho**2) * nodes
    return float(weights @ (np.tanh(u) * np.tanh(v)) @ weights)


TABLE = [(0.25, 1.0, 1.0, 0.5982057976, 0.2358692501, 0.2991028988),
         (0.25, 0.5, 0.4811004293, 0.2978476198, 0.0554962831, 0.0906942698),
         (0.125, 0.5, 0.3558907664, 0.2533362119, 0.0472027211, 0.0771405954)]


@pytest.mark.parametrize("share, rho, overlap, gate, tanh, relu", TABLE)
def test_kernels_are_those_of_gates_times_those_of_activations(share: float, rho: float, overlap: float, gate: float,
                                                               tanh: float, relu: float) -> None:
    """The table to its digits by quadrature, and particles of the program against it."""
    assert gate_means(share, rho) == pytest.approx((overlap, gate), abs=2e-10)
    inputs = np.array([[[1.0, 0.0], [rho, np.sqrt(1 - rho**2)]]])
    for phi, known in (("tanh", tanh), ("relu", relu)):
        assert gate * kernel_of(phi, rho) == pytest.approx(known, abs=2e-10)
        program = tp.program(net(4, phi, share=sp.nsimplify(share)), tp.SGD(0.1), tp.DepthScaling(0, 0), batch=True,
                             d_in=2)
        runs = particles(program, {"T": 1, "L": 1, "B": 2}, {"xi": inputs, "y": np.ones((1, 2))}, 16384, batches=8,
                         keep=("z",)).batches
        hidden = [{str(v): value for v, value in run.vectors.items()} for run in runs]
        found = [np.mean(z["z[0, 0, 1]"] * z["z[0, 1, 1]"]) / share for z in hidden]
        error = np.std(found, ddof=1) / 8**0.5
        assert abs(np.mean(found) - known) < 4 * error < 0.02, (phi, np.mean(found), known, error)


@pytest.mark.nightly
def test_infinite_depth_is_exact_where_all_are_active_and_knows_no_size() -> None:
    """Heads of one coordinate have no sums over heads; particles of four coordinates agree."""
    alone, groups = (tp.train(net(size), TASK, tp.SGD(0.5), SCALE, tp.oo) for size in (1, 4))
    assert alone.method == groups.method == "collocation"
    np.testing.assert_allclose(groups.outputs, alone.outputs, rtol=0, atol=1e-12)
    deep = tp.train(net(4), TASK, tp.SGD(0.5), SCALE, 64, method=tp.methods.Particles(batches=8))
    np.testing.assert_allclose(deep.outputs, groups.outputs, rtol=0, atol=deep.error_estimate + 0.003)


@pytest.mark.slow
def test_infinite_depth_beside_attention_is_that_of_deep_networks() -> None:
    one = tp.Transformer(head_dim=2, positions=2, phi="tanh", mlp=tp.MoE(expert_dim=2))
    task = tp.Sequences(np.array([[[[1.0], [-0.5]]], [[[0.8], [0.6]]]]), np.array([[[1.0, -0.7]], [[0.5, 0.2]]]))
    limit = tp.train(one, task, tp.SGD(0.2), SCALE, tp.oo)
    deep = tp.train(one, task, tp.SGD(0.2), SCALE, 64, method=tp.methods.Particles(samples=4096, batches=8))
    assert limit.method == "common_draws" and limit.error_estimate < 0.02 < np.abs(limit.outputs[1]).max()
    np.testing.assert_allclose(deep.outputs, limit.outputs, rtol=0, atol=limit.error_estimate + deep.error_estimate)


def sums(b: tp.Branch) -> sp.Expr:
    s = b.let("s", HeadSum(b.let("h", MatVec(b.weights("W1"), b.x)), 2))
    return MatVec(b.weights("W2"), b.let("z", b.phi(s)))


def shares_and_reads(b: tp.Branch) -> sp.Expr:
    h = b.let("h", MatVec(b.weights("W1"), b.x))
    s = b.let("s", HeadSum(h, 2, first_read=True))
    return MatVec(b.weights("W2"), b.let("z", b.phi(s) * h))


def shares_alone(b: tp.Branch) -> sp.Expr:
    return b.let("s", HeadSum(b.let("h", MatVec(b.weights("W1"), b.x)), 2, first_read=True))


def shares_twice(b: tp.Branch) -> sp.Expr:
    h = b.let("h", MatVec(b.weights("W1"), b.x))
    s, r = (b.let(f"s{d}", HeadSum(h, d, first_read=True)) for d in (2, 4))
    return MatVec(b.weights("W2"), b.let("z", b.phi(s) * b.phi(r)))


@pytest.mark.parametrize("block, said", [(sums, "mixes coordinates"), (shares_and_reads, "is read otherwise, too"),
                                         (shares_alone, "no matrix multiplies"), (shares_twice, "in two ways")])
def test_kernels_know_no_other_sums_over_heads(block: Any, said: str) -> None:
    """Taken for a multiple of one coordinate they gave another limit than that of real networks."""
    with pytest.raises(tp.NotCovered, match=said):
        tp.train(tp.ResNet("tanh", block, norm="rms"), TASK, tp.SGD(0.5), SCALE, tp.oo, method="collocation")


@pytest.mark.parametrize("visits", [1, 2])
@pytest.mark.parametrize("depth", [2, tp.oo])
def test_quantiles_have_no_kernels(depth: Any, visits: int) -> None:
    some = tp.ResNet("tanh", tp.MoE(expert_dim=4, share=HALF), norm="rms", visits=visits)
    with pytest.raises(tp.NotCovered, match=r"quantile_1/2\(logit\[t, l\]\) is a quantile of all coordinates"):
        tp.kernel_fn(some, depth)


def test_quantiles_have_no_kets_and_no_infinite_depth() -> None:
    one = net(1, share=HALF)
    for ask in (lambda: tp.kets(tp.program(one, tp.SGD(), SCALE)), lambda: tp.classify(1, 0, one),
                lambda: tp.train(one, TASK, tp.SGD(), SCALE, tp.oo)):
        with pytest.raises(tp.NotCovered, match="kets are expanded by derivatives, and a step has another one"):
            ask()


@pytest.mark.parametrize("options, kind, said", [
    ({"experts": 4}, ValueError, "experts: got 4 with expert_dim=4"), ({"share": 0}, ValueError, "share: got 0"),
    ({"share": 1.5}, ValueError, "expected a number above 0 and at most 1"),
    ({"gate": "softmax"}, tp.NotCovered, "heavy tails"), ({"init": "A"}, tp.NotCovered, "a block that vanishes"),
    ({"router": "zero"}, tp.NotCovered, "logits that are all 0 tie"), ({"shared": 1}, tp.NotCovered, "shared: got 1"),
    ({"balance": 0.1}, ValueError, "balance: got 0.1 with all experts active"),
    ({"active": 2}, tp.NotCovered, "share says how many"),
    ({"expert": sums}, tp.NotCovered, "groups of coordinates of one hidden layer")])
def test_options_of_another_kind_are_refused(options: dict, kind: type, said: str) -> None:
    with pytest.raises(kind, match=said):
        tp.MoE(**{"expert_dim": 4, **options})


def test_widths_are_whole_experts_a_whole_number_of_which_acts() -> None:
    with pytest.raises(ValueError, match="width: got 24 for experts of 4 .* expected multiples of 16"):
        tp.train(net(4, share=QUARTER), TASK, tp.SGD(), SCALE, 2, 24)
    run = tp.train(net(4, share=QUARTER), TASK, tp.SGD(), SCALE, 2, 16)
    with pytest.raises(ValueError, match="width: got 20 for experts of 4 .* expected multiples of 16"):
        run.at_width(20, seeds=2)  # of 5 experts: 1.25 would act
    deep = tp.train(net(4), TASK, tp.SGD(), SCALE, tp.oo)
    with pytest.raises(ValueError, match="width: got 30 for experts of 4 .* expected multiples of 4"):
        deep.at_width(30)
    with pytest.raises(ValueError, match="samples: got 513; .* as heads and experts are; expected multiples of 4"):
        tp.train(net(4), TASK, tp.SGD(), SCALE, 2, method=tp.methods.Particles(samples=513))
    with pytest.raises(tp.NotCovered, match="kets are of one coordinate; expected head_dim=1 and expert_dim=1"):
        tp.phase_diagram(net=net(4))
    with pytest.raises(ValueError, match="expected one of them"):
        tp.MoE()
    with pytest.raises(ValueError, match="share: got 1/2 with experts=2"):
        tp.MoE(2, share=HALF)
    with pytest.raises(tp.NotCovered, match="weights that are not chosen, or that nothing reads"):
        tp.train(net(4), TASK, tp.Adam(), SCALE, 2, 16)
