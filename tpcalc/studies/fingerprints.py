"""Objects told apart by their content, as text: names of classes and functions, and the values they hold."""

from __future__ import annotations

import hashlib
import inspect
import sys
from functools import partial, singledispatch
from types import CellType, CodeType, FunctionType, MethodType, ModuleType

import numpy as np

from .._types import Value
from ..errors import NotCovered

HIDDEN = ("__doc__", "__module__", "__qualname__", "__firstlineno__")  # of a class, and not what it does


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


def code_of(function: Value) -> str:
    """A digest of what a function does, as written: its code, defaults, and the functions, classes and constants that
    it reads, as far as those are of no installed package. Comments, names of local variables and line numbers do not
    count.

    >>> code_of(lambda x: x + 1) == code_of(lambda x: x + 1) != code_of(lambda x: x + 2)
    True
    """
    return hashlib.sha256(repr(_written(function, set())).encode()).hexdigest()


def _written(value: Value, seen: set[int]) -> Value:
    value = inspect.unwrap(value) if callable(value) else value
    if isinstance(value, partial):
        return [_written(one, seen) for one in (value.func, *value.args, *value.keywords.items())]
    if isinstance(value, MethodType):
        return [_written(value.__func__, seen), _written(value.__self__, seen)]
    if isinstance(value, CodeType):
        constants = [sorted(map(repr, one)) if isinstance(one, frozenset) else _written(one, seen)
                     for one in value.co_consts]
        return [value.co_code.hex(), constants, value.co_names]
    if isinstance(value, (tuple, bool, int, float, str, bytes, type(None))):
        return [_written(one, seen) for one in value] if isinstance(value, tuple) else repr(value)
    if isinstance(value, np.ndarray):
        return content(value) if value.dtype != object else "array"
    kind = value if isinstance(value, (type, FunctionType)) else type(value)
    if id(value) in seen or isinstance(value, ModuleType) or seen and _is_installed(kind):
        return f"{kind.__module__}.{kind.__qualname__}" if not isinstance(value, ModuleType) else value.__name__
    seen.add(id(value))
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]
        read = [value.__globals__[name] for name in _names(value.__code__) if name in value.__globals__]
        return [_written(one, seen) for one in (value.__code__, value.__defaults__, *cells, *read)]
    if isinstance(value, type):
        return [[name, _written(one, seen)] for name, one in sorted(vars(value).items())
                if isinstance(one, (FunctionType, type, int, float, str, tuple)) and name not in HIDDEN] + [
                    _written(one, seen) for one in value.__bases__]
    return [_written(type(value), seen), sorted((name, _written(one, seen)) for name, one in getattr(
        value, "__dict__", {}).items())]


def _names(code: CodeType) -> list[str]:
    """The names that a function reads, those of functions within it among them."""
    inner = [name for one in code.co_consts if isinstance(one, CodeType) for name in _names(one)]
    return list(dict.fromkeys([*code.co_names, *inner]))


def _is_installed(kind: Value) -> bool:
    """Is it of the standard library, or of a package that an installer has put where it is?"""
    module = sys.modules.get(kind.__module__ or "")
    path = getattr(module, "__file__", None) or ""
    return kind.__module__.partition(".")[0] in {*sys.stdlib_module_names, "tpcalc"} - {"__main__"} or (
        "site-packages" in path)
