"""Both first steps of an audit, at gradients and at stronger ones, start from the same weights."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
measuring = pytest.importorskip("tpcalc.torch.measuring")
usual = pytest.importorskip("support.pytorch.torch_models")


class Relative(torch.optim.Optimizer):  # type: ignore[misc,name-defined]
    """Every weight moves by half of itself, whatever the size of its gradient."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.5})

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p.mul_(1 - group["lr"] * p.grad.sign())


def test_the_degree_of_steps_that_go_with_weights_is_zero() -> None:
    sizes = [{"depth": 2}, {"depth": 4}]
    script = measuring.Script.of(lambda depth: usual.ResMLP(depth, 16), lambda model: Relative(model.parameters()),
                                 None, None, *sizes, "depth")
    degrees = [size for (quantity, _), size in measuring.sizes_of_update(script, sizes[0], 0).items()
               if quantity == "degree"]
    assert degrees == [pytest.approx(0, abs=1e-6)] * 6
