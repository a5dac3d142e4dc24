"""Live models: built with their values, and run on batches that are given or drawn."""

from __future__ import annotations

from typing import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import Module as Model
from torch.utils._pytree import tree_leaves

from .._checks import short
from ..errors import NotCovered

Loss = Callable[[Model, object], Tensor]
# without a device torch.manual_seed writes down where each call was made, for a device that might still come
SEEDED = (torch.default_generator.manual_seed if hasattr(torch, "accelerator") and not torch.accelerator.is_available()
          else torch.manual_seed)
MAKE = "a function that returns a torch.nn.Module for the arguments of base and target"


def build(make: Callable[..., Model], config: Mapping[str, object], seed: int | None = None) -> Model:
    """A model with its values, its draws from ``seed``; torch's generator is left as it was."""
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            SEEDED(seed)
        model = make(**config)
    if not isinstance(model, nn.Module):
        raise ValueError(f"make: it returned {short(model)} for {dict(config)}; expected {MAKE}")
    if any(p.is_meta for p in model.parameters()):
        raise ValueError(f"make: got parameters on the meta device for {dict(config)}; expected models with values")
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


def drawn_batch(model: Model) -> Tensor:
    """A batch for the first module that takes inputs: tokens for an embedding, else normal numbers; on its device.

    Raises ``ValueError`` where there is no embedding, linear layer or convolution of images.
    """
    generator = torch.Generator().manual_seed(0)
    known = [module for module in model.modules() if isinstance(module, tuple(INPUTS))]
    embeddings = [module for module in known if isinstance(module, nn.Embedding)]
    for first in (embeddings or known)[:1]:
        draw = next(draw for kind, draw in INPUTS.items() if isinstance(first, kind))
        return draw(first, embeddings, generator).to(next(model.parameters()).device)
    raise NotCovered("batch: got None, and the model has no embedding, linear layer or convolution to draw one for; "
                     "expected batch= what the model, or loss, takes")


def run_on(model: Model, batch: object) -> object:
    """What a model returns for a batch, a dictionary of which is of arguments by name."""
    return model(**batch) if isinstance(batch, dict) else model(batch)


def tensors_of(value: object) -> list[Tensor]:
    """The tensors in a value, in order."""
    return [value] if isinstance(value, Tensor) else [one for one in tree_leaves(value) if isinstance(one, Tensor)]


def output_of(value: object) -> Tensor:
    """The tensor that a model returns: itself, its ``logits`` or ``last_hidden_state``, or the first of several."""
    for name in ("logits", "last_hidden_state"):
        found = getattr(value, name, None)
        if isinstance(found, Tensor):
            return found
    tensors = tensors_of(value)
    if not tensors:
        raise NotCovered(f"make: the model returned {short(value)}; expected tensors, or an object with logits")
    return tensors[0]


def mean_square(model: Model, batch: object) -> Tensor:
    """The mean squared output: a loss whose gradients have one sign, so that small models of two sizes compare."""
    return output_of(run_on(model, batch)).square().mean()


def drawn_loss(model: Model, batch: object) -> Tensor:
    """The mean squared distance of outputs to drawn ones, a loss where none is given: outputs may begin at zero, where
    their own square has no gradient."""
    output = output_of(run_on(model, batch))
    drawn = torch.randn(output.shape, generator=torch.Generator().manual_seed(0)).to(output)
    return (output - drawn).square().mean()
