"""What makes models from configurations of transformers, or from two models, as ``make`` of a function would."""

from __future__ import annotations

import copy
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Mapping

import torch
from torch.nn import Module as Model

from .. import _checks
from .._files import json_of, text_of
from .._types import Fields, Value
from ..errors import of_extra, NotCovered
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
    if not names:
        return transformers.AutoModelForCausalLM.from_config(config)
    if not hasattr(transformers, names[0]):
        raise NotCovered(f"architectures: got {names[0]!r}, which transformers {transformers.__version__} does not "
                         "have; expected one of its classes")
    return getattr(transformers, names[0])(config)


def configuration_of(name: str, path: str | PathLike[str]) -> Value:
    """A configuration of transformers from the ``config.json`` that models have; nothing is downloaded, no code of the
    file's is run. Raises ``MissingExtra`` without transformers, ``ValueError`` for what is no such file, and
    ``OSError`` for one that cannot be opened."""
    transformers = of_extra("transformers", "hf", "a configuration of Hugging Face")
    said = _checks.short(str(path))
    try:
        given = json_of(text_of(Path(path)))
    except ValueError as error:
        raise ValueError(f"{name}: got {said}, which is no JSON ({error}); expected a model's config.json") from None
    kind = given.get("model_type") if isinstance(given, dict) else None
    if not isinstance(kind, str) or kind not in transformers.CONFIG_MAPPING:
        raise ValueError(f"{name}: got {said} with the model_type {_checks.short(kind)}; expected a model's "
                         f"config.json, of a type that transformers {transformers.__version__} has")
    return transformers.CONFIG_MAPPING[kind].from_dict(given)


def of_configuration(config: Value) -> tuple[Make, Fields]:
    """A function of settings that makes models like a configuration's but for these, and what the configuration says
    of all that can be set; names that all configurations understand, such as num_hidden_layers, do for its own.

    What a configuration computes from other settings, as a head's size from the width, is computed anew: it is made of
    the fewest settings that make the same one.
    """
    given = dict(config.to_dict())
    fewest = dict(given)
    for name in given:
        fewer = {one: value for one, value in fewest.items() if one != name}
        if _said(type(config), fewer) == given:
            fewest = fewer
    common = {name: own for name, own in (config.attribute_map or {}).items() if own in given and name not in given}
    make = partial(_made, type(config), fewest, common)
    return make, {**given, **{name: given[own] for name, own in common.items()}}


def _made(kind: Value, fewest: Fields, common: Mapping[str, str], /, **changes: object) -> Model:
    own = [common.get(name, name) for name in changes]
    if twice := [name for name in changes if name in common and common[name] in changes]:
        raise ValueError(f"target: got {twice[0]!r} and {common[twice[0]]!r}, which are one; expected one of them")
    return model_of(kind.from_dict(copy.deepcopy({**fewest, **dict(zip(own, changes.values()))})))


def _said(kind: Value, settings: Fields) -> Fields | None:
    """What a configuration of these settings says; None where they make none."""
    try:
        return dict(kind.from_dict(copy.deepcopy(settings)).to_dict())
    except Exception:  # what a library raises of settings that do not fit is of no common class
        return None
