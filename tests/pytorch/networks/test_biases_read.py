"""Biases of models and of the networks that they are read as: which are the same, how they start, and what is said."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

import tpcalc as tp

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")

F, nn = torch.nn.functional, torch.nn
DEPTH, N, RATE = 2, 16, 0.1
Branch = Callable[[Any, Any, int], Any]


class Model(nn.Module):  # type: ignore[misc,name-defined]
    """A stream x + branch(model, x, layer); biases b, c, gains g of every layer, and one bias of all layers."""

    def __init__(self, branch: Branch, start: float = 0.0, depth: int = DEPTH) -> None:
        super().__init__()
        self.branch, self.depth = branch, depth
        self.read_in, self.out = nn.Linear(3, N, bias=False), nn.Linear(N, 2, bias=False)
        self.one, self.two = (nn.ParameterList(torch.randn(N, N) / 4 for _ in range(depth)) for _ in "12")
        self.b, self.c, self.g = (nn.ParameterList(torch.full((N,), value) for _ in range(depth))
                                  for value in (start, start, 1.0))
        self.shared = nn.Parameter(torch.full((N,), start))

    def forward(self, x: Any) -> Any:
        x = self.read_in(x)
        for layer in range(self.depth):
            x = x + self.branch(self, x, layer)
        return self.out(x)


def mlp(b: Any, c: Any = None) -> Branch:
    """Biases as functions of the model and the layer."""
    return lambda m, x, l: F.linear(torch.tanh(F.linear(x, m.one[l], b(m, l))), m.two[l], c(m, l) if c else None)


def normed(inside: Callable[[Any, Any, int], Any]) -> Branch:
    return lambda m, x, l: torch.tanh(inside(m, F.layer_norm(x, (N,), eps=1e-9), l) @ m.one[l].T) @ m.two[l].T


KEPT: dict[str, tuple[Branch, Any]] = {
    "linear": (mlp(lambda m, l: m.b[l], lambda m, l: m.c[l]), True),
    "sums behind products": (lambda m, x, l: torch.tanh(x @ m.one[l].T + m.b[l]) @ m.two[l].T + m.c[l], True),
    "one sum": (lambda m, x, l: torch.tanh(x @ m.one[l].T + m.b[l]) @ m.two[l].T, ("W1",)),
    "behind a gain": (normed(lambda m, x, l: x * m.g[l] + m.b[l]), ("norm",)),
    "behind a norm": (normed(lambda m, x, l: x + m.b[l]), ("norm",))}
LEFT: dict[str, Branch] = {
    "times 3": mlp(lambda m, l: 3 * m.b[l]),
    "a function": mlp(lambda m, l: torch.tanh(m.b[l])),
    "of all layers": mlp(lambda m, l: m.shared),
    "of all norms": normed(lambda m, x, l: x * m.g[l] + m.shared),
    "of a norm and a product": lambda m, x, l: torch.tanh(F.linear(F.layer_norm(x, (N,), m.g[l], m.b[l]), m.one[l],
                                                                   m.b[l])) @ m.two[l].T,
    "in front of a gain": normed(lambda m, x, l: (x + m.b[l]) * m.g[l]),
    "behind a function": lambda m, x, l: (torch.tanh(x @ m.one[l].T) + m.b[l]) @ m.two[l].T,
    "times 3 behind a product": lambda m, x, l: torch.tanh(torch.add(x @ m.one[l].T, m.b[l], alpha=3)) @ m.two[l].T}


def read(branch: Branch, start: float = 0.0) -> Any:
    batch = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    return tpt.read(lambda depth: Model(branch, start, depth), dict(depth=DEPTH), batch=batch).to_network()


@pytest.mark.parametrize("name", KEPT)
def test_model_and_network_train_alike(name: str) -> None:
    """Three steps of gradient descent, vectors by n times the rate of matrices."""
    branch, biases = KEPT[name]
    found, rng = read(branch), np.random.default_rng(0)
    assert found.network.biases == biases and not any("bias" in one for one in found.left_out)
    x, y = rng.normal(size=(3, 2, 3)), rng.normal(size=(3, 2, 2))
    run = tp.train(found.network, tp.Task(x, y), tp.SGD(RATE), tp.DepthScaling(0, 0), DEPTH, N, method="dense")
    start, model = run.initial_weights(), Model(branch).double()
    with torch.no_grad():
        model.read_in.weight.copy_(torch.tensor(start["U"].T))
        model.out.weight.copy_(torch.tensor(start["nV"] / N))
        for layer in range(DEPTH):
            model.one[layer].copy_(torch.tensor(start["W1"][layer]))
            model.two[layer].copy_(torch.tensor(start["W2"][layer]))
    for step in range(3):
        f = model(torch.tensor(x[step]))
        np.testing.assert_allclose(f.detach().numpy(), run.outputs[step], rtol=0, atol=1e-7 if "norm" in str(
            biases) else 1e-12)  # the model's norms have an eps
        model.zero_grad()
        ((f - torch.tensor(y[step]))**2).sum().div(4).backward()
        with torch.no_grad():
            for parameter in (*model.one, *model.two, *model.b, *model.c, *model.g):
                if parameter.grad is not None:
                    parameter -= RATE * (N if parameter.ndim == 1 else 1) * parameter.grad


@pytest.mark.parametrize("name", LEFT)
def test_what_no_bias_of_a_network_is_is_left_out(name: str) -> None:
    found = read(LEFT[name])
    parameter = "shared" if "all" in name else "b.*"
    assert not found.network.biases and f"{parameter}, bias" in found.left_out
    assert not any(key.startswith("b") for key in found.matrices)


@pytest.mark.parametrize("name, patterns", [("linear", ["b.*", "c.*"]), ("behind a gain", ["b.*"])])
def test_where_biases_start(name: str, patterns: list[str]) -> None:
    """At 0 nothing is said, though values are drawn there for claims to be of something."""
    assert not any("starts" in one for one in read(KEPT[name][0]).left_out)
    for start in (0.5, 0.3):  # of which the second is the size of what is drawn
        assert [one for one in read(KEPT[name][0], start).left_out if "starts" in one] == [
            f"{pattern}, which starts at up to {start}, and at 0 in the network" for pattern in patterns]


def test_frozen_biases_of_norms_are_said() -> None:
    def make(depth: int) -> Any:
        model = Model(KEPT["behind a gain"][0], depth=depth)
        model.b.requires_grad_(False)
        return model

    found = tpt.read(make, dict(depth=DEPTH), batch=torch.randn(5, 3)).to_network()
    assert "b.*, frozen, which trains in the network" in found.left_out


def test_models_of_transformers() -> None:
    """Falcon adds its biases behind products; of BERT's, of which all start at 0, softmax forgets those of keys."""
    transformers = pytest.importorskip("transformers")
    sizes = dict(num_hidden_layers=2, hidden_size=32, num_attention_heads=2, vocab_size=50)
    configs = {"FalconForCausalLM": transformers.FalconConfig(**sizes, bias=True, alibi=False, multi_query=False),
               "BertModel": transformers.BertConfig(**sizes, intermediate_size=64, max_position_embeddings=16)}
    for name, config in configs.items():
        found = tpt.read(lambda: getattr(transformers, name)(config), {},
                         batch=dict(input_ids=torch.arange(12).reshape(2, 6))).to_network()
        assert found.network.biases is True
        inside = [one for one in found.left_out if ".*." in one]
        assert inside == ([] if name.startswith("Falcon") else [
            "encoder.layer.*.attention.self.key.bias, in keys, which softmax forgets"])
