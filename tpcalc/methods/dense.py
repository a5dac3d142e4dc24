"""Real networks with their matrices as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Mapping

import numpy as np

from .._types import Array, Value
from .. import _checks
from ..interpreters.dense import DenseRun
from ..interpreters.training import Keep, dense_run
from ..lowering import Arrays
from ..optimizers import SGD
from ..training.problem import Problem
from .method import Progress
from .sampled import ReadsProgram, training


@dataclass(frozen=True, eq=False)
class Dense(ReadsProgram):
    """One real network of finite width and depth, any block and optimizer, with its n x n matrices.

    seed: of the initial weights; weights: the initial weights themselves, {family: array}, as
    ``run.initial_weights()`` gives them: shapes and normalization are said there. They are copied.

    namespace, dtype, device: of the arrays, as in ``tpcalc.lowering.Arrays``: "numpy", "torch", "cupy" or "jax", or an
    array-API namespace itself.

    Raises ``ValueError`` for a seed that is no whole number of at least 0, a seed beside weights, and weights that are
    no mapping to arrays of finite numbers; ``solve`` for names and shapes that are not the network's;
    ``MissingExtra`` for a namespace that is not installed.
    """

    name: ClassVar[str] = "dense"
    seed: int = 0
    weights: Mapping[str, Value] | None = None
    namespace: Array = "numpy"
    dtype: str = "float64"
    device: Array = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", _checks.whole_number("seed", self.seed))
        Arrays(self.namespace, self.dtype, self.device)
        if self.weights is None:
            return
        if not isinstance(self.weights, Mapping):
            raise ValueError(f"weights: got {_checks.short(self.weights)}; expected a mapping {{family: array}}, "
                             "or None")
        if self.seed:
            raise ValueError(f"seed: got {self.seed} with weights, which leave nothing to draw; expected one of them")
        object.__setattr__(self, "weights", {name: _checks.finite_array(f"weights[{name!r}]", values)
                                             for name, values in self.weights.items()})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dense) or self._plain != other._plain:
            return False
        if self.weights is None or other.weights is None:
            return self.weights is other.weights
        return set(self.weights) == set(other.weights) and all(
            np.array_equal(values, other.weights[name]) for name, values in self.weights.items())

    def __hash__(self) -> int:
        return hash((self.seed, str(self.dtype), None if self.weights is None else frozenset(self.weights)))

    @property
    def _plain(self) -> tuple[Value, ...]:
        """The options of the method but for the weights."""
        return self.seed, self.namespace, self.dtype, self.device

    def __repr__(self) -> str:
        given = "" if self.weights is None else ", weights={" + ", ".join(
            f"{name!r}: array of shape {values.shape}" for name, values in self.weights.items()) + "}"
        shown = (("namespace", "numpy"), ("dtype", "float64"), ("device", None))
        options = "".join(f", {name}={getattr(self, name)!r}" for name, default in shown
                          if getattr(self, name) != default)
        return f"Dense(seed={self.seed}{given}{options})"

    def refuses(self, problem: Problem) -> str | None:
        """Infinite width and depth, and, where powers of the width are not muP's, optimizers whose rates these do not
        say. Powers of the width are those of gradients' rates: decay takes its share of weights at every width."""
        if problem.is_mup or isinstance(problem.opt, SGD):
            return super().refuses(problem)
        return (f"opt: got {_checks.short(problem.opt)} with {_checks.short(problem.scale)}, whose powers of n are "
                "not muP's; rates in width are those of gradient descent; expected a tp.SGD")

    def error(self, found: DenseRun) -> float:
        """The standard deviation of an output at initialization, with what a width scaling puts on the readout."""
        return super().error(found) * found.start.factors.get("nV", 1.0)

    def read(self, problem: Problem, keep: Keep, progress: Progress | None) -> DenseRun:
        assert problem.neurons is not None
        return dense_run(training(problem, keep), problem.neurons, self.seed, progress, self.weights,
                         self.namespace, self.dtype, self.device)
