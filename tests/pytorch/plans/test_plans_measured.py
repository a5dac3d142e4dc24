"""What a plan is for: by how much three steps of Adam move outputs, over widths and depths, with it and without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
models = pytest.importorskip("support.pytorch.reading_models")
usual = pytest.importorskip("support.pytorch.torch_models")

pytestmark = pytest.mark.slow
MODELS = {"GPT": lambda depth, n: usual.GPT(depth, n), "residual MLP": lambda depth, n: usual.ResMLP(depth, n),
          "norm behind": models.normed_behind, "from zero": models.ZeroNet, "times sqrt(n)": models.Gemma,
          "alternating": models.Alternating, "mixer": models.Mixer, "encoder and decoder": models.EncoderDecoder}
STEPS, SEEDS = 3, 3


def batch_for(name: str) -> Any:
    draw = torch.Generator().manual_seed(0)
    return {"residual MLP": lambda: torch.randn(16, 5, generator=draw),
            "mixer": lambda: torch.randn(8, 3, 16, 16, generator=draw)}.get(
                name, lambda: torch.randint(17, (8, 8), generator=draw))()


def moved(name: str, base: dict[str, int], target: dict[str, int], planned: bool, seed: int) -> float:
    """Root mean square of what training changes of outputs."""
    make, batch = MODELS[name], batch_for(name)
    torch.manual_seed(seed)
    model = make(**target)
    groups: list[dict[str, Any]] = [{"params": list(model.parameters()), "lr": 3e-3}]
    if planned and base != target:
        plan = tpt.plan(make, base, target, batch=batch, optimizer="adam")
        groups = plan.groups(plan.init_(model), lr=3e-3)
        for module, factor in plan.multipliers().items():
            for one, found in model.named_modules():
                if plan.roles.layers.pattern(one) == module:
                    found.register_forward_hook(lambda _m, _a, out, factor=factor: out * factor)
    optimizer = torch.optim.Adam(groups, eps=1e-12)
    first = model(batch).detach()
    wanted = torch.randint(first.shape[-1], first.shape[:-1], generator=torch.Generator().manual_seed(1)).flatten()
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch).flatten(0, -2), wanted).backward()
        optimizer.step()
    return float((model(batch).detach() - first).square().mean().sqrt())


def slope(name: str, key: str, sizes: tuple[int, ...], planned: bool) -> float:
    """The power of the width, or depth, by which outputs move."""
    start = {"depth": 2, "n": 32}
    logs = [np.mean([np.log(moved(name, start, {**start, key: size}, planned, seed)) for seed in range(SEEDS)])
            for size in sizes]
    return float(np.polyfit(np.log(sizes), logs, 1)[0])


@pytest.mark.parametrize("name", MODELS)
def test_outputs_move_alike_over_widths(name: str) -> None:
    with_plan, without = (slope(name, "n", (32, 64, 128, 256), planned) for planned in (True, False))
    print(f"{name}: n^{with_plan:.2f} with the plan, n^{without:.2f} without")
    assert abs(with_plan) < 0.25 and (without > 0.5 or name == "norm behind")  # whose branches have a fixed size


@pytest.mark.parametrize("name", MODELS)
def test_outputs_move_alike_over_depths(name: str) -> None:
    with_plan, without = (slope(name, "depth", (2, 4, 8, 16), planned) for planned in (True, False))
    print(f"{name}: L^{with_plan:.2f} with the plan, L^{without:.2f} without")
    assert abs(with_plan) < 0.25 and (without > 0.3 or name in ("norm behind", "mixer"))  # whose scales are small
