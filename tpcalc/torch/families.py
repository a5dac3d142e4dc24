"""One plan for all sizes: a base, and what ``plan`` makes of any target."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Callable, Hashable, Mapping

import torch
from torch.nn import Module as Model

from .. import _checks
from .._shown import Short
from .._types import Value
from ..groups.classes import require_planned
from ..scaling import Scaling
from ..tune.recipe import named_recipe
from .model_plan import ModelPlan, carried_plan
from .reading.building import Config, Make

if TYPE_CHECKING:
    from .growing import GrownModel

NAMED_DEPTH = ("n_layer", "num_hidden_layers")  # what a depth is called
USUAL = {"sgd": "SGD", "momentum": "SGD", "adam": "Adam", "adamw": "AdamW"}  # in torch.optim, for groups of a plan


@dataclass(frozen=True, repr=False)
class PlanFamily(Short):
    """Plans for all targets of one base, as ``plan`` without a target returns it.

    make, base: what makes models, and its arguments for the one whose settings are right; recipe, optimizer: as given;
    settings: the arguments that a target can have. A family is a function: called with a target it returns the model
    of that size with its plan applied, as ``audit`` and ``depth_check`` take it in the place of ``make``.

    >>> import torch
    >>> from torch import nn
    >>> from tpcalc.torch import audit, plan
    >>> class Net(nn.Module):
    ...     def __init__(self, depth, n=32):
    ...         super().__init__()
    ...         self.emb, self.head = nn.Linear(3, n), nn.Linear(n, 1)
    ...         self.layers = nn.ModuleList(nn.Sequential(nn.ReLU(), nn.Linear(n, n)) for _ in range(depth))
    ...     def forward(self, x):
    ...         x = self.emb(x)
    ...         for layer in self.layers:
    ...             x = x + layer(x)
    ...         return self.head(x)
    >>> family = plan(Net, base=dict(depth=4), recipe="depth-mup")
    >>> family.at(depth=16).entry("layers.0.1.weight").factor("lr"), family.at(n=128).entry("head.weight").factor("lr")
    (0.25, 0.25)
    >>> model = family(depth=16)
    >>> optimizer = torch.optim.AdamW(family.at(depth=16).groups(model, lr=1e-3))
    >>> audit(family).ok
    True
    """

    make: Make
    base: Config
    recipe: str | Scaling
    optimizer: str
    settings: tuple[str, ...]
    _planner: partial[ModelPlan] = field(repr=False)
    _known: dict[Hashable, ModelPlan] = field(default_factory=dict, repr=False, compare=False)

    def at(self, **target: object) -> ModelPlan:
        """The plan for a target, made once; arguments that are not given are those of the base. Raises ``ValueError``
        for arguments that make does not take, and as ``plan`` does."""
        for name in target:
            if name not in self.settings:
                raise ValueError(f"target: got {name!r}; expected {', '.join(self.settings)}")
        config = {**self.base, **target}
        key = frozenset(config.items()) if all(isinstance(one, Hashable) for one in config.values()) else None
        found = self._known.get(key) if key is not None else None
        if found is None:
            found = self._planner(target=config)
            if key is not None:
                self._known[key] = found
        return found

    def __call__(self, **target: object) -> Model:
        """The model of a target as it starts training: made, with its initial sizes and multipliers."""
        plan = self.at(**target)
        return plan.apply_(self.make(**{**self.base, **target}))

    def trainer(self, kind: Callable[..., torch.optim.Optimizer] | None = None, lr: float = 1e-3,
                weight_decay: float = 0.0, eps: float | None = None) -> Callable[[Model], torch.optim.Optimizer]:
        """A function from models of this family to optimizers of their plans' groups.

        kind: what takes groups, such as ``torch.optim.AdamW``, or a function of them, which may return a list of
        optimizers; None is torch's class of the optimizer's name. lr, weight_decay, eps: what is right for the base, as
        in ``ModelPlan.groups``. The function raises ``ValueError`` for models that the family has not made, and for
        optimizers that are not the plan's.
        """
        if kind is None:
            if self.optimizer not in USUAL:
                raise ValueError(f"kind: got None for {self.optimizer}; expected a function of groups that returns a "
                                 "torch.optim.Optimizer")
            kind = getattr(torch.optim, USUAL[self.optimizer])
        _checks.function("kind", kind, "a function of groups that returns a torch.optim.Optimizer", optional=False)
        takes: Callable[..., torch.optim.Optimizer] = kind

        def optimizer_of(model: Model) -> torch.optim.Optimizer:
            plan = carried_plan(model)
            if plan is None:
                raise ValueError("model: got one without a plan; expected what the family, or apply_ of its plans, "
                                 "returns")
            found = takes(plan.groups(model, lr, weight_decay, eps))
            for one in found if isinstance(found, (list, tuple)) else [found]:
                if isinstance(one, torch.optim.Optimizer):
                    require_planned(plan.optimizer, one)
            return found

        return optimizer_of

    def grow(self, model: Model, to: Config, at: Config | None = None, new: str = "zero", order: str = "interleaved",
             seed: int = 0) -> GrownModel:
        """A deeper model that goes on from a trained one, and what moves the optimizer's state to it.

        Parameters
        ----------
        model:
            trained; the base, or the member of this family at ``at``, with its plan applied.
        to, at:
            arguments of the deeper model and of the trained one, as in ``at``; None is the base.
        new:
            "zero": new layers start with their plan's initial values, but for what their branches end in, which is 0.
            Old ones keep what they add to the stream: a multiplier that the deeper plan has in the forward pass is
            divided out of what their branches end in. So the function stays, which is tested on one batch. "copy": new
            layers are copies of old ones, and all have the deeper plan's multipliers, as initial values have them.
        order:
            "interleaved": new layers follow those that they copy; "stacked": they stand behind all old ones.
        seed:
            of the initial values of new layers.

        Returns a ``GrownModel``: train its ``model`` by ``plan.groups(model, ...)`` of its ``plan``, after
        ``move_state`` has given the new optimizer the old one's state. Raises ``ValueError`` for settings that change
        more than the depth, and ``NotCovered`` for models that were not read, and where outputs do not stay with
        new="zero".

        >>> import torch
        >>> from torch import nn
        >>> from tpcalc.torch import plan
        >>> class Net(nn.Module):
        ...     def __init__(self, depth, n=16):
        ...         super().__init__()
        ...         self.a, self.z = nn.Linear(3, n), nn.Linear(n, 1)
        ...         self.layers = nn.ModuleList(nn.Sequential(nn.ReLU(), nn.Linear(n, n)) for _ in range(depth))
        ...     def forward(self, x):
        ...         x = self.a(x)
        ...         for layer in self.layers:
        ...             x = x + layer(x)
        ...         return self.z(x)
        >>> family, trained = plan(Net, base=dict(depth=4)), Net(4)
        >>> grown = family.grow(trained, to=dict(depth=8))
        >>> [name for name in grown.origins if "weight" in name and "layers" in name]
        ['layers.0.1.weight', 'layers.2.1.weight', 'layers.4.1.weight', 'layers.6.1.weight']
        >>> grown.layers, grown.difference < 1e-6
        ((4, 8), True)
        """
        from .growing import grow
        _checks.instance("to", to, Mapping, "a dictionary of arguments of make")
        return grow(self, model, to, at, new, order, seed)

    def told(self, name: str) -> Value:
        """An argument of ``plan`` that all members have, such as "roles"."""
        return self._planner.keywords[name]

    def __str__(self) -> str:
        base = ", ".join(f"{name}={value!r}" for name, value in self.base.items()) or "a configuration"
        return f"{named_recipe(self.recipe).name}, {self.optimizer}: plans for all sizes, from {base}"


def depth_key_of(make: Make, depth_key: str | None) -> str:
    """The argument of ``make`` that is the depth, as given; of a family by default the one called as transformers or
    nanoGPT call it, or the only one that its base says. Raises ``ValueError`` where that tells none."""
    if depth_key is not None:
        _checks.instance("depth_key", depth_key, str, "the name of an argument of make, or None")
        return depth_key
    if not isinstance(make, PlanFamily):
        return NAMED_DEPTH[0]
    named = [name for name in NAMED_DEPTH if name in make.settings] or list(make.base)
    if not named or named[0] not in NAMED_DEPTH and len(named) > 1:
        raise ValueError(f"depth_key: got None with a family whose models take {', '.join(make.settings)}; expected "
                         "which of these is the depth")
    return named[0]


def made_by_depth(family: PlanFamily, depth_key: str | None, base: int | None) -> tuple[partial[Model], int]:
    """A function from a depth to the family's model as it is made, without a plan, and the depth of the base.

    Raises ``ValueError`` where the family's models have no such argument, or the base does not say it.
    """
    depth_key = depth_key_of(family, depth_key)
    if depth_key not in family.settings:
        raise ValueError(f"depth_key: got {_checks.short(depth_key)}; expected {', '.join(family.settings)}")
    given = family.base.get(depth_key) if base is None else base
    if given is None:
        raise ValueError("base: got None, with a family whose base does not say its depth; expected that depth")
    return partial(_of_depth, family.make, dict(family.base), depth_key), _checks.whole_number("base", given, 1)


def _of_depth(make: Make, base: Config, depth_key: str, depth: int) -> Model:
    return make(**{**base, depth_key: depth})


def of_family(make: Make, optimizer: Callable[[Model], torch.optim.Optimizer] | None,
              recipe: str | Scaling | None) -> tuple[Value, str | Scaling | None]:
    """optimizer and recipe for what ``make`` is: those of a family, where they are None."""
    if not isinstance(make, PlanFamily):
        return optimizer, recipe
    return make.trainer() if optimizer is None else optimizer, make.recipe if recipe is None else recipe


def settable_of(make: Make, base: Config) -> tuple[str, ...]:
    """The names of arguments that a target can have: those that ``make`` says, and those of the base."""
    try:
        takes = signature(make)
    except ValueError:  # of what says nothing of its arguments, as what is written in C
        return tuple(base)
    said = (name for name, one in takes.parameters.items()
            if one.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY))
    return tuple(dict.fromkeys((*said, *base)))
