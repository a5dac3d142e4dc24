"""Mixtures of experts with E fixed: real networks against plain arrays, particles, what is refused and why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from support.plain.experts import PlainMoE, PlainResidualMoE
from tpcalc.interpreters.lowered_particles import particles
from tpcalc.interpreters.vectors import run_program
from tpcalc.programs.special import Mask, among_largest
from tpcalc.theory import MatVec, Mean

HALF = sp.Rational(1, 2)
TASK, SCALE = tp.Task([1, 0.8, -0.6], [1, -0.7, 0.5]), tp.DepthScaling()
ALPHA, GAMMA, DEPTH, WIDTH, RATE = 0.7, 0.4, 2, 8, 0.3


def net(experts: int = 3, **options: Any) -> tp.ResNet:
    return tp.ResNet("tanh", tp.MoE(experts, **options), norm="rms")


def adam(seen: list[np.ndarray]) -> np.ndarray:
    first, second = np.zeros_like(seen[0]), np.zeros_like(seen[0])
    for g in seen:
        first, second = 0.9 * first + 0.1 * g, 0.99 * second + 0.01 * g**2
    t = len(seen)
    return first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.99**t)) + 0.1)


def heavy_ball(seen: list[np.ndarray]) -> np.ndarray:
    return sum(0.9 ** (len(seen) - 1 - k) * g for k, g in enumerate(seen))


OPTIMIZERS = {"sgd": (tp.SGD(RATE), lambda seen: seen[-1]), "momentum": (tp.SGD(RATE, momentum=0.9), heavy_ball),
              "adam": (tp.Adam(RATE, 0.9, 0.99, 0.1), adam), "signs": (
                  tp.SignSGD(RATE), lambda seen: np.sign(seen[-1]))}


@settings(deadline=None, max_examples=8)
@given(experts=st.integers(1, 4), active=st.integers(1, 4), gate=st.sampled_from(["softmax", "sigmoid"]),
       init=st.sampled_from(["A", "B"]), shared=st.integers(0, 2), router=st.sampled_from(["normal", "zero"]),
       batch=st.integers(1, 3), how=st.sampled_from(sorted(OPTIMIZERS)), balance=st.sampled_from([None, 0.05]))
def test_real_networks_train_as_those_of_a_trainer(experts: int, active: int, gate: str, init: str, shared: int,
                                                   router: str, batch: int, how: str,
                                                   balance: float | None) -> None:
    active = min(active, experts)
    balance = None if active == experts else balance
    gate = "sigmoid" if active == 1 else gate
    rng = np.random.default_rng(experts)
    inputs, targets = rng.standard_normal((4, batch, 2)), rng.standard_normal((4, batch))
    opt, direction = OPTIMIZERS[how]
    one = net(experts, active=active, gate=gate, init=init, shared=shared, router=router, balance=balance)
    run = tp.train(one, tp.Task(inputs, targets), opt, tp.DepthScaling(ALPHA, GAMMA), DEPTH, WIDTH, method="dense")
    plain = PlainMoE(experts, active, gate, init, shared, ALPHA, GAMMA, balance or 0.0)
    found = plain.trained(run.initial_weights(), inputs, targets, RATE, direction)
    assert np.abs(run.outputs[:, :, 0] - found).max() < 1e-10 * max(np.abs(found).max(), 1)


@pytest.mark.parametrize("active, gate, scale", [(3, "softmax", 3**0.5), (2, "softmax", 2**0.5), (1, "sigmoid", 1.0)])
def test_transformers_train_as_plain_arrays_do(active: int, gate: str, scale: float) -> None:
    rng = np.random.default_rng(1)
    inputs, targets = rng.standard_normal((3, 2, 2, 2)), rng.standard_normal((3, 2, 2))
    one = tp.Transformer(head_dim=2, positions=2, norm="rms", phi="tanh", mlp=tp.MoE(3, active, gate))
    run = tp.train(one, tp.Sequences(inputs, targets), tp.SGD(RATE), tp.DepthScaling(ALPHA, GAMMA), DEPTH, 6,
                   method="dense", seed=2)
    start = run.initial_weights()
    w = {**start, "U": start["U"].reshape(-1, 6).T, "nV": start["nV"].ravel()}
    plain = PlainResidualMoE(DEPTH**-ALPHA, head_dim=2, norm="rms", experts=3, active=active, gate=gate, scale=scale)
    found = plain.trained(w, inputs, targets, RATE, DEPTH**-GAMMA)
    assert np.abs(run.outputs[..., 0] - found).max() < 1e-10
    assert one.vectors_of_block == ("R_1", "R_2", "R_3")


def test_both_readings_of_real_networks_make_the_same_choices() -> None:
    """Arrays as a whole, statement by statement, and by conditioning, which differs in its draws alone."""
    one = net(3, active=2)
    program = tp.program(one, tp.SGD(RATE), SCALE)
    slow = run_program(program, {"T": 3, "L": 2}, {"xi": [1, 0.8, -0.6], "y": [1, -0.7, 0.5]}, WIDTH)
    gates = np.array([[[slow.scalars[m] for m in slow.scalars if str(m) == f"share_{e}[{t}, {layer}]"][0]
                       for e in (1, 2, 3)] for t in range(3) for layer in (1, 2)])
    assert np.array_equal(np.sum(gates > 0, axis=1), [2] * 6) and np.allclose(gates.sum(axis=1), 1)
    found, known = (np.array([tp.train(one, TASK, tp.SGD(0.5), SCALE, 2, 64, method=method(seed=seed)).outputs.ravel()
                              for seed in range(48)]) for method in (tp.methods.Dense, tp.methods.Conditioned))
    error = np.sqrt(found.var(axis=0) / 47 + known.var(axis=0) / 47)
    assert np.all(np.abs(found.mean(axis=0) - known.mean(axis=0)) < 4 * error)


def test_experts_of_an_expert_have_its_number_first() -> None:
    """One step of the router R_1_2 alone: others are frozen, and by hand it is that of the first's second."""
    one, n = net(2, gate="sigmoid", expert=tp.MoE(2, gate="sigmoid")), WIDTH
    names = [f"{kind}_{e}_{f}" for kind in ("W1", "W2", "R") for e in (1, 2) for f in (1, 2)]
    assert sorted(one.trained_of_block) == sorted([*names, "R_1", "R_2"])
    frozen = tp.Parametrization(depth={"alpha": 0, **dict.fromkeys(one.trained_of_block, 60), "R_1_2": 0})
    run = tp.train(one, tp.Task([1, 1], [1, 1]), tp.SGD(300), frozen, 2, n, method="dense")
    w = run.initial_weights()

    def output(moved: np.ndarray) -> float:
        x = w["U"]
        for layer in range(2):
            z = x / np.sqrt(np.mean(x**2))
            r = {name: w[name][layer] for name in w if name not in ("U", "nV")}
            r["R_1_2"] = r["R_1_2"] + moved[layer]
            gate = {name: 1 / (1 + np.exp(-r[name] @ z / n)) for name in r if name.startswith("R")}
            x = x + sum(gate[f"R_{e}"] * gate[f"R_{e}_{f}"] * r[f"W2_{e}_{f}"] @ np.tanh(r[f"W1_{e}_{f}"] @ z)
                        for e in (1, 2) for f in (1, 2)) / 2
        return float(w["nV"] @ x / n)

    before = output(np.zeros((2, n)))
    steps = 1e-5 * np.eye(2 * n).reshape(2 * n, 2, n)
    slopes = np.array([output(step) - output(-step) for step in steps]).reshape(2, n) / 2e-5
    after = output(-300 * (before - 1) * n * slopes)
    assert run.outputs.ravel() == pytest.approx([before, after], abs=1e-8)
    assert abs(after - before) > 1e-4


