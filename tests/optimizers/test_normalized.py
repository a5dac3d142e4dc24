"""Updates over their own Frobenius norms: real networks against plain arrays, limits against exact ones, refusals."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import tpcalc as tp
from support.plain.transformer import PlainTransformer
from reference.conditioned import run_conditioned
from tpcalc.interpreters.lowered_conditioned import conditioned
from tpcalc.interpreters.program_coefficients import read_program_coefficients
from tpcalc.interpreters.vectors import run_program
from tpcalc.lowering.nest import lowered_order
from tpcalc.methods.normalized import require_gradients, require_norms
from tpcalc.programs.blocks import Branch, matrix
from tpcalc.programs.language import MatVec, Mean
from tpcalc.optimizers.normalized import norm_of
from tpcalc.width.sizes.verdict import width_verdict

ALPHA, GAMMA = 0.7, 0.4
SCALE = tp.DepthScaling(ALPHA, GAMMA)
PLAIN = tp.NormalizedSGD(0.3)
NESTEROV = tp.NormalizedSGD((0.3, 0.5, 0.2), momentum=0.8, nesterov=True, weight_decay=0.2)
OPTIMIZERS = [PLAIN, tp.NormalizedSGD(0.3, momentum=0.8), NESTEROV,
              tp.NormalizedSGD(0.3, momentum=1.5, weight_decay=0.1, independent=True)]


def plain_step(opt: tp.NormalizedSGD, step: int, w: np.ndarray, seen: list, size: float) -> np.ndarray:
    """One matrix, after the step; seen: its gradients so far."""
    rate = opt.schedule(step + 1 if isinstance(opt.lr, float) else len(opt.lr))[step]
    buffer = sum(opt.momentum ** (step - k) * g for k, g in enumerate(seen))
    moved = seen[-1] + opt.momentum * buffer if opt.nesterov else buffer
    decay = opt.weight_decay if opt.independent else rate * opt.weight_decay
    update = rate * size * moved / np.sqrt(np.sum(moved**2))
    assert np.linalg.norm(update) == pytest.approx(rate * size)
    return (1 - decay) * w - update


def plain_residual(task: tp.Task, opt: tp.NormalizedSGD, weights: dict, eps: float, phi: Callable, slope: Callable
                   ) -> np.ndarray:
    """Outputs of x + eps W_k phi(... phi(W_1 x)), trained as anyone would write it; U (d_in, n), nV (d_out, n)."""
    names = sorted(name for name in weights if name.startswith("W"))
    w, outputs = {name: weights[name].copy() for name in names}, []
    depth, n = w[names[0]].shape[:2]
    seen: dict = {name: [[] for _ in range(depth)] for name in names}
    for step, (xi, y) in enumerate(zip(task.inputs, task.targets)):
        x, kept = xi @ weights["U"], []
        for layer in range(depth):
            inside = [x]
            for k, name in enumerate(names):
                inside.append((phi(inside[-1]) if k else inside[-1]) @ w[name][layer].T)
            kept.append(inside)
            x = x + eps * inside[-1]
        outputs.append(x @ weights["nV"].T / n)
        d = (outputs[-1] - y) @ weights["nV"] / n
        for layer in reversed(range(depth)):
            back = eps * d
            for k, name in reversed(list(enumerate(names))):
                into = kept[layer][k]
                seen[name][layer].append(back.T @ (phi(into) if k else into) / len(xi))
                back = back @ w[name][layer] * (slope(into) if k else 1)
            d = d + back
        for name in names:
            for layer in range(depth):
                w[name][layer] = plain_step(opt, step, w[name][layer], seen[name][layer], depth**-GAMMA)
    return np.array(outputs)


PHI: dict[str, tuple[Callable, Callable]] = {"tanh": (np.tanh, lambda h: 1 - np.tanh(h)**2),
                                             "linear": (lambda h: h, np.ones_like),
                                             "relu": (lambda h: np.maximum(h, 0), lambda h: (h > 0) * 1.0)}


class SevenTimes:
    """The squared error, seven times as steep."""

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 3.5 * np.sum((f - y)**2, axis=-1)

    def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 7 * (f - y)


@settings(max_examples=12, deadline=None)
@given(phi=st.sampled_from(sorted(PHI)), matrices=st.integers(1, 3), depth=st.integers(1, 3), batch=st.integers(1, 3),
       d_in=st.integers(1, 2), d_out=st.integers(1, 2), branch=st.sampled_from([1.0, -0.5]), seed=st.integers(0, 99),
       opt=st.sampled_from(OPTIMIZERS), loss=st.sampled_from(["mse", SevenTimes()]))
def test_real_networks_are_plain_arrays(phi: str, matrices: int, depth: int, batch: int, d_in: int, d_out: int,
                                        branch: float, seed: int, opt: tp.NormalizedSGD, loss: Any) -> None:
    """A loss times a number is the same training: only directions count."""
    rng = np.random.default_rng(seed)
    task = tp.Task(rng.normal(size=(3, batch, d_in)), rng.normal(size=(3, batch, d_out)), loss)
    net, n = tp.ResNet(phi, "mlp", matrices=matrices), 7
    scale = tp.DepthScaling(ALPHA, GAMMA, branch=branch)
    run = tp.train(net, task, opt, scale, depth, n, method="dense", seed=seed)
    weights = run.initial_weights()
    weights = {**weights, "U": weights["U"].reshape(d_in, n), "nV": weights["nV"].reshape(d_out, n)}
    found = plain_residual(task, opt, weights, branch * depth**-ALPHA, *PHI[phi])
    assert np.abs(found - run.outputs).max() < 1e-9 * np.abs(found).max()


@pytest.mark.parametrize("opt", OPTIMIZERS)
def test_transformers_are_plain_arrays(opt: tp.NormalizedSGD) -> None:
    """Gradients summed over positions, and averaged over a batch."""
    options: dict[str, Any] = dict(head_dim=2, norm="rms", mlp="mlp", causal=True, scale_power=0.5)
    rng, depth, n = np.random.default_rng(7), 2, 8
    data = tp.Sequences(rng.normal(size=(3, 2, 3, 2)), rng.normal(size=(3, 2, 3, 1)))
    run = tp.train(tp.Transformer(positions=3, **options), data, opt, SCALE, depth, n, method="dense", seed=1)
    given = run.initial_weights()
    w = {**given, "U": given["U"].reshape(2, n).T, "nV": given["nV"].reshape(1, n).T}
    found = PlainTransformer(eps=depth**-ALPHA, **options).moved(w, data, partial(plain_step, opt, size=depth**-GAMMA))
    assert np.abs(found - run.outputs).max() < 1e-10 * np.abs(found).max()


@pytest.mark.parametrize("opt", OPTIMIZERS)
def test_updates_have_the_norm_of_the_rate(opt: tp.NormalizedSGD) -> None:
    """Matrices of a run, statement by statement, written out as n x n arrays."""
    program = tp.program(tp.ResNet("tanh", "glu", norm="rms"), opt, SCALE, batch=True)
    n, depth, rng = 16, 2, np.random.default_rng(3)
    rates = opt.schedule(3)
    data = {"xi": rng.normal(size=(3, 2)), "y": rng.normal(size=(3, 2)), **({"eta": rates} if opt is NESTEROV else {})}
    run = run_program(program, {"T": 3, "L": depth, "B": 2}, data, width=n)
    found: dict[str, np.ndarray] = {}
    for member, one in run.execution.of_kind("matrix").items():
        if member.name.startswith("W"):
            kept = [c for c in one.initial.values()]
            outers = [c * np.outer(u, v) / n for c, u, v in one.outers]
            found[str(member)] = np.array([*kept, *sum(outers, np.zeros((n, n))).ravel()])
    for name in ("W1", "W2", "W3"):
        for layer in (1, 2):
            before = np.array([1.0, *np.zeros(n * n)])
            for step, rate in enumerate(rates):
                left = 1 - opt.weight_decay * (1 if opt.independent else rate)
                after = found[f"{name}[{step + 1}, {layer}]"]
                assert after[0] == pytest.approx(left * before[0])
                assert np.linalg.norm(after[1:] - left * before[1:]) == pytest.approx(rate * depth**-GAMMA)
                before = after


def test_all_readings_are_one() -> None:
    """Statement by statement and lowered, draw by draw; and the exact kets of infinite width against particles."""
    rng = np.random.default_rng(2)
    what = {"T": 3, "L": 3, "B": 2}, {"xi": rng.normal(size=(3, 2)), "y": rng.normal(size=(3, 2)),
                                      "eta": NESTEROV.schedule(3)}
    program = tp.program(tp.ResNet("tanh", "mlp"), NESTEROV, SCALE, True)
    one, other = run_conditioned(lowered_order(program), *what, width=48), conditioned(program, *what, width=48)
    assert np.abs(one.series("f") - other.series("f")).max() < 1e-10
    linear = tp.program(tp.ResNet(), NESTEROV, SCALE, True)
    exact = read_program_coefficients(linear, *what).series("f")
    task = tp.Task(what[1]["xi"][..., None], what[1]["y"][..., None])
    run = tp.train(tp.ResNet(), task, NESTEROV, SCALE, 3, method=tp.methods.Particles(samples=1024, batches=4))
    assert np.abs(run.outputs[..., 0] - exact).max() < run.error_estimate < 0.02 < np.ptp(exact)


@pytest.mark.slow
@pytest.mark.parametrize("net, opt", [(tp.ResNet(), PLAIN), (tp.ResNet("tanh", "mlp", norm="rms"), NESTEROV),
                                      (tp.Transformer(head_dim=2, positions=2, mlp=None), PLAIN)])
def test_limits_are_those_of_wide_networks(net: Any, opt: tp.NormalizedSGD) -> None:
    """Outputs of networks of width n differ from the limit by c/n on average."""
    rng, depth = np.random.default_rng(4), 3
    data: Any = tp.Sequences(rng.normal(size=(3, 1, 2, 2)), rng.normal(size=(3, 1, 2))) if net.positions else tp.Task(
        rng.normal(size=(3, 2, 2)), rng.normal(size=(3, 2, 1)))
    wide = tp.train(net, data, opt, SCALE, depth, method=tp.methods.Particles(samples=8192))
    outputs = {n: np.array([tp.train(net, data, opt, SCALE, depth, n, method="dense", seed=seed).outputs
                            for seed in range(60)]) for n in (128, 256)}
    mean = 2 * outputs[256].mean(axis=0) - outputs[128].mean(axis=0)
    error = np.sqrt(sum(k * np.var(outputs[n], axis=0) / 59 for n, k in ((256, 4), (128, 1))))
    assert np.all(np.abs(mean - wide.outputs) < 4 * np.hypot(error, wide.error_estimate / 3))
    assert np.max(error) < 0.1 < np.max(np.abs(wide.outputs[1:]))


@pytest.mark.slow
def test_infinite_depth_is_the_limit_of_particles() -> None:
    task, scale = tp.Task([[[1.0], [0.4]]] * 3, [[1.0, -0.6]] * 3), tp.DepthScaling()
    deep = tp.train(tp.ResNet("tanh"), task, NESTEROV, scale, tp.oo, method=tp.methods.CommonDraws(tolerance=0.02))
    one, two = (tp.train(tp.ResNet("tanh"), task, NESTEROV, scale, depth, method=tp.methods.Particles(samples=4096))
                for depth in (32, 64))
    extrapolated = 2 * two.outputs - one.outputs
    assert np.abs(deep.outputs - extrapolated).max() < deep.error_estimate + 3 * two.error_estimate < 0.1


@pytest.mark.parametrize("program", [
    tp.program(tp.ResNet(), PLAIN, SCALE), tp.program(tp.ResNet(), tp.NormalizedSGD(0.3, weight_decay=0.4), SCALE)])
def test_kets_carry_the_norm(program: tp.Program) -> None:
    """The derived recursion, compiled, against the exact reading of the program."""
    recursion = tp.recursion(tp.kets(program))
    what = {"T": 3, "L": 4}, {"xi": [1, 0.5, -0.7], "y": [1, -1, 0.5]}
    exact = read_program_coefficients(program, *what).series("f")
    compiled = recursion.compile()
    compiled = replace(compiled, kernel=compiled.kernel.py_func)(4, what[1]["xi"], what[1]["y"]).outputs
    assert np.abs(np.ravel(compiled) - exact).max() < 1e-12 and "overW" in str(recursion)


def test_the_norm_of_a_buffer_has_kets_and_no_recursion() -> None:
    equations = tp.kets(tp.program(tp.ResNet(), NESTEROV, SCALE))
    assert "alongW[t, l] = E[" in str(equations)
    with pytest.raises(tp.NotCovered, match="alongW.* is an average of more than a product of two vectors"):
        tp.recursion(equations)


def test_programs_print() -> None:
    text = str(tp.program(tp.ResNet(), PLAIN, tp.DepthScaling()))
    assert "overW[t, l] := 1/normW[t, l]" in text and "NormalizedSGD" in text
    assert "mathrm{norm}W" in tp.program(tp.ResNet(), PLAIN, tp.DepthScaling()).latex()


@pytest.mark.parametrize("alpha, gamma", [(0.5, 0.5), (1, 0), (0.5, 0.25), (1, 0.25)])
def test_verdicts_are_slopes(alpha: float, gamma: float) -> None:
    """The change of f in a step, between depths, by the exact reading, against the power that is derived."""
    found = tp.classify(alpha, gamma, opt=PLAIN)
    program = tp.program(tp.ResNet(), PLAIN, tp.DepthScaling(alpha, gamma))
    data = {"xi": [1, 0.5], "y": [9, 9]}
    moved = [read_program_coefficients(program, {"T": 2, "L": L}, data).series("f")[1] for L in (8, 16, 32)]
    slopes = np.diff(np.log2(np.abs(moved)))
    assert abs(2 * slopes[1] - slopes[0] - float(found.exponents["change of f"])) < 0.02
    assert found.name == tp.classify(alpha, gamma, opt="normalizedsgd").name
    assert found.name == tp.classify(alpha, gamma, opt=tp.Muon()).name


def test_a_gradient_of_zero_is_named() -> None:
    nothing = tp.Task([1.0, 0.0, 0.5], [1.0, 1.0, 1.0])
    for method in ("dense", "conditioned"):
        with pytest.raises(tp.Divergence, match="step 1, layer 1( of 2)?: what W moves along is 0") as caught:
            tp.train(tp.ResNet("tanh"), nothing, PLAIN, SCALE, 2, width=8, method=method)
        assert (caught.value.step, caught.value.layer) == (1, 1)
    remembered = tp.train(tp.ResNet("tanh"), nothing, tp.NormalizedSGD(0.3, momentum=0.5), SCALE, 2, width=8)
    assert np.all(np.isfinite(remembered.outputs))


def test_what_rounding_leaves_of_a_gradient_is_none() -> None:
    """Keys and queries of positions that are all alike: terms that cancel, and terms that are rounding themselves."""
    rng = np.random.default_rng(1)
    alike = tp.Sequences(np.ones((2, 2, 3, 2)), rng.normal(size=(2, 2, 3)))
    with pytest.raises(tp.Divergence, match="what Wq moves along is 0, or within rounding"):
        tp.train(tp.Transformer(head_dim=2, positions=3), alike, PLAIN, SCALE, 2, width=16)
    opposite = tp.Task([[[1.0], [-1.0]]] * 2, [[1.0, -1.0]] * 2)
    wrong = tp.Task([[[1.0], [1.0]]] * 2, [[1.0, 0.2]] * 2)
    assert np.all(np.isfinite(tp.train(tp.ResNet("tanh"), opposite, PLAIN, SCALE, 2, width=16).outputs))
    assert np.all(np.isfinite(tp.train(tp.ResNet("tanh"), wrong, PLAIN, SCALE, 2, width=16).outputs))


FEW = tp.methods.Particles(samples=2048)


@pytest.mark.parametrize("net, task", [
    (tp.ResNet(), tp.Task([1, 0.5], [0, 1])), (tp.ResNet("tanh"), tp.Task([1, 0.5], [0, 1])),
    (tp.ResNet("tanh"), tp.Task([[[1.0], [-1.0]]] * 2, [[1, 1], [1, 0]])),  # odd: two samples are one direction
    (tp.ResNet("relu"), tp.Task([[[1.0], [2.0]]] * 2, [[2, -1], [1, 0]])),  # homogeneous: likewise
    (tp.ResNet("tanh"), tp.Task(np.random.default_rng(0).normal(size=(2, 12, 6)), np.zeros((2, 12, 1))))])
@pytest.mark.parametrize("depth, method", [(3, FEW), (tp.oo, "common_draws")])
def test_a_gradient_that_vanishes_in_the_limit_alone_has_none(net: tp.ResNet, task: tp.Task, depth: Any,
                                                              method: Any) -> None:
    said = "(may be 0|at infinite width).* expected loss derivatives other than 0|is 0, or within rounding"
    with pytest.raises(tp.Divergence, match=said) as caught:
        tp.train(net, task, PLAIN, tp.DepthScaling(), depth, method=method)
    assert caught.value.step == 0
    real = tp.train(net, task, PLAIN, tp.DepthScaling(), 3, width=32)
    assert np.all(np.isfinite(real.outputs))


@pytest.mark.parametrize("pairs", [2, 6, 12])
@pytest.mark.parametrize("seed", [0, 1])
def test_many_fluctuations_are_no_norm(pairs: int, seed: int) -> None:
    """Opposite inputs of an odd network with equal targets: losses' derivatives are 1, and gradients cancel. Batches
    agree on what is left of many of them, and a quarter of the particles says that it is a fluctuation."""
    inputs, targets = np.concatenate([np.eye(pairs), -np.eye(pairs)]), np.ones((2 * pairs, 1))
    task = tp.Task([inputs, inputs], [targets, targets])
    with pytest.raises(tp.Divergence, match="at step 0, layer 1 the norm of what .* may be 0"):
        tp.train(tp.ResNet("tanh"), task, PLAIN, tp.DepthScaling(), 2, method=tp.methods.Particles(seed=seed))


@pytest.mark.parametrize("how, said", [
    (dict(batches=2), "batches: got 2 .* expected at least 4"),
    (dict(samples=64), "samples: got 64 .* held against those of a quarter of them: samples: got 16")])
def test_particles_that_are_too_few_to_tell_are_refused(how: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tp.train(tp.ResNet(), tp.Task([1.0, 0.5], [1.0, -0.5]), PLAIN, SCALE, 2, method=tp.methods.Particles(**how))


@pytest.mark.parametrize("opt", [tp.SGD(0.1), tp.NormalizedSGD(0.1)], ids=lambda opt: type(opt).__name__)
def test_scalars_of_blocks_are_not_taken_for_norms(opt: Any) -> None:
    def block(b: Branch) -> sp.Expr:
        h = b.let("h", MatVec(b.weights(), b.x))
        return b.let_scalar("overlap", 1 / Mean(h**2)) * h

    with pytest.raises(tp.Divergence, match=r"overlap\[0, 1\] is not finite"):
        tp.train(tp.ResNet(block=block), tp.Task([0.0, 0.5], [1.0, 1.0]), opt, SCALE, 2, 16)


def test_only_readings_that_read_the_program_take_it() -> None:
    four = (2, 4, 8, 16)
    task = tp.Task([1.0, 0.5], [1.0, -0.5])
    taken = {"finite": {"particles"}, "deep": {"common_draws"}, "wide": {"dense", "conditioned"}}
    for name, depth, width in (("finite", 2, tp.oo), ("deep", tp.oo, tp.oo), ("wide", 2, 8)):
        for net in (tp.ResNet(), tp.ResNet("tanh")):
            rows = tp.methods.table(tp.Problem(net, task, PLAIN, tp.DepthScaling(), depth, width)).rows
            assert {row.name for row in rows if row.refusal is None} == taken[name], (name, net)
    run = tp.train(tp.ResNet(), task, PLAIN, tp.DepthScaling(), 2, method=tp.methods.Particles(samples=256))
    for refused, said in ((lambda: run.fluctuations, "got a run by method='particles'"),
                          (lambda: run.gamma(1, 0, 0, 0, 0.5, 0.5), "sampled kets"),
                          (lambda: tp.studies.cauchy_differences(tp.ResNet(), task, PLAIN, SCALE, four), "a tp.SGD")):
        with pytest.raises(ValueError, match=said):
            refused()


@pytest.mark.parametrize("refused, said", [
    (lambda: tp.Problem(tp.ResNet(train_embedding_readout=True), tp.Task([1], [1]), PLAIN, SCALE, 2),
     "expected frozen ones"),
    (lambda: tp.program(tp.ResNet(train_embedding_readout=True), PLAIN, SCALE), "expected frozen ones"),
    (lambda: tp.program(tp.Transformer(train_embedding_readout=True), PLAIN, SCALE), "expected frozen ones"),
    (lambda: tp.program(tp.ResNet(norm="rms", gains=True), PLAIN, SCALE), "takes networks without gains"),
    (lambda: tp.Problem(tp.ResNet(skip=tp.Skip(learned=True)), tp.Task([1], [1]), PLAIN, SCALE, 2), "without gains"),
    (lambda: tp.Clipped(PLAIN, 1.0), "opt: got NormalizedSGD.* expected a tp.SGD"),
    (lambda: tp.train(tp.ResNet(), tp.Task([1], [1]), PLAIN, tp.Parametrization("ntp"), 2, 8, method="dense"), "muP"),
    (lambda: tp.train(tp.ResNet(), tp.Task([1], [1]), PLAIN, SCALE, 2, method="reflection"), "rates that depend on"),
    (lambda: tp.train(tp.ResNet(), tp.Task([1], [1]), PLAIN, SCALE, 2, 8, dtype="float32"), "dtype: got 'float32'"),
    (lambda: tp.train(tp.ResNet(), tp.Task([1], [1]), PLAIN, SCALE, 2, method=tp.methods.Particles(dtype="float32")),
     "expected 'float64'"),
    (lambda: width_verdict(tp.WidthScaling((0, 0), (0, 1), 0), opt=PLAIN), "opt: got NormalizedSGD.* expected")])
def test_what_does_not_take_it_says_so(refused: Callable, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        refused()


@pytest.mark.parametrize("bad, said", [
    (dict(lr=np.inf), "lr"), (dict(momentum=-1), "momentum"), (dict(nesterov=True), "expected a momentum"),
    (dict(weight_decay="a"), "weight_decay"), (dict(momentum=.9, nesterov=1), "nesterov"),
    (dict(independent=2), "independent")])
def test_numbers_that_mean_nothing_are_refused(bad: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tp.NormalizedSGD(**bad)


def test_double_precision_by_any_name() -> None:
    task = tp.Task([1.0, 0.5], [1.0, -0.5])
    one, other = (tp.train(tp.ResNet(), task, PLAIN, SCALE, 2, 8, method=tp.methods.Dense(dtype=dtype)).outputs
                  for dtype in ("float64", np.float64))
    assert np.array_equal(one, other)


def test_runs_are_saved(tmp_path: Path) -> None:
    task = tp.Task([1.0, 0.5, 0.3], [1.0, -0.5, 1.0])
    run = tp.train(tp.ResNet("tanh"), task, NESTEROV, SCALE, 2, width=8)
    run.save(tmp_path / "run")
    loaded = tp.Run.load(tmp_path / "run")
    assert loaded.problem.opt == NESTEROV and np.array_equal(loaded.outputs, run.outputs)


def outputs_of(problem: tp.Problem, away: tuple[float, ...]) -> np.ndarray:
    return problem.task.targets + np.reshape(away, problem.task.targets.shape)


@pytest.mark.parametrize("away, error, step", [
    ((0.0, 0.0, 1.0), 0.0, 0), ((1e6, 1e-3, 1.0), 0.0, 1), ((1e-3, 1e-12, 1.0), 0.0, 1), ((1.0, 0.1, 1.0), 0.05, 1),
    ((1.0, 0.1, 1.0), 0.02, None), ((1e-6, 1e-9, 1.0), 0.0, None), ((1.0, 1.0, 0.0), 0.0, None)])
def test_loss_derivatives_vanish_relative_to_the_largest_and_to_their_error(away: tuple[float, ...], error: float,
                                                                            step: int | None) -> None:
    """Those of the last step move nothing."""
    problem = tp.Problem(tp.ResNet(), tp.Task([1, 0.5, 1], [1, -1, 1]), PLAIN, tp.DepthScaling(), 3)
    if step is None:
        return require_gradients(problem, outputs_of(problem, away), error)
    with pytest.raises(tp.Divergence, match=f"at step {step} all loss derivatives vanish") as caught:
        require_gradients(problem, outputs_of(problem, away), error)
    assert caught.value.step == step


@pytest.mark.parametrize("values, fewer, step, refused", [
    ((1.0, 2.0, 0.5, 1.5), (1.2,) * 4, 0, True), ((1.0, 2.0, 0.5, 1.5), (1.2,) * 4, 1, True),
    ((1.0, 2.0, 0.5, 1.5), (1.2,) * 4, 2, False), ((1.0,) * 4, (1.6,) * 4, 1, True),
    ((1.0,) * 4, (1.4,) * 4, 1, False)])
def test_norms_that_batches_or_fewer_particles_do_not_confirm_are_refused(
        values: tuple[float, ...], fewer: tuple[float, ...], step: int, refused: bool) -> None:
    """At all steps but the last, whose update nothing reads."""
    problem = tp.Problem(tp.ResNet(), tp.Task([1, 0.5, 1], [1, -1, 1]), PLAIN, tp.DepthScaling(), 3)
    norm = norm_of(matrix("W"))

    def found(samples: int, at: tuple[float, ...]) -> Any:
        runs = ({norm[0, 1]: 1.0, norm[1, 1]: 1.0, norm[2, 1]: 1.0, norm[step, 1]: value} for value in at)
        return SimpleNamespace(samples=samples, batches=[SimpleNamespace(scalars=run) for run in runs])

    if not refused:
        return require_norms(problem, found(400, values), found(100, fewer))
    said = f"at step {step}, layer 1 .* with 400 particles and .* with 100, may be 0"
    with pytest.raises(tp.Divergence, match=said) as caught:
        require_norms(problem, found(400, values), found(100, fewer))
    assert (caught.value.step, caught.value.layer) == (step, 1)
