"""Transformers against plain arrays, finite differences and symmetries."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import tpcalc as tp
from support.plain.transformer import PlainTransformer
from reference.conditioned import run_conditioned
from tpcalc.interpreters.dense import run_dense
from tpcalc.interpreters.lowered_conditioned import conditioned
from tpcalc.interpreters.vectors import run_program
from tpcalc.lowering.nest import lowered_order
from tpcalc.programs.language import Family, HeadSum, MatVec, Vector

RNG = np.random.default_rng(3)


def task(steps: int = 3, batch: int = 2, positions: int = 3, d_out: int = 2, loss: str = "mse") -> tp.Sequences:
    targets = RNG.standard_normal((steps, batch, positions, d_out))
    if loss == "softmax":
        targets = np.eye(d_out)[np.argmax(targets, axis=-1)]
    return tp.Sequences(RNG.standard_normal((steps, batch, positions, 2)), targets, loss)


def weights_of(run: tp.Run) -> dict[str, np.ndarray]:
    """As plain code holds them."""
    given = run.initial_weights()
    ends = {name: given[name].reshape(-1, run.width).T for name in ("U", "nV") if name in given}
    return {**{name: value for name, value in given.items() if name.startswith("W")}, **ends}


def of_one_head_a_group(weights: dict[str, np.ndarray], shared: int, head_dim: int) -> dict[str, np.ndarray]:
    """W_k and W_v with the rows of the first of every ``shared`` heads alone."""
    rows = {name: value.reshape(len(value), -1, shared, head_dim, value.shape[-1])[:, :, 0]
            for name, value in weights.items() if name in ("Wk", "Wv")}
    return {**weights, **{name: value.reshape(len(value), -1, value.shape[-1]) for name, value in rows.items()}}


nets = st.builds(dict, head_dim=st.sampled_from([1, 2, 4]), norm=st.sampled_from([None, "rms", "layer"]),
                 mlp=st.sampled_from([None, "mlp", "glu"]), causal=st.booleans(), scale_power=st.sampled_from([0.5, 1]),
                 qk_norm=st.booleans(), train_embedding_readout=st.booleans(),
                 queries_per_key=st.sampled_from([1, 2])).filter(
                     lambda options: not options["qk_norm"] or options["head_dim"] > 2)


def held_against_plain_arrays(options: dict, batch: int, positions: int, what: tuple) -> None:
    data, scale, depth = task(3, batch, positions, *what), tp.DepthScaling(0.7, 0.4), 2
    net = tp.Transformer(positions=positions, **options)
    rate = 0.5 if options["norm"] else 0.05  # a small network without a norm blows up at once
    run = tp.train(net, data, tp.SGD(rate), scale, depth, width=8, method="dense", seed=2)
    plain = dict(options)
    ends = plain.pop("train_embedding_readout")
    group = plain.get("queries_per_key", 1), options["head_dim"]
    found = PlainTransformer(eps=depth**-0.7, **plain).trained(
        of_one_head_a_group(weights_of(run), *group), data.inputs, data.targets,
        lambda f, y: data.loss.derivative(f, y), rate * depth**(0.7 - 0.4), rate * ends)
    assert np.abs(run.outputs - found).max() < 1e-10
    assert np.isclose(run.losses[0], np.mean([data.loss.value(f, y).sum() for f, y in zip(found[0], data.targets[0])]))


def test_heads_are_those_of_real_networks_alone() -> None:
    """Particles are of infinite width, however many heads real networks have."""
    net = tp.Transformer(heads=4, head_dim=2, positions=2, mlp=None)
    task = tp.Sequences(np.ones((1, 1, 2, 1)), np.ones((1, 1, 2)))
    how: dict = dict(task=task, opt=tp.SGD(0.5), scale=tp.DepthScaling(), depth=1)
    assert tp.train(net, method=tp.methods.Particles(samples=64), **how).width is None
    assert tp.train(net, method="dense", **how).width == 8


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(options=nets, batch=st.sampled_from([1, 2]), positions=st.sampled_from([1, 3]),
       what=st.sampled_from([(1, "mse"), (3, "softmax")]))
def test_dense_training_is_that_of_plain_arrays(options: dict, batch: int, positions: int, what: tuple) -> None:
    held_against_plain_arrays(options, batch, positions, what)


@pytest.mark.parametrize("norm, head_dim, shared", [("rms", 4, 1), ("layer", 4, 1), ("rms", 4, 2), ("rms", 2, 4)])
def test_dense_training_is_that_of_plain_arrays_with_all_there_is(norm: str, head_dim: int, shared: int) -> None:
    held_against_plain_arrays(dict(head_dim=head_dim, norm=norm, mlp="glu", causal=True, scale_power=0.5,
                                   qk_norm=head_dim > 2, train_embedding_readout=True,
                                   queries_per_key=shared), 2, 3, (3, "softmax"))


TABLE = np.random.default_rng(9).standard_normal((2, 3, 3))
BY_POSITION = [dict(rotation=7.0), dict(score_table=TABLE), dict(rotation=7.0, score_table=TABLE[:1]),
               dict(rotation=100.0, score_table=TABLE, queries_per_key=2, qk_norm=True)]


@pytest.mark.parametrize("options", BY_POSITION, ids=["turned", "table by head", "one table", "all"])
@pytest.mark.parametrize("causal", [True, False])
def test_rotations_and_tables_are_those_of_plain_arrays(options: dict, causal: bool) -> None:
    held_against_plain_arrays(dict(head_dim=4, norm="rms", mlp="mlp", causal=causal, train_embedding_readout=False,
                                   **options), 2, 3, (2, "mse"))


def test_infinite_width_has_rotations_and_tables() -> None:
    """Wide real networks have the outputs of particles, which are others without a table. Rotations move them less than
    one network in a hundred shows; draw by draw they are held below."""
    inputs = [[[1.0, 0.3], [0.5, -0.8], [-0.7, 0.4]]]
    task = tp.Sequences(np.array([inputs] * 2), np.array([[[1.0, -0.7, 0.4]]] * 2))
    options: dict = dict(head_dim=2, positions=3, mlp=None, rotation=(1.1,), score_table=2 * TABLE, zero_readout=True)

    def outputs(method: object, width: int | None = None, seed: int = 0, **changed: object) -> np.ndarray:
        net, how = tp.Transformer(**{**options, **changed}), dict(width=width, seed=seed) if width else {}
        return tp.train(net, task, tp.SGD(1.0), tp.DepthScaling(), 2, method=method, **how).outputs[1]

    limit = outputs(tp.methods.Particles(samples=2**14))
    real = np.array([outputs("dense", 512, seed) for seed in range(8)])
    error = real.std(axis=0, ddof=1) / 8**0.5
    assert np.abs(real.mean(axis=0) - limit).max() < 4 * error.max() < 0.16
    assert np.abs(outputs(tp.methods.Particles(samples=2**12), score_table=None) - limit).max() > 8 * error.max()


@pytest.mark.parametrize("options", [*BY_POSITION, {}, {"mlp": "glu", "causal": False},
                                     {"qk_norm": True, "head_dim": 4}, {"norm": "layer"},
                                     {"queries_per_key": 2}, {"tied": True}])
def test_plain_gradients_are_finite_differences(options: dict) -> None:
    """The reference itself."""
    plain = PlainTransformer(**{"head_dim": 4 if options.get("qk_norm") else 2, "eps": 0.6, **options})
    rng = np.random.default_rng(0)
    names = ["Wq", "Wk", "Wv", "Wo", "W1", "W2", *(["W3"] if plain.mlp == "glu" else [])]
    rows = dict.fromkeys(("Wk", "Wv"), 8 // plain.queries_per_key)
    w = {**{name: rng.standard_normal((2, rows.get(name, 8), 8)) / 3 for name in names},
         "U": rng.standard_normal((8, 2)), **({} if plain.tied else {"nV": rng.standard_normal((8, 2))})}
    xi, chi = rng.standard_normal((3, 2)), rng.standard_normal((3, 2))
    gradient = plain.gradients(w, xi, chi)
    for name in w:
        direction = rng.standard_normal(w[name].shape)
        h, along = 1e-4, [np.sum(chi * plain.forward({**w, name: w[name] + k * 1e-4 * direction}, xi)[0])
                          for k in (-2, -1, 1, 2)]
        slope = np.dot([1, -8, 8, -1], along) / (12 * h)
        assert abs(slope - np.sum(gradient[name] * direction)) < 1e-8, name


def outputs(net: tp.Transformer, inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return tp.train(net, tp.Sequences(inputs, targets), tp.SGD(0.5), tp.DepthScaling(), 2, width=8,
                    method="dense").outputs


def test_positions_are_alike_without_a_mask() -> None:
    data, order = task(), [2, 0, 1]
    net = tp.Transformer(head_dim=2, positions=3, causal=False)
    one = outputs(net, data.inputs, data.targets)
    other = outputs(net, data.inputs[:, :, order], data.targets[:, :, order])
    assert np.abs(one[:, :, order] - other).max() < 1e-12 < np.abs(one - other).max()


def test_the_future_is_not_read() -> None:
    data = task(1)
    later = data.inputs.copy()
    later[:, :, 2] += 1
    for causal in (True, False):
        net = tp.Transformer(head_dim=2, positions=3, causal=causal)
        before, after = (outputs(net, inputs, data.targets) for inputs in (data.inputs, later))
        changed = np.abs(before - after).max(axis=(0, 1, 3))
        assert (changed[:2].max() < 1e-14) == causal and changed[2] > 1e-3


@pytest.mark.parametrize("options", [
    {"head_dim": 2}, {"head_dim": 2, "queries_per_key": 2, "mlp": None},
    {"head_dim": 2, "rotation": 7.0, "score_table": TABLE[:, :2, :2], "mlp": None},
    pytest.param({"head_dim": 4, "qk_norm": True, "mlp": "glu"}, marks=pytest.mark.slow),
    pytest.param({"mlp": None, "causal": False}, marks=pytest.mark.slow)])
def test_statement_by_statement_is_the_lowered_form(options: dict) -> None:
    """Also with a batch, several inputs and outputs."""
    net, data = tp.Transformer(positions=2, **options), task(2, 2, 2)
    program = tp.program(net, tp.SGD(0.5), tp.DepthScaling(), True, 2, 2)
    what = {"T": 2, "L": 1, "B": 2, "P": 2}, {"xi": data.inputs, "y": data.targets}
    slow = run_program(program, *what, width=8)
    ends = {name: np.array([slow.vectors[v] for v in sorted(slow.vectors, key=str) if v.name == name])
            for name in ("U", "nV")}
    layers = {member.name: value[None] for member, value in slow.execution.matrices.items()}
    fast = run_dense(program, *what, width=8, weights={**ends, **layers})
    assert np.abs(slow.series("f") - fast.series("f")).max() < 1e-12


@pytest.mark.parametrize("options", [{}, {"queries_per_key": 2}, {"rotation": 7.0, "score_table": TABLE[:, :2, :2]}])
def test_the_three_readings_that_condition_take_heads(options: dict) -> None:
    """Draw by draw."""
    net, data = tp.Transformer(head_dim=2, positions=2, mlp=None, **options), task(2, 1, 2, 1)
    program = tp.program(net, tp.SGD(0.5), tp.DepthScaling(), False, 2)
    what = {"T": 2, "L": 1, "P": 2}, {"xi": data.inputs[:, 0], "y": data.targets[:, 0, :, 0]}
    one = run_conditioned(lowered_order(program), *what, width=64)
    assert np.abs(one.series("f") - conditioned(program, *what, width=64).series("f")).max() < 1e-10


def test_head_sums_are_blocks_of_ones() -> None:
    a = Family(Vector, "a")()
    assert HeadSum(a, 1) == a and HeadSum(sp.Integer(3), 4) == 12 and HeadSum(sp.Integer(0), 4) == 0
    with pytest.raises(ValueError, match="heads"):
        tp.kets(tp.program(tp.Transformer(head_dim=2), tp.SGD(), tp.DepthScaling()))
    assert HeadSum(sp.Integer(1), 4) == 4 and HeadSum(sp.Integer(0), 4, first_written=True) == 0
    shared = HeadSum(a, 2, 3, first_read=True)
    assert shared.adjoint(a) == HeadSum(a, 2, 3, first_written=True) and shared.adjoint(a).adjoint(a) == shared
    assert HeadSum(sp.Integer(3), 4, first_read=True) == 3 and shared.func(*shared.args) == shared
    for size in (0, 1.5, "2"):
        with pytest.raises(ValueError, match="size"):
            HeadSum(a, size)


@pytest.mark.parametrize("options, word", [
    ({"heads": 0}, "heads"), ({"head_dim": 1.5}, "head_dim"), ({"positions": 0}, "positions"),
    ({"norm": "batch"}, "norm"), ({"mlp": "post"}, "mlp"), ({"scale_power": 0.25}, "scale_power"),
    ({"qk_norm": True, "head_dim": 2}, "qk_norm"), ({"causal": 1}, "causal"), ({"attention": "linear"}, "attention"),
    ({"queries_per_key": 0}, "queries_per_key"), ({"queries_per_key": 3, "heads": 4}, "queries_per_key"),
    ({"queries_per_key": 2, "attention": lambda b: b.x}, "queries_per_key"),
    ({"rotation": 7.0}, "rotation"), ({"rotation": (1.0, 2.0), "head_dim": 2}, "rotation"),
    ({"rotation": -1.0, "head_dim": 2}, "rotation"), ({"rotation": (np.inf,), "head_dim": 2}, "rotation"),
    ({"rotation": 7.0, "head_dim": 2, "attention": lambda b: MatVec(b.weights(), b.x)}, "rotation"),
    ({"score_table": [1, 2]}, "score_table"), ({"score_table": np.zeros((3, 3))}, "score_table"),
    ({"score_table": TABLE[:, :2, :2], "heads": 3}, "score_table"), ({"score_table": "alibi"}, "score_table"),
    ({"score_table": np.full((2, 2), -np.inf)}, "score_table"),
    ({"phi": "sign of life"}, "phi"), ({"train_embedding_readout": None}, "train_embedding_readout")])
def test_what_is_no_transformer_is_refused(options: dict, word: str) -> None:
    with pytest.raises(ValueError, match=f"^{word}: .* expected"):
        tp.Transformer(**options)


def test_tasks_and_widths_fit_the_network() -> None:
    net, data = tp.Transformer(heads=4, head_dim=2, positions=3), task(1)
    how = tp.SGD(0.5), tp.DepthScaling()
    assert tp.train(net, data, *how, 2, method="dense").width == 8
    for change, word in (({"width": 16}, "width"), ({"task": tp.Task([1], [1])}, "task"),
                         ({"task": task(1, positions=2)}, "positions"), ({"net": tp.ResNet()}, "task")):
        with pytest.raises(ValueError, match=word):
            tp.Problem(**{"net": net, "task": data, "opt": how[0], "scale": how[1], "depth": 2, **change})
    with pytest.raises(ValueError, match="multiples of 3"):
        tp.train(tp.Transformer(head_dim=3, positions=3), data, *how, 2, method=tp.methods.Particles(samples=1024))


def test_adam_needs_an_eps_where_heads_share_keys() -> None:
    net, data = tp.Transformer(head_dim=2, positions=3, queries_per_key=2, mlp=None), task(2)
    run = tp.train(net, data, tp.Adam(0.1, eps=1e-6), tp.DepthScaling(), 1, width=8, method="dense")
    assert np.all(np.isfinite(run.outputs))
    with pytest.raises(ValueError, match="opt: .* share keys.* expected an eps"):
        tp.Problem(net, data, tp.AdamW(0.1), tp.DepthScaling(), 1)
    with pytest.raises(ValueError, match="width: got 6 .* 2 to a key; expected multiples of 4"):
        tp.Problem(net, data, tp.SGD(), tp.DepthScaling(), 1, 6)


@pytest.mark.parametrize("inputs, targets", [((1, 2, 3), (1, 2, 3)), ((1, 2, 3, 2), (1, 2, 2)),
                                             ((1, 2, 0, 2), (1, 2, 0)), ((1, 2, 3, 2), (1, 2, 3, 0))])
def test_what_is_no_sequence_is_refused(inputs: tuple, targets: tuple) -> None:
    with pytest.raises(ValueError, match="shape"):
        tp.Sequences(np.ones(inputs), np.ones(targets))


def test_gradients_that_would_be_lost_are_refused() -> None:
    def sum_inside(b):  # type: ignore[no-untyped-def]
        v = b.let("v", MatVec(b.weights("V"), b.x))
        return b.let("z", v / b.let_total("s", b.other(v)) + sp.Sum(b.other(v), (sp.Symbol("r"), 0, 2)))

    def product_elsewhere(b):  # type: ignore[no-untyped-def]
        return b.let_total("s", b.let("z", MatVec(b.weights("V"), b.other(b.x))))

    for attention in (sum_inside, product_elsewhere):
        with pytest.raises(ValueError, match="named|sum"):
            tp.program(tp.Transformer(positions=2, attention=attention, mlp=None), tp.SGD(), tp.DepthScaling())
    with pytest.raises(ValueError, match="without positions"):
        tp.ResNet(block=lambda b: b.other(b.x))


def test_norms_of_two_coordinates_are_refused_in_blocks_of_ones_own_too() -> None:
    for head_dim in (1, 2):
        with pytest.raises(ValueError, match=f"qk_norm: got True with head_dim={head_dim}"):
            tp.Transformer(head_dim=head_dim, qk_norm=True)
        with pytest.raises(ValueError, match=f"qk_norm: got True with head_dim={head_dim}"):
            tp.theory.softmax_attention(head_dim, sp.Rational(1, 2), qk_norm=True)
    tp.theory.softmax_attention(3, sp.Rational(1, 2), qk_norm=True)