def test_fixed_gates_have_the_numbers_of_a_block_written_by_hand() -> None:
    """Convention A; routers that start as ones, as they did where the numbers were first found."""
    def by_hand(b: tp.Branch) -> sp.Expr:
        logits = [b.let_scalar(f"s{e}", Mean(b.trained(f"R{e}") * b.x)) for e in range(3)]
        weights = [b.let_scalar(f"w{e}", sp.exp(s)) for e, s in enumerate(logits)]
        total = b.let_scalar("total", sp.Add(*weights))
        outs = [b.let(f"o{e}", MatVec(b.weights(f"B{e}"), b.let(f"z{e}", b.phi(b.let(f"h{e}", MatVec(
            b.weights(f"A{e}"), b.x)))))) for e in range(3)]
        return sp.Add(*(b.let_scalar(f"g{e}", w / total) * out for e, (w, out) in enumerate(zip(weights, outs))))

    known = tp.train(tp.ResNet("tanh", by_hand, norm="rms"), TASK, tp.SGD(0.5), SCALE, 4)
    found = tp.train(net(3, init="A"), TASK, tp.SGD(0.5), SCALE, 4)
    assert known.method == found.method == "particles"
    for run in (known, found):  # .1511(3), -.0226(5)
        np.testing.assert_allclose(run.outputs.ravel(), [0, 0.1511, -0.0226], rtol=0, atol=0.0008)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"init": "A"}, {"router": "zero"}, {"gate": "sigmoid", "shared": 1},
                                     {"expert": "swiglu"}])
