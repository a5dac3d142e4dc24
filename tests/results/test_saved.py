"""Runs of sequences come back from their files with what was trained, and train as before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.models.convolution import Convolution

RNG = np.random.default_rng(0)
NETS = {
    "transformer": tp.Transformer(heads=4, head_dim=2, positions=4, norm="layer", mlp="glu", scale_power=1, tied=True,
                                  queries_per_key=2, train_embedding_readout=True, phi="relu"),
    "convolution": tp.Transformer(positions=4, attention=Convolution((2, 2), (1, 1), "circular", "post"), mlp=None)}


@pytest.mark.parametrize("name", NETS)
def test_a_saved_run_of_sequences_loads_by_itself(name: str, tmp_path: Path) -> None:
    task = tp.Sequences(RNG.standard_normal((2, 1, 4, 2)), np.eye(2)[RNG.integers(2, size=(2, 1, 4))], "softmax")
    opt = tp.Clipped(tp.Adam(0.1, eps=1e-3), 0.5)
    run = tp.train(NETS[name], task, opt, tp.DepthScaling(), 2, width=8, method="dense")
    run.save(tmp_path / "run.npz")
    back = tp.Run.load(tmp_path / "run.npz")
    assert back == run and (back.problem.net, back.problem.opt) == (NETS[name], opt)
    assert np.array_equal(tp.train(back.problem, method="dense").outputs, run.outputs)


def test_a_sublayer_of_ones_own_needs_its_problem(tmp_path: Path) -> None:
    from tpcalc.programs.language import MatVec
    net = tp.Transformer(positions=2, attention=lambda b: MatVec(b.weights("A"), b.x), mlp=None)
    run = tp.train(net, tp.Sequences(np.ones((1, 1, 2, 1)), np.ones((1, 1, 2))), tp.SGD(), tp.DepthScaling(), 1,
                   width=4, method="dense")
    run.save(tmp_path / "run.npz")
    with pytest.raises(ValueError, match="problem: got None, .*attention"):
        tp.Run.load(tmp_path / "run.npz")
    assert tp.Run.load(tmp_path / "run.npz", run.problem) == run
