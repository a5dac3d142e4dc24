"""``recursion``: derive it, print it, compile it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

from .. import _checks
from ..calculus.equations import KetEquations
from ..calculus.recursion import RecursionEquations, derive_recursion
from ..errors import Divergence
from .cache import load_source
from .source import LossRule, numba_source, parameters


@dataclass(frozen=True)
class Trained:
    """What a compiled recursion computes.

    outputs: (steps,); Gamma: (steps, steps + 1, families, bases, L + 1, L + 1), indexed [t, r + 1, a, b, l, m]
    with m = 0 where r = -1; C: (steps, steps, products, L + 1), indexed [t, s, b, l].
    """

    outputs: np.ndarray
    Gamma: np.ndarray
    C: np.ndarray


@dataclass(frozen=True)
class CompiledRecursion:
    """A numba kernel made from a derived recursion.

    Call it with ``depth``, the inputs and targets (steps,) and values for ``parameters``; raises ``ValueError``
    for missing or unknown ones, ``Divergence`` naming the step where the solution blows up.
    """

    source: str
    parameters: tuple[str, ...]
    data: tuple[str, ...]
    kernel: Callable[..., Any]

    def __call__(self, depth: int, inputs: Any, targets: Any, **values: Any) -> Trained:
        layers = _checks.positive_integer("depth", depth)
        needed = set(self.parameters) | set(self.data[1:])
        if set(values) != needed:
            raise ValueError(f"parameters: {sorted(values)} given; needed are {sorted(needed)}")
        xi, y = _checks.finite_array("inputs", inputs), _checks.finite_array("targets", targets)
        if xi.ndim != 1 or xi.shape != y.shape or not len(xi):
            raise ValueError(f"inputs of shape {xi.shape}, targets of shape {y.shape} given; allowed is one number a "
                             "step")
        extra = [_checks.finite_array(name, values[name]) for name in self.data[1:]]
        numbers = [float(values[name]) for name in self.parameters]
        outputs, _, Gamma, C = self.kernel(len(xi), layers, xi, *extra, y, *numbers)
        if not np.all(np.isfinite(outputs)):
            step = int(np.argmin(np.isfinite(outputs)))
            raise Divergence(f"training diverges at step {step} of the compiled recursion", step=step)
        return Trained(outputs, Gamma, C)


@dataclass(frozen=True)
class Recursion(RecursionEquations):
    """A derived recursion that can be compiled; see ``RecursionEquations``."""

    def compile(self, loss: LossRule = lambda f, y: f - y) -> CompiledRecursion:
        """A numba kernel of this recursion, for one input and one output a step.

        loss: the derivative of the loss in the output, from sympy expressions of f and the target y. The
        source goes to a per-user cache, named by its content, so that other processes find it compiled.
        """
        source = numba_source(self, loss)
        names = tuple(str(s) for s in parameters(self))
        data = tuple(member.name for member in self.setting.program.data)
        return CompiledRecursion(source, names, data, load_source(source).kernel)


def recursion(equations: KetEquations) -> Recursion:
    """The Gamma/C recursion of a linear program, derived from its ket equations."""
    derived = derive_recursion(equations)
    return Recursion(derived.setting, derived.equations, derived.derivation)
