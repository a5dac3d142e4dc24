"""What ``tpcalc.torch.transfer`` does not take, refused before any training."""

from __future__ import annotations

import math
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Iterator

import pytest

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")

from support.torch_transfers import Net, make_net, normal, product  # noqa: E402


def short_data(seed: int) -> Iterator[Any]:
    return iter([torch.ones(16, 2)] * 4)


ONCE = normal(0)


@pytest.mark.parametrize("given, said", [
    ({"make": 3}, "make: got 3; expected a function of the depth"),
    ({"make": lambda depth: "net"}, "make: it returned 'net' for"),
    ({"make": lambda depth: Net(2)}, "make: the model of depth 4 has the same parameters as the one before it"),
    ({"make": lambda depth: torch.nn.ReLU()}, "make: the model of depth 2 has no parameters that are trained"),
    ({"loss": lambda model, batch: model(batch)}, r"loss: it returned a tensor of shape \(16, 1\); expected"),
    ({"loss": lambda model, batch: 3.0}, "loss: it returned 3.0; expected"),
    ({"loss": lambda model, batch: model(batch).mean().detach()}, "loss: it returned a tensor without a gradient"),
    ({"loss": lambda model, batch: -product(model, batch)}, "loss: it is -.* at the start of depth 2; expected a"),
    ({"loss": lambda model, batch: product(model, batch) * math.nan}, "loss: it is nan at the start of depth 2"),
    ({"data": short_data}, "data: its batches for seed 0 end after 4; expected one a step, 6"),
    ({"data": lambda seed: ONCE}, "data: its batches for seed 0 differ from one call to the next"),
    ({"data": lambda seed: 3}, "data: it returned 3 for seed 0; expected an iterator"),
    ({"depths": [4, 2]}, r"depths: got \[4, 2\]; expected one or more growing depths"),
    ({"depths": 3}, "depths: got 3"),
    ({"learning_rates": [0.1, 0.01]}, r"learning_rates: got \[0.1, 0.01\]; expected growing positive numbers"),
    ({"learning_rates": [0.0, 0.01]}, "learning_rates: got"),
    ({"steps": 0}, "steps: got 0"), ({"seeds": 0}, "seeds: got 0"), ({"last": 7}, "last: got 7; expected at"),
    ({"base": 0}, "base: got 0"), ({"recipes": []}, r"recipes: got \[\]; expected names"),
    ({"recipes": ["sp", "sp"]}, "recipes: got .*; expected each once"), ({"recipes": ["spp"]}, ".*got 'spp'"),
    ({"optimizer": "adagrad"}, "optimizer: got 'adagrad'; expected 'adamw', 'adam', 'sgd'"),
    ({"optimizer": lambda groups: 3}, "optimizer: it returned 3; expected a function of parameter groups"),
    ({"optimizer": lambda groups: torch.optim.SGD([p for g in groups for p in g["params"]], lr=1.0)},
     "optimizer: it returned one with other groups or learning rates"),
    ({"optimizer": torch.optim.Rprop}, "optimizer: got one that returns Rprop, of whose updates no power"),
    ({"optimizer": "sgd", "recipes": ["completep"]}, "optimizer: got 'sgd'"),
    ({"weight_decay": -1}, "weight_decay: got -1"), ({"executor": 3}, "executor: got 3"),
    ({"progress": 3}, "progress: got 3"), ({"resume": 3}, "resume: got 3")])
def test_bad_input_is_refused_before_any_training(trained: list[Any], given: Any, said: str) -> None:
    asked: dict[str, Any] = {"make": make_net, "loss": product, "data": normal, "depths": [2, 4],
                             "learning_rates": [1e-3], "steps": 6, "recipes": ["sp", "completep"], "seeds": 1}
    with pytest.raises(ValueError, match="^" + said):
        tpt.transfer(**{**asked, **given})
    assert not trained


def test_processes_need_functions_of_modules() -> None:
    with ProcessPoolExecutor(1) as executor:
        with pytest.raises(ValueError, match="^loss: got <function .*, which other processes cannot be sent"):
            tpt.transfer(make_net, lambda model, batch: product(model, batch), normal, [2], [1e-3], 2, ["sp"],
                         executor=executor)
