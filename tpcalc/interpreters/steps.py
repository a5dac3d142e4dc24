"""Derivation steps on numbers: does what stood before a step equal what stands after it?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Iterator, Union

import numpy as np
import sympy as sp

from .._types import ProgramData, Sizes, Value
from .._checks import flag, short
from .._shown import Short
from ..calculus.coefficients import Bases, gamma_coefficient
from ..derivations.derivation import Step
from ..calculus.equations import KetEquations
from ..calculus.kets import Gamma, Ket, Response
from ..calculus.recursion import RecursionEquation, RecursionEquations
from ..calculus.setting import Setting
from ..errors import NotCovered
from ..data.losses import AnyLoss
from ..programs.language import Vector
from ..programs.program import Loop
from .given import sizes_of
from .program_coefficients import read_program_coefficients
from .step_values import Indices, StepValues, indices

Derived = Union[KetEquations, RecursionEquations]


@dataclass(frozen=True, repr=False)
class StepCheck(Short):
    """The largest difference that one step of a derivation shows on numbers, over all indices of its place.

    difference: relative to the values themselves where these exceed 1; exactly 0 where both sides agree in rationals,
    infinite where a side has no value. cases: how many index values were tried. problem: why a side has no value.

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> found = tp.check_steps(tp.kets(tp.program(net, opt, scale)), {"L": 3, "T": 2}, {"xi": [1, 0.8],
    ...     "y": [1, -0.7]})
    >>> len(found) > 3, max(one.difference for one in found) < 1e-12
    (True, True)
    """

    step: Step
    difference: float
    cases: int
    problem: str = ""


def check_steps(derived: Derived, sizes: Sizes, data: ProgramData = {}, loss: AnyLoss = "mse",
                exact: bool = False) -> tuple[StepCheck, ...]:
    """Evaluate every step of the derivation of a linear program's kets or recursion, exactly at infinite width.

    derived: what ``tp.kets`` or ``tp.recursion`` returns; sizes, data, loss, exact: as in
    ``read_program_coefficients``, whose coefficients are what the sides are read with: it runs the program and
    knows none of the rules. What stands on the left of a step, what stood before it and what stands after it must
    have one value: for every training step, sample and layer of the statement that they belong to, for every base
    ket where the step is about coefficients, for every earlier product of the matrix where it is about a
    covariance. Trained matrices are compared as operators. In rationals (``exact``) a difference of 0 proves the
    step for these sizes and data.

    Time grows like the number of base kets times the indices of a step; sizes of 2 to 4 show every term of every
    rule. Raises ``ValueError`` for what has no derivation, ``UnhandledNode`` for programs that are not linear.

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> found = tp.check_steps(tp.kets(tp.program(net, opt, scale)), {"L": 4, "T": 2}, {"xi": [1, "4/5"],
    ...     "y": [1, -1]}, exact=True)
    >>> {one.difference for one in found}
    {0.0}
    """
    if not isinstance(derived, (KetEquations, RecursionEquations)):
        raise ValueError(f"derived: got {short(derived)}; expected what tp.kets(...) or tp.recursion(...) returns")
    exact = flag("exact", exact)
    program = derived.setting.program
    numbers: Indices = {size: sp.Integer(number) for size, number in sizes_of(program, sizes).items()}
    reading = read_program_coefficients(program, sizes, data, loss, exact).with_products(
        product.matvec.xreplace(at) for product in derived.setting.products
        for at in indices(product.location.loops, numbers))
    checker = _Checker(derived, StepValues(reading, derived.setting, sizes_of(program, sizes)))
    steps = derived.derivation.steps
    return tuple(checker.check(step, last) for last, step in zip((None, *steps), steps))


class _Checker:
    """Knows over which loops the left sides of a derivation range."""

    def __init__(self, derived: Derived, values: StepValues) -> None:
        self.values, setting = values, derived.setting
        self._known: dict[sp.Expr, dict[Value, Value]] = {}  # of the sides of one step
        generic = Bases(setting).generic()
        self.loops: dict[sp.Expr, tuple[Loop, ...]] = {}
        for location in setting.program.locations():
            target = location.statement.target
            if isinstance(target, Vector):
                for left in (Ket(target), Response(target, generic), gamma_coefficient(setting, target, *generic.args)):
                    self.loops[left] = location.loops
            else:
                self.loops[target] = location.loops
        for matrix in setting.trained():
            met = [*((p.matrix, p.location) for p in setting.products), *setting.from_zero().items()]
            location = next(location for one, location in met if one.same_family(matrix))
            self.loops[matrix] = tuple(loop for loop in location.loops if loop.index in matrix.free_symbols)
        for e in derived.equations if isinstance(derived, RecursionEquations) else ():
            if e.products:
                self.loops[e.target] = _both(e, setting)

    def check(self, step: Step, last: Step | None) -> StepCheck:
        worst, cases = 0.0, 0
        self._known = {side: self._known.get(side, {}) for side in (step.left, step.before, step.after)}
        try:
            for at in self._cases(step.left):
                left, after = (self._value(side, at) for side in (step.left, step.after))
                worst = max(worst, _distance(left, after), _distance(left, self._before(step, last, at)))
                cases += 1
        except NotCovered as problem:
            return StepCheck(step, float("inf"), cases + 1, str(problem))
        return StepCheck(step, worst, cases)

    def _value(self, side: sp.Expr, at: Indices) -> Value:
        """A side's value, found once: what stands after a step stands before the next one."""
        known, key = self._known[side], tuple(at.items())
        if key not in known:
            known[key] = self.values.value(side, at)
        return known[key]

    def _cases(self, left: sp.Expr) -> Iterator[Indices]:
        """All indices of a left side, those of the generic base ket with them."""
        if left not in self.loops:
            raise NotCovered(f"{left} is no ket, number, matrix, coefficient or covariance of the program")
        for at in indices(self.loops[left], self.values.sizes):
            if not isinstance(left, (Response, Gamma)):
                yield at
                continue
            for base in self.values.generic_bases:
                yield {**at, **base}

    def _before(self, step: Step, last: Step | None, at: Indices) -> Value:
        """The expression before a step, in the units of its left side: a step may begin a new left side."""
        before = self._value(step.before, at)
        if isinstance(step.left, Response):  # the ket itself stood there
            return self.values.coefficient(before, at)
        if isinstance(step.left, Gamma) and last is not None and isinstance(last.left, Response):
            return self.values.scale(at) * before
        return before


def _both(e: RecursionEquation, setting: Setting) -> tuple[Loop, ...]:
    """The loops of a covariance: its own product's, and the other one's until the same step."""
    found = []
    for loop in e.products[1].location.loops:
        if loop is setting.clock:
            found.append(Loop(setting.past, loop.first, setting.time, ()))
        else:
            found.append(replace(loop, index=sp.Symbol(f"{loop.index}_1", integer=True), body=()))
    return (*e.location.loops, *(loop for loop in found if loop.index in e.target.free_symbols))


def _distance(one: Value, other: Value) -> float:
    """The largest difference of two values, relative to the largest of them or to 1."""
    one, other = np.asarray(one), np.asarray(other)
    size = max(1, np.max(np.abs(one), initial=0), np.max(np.abs(other), initial=0))
    difference = float(np.max(np.abs(one - other), initial=0) / size)
    return float("inf") if np.isnan(difference) else difference
