"""Objects told apart by their content, as text: names of classes and functions, and the values they hold."""

from __future__ import annotations

import hashlib
import sys
from functools import singledispatch
from types import ModuleType

import numpy as np

from .._types import Value
from ..errors import NotCovered


@singledispatch
def content(value: Value) -> str:
    """A text that is equal for equal content, from one process to the next.

    Numbers, text, arrays, containers of them, classes and functions of modules by their names, and objects of such
    classes by their attributes. Raises ``ValueError`` for anything else: functions written inside others, lambdas,
    and objects without attributes, of which two cannot be told apart by looking.

    >>> content((1.5, "a", None))
    "tuple(1.5, 'a', None)"
    """
    if hasattr(value, "__qualname__"):
        return _named(value)
    hidden = type(value).__reduce__ is not object.__reduce__ or any(
        vars(kind).get("__slots__") for kind in type(value).__mro__)
    if hidden or not hasattr(value, "__dict__"):
        raise NotCovered(f"{value!r} holds nothing that can be read")
    return f"{_named(type(value))}({content(vars(value))})"


for _kind in (type(None), bool, int, float, str, bytes, np.generic):
    content.register(_kind)(repr)


@content.register(tuple)
@content.register(list)
def _sequence(value: tuple | list) -> str:
    return f"{type(value).__name__}({', '.join(map(content, value))})"


@content.register(dict)
def _mapping(value: dict) -> str:
    return f"dict({', '.join(f'{content(key)}: {content(one)}' for key, one in value.items())})"


@content.register(np.ndarray)
def _array(value: np.ndarray) -> str:
    if value.dtype == object:
        raise NotCovered(f"{value!r} holds nothing that can be read")
    return f"array({value.shape}, {value.dtype}, {hashlib.sha256(value.tobytes()).hexdigest()})"


@content.register(ModuleType)
def _module(value: ModuleType) -> str:
    return value.__name__


def _named(thing: Value) -> str:
    """The name of a class or function that its module knows by it."""
    found: Value = sys.modules.get(thing.__module__ or "")
    for part in thing.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is not thing:
        raise NotCovered(f"{thing!r} is no class or function that a module knows by its name")
    return f"{thing.__module__}.{thing.__qualname__}"
