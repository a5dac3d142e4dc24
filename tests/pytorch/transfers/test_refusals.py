"""What ``tpcalc.torch.transfer`` does not take, refused before any training."""

from __future__ import annotations

import math
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
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


def seeded(depth: int) -> Any:
    torch.manual_seed(0)
    return Net(depth)


def one_batch(seed: int) -> Iterator[Any]:
    return normal(0)


def with_eps(optimizer: Any, eps: float) -> Any:
    for group in optimizer.param_groups:
        group["eps"] = eps
    return optimizer


@pytest.mark.parametrize("given, said", [
    ({"make": 3}, "make: got 3; expected a function of the depth"),
    ({"make": lambda depth: "net"}, "make: it returned 'net' for"),
    ({"make": lambda depth: Net(2)}, "make: the model of depth 4 has the same parameters and loss as the one before"),
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
     "optimizer: it returned one with other groups or settings"),
    ({"optimizer": torch.optim.Rprop}, "optimizer: got one that returns Rprop, of whose updates no power"),
    ({"optimizer": "sgd", "recipes": ["completep"]}, "optimizer: got 'sgd'"),
    ({"optimizer": lambda groups: torch.optim.AdamW(groups, weight_decay=0.5)}, "optimizer: it sets weight_decay=0.5"),
    ({"optimizer": lambda groups: with_eps(torch.optim.Adam(groups), 1.0)},
     "optimizer: it returned one with other groups or settings"),
    ({"optimizer": torch.optim.RAdam}, "optimizer: got one that returns RAdam, of whose updates no power"),
    ({"make": lambda depth: torch.nn.Sequential(torch.nn.LazyLinear(1))}, "make: 0.weight of the model of depth 2 has"),
    ({"loss": lambda model, batch: product(model, batch) * 1j}, "loss: it returned a complex number"),
    ({"loss": lambda model, batch: product(model, batch) * np.random.default_rng().uniform()},
     "loss: it is .* and then .* for the same model and batch"),
    ({"make": seeded, "data": one_batch, "seeds": 2}, "seeds: got 2, and nothing that differs between seeds 0 and 1"),
    ({"roles": ["emb"]}, r"roles: got \['emb'\]; expected"),
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


class Repeated(Net):
    """One block, applied as often as the depth says: the parameters of all depths are the same."""

    def __init__(self, depth: int) -> None:
        super().__init__(1)
        self.depth = depth

    def forward(self, x: Any) -> Any:
        x = self.emb(x)
        for _ in range(self.depth):
            x = x + self.layers[0](x)
        return self.head(x)


def test_one_block_that_is_applied_several_times_is_trained_as_it_is_made_or_planned() -> None:
    """Plans know visits of one block; what was published for layers of their own does not."""
    found = tpt.transfer(lambda depth: Repeated(depth), product, normal, [2, 4], [1e-3], 2, ["sp", "depth-mup"])
    assert np.isfinite(found.losses).all() and found.losses[0, 1, 0, 0] != found.losses[1, 1, 0, 0]
    with pytest.raises(tp.NotCovered, match="visited once"):
        tpt.transfer(lambda depth: Repeated(depth), product, normal, [2, 4], [1e-3], 2, ["completep"])


def test_a_loss_that_is_negative_for_another_seed_is_refused() -> None:
    def loss(model: Any, batch: Any) -> Any:
        return product(model, batch) * (1 if float(batch[0, 0]) == first else -1)

    first = float(next(normal(0))[0, 0])
    with pytest.raises(ValueError, match="^loss: it is -.* at the start of depth 2, seed 1; expected a positive"):
        tpt.transfer(make_net, loss, normal, [2], [1e-3], 1, ["sp"], seeds=2)


def test_the_optimizers_own_eps_is_that_of_the_base() -> None:
    """At every depth groups have the eps of the function times what the recipe says."""
    def seen(eps: float) -> list[float]:
        made: list[float] = []

        def optimizer(groups: Any) -> Any:
            found = torch.optim.AdamW(groups, eps=eps)
            made.extend(group["eps"] for group in found.param_groups)
            return found
        tpt.transfer(make_net, product, normal, [2, 8], [1e-3], 2, ["depth-mup"], optimizer, seeds=1)
        return made

    usual, large = (np.array(seen(eps)) for eps in (1e-8, 1e-2))
    assert large[1:] == pytest.approx(1e6 * usual[1:]) and set(np.round(usual / 1e-8, 3)) >= {1.0, 0.5}


def test_adam_with_decoupled_decay_is_adamw() -> None:
    def decoupled(groups: Any) -> Any:
        return torch.optim.Adam(groups, decoupled_weight_decay=True)

    one, other = (tpt.transfer(make_net, product, normal, [2, 8], [1e-2], 4, ["depth-mup"], law, weight_decay=0.1)
                  for law in (decoupled, "adamw"))
    assert np.array_equal(one.losses, other.losses)


def test_another_process_has_to_start_from_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a worker that was made by importing this file anew, which has not what was set since."""
    runs, begun = (pytest.importorskip(f"tpcalc.torch.{name}") for name in ("training_runs", "begun"))
    script = runs.TrainingScript(runs.OfDepth(make_net), scaled, normal, torch.optim.AdamW, 2, 1, 0.0)
    starts = {2: begun.first_of(script, 2, next(normal(0)))}
    here = begun.Begun.here(script, starts)
    there = replace(here, process=("elsewhere", 1))
    there.require(script, 2)
    monkeypatch.setitem(SETTINGS, "scale", 2.0)
    here.require(script, 2)
    there.require(script, 2)  # it has been looked at
    with pytest.raises(ValueError, match="^loss: in another process it is written otherwise, or reads other values"):
        replace(here, process=("elsewhere", 2)).require(script, 2)
    monkeypatch.setitem(SETTINGS, "scale", 1.0)
    with pytest.raises(ValueError, match="^loss: in another process trainings at depth 2 start otherwise"):
        replace(here, process=("elsewhere", 3), starts=((2, (starts[2][0], 2 * starts[2][1])),)).require(script, 2)


SETTINGS = {"scale": 1.0}


def scaled(model: Any, batch: Any) -> Any:
    return SETTINGS["scale"] * product(model, batch)
