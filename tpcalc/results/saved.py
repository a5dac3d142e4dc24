"""Runs in files: arrays and numbers, no code. What was trained is written where words and numbers say it all."""

from __future__ import annotations

import collections.abc
import json
from contextlib import contextmanager
from dataclasses import fields
from fractions import Fraction
from functools import singledispatch
from os import PathLike
from pathlib import Path
from typing import Any, Collection, Iterator, Mapping

import numpy as np
import sympy as sp

from .._files import arrays_of, digest_of, json_of
from .._numbers import from_text
from .._types import Fields, Json, Value
from .. import _checks
from ..scaling import DepthScaling, Parametrization, Powers, WidthScaling
from ..optimizers import SGD, SOAP, Adam, AdamW, Clipped, Lion, Muon, NormalizedSGD, Shampoo, SignSGD
from ..models import HyperConnections, ResNet, Skip, Transformer
from ..data import Sequences, Task
from ..models.convolution import Convolution
from ..data.losses import NAMED
from ..training.problem import Problem

FORMAT = 2
KINDS: Fields = {kind.__name__: kind for kind in (
    ResNet, Transformer, Convolution, Skip, HyperConnections, SGD, NormalizedSGD, Muon, SignSGD, Lion, Adam,
    AdamW, Shampoo, SOAP, Clipped, DepthScaling, Parametrization, WidthScaling, Powers)}

PARTS = ("net", "opt", "scale", "depth", "width", "loss")
WORDS: dict[str, tuple[type | None, ...]] = {
    "method": (str,), "depth": (int, None), "width": (int, None), "notes": (list,), "error_estimate": (float, int),
    "linear": (bool,), "exact": (bool,), "loss": (str,)}
OF_LAYERS = ("reflection", "collocation", "long_collocation", "dense", "conditioned", "particles")  # methods
ARRAYS, OPTIONAL = ("inputs", "targets", "outputs", "layer_times"), (
    "probes", "probe_outputs", "standard_error", "bias_bound")


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
    """Text, flags, floats and whole numbers as they are, tp.oo as a float; exact fractions as ["p/q"]; sequences,
    mappings and parts of parts by what is in them."""
    if value is sp.oo:
        return float("inf")
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


def _read_number(value: object, name: str) -> Any:
    if isinstance(value, list):
        if len(value) != 1 or not isinstance(value[0], str):
            raise ValueError(f"{name}: got {_checks.short(value)}; expected one text such as '1/2'")
        return sp.Rational(from_text(value[0]))
    if not isinstance(value, dict):
        return value
    if "kind" in value:
        return _read_part(value, name)
    if set(value) == {"by name"} and isinstance(value["by name"], dict):
        return {key: _read_number(one, f"{name}[{key!r}]") for key, one in value["by name"].items()}
    if set(value) == {"each"} and isinstance(value["each"], list):
        return tuple(_read_number(one, f"{name}[{i}]") for i, one in enumerate(value["each"]))
    raise ValueError(f"{name}: got {_checks.short(value)}; expected a kind and its fields, entries 'by name' and "
                     "a list of 'each'")


def _read_part(written: object, name: str) -> Any:
    """A part of a problem from its kind and its fields, neither more nor fewer than it has."""
    kind = written.get("kind") if isinstance(written, dict) else None
    if not isinstance(written, dict) or not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"{name}: got {_checks.short(written)}; expected a kind, one of {', '.join(KINDS)}, with "
                         "its fields")
    names = [one.name for one in fields(KINDS[kind])]
    _require_names(name, written, ["kind", *names])
    try:
        return KINDS[kind](**{one: _read_number(written[one], f"{name}.{one}") for one in names})
    except TypeError as error:  # a field of a type that none of the checks of its class has met
        raise ValueError(f"{name}: {_checks.short(written)} found, which is no {kind} ({error})") from None


def _require_names(name: str, given: object, allowed: Collection[str], optional: Collection[str] = ()) -> None:
    """Raise ``ValueError`` unless ``given`` is a mapping that has what is allowed, and nothing else."""
    if not isinstance(given, collections.abc.Mapping) or not set(allowed) <= set(given) <= {*allowed, *optional}:
        found = ", ".join(sorted(given)) if isinstance(given, collections.abc.Mapping) else _checks.short(given)
        raise ValueError(f"{name}: got {found}; expected {', '.join(allowed)}"
                         + f" and where there are any {', '.join(optional)}" * bool(optional))


