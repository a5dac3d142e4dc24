"""Derived limit equations as a collocation problem: a numerical reading that knows nothing of the network.

Step by step, the equations between two scalars are iterated together until they settle: each is of Volterra type in
layer time, so that the iteration converges faster than any geometric series. Source: Tensor Programs VI, Propositions
C.4 and D.2, whose causality in the training step this uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import sub
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from .._types import Value
from .. import _checks
from .._shown import Short
from ..calculus.coefficients import B, R
from ..calculus.memory import initial_weight_factor_of
from ..calculus.setting import Setting
from ..errors import Divergence
from .functions import INNER, CovarianceFunction, OwnCoefficient, P
from .integral_equations import LimitEquation
from ..orders.quantities import Sort
from .evaluation import Numbers, Evaluation, SolvedValues, covariance_key, index, evaluation
from .square import LayerTimeSquare
from .translation import Remembered

SETTLED = 1e-14     # relative changes of an iteration that are round-off
STAGNANT = 1e-11    # changes that stop falling below this are round-off
UNBOUNDED = 1e100   # changes beyond this are those of an iteration that diverges
ITERATIONS = 200
RESOLUTIONS = (16, 24, 36, 54)
AGREED = 1e-12      # of the outputs on two resolutions


@dataclass(frozen=True, repr=False)
class LimitOutputs(Short):
    """The solution that a compiled limit finds: outputs, their error estimate, and all functions of layer time.

    outputs: (steps,), divided by their power of L where the region says so; error_estimate: their change from the
    last resolution but one; nodes: of the last one; values: of all functions, as arrays that broadcast to (2, nodes,
    nodes) (p < q and p > q; p; q), by ("Gamma", a, b, t, r), ("own", a, b, t, r), ("C", b, b', t, s), (name, t), and
    ("end", a, b, t, r, p) at the ends of layer time.

    >>> import tpcalc as tp
    >>> limit = tp.depth_limit(tp.recursion(tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling()))))
    >>> limit.compile()([1.0, 0.8], [1.0, -0.7]).outputs.round(3).tolist()
    [0.0, 2.175]
    """

    outputs: np.ndarray
    error_estimate: float
    nodes: int
    values: dict[tuple, Value]


def numbers_by_step(setting: Setting, inputs: ArrayLike, targets: ArrayLike, data: Mapping[str, ArrayLike]
                    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A program's data by name, and targets, one number a step each. Raises ``ValueError`` for what does not fit."""
    names = [scalar.name for scalar in setting.program.data]
    if set(data) != set(names[1:]):
        raise ValueError(f"data: got {sorted(data)}; expected {sorted(names[1:])}")
    y = _checks.finite_array("targets", targets)
    arrays = {name: _checks.finite_array(name, value) for name, value in zip(names, (inputs, *data.values()))}
    for name, array in arrays.items():
        if array.ndim != 1 or array.shape != y.shape or not len(y):
            raise ValueError(f"{name}: got shape {array.shape} and targets of shape {y.shape}; expected one number a "
                             "step each")
    return arrays, y


