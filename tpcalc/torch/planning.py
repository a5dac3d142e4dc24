"""``plan``: the factors for the model you have, from its shapes, and probed where it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Mapping

import torch
from torch.nn import Module as Model

from .. import _checks
from ..errors import NotCovered
from ..groups import Plan, plan_shapes
from ..groups.names import Shape
from ..groups.factors import depth_choices, optimizer_of_role
from ..parametrizations import Scaling
from .probing import normalized_branches
from .streams import MAKE, build, drawn_batch

Config = Mapping[str, object]
Make = Callable[..., Model]


@dataclass(frozen=True, repr=False)
class ModelPlan(Plan):
    """A plan that can set initial sizes, since it knows how the base is made. make, base: as given to ``plan``."""

    make: Make = Model
    base: Config = ()  # type: ignore[assignment]

    def init_(self, model: Model, seed: int = 0) -> Model:
        """Give every parameter the size that it has in the base, times its factor; in place, and returns the model.

        What the model has drawn keeps its shape: root mean squares are set, pattern by pattern, over all layers. So
        factors of the depth that the model's own initialization has, such as GPT-2's, do not count twice. A base is
        built for its sizes, from ``seed``.

        Raises ``ValueError`` for parameters on the meta device, that are not finite (a model after ``to_empty`` has to
        be initialized first), and of a pattern that is zero here and not in the base.
        """
        small, large = self._sizes(build(self.make, self.base, seed)), self._sizes(model)
        for pattern, size in large.items():
            if not size < float("inf") or size == 0 and small[pattern] != 0:
                raise ValueError(f"{pattern}: got values of root mean square {size:g}, {small[pattern]:g} in the "
                                 "base; expected a model that is initialized, in its own way")
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                entry = self.entry(name)
                if small[entry.parameter.pattern]:
                    size = small[entry.parameter.pattern] * entry.factor("init")
                    parameter.mul_(size / large[entry.parameter.pattern])
                else:
                    parameter.zero_()
        return model

    def _sizes(self, model: Model) -> dict[str, float]:
        """Pattern -> root mean square of what it stands for."""
        sums: dict[str, list[float]] = {}
        for name, parameter in model.named_parameters():
            if parameter.is_meta:
                raise ValueError(f"{name}: got on the meta device; expected models with values")
            one = sums.setdefault(self.entry(name).parameter.pattern, [0.0, 0.0])
            one[0] += float(parameter.detach().double().square().sum())
            one[1] += parameter.numel()
        return {pattern: (total / count)**0.5 for pattern, (total, count) in sums.items()}


def plan(make: Make, base: Config, target: Config, recipe: str | Scaling = "depth-mup", optimizer: str = "adamw",
         forward: str = "gauge", batch: object = None, width: str = "muP") -> ModelPlan:
    """What to set for ``make(**target)`` so that it trains as ``make(**base)`` does.

    Parameters
    ----------
    make:
        returns a ``torch.nn.Module``. It is called on the meta device for shapes, and once with values, for the base.
    base, target:
        its arguments, for the model whose settings are right and for the one that is wanted.
    recipe, optimizer, forward, width:
        as in ``tpcalc.groups.plan_shapes``. "gauge" makes the branch multiplier a part of the last matrix of a branch:
        exact for SGD (learning rate times m^2), Adam and AdamW (rate times m, eps and decay over m), not where
        gradients are clipped by their global norm. Where something normalizes after that matrix, ``multipliers()``
        says which module's output to multiply.
    batch:
        what the model takes; None draws one. The base is run on it, to see that layers pass the stream on as it is when
        the matrices taken to be last are zero, and where something normalizes.

    Returns a plan: ``print`` it, ``plan.init_(model)``, ``plan.groups(model, lr=...)``, ``plan.multipliers()``,
    ``plan.to("json")``. Raises ``ValueError`` naming the parameter that is not understood. Source: Tensor Programs VI,
    Definition 4.1 [tensor_programs_vi/definition_41]; Meta-Principled Family, (2.4) to (2.8)
    [meta_principled/translation].

    >>> import torch
    >>> from torch import nn
    >>> class Net(nn.Module):
    ...     def __init__(self, n_layer, n=16):
    ...         super().__init__()
    ...         self.emb = nn.Linear(3, n)
    ...         self.h = nn.ModuleList(
    ...             nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n)) for _ in range(n_layer))
    ...         self.head = nn.Linear(n, 1)
    ...     def forward(self, x):
    ...         x = self.emb(x)
    ...         for block in self.h:
    ...             x = x + block(x)
    ...         return self.head(x)
    >>> found = plan(Net, dict(n_layer=4), dict(n_layer=64), recipe="depth-mup", optimizer="adamw")
    >>> model = found.init_(Net(n_layer=64))
    >>> optimizer = torch.optim.AdamW(found.groups(model, lr=1e-3, weight_decay=0.1))
    >>> sorted({group["lr"] for group in optimizer.param_groups})
    [6.25e-05, 0.00025, 0.001]
    """
    _checks.function("make", make, MAKE, optional=False)
    for name, config in (("base", base), ("target", target)):
        _checks.instance(name, config, Mapping, "a dictionary of arguments of make")
    (small, ties), (large, _) = meta_shapes(make, base), meta_shapes(make, target)
    found = plan_shapes(small, large, recipe, optimizer, forward, width, ties)
    unfolded: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    if any(depth_choices(recipe, found.optimizer, optimizer_of_role(p, found.optimizer)).branch != 0
           for p in found.roles.parameters if p.in_layers):
        live = build(make, base, seed=0).eval()
        taken, failure = _taken(live) if batch is None else (batch, "")
        if failure:
            notes = (f"the base could not be run on a batch that was drawn ({failure}), so that the last matrices of "
                     "branches are those that names and shapes tell; give batch= for a look at it",)
        else:
            unfolded = normalized_branches(live, found.roles, taken)
    if unfolded:
        found = plan_shapes(small, large, recipe, optimizer, forward, width, ties, unfolded)
    return ModelPlan(found.recipe, found.optimizer, found.forward, found.roles, found.entries, found.unfolded,
                     (*found.notes, *notes), make, dict(base))


def _taken(model: Model) -> tuple[object, str]:
    """A drawn batch that a model takes, and nothing; or nothing, and the name of what was raised."""
    try:
        batch = drawn_batch(model)
    except NotCovered as refusal:
        return None, type(refusal).__name__
    try:
        with torch.no_grad():
            model(batch)
    except Exception as error:  # the user's own code, on data that nobody asked it to take
        return None, type(error).__name__
    return batch, ""


def meta_shapes(make: Make, config: Config) -> tuple[dict[str, Shape], list[tuple[str, ...]]]:
    """Name -> shape of every parameter, and the names of those that have several; of a model without values."""
    with torch.device("meta"):
        model = make(**config)
    if not isinstance(model, torch.nn.Module):
        raise ValueError(f"make: it returned {_checks.short(model)} for {dict(config)}; expected {MAKE}")
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    return shapes, [tuple(all_names) for all_names in names.values() if len(all_names) > 1]
