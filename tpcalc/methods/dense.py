"""Real networks with their matrices as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Mapping

import numpy as np

from .. import _checks
from ..interpreters.dense import DenseRun
from ..interpreters.training import trained
from ..programs.problem import Problem
from .method import Progress
from .sampled import ReadsProgram, training


@dataclass(frozen=True, eq=False)
class Dense(ReadsProgram):
    """One real network of finite width and depth, any block and optimizer, with its n x n matrices.

    seed: of the initial weights; weights: the initial weights themselves, {family: array}, as
    ``run.initial_weights()`` gives them: shapes and normalisation are said there. They are copied.

    Raises ``ValueError`` for a seed that is no whole number of at least 0, a seed beside weights, and weights that are
    no mapping to arrays of finite numbers; ``solve`` for names and shapes that are not the network's.
    """

    name: ClassVar[str] = "dense"
    seed: int = 0
    weights: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", _checks.whole_number("seed", self.seed))
        if self.weights is None:
            return
        if not isinstance(self.weights, Mapping):
            raise ValueError(f"weights: {_checks.short(self.weights)} given; allowed is a mapping {{family: array}}, "
                             "or None")
        if self.seed:
            raise ValueError(f"seed: {self.seed} given with weights, which leave nothing to draw; allowed is one of "
                             "them")
        object.__setattr__(self, "weights", {name: _checks.finite_array(f"weights[{name!r}]", values)
                                             for name, values in self.weights.items()})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dense) or self.weights is None or other.weights is None:
            return isinstance(other, Dense) and self.weights is other.weights and self.seed == other.seed
        return set(self.weights) == set(other.weights) and all(
            np.array_equal(values, other.weights[name]) for name, values in self.weights.items())

    def __hash__(self) -> int:
        return hash((self.seed, None if self.weights is None else frozenset(self.weights)))

    def __repr__(self) -> str:
        given = "" if self.weights is None else ", weights={" + ", ".join(
            f"{name!r}: array of shape {values.shape}" for name, values in self.weights.items()) + "}"
        return f"Dense(seed={self.seed}{given})"

    def read(self, problem: Problem, keep: bool, progress: Progress | None) -> DenseRun:
        assert problem.neurons is not None
        return trained(training(problem), problem.neurons, self.seed, keep, progress, self.weights)
