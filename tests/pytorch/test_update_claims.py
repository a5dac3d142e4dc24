"""Plans test themselves: one update at two sizes agrees, or the plan is refused with the parameter's name."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any, Callable

import pytest

import tpcalc as tp

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
read_models = pytest.importorskip("support.pytorch.reading_models")
usual = pytest.importorskip("support.pytorch.torch_models")
few_of = pytest.importorskip("support.nightly").few_of
update_claims = pytest.importorskip("tpcalc.torch.update_claims")

BASE, DEEPER, WIDER, LARGER = dict(depth=2, n=16), dict(depth=8, n=16), dict(depth=2, n=64), dict(depth=8, n=64)
MODELS: dict[str, Callable[..., Any]] = {
    "residual": usual.ResMLP, "alternating": read_models.Alternating, "from zero": read_models.ZeroNet,
    "mixer": read_models.Mixer}


OPTIMIZERS = ("adamw", "sgd", "lion", "muon")


@pytest.mark.parametrize("name, optimizer", few_of(
    product(MODELS, OPTIMIZERS), *product(MODELS, OPTIMIZERS[:1]), *product(["residual"], OPTIMIZERS)))
def test_right_plans_claim_that_updates_agree(name: str, optimizer: str) -> None:
    for target in (DEEPER, WIDER):
        plan = tpt.plan(MODELS[name], BASE, target, optimizer=optimizer)
        found = [claim for claim in plan.reading.claims if claim.statement == update_claims.UPDATE]
        assert found and all(claim.holds for claim in found)


def test_changes_beside_where_the_stream_begins_forget_what_it_has_grown_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a norm, a step of gradient descent changes the stream by the square of the branch's multiplier times what
    does not know the stream: so it does for branches that make it grow, and for those that do not."""
    sizes = update_claims.UpdateClaims._sizes
    found: list[dict[str, tuple[float, float]]] = []
    monkeypatch.setattr(update_claims.UpdateClaims, "_sizes",
                        lambda *arguments: found.append(sizes(*arguments)) or found[-1])
    changes = []
    for m in (0.5, 2.0):
        found.clear()
        tpt.plan(lambda depth, n: usual.ResMLP(depth, n, 1, m=m, norm=True, act=torch.nn.Identity), BASE, DEEPER,
                 optimizer="sgd")
        changes.append(found[1]["layers.*.2.weight"])  # of the target
    (front, begun), (larger_front, larger_begun) = changes
    assert abs(larger_begun / begun / 16 - 1) < 0.1 and larger_front / front < 8


def with_role(reading: Any, name: str, **changes: Any) -> Any:
    """A reading with a fault: what it says of one parameter is changed."""
    assert any(role.name == name for role in reading.roles)
    return replace(reading, roles=tuple(replace(role, **changes) if role.name == name else role
                                        for role in reading.roles))


def read(make: Any = usual.ResMLP, target: dict[str, int] = LARGER) -> Any:
    return tpt.read(make, BASE, target)


FAULTS: dict[str, tuple[dict[str, int], Callable[[Any], Any], str]] = {
    "fan-in that is said to stay": (WIDER, lambda found: with_role(with_role(
        found, "layers.0.0.weight", fan_in=1.0), "layers.1.0.weight", fan_in=1.0),
        r"layers.\d.\d.weight; mm in layers"),
    "a head's fan-in that is said to stay": (WIDER, lambda found: with_role(found, "out.weight", fan_in=1.0),
                                             "out.weight; addmm in out"),
    "a number of the forward pass that is not there": (WIDER, lambda found: with_role(
        found, "read_in.weight", forward=4.0), "(read_in.weight; addmm|stream 0|layers)"),
    "ends that are lost": (DEEPER, lambda found: replace(found, branches=tuple(
        replace(one, ends=()) for one in found.branches)), r"layers.\d.\d.weight; mm in layers")}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_reading_with_a_fault_makes_no_plan(fault: str) -> None:
    target, spoil, named = FAULTS[fault]
    assert tpt.plan(usual.ResMLP, BASE, target, reading=read(target=target)) is not None
    with pytest.raises(tp.NotCovered, match=f"^{named}.* does not hold that (one update|what enters)"):
        tpt.plan(usual.ResMLP, BASE, target, reading=spoil(read(target=target)))


def test_a_role_that_is_given_wrongly_makes_no_plan() -> None:
    with pytest.raises(tp.NotCovered, match=r"^layers.\d.\d.weight; mm in layers.* one update"):
        tpt.plan(usual.ResMLP, BASE, WIDER, roles={"layers.*.0.weight": "gain"})
    with pytest.raises(tp.NotCovered, match="^lm_head.weight; mm in lm_head.* one update"):
        tpt.plan(usual.GPT, dict(n_layer=2, n=16), dict(n_layer=2, n=64), roles={"lm_head.weight": "bias"})


class Misplaced(usual.ResMLP):  # type: ignore[misc,name-defined]
    """The forward pass of one branch knows how wide the model is, by a function that no reading looks into."""

    def forward(self, x: Any) -> Any:
        x = self.read_in(x)
        for i, layer in enumerate(self.layers):
            y = layer(x)
            x = x + (torch.lerp(torch.zeros_like(y), y, y.shape[-1] / 16) if i == 0 else y)
        return self.out(x)


def test_a_multiplier_that_a_reading_does_not_see_makes_no_plan() -> None:
    with pytest.raises(tp.NotCovered, match=r"^layers.0.\d.weight; mm in layers.* one update"):
        tpt.plan(Misplaced, BASE, WIDER)


def test_parameters_that_stay_as_in_the_base_are_not_claimed() -> None:
    """Those that are not understood."""
    given = {"out.weight": "stream mixing"}
    with pytest.raises(tp.NotCovered, match="^out.weight: got stream mixing"):
        tpt.plan(usual.ResMLP, BASE, WIDER, roles=given)
    plan = tpt.plan(usual.ResMLP, BASE, WIDER, roles=given, unknown="as-base")
    updates = [claim for claim in plan.reading.claims if claim.statement == update_claims.UPDATE]
    assert updates and not any(claim.about.startswith("out.weight") for claim in updates)
