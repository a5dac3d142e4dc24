"""Activations that people write as a ``torch.autograd.Function``: read where their backward pass is a derivative."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")

import tpcalc as tp  # noqa: E402
from tpcalc.torch.reading.own_gradients import own_derivatives  # noqa: E402
from tpcalc.torch.reading.tape import record  # noqa: E402

nn = torch.nn


class Gelu(torch.autograd.Function):  # type: ignore[misc,name-defined]
    """BLOOM's, with its derivative, to all digits of its constants."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))

    @staticmethod
    def backward(ctx: Any, push: Any) -> Any:
        x, = ctx.saved_tensors
        tanh = torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x))
        return push * (0.5 * x * (1 - tanh * tanh) * (0.79788456 + 0.1070322243 * x * x) + 0.5 * (1 + tanh))


class Twice(Gelu):
    """With another backward pass."""

    @staticmethod
    def backward(ctx: Any, push: Any) -> Any:
        return 2 * Gelu.backward(ctx, push)


class StraightThrough(torch.autograd.Function):  # type: ignore[misc,name-defined]
    """Rounds, and passes gradients on."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return torch.round(4 * x) / 4

    @staticmethod
    def backward(ctx: Any, push: Any) -> Any:
        return push


class Sign(StraightThrough):
    """One operation forward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return torch.sign(x)


class OfTwo(torch.autograd.Function):  # type: ignore[misc,name-defined]
    """A gate; its second gradient has the wrong sign where one is asked for."""

    sign = 1.0

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return x * torch.sigmoid(y)

    @staticmethod
    def backward(ctx: Any, push: Any) -> Any:
        x, y = ctx.saved_tensors
        share = torch.sigmoid(y)
        return push * share, OfTwo.sign * push * x * share * (1 - share)


class Net(nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self, depth: int, act: Any, n: int = 16) -> None:
        super().__init__()
        self.read_in, self.out, self.act = nn.Linear(5, n, bias=False), nn.Linear(n, 1, bias=False), act
        self.layers = nn.ModuleList(nn.ModuleList(nn.Linear(n, n, bias=False) for _ in range(2)) for _ in range(depth))

    def forward(self, x: Any) -> Any:
        x = self.read_in(x)
        for first, last in self.layers:
            x = x + last(self.act(first(x)))
        return self.out(x)


def network(act: Any) -> Any:
    return tpt.read(lambda depth: Net(depth, act), dict(depth=2), batch=torch.randn(3, 5)).to_network().network


def test_a_derivative_makes_it_the_function_that_its_forward_pass_is() -> None:
    written = network(lambda h: h * 0.5 * (1.0 + torch.tanh(0.79788456 * h * (1 + 0.044715 * h * h))))
    assert network(Gelu.apply) == written
    assert tp.classify(0.5, 0.5, network(Gelu.apply)).name == "Depth-muP"


@pytest.mark.parametrize("act", [Twice, StraightThrough, Sign])
def test_other_backward_passes_are_refused(act: Any) -> None:
    with pytest.raises(tp.NotCovered, match="gradients stop there; expected functions whose derivatives are their own"):
        network(act.apply)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_every_argument_is_tested(sign: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OfTwo, "sign", sign)
    tape = record(Net(2, lambda h: OfTwo.apply(h, 2 * h)), torch.randn(3, 5, generator=torch.manual_seed(0)))
    found = own_derivatives(tape)
    assert [len(given) for given in found.values()] == [2 * (sign > 0)] * 2
    assert bool(tape.stopped()) == (sign < 0)


def test_functions_of_several_results_are_refused() -> None:
    class Both(torch.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return torch.sin(x), torch.cos(x)

        @staticmethod
        def backward(ctx: Any, push: Any, other: Any) -> Any:
            return push + other

    tape = record(Net(1, lambda h: sum(Both.apply(h))), torch.randn(3, 5))
    assert list(own_derivatives(tape).values()) == [[], []] and tape.stopped()


def test_detached_numbers_are_still_found() -> None:
    tape = record(Net(1, lambda h: Gelu.apply(h) + h.detach()), torch.randn(3, 5))
    assert [op.name for op in tape.stopped()] == ["detach"]


def test_bloom_is_a_transformer() -> None:
    transformers = pytest.importorskip("transformers")

    def make(n_layer: int) -> Any:
        return transformers.BloomForCausalLM(transformers.BloomConfig(
            vocab_size=64, hidden_size=32, n_layer=n_layer, n_head=2, use_cache=False))

    found = tpt.read(make, dict(n_layer=2), batch=torch.randint(64, (2, 8))).to_network()
    assert found.network.heads == 2 and "tanh" in str(found.network.phi)
