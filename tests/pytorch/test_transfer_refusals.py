"""What ``tpcalc.torch.transfer`` does not take, refused before any training."""

from __future__ import annotations

import math
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Iterator

import numpy as np
import pytest

import tpcalc as tp

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")

from support.torch_transfers import Net, make_net, normal, product  # noqa: E402


def short_data(seed: int) -> Iterator[Any]:
    return iter([torch.ones(16, 2)] * 4)


ONCE = normal(0)
ONE = Net(2)


@pytest.mark.parametrize("given, said", [
    ({"make": 3}, "make: got 3; expected a function of the depth"),
    ({"make": lambda depth: "net"}, "make: it returned 'net' for"),
    ({"make": lambda depth: Net(2)}, "make: the model of depth 4 has the same parameters as the one before it"),
    ({"make": lambda depth: torch.nn.ReLU()}, "make: the model of depth 2 has no parameters that are trained"),
    ({"make": lambda depth: ONE}, "make: two models of depth 2 have a parameter in common; expected a new model"),
    ({"loss": lambda model, batch: product(model, batch.mul_(2))}, "loss: it changes its batch; expected"),
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
        with pytest.raises(ValueError, match="^loss: got <function .*, which other processes cannot find by its name"):
            tpt.transfer(make_net, lambda model, batch: product(model, batch), normal, [2], [1e-3], 2, ["sp"],
                         executor=executor)


def test_what_only_a_plan_refuses_is_refused_before_any_training(trained: list[Any]) -> None:
    def of(model: Any, **options: Any) -> None:
        tpt.transfer(model, product, normal, [2, 4], [1e-3], 4, ["sp", "depth-mup"], **options)

    class Shared(Net):
        def forward(self, x: Any) -> Any:
            x = self.emb(x)
            for _ in self.layers:
                x = x + self.layers[0](x)
            return self.head(x)

    class Plain(Net):
        def forward(self, x: Any) -> Any:
            x = self.emb(x)
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    with pytest.raises(ValueError, match="^weight_decay: got 0.1 with adam"):
        of(make_net, optimizer="adam", weight_decay=0.1)
    for model in (Shared, Plain):
        with pytest.raises(tp.NotCovered):
            of(lambda depth, model=model: model(depth))
        assert not trained
    found = tpt.transfer(lambda depth: Plain(depth), product, normal, [2, 4], [1e-3], 4, ["sp"])
    assert found.losses.shape == (1, 2, 1, 3) and len(trained) == 6


def test_values_that_are_not_torchs_are_refused(trained: list[Any]) -> None:
    def make(depth: int) -> Any:
        model = Net(depth)
        model.head.weight.data.copy_(torch.from_numpy(np.random.default_rng().normal(size=(1, 8))))
        return model

    with pytest.raises(ValueError, match="^make: its parameters for depth 2 differ from one call to the next"):
        tpt.transfer(make, product, normal, [2], [1e-3], 2, ["sp"])
    assert not trained


def test_what_a_plan_takes_for_granted_is_said() -> None:
    found = tpt.transfer(make_net, product, normal, [2, 4], [1e-3], 2, ["completep"], weight_decay=0.1)
    assert all(note.startswith("completep: ") for note in found.notes)
    unused = tpt.transfer(lambda depth: WithUnused(depth), product, normal, [2, 4], [1e-3], 2, ["depth-mup"],
                          unknown="as-base")
    assert any("unused" in note for note in unused.notes) and "note: depth-mup: " in str(unused)
    with pytest.raises(tp.NotCovered, match="got unused"):
        tpt.transfer(lambda depth: WithUnused(depth), product, normal, [2, 4], [1e-3], 2, ["depth-mup"])


class WithUnused(Net):
    def __init__(self, depth: int) -> None:
        super().__init__(depth)
        self.more = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(depth))
