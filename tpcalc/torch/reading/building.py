"""Models to read: with values where they are small, and else on the meta device, but for single numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import Module as Model
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from ... import _checks
from ...errors import NotCovered
from ..streams import MAKE, build, drawn_batch
from .network import RecordedNetwork, read_network
from .tape import record

Config = Mapping[str, object]
Make = Callable[..., Model]
LARGEST = 3e7  # parameters, up to which a model is built with its values


class NumbersHaveValues(TorchFunctionMode):  # type: ignore[misc]
    """On the meta device, makes tensors of one number where they have it: forward passes multiply by them."""

    def __torch_function__(self, function: Callable[..., object], types: object, args: tuple[object, ...] = (),
                           kwargs: dict[str, object] | None = None) -> object:
        given = dict(kwargs or {})
        if function is torch.tensor and args and isinstance(args[0], (int, float)):
            given.setdefault("device", "cpu")
        return function(*args, **given)


def on_meta(make: Make, config: Config) -> Model:
    """A model without values; ``ValueError`` where ``make`` returns none."""
    with torch.device("meta"), NumbersHaveValues():
        model = make(**config)
    if not isinstance(model, torch.nn.Module):
        raise ValueError(f"make: it returned {_checks.short(model)} for {dict(config)}; expected {MAKE}")
    return model._apply(lambda one: one if one.dim() == 0 else one.to("meta"))


def is_small(model: Model) -> bool:
    """Is there memory and time for its values?"""
    return bool(sum(p.numel() for p in model.parameters()) <= LARGEST)


def network_of(make: Make, config: Config, batch: object = None, answers: Sequence[object] = ()) -> RecordedNetwork:
    """A model, read; where parameters are zero, from values that are drawn, so that no claim is empty."""
    model = on_meta(make, config)
    zeros: frozenset[str] = frozenset()
    if is_small(model):
        model = build(make, config, seed=0)
        zeros = draw_zeros(model)
    taken = batch_for(model) if batch is None else batch
    try:
        if is_small(model):
            return replace(read_network(record(model, taken)), zeros=zeros)
        taken = tree_map(lambda one: one.to("meta") if isinstance(one, Tensor) else one, taken)
        with torch.device("meta"), NumbersHaveValues():
            return read_network(record(model, taken, answers))
    except (NotCovered, MemoryError):
        raise
    except Exception as error:  # the user's own code, on data that nobody asked it to take
        if batch is not None and is_small(model):
            raise
        raise NotRun(type(error).__name__, str(error)) from error


class NotRun(NotCovered):
    """A model that does not take the batch that is drawn for it. kind: of what it raised, or of the refusal to draw."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"batch: the model raised {kind} on it ({_checks.short(message)}), drawn or without values; "
                         "expected batch= what it takes")
        self.kind = kind


def batch_for(model: Model) -> Tensor:
    """The batch that ``drawn_batch`` draws for a model; raises ``NotRun`` where it can draw none."""
    try:
        return drawn_batch(model)
    except NotCovered as refusal:
        raise NotRun(type(refusal).__name__, str(refusal)) from refusal


def equal_values(one: Model, other: Model) -> bool:
    """Have two models of one make the same values?"""
    return all(map(torch.equal, one.parameters(), other.parameters()))


def shuffle(model: Model, seed: int) -> None:
    """Permute the entries of every parameter, in place: initial values of the same law."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            flat = parameter.flatten()
            parameter.copy_(flat[torch.randperm(len(flat), generator=generator).to(flat.device)].view_as(parameter))


def draw_zeros(model: Model) -> frozenset[str]:
    """Give values of one size to parameters that are zero, in place, also to those of one number; and their names."""
    generator, found = torch.Generator().manual_seed(1), set[str]()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.numel() and not bool(parameter.any()):
                size = parameter.shape[-1]**-0.5 if parameter.dim() > 1 else 0.3
                drawn = torch.randn(parameter.shape, generator=generator)
                parameter.copy_(drawn * (size / drawn.square().mean().sqrt()))
                found.add(name)
    return frozenset(found)