def problem_of(written: object, arrays: Mapping[str, np.ndarray]) -> Problem:
    """The problem that ``described`` wrote, of the task with these arrays: of sequences where they have positions.

    Raises ``ValueError`` for what ``described`` does not write.
    """
    _require_names("problem", written, PARTS)
    assert isinstance(written, dict)
    what, loss = (arrays["inputs"], arrays["targets"]), written["loss"]
    task = Sequences(*what, loss) if what[0].ndim == 4 else Task(*what, loss, arrays.get("probes"))
    net, opt, scale = (_read_part(written[name], name) for name in ("net", "opt", "scale"))
    depth, width = (sp.oo if written[name] == "oo" else int(_of_type(name, written[name], str))
                    for name in ("depth", "width"))
    return Problem(net, task, opt, scale, depth, width)


def _of_type(name: str, value: Any, *kinds: type | None) -> Any:
    """``value``, which must be of one of the types that JSON has."""
    if not any(value is None if kind is None else type(value) is kind for kind in kinds):
        allowed = " or ".join("none" if kind is None else kind.__name__ for kind in kinds)
        raise ValueError(f"{name}: got {_checks.short(value)}; expected {allowed}")
    return value


def write_arrays(path: Any, arrays: Mapping[str, np.ndarray | None], words: Json) -> None:
    """Arrays and JSON in one .npz file, written whole, with a digest of both."""
    target = _checks.writable("path", path)
    there = {name: array for name, array in arrays.items() if array is not None}
    words = json.loads(json.dumps({"format": FORMAT, **words}))
    part = target.with_name(target.name + ".part")
    with open(part, "wb") as file:
        np.savez_compressed(file, words=np.array(json.dumps({**words, "digest": digest_of(words, there)})),
                            **there)  # type: ignore[arg-type]
    part.replace(target)


def read_arrays(path: Any) -> tuple[dict[str, np.ndarray], Json]:
    """What ``write_arrays`` wrote of a run; raises ``ValueError``, naming the file, where it is not there, is damaged,
    or is no saved run."""
    if not isinstance(path, (str, PathLike)):
        raise ValueError(f"path: got {_checks.short(path)}; expected the path of a file that run.save wrote")
    with damaged(path):
        arrays = arrays_of(Path(path))
        text = arrays.pop("words", None)
        if text is None or text.dtype.kind != "U" or text.ndim:
            raise ValueError("no array 'words' of one text found")
        words = json_of(str(text))
        if not isinstance(words, dict) or words.get("format") != FORMAT:
            raise ValueError(f"format: got {_checks.short(words)}; expected an object whose format is {FORMAT}")
        found = words.pop("digest", None)
        if found != digest_of(words, arrays):
            raise ValueError("what it holds is not what was written: its digest differs")
        _require_names("words", words, ["format", "problem", *WORDS])
        for name, kinds in WORDS.items():
            _of_type(name, words[name], *kinds)
        for note in words["notes"]:
            _of_type("notes", note, str)
        _require_names("arrays", arrays, ARRAYS, OPTIONAL)
        for name, array in arrays.items():
            # runs of which outputs alone are known have no layer times
            none = name == "layer_times" and words["method"] not in OF_LAYERS
            if array.dtype.kind != "f" or not (array.size or none):
                raise ValueError(f"{name}: got an array of type {array.dtype} and shape {array.shape}; expected "
                                 "floats")
    return arrays, words


def require_shapes(path: Any, arrays: Mapping[str, np.ndarray], task: Task | Sequences) -> None:
    """Raise ``ValueError``, naming the file, where arrays are not of the shapes that a run of this task has."""
    wanted: dict[str, tuple[int, ...] | None] = dict.fromkeys(
        ("outputs", "standard_error", "bias_bound"), task.targets.shape)
    probes = task.probes
    wanted["probe_outputs"] = None if probes is None else (task.steps, len(probes), task.d_out)
    wanted["layer_times"] = (arrays["layer_times"].size,)
    for name, array in arrays.items():
        if name in wanted and array.shape != wanted[name]:
            raise ValueError(f"path: got {_checks.short(path)}, whose {name} have the shape {array.shape}; expected "
                             f"{wanted[name] or 'nothing'}, as the task has it")


@contextmanager
def damaged(path: Any) -> Iterator[None]:
    """Errors of what is read here are those of the file, which is named."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise ValueError(f"path: got {_checks.short(path)}, which cannot be read as a saved run ({error}); expected "
                         "a file that run.save wrote") from None