def test_particles_are_wide_networks(options: dict) -> None:
    one = net(3, **options)
    limit = tp.train(one, TASK, tp.SGD(0.5), SCALE, 4)
    found = np.array([tp.train(one, TASK, tp.SGD(0.5), SCALE, 4, 256, method=tp.methods.Dense(seed=seed)
                               ).outputs for seed in range(64)])
    error = found.std(axis=0, ddof=1) / 8 + limit.error_estimate + 1 / 256
    assert np.all(np.abs(found.mean(axis=0) - limit.outputs) < 3.5 * error)


@pytest.mark.slow
@pytest.mark.parametrize("block", [tp.MoE(2, gate="sigmoid", shared=1), tp.MoE(expert_dim=2, share=HALF, balance=0.3)],
                         ids=["fixed", "growing"])
def test_particles_are_wide_networks_beside_attention(block: tp.MoE) -> None:
    one = tp.Transformer(head_dim=2, positions=2, phi="tanh", mlp=block)
    rng = np.random.default_rng(3)
    task = tp.Sequences(rng.standard_normal((3, 1, 2, 1)), rng.standard_normal((3, 1, 2)))
    limit = tp.train(one, task, tp.SGD(0.3), SCALE, 3)
    found = np.array([tp.train(one, task, tp.SGD(0.3), SCALE, 3, 256, method=tp.methods.Dense(seed=seed)).outputs
                      for seed in range(64)])
    error = found.std(axis=0, ddof=1) / 8 + limit.error_estimate + 1 / 256
    assert np.all(np.abs(found.mean(axis=0) - limit.outputs) < 3.5 * error)
    assert np.abs(limit.outputs[2]).max() > 0.1


def test_experts_learn_the_same_at_infinite_width() -> None:
    """Softmax gives routers no gradient there; sigmoids move together."""
    data = {"xi": [1, 0.8, -0.6, 0.9], "y": [1, -0.7, 0.5, 0.3]}

    def logits(gate: str, samples: int) -> np.ndarray:
        program = tp.program(net(2, gate=gate), tp.SGD(0.5), tp.DepthScaling(1, 0))
        runs = particles(program, {"T": 4, "L": 2}, data, samples, batches=12).batches
        known = [{str(one): float(value) for one, value in run.scalars.items()} for run in runs]
        return np.array([[(one[f"s_{e}[3, 1]"] + one[f"s_{e}[3, 2]"]) / 2 for e in (1, 2)] for one in known])

    few, many = (logits("softmax", samples) for samples in (512, 8192))
    assert np.all(np.abs(many.mean(axis=0)) < 4 * many.std(axis=0, ddof=1) / 12**0.5)
    assert np.all(many.std(axis=0) < 0.5 * few.std(axis=0))
    together = logits("sigmoid", 8192)
    error = np.subtract(*together.T).std(ddof=1) / 12**0.5
    assert abs(np.subtract(*together.T).mean()) < 4 * error and abs(together.mean()) > 20 * error


def test_experts_of_softmax_are_a_wider_hidden_layer_at_infinite_width() -> None:
    """In convention B, of all experts active."""
    method = tp.methods.Particles(samples=8192, batches=8)
    experts, wide = (tp.train(one, TASK, tp.SGD(0.5), SCALE, 3, method=method) for one in (
        net(2), tp.ResNet("tanh", "mlp", norm="rms", mlp_ratio=2)))
    error = experts.error_estimate + wide.error_estimate
    assert np.abs(experts.outputs - wide.outputs).max() < error < 0.01


