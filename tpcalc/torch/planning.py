"""``plan``: the factors for the model you have, from a reading of it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod
from typing import Mapping, overload

from torch.nn import Module as Model

from .. import _checks
from .._types import Fields
from ..errors import NotCovered
from ..groups import Plan, plan_shapes
from ..tune.factors import (
    checked_optimizer, is_last, layer_settings, name_in, owns_of, settable)
from ..groups.horizon import PlanHorizon, plan_horizon, with_horizon
from ..groups.names import Shape, plain_name
from ..groups.plan import PlanEntry, plan_of_roles
from ..groups.roles import Roles
from ..scaling import Powers, Scaling
from ..tune.recipe import named_recipe
from ..tune.visited_recipe import solved_powers
from .configurations import is_configuration, of_configuration, two_models
from .families import PlanFamily, settable_of
from .judging import ExpectedPowers
from .model_plan import ModelPlan
from .reading.building import LARGEST, Config, Make, NotRun, draw_zeros, equal_values, on_meta, shuffle
from .reading.claims import require
from .reading.planned import planned
from .reading.reading import Reading, read
from .streams import MAKE, build
from .update_claims import UpdateClaims


@overload
def plan(make: Make | Model, base: Config, target: Config, recipe: str | Scaling = ..., optimizer: str = ...,
         forward: str = ..., batch: object = ..., width: str = ..., roles: Mapping[str, str] | None = ...,
         reading: Reading | None = ..., unknown: str = ..., horizon: Mapping[str, object] | None = ..., x: object = ...,
         data: str | None = ...) -> ModelPlan: ...


@overload
def plan(make: Make | Model, base: Config | None = ..., target: None = ..., recipe: str | Scaling = ...,
         optimizer: str = ..., forward: str = ..., batch: object = ..., width: str = ...,
         roles: Mapping[str, str] | None = ..., reading: Reading | None = ..., unknown: str = ...,
         horizon: Mapping[str, object] | None = ..., x: object = ..., data: str | None = ...) -> PlanFamily: ...


@overload
def plan(make: Model, base: Model, target: None = ..., recipe: str | Scaling = ..., optimizer: str = ...,
         forward: str = ..., batch: object = ..., width: str = ..., roles: Mapping[str, str] | None = ...,
         reading: Reading | None = ..., unknown: str = ..., horizon: Mapping[str, object] | None = ..., x: object = ...,
         data: str | None = ...) -> ModelPlan: ...


def plan(make: Make | Model, base: Config | Model | None = None, target: Config | None = None,
         recipe: str | Scaling = "depth-mup", optimizer: str = "adamw", forward: str = "gauge", batch: object = None,
         width: str = "muP", roles: Mapping[str, str] | None = None, reading: Reading | None = None,
         unknown: str = "refuse", horizon: Mapping[str, object] | None = None, x: object = None,
         data: str | None = None) -> ModelPlan | PlanFamily:
    """What to set for ``make(**target)`` so that it trains as ``make(**base)`` does.

    Parameters
    ----------
    make:
        returns a ``torch.nn.Module``; or, with the target in place of base, a model or a configuration of transformers.
    base, target:
        its arguments, for the model whose settings are right and for the one that is wanted. Without a target all
        plans of the base are returned, a ``PlanFamily``; so they are of a configuration of transformers alone.
    recipe, optimizer, forward, width:
        as in ``tpcalc.groups.plan_shapes``. "gauge" makes the branch multiplier a part of the last matrix of a branch:
        exact for SGD (learning rate times m^2), Adam and AdamW (rate times m, eps and decay over m), not where
        gradients are clipped by their global norm. Where something normalizes after that matrix, ``multipliers()``
        says which module's output to multiply.
    batch, roles:
        as in ``tpcalc.torch.read``, which says what parameters do.
    reading:
        what ``read`` returned for these models, with a target; None reads them. A model that does not run on a drawn
        batch is planned by names and shapes, which a note says.
    unknown:
        "refuse", or "as-base" for parameters that are not understood: they keep the base's settings, which notes say.
    horizon, x, data:
        as in ``tpcalc.groups.plan_shapes``: batch sizes and steps of base and target, how best rates fall with data,
        and how many directions samples have. Refused where one is needed and not given.

    Returns a plan: ``print`` it, ``plan.apply_(model)``, ``plan.groups(model, lr=...)``, ``plan.multipliers()``,
    ``plan.explain(pattern)``, ``plan.to("json")``. Raises ``NotCovered`` naming the parameter that is not understood,
    or the operation on the stream that no power of the depth is known for. Source: Tensor Programs VI, Definition 4.1
    [tensor_programs_vi/definition_41]; Meta-Principled Family, (2.4) to (2.8) [meta_principled/translation].

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
    >>> model = found.apply_(Net(n_layer=64))
    >>> optimizer = torch.optim.AdamW(found.groups(model, lr=1e-3, weight_decay=0.1))
    >>> sorted({group["lr"] for group in optimizer.param_groups})
    [6.25e-05, 0.00025, 0.001]
    >>> family = plan(Net, base=dict(n_layer=4), recipe="depth-mup")
    >>> [family.at(n_layer=n).entry("h.0.2.weight").factor("lr") for n in (4, 8, 64)]
    [1.0, 0.5, 0.0625]
    """
    _checks.choice("unknown", unknown, ("refuse", "as-base"))
    settings: Fields = {
        "recipe": recipe, "optimizer": checked_optimizer(optimizer), "batch": batch, "roles": roles, "unknown": unknown,
        "forward": _checks.choice("forward", forward, ("gauge", "multiplier")),
        "width": _checks.choice("width", width, ("muP",)), "horizon": plan_horizon(horizon, x, data), "data": data}
    if target is None and (base is None or isinstance(base, Mapping)):
        return _family(make, base, settings, reading)
    if target is None:
        make, base, target = two_models(make, base)
    elif is_configuration(make) or isinstance(make, Model):
        raise ValueError(f"target: got {_checks.short(target)} as a third argument behind {type(make).__name__}; a "
                         "model or a configuration is followed by the larger one alone; expected others by name, as "
                         "recipe=")
    _checks.function("make", make, MAKE, optional=False)
    for name, config in (("base", base), ("target", target)):
        _checks.instance(name, config, Mapping, "a dictionary of arguments of make")
    assert isinstance(base, Mapping)
    return _of_target(make, base, target=target, reading=reading, **settings)


def _family(make: Make | Model, base: Config | None, settings: Fields, reading: Reading | None) -> PlanFamily:
    """Plans of a base for all targets; raises ``ValueError`` for what is no base."""
    recipe, kind = settings["recipe"], settings["optimizer"]
    settable(recipe)  # refused before any work
    if reading is not None:
        raise ValueError(f"reading: got {_checks.short(reading)}, which is of one target; expected None without a "
                         "target")
    if base is None and is_configuration(make):
        made, given = of_configuration(make)
        return PlanFamily(made, {}, recipe, kind, tuple(given), partial(_of_target, made, {}, **settings))
    if base is None:
        raise ValueError(f"base: got None, with {_checks.short(make)}; expected make and base, or a configuration of "
                         "transformers")
    _checks.function("make", make, MAKE, optional=False)
    fixed = dict(base)
    return PlanFamily(make, fixed, recipe, kind, settable_of(make, fixed), partial(_of_target, make, fixed, **settings))


def _of_target(make: Make, base: Config, target: Config, recipe: str | Scaling, optimizer: str, forward: str,
               batch: object, width: str, roles: Mapping[str, str] | None, unknown: str,
               horizon: PlanHorizon | None, data: str | None, reading: Reading | None = None) -> ModelPlan:
    """The plan of one target; the arguments are those of ``plan``, and checked."""
    try:
        found = read(make, base, target, batch, roles) if reading is None else reading
    except NotRun as refusal:
        small, ties = meta_shapes(make, base)
        shapes = plan_shapes(small, meta_shapes(make, target)[0], recipe, optimizer, forward, width, ties, data=data)
        note = (f"the base could not be run on a batch that was drawn ({refusal.kind}), so that roles are those that "
                "names and shapes tell; give batch= for a look at it")
        return _model_plan(with_horizon(shapes, horizon), make, base, (note,))
    told = planned(found, unknown)
    if forward == "multiplier":
        for end, module in told.returning.items():
            if not module:
                raise NotCovered(f"{end}: got a branch that no module returns, with forward='multiplier'; expected "
                                 "modules that return branches, or forward='gauge'")
    again = _of_visits(told.roles, recipe, optimizer)
    result = plan_of_roles(told.roles, recipe, optimizer, forward, told.returning if forward == "multiplier" else {},
                           told.notes, again, data)
    power = float(layer_settings(recipe, optimizer, owns_of(optimizer)[0]).branch)
    fewer = float(again[owns_of(optimizer)[0]].of("multiplier", "N")) if again else 0.0
    made = _model_plan(result, make, base, (), found, tuple(
        (module, depth**power * visits**fewer) for module, depth, visits in told.behind))
    if sum(map(prod, found.shapes.values())) <= LARGEST:
        made = _tested(made, recipe, make, base, target, batch)
    return with_horizon(made, horizon)  # what is tested is one update, of any batch


def _of_visits(roles: Roles, recipe: str | Scaling, optimizer: str) -> dict[str, Powers]:
    """What matrices of layers get for the number of visits, by what moves them, where that number grows.

    Raises ``NotCovered`` for recipes that were published for layers that are visited once, and scale something."""
    if all(one.use.visits == 1 for one in roles.parameters):
        return {}
    entry = named_recipe(recipe)
    if entry.target is None and not any(one.sizes for one in (entry.powers or {}).values()):
        return dict.fromkeys(owns_of(optimizer), Powers())
    powers = {own: solved_powers(recipe, layer_settings(recipe, optimizer, own).net, own) for own in owns_of(optimizer)}
    return {own: Powers({"N": branch}, lr={"N": lr}) for own, (branch, lr) in powers.items()}


def _tested(made: ModelPlan, recipe: str | Scaling, make: Make, base: Config, target: Config,
            batch: object) -> ModelPlan:
    """The plan, its reading with the claims that updates and streams of base and target agree. Raises ``NotCovered``
    naming parameter, operation and module where one does not hold."""
    assert made.reading is not None

    def pair(seed: int) -> tuple[Model, Model]:
        small, large = build(make, base, seed), build(make, target, seed)
        for one, config in ((small, base), (large, target)):
            again = seed > 0 and equal_values(one, build(make, config, 0))  # of models that are given, or draw nothing
            draw_zeros(one)
            if again:
                shuffle(one, seed)
        return small, made.multiplied_(made.sized_(large, made.base_sizes(small)))

    def expected(entry: PlanEntry) -> float | None:
        if not entry.parameter.in_layers:
            return 0.0
        if entry.parameter.role == "stream factor":  # it multiplies the stream itself
            return float(entry.powers.of("lr", "L"))
        given = layer_settings(recipe, made.optimizer, entry.optimizer)
        return ExpectedPowers(given, name_in(given, is_last(entry.parameter))).update

    found = UpdateClaims(pair, made.entry, expected, made.roles.width != 1, made.optimizer).claims(batch)
    require(found)
    return replace(made, reading=replace(made.reading, claims=(*made.reading.claims, *found)))


def _model_plan(found: Plan, make: Make, base: Config, notes: tuple[str, ...], reading: Reading | None = None,
                behind: tuple[tuple[str, float], ...] = ()) -> ModelPlan:
    return ModelPlan(**{**vars(found), "notes": (*found.notes, *notes)}, make=make, base=dict(base), reading=reading,
                     behind=behind)


def meta_shapes(make: Make, config: Config) -> tuple[dict[str, Shape], list[tuple[str, ...]]]:
    """Name -> shape of every parameter, and the names of those that have several; of a model without values."""
    model = on_meta(make, config)
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(plain_name(name))
    shapes = {plain_name(name): tuple(parameter.shape) for name, parameter in model.named_parameters()}
    return shapes, [tuple(all_names) for all_names in names.values() if len(all_names) > 1]
