"""Audits and depth checks of models whose forward pass comes back to layers."""

from __future__ import annotations

from typing import Any, Callable

import pytest

import tpcalc as tp

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
Loop: Any = pytest.importorskip("support.pytorch.looped").Loop
nn = torch.nn
ALSO = ("adamw", "sgd")


class Multiplied(Loop):
    """Branches times N^power / L^(1/2)."""

    def __init__(self, power: float, layers: int = 2, visits: int = 2, row: bool = False, once: int = 0) -> None:
        super().__init__(layers, visits, row=row, once=once)
        self.multiplier = visits**power * layers**-0.5

    def forward(self, x: Any) -> Any:
        x = self.read(x)
        for block in (*self.first, *(self.blocks[number] for number in self.way)):
            x = x + self.multiplier * block(x)
        return self.write(x)


def script(kind: str, rate: float = 0.0) -> Callable:
    """AdamW, or gradient descent, with rates of layers times N^rate, and Adam's times L^(-1/2)."""
    def optimizer(model: Multiplied) -> Any:
        layers = len(model.blocks)
        lr = 0.01 * (len(model.way) / layers)**rate * (layers**-0.5 if kind == "adamw" else 1.0)
        inside = {id(p) for p in model.blocks.parameters()}
        groups = [{"params": [p for p in model.parameters() if (id(p) in inside) == some], "lr": lr if some else 0.01,
                   "eps": 1e-12 * layers**(-0.5 * some)} for some in (True, False)]
        return torch.optim.SGD(groups) if kind == "sgd" else torch.optim.AdamW(groups, weight_decay=0.0)
    return optimizer


def audited(power: float, rate: float, kind: str, recipe: str | None, key: str = "visits", row: bool = False) -> Any:
    return tpt.audit(lambda **size: Multiplied(power, row=row, **size), script(kind, rate), depths=(2, 8),
                     recipe=recipe, depth_key=key)


@pytest.mark.parametrize("row", [False, True])
@pytest.mark.parametrize("key", ["visits", "layers"])
@pytest.mark.parametrize("optimizer", ALSO)
def test_planned_loops_pass(optimizer: str, key: str, row: bool) -> None:
    """Powers of N over visits, at a depth, and of L over layers, at a number of visits."""
    family = tpt.plan(Loop, base=dict(layers=2, visits=2, row=row), optimizer=optimizer)
    found = tpt.audit(family, depths=(2, 8), depth_key=key)
    assert found.ok, str(found)
    expected = {"branch": -1.0 if key == "visits" else -0.5, "update": -1.0}
    size = "visits" if key == "visits" else "depth"
    for quantity, power in expected.items():
        values = [one.value for (name, p), one in found.powers.items()
                  if name == f"{size} {quantity}" and "blocks" in p]
        assert len(values) == 2 and all(abs(value - power) < 0.12 for value in values), values


@pytest.mark.parametrize("recipe", ["depth-mup", None])
@pytest.mark.parametrize("kind", ALSO)
def test_scripts_over_visits(kind: str, recipe: str | None) -> None:
    assert audited(-1, 0, kind, recipe).ok and audited(-1, 0, kind, recipe, row=True).ok
    assert audited(-1, 0, kind, recipe, "layers").ok


FAULTS = {"(N L)^(-1/2)": (-0.5, 0, "branch", "multiplier is missing or too large"),
          "DeepNorm": (-0.75, 0, "branch", "missing or too large"),
          "no multiplier": (0, 0, "branch", "missing or too large"),
          "rate over N": (-1, -1, "update", "smaller than|vanish with the number of visits"),
          "rates grow": (-1, 0.5, "update", "lacks a factor")}


@pytest.mark.parametrize("power, rate, quantity, cause, kind, recipe", [
    pytest.param(*fault, kind, recipe, id=f"{name}-{kind}-{recipe}", marks=[pytest.mark.nightly] * ((i + j + k) % 2))
    for i, (name, fault) in enumerate(FAULTS.items()) for j, kind in enumerate(ALSO)
    for k, recipe in enumerate(("depth-mup", None))])  # every run has all pairs
def test_faults_over_visits_are_found(power: float, rate: float, quantity: str, cause: str, kind: str,
                                      recipe: str | None) -> None:
    found = audited(power, rate, kind, recipe)
    some = [one for one in found.findings if one.quantity == f"{quantity}, power of the number of visits"]
    assert some and any(part in some[0].cause for part in cause.split("|")), str(found)
    assert all(one.expected == -1 for one in some)
    if quantity == "update":
        assert not any(one.quantity.startswith("branch") for one in found.findings)


