"""``tpcalc.torch.transfer``: an optimum known by hand, plans that are really applied, sweeps that are stopped."""

from __future__ import annotations

import math
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")

from support.torch_transfers import (  # noqa: E402
    Net, Sum, make_net, make_noisy, make_normed, make_sum, normal, ones, product, small, square)
from tpcalc.studies.written_code import code_of  # noqa: E402


def by_hand(**options: Any) -> Any:
    return tpt.transfer(make_sum, square, ones, **{
        "depths": [2, 4, 8], "learning_rates": 2.0 ** np.arange(-6.125, 0.9, 0.25), "steps": 4, "last": 1,
        "recipes": ["sp"], "optimizer": "sgd", **options})


def test_an_optimum_that_is_known() -> None:
    """f = sum of w, one step multiplies f - y by 1 - depth lr: the loss is |1 - depth lr|^(2 steps) times the first,
    least at lr = 1 / depth, above twice the first from depth lr = 2 on."""
    found = by_hand(seeds=2)
    torch.manual_seed(0)
    first = float((sum(Sum(2).weights) - 3.0).detach()**2 / 2)
    for k, rate in enumerate(found.learning_rates):
        expected = first * (1 - 2 * rate)**(2 * 3)
        if expected < 2 * first:
            assert found.losses[0, 0, k, 0] == pytest.approx(expected, rel=1e-4, abs=1e-10)
    offs = np.log2(found.optima[0] * found.depths)
    assert np.abs(offs).max() < 0.125 and np.abs(found.shifts[0] - [0, -1, -2]).max() < 0.05
    assert found.moves == {"sp": "yes"} and "from depth 2 to 8 it moves by -2.0" in found.reasons["sp"]
    assert np.all(np.abs(offs) <= found.errors[0]) and np.all(found.errors < 0.05) and found.bracketed.all()


def test_a_training_that_diverges_is_stopped_where_it_does() -> None:
    """At depth lr = 3 a step doubles the distance, at 2.3 it makes 1.3 times as much; losses are its square."""
    found = by_hand(depths=[2], learning_rates=[0.5, 1.15, 1.5], seeds=1, steps=6)
    assert found.diverged == {(0, 0, 1, 0): 2, (0, 0, 2, 0): 1}
    assert found.losses[0, 0, :, 0].tolist()[1:] == [math.inf, math.inf] and math.isfinite(found.losses[0, 0, 0, 0])
    assert "2 of 3" in str(found)
    infinite = by_hand(depths=[2], learning_rates=[0.5, 1e38], seeds=1)
    assert infinite.diverged == {(0, 0, 1, 0): 1}


@pytest.mark.parametrize("recipe, branch, layers, eps", [
    ("sp", 0, 0, 0), ("depth-mup", -0.5, -0.5, -0.5), ("completep", -1, 0, -1)])
@pytest.mark.parametrize("optimizer, make", [("adamw", make_net), ("adam", make_net), ("adamw", make_normed)])
def test_recipes_are_really_applied(recipe: str, branch: float, layers: float, eps: float, optimizer: str,
                                    make: Any) -> None:
    """A plain loop, the branch multiplier in the forward pass, powers of depth / base written by hand."""
    steps, base, depth, rate, seed, ratio = 5, 2, 8, 2e-3, 1, 4.0
    decay = 0.1 if optimizer == "adamw" else 0.0
    found = tpt.transfer(make, product, normal, [depth], [rate], steps, [recipe], optimizer, seeds=2, base=base,
                         last=1, weight_decay=decay)
    torch.manual_seed(seed)
    start = make(base)
    torch.manual_seed(seed)
    model = make(depth)
    if recipe != "sp":  # sizes are those of the base, layers of one kind together
        kinds = [(lambda net: [net.emb.weight]), (lambda net: [net.emb.bias]), (lambda net: [net.head.weight]),
                 (lambda net: [net.head.bias]), (lambda net: [one[0].weight for one in net.layers]),
                 (lambda net: [one[2].weight for one in net.layers])]
        with torch.no_grad():
            for kind in kinds:
                old, new = (torch.cat([p.detach().flatten() for p in kind(net)]).double().square().mean().sqrt()
                            for net in (start, model))
                for p in kind(model):
                    p.mul_(float(old / new))
    inside = list(model.layers.parameters())
    outside = {True: [model.emb.weight, model.head.weight], False: [model.emb.bias, model.head.bias]}
    whole = eps if recipe == "completep" else 0  # its eps is one for all parameters
    trainer = getattr(torch.optim, "AdamW" if optimizer == "adamw" else "Adam")([
        {"params": inside, "lr": rate * ratio**layers, "eps": 1e-8 * ratio**eps,
         "weight_decay": decay * ratio**-layers},
        {"params": outside[True], "lr": rate, "eps": 1e-8 * ratio**whole, "weight_decay": decay},
        {"params": outside[False], "lr": rate, "eps": 1e-8 * ratio**whole, "weight_decay": 0.0}])
    for batch, _ in zip(normal(seed), range(steps)):
        x = model.emb(batch)
        for layer in model.layers:
            x = x + ratio**branch * layer(x)
        value = (model.head(x) - batch.prod(dim=1, keepdim=True)).square().mean()
        trainer.zero_grad()
        value.backward()
        trainer.step()
    assert found.losses[0, 0, 0, seed] == pytest.approx(float(value.detach()), rel=2e-5)


