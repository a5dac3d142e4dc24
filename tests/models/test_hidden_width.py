"""Hidden layers wider than the stream: real networks against rectangular arrays, limits, names, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tpcalc as tp
from support.plain.transformer import PlainTransformer
from tpcalc.programs.blocks import BLOCKS, GATES, in_parts, latex_name

ALPHA, GAMMA, DEPTH, WIDTH, RATE = 0.7, 0.4, 2, 8, 0.3
SCALE = tp.DepthScaling(ALPHA, GAMMA)
TASK = tp.Task([[[1.0, 0.3]], [[-0.4, 0.8]], [[0.6, 0.6]]], [1, -0.7, 0.5])
LAST = {"mlp": "W2", "glu": "W3"}


def sequences(batch: int) -> tp.Sequences:
    rng = np.random.default_rng(3)
    return tp.Sequences(rng.normal(size=(3, batch, 3, 2)), rng.normal(size=(3, batch, 3)))


def as_a_whole(start: dict[str, np.ndarray], last: str, ratio: int) -> dict[str, np.ndarray]:
    """Matrices (L, r n, n), and the last of shape (L, n, r n), from their parts; ends as plain code holds them."""
    w = {name: value for name, value in start.items() if "_" not in name}
    for name in {name.split("_")[0] for name in start} - set(w):
        parts = [start[f"{name}_{k}"] for k in range(1, ratio + 1)]
        w[name] = np.concatenate(parts, axis=2) / np.sqrt(ratio) if name == last else np.concatenate(parts, axis=1)
    return {**w, "U": start["U"].reshape(-1, WIDTH).T, "nV": start["nV"].reshape(1, WIDTH).T}


def sgd(step: int, w: np.ndarray, seen: list) -> np.ndarray:
    """By the learning rate, and by 1/r of it where the fan-in is r times as large."""
    return w - RATE * DEPTH**(ALPHA - GAMMA) * min(1.0, w.shape[0] / w.shape[1]) * seen[-1]


def adam(step: int, w: np.ndarray, seen: list) -> np.ndarray:
    """By the learning rate, and by 1/sqrt(r) of it where the fan-in is r times as large, eps in the units of parts."""
    share, first, second = min(1.0, w.shape[0] / w.shape[1])**0.5, 0.0, 0.0
    for g in seen:
        g = share * g * WIDTH * DEPTH**ALPHA
        first, second = 0.9 * first + 0.1 * g, 0.99 * second + 0.01 * g**2
    moved = first / (1 - 0.9**(step + 1)) / (np.sqrt(second / (1 - 0.99**(step + 1))) + 1e-3)
    return w - RATE * DEPTH**-GAMMA / WIDTH * share * moved


def signs(step: int, w: np.ndarray, seen: list) -> np.ndarray:
    """By the learning rate, and by 1/sqrt(r) of it where the fan-in is r times as large."""
    return w - RATE * DEPTH**-GAMMA / WIDTH * min(1.0, w.shape[0] / w.shape[1])**0.5 * np.sign(seen[-1])


def held_against_rectangles(options: dict, ratio: int, batch: int, opt: Any, move: Any) -> None:
    data, last = sequences(batch), LAST[options["mlp"]]
    run = tp.train(tp.Transformer(positions=3, mlp_ratio=ratio, **options), data, opt, SCALE, DEPTH, WIDTH,
                   method="dense", seed=1)
    weights = as_a_whole(run.initial_weights(), last, ratio)
    assert weights["W1"].shape == (DEPTH, ratio * WIDTH, WIDTH)
    assert weights[last].shape == (DEPTH, WIDTH, ratio * WIDTH)
    found = PlainTransformer(eps=DEPTH**-ALPHA, **options).moved(weights, data, move)
    assert np.abs(found - run.outputs).max() < 1e-10 * np.abs(found).max()


@pytest.mark.parametrize("opt, move", [(tp.SGD(RATE), sgd), (tp.Adam(RATE, 0.9, 0.99, 1e-3), adam)],
                         ids=["SGD", "Adam"])
@pytest.mark.parametrize("mlp, ratio", [pytest.param("mlp", 3, marks=pytest.mark.nightly), ("glu", 2)])
def test_real_networks_have_rectangular_matrices(mlp: str, ratio: int, opt: Any, move: Any) -> None:
    held_against_rectangles(dict(head_dim=2, mlp=mlp), ratio, 2, opt, move)


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(norm=st.sampled_from(["rms", "layer"]), mlp=st.sampled_from(["mlp", "glu"]), causal=st.booleans(),
       ratio=st.integers(1, 5), batch=st.integers(1, 2), how=st.sampled_from([(tp.SGD(RATE), sgd), (
           tp.Adam(RATE, 0.9, 0.99, 1e-3), adam), (tp.SignSGD(RATE), signs)]))
def test_drawn_networks_have_rectangular_matrices(norm: str, mlp: str, causal: bool, ratio: int, batch: int, how: tuple
                                                  ) -> None:
    held_against_rectangles(dict(head_dim=2, mlp=mlp, norm=norm, causal=causal), ratio, batch, *how)


def test_entries_have_the_variance_of_their_fan_in() -> None:
    run = tp.train(tp.ResNet("tanh", "mlp", mlp_ratio=4), TASK, tp.SGD(), SCALE, 2, 64, method="dense")
    weights = run.initial_weights()
    assert set(weights) == {"U", "nV", *(f"W{i}_{k}" for i in (1, 2) for k in (1, 2, 3, 4))}
    first = np.concatenate([weights[f"W1_{k}"] for k in (1, 2, 3, 4)], axis=1)
    last = np.concatenate([weights[f"W2_{k}"] for k in (1, 2, 3, 4)], axis=2) / 2
    assert np.var(first) * 64 == pytest.approx(1, abs=0.05) and np.var(last) * 256 == pytest.approx(1, abs=0.05)
    again = tp.train(tp.ResNet("tanh", "mlp", mlp_ratio=4), TASK, tp.SGD(), SCALE, 2, 64,
                     method=tp.methods.Dense(weights=weights))
    assert np.array_equal(run.outputs, again.outputs)


@pytest.mark.parametrize("phi, block", [("erf", "mlp"), pytest.param("relu", "glu", marks=pytest.mark.nightly)])
def test_limits_by_sgd_do_not_depend_on_the_hidden_width(phi: str, block: str) -> None:
    """Derived from the statements of all parts, whose kernels add up to those of one."""
    runs = [tp.train(tp.ResNet(phi, block, "rms", mlp_ratio=ratio), TASK, tp.SGD(0.5, momentum=0.5, weight_decay=0.1),
                     tp.DepthScaling(), tp.oo) for ratio in (1, 3)]
    assert runs[1].method == "collocation"
    assert np.abs(runs[0].outputs - runs[1].outputs).max() < 1e-12 < 0.1 < np.abs(runs[0].outputs).max()


@pytest.mark.nightly
def test_attention_beside_a_wide_hidden_layer_has_the_same_limit() -> None:
    data, limits = sequences(batch=1), []
    for ratio in (1, 2):
        layer = tp.theory.AttentionLayer(2, points=64, scrambles=2, mlp=tp.ResNet("erf", "mlp", "rms", mlp_ratio=ratio))
        limits.append(tp.theory.attention_limit(layer, data.inputs[:2, :, :2], data.targets[:2, :, :2], tp.SGD(0.5)))
    assert np.abs(limits[0].outputs - limits[1].outputs).max() < 1e-12 < 0.1 < np.abs(limits[0].outputs).max()


def test_what_signs_do_grows_like_the_root_of_the_hidden_width() -> None:
    """One step of an MLP that is linear in what moves: W2 alone, behind a small learning rate."""
    data = tp.Task([1, 1], [1, 1])
    how: dict = dict(depth=4, method=tp.methods.Particles(samples=1024))
    moved = [tp.train(tp.ResNet("tanh", "mlp", mlp_ratio=ratio), data, tp.SignSGD(1e-3), tp.DepthScaling(), **how)
             .outputs[1, 0, 0] for ratio in (1, 4)]
    assert moved[1] / moved[0] == pytest.approx(2, rel=0.05)


def test_a_gate_names_an_activation() -> None:
    for name, phi in GATES.items():
        assert tp.Transformer(positions=2, mlp=name) == tp.Transformer(positions=2, mlp="glu", phi=phi)
        assert tp.ResNet(block=name.upper(), norm="rms") == tp.ResNet(phi, "glu", "rms")
    assert tp.Transformer(positions=2, mlp="swiglu", phi="SiLU").phi == "silu"
    for options in ({"mlp": "swiglu", "phi": "relu"}, {"mlp": "reglu", "phi": "tanh"}):
        with pytest.raises(ValueError, match=f"^phi: got {options['phi']!r} with .*, a glu whose gate is .* expected"):
            tp.Transformer(positions=2, **options)
    with pytest.raises(ValueError, match="^phi: got 'relu' with 'swiglu'"):
        tp.ResNet("relu", "swiglu")


def test_matrices_have_names_of_their_own_and_parts_none() -> None:
    wide, narrow = (tp.Transformer(head_dim=2, positions=2, mlp="glu", mlp_ratio=ratio) for ratio in (3, 1))
    assert wide.matrices_of_block == narrow.matrices_of_block == ("Wq", "Wk", "Wv", "Wo", "W1", "W2", "W3")
    assert wide.narrow == narrow == narrow.narrow and "mlp_ratio=3" in repr(wide) and "mlp_ratio" not in repr(narrow)
    assert latex_name("W1_2") == "{W_{1,2}}" and latex_name("h_3") == "{h_3}" and latex_name("W12") == "{W_{12}}"


def test_exponents_are_those_of_whole_matrices() -> None:
    """Real networks at (1, gamma of W1, gamma of W2) and with learning rates that say the same by their parts."""
    net, own = tp.ResNet("tanh", "mlp", mlp_ratio=2), tp.ResNet("tanh", in_parts(BLOCKS["mlp"], 2))
    whole = tp.Parametrization(depth={"alpha": 1, "W1": 0, "W2": 0.5})
    parts = tp.Parametrization(depth={"alpha": 1, **{f"W1_{k}": 0 for k in (1, 2)}, **{f"W2_{k}": 0.5 for k in (1, 2)}})
    how: dict = dict(task=TASK, opt=tp.SGD(RATE), depth=4, width=WIDTH, method="dense")
    assert np.array_equal(tp.train(net, scale=whole, **how).outputs, tp.train(own, scale=parts, **how).outputs)
    for net, scale in ((net, parts), (own, whole)):
        with pytest.raises(ValueError, match="depth: got 'W1(_1)?'; expected names of the network's matrices"):
            tp.Problem(net, TASK, tp.SGD(RATE), scale, 4)


def test_verdicts_count_a_hidden_layer_as_wide_as_the_stream_and_say_so() -> None:
    """What is taken for granted, held against a block whose two parts are counted one by one."""
    scale = tp.Parametrization(depth={"alpha": 1, "W1": 0, "W2": 1})
    found = tp.classify(scale, tp.ResNet("linear", "mlp", mlp_ratio=4))
    narrow = tp.classify(scale, tp.ResNet("linear", "mlp"))
    assert found.name == narrow.name and found.matrices == narrow.matrices
    assert "stand for all mlp_ratio" in found.assumptions[0] and found.assumptions[1:] == narrow.assumptions
    assert found.reasons == narrow.reasons
    parts = {f"{name}_{k}": gamma for name, gamma in (("W1", 0), ("W2", 1)) for k in (1, 2)}
    each = tp.classify(tp.Parametrization(depth={"alpha": 1, **parts}), tp.ResNet("linear", in_parts(BLOCKS["mlp"], 2)))
    for part, one in each.matrices.items():
        whole = narrow.matrices[part.split("_")[0]]
        assert (one.name, one.update, one.effect, one.output) == (whole.name, whole.update, whole.effect, whole.output)


def test_a_saved_run_knows_its_hidden_width(tmp_path: object) -> None:
    net = tp.Transformer(head_dim=2, positions=3, mlp="swiglu", mlp_ratio=2)
    run = tp.train(net, sequences(1), tp.SGD(0.1), SCALE, 1, WIDTH, method="dense")
    run.save(f"{tmp_path}/run.npz")
    assert tp.Run.load(f"{tmp_path}/run.npz").problem.net == net


@pytest.mark.parametrize("make, word", [
    (lambda: tp.ResNet(mlp_ratio=2), "mlp_ratio"), (lambda: tp.ResNet("tanh", "mlp", mlp_ratio=0), "mlp_ratio"),
    (lambda: tp.ResNet("tanh", "mlp", mlp_ratio=8 / 3), "mlp_ratio"),
    (lambda: tp.ResNet("tanh", "mlp", matrices=3, mlp_ratio=2), "mlp_ratio"),
    (lambda: tp.ResNet("tanh", BLOCKS["mlp"], mlp_ratio=2), "mlp_ratio"),
    (lambda: tp.Transformer(mlp=None, mlp_ratio=2), "mlp_ratio"),
    (lambda: tp.Transformer(mlp=BLOCKS["glu"], mlp_ratio=2), "mlp_ratio"),
    (lambda: tp.Transformer(mlp_ratio=10**6), "mlp_ratio")])
def test_what_is_no_hidden_width_is_refused(make: object, word: str) -> None:
    with pytest.raises(ValueError, match=f"^{word}: got .*.* expected"):
        make()  # type: ignore[operator]
