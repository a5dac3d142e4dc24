"""Infinitely many visits: networks in loop time, against references and finite numbers."""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.propagators.loop_time import train_in_loop_time

TASK = tp.Task([1, .8, -.6, 1.1], [1, -.7, .5, 1.2])


@pytest.mark.parametrize("c, lr, outputs, squares", [
    (1.0, 1.0, (1.272509483710, .134727176728, -.292517026279),
     (2.279585302336, 3.822879329745, .125576812542, .473626420753)),
    (2.0, .3, (2.342271636889, .009696974150, -.151562465012),
     (11.301921952136, 21.341345736446, 1.213746312839, 3.537342522734))])
def test_references(c: float, lr: float, outputs: tuple, squares: tuple) -> None:
    """c = 2 is a branch of 2, whose update L eps g N^2 is 2 of the learning rate."""
    found = train_in_loop_time(TASK, tp.SGD(lr), c**2, c)
    assert np.allclose(found.outputs[1:, 0, 0], outputs, rtol=0, atol=2e-11)
    assert np.allclose(found.squares[:, 0], squares, rtol=0, atol=2e-11)
    run = tp.train(tp.ResNet(visits=tp.oo), TASK, tp.SGD(lr), tp.DepthScaling(branch=c), depth=3)
    assert run.method == "loop_time" and np.allclose(run.outputs, found.outputs, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("scale, depth", [((.5, .5), 1), ((.5, .5), 3), ((1, 0), 2), ((.75, .5), 2)])
def test_it_is_the_limit_of_many_visits(scale: tuple, depth: int) -> None:
    """Batches, inputs and outputs, probes, momentum and decay; the distance falls like 1 / N."""
    rng = np.random.default_rng(1)
    task = tp.Task(rng.normal(size=(3, 2, 2)), rng.normal(size=(3, 2, 2)), probes=rng.normal(size=(1, 2)))
    opt = tp.SGD(0.3, momentum=0.5, weight_decay=0.1)
    limit = tp.train(tp.ResNet(visits=tp.oo), task, opt, tp.DepthScaling(*scale), depth=depth)
    runs = [tp.train(tp.ResNet(visits=visits), task, opt, tp.DepthScaling(*scale), depth=depth)
            for visits in (8, 16, 32)]
    for name in ("outputs", "probe_outputs"):
        far = [float(np.max(np.abs(getattr(run, name) - getattr(limit, name)))) for run in runs]
        assert far[0] > 1e-3 and all(1.7 < a / b < 2.3 for a, b in zip(far, far[1:]))


def test_at_infinite_depth() -> None:
    """The limit of many layers. Above alpha = 1/2 noise is gone; loops are no networks that visit layers once, since
    every layer learns what all loop times ask for."""
    for scale, power in ((tp.DepthScaling(1, 0), 1), (tp.DepthScaling(.75, .25), .5)):
        limit = tp.train(tp.ResNet(visits=tp.oo), TASK, tp.SGD(.5), scale, depth=tp.oo).outputs
        far = [np.max(np.abs(tp.train(tp.ResNet(visits=tp.oo), TASK, tp.SGD(.5), scale, depth=depth).outputs - limit))
               for depth in (10**4, 10**6)]
        assert abs(np.log(far[0] / far[1]) / np.log(100) - power) < 0.05
        once = tp.train(tp.ResNet(), TASK, tp.SGD(.5), scale, depth=tp.oo).outputs
        assert np.max(np.abs(once - limit)[:2]) < 1e-12 and np.max(np.abs(once - limit)[2:]) > 1e-3
    half = tp.DepthScaling()
    deep, shallow = (tp.train(tp.ResNet(visits=tp.oo), TASK, tp.SGD(1.0), half, depth=depth) for depth in (tp.oo, 5))
    assert np.max(np.abs(deep.outputs - shallow.outputs)) < 1e-12


def test_what_blows_up_is_said() -> None:
    with pytest.raises(tp.Divergence, match="step"):
        tp.train(tp.ResNet(visits=tp.oo), tp.Task(TASK.inputs * 40, TASK.targets * 1e8), tp.SGD(1e9), tp.DepthScaling(),
                 depth=2)
    with pytest.raises(tp.Divergence, match="alpha = 1/4"):
        tp.train(tp.ResNet(visits=tp.oo), TASK, tp.SGD(1.0), tp.DepthScaling(.25, .5), depth=tp.oo)


@pytest.mark.parametrize("how, said", [
    (dict(net=tp.ResNet("tanh", visits=tp.oo)), "visits=oo.*takes phi='linear'"),
    (dict(net=tp.ResNet(visits=tp.oo, inject=1)), "inject: got 'cycle' and 1"),
    (dict(opt=tp.Muon(.5)), "expected for a tp.Muon: a number of visits"),
    (dict(width=16), "width: got 16 with infinitely many visits"),
    (dict(method="particles"), "method='particles' takes a number"),
    (dict(net=tp.ResNet(visits=3), method="loop_time"), "visits: got 3; method='loop_time' takes infinitely many")],
    ids=["tanh", "inject", "muon", "width", "particles", "three"])
def test_refusals_are_of_the_call(how: dict, said: str) -> None:
    asked = {"net": tp.ResNet(visits=tp.oo), "task": TASK, "opt": tp.SGD(.5), "scale": tp.DepthScaling(), "depth": 2}
    with pytest.raises(tp.NotCovered, match=said):
        tp.train(**{**asked, **how})
