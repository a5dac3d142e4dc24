"""What makes models from configurations of transformers, or from two models, as ``make`` of a function would."""

from __future__ import annotations

import copy
from functools import partial

import torch
from torch.nn import Module as Model

from .. import _checks
from .._types import Fields, Value
from .reading.building import Config, Make


def two_models(small: object, large: object) -> tuple[Make, Config, Config]:
    """make, base and target for two models, or for two configurations of transformers."""
    given = {"base": small, "target": large}
    if all(isinstance(one, torch.nn.Module) for one in given.values()):
        return (lambda which: copy.deepcopy(given[which])), {"which": "base"}, {"which": "target"}
    if all(map(is_configuration, given.values())):
        return (lambda which: model_of(given[which])), {"which": "base"}, {"which": "target"}
    raise ValueError(f"target: got None, with {_checks.short(small)} and {_checks.short(large)}; expected make, base "
                     "and target, two models, or two configurations of transformers")


def is_configuration(value: object) -> bool:
    """Is this a configuration of transformers?"""
    return hasattr(value, "model_type") and hasattr(value, "architectures")


def model_of(config: object) -> Model:
    """The model that a configuration of transformers is of: of its first architecture, or a causal language model."""
    import transformers  # type: ignore[import-not-found]
    names = getattr(config, "architectures", None)
    if names:
        return getattr(transformers, names[0])(config)
    return transformers.AutoModelForCausalLM.from_config(config)


def of_configuration(config: Value) -> tuple[Make, Fields]:
    """A function of settings that makes models like a configuration's but for these, and what the configuration says
    of all that can be set.

    What a configuration computes from other settings, as a head's size from the width, is computed anew: it is made of
    the fewest settings that make the same one.
    """
    given = dict(config.to_dict())
    fewest = dict(given)
    for name in given:
        fewer = {one: value for one, value in fewest.items() if one != name}
        if _said(type(config), fewer) == given:
            fewest = fewer
    return partial(_made, type(config), fewest), given


def _made(kind: Value, fewest: Fields, **changes: object) -> Model:
    return model_of(kind.from_dict(copy.deepcopy({**fewest, **changes})))


def _said(kind: Value, settings: Fields) -> Fields | None:
    """What a configuration of these settings says; None where they make none."""
    try:
        return dict(kind.from_dict(copy.deepcopy(settings)).to_dict())
    except Exception:  # what a library raises of settings that do not fit is of no common class
        return None
