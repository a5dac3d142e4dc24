"""Plans, audits, depth checks and sweeps are printed in a line and in full, and go through pickle."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tpcalc.groups import plan_shapes

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
models = pytest.importorskip("support.pytorch.torch_models")
LONGEST = 420


def make(n_layer: int) -> Any:
    return models.ResMLP(n_layer, 16, m=n_layer**-0.5)


def adam(model: Any) -> Any:
    return torch.optim.Adam(model.parameters(), lr=1e-3)


def loss(model: Any, batch: Any) -> Any:
    return model(batch).square().mean()


def data(seed: int) -> Any:
    return torch.ones(2, 4, 5)


def shapes(depth: int) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in make(depth).named_parameters()}


RESULTS = {"plan": lambda: tpt.plan(make, dict(n_layer=2), dict(n_layer=4)),
           "plan of shapes": lambda: plan_shapes(shapes(2), shapes(4)),
           "audit": lambda: tpt.audit(make, adam, depths=(2, 4)),
           "depth check": lambda: tpt.depth_check(make, adam, depths=(2, 4), steps=1, seeds=1),
           "sweep": lambda: tpt.transfer(make, loss, data, [2, 4], [1e-3, 1e-2, 1e-1], 2, ["sp", "ode"], seeds=2)}


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_printed_and_pickled(name: str) -> None:
    found = RESULTS[name]()
    assert len(repr(found)) <= LONGEST and "\n" not in repr(found) and " object at 0x" not in repr(found)
    assert repr(found).startswith(type(found).__name__ + "(") and str(found) != repr(found)
    assert found._repr_html_().count("<tr>") == len(found.rows) + 1
    again = pickle.loads(pickle.dumps(found))
    assert type(again) is type(found) and repr(again.rows) == repr(found.rows)
    assert (str(again), repr(again)) == (str(found), repr(found))