@dataclass(frozen=True, repr=False)
class CompiledLimit(Short):
    """The equations of a limit as a function of data and targets, which solves them by collocation in layer time.

    output: the scalar that is returned, times ``unit``.

    >>> import tpcalc as tp
    >>> limit = tp.depth_limit(tp.recursion(tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling()))))
    >>> compiled = limit.compile()
    >>> compiled([1.0, 0.8], [1.0, -0.7]).error_estimate < 1e-10
    True
    """

    setting: Setting
    equations: tuple[tuple[LimitEquation, Evaluation], ...]
    output: str
    loss: Callable[[float, float], float]
    memory: tuple[tuple[Remembered, Evaluation], ...] = ()
    unit: float = 1.0

    @classmethod
    def of(cls, setting: Setting, equations: Sequence[LimitEquation], output: str,
           loss: Callable[[Any, Any], Any] | None = None, memory: Sequence[Remembered] = (),
           unit: float = 1.0) -> "CompiledLimit":
        """memory: what optimizers remember after a step. Raises ``ValueError`` for an equation that has no numerical
        reading, naming the term."""
        output = next((e.target.name for e in equations if e.kinds[0].name == output), output)  # scaled, perhaps
        return cls(setting, tuple((e, evaluation(e.value)) for e in equations), output, loss or sub,
                   tuple((one, evaluation(one.value)) for one in memory), unit)

    def __call__(self, inputs: ArrayLike, targets: ArrayLike, **data: ArrayLike) -> LimitOutputs:
        """Train on inputs and targets of shape (steps,); data: further data of the program by name.

        Raises ``ValueError`` for what does not fit, ``Divergence`` naming the step where the solution blows up, or
        where more nodes do not resolve it.
        """
        arrays, y = numbers_by_step(self.setting, inputs, targets, data)
        steps = len(y)
        before, problem = np.full(steps, np.inf), Divergence("")
        breaks = tuple(sorted({float(end) for one, _ in self.memory for end in (one.first, one.last)} - {0.0, 1.0}))
        for nodes in RESOLUTIONS:
            state = SolvedValues(LayerTimeSquare(nodes, breaks), arrays, y, self.loss)
            for matrix in self.setting.program.matrices:
                state.values[(initial_weight_factor_of(matrix)[0].name, 0)] = np.ones((1, 1, 1))
            self._remember(state, None)
            try:
                for t in range(steps):
                    self._step(state, t)
                    self._remember(state, t)
            except Divergence as failure:  # the iteration converges the better the more nodes there are
                before, problem = np.full(steps, np.inf), failure
                continue
            outputs = self.unit * np.array([float(np.squeeze(state.of(self.output, t))) for t in range(steps)])
            error = float(np.max(np.abs(outputs - before)))
            if error <= AGREED * max(1.0, float(np.max(np.abs(outputs)))):
                return LimitOutputs(outputs, error, nodes, state.values)
            before = outputs
            problem = Divergence(f"{nodes} nodes of layer time do not resolve the solution: the last refinement moved "
                                 f"the outputs by {error:.1e}")
        raise problem

    def _step(self, state: SolvedValues, t: int) -> None:
        """All equations of a training step: those between two scalars together."""
        for scalar, block in groupby(self.equations, key=lambda pair: self._is_scalar(pair[0])):
            equations = list(block)
            if scalar:
                for equation, value in equations:
                    numbers = {self.setting.time: t}
                    state.values[(equation.target.name, t)] = value(state, numbers)
            else:
                self._settle(state, equations, t)

    def _remember(self, state: SolvedValues, t: int | None) -> None:
        """What optimizers remember after step t; None: what they start from."""
        setting = self.setting
        for one, value in self.memory:
            step, *others = (i for i in one.target.indices if i not in (P, INNER))
            if (t is None) != (not step.has(setting.time)):
                continue
            for s in range(t + 1) if setting.past in others and t is not None else [0]:
                numbers: Numbers = {setting.time: t or 0, setting.past: s}
                key = (one.target.name, index(step)(numbers), *(index(i)(numbers) for i in others))
                found = np.atleast_3d(value(state, numbers))
                if (one.first, one.last) != (0, 1):  # other layers have other updates
                    found = np.where(state.square.within(float(one.first), float(one.last)), found, state.of(*key))
                state.values[key] = found

    @staticmethod
    def _is_scalar(equation: LimitEquation) -> bool:
        return equation.kinds[0].sort == Sort.SCALAR

    def _settle(self, state: SolvedValues, equations: list[tuple[LimitEquation, Evaluation]], t: int) -> None:
        last = np.inf
        for _ in range(ITERATIONS):
            change, size = 0.0, 1.0
            for equation, value in equations:
                for key, numbers in self._instances(equation, t):
                    new = value(state, numbers)
                    old = state.of(*key)
                    state.values[key] = np.atleast_3d(new)
                    change = max(change, float(np.max(np.abs(new - old))))
                    size = max(size, float(np.max(np.abs(new))))
            if not change < UNBOUNDED:
                raise Divergence(f"the iteration of the limit equations leaves all bounds at step {t}; it does not "
                                 "say whether they have a solution", step=t)
            if change <= SETTLED * size or last <= change <= STAGNANT * size:
                return
            last = change
        raise Divergence(f"the iteration of the limit equations does not settle at step {t}: a change of {change:.1e} "
                         f"after {ITERATIONS} iterations", step=t)

    def _instances(self, equation: LimitEquation, t: int) -> Iterator[tuple[tuple, Numbers]]:
        """The quantities that an equation stands for at step t, with the numbers to put into it."""
        setting, target = self.setting, equation.target
        now: Numbers = {setting.time: t}
        if isinstance(target, CovarianceFunction):
            b, c, first, second = map(index, target.args[:4])
            for s in range(t + 1):
                numbers = {**now, setting.past: s}
                yield covariance_key(b(numbers), c(numbers), first(numbers), second(numbers)), numbers
            return
        head = "own" if isinstance(target, OwnCoefficient) else "Gamma"
        for kind in equation.kinds:
            for r in [-1] if kind.start < 0 else range(t + 1):
                key = (kind.number, kind.base, t, r)
                numbers = {**now, R: r, B: kind.base}
                yield (("end", *key, int(target.args[4])) if equation.boundary else (head, *key)), numbers
