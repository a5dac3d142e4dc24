"""``recursion``: derive it, print it, compile it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np
import sympy as sp

from ... import _checks
from ..._shown import Short
from ...calculus.equations import KetEquations
from ...calculus.recursion import RecursionEquations, derive_recursion
from ...calculus.setting import Setting
from ...errors import Divergence
from .cache import load_source
from .losses import LossRule, row_rule
from .source import argument_names, array_entries, numba_source, recursion_parameters, result_names, widths


@dataclass(frozen=True, repr=False)
class Trained(Short):
    """What a compiled recursion computes.

    outputs: those of the scalar family f, shape of the inputs; arrays: all scalars, Gamma's and C's by name,
    indexed as ``lowering.recursions.source.numba_source`` says.
    """

    outputs: np.ndarray
    arrays: dict[str, np.ndarray]


@dataclass(frozen=True, repr=False)
class CompiledRecursion(Short):
    """A derived recursion as a compiled function: call it to train, ``evaluate`` for all arrays by name.

    sizes, data, parameters: the names of its arguments, beside the targets ``y``; results: those of its arrays;
    order: the sizes again, that of the clock first, the depth second. ``evaluate`` takes all by name; calling it is
    shorter for programs with inputs xi and outputs f.
    """

    source: str
    sizes: tuple[str, ...]
    data: tuple[str, ...]
    parameters: tuple[str, ...]
    results: tuple[str, ...]
    kernel: Callable[..., Any]
    order: tuple[str, ...]
    entries: sp.Expr = field(default=sp.Integer(0), repr=False)  # of its arrays, in symbols named like the sizes
    widths: dict[str, int] = field(default_factory=dict)  # of arrays with several inputs or outputs, their last axis

    def evaluate(self, **values: Any) -> dict[str, np.ndarray]:
        """All arrays by name, from sizes (whole numbers), data and ``y`` (arrays) and parameters (numbers). Raises
        ``ValueError`` for missing, unknown or non-finite arguments, ``MemoryError`` before the work."""
        needed = (*self.sizes, *self.data, "y", *self.parameters)
        if set(values) != set(needed):
            raise ValueError(f"arguments: got {sorted(values)}; expected {sorted(needed)}")
        arguments: list[Any] = [_checks.positive_integer(name, values[name]) for name in self.sizes]
        numbers = {s: arguments[self.sizes.index(s.name)] for s in self.entries.free_symbols}
        _checks.memory(8.0 * float(self.entries.xreplace(numbers)), "this kernel with " + ", ".join(
            f"{name} = {size}" for name, size in zip(self.sizes, arguments)), "take smaller sizes")
        arguments += [np.atleast_1d(_checks.finite_array(name, values[name])) for name in (*self.data, "y")]
        for name, width in self.widths.items():
            shape = np.shape(values[name])
            if len(shape) < 2 or shape[-1] != width:
                raise ValueError(f"{name}: got an array of shape {shape}; expected {width} in the last axis")
        arguments += [float(_checks.finite_array(name, values[name])) for name in self.parameters]
        return dict(zip(self.results, self.kernel(*arguments)))

    def __call__(self, depth: int, inputs: Any, targets: Any, **values: Any) -> Trained:
        """Train: inputs and targets of shape (steps,), or (steps, batch) for a program with a batch, with one axis more
        for several inputs (or outputs).

        values: the parameters, and data other than the inputs. Raises ``ValueError`` for what is missing,
        unknown or does not fit, ``Divergence`` naming the step where the solution blows up.
        """
        needed = set(self.parameters) | set(self.data[1:])
        if set(values) != needed:
            raise ValueError(f"parameters: got {sorted(values)}; expected {sorted(needed)}")
        xi, y = _checks.finite_array("inputs", inputs), _checks.finite_array("targets", targets)
        dimensions = len(self.sizes) - 1
        steps = [values.shape[:-1] if name in self.widths else values.shape
                 for name, values in ((self.data[0], xi), ("y", y))]
        if len(steps[0]) != dimensions or steps[0] != steps[1] or not xi.size:
            raise ValueError(f"got inputs of shape {xi.shape}, targets of shape {y.shape}; expected equal shapes "
                             f"of {dimensions} dimension{'s' if dimensions > 1 else ''}"
                             + ", and one more for several inputs or outputs" * bool(self.widths))
        sizes = dict(zip(self.order, (xi.shape[0], _checks.positive_integer("depth", depth), *xi.shape[1:])))
        arrays = self.evaluate(**sizes, **{self.data[0]: xi}, y=y, **values)
        finite = np.isfinite(arrays["f"]).reshape(len(arrays["f"]), -1).all(axis=1)
        if not finite.all():
            step = int(np.argmin(finite))
            raise Divergence(f"training diverges at step {step} of the compiled recursion", step=step)
        return Trained(arrays["f"][:len(xi)], arrays)


@dataclass(frozen=True, repr=False)
class Recursion(RecursionEquations):
    """The Gamma/C recursion derived from ket equations, which ``compile`` turns into numba code.

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> found = tp.recursion(tp.kets(tp.program(net, opt, scale)))
    >>> found.compile()(8, [1, 0.8], [1, -0.7]).outputs.round(4).tolist()
    [0.0, 1.8246]
    """

    def compile(self, loss: LossRule | str | Any = lambda f, y: f - y) -> CompiledRecursion:
        """A numba kernel of this recursion.

        loss: the derivative of the loss in the output, from sympy expressions of f and the target y, output by output;
        or "mse", "logistic", "softmax", or an object with ``expression(f, y)``, the loss of all outputs of a sample.
        The source goes to a per-user cache, named by its content, so that other processes find it compiled. Raises
        ``ValueError`` for another loss.
        """
        source, program = numba_source(self, row_rule(loss)), self.setting.program
        names = argument_names(self)
        known = len(program.sizes) + len(program.data)
        return CompiledRecursion(source, names[:len(program.sizes)], names[len(program.sizes):known],
                                 tuple(str(s) for s in recursion_parameters(self)), result_names(self),
                                 load_source(source).kernel, _in_order(self.setting),
                                 array_entries(self), widths(self))


def _in_order(setting: Setting) -> tuple[str, ...]:
    """The names of the sizes: that of the clock, the depth, the others."""
    clock = setting.clock.last.free_symbols if setting.clock is not None else set()
    ordered = sorted(setting.program.sizes, key=lambda size: 0 if size in clock else 1 if size == setting.depth else 2)
    return tuple(map(str, ordered))


def recursion(equations: KetEquations) -> Recursion:
    """The Gamma/C recursion of a linear program, derived from its ket equations.

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> found = tp.recursion(tp.kets(tp.program(net, opt, scale)))
    >>> len(found.equations), all(step.check() for step in found.derivation.steps)
    (8, True)
    """
    derived = derive_recursion(equations)
    return Recursion(derived.setting, derived.equations, derived.derivation)
