"""The table of array operations that lowered programs use: NumPy's by default, or those of any array-API namespace."""

from __future__ import annotations

import importlib
import math
import operator
from functools import lru_cache, reduce
from types import ModuleType
from typing import Callable, Sequence

import numpy as np
import sympy as sp
from scipy import special

from .._types import Array, DType
from .. import _checks
from ..errors import MissingExtra, NotCovered
from ..programs.by_position import table_entry

PRECISIONS = {"float32": np.float32, "float64": np.float64}
NAMESPACES = {"numpy": "numpy", "torch": "array_api_compat.torch", "cupy": "array_api_compat.cupy", "jax": "jax.numpy"}
NEEDED = ("asarray", "float32", "float64", "broadcast_to", "concat", "permute_dims", "reshape", "stack", "sum", "mean",
          "all", "isfinite", "where", "maximum", "minimum", "tanh", "sinh", "cosh", "exp", "log", "sin", "cos", "abs",
          "sign", "sqrt")
HALF = sp.Rational(1, 2)
ROUNDING = 1e-12  # of a share times a number of coordinates
SPECIAL = {"torch": "torch.special", "cupy": "cupyx.scipy.special", "jax": "jax.scipy.special"}  # where erf is


class Arrays:
    """Arrays of one namespace and precision.

    namespace: "numpy", "torch", "cupy" or "jax" (through the extra "backends"), or an array-API namespace itself, a
    module or an object; dtype: "float32" or "float64", by name or as NumPy's type; device: what the namespace takes as
    one, None for its default. Raises ``ValueError`` for other names and for objects that lack an operation,
    ``MissingExtra`` where a package is missing.

    >>> Arrays("numpy", "float32").asarray([1, 2]).dtype.name
    'float32'
    """

    def __init__(self, namespace: Array = "numpy", dtype: DType = "float64", device: Array = None) -> None:
        self.precision = precision(dtype)
        self.device = device
        if isinstance(namespace, str):
            self.name = _checks.choice("namespace", namespace, NAMESPACES)
            self.xp = _imported(NAMESPACES[self.name], self.name)
        else:
            self.name, self.xp = getattr(namespace, "__name__", type(namespace).__name__), namespace
            missing = [name for name in NEEDED if not hasattr(namespace, name)]
            if missing:
                raise ValueError(f"namespace: got {_checks.short(namespace)}, without {', '.join(missing)}; expected "
                                 f"{', '.join(map(repr, NAMESPACES))}, and array-API namespaces")
        self.is_numpy = self.xp is np
        if self.name == "jax" and self.precision is np.float64:
            importlib.import_module("jax").config.update("jax_enable_x64", True)
        self.dtype = getattr(self.xp, self.precision.__name__)
        self.rounding = float(np.finfo(self.precision).eps)
        self.functions = _functions(self)

    def __reduce__(self) -> tuple[Callable[..., Arrays], tuple[object, ...]]:
        """Modules are no data: what is pickled is the namespace's name, and the module is imported again."""
        known = self.name in NAMESPACES
        return _again, (self.name if known or isinstance(self.xp, ModuleType) else self.xp, known,
                        self.precision.__name__, self.device)

    def asarray(self, values: Array) -> Array:
        """An array of this namespace and precision, of numbers or a NumPy array."""
        if self.is_numpy:
            return np.asarray(values, dtype=self.precision)
        values = np.asarray(values, dtype=self.precision, order="C")
        return self.xp.asarray(values, dtype=self.dtype, **({} if self.device is None else {"device": self.device}))

    def lifted(self, value: Array) -> Array:
        """A number as an array, and an array as it is."""
        return self.asarray(value) if isinstance(value, (float, int)) else value

    def numpy(self, array: Array) -> np.ndarray:
        """The values of an array, or a number, as NumPy's."""
        if isinstance(array, (np.ndarray, float, int)):
            return np.asarray(array)
        array = array.detach().cpu() if hasattr(array, "detach") else array.get() if hasattr(array, "get") else array
        return np.asarray(array)

    def finite(self, value: Array) -> bool:
        """Is every entry finite? A sum that is finite says so at once."""
        if isinstance(value, float):
            return math.isfinite(value)
        if self.is_numpy:
            return math.isfinite(np.add.reduce(value, axis=None)) or bool(np.isfinite(value).all())
        return math.isfinite(float(self.xp.sum(value))) or bool(self.xp.all(self.xp.isfinite(value)))

    def full(self, shape: tuple[int, ...], value: Array) -> Array:
        """An array with one value everywhere."""
        return self.broadcast(self.asarray(value), shape)

    def broadcast(self, value: Array, shape: tuple[int, ...]) -> Array:
        """The values over all axes of a shape: a number, or an array that lacks some."""
        value = self.lifted(value)
        return value if tuple(value.shape) == shape else self.xp.broadcast_to(value, shape)

    def qr(self, columns: Array) -> tuple[Array, Array]:
        """Orthonormal columns and a triangle, whose product these are: as few of the former as there can be."""
        q, r = self.xp.linalg.qr(columns, mode="reduced")
        return q, r

    def dot(self, u: Array, v: Array) -> float:
        """The sum over one axis of the product."""
        return float(u @ v)

    def inner(self, u: Array, v: Array) -> Array:
        """The sum over the last axis of the product, for all indices of the axes before it."""
        return np.einsum("...n,...n->...", u, v) if self.is_numpy else self.xp.sum(u * v, axis=-1)

    def mean(self, u: Array) -> Array:
        """The average over the last axis; a float of what has no other axis."""
        if self.is_numpy:
            value = np.add.reduce(u, axis=-1) / self.precision(u.shape[-1])
            return float(value) if u.ndim == 1 else value
        value = self.xp.mean(u, axis=-1)
        return float(value) if value.ndim == 0 else value

    def total(self, u: Array, axis: int) -> Array:
        """The sum over one axis; a float where none is left."""
        value = np.add.reduce(u, axis=axis) if self.is_numpy else self.xp.sum(u, axis=axis)
        return float(value) if value.ndim == 0 else value

    def quantile(self, u: Array, share: float) -> Array:
        """Midway between the last of the largest, of which there are floor(share n), and the next one, over the last
        axis; a float of what has no other axis."""
        count = int(share * u.shape[-1] * (1 + ROUNDING))
        if count < 1:
            raise NotCovered(f"quantile: got a share of {share:g} of {u.shape[-1]} coordinates, none of them; expected "
                             "more coordinates")
        ordered = np.sort(u, axis=-1) if self.is_numpy else self.xp.sort(u, axis=-1)
        value = (ordered[..., -count] + ordered[..., -count - 1]) / 2
        return float(value) if u.ndim == 1 else value

    def head_sum(self, u: Array, size: int, apart: int, first_read: bool, first_written: bool) -> Array:
        """The sums over ``size`` coordinates of the last axis so far apart, or the first of them; at every one of them,
        or at the first, and 0 at the others."""
        heads = self.reshaped(u, (*u.shape[:-1], u.shape[-1] // (size * apart), size, apart))
        if first_read:
            total = heads[..., :1, :]
        else:
            total = heads.sum(axis=-2, keepdims=True) if self.is_numpy else self.xp.sum(heads, axis=-2, keepdims=True)
        if first_written:
            whole = self.joined([total, self.full(tuple(heads[..., 1:, :].shape), 0.0)], -2)
        else:
            whole = self.xp.broadcast_to(total, heads.shape)
        return self.reshaped(whole, tuple(u.shape))

    def head_turn(self, u: Array, angles: Sequence[float], position: Array) -> Array:
        """Coordinates j and j + d/2 of every head of d turned by position * angles[j], over the last axis."""
        at = self.numpy(position)[..., None] * np.array(angles)  # (..., 1, d/2), or (d/2,) of a number
        cosine, sine = self.asarray(np.cos(at)), self.asarray(np.sin(at))
        heads = self.reshaped(u, (*u.shape[:-1], u.shape[-1] // (2 * len(angles)), 2, len(angles)))
        a, b = heads[..., 0, :], heads[..., 1, :]
        turned = self.xp.stack([a * cosine - b * sine, a * sine + b * cosine], axis=-2)
        return self.reshaped(turned, tuple(turned.shape[:-3]) + (u.shape[-1],))

    def head_table(self, values: list[Array], p: Array, m: Array, head_dim: int, width: int) -> Array:
        """A table's numbers at positions, of all heads in turn along a last axis of ``width`` coordinates, or where
        that is 0 of the only table."""
        found = table_entry(np.array(values), self.numpy(p), self.numpy(m))
        if not width:
            return self.asarray(found[..., 0]) if found.ndim > 1 else float(found[0])
        each = found.repeat(head_dim, axis=-1)
        return self.asarray(np.tile(each, (1,) * (each.ndim - 1) + (width // each.shape[-1],)))

    def permuted(self, u: Array, order: tuple[int, ...]) -> Array:
        return u.transpose(order) if self.is_numpy else self.xp.permute_dims(u, order)

    def stacked(self, parts: list[Array]) -> Array:
        """Numbers or arrays of one shape along a new last axis."""
        return self.xp.stack(list(map(self.lifted, parts)), axis=-1)

    def joined(self, parts: list[Array], axis: int) -> Array:
        """Arrays one after the other along an axis."""
        return np.concatenate(parts, axis) if self.is_numpy else self.xp.concat(parts, axis=axis)

    def reshaped(self, u: Array, shape: tuple[int, ...]) -> Array:
        return u.reshape(shape) if self.is_numpy else self.xp.reshape(u, shape)

    def function(self, name: str) -> Callable[..., Array] | None:
        """A sympy function by the name of its class, on numbers and arrays; None for one that is not in the table."""
        return self.functions.get(name)

    def compiled(self, expression: sp.Expr, names: Sequence[sp.Symbol]) -> Callable[..., Array]:
        """An expression as a function of numbers and arrays, node by node with the functions of the table.

        Raises ``NotCovered`` naming a node that the table lacks.
        """
        for node in expression.atoms(sp.Function) | expression.atoms(sp.Piecewise):
            if self.function(type(node).__name__) is None:
                raise NotCovered(f"{type(node).__name__}: a function that the table of operations of {self.name!r} "
                                 f"lacks; expected {', '.join(sorted(self.functions))}")
        return lambda *values: self._value(expression, dict(zip(names, values)))

    def _value(self, node: sp.Expr, known: dict[sp.Basic, Array]) -> Array:
        if node not in known:
            if node.is_number:
                return float(node)
            parts = [self._value(part, known) for part in node.args]
            if isinstance(node, (sp.Add, sp.Mul)):
                known[node] = reduce(operator.add if isinstance(node, sp.Add) else operator.mul, parts)
            elif isinstance(node, sp.Pow):
                known[node] = self._power(node, *parts)
            else:
                function = self.function(type(node).__name__)
                assert function is not None
                known[node] = function(*parts)
        return known[node]

    def _power(self, node: sp.Pow, base: Array, exponent: Array) -> Array:
        if node.exp in (HALF, -HALF):
            root = self.functions["sqrt"](base)
            return root if node.exp > 0 else 1.0 / root
        return base ** int(node.exp) if node.exp.is_Integer else self.functions["Pow"](base, exponent)


def precision(dtype: DType) -> type:
    """float32 or float64, from their names or NumPy's types."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
    return PRECISIONS[_checks.choice("dtype", name, PRECISIONS)]


@lru_cache(maxsize=None)
def _imported(module: str, namespace: str) -> Array:
    try:
        return importlib.import_module(module)
    except ImportError:
        package = namespace if importlib.util.find_spec(module.split(".")[0]) else module.split(".")[0]
        raise MissingExtra(package, "backends", f"namespace={namespace!r}") from None


def _again(namespace: Array, known: bool, dtype: str, device: Array) -> Arrays:
    """Arrays of a namespace that is known by name, of a module of that name, or of an object itself."""
    if isinstance(namespace, str) and not known:
        namespace = importlib.import_module(namespace)
    return Arrays(namespace, dtype, device)


def _functions(arrays: Arrays) -> dict[str, Callable[..., Array]]:
    """What sympy's functions are in a namespace; functions of numbers give floats."""
    xp = arrays.xp
    erf: Array = special.erf
    maximum: Array = np.maximum
    minimum: Array = np.minimum
    if not arrays.is_numpy:
        erf = getattr(importlib.import_module(SPECIAL[arrays.name]) if arrays.name in SPECIAL else xp, "erf", None)

        def both(one: Callable[..., Array]) -> Callable[..., Array]:
            return lambda *values: one(*map(arrays.lifted, values))

        maximum, minimum = both(xp.maximum), both(xp.minimum)
    atan = getattr(xp, "atan", None) or getattr(xp, "arctan", None)
    one_argument = {"tanh": xp.tanh, "sinh": xp.sinh, "cosh": xp.cosh, "exp": xp.exp, "log": xp.log, "sin": xp.sin,
                    "cos": xp.cos, "atan": atan, "Abs": xp.abs, "sign": xp.sign, "erf": erf, "sqrt": xp.sqrt}

    def heaviside(h: Array, at_zero: float = 0.5) -> Array:
        return np.heaviside(h, at_zero) if arrays.is_numpy else (xp.sign(h) + 1) / 2

    def mask(h: Array) -> Array:
        return np.heaviside(h, 0.0) if arrays.is_numpy else maximum(xp.sign(h), 0.0)

    def power(base: Array, exponent: Array) -> Array:
        return np.power(base, exponent) if arrays.is_numpy else base ** exponent

    found: dict[str, Callable[..., Array]] = {**one_argument, "Max": maximum, "Min": minimum, "Pow": power}
    steps = {"Heaviside": heaviside, "Mask": mask}
    if arrays.is_numpy:
        return found | steps
    return {name: _on_arrays(arrays, f) for name, f in {**found, **steps}.items() if f is not None}


def _on_arrays(arrays: Arrays, function: Callable[..., Array]) -> Callable[..., Array]:
    """The function of floats too, which namespaces of tensors do not take."""
    def of(*values: Array) -> Array:
        numbers = all(isinstance(v, (float, int)) for v in values)
        found = function(*map(arrays.lifted, values))
        return float(found) if numbers else found
    return of
