"""Functions told apart by what is written in them, and in what they read, as digests."""

from __future__ import annotations

import dis
import hashlib
import inspect
import sys
from argparse import Namespace
from functools import partial, singledispatch
from types import CellType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, Callable, Sequence

import numpy as np

from .._types import Value
from .fingerprints import content

HIDDEN = ("__doc__", "__module__", "__qualname__", "__firstlineno__")  # of a class, and not what it does
Seen = set[int]  # ids of what is written down already: functions may read each other


def code_of(function: Value) -> str:
    """A digest of what a function does, as written: its code, defaults, and the functions, classes and values that it
    reads, as far as those are of no installed package. Comments, names of local variables and line numbers do not
    count, nor values that the function itself writes, such as a count of its calls.

    >>> code_of(lambda x: x + 1) == code_of(lambda x: x + 1) != code_of(lambda x: x + 2)
    True
    """
    return hashlib.sha256(repr(written(function, set())).encode()).hexdigest()


@singledispatch
def written(value: Value, seen: Seen) -> Value:
    """What is written in a value, as nested lists of text. Objects are their class and attributes."""
    kind = type(value)
    if callable(value) and hasattr(value, "__wrapped__"):  # such as a cached function
        return written(inspect.unwrap(value), seen)
    if id(value) in seen or _is_installed(kind):
        return _name(kind)
    seen.add(id(value))
    held = sorted(getattr(value, "__dict__", {}).items())
    return [written(kind, seen), [[name, written(one, seen)] for name, one in held]]


for _kind in (type(None), bool, int, float, str, bytes):
    written.register(_kind)(lambda value, seen: repr(value))


@written.register(tuple)
def _tuple(value: tuple[Value, ...], seen: Seen) -> Value:
    return _all(value, seen)


@written.register(list)
def _list(value: list[Value], seen: Seen) -> Value:
    return _once(value, seen, lambda: _all(value, seen))


@written.register(dict)
def _dict(value: dict[Value, Value], seen: Seen) -> Value:
    return _once(value, seen, lambda: [_all(pair, seen) for pair in value.items()])


@written.register(SimpleNamespace)
@written.register(Namespace)
def _namespace(value: Namespace | SimpleNamespace, seen: Seen) -> Value:
    return _once(value, seen, lambda: [_all(pair, seen) for pair in sorted(vars(value).items())])


def _once(value: Value, seen: Seen, inside: Callable[[], Value]) -> Value:
    """What is inside of a container, where it is met for the first time: it may hold itself."""
    if id(value) in seen:
        return _name(type(value))
    seen.add(id(value))
    return inside()


@written.register(set)
@written.register(frozenset)
def _set(value: frozenset[Value] | set[Value], seen: Seen) -> Value:
    return sorted(map(repr, value))


@written.register(np.ndarray)
def _array(value: np.ndarray, seen: Seen) -> Value:
    return content(value) if value.dtype != object else "array"


@written.register(ModuleType)
def _module(value: ModuleType, seen: Seen) -> Value:
    return value.__name__


@written.register(partial)
def _partial(value: partial[Any], seen: Seen) -> Value:
    return _all((value.func, value.args, *sorted(value.keywords.items())), seen)


@written.register(MethodType)
def _method(value: MethodType, seen: Seen) -> Value:
    return _all((value.__func__, value.__self__), seen)


@written.register(CodeType)
def _code(value: CodeType, seen: Seen) -> Value:
    return [value.co_code.hex(), _all(value.co_consts, seen), value.co_names]


@written.register(FunctionType)
def _function(value: FunctionType, seen: Seen) -> Value:
    if hasattr(value, "__wrapped__"):
        return written(inspect.unwrap(value), seen)
    if id(value) in seen or seen and _is_installed(value):  # the one that is asked for is looked into in any case
        return _name(value)
    seen.add(id(value))
    cells = [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]
    read = [value.__globals__[name] for name in _names(value.__code__) if name in value.__globals__]
    return _all((value.__code__, value.__defaults__, *cells, *read), seen)


@written.register(type)
def _class(value: type, seen: Seen) -> Value:
    if id(value) in seen or _is_installed(value):
        return _name(value)
    seen.add(id(value))
    held = [[name, written(one, seen)] for name, one in sorted(vars(value).items())
            if isinstance(one, (FunctionType, type, int, float, str, tuple)) and name not in HIDDEN
            and not _is_inherited(value, name, one)]
    return [held, _all(value.__bases__, seen)]


def _is_inherited(kind: type, name: str, one: Value) -> bool:
    """Is it what a base has, wrapped? PyTorch's optimizers write that into their class when the first one is made."""
    inherited = (getattr(base, name, None) for base in kind.__bases__)
    return callable(one) and any(callable(its) and inspect.unwrap(one) is inspect.unwrap(its) for its in inherited)


def _all(values: Sequence[Value], seen: Seen) -> list[Value]:
    return [written(one, seen) for one in values]


def _name(kind: Value) -> str:
    """A name, with its module where that is installed: a script's own may be run, or imported."""
    return f"{kind.__module__}.{kind.__qualname__}" if _is_installed(kind) else str(kind.__qualname__)


def _names(code: CodeType) -> list[str]:
    """The global names that a function reads and does not write, those of functions within it among them."""
    said = [one for part in _parts(code) for one in dis.get_instructions(part)]
    written_here = {one.argval for one in said if one.opname == "STORE_GLOBAL"}
    read = [one.argval for one in said if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    return list(dict.fromkeys(name for name in read if name not in written_here))


def _parts(code: CodeType) -> list[CodeType]:
    """The code and that of functions within it."""
    return [code, *(part for one in code.co_consts if isinstance(one, CodeType) for part in _parts(one))]


def _is_installed(kind: Value) -> bool:
    """Is it of the standard library, or of a package that an installer has put where it is?"""
    path = getattr(sys.modules.get(kind.__module__ or ""), "__file__", None) or ""
    root = (kind.__module__ or "").partition(".")[0]
    return root != "__main__" and (root in sys.stdlib_module_names or root == "tpcalc" or "site-packages" in path)
