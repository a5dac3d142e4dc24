"""Transformers by the equations of attention, against sampled ones, and what the method does not take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tpcalc as tp

RNG = np.random.default_rng(11)
PAIRS = tp.Sequences(RNG.normal(size=(2, 1, 2, 2)), RNG.normal(size=(2, 1, 2)))
BATCH = tp.Sequences(RNG.normal(size=(2, 2, 2, 2)), RNG.normal(size=(2, 2, 2)))
THREE = tp.Sequences(RNG.normal(size=(3, 1, 3, 2)), RNG.normal(size=(3, 1, 3, 2)))
DRAWS = tp.methods.CommonDraws(budget=1e5, coarsest=4, samples=1536)

CASES: dict[str, tuple[tp.Transformer, tp.Sequences, tp.SGD, tp.DepthScaling]] = {
    "attention alone": (tp.Transformer(head_dim=2, mlp=None), PAIRS, tp.SGD(0.7), tp.DepthScaling()),
    "gated, momentum, decay": (tp.Transformer(head_dim=2, mlp="swiglu", mlp_ratio=2), PAIRS,
                               tp.SGD(0.3, momentum=0.5, weight_decay=0.1), tp.DepthScaling()),
    "all positions, keys shared": (tp.Transformer(head_dim=2, causal=False, queries_per_key=2, scale_power=1,
                                                  norm="layer", phi="tanh"), PAIRS, tp.SGD(0.5), tp.DepthScaling()),
    "batches, a multiplier": (tp.Transformer(head_dim=3, phi="relu"), BATCH, tp.SGD(0.7),
                              tp.DepthScaling(branch=0.7)),
    "three steps, two outputs": (tp.Transformer(head_dim=1, positions=3, mlp=None), THREE, tp.SGD(0.3),
                                 tp.DepthScaling())}


@pytest.mark.parametrize("name", [name if name == "batches, a multiplier" else pytest.param(
    name, marks=pytest.mark.slow) for name in CASES])
def test_equations_and_draws_are_two_readings_of_one_limit(name: str) -> None:
    problem = tp.Problem(*CASES[name], depth=tp.oo)
    solved = tp.train(problem, method=tp.methods.Attention(tolerance=0.01, scrambles=4))
    drawn = tp.train(problem, method=DRAWS)
    assert solved.standard_error is not None and drawn.standard_error is not None and drawn.bias_bound is not None
    apart = np.abs(solved.outputs - drawn.outputs)
    print(f"\n{name}: largest output {np.abs(solved.outputs).max():.3f}, known to {solved.error_estimate:.4f}, "
          f"draws to {drawn.error_estimate:.4f}, apart {apart.max():.4f}")
    assert np.all(apart <= 4 * np.hypot(drawn.standard_error, solved.standard_error) + drawn.bias_bound
                  + solved.error_estimate)
    assert np.abs(solved.outputs).max() > 6 * solved.error_estimate


def test_few_rows_are_for_the_equations_and_many_for_draws() -> None:
    def chosen(task: tp.Sequences, **options: Any) -> str | None:
        net = tp.Transformer(head_dim=2, positions=task.positions, **options)
        return tp.methods.table(tp.Problem(net, task, tp.SGD(0.5), tp.DepthScaling(), depth=tp.oo)).chosen

    long = tp.Sequences(RNG.normal(size=(3, 2, 3, 2)), RNG.normal(size=(3, 2, 3)))
    assert chosen(PAIRS) == chosen(THREE) == "attention" and chosen(long) == "common_draws"
    assert chosen(PAIRS, gains=True) == "common_draws"


@pytest.mark.parametrize("change, said", [
    ({"net": tp.Transformer(gains=True, qk_norm=True)}, "does not know gains, qk_norm"),
    ({"net": tp.Transformer(norm=None)}, "norms before sublayers"),
    ({"net": tp.Transformer(norm_position="sandwich")}, "does not know norm_position"),
    ({"net": tp.Transformer(train_embedding_readout=True)}, "train_embedding_readout"),
    ({"net": tp.Transformer(mlp=lambda b: b.x)}, "these sublayers"),
    ({"scale": tp.DepthScaling(1, 0)}, "alpha = gamma = 1/2"),
    ({"scale": tp.Parametrization(depth={"alpha": "1/2", "Wq": "3/4", "gamma": "1/2"})}, "one for all"),
    ({"opt": tp.SignSGD()}, "takes a tp.SGD"), ({"opt": tp.SGD(1.0, weight_decay=2.0)}, "positive part")])
def test_what_is_not_taken_is_refused_by_name(change: dict[str, Any], said: str) -> None:
    whole = {"net": tp.Transformer(head_dim=2), "task": PAIRS, "opt": tp.SGD(0.5), "scale": tp.DepthScaling(), **change}
    refused = tp.methods.Attention().refuses(tp.Problem(**whole, depth=tp.oo))
    assert refused is not None and said in refused


def test_the_tolerance_decides_how_many_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpcalc.methods.attention.FEWEST", 16)
    monkeypatch.setattr("tpcalc.methods.attention.MOST", 64)
    problem = tp.Problem(*CASES["attention alone"], depth=tp.oo)
    few, many = (tp.train(problem, method=tp.methods.Attention(tolerance, 4)) for tolerance in (1.0, 1e-9))
    assert " 16 points" in few.notes[0] and len(few.notes) == 1
    assert " 64 points" in many.notes[0] and "is not reached with 64 points" in many.notes[1]
    assert np.abs(many.outputs - few.outputs).max() < few.error_estimate