def test_recipes_differ_away_from_the_base_and_share_their_trainings_there(trained: list[Any]) -> None:
    found = small()
    assert np.array_equal(found.losses[0, 0], found.losses[1, 0])
    assert not np.isclose(found.losses[0, 1], found.losses[1, 1], rtol=1e-3).any()
    assert len(trained) == 4 + 2 * 4 and len(set(map(id, trained))) == len(trained)


@pytest.mark.parametrize("make", [make_net, make_noisy])
def test_the_same_seeds_give_the_same_numbers(make: Any) -> None:
    asked = make, product, normal, [2, 4], [1e-3, 1e-2], 6, ["sp", "completep"]
    before = torch.get_rng_state()
    first = tpt.transfer(*asked, seeds=2)
    assert torch.equal(before, torch.get_rng_state())
    torch.randn(3)
    second = tpt.transfer(*asked, seeds=3)
    assert np.array_equal(first.losses, second.losses[..., :2])
    assert len(set(second.losses[0, 0, 0])) == 3


@pytest.mark.parametrize("pool", ["threads", "processes"])
@pytest.mark.parametrize("make", [make_net, make_noisy])
def test_an_executor_changes_nothing(pool: str, make: Any) -> None:
    told: list[tuple[int, int]] = []
    asked = make, product, normal, [2, 4], [1e-3, 1e-2], 6, ["sp", "completep"]
    alone = tpt.transfer(*asked, seeds=2)
    with ThreadPoolExecutor(4) if pool == "threads" else ProcessPoolExecutor(2) as executor:
        spread = tpt.transfer(*asked, seeds=2, executor=executor, progress=lambda *at: told.append(at))
    assert np.array_equal(alone.losses, spread.losses) and told[-1] == (12, 12)


class Nadam(torch.optim.NAdam):
    """Has the step of its base."""


@pytest.mark.parametrize("kind", [torch.optim.RAdam, Nadam], ids=lambda kind: kind.__name__)
def test_optimizers_are_the_same_before_and_after_the_first_one_is_made(kind: Any) -> None:
    """A process may have made one, and another one may not."""
    before = code_of(kind)
    held = set(vars(kind))
    kind([torch.nn.Parameter(torch.zeros(1))])
    assert set(vars(kind)) != held or kind is not Nadam
    assert code_of(kind) == before


