"""Depth checks of live models: slopes, what departs and since when, and the exact limit of residual MLPs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tpcalc as tp

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
models = pytest.importorskip("support.pytorch.torch_models")


def adam(model: Any) -> Any:
    layers = len(model.layers)
    inside = [p for name, p in model.named_parameters() if name.startswith("layers.")]
    outside = [p for name, p in model.named_parameters() if not name.startswith("layers.")]
    return torch.optim.Adam([{"params": inside, "lr": 1e-3 * layers**-0.5, "eps": 1e-15 * layers**-0.5},
                             {"params": outside}], lr=1e-3, eps=1e-15)


def make(n_layer: int) -> Any:
    return models.ResMLP(n_layer, 48, m=n_layer**-0.5)


def test_right_and_wrong_training_and_their_picture() -> None:
    found = tpt.depth_check(make, adam, depths=(4, 8, 16), steps=3, seeds=2, recipe="depth-mup")
    assert found.verdict == "no quantity departs from its derived power of the depth"
    assert found.slopes["branch"][0].value == pytest.approx(-0.5, abs=0.1)
    assert found.slopes["effect"][0].value == pytest.approx(-1, abs=0.2)
    fixed = tpt.depth_check(make, lambda model: torch.optim.Adam(model.parameters(), lr=1e-3), depths=(4, 8, 16),
                            steps=3, seeds=2, recipe="depth-mup")
    assert not fixed.ok and "update, power of the depth -0." in fixed.verdict and "lacks a factor" in fixed.verdict
    assert [row["quantity"] for row in found.rows][0] == "stream" and "derived" in str(found)
    pytest.importorskip("matplotlib").use("Agg")
    axes = found.plot()
    assert len(axes[0].lines) >= 3 and axes[2].get_title() == "branch"


def test_the_exact_limit_of_a_residual_mlp() -> None:
    """The stream of a wide and deep network in torch is that of infinite width and depth, at every step."""
    steps, lr, xi, y = 4, 0.2, 1.2, -0.7
    run = tp.train(tp.ResNet(), tp.Task([xi] * steps, [y] * steps), tp.SGD(lr), tp.DepthScaling(), depth=tp.oo)

    class Linear(torch.nn.Module):
        def __init__(self, n_layer: int, n: int = 256) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(n, n, bias=False) for _ in range(n_layer))
            for layer in self.layers:
                torch.nn.init.normal_(layer.weight, std=n**-0.5)
            self.u, self.v, self.m = torch.randn(n), torch.randn(n), n_layer**-0.5

        def forward(self, x: Any) -> Any:
            x = x * self.u
            for layer in self.layers:
                x = x + self.m * layer(x)
            return x @ self.v / len(self.v)

    found = tpt.depth_check(Linear, lambda model: torch.optim.SGD(model.parameters(), lr=lr), depths=(8, 32),
                            steps=steps, seeds=4, batch=torch.tensor([[xi]]),
                            loss=lambda model, x: ((model(x) - y)**2).sum() / 2,
                            limit=run)
    deep = found.sizes["stream"][:, 1].mean(axis=0)
    assert found.limit is not None and np.abs(deep / found.limit - 1).max() < 0.1
    assert found.limit[0] == pytest.approx(xi * np.exp(0.5), rel=1e-6)
    assert found.outputs is not None and found.outputs.shape == (2, steps)
    first = np.abs(np.random.default_rng(1).standard_normal((100000, 4))).mean(axis=1) * xi * np.exp(0.5) / 256**0.5
    assert found.outputs[:, 0] == pytest.approx(np.quantile(first, (0.025, 0.975)), rel=0.08)
    size, (low, high) = found.sizes["output"][:, 1].mean(axis=0), found.outputs
    assert ((low < size) & (size < high))[:3].all()  # at step 3 the next order in 1/n is larger than this
    assert "what 95 of 100 of width 256" in str(found) and "at width 256 the next order" in str(found)
    pytest.importorskip("matplotlib").use("Agg")
    patch = found.plot()[5].patches[-1]
    low, high = patch.get_path().get_extents(patch.get_patch_transform()).intervaly
    assert (low, high) == pytest.approx(tuple(found.outputs[:, -1]))


def test_what_widths_do_is_said_to_be_unknown_where_it_is() -> None:
    run = tp.train(tp.ResNet("relu"), tp.Task([1.0], [1.0]), tp.SGD(0.2), tp.DepthScaling(), depth=tp.oo)
    found = tpt.depth_check(make, adam, depths=(2, 4), steps=1, seeds=1, limit=run)
    assert found.outputs is None and "is not known" in found.beside_limit


def test_what_is_no_run_is_refused() -> None:
    with pytest.raises(ValueError, match="^limit: got 3"):
        tpt.depth_check(make, adam, depths=(2, 4), steps=1, seeds=1, limit=3)
    run = tp.train(tp.ResNet(), tp.Task([1.0], [1.0]), tp.SGD(0.2), tp.DepthScaling(), depth=tp.oo)
    with pytest.raises(ValueError, match="^limit: got .* of 1 steps; expected .* of 2 steps or more"):
        tpt.depth_check(make, adam, depths=(2, 4), steps=2, seeds=1, limit=run)
