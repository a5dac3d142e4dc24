"""Trainings of figures are the library's, and their losses are kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.figures import trainings
from tpcalc.figures.images import Characters, Images
from tpcalc.figures.trainings import RealTraining, losses_of

pytest.importorskip("sklearn")
ONE = RealTraining(tp.ResNet("relu"), tp.Adam(0.5, eps=1e-8), tp.DepthScaling(), 4, 8, Images(steps=6, batch=4), 1)
EXPLODES = replace(ONE, opt=tp.SGD(1e4), scale=tp.DepthScaling(0, 0))


def test_losses_are_those_of_tp_train() -> None:
    task = ONE.data.task(1)
    run = tp.train(ONE.net, task, ONE.opt, ONE.scale, 4, 8, method=tp.methods.Dense(seed=1, dtype="float32"))
    assert ONE.losses() == run.losses.tolist() and len(ONE.losses()) == 6
    other = replace(ONE, seed=2).losses()
    assert other[0] != ONE.losses()[0] and other == replace(ONE, seed=2).losses()


def test_what_blows_up_has_the_losses_before() -> None:
    """And none after: the step where it happens and all later ones are infinite."""
    found = losses_of(np.array([ONE, EXPLODES], dtype=object))
    assert np.isfinite(found[0]).all() and found.shape == (2, 6)
    known = np.isfinite(found[1])
    assert 0 < known.sum() < 6 and not known[known.sum():].any()
    first = known.sum()
    assert found[1, :first].tolist() == EXPLODES.run(first).losses.tolist()
    with pytest.raises(tp.Divergence):
        EXPLODES.run(6)


def test_schedules_blow_up_too() -> None:
    one = replace(EXPLODES, opt=tp.SGD(tuple(1e4 / (t + 1) for t in range(6))))
    known = np.array(one.losses(), dtype=float)
    assert 0 < np.isfinite(known).sum() < 6 and known[0] == EXPLODES.losses()[0]


def test_finished_trainings_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    several = np.array([[replace(ONE, seed=seed, opt=tp.SGD(rate)) for seed in range(2)] for rate in (0.1, 1.0, 1e6)],
                       dtype=object)
    with ThreadPoolExecutor(2) as executor:
        found = losses_of(several, executor, tmp_path)
    monkeypatch.setattr(trainings.RealTraining, "losses", lambda self: pytest.fail("it was trained again"))
    assert np.array_equal(losses_of(several, None, tmp_path), found) and found.shape == (3, 2, 6)


def test_keys_tell_trainings_apart(tmp_path: Path) -> None:
    """So does the data's content, under one name: files change."""
    np.savez(tmp_path / "own.npz", images=np.eye(9), labels=np.arange(9) % 3)
    others = [replace(ONE, **change) for change in (
        {"seed": 2}, {"depth": 5}, {"width": 9}, {"opt": tp.Adam(0.25, eps=1e-8)}, {"net": tp.ResNet("abs")},
        {"scale": tp.DepthScaling(1, 0)}, {"data": Images(steps=7, batch=4)},
        {"data": Images(str(tmp_path / "own.npz"), 6, 4)})]
    assert len({one.key() for one in [ONE, *others]}) == len(others) + 1 and ONE.key() == replace(ONE).key()


def test_costs_grow_with_what_is_multiplied() -> None:
    twice = [replace(ONE, depth=8), replace(ONE, data=Images(steps=12, batch=4)),
             replace(ONE, net=tp.ResNet("relu", "mlp"))]
    assert {one.cost / ONE.cost for one in twice} == {2.0} and replace(ONE, width=16).cost == 4 * ONE.cost
    text = replace(ONE, net=tp.Transformer(heads=2, head_dim=4, positions=4), data=Characters(6, 4, 4))
    assert text.cost == ONE.cost * 4 * 6


def test_text_is_trained_on() -> None:
    net, opt = tp.Transformer(heads=2, head_dim=4, positions=4), tp.Adam(0.1, eps=1e-8)
    one = RealTraining(net, opt, tp.DepthScaling(), 2, 8, Characters(steps=4, batch=2, positions=4))
    assert np.isfinite(np.array(one.losses(), dtype=float)).all()
    assert one.losses()[:2] == one.run(2).losses.tolist()
