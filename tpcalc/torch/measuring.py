"""What a live model and its optimizer do at one size: relative sizes of branches, gradients and first updates.

Everything is measured where a layer hands on the stream, so that neither the growth of a stream at finite depth nor a
factor that moves between a matrix and the forward pass is taken for an exponent.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import Module as Model

from .._checks import short
from ..groups.names import LayerCount
from .streams import Loss, build, outputs_outside, recorded

Make = Callable[..., Model]
MakeOptimizer = Callable[[Model], torch.optim.Optimizer]
GROWTH = 1.5  # layers are early while the stream is at most that much longer than where it began
STRONGER = 4.0  # factor of the loss, to see of which degree an optimizer's direction is
TINY = 1e-30
Sizes = dict[tuple[str, str], float]  # (quantity, pattern) -> its size
EVERYWHERE = "stream"  # the pattern of what is no parameter's
SETTINGS = (("lr", "lr"), ("eps", "eps"), ("decay", "weight_decay"))


def settings_of(optimizer: torch.optim.Optimizer, model: Model) -> dict[int, Mapping[str, object]]:
    """id of a parameter -> its group; raises ``ValueError`` for what is no optimizer of the model's parameters."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError(f"optimizer: it returned {short(optimizer)}; expected a function of the model that returns "
                         "a torch.optim.Optimizer")
    found = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    if not any(id(p) in found for p in model.parameters()):
        raise ValueError("optimizer: got one without parameters of the model; expected one that trains them")
    return found


def first_update(make: Make, config: Mapping[str, object], optimizer: MakeOptimizer, loss: Loss, batch: object,
                 layers: LayerCount, seed: int) -> Sizes:
    """Sizes at the first step, by quantity and pattern, of a model built from ``seed``.

    gradient: of one layer's output in its parameters, along a direction that is drawn, over the stream in front of it;
    branch: that times the parameter's own size, which is what a branch adds to the stream, relative to it, whatever
    normalizes it; update: that times how far the first update goes along its gradient, which is by how much it changes
    the layer's output; where directions of the optimizer grow with gradients, the loss's own size is taken out.
    invariance: the share of the gradient along the parameter, zero where a norm is after it; degree: of the direction
    in gradients; entry: root mean square of the loss's gradient; init, lr, eps, decay: root mean square at the start,
    and what groups say; signal: what a module after the stream returns; skip: what is left of the stream after a
    layer; growth: of the stream; loss.
    """
    plain = _step(make, config, optimizer, loss, batch, layers, seed, 1.0)
    stronger = _step(make, config, optimizer, loss, batch, layers, seed, STRONGER)
    sizes = {key: size for key, size in plain.items() if key[0] not in ("moved", "along", "push")}
    for (quantity, pattern), size in plain.items():
        if quantity == "moved" and size > TINY and stronger[quantity, pattern] > TINY:
            degree = math.log(stronger[quantity, pattern] / size) / math.log(STRONGER)
            degree = sizes["degree", pattern] = min(1.0, max(0.0, degree))
            local = plain["gradient", pattern]
            sizes["update", pattern] = plain["along", pattern] * local * (local / plain["push", pattern])**degree
    return sizes