def test_the_two_conventions_differ_in_what_more_experts_bring() -> None:
    """At the first step <y|y> is 1/k times as large in A, and knows no k in B: f_1 at one layer is proportional."""
    at = {(init, k): tp.train(net(k, init=init), TASK, tp.SGD(0.5), SCALE, 1).outputs[1, 0, 0]
          for init in "AB" for k in (2, 4)}
    assert at["B", 4] == pytest.approx(at["B", 2], abs=0.01)
    assert at["A", 4] == pytest.approx(at["A", 2] / 2, abs=0.01) and at["A", 2] > 0.1


def test_masks_have_the_derivative_0_and_choose_the_first_of_equals() -> None:
    x, y = sp.symbols("x y", real=True)
    assert sp.diff(x * Mask(x - y), x) == Mask(x - y)
    rng = np.random.default_rng(0)
    for count in (1, 2, 4):
        names = sp.symbols("a:5", real=True)
        function = sp.lambdify(names, among_largest(names, count), ["scipy", "numpy"])
        for _ in range(20):
            values = rng.integers(0, 4, 5).astype(float)  # many are equal
            order = sorted(range(5), key=lambda k: (-values[k], k))
            assert [k for k in range(5) if function(*values)[k]] == sorted(order[:count])


def test_choices_have_no_limit_that_is_known() -> None:
    """All logits are 0 at infinite width: what is left of them there is rounding."""
    one = net(3, active=2)
    problem = tp.Problem(one, TASK, tp.SGD(0.5), SCALE, depth=4)
    for method in ("particles", "coefficients", "reflection"):
        with pytest.raises(tp.NotCovered, match=r"weight_1\[t, l\] has a choice in it, .* may tie at infinite width"):
            tp.train(problem, method=method)
    program = tp.program(one, tp.SGD(0.5), SCALE)
    for read in (lambda: particles(program, {"T": 2, "L": 2}, {"xi": [1, 1], "y": [1, 1]}), lambda: tp.kets(program),
                 lambda: tp.classify(1, 0, one)):
        with pytest.raises(tp.NotCovered, match="has a choice in it"):
            read()


def spread_over_routers(one: tp.ResNet, width: int) -> float:
    """Of f_1, over routers that start otherwise beside the same matrices, in a root mean square over these."""
    found = []
    for seed in range(4):
        first = tp.train(one, TASK, tp.SGD(), SCALE, 2, width, method=tp.methods.Dense(seed=seed))
        start = dict(first.initial_weights())
        rng, runs = np.random.default_rng([1, seed]), []
        for _ in range(12):
            routers = {name: rng.standard_normal(value.shape) for name, value in start.items() if name[0] == "R"}
            runs.append(tp.train(one, TASK, tp.SGD(0.5), SCALE, 2, width, method=tp.methods.Dense(
                weights={**start, **routers})).outputs[1, 0, 0])
        found.append(np.var(runs, ddof=1))
    return float(np.sqrt(np.mean(found)))


@pytest.mark.slow
def test_what_is_chosen_does_not_become_deterministic() -> None:
    """Outputs depend on how routers start at every width where some experts of several act, and else less and less."""
    chosen, every = ([spread_over_routers(net(4, active=k), width) for width in (32, 256)] for k in (2, 4))
    assert every[1] < 0.35 * every[0] and chosen[1] > 0.6 * chosen[0] and chosen[1] > 10 * every[1], (chosen, every)


def spread_of_updates(opt: Any, width: int) -> float:
    """Of what the first updates of routers bring to f_1, over networks."""
    one = net(2, gate="sigmoid")
    still = {name: 60 if name in one.vectors_of_block else HALF for name in one.trained_of_block}
    runs = [[tp.train(one, TASK, opt, scale, 2, width, method=tp.methods.Dense(seed=seed)).outputs[1, 0, 0]
             for scale in (SCALE, tp.Parametrization(depth={"alpha": HALF, **still}))] for seed in range(32)]
    return float(np.std(np.subtract(*np.transpose(runs)), ddof=1))


