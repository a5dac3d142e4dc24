"""Plans of live models for other batches and steps, and for weights on spheres."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import tpcalc as tp  # noqa: E402
import tpcalc.torch as tpt  # noqa: E402
from torch import nn  # noqa: E402

HORIZON = dict(batch_size=(512, 1024), steps=(10_000, 40_000), u=1)


class Net(nn.Module):
    def __init__(self, depth: int, n: int = 32) -> None:
        super().__init__()
        self.emb, self.head = nn.Linear(3, n), nn.Linear(n, 1)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n)) for _ in range(depth))

    def forward(self, x: Any) -> Any:
        x = self.emb(x)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


def test_factors_multiply_those_of_the_depth(tmp_path: Path) -> None:
    plain = tpt.plan(Net, dict(depth=4), dict(depth=8), optimizer="adamw")
    longer = tpt.plan(Net, dict(depth=4), dict(depth=8), optimizer="adamw", horizon=HORIZON, x=0.3)
    said = tp.transfer_rule("adamw", x="0.3", u=1).factors(2, 4)
    for name in ("layers.0.0.weight", "emb.weight"):
        for setting, key in (("lr", "rate"), ("weight_decay", "decay")):
            ratio = longer.entry(name).factor(setting) / plain.entry(name).factor(setting)
            assert ratio == pytest.approx(float(said[key]), rel=1e-12)
    longer.save(tmp_path / "plan.json")
    assert tpt.load(tmp_path / "plan.json").entries == longer.entries
    assert "40000 steps of 1024 samples" in longer.explain(tmp_path / "plan.md")
    model = longer.apply_(Net(8))
    groups = longer.groups(model, lr=1e-3, weight_decay=0.1)
    assert longer.check(torch.optim.AdamW(groups))["lr"] == pytest.approx(1e-3)


def test_a_family_has_the_horizon_too() -> None:
    family = tpt.plan(Net, base=dict(depth=4), horizon=HORIZON, x=0.3)
    assert family.at(depth=4).entry("layers.0.0.weight").factor("lr") == pytest.approx(2**0.2 * 4**-0.3)
    with pytest.raises(tp.NotCovered, match="x: needed for the rate"):
        tpt.plan(Net, dict(depth=4), dict(depth=8), horizon=dict(batch_size=(512, 1024), steps=(10_000, 40_000)))


@pytest.mark.parametrize("optimizer", ("muonh", "adamh"))
def test_spheres(optimizer: str) -> None:
    """Claims on one update hold at both depths, of steps that are relative."""
    found = tpt.plan(Net, dict(depth=4), dict(depth=16), optimizer=optimizer)
    assert found.reading is not None and all(claim.holds for claim in found.reading.claims)
    muon = tpt.plan(Net, dict(depth=4), dict(depth=16), optimizer="muon")
    for name in ("layers.0.0.weight", "layers.0.2.weight"):
        assert found.entry(name).moved(optimizer) == pytest.approx(muon.entry(name).factor("lr"))
    wide = tpt.plan(Net, dict(depth=2), dict(depth=2, n=128), optimizer=optimizer, data="fixed")
    assert wide.entry("layers.0.0.weight").factor("lr") == pytest.approx(0.5)


class Stacked(nn.Module):
    """Four matrices a layer, one for every position."""

    def __init__(self, depth: int = 2, n: int = 16) -> None:
        super().__init__()
        self.emb, self.head = nn.Linear(3, n), nn.Linear(n, 5)
        self.w = nn.ParameterList([nn.Parameter(torch.randn(4, n, n) / n**0.5) for _ in range(depth)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.emb(x).transpose(0, 1)
        for w in self.w:
            h = h + torch.bmm(torch.tanh(h), w)
        return self.head(h)


def test_the_least_dimension_of_a_stack_is_not_that_of_its_matrices() -> None:
    given = dict(base=dict(depth=2), target=dict(depth=4), optimizer="muon", batch=torch.randn(2, 4, 3),
                 horizon=dict(batch_size=(8, 16), steps=(200, 100)))
    with pytest.raises(tp.NotCovered, match=r"w.*of shape \(4, 16, 16\) with data='width'; kernels meet"):
        tpt.plan(Stacked, **given, data="width")
    assert tpt.plan(Stacked, **given, data="fixed").entry("w.0").power("lr") == "L^(-1) B^(1/2)"


class OnSpheres(torch.optim.Optimizer):
    """Steps relative to Frobenius norms, which are restored; signs stand for AdamW outside of layers."""

    orthogonal = True

    def __init__(self, groups: Any, lr: float = 1e-3) -> None:
        super().__init__(groups, dict(lr=lr, sphere=True))

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if not group["sphere"]:
                    p.sub_(group["lr"] * p.grad.sign())
                    continue
                u, values, v = torch.linalg.svd(p.grad, full_matrices=False)
                kept = values > 1e-5 * values[0]
                step = u[:, kept] @ v[kept] if self.orthogonal else p.grad.sign()
                norm = p.norm()
                p.sub_(group["lr"] * norm * step / step.norm())
                p.mul_(norm / p.norm())


class MuonH(OnSpheres):
    pass


class AdamH(OnSpheres):
    orthogonal = False


@pytest.mark.parametrize("kind, optimizer", [(MuonH, "muonh"), (AdamH, "adamh")])
def test_audits_of_optimizers_on_spheres(kind: type[OnSpheres], optimizer: str) -> None:
    """With the plan's groups, at other depths and widths; and without the plan."""
    batch = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))  # of a fixed rank
    family = tpt.plan(Net, base=dict(depth=4), optimizer=optimizer, data="fixed")
    found = tpt.audit(family, family.trainer(kind, lr=1e-3), depth_key="depth", widths=(32, 128), width_key="n",
                      batch=batch)
    assert found.ok, str(found)

    def written(model: nn.Module) -> OnSpheres:
        inside = {True: [], False: []}
        for name, parameter in model.named_parameters():
            inside["layers" in name and parameter.dim() == 2].append(parameter)
        return kind([{"params": parameters, "sphere": there} for there, parameters in inside.items()], lr=1e-3)

    without = tpt.audit(Net, written, depth_key="depth", recipe="depth-mup", widths=(32, 128), width_key="n",
                        batch=batch)
    said = str(without)
    assert not without.ok and "update, power of the depth" in said and "update, power of the width" in said