def _step(make: Make, config: Mapping[str, object], optimizer: MakeOptimizer, loss: Loss, batch: object,
          layers: LayerCount, seed: int, factor: float) -> Sizes:
    model = build(make, config, seed)
    trainer = optimizer(model)
    settings = {key: dict(group) for key, group in settings_of(trainer, model).items()}
    for group in trainer.param_groups:  # what is measured is what gradients do; decay is read
        if "weight_decay" in group:
            group["weight_decay"] = 0.0
    parameters = dict(model.named_parameters())
    before = {name: p.detach().clone() for name, p in parameters.items()}
    with recorded(model, layers) as stream, outputs_outside(model, layers) as returned:
        value = loss(model, batch)
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise ValueError(f"loss: it returned {short(value)}; expected a function of model and batch that returns "
                             "a tensor of one number")
        locations = Locations(stream, layers)
        local = locations.local_gradients(parameters, returned)
        trainer.zero_grad()
        (factor * value).backward()
    pushes = {name: p.grad.detach() / factor for name, p in parameters.items() if p.grad is not None}
    trainer.step()
    sums: dict[tuple[str, str], list[float]] = defaultdict(list)
    for name, (gradient, scale) in local.items():
        pattern, group, weight = layers.pattern(name), settings.get(id(parameters[name])), before[name]
        if group is None or name not in pushes:
            continue
        change, push = parameters[name].detach() - weight, pushes[name]
        size, slope = float(weight.norm()), float(gradient.norm())
        found = {"gradient": slope / scale, "init": size / weight.numel()**0.5,
                 "branch": slope * size / (min(weight.shape) if weight.dim() > 1 else 1)**0.5 / scale,
                 "invariance": abs(float((weight * gradient).sum())) / max(size * slope, TINY),
                 "along": abs(float((change * push).sum())) / max(float(push.norm()), TINY),
                 "dimensions": weight.dim(), "push": float(push.norm()), "moved": float(change.norm()),
                 "entry": float(push.norm()) / weight.numel()**0.5,
                 **({"signal": locations.signals[name]} if name in locations.signals else {}),
                 **{key: group[name_there] for key, name_there in SETTINGS
                    if isinstance(group.get(name_there), (int, float))}}
        for quantity, one in found.items():
            sums[quantity, pattern].append(float(one))
    means = {key: sum(values) / len(values) for key, values in sums.items()}
    return {**means, ("skip", EVERYWHERE): locations.skip, ("growth", EVERYWHERE): locations.growth,
            ("loss", EVERYWHERE): float(value.detach())}


class Locations:
    """The stream at every layer, and the gradients that are measured there."""

    def __init__(self, stream: dict[int, Tensor], layers: LayerCount) -> None:
        order = sorted(stream)
        self.stream, self.layers, self.first, self.last = stream, layers, order[0], order[-1]
        self.values = {i: stream[i].detach().double() for i in order}
        self.sizes = {i: float(x.norm()) for i, x in self.values.items()}
        self.next = dict(zip(order, order[1:]))
        stride = max(1, round(len(order) / layers.base))  # places at which the shallowest model has a layer's end, too
        early = [i for location, i in enumerate(order) if i in self.next and (location + 1) % stride == 0
                 and not self.sizes[i] > GROWTH * self.sizes[self.first]]
        self.early = early or [self.first]
        self.signals: dict[str, float] = {}  # root mean squares of what modules after the stream return

    def local_gradients(self, parameters: Mapping[str, Tensor],
                        returned: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, float]]:
        """name -> (gradient along a drawn direction, the direction's size times that of a signal).

        In layers that are early: after the layer, and the stream in front of it. Outside: where the stream begins, and
        after the stream what the parameter's own module returns, twice.
        """
        found: dict[str, tuple[Tensor, float]] = {}
        outside = [name for name in parameters if self.layers.index(name) < 0]
        found.update(pulled(self.stream[self.first], self.sizes[self.first], outside, parameters))
        for name in outside:
            y = returned.get(name.rpartition(".")[0])
            if name not in found and y is not None:
                found.update(pulled(y, float(y.detach().norm()), [name], parameters))
                self.signals[name] = float(y.detach().square().mean().sqrt())
        for index in self.early:
            inside = [name for name in parameters if self.layers.index(name) == index]
            found.update(pulled(self.stream[self.next.get(index, index)], self.sizes[index], inside, parameters))
        return found

    @property
    def skip(self) -> float:
        """<x', x> / <x, x> of successive inputs of layers, on average."""
        shares = [float((self.values[i] * self.values[j]).sum()) / max(self.sizes[i]**2, TINY)
                  for i, j in self.next.items() if self.values[i].shape == self.values[j].shape]
        return abs(sum(shares) / len(shares)) if shares else math.nan

    @property
    def growth(self) -> float:
        return self.sizes[self.last] / max(self.sizes[self.first], TINY)


def pulled(location: Tensor, size: float, names: list[str],
           parameters: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, float]]:
    """name -> (gradient of a tensor along a direction that is drawn, size of that direction times ``size``)."""
    trained = [name for name in names if parameters[name].requires_grad]
    if not location.requires_grad or not trained:
        return {}
    drawn = torch.randn(location.shape, generator=torch.Generator().manual_seed(0)).to(location)
    slopes = torch.autograd.grad(location, [parameters[name] for name in trained], drawn, retain_graph=True,
                                 allow_unused=True)
    scale = max(float(drawn.norm()) * size, TINY)
    return {name: (slope, scale) for name, slope in zip(trained, slopes) if slope is not None}