@pytest.mark.slow
def test_signs_of_what_vanishes_bring_as_much_at_every_width() -> None:
    signs, felt = ([spread_of_updates(opt, width) for width in (32, 256)] for opt in (
        tp.SignSGD(1.0), tp.Adam(1.0, eps=0.1)))
    assert signs[1] > 0.7 * signs[0] and felt[1] < 0.5 * felt[0], (signs, felt)


@pytest.mark.parametrize("opt", [tp.SignSGD(), tp.Adam(), tp.Lion(), tp.Adam(eps=1e-3), tp.Clipped(tp.SignSGD(), 1.0)])
def test_signs_of_what_vanishes_are_refused(opt: Any) -> None:
    with pytest.raises(tp.NotCovered, match="R_1, R_2, R_3, which read numbers off vectors; their first gradients "
                                            "vanish at infinite width"):
        tp.train(net(3), TASK, opt, SCALE, 2)
    assert tp.train(net(3), TASK, opt, SCALE, 2, 16).outputs.shape == (3, 1, 1)


def test_an_eps_that_is_felt_has_a_limit() -> None:
    assert tp.train(net(3), TASK, tp.Adam(eps=0.1), SCALE, 2).method == "particles"


def test_a_bias_is_in_the_choice_alone() -> None:
    """No gradient goes through it, and no gate has it."""
    text = str(tp.program(net(2, active=1, gate="sigmoid", balance=0.25), tp.SGD(RATE), SCALE))
    lines = [line.strip() for line in text.replace("[t, l]", "").splitlines()]
    share = "mask(1/2 - mask(-bias_1 + bias_2 - s_1 + s_2))"
    assert f"share_1 := {share}/(1 + exp(-s_1))" in lines and "bias_1[0, l] := 0" in lines
    assert f"bias_1[t + 1, l] := sign(1 - 2*{share})/4 + bias_1" in lines and "dbias" not in text


def test_what_is_not_chosen_has_no_direction_without_an_eps() -> None:
    for opt in (tp.Adam(), tp.SOAP()):
        with pytest.raises(tp.NotCovered, match="weights that are not chosen, or that nothing reads"):
            tp.train(net(3, active=2), TASK, opt, SCALE, 2, 16)


@pytest.mark.parametrize("options, said", [
    ({"experts": 0}, "experts: got 0"), ({"experts": 2, "active": 3}, "active: got 3 of experts=2"),
    ({"experts": 4, "active": 1}, "active: got 1 of experts=4 with gate='softmax', which is 1"),
    ({"experts": 1}, "routers get no gradient"), ({"experts": 2, "gate": "relu"}, "gate: got 'relu'"),
    ({"experts": 2, "init": "C"}, "init: got 'C'"), ({"experts": 2, "router": "one"}, "router: got 'one'"),
    ({"experts": 2, "phi": "network's"}, "phi: got \"network's\""), ({"experts": 2, "expert": "relu"}, "expert: got"),
    ({"experts": 2, "expert": "swiglu", "phi": "tanh"}, "phi: got 'tanh' with 'swiglu'"),
    ({"experts": 4, "active": 2, "balance": 0}, "balance: got 0; expected a number above 0"),
    ({"experts": 4, "active": 2, "balance": True}, "balance: got True"),
    ({"experts": 4, "balance": 0.1}, "balance: got 0.1 with all experts active"),
    ({"experts": 300}, "expected at most 256"), ({"experts": 2, "shared": -1}, "shared: got -1")])
def test_options_that_say_nothing_are_refused(options: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tp.MoE(**options)


def test_a_start_is_one_of_three_and_one_of_a_name() -> None:
    with pytest.raises(ValueError, match="start: got 'ones'; expected 'one', 'zero', 'normal'"):
        tp.ResNet("tanh", lambda b: b.trained("s", "ones") * b.let("h", MatVec(b.weights(), b.x)))
    with pytest.raises(ValueError, match="start: got 'zero' for 's', which starts otherwise"):
        tp.ResNet("tanh", lambda b: b.trained("s") * b.let("h", MatVec(b.weights(), b.x)) + b.trained("s", "zero"))