@pytest.mark.parametrize("rate, said", [(-1, "goes with the number of visits as"), (1, "grows with the number of v")])
def test_rates_outside_of_layers_that_go_with_visits_are_said_to(rate: int, said: str) -> None:
    def of(model: Multiplied) -> Any:
        visits = len(model.way) / len(model.blocks)
        return torch.optim.AdamW(model.parameters(), lr=0.01 * visits**rate, eps=1e-12, weight_decay=0)

    found = tpt.audit(lambda visits: Multiplied(-1, visits=visits), of, depths=(2, 8), recipe="depth-mup",
                      depth_key="visits")
    assert any(one.pattern == "read.weight" and f"its learning rate {said}" in one.cause for one in found.findings)


def test_eps_and_decay_over_visits() -> None:
    """Gradients are sums over visits: neither eps nor what Adam adds of weights to them depends on N."""
    def optimizer(rate: float, decay: float, eps: float) -> Callable:
        def of(model: Multiplied) -> Any:
            visits, inside = len(model.way) / len(model.blocks), {id(p) for p in model.blocks.parameters()}
            groups = [{"params": [p for p in model.parameters() if (id(p) in inside) == some],
                       "eps": 1e-9 * visits**eps if some else 1e-12, "lr": 0.01 * visits**(rate * some),
                       "weight_decay": 0.1 * visits**(decay * some)} for some in (True, False)]
            return torch.optim.AdamW(groups)
        return of

    def quantities(*powers: float) -> set[str]:
        found = tpt.audit(lambda visits: Multiplied(-1, visits=visits), optimizer(*powers), depths=(2, 8),
                          recipe="depth-mup", depth_key="visits")
        return {one.quantity.partition(",")[0] for one in found.findings}
    assert quantities(0, 0, 0) == set()
    assert quantities(0, 0, 1) == {"eps over gradients"}
    assert quantities(0, 1, 0) == {"decay a step"}


@pytest.mark.parametrize("key", ["visits", "layers"])
def test_depth_checks_of_planned_loops(key: str) -> None:
    family = tpt.plan(Loop, base=dict(layers=2, visits=2))
    found = tpt.depth_check(family, depths=(2, 4, 8), depth_key=key, steps=3, seeds=3)
    assert found.ok, str(found)
    power = dict(visits=("N", -1.0, 0.0, "the number of visits"), layers=("L", -0.5, -1.0, "the depth"))[key]
    assert (found.grows, found.derived["branch"], found.derived["effect"]) == power[:3] and power[3] in found.verdict


def test_depth_checks_over_visits_find_what_grows_in_training() -> None:
    found = tpt.depth_check(lambda visits: Multiplied(-0.5, visits=visits), script("adamw"), depths=(2, 4, 8, 16),
                            steps=2, depth_key="visits", recipe="depth-mup")
    assert "stream departs from step 0 on: N^(0." in str(found.departure)
    assert "branch, power of the number of visits -0.5" in found.verdict


@pytest.mark.parametrize("make, said", [
    (lambda n_layer: Multiplied(-1, visits=n_layer, once=2), "a matrix that 2 layers share, and others that 1 share"),
    (lambda n_layer: Multiplied(-1, n_layer, n_layer), "layers grow in number and are visited more often")],
    ids=["layers in front of the loop", "both"])
def test_what_is_not_covered_is_refused(make: Callable, said: str) -> None:
    for ask in (tpt.audit, tpt.depth_check):
        with pytest.raises(tp.NotCovered, match=said):
            ask(make, script("adamw"), depths=(2, 8))
    with pytest.raises(tp.NotCovered, match="recipe: got 'completep', which was published for layers that are visited"):
        audited(-1, 0, "adamw", "completep")


class PerVisit(Loop):
    """A gain of its own at every visit, and one bias that all layers and visits share."""

    def __init__(self, visits: int) -> None:
        super().__init__(visits=visits)
        self.gains = nn.ParameterList(nn.Parameter(torch.ones(32)) for _ in self.way)
        self.bias = nn.Parameter(torch.zeros(32))

    def forward(self, x: Any) -> Any:
        x = self.read(x)
        for gain, number in zip(self.gains, self.way):
            x = x + self.blocks[number](x * gain + self.bias) * 2 / len(self.way)
        return self.write(x)


def test_vectors_that_are_shared_otherwise_are_not_measured() -> None:
    found = tpt.audit(PerVisit, lambda model: torch.optim.Adam(model.parameters(), eps=1e-12), depths=(2, 8),
                      depth_key="visits")
    assert found.ok and any(one.startswith("bias: several layers use it") for one in found.not_checked)
    assert found.powers["visits update", "gains.*"].value == pytest.approx(-1, abs=0.15)
