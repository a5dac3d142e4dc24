"""Runs in files: arrays and numbers, no code. What was trained is written where words and numbers say it all."""

from __future__ import annotations

import collections.abc
import json
import zipfile
from dataclasses import fields
from fractions import Fraction
from functools import singledispatch
from pathlib import Path
from typing import Any, Mapping

import numpy as np
import sympy as sp

from .._types import Fields, Json, Value
from .. import _checks
from ..parametrizations import DepthScaling, MatrixPowers, Parametrization, WidthScaling
from ..programs import (
    SGD, Adam, AdamW, Clipped, HyperConnections, Lion, Muon, NormalizedSGD, ResNet, Sequences, SignSGD, Skip, Task,
    Transformer)
from ..programs.convolution import Convolution
from ..programs.losses import NAMED
from ..programs.problem import Problem

FORMAT = 1
KINDS: Fields = {kind.__name__: kind for kind in (
    ResNet, Transformer, Convolution, Skip, HyperConnections, SGD, NormalizedSGD, Muon, SignSGD, Lion, Adam,
    AdamW, Clipped, DepthScaling, Parametrization, WidthScaling, MatrixPowers)}


class NoWords(ValueError):
    """A part of a problem that is no words and numbers, such as a function."""


def described(problem: Problem) -> Json:
    """A problem but for its task's arrays, as JSON holds it; raises ``NoWords`` where it cannot, naming the part."""
    losses = [name for name, loss in NAMED.items() if loss == problem.task.loss]
    if not losses:
        raise NoWords(f"task: its loss {_checks.short(problem.task.loss)} is no named one")
    parts = {name: _written(name, getattr(problem, name)) for name in ("net", "opt", "scale")}
    return {**parts, "depth": str(problem.depth), "width": str(problem.width), "loss": losses[0]}


def _written(name: str, value: Any) -> Json:
    if KINDS.get(type(value).__name__) is not type(value):
        raise NoWords(f"{name}: {_checks.short(value)} is none of {', '.join(KINDS)}")
    return {"kind": type(value).__name__, **{f.name: _number(getattr(value, f.name), f"{name}.{f.name}")
                                             for f in fields(value)}}


@singledispatch
def _number(value: object, name: str) -> Value:
    """Text, flags, floats and whole numbers as they are; exact fractions as ["p/q"]; sequences, mappings and parts of
    parts by what is in them."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if KINDS.get(type(value).__name__) is type(value):
        return _written(name, value)
    raise NoWords(f"{name}: {_checks.short(value)} is neither text nor a number")


@_number.register(sp.Rational)
@_number.register(Fraction)
def _of_fraction(value: object, name: str) -> Value:
    return [str(value)]


@_number.register(tuple)
def _of_sequence(value: tuple, name: str) -> Value:
    return {"each": [_number(one, name) for one in value]}


@_number.register(collections.abc.Mapping)
def _of_mapping(value: Mapping[str, object], name: str) -> Value:
    return {"by name": {key: _number(one, f"{name}[{key!r}]") for key, one in value.items()}}


def _read_number(value: object) -> Any:
    if isinstance(value, list):
        return sp.Rational(value[0])
    if not isinstance(value, dict):
        return value
    if "kind" in value:
        return _read_part(value)
    if "by name" in value:
        return {key: _read_number(one) for key, one in value["by name"].items()}
    return tuple(map(_read_number, value["each"]))


def _read_part(written: Mapping[str, Any]) -> Any:
    return KINDS[written["kind"]](**{name: _read_number(value) for name, value in written.items() if name != "kind"})


def problem_of(written: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Problem:
    """The problem that ``described`` wrote, of the task with these arrays: of sequences where they have positions."""
    what, loss = (arrays["inputs"], arrays["targets"]), written["loss"]
    task = Sequences(*what, loss) if what[0].ndim == 4 else Task(*what, loss, arrays.get("probes"))
    net, opt, scale = (_read_part(written[name]) for name in ("net", "opt", "scale"))
    depth, width = (sp.oo if written[name] == "oo" else int(written[name]) for name in ("depth", "width"))
    return Problem(net, task, opt, scale, depth, width)


def write(path: Any, arrays: Mapping[str, np.ndarray | None], words: Mapping[str, Any]) -> None:
    """Arrays and JSON in one .npz file, written whole."""
    target = _checks.writable("path", path)
    there = {name: array for name, array in arrays.items() if array is not None}
    part = target.with_name(target.name + ".part")
    with open(part, "wb") as file:
        np.savez_compressed(file, words=np.array(json.dumps({"format": FORMAT, **words})),
                            **there)  # type: ignore[arg-type]
    part.replace(target)


def read(path: Any) -> tuple[dict[str, np.ndarray], Json]:
    """What ``write`` wrote; raises ``ValueError`` for a file that is not there, or is no saved run."""
    try:
        with np.load(Path(path), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        words = json.loads(str(arrays.pop("words")))
        if words["format"] != FORMAT:
            raise ValueError(f"its format is {words['format']}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"path: {_checks.short(path)} given, which cannot be read as a saved run ({error}); allowed "
                         "is a file that run.save wrote") from None
    return arrays, words
