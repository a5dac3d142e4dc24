"""Functions told apart by what is written in them, and in what they read, as digests."""

from __future__ import annotations

import hashlib
import inspect
import sys
from functools import partial, singledispatch
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Sequence

import numpy as np

from .._types import Value
from .fingerprints import content

HIDDEN = ("__doc__", "__module__", "__qualname__", "__firstlineno__")  # of a class, and not what it does
Seen = set[int]  # ids of what is written down already: functions may read each other


def code_of(function: Value) -> str:
    """A digest of what a function does, as written: its code, defaults, and the functions, classes and constants that
    it reads, as far as those are of no installed package. Comments, names of local variables and line numbers do not
    count.

    >>> code_of(lambda x: x + 1) == code_of(lambda x: x + 1) != code_of(lambda x: x + 2)
    True
    """
    return hashlib.sha256(repr(_written(function, set())).encode()).hexdigest()


@singledispatch
def _written(value: Value, seen: Seen) -> Value:
    """What is written in a value, as nested lists of text. Objects are their class and attributes."""
    kind = type(value)
    if callable(value) and hasattr(value, "__wrapped__"):  # such as a cached function
        return _written(inspect.unwrap(value), seen)
    if id(value) in seen or _is_installed(kind):
        return _name(kind)
    seen.add(id(value))
    held = sorted(getattr(value, "__dict__", {}).items())
    return [_written(kind, seen), [[name, _written(one, seen)] for name, one in held]]


for _kind in (type(None), bool, int, float, str, bytes):
    _written.register(_kind)(lambda value, seen: repr(value))


@_written.register(tuple)
def _tuple(value: tuple[Value, ...], seen: Seen) -> Value:
    return _all(value, seen)


@_written.register(frozenset)
def _set(value: frozenset[Value], seen: Seen) -> Value:
    return sorted(map(repr, value))


@_written.register(np.ndarray)
def _array(value: np.ndarray, seen: Seen) -> Value:
    return content(value) if value.dtype != object else "array"


@_written.register(ModuleType)
def _module(value: ModuleType, seen: Seen) -> Value:
    return value.__name__


@_written.register(partial)
def _partial(value: partial[Any], seen: Seen) -> Value:
    return _all((value.func, value.args, *sorted(value.keywords.items())), seen)


@_written.register(MethodType)
def _method(value: MethodType, seen: Seen) -> Value:
    return _all((value.__func__, value.__self__), seen)


@_written.register(CodeType)
def _code(value: CodeType, seen: Seen) -> Value:
    return [value.co_code.hex(), _all(value.co_consts, seen), value.co_names]


@_written.register(FunctionType)
def _function(value: FunctionType, seen: Seen) -> Value:
    if hasattr(value, "__wrapped__"):
        return _written(inspect.unwrap(value), seen)
    if id(value) in seen or seen and _is_installed(value):  # the one that is asked for is looked into in any case
        return _name(value)
    seen.add(id(value))
    cells = [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]
    read = [value.__globals__[name] for name in _names(value.__code__) if name in value.__globals__]
    return _all((value.__code__, value.__defaults__, *cells, *read), seen)


@_written.register(type)
def _class(value: type, seen: Seen) -> Value:
    if id(value) in seen or seen and _is_installed(value):
        return _name(value)
    seen.add(id(value))
    held = [[name, _written(one, seen)] for name, one in sorted(vars(value).items())
            if isinstance(one, (FunctionType, type, int, float, str, tuple)) and name not in HIDDEN]
    return [held, _all(value.__bases__, seen)]


def _all(values: Sequence[Value], seen: Seen) -> list[Value]:
    return [_written(one, seen) for one in values]


def _name(kind: Value) -> str:
    """A name, with its module where that is installed: a script's own may be run, or imported."""
    return f"{kind.__module__}.{kind.__qualname__}" if _is_installed(kind) else str(kind.__qualname__)


def _names(code: CodeType) -> list[str]:
    """The names that a function reads, those of functions within it among them."""
    inner = [name for one in code.co_consts if isinstance(one, CodeType) for name in _names(one)]
    return list(dict.fromkeys([*code.co_names, *inner]))


def _is_installed(kind: Value) -> bool:
    """Is it of the standard library, or of a package that an installer has put where it is?"""
    path = getattr(sys.modules.get(kind.__module__ or ""), "__file__", None) or ""
    root = (kind.__module__ or "").partition(".")[0]
    return root != "__main__" and (root in sys.stdlib_module_names or root == "tpcalc" or "site-packages" in path)