@pytest.mark.slow
def test_a_dask_client_is_an_executor() -> None:
    distributed = pytest.importorskip("dask.distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            assert np.array_equal(small(executor=client).losses, small().losses)


def test_a_sweep_that_was_stopped_goes_on_where_it_was(tmp_path: Path, trained: list[Any]) -> None:
    def stop(done: int, total: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small(resume=tmp_path, progress=stop)
    assert len(trained) == 5
    whole = small(resume=tmp_path)
    assert len(trained) == 12
    assert np.array_equal(whole.losses, small().losses)
    more = small(resume=tmp_path, depths=[2, 8], learning_rates=[1e-3, 1e-2, 0.1])
    fresh = trained[24:]
    assert len(fresh) == 2 * 3 * 2 + 2 and {run.depth for run in fresh} == {2, 8}
    assert np.array_equal(more.losses[:, 0, :2], whole.losses[:, 0])


def test_diverged_trainings_are_kept_too(tmp_path: Path, trained: list[Any]) -> None:
    first, second = (by_hand(depths=[2], learning_rates=[0.5, 1.5], seeds=1, resume=tmp_path) for _ in range(2))
    assert len(trained) == 2 and first.diverged == second.diverged != {}


def other(model: Any, batch: Any) -> Any:
    return (model(batch) - batch.prod(dim=1, keepdim=True)).abs().mean()


def wider(depth: int) -> Any:
    return Net(depth, 12)


@pytest.mark.parametrize("changed, value", [
    ("loss", other), ("make", wider), ("data", lambda seed: (2 * one for one in normal(seed))), ("steps", 7),
    ("last", 3), ("optimizer", "sgd"), ("weight_decay", 0.1)])
def test_what_decides_losses_is_refused_in_the_folder_of_others(
        tmp_path: Path, trained: list[Any], changed: str, value: Any) -> None:
    asked: dict[str, Any] = {"make": make_net, "loss": product, "data": normal, "depths": [2], "learning_rates": [1e-3],
                             "steps": 6, "recipes": ["sp"], "seeds": 1, "last": 2}
    tpt.transfer(**asked, resume=tmp_path)
    tpt.transfer(**asked, resume=tmp_path)
    assert len(trained) == 1
    with pytest.raises(ValueError, match=f"^{changed}: got .*; expected what they were begun with, or another folder"):
        tpt.transfer(**{**asked, changed: value}, resume=tmp_path)


def test_what_a_function_closes_over_is_noticed_where_training_starts(tmp_path: Path) -> None:
    """The code of both is the same, and what it reads is in an object that is not looked into."""
    def of(target: Any) -> Any:
        held = iter([target] * 1000)

        def loss(model: Any, batch: Any) -> Any:
            return (model(batch) - next(held)).square().mean()
        return loss

    asked: Any = make_net, [2], [1e-3], 2
    tpt.transfer(asked[0], of(1.0), normal, *asked[1:], recipes=["sp"], resume=tmp_path)
    with pytest.raises(ValueError, match="^loss: got one with which training at depth 2 starts otherwise"):
        tpt.transfer(asked[0], of(2.0), normal, *asked[1:], recipes=["sp"], resume=tmp_path)


def test_one_depth_one_rate_and_one_seed() -> None:
    found = small(depths=[3], learning_rates=[1e-3], seeds=1)
    assert found.moves == {"sp": "not resolved", "completep": "not resolved"} and not found.bracketed.any()
    assert np.isnan(found.errors).all() and found.optima.tolist() == [[1e-3], [1e-3]] and "not resolved" in str(found)
    assert [row["depth"] for row in found.rows] == [3, 3]


def test_functions_of_groups_are_optimizers() -> None:
    own = small(optimizer=lambda groups: torch.optim.AdamW(groups, betas=(0.9, 0.999)))
    assert np.array_equal(own.losses, small().losses)
    momentum = small(optimizer=lambda groups: torch.optim.SGD(groups, momentum=0.9), recipes=["sp", "depth-mup"])
    assert np.isfinite(momentum.losses).all()
    other = tpt.transfer(make_net, product, normal, [2], [1e-3], 2, ["sp"], torch.optim.Rprop)
    assert np.isfinite(other.losses).all()


class Shifted(Net):
    def forward(self, x: Any, shift: Any) -> Any:
        return super().forward(x + shift)


def test_a_batch_is_what_the_model_is_called_with() -> None:
    """Data of pairs, which loss hands on by name: plans read the model on that, and not by names and shapes."""
    def pairs(seed: int) -> Iterator[Any]:
        return ((x, x.prod(dim=1, keepdim=True)) for x in normal(seed))

    def loss(model: Any, batch: Any) -> Any:
        return (model(x=batch[0], shift=torch.zeros(2)) - batch[1]).square().mean()

    found = tpt.transfer(lambda depth: Shifted(depth), loss, pairs, [2, 4], [1e-3, 1e-2], 6, ["sp", "completep"],
                         seeds=2)
    assert np.array_equal(found.losses, small().losses) and not any("run on a batch" in note for note in found.notes)


def test_the_picture() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    found = by_hand(seeds=2)
    axes = found.plot()
    assert [axis.get_title() for axis in axes] == ["sp: moves? yes"]
    assert [text.get_text() for text in axes[0].get_legend().get_texts()] == ["L = 2", "L = 4", "L = 8"]
    with pytest.raises(ValueError, match="^axes: got 2; expected as many as recipes, 1"):
        found.plot(pyplot.subplots(1, 2)[1])
    pyplot.close("all")


def test_parameters_that_are_tied_are_trained_once() -> None:
    models = pytest.importorskip("support.pytorch.torch_models")

    def tokens(seed: int) -> Iterator[Any]:
        draw = torch.Generator().manual_seed(seed)
        return (torch.randint(17, (4, 9), generator=draw) for _ in range(4))

    def loss(model: Any, batch: Any) -> Any:
        return torch.nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())

    found = tpt.transfer(lambda depth: models.GPT(depth, tied=True), loss, tokens, [2, 4], [1e-3, 1e-2], 4,
                         ["sp", "depth-mup", "completep"], seeds=2)
    assert np.isfinite(found.losses).all()


def test_a_batch_that_is_hard_is_no_training_that_diverges() -> None:
    """The loss of the third batch is 100 times that of others, before any step as after it."""
    def uneven(seed: int) -> Iterator[Any]:
        return ((10.0 if number == 2 else 1.0) * torch.ones(1).double() for number in range(4))

    def loss(model: Any, batch: Any) -> Any:
        return (batch * (model(torch.ones(1).double()) - 3.0)).square().mean()

    found = tpt.transfer(make_sum, loss, uneven, [2], [1e-6, 10.0], 4, ["sp"], "sgd", seeds=1)
    assert np.isfinite(found.losses[0, 0, 0]).all() and found.diverged == {(0, 0, 1, 0): 1}
