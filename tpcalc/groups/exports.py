"""A plan in the forms that other trainers take."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Callable

from .._types import Fields, Value
from ..tune.factors import ADAMS

if TYPE_CHECKING:
    from .plan import PlanEntry, Plan


def regular_expression(pattern: str) -> str:
    """What matches the names that a pattern stands for, and no others."""
    return "^" + re.escape(pattern).replace(r"\*", r"\d+") + "$"


def _factors(entry: PlanEntry, names: dict[str, str]) -> dict[str, float]:
    found = {key: entry.factor(name) for name, key in names.items() if name != "eps" or entry.optimizer in ADAMS}
    if not entry.parameter.decays:
        found[names["weight_decay"]] = 0.0
    return found


def to_json(plan: Plan) -> str:
    """Everything, as text."""
    names = {name: name for name in ("init", "lr", "eps", "weight_decay", "forward")}
    return json.dumps({
        "recipe": plan.recipe, "optimizer": plan.optimizer, "forward": plan.forward,
        "depth": [plan.roles.layers.base, plan.roles.layers.target], "width": plan.roles.width,
        "parameters": [{"pattern": e.parameter.pattern, "role": e.parameter.role,
                        "powers": {name: e.power(name) for name in names}, "factors": _factors(e, names)}
                       for e in plan.entries], "multipliers": plan.multipliers(), "notes": list(plan.notes)}, indent=2)


def to_hugging_face(plan: Plan) -> list[Fields]:
    """One dictionary a pattern: groups are made of them in a trainer's ``create_optimizer``."""
    names = {"lr": "lr_scale", "weight_decay": "weight_decay_scale", "eps": "eps_scale"}
    return [{"params": regular_expression(e.parameter.pattern), **_factors(e, names)} for e in plan.entries]


def to_nemo(plan: Plan) -> Fields:
    """NeMo Automodel's ``param_group_overrides``, a factor of the optimizer's eps beside them."""
    eps = {e.factor("eps") for e in plan.entries if e.optimizer in ADAMS}
    if len({round(one, 12) for one in eps}) > 1:
        raise ValueError("form: got 'nemo', which has one eps for all parameters, and this plan has "
                         f"{', '.join(f'{one:.4g}' for one in sorted(eps))} times the base's; expected a recipe with "
                         "one eps, such as 'completep' with forward='multiplier', or another form")
    names = {"lr": "lr_mult", "weight_decay": "wd_mult", "eps": "eps"}
    overrides = [{"pattern": regular_expression(e.parameter.pattern), **_factors(e, names)} for e in plan.entries]
    for one in overrides:
        one.pop("eps", None)
    return {"param_group_overrides": overrides, "eps_scale": eps.pop() if eps else 1.0}


def to_megatron(plan: Plan) -> dict[str, dict[str, float]]:
    """{name of a ParamKey: factors}: multiply the configuration's max_lr, min_lr and eps by them in an override."""
    names = {"lr": "lr_mult", "weight_decay": "wd_mult", "eps": "eps_mult"}
    return {e.parameter.pattern: _factors(e, names) for e in plan.entries}


FORMATS: dict[str, Callable[[Value], object]] = {
    "hf": to_hugging_face, "nemo": to_nemo, "megatron": to_megatron, "json": to_json}
