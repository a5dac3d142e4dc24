"""Plans in files: JSON, which is YAML too, with all that groups, multipliers and initial sizes need, and no code."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from os import PathLike
from pathlib import Path
from typing import Mapping

from .. import _checks
from .._files import digest_of, json_of, text_of, write_text
from .._types import Fields, Json, Value
from ..groups.names import LayerCount
from ..groups.plan import PlanEntry, PowerStep
from ..groups.roles import Roles
from ..tune.parameters import Parameter, ParameterGrowth
from ..scaling import Powers
from ..scaling.parametrization import Frozen
from .model_plan import ModelPlan

FORMAT = "tpcalc plan, 1"
ENDINGS = (".json", ".yaml", ".yml")
LEFT_OUT = ("make and base, which are code: initial sizes of the base stand beside its parameters",
            "the reading, which explain has more of where a plan was made")


def save_plan(plan: ModelPlan, path: str | PathLike[str], sizes: Mapping[str, float]) -> None:
    """Write a plan and the root mean squares of its base's parameters, by pattern; whole or not at all."""
    to = _checks.writable("path", _ending(path))
    data = _written(plan, sizes)
    if _read(data).entries != plan.entries:
        raise ValueError("plan: got powers that are no fractions, which a file cannot hold; expected fractions")
    text = json.dumps({"format": FORMAT, "digest": digest_of(data), "plan": data}, indent=1, allow_nan=False)
    write_text(to, text + "\n")


def load(path: str | PathLike[str]) -> ModelPlan:
    """The plan that ``ModelPlan.save`` has written: its groups, multipliers, ``init_`` and ``apply_`` are those of the
    plan that was saved. It has no reading, so that ``explain`` has powers alone.

    Raises ``ValueError`` for a file that is none, or was changed, and ``OSError`` for one that cannot be opened.

    >>> import os, tempfile, torch
    >>> from torch import nn
    >>> from tpcalc.torch import plan
    >>> def net(n):
    ...     return nn.Sequential(nn.Linear(3, n), nn.ReLU(), nn.Linear(n, 1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "plan.json")
    ...     plan(net, dict(n=16), dict(n=64)).save(path)
    ...     found = load(path)
    >>> model = found.apply_(net(64))
    >>> sorted({group["lr_scale"] for group in found.groups(model, lr=1e-3)})
    [0.25, 1.0]
    """
    file = _ending(path)
    try:
        found = json_of(text_of(file))
        if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("plan"), dict):
            raise ValueError(f"it does not say {FORMAT!r}")
        if found.get("digest") != digest_of(found["plan"]):
            raise ValueError("it was changed after it was written")
    except ValueError as error:
        raise ValueError(f"path: got {_checks.short(str(file))}, which is no plan ({error}); expected a file that "
                         "plan.save has written") from None
    return _read(found["plan"])


def _ending(path: object) -> Path:
    if not isinstance(path, (str, PathLike)) or not str(path).lower().endswith(ENDINGS):
        raise ValueError(f"path: got {_checks.short(path)}; expected the path of a file that ends in "
                         f"{', '.join(ENDINGS)}")
    return Path(path)


def _written(plan: ModelPlan, sizes: Mapping[str, float]) -> Json:
    data: Fields = {
        "recipe": plan.recipe, "optimizer": plan.optimizer, "forward": plan.forward,
        "layers": asdict(plan.roles.layers), "width": plan.roles.width,
        "parameters": [{**asdict(one.parameter), "optimizer": one.optimizer, "growth": dict(one.growth),
                        "steps": list(map(_step, one.steps)), "base_size": sizes[one.parameter.pattern]}
                       for one in plan.entries],
        "unfolded": plan.unfolded, "multiplied_modules": plan.behind, "notes": plan.notes, "not_saved": LEFT_OUT}
    plain: Json = json_of(json.dumps(data))  # lists for tuples, as the file has them
    return plain


def _step(step: PowerStep) -> Json:
    given = {one.name: getattr(step.powers, one.name) for one in fields(Powers)}
    powers = {name: None if value is None else {size: str(p) for size, p in value.items()}
              for name, value in given.items()}
    return {"reason": step.reason, "key": step.key, "powers": powers}


def _read(data: Json) -> ModelPlan:
    entries, sizes = [], {}
    for one in data["parameters"]:
        own: Value = {name: _tuples(one[name]) for name in Parameter.__dataclass_fields__ if name != "use"}
        parameter = Parameter(**own, use=ParameterGrowth(**one["use"]))
        steps = tuple(PowerStep(step["reason"], step["key"], Powers(**step["powers"])) for step in one["steps"])
        entries.append(PlanEntry(parameter, one["optimizer"], steps, Frozen(one["growth"])))
        sizes[parameter.pattern] = one["base_size"]
    roles = Roles(LayerCount(**data["layers"]), data["width"], tuple(entry.parameter for entry in entries))
    return ModelPlan(data["recipe"], data["optimizer"], data["forward"], roles, tuple(entries),
                     _tuples(data["unfolded"]), _tuples(data["notes"]), behind=_tuples(data["multiplied_modules"]),
                     sizes=Frozen(sizes))


def _tuples(value: Value) -> Value:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
