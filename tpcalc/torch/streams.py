"""What layers of a live model pass on: batches to run it on, and the input of every layer with its gradient."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import Callable, Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.nn import Module as Model

from .._checks import short
from ..errors import NotCovered
from ..groups.names import LayerCount

Loss = Callable[[Model, object], Tensor]
MAKE = "a function that returns a torch.nn.Module for the arguments of base and target"


def build(make: Callable[..., Model], config: Mapping[str, object], seed: int | None = None) -> Model:
    """A model with its values, its draws from ``seed``; torch's generator is left as it was."""
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        model = make(**config)
    if not isinstance(model, nn.Module):
        raise ValueError(f"make: it returned {short(model)} for {dict(config)}; expected {MAKE}")
    if any(p.is_meta for p in model.parameters()):
        raise ValueError(f"make: got parameters on the meta device for {dict(config)}; expected models with "
                         "values")
    return model


def _tokens(module: Model, embeddings: list[Model], generator: torch.Generator) -> Tensor:
    positions = min([8, *(one.num_embeddings for one in embeddings)])  # of which one may be of positions
    return torch.randint(module.num_embeddings, (4, positions), generator=generator)


def _vectors(module: Model, embeddings: list[Model], generator: torch.Generator) -> Tensor:
    return torch.randn(16, module.in_features, generator=generator).to(module.weight.dtype)


def _images(module: Model, embeddings: list[Model], generator: torch.Generator) -> Tensor:
    side = 4 * max(module.kernel_size)
    return torch.randn(4, module.in_channels, side, side, generator=generator).to(module.weight.dtype)


INPUTS = {nn.Embedding: _tokens, nn.Linear: _vectors, nn.Conv2d: _images}  # what a module that comes first takes


def drawn_batch(model: Model, seed: int = 0) -> Tensor:
    """A batch for the first module that takes inputs: tokens for an embedding, else normal numbers; on its device.

    Raises ``ValueError`` where there is no embedding, linear layer or convolution of images.
    """
    generator = torch.Generator().manual_seed(seed)
    known = [module for module in model.modules() if isinstance(module, tuple(INPUTS))]
    embeddings = [module for module in known if isinstance(module, nn.Embedding)]
    for first in (embeddings or known)[:1]:
        draw = next(draw for kind, draw in INPUTS.items() if isinstance(first, kind))
        return draw(first, embeddings, generator).to(next(model.parameters()).device)
    raise NotCovered("batch: got None, and the model has no embedding, linear layer or convolution to draw one for; "
                     "expected batch= what the model, or loss, takes")


def output_of(value: object) -> Tensor:
    """The tensor that a model returns: itself, its ``logits``, or the first of several."""
    found = getattr(value, "logits", value)
    while isinstance(found, (tuple, list)) and found:
        found = found[0]
    if not isinstance(found, Tensor):
        raise NotCovered(f"make: the model returned {short(value)}; expected a tensor, a tuple of one and more, or "
                         "an object with logits; else give loss=")
    return found


def mean_square(model: Model, batch: object) -> Tensor:
    """The mean squared output, a loss where none is given."""
    return output_of(model(batch)).square().mean()


@contextmanager
def recorded(model: Model, layers: LayerCount) -> Iterator[dict[int, Tensor]]:
    """Layer -> what enters it, in the order of layers, with its gradient after a backward pass.

    Raises ``ValueError`` where layers are no modules; a layer that is run twice in one pass keeps its last input.
    """
    found: dict[int, Tensor] = {}

    def keep(index: int) -> Callable[..., object]:
        def hook(module: Model, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
            for i, value in enumerate(args):
                if isinstance(value, Tensor) and value.is_floating_point():
                    found[index] = watched(value)
                    return (*args[:i], found[index].clone(), *args[i + 1:]), kwargs
            for key, value in kwargs.items():
                if isinstance(value, Tensor) and value.is_floating_point():
                    found[index] = watched(value)
                    return args, {**kwargs, key: found[index].clone()}
            return None
        return hook

    handles = [module.register_forward_pre_hook(keep(index), with_kwargs=True)
               for index, module in layer_modules(model, layers).items()]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def outputs_outside(model: Model, layers: LayerCount) -> Iterator[dict[str, Tensor]]:
    """Name -> what it returns, for every module outside of layers that has parameters of its own."""
    found: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[..., None]:
        def hook(module: Model, args: object, output: object) -> None:
            with suppress(NotCovered):
                found[name] = output_of(output)
        return hook

    handles = [module.register_forward_hook(keep(name)) for name, module in model.named_modules()
               if layers.index(name) < 0 and list(module.parameters(recurse=False))]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def watched(value: Tensor) -> Tensor:
    """A copy that in-place operations do not touch; its ``grad`` is that of the stream, past the layer and through."""
    copy = value.clone()
    if value.requires_grad:
        value.register_hook(lambda gradient: setattr(copy, "grad", gradient.detach().clone()))
    return copy


def layer_modules(model: Model, layers: LayerCount) -> dict[int, Model]:
    """Layer -> its module; ``ValueError`` where layers of the model are no modules."""
    named = {name: module for name, module in model.named_modules() if layers.index(name) >= 0
             and layers.pattern(name) == layers.stem + "*"}
    if not named:
        raise ValueError(f"make: got layers {layers.stem}* that are no modules; expected lists of modules, whose "
                         "inputs are the stream")
    return {layers.index(name): module for name, module in sorted(named.items(), key=lambda one: layers.index(one[0]))}
