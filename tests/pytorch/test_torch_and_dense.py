"""A residual network in torch and tp.methods.Dense train alike from the same weights: practice and theory are tied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tpcalc as tp

torch = pytest.importorskip("torch")

ACTIVATIONS = {"linear": lambda x: x, "tanh": torch.tanh, "relu": torch.relu,
               "gelu": torch.nn.functional.gelu}


class Residual(torch.nn.Module):
    """x + eps block(x), read in by U and out by V / n, as tp.ResNet has it, in double precision."""

    def __init__(self, weights: dict[str, Any], phi: str, eps: float) -> None:
        super().__init__()
        self.fixed = {name: torch.tensor(weights[name]) for name in ("U", "nV")}
        self.matrices = torch.nn.ParameterList([torch.tensor(w) for name, w in sorted(weights.items())
                                                if name not in ("U", "nV")])
        self.phi, self.eps = ACTIVATIONS[phi], eps

    def forward(self, xi: Any) -> Any:
        x = xi @ self.fixed["U"].reshape(-1, self.fixed["nV"].shape[-1])
        for layer in zip(*self.matrices):
            y = x
            for i, w in enumerate(layer):
                y = (self.phi(y) if i else y) @ w.T
            x = x + self.eps * y
        return x @ self.fixed["nV"].reshape(-1, x.shape[-1]).T / x.shape[-1]


@pytest.mark.parametrize("phi, block, matrices", [
    ("linear", "post_nonlin", 1), ("tanh", "mlp", 2), ("gelu", "mlp", 2), ("relu", "mlp", 3)])
def test_torch_trains_as_dense_does(phi: str, block: str, matrices: int) -> None:
    """Outputs of every step, to 1e-10."""
    rng = np.random.default_rng(1)
    net = tp.ResNet(phi, block) if matrices < 3 else tp.ResNet(phi, block, matrices=matrices)
    task = tp.Task(rng.normal(size=(6, 3, 2)), rng.normal(size=(6, 3, 1)))
    lr, depth, width, scale = 0.5, 5, 24, tp.DepthScaling("1/2", "1/3")
    run = tp.train(net, task, tp.SGD(lr), scale, depth, width, method="dense", seed=3)
    model = Residual(run.initial_weights(), phi, scale.multiplier(depth))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr * scale.update_size(depth) / scale.multiplier(depth))
    outputs = []
    for inputs, targets in zip(task.inputs, task.targets):
        f = model(torch.tensor(np.asarray(inputs)))
        outputs.append(f.detach().numpy())
        loss = ((f - torch.tensor(np.asarray(targets)))**2).sum() / 2 / len(f)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert np.abs(np.array(outputs) - run.outputs).max() < 1e-10
    assert np.abs(np.diff(run.losses)).max() > 1e-3
