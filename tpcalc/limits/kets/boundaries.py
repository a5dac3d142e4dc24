"""The ends of layer time: where streams start, the output, and the derivative of the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Sequence

import sympy as sp

from ...calculus.kets import Bracket, Ket
from ...calculus.memory import initial_weight_factor_of
from ...calculus.setting import Setting
from ...errors import NotCovered
from ...programs.language import LossDerivative, Scalar
from ..integral_equations import LimitEquation

Numbers = Mapping[tuple, float]


@dataclass(frozen=True)
class LinearForm:
    """Numbers that multiply given vectors, at a step: a ket, or the overlap of a stream's end with them."""

    factors: tuple[sp.Expr, ...]
    time: sp.Symbol

    @classmethod
    def of(cls, target: sp.Expr, value: sp.Expr, units: Sequence[sp.Expr], time: sp.Symbol) -> "LinearForm":
        """The value as a combination of the units. Raises ``NotCovered`` for what is none."""
        value = sp.expand(value)
        factors = tuple(value.coeff(unit) for unit in units)
        rest = sp.expand(value - sp.Add(*(factor * unit for factor, unit in zip(factors, units))))
        if rest != 0 or any(factor.has(Ket, Bracket) for factor in factors):
            raise NotCovered(f"{target} = {value}; expected a combination of {', '.join(map(str, units))}")
        return cls(factors, time)

    def at(self, t: int, memory: Numbers) -> list[float]:
        """The factors at step t."""
        return [_number(factor, self.time, t, memory) for factor in self.factors]


@dataclass(frozen=True)
class StreamBoundaries:
    """What boundary equations say, in numbers.

    starts: where streams start, by name; output: the scalar that the loss is of; overlaps: the factors with which it is
    made of x's overlaps with the initial vectors; derivative: the scalar that is ``factor`` times the loss's
    derivative.
    """

    starts: dict[str, LinearForm]
    output: Scalar
    overlaps: LinearForm
    derivative: Scalar
    factor: sp.Expr

    @classmethod
    def of(cls, setting: Setting, stream: Ket, equations: Sequence[LimitEquation]) -> "StreamBoundaries":
        """Read them. stream: x, at any layer. Raises ``NotCovered`` for ends of another form."""
        time, vectors = setting.time, setting.program.vectors
        ends = {e.target: e.value for e in equations if e.boundary}
        losses = [target for target, value in ends.items() if value.has(LossDerivative)]
        if len(losses) != 1:
            raise NotCovered(f"program {setting.program.name}: got {len(losses)} equations of the loss's derivative; "
                             "expected one")
        derivative, = losses
        node, = ends[derivative].atoms(LossDerivative)
        factor, output = ends[derivative] / node, node.outputs[0]
        if node.several or node.indices != (time,) or factor.has(LossDerivative) or output not in ends:
            raise NotCovered(f"{derivative} = {ends[derivative]}; expected a number times the derivative of a step's "
                             "loss in one output")
        kets = [Ket(vector) for vector in vectors]
        starts = {target.vector.name: LinearForm.of(target, value, kets, time) for target, value in ends.items()
                  if isinstance(target, Ket)}
        end = stream.vector.at(time, sp.Integer(1))
        overlaps = LinearForm.of(output, ends[output], [Bracket(vector, end) for vector in vectors], time)
        found = cls(starts, output, overlaps, derivative, factor)
        found._require_known(setting, equations)
        return found

    def _require_known(self, setting: Setting, equations: Sequence[LimitEquation]) -> None:
        """Every number in the equations is one of a step: data, the output, the loss's derivative; or remembered."""
        of_a_step = {scalar.name for scalar in (*setting.program.data, self.output, self.derivative)}
        remembered = {e.target.name for e in equations if isinstance(e.target, Scalar) and not e.boundary}
        remembered |= {initial_weight_factor_of(matrix)[0].name for matrix in setting.program.matrices}
        for one in set().union(*(e.value.atoms(Scalar) for e in equations)):
            if one.name not in remembered and (one.name not in of_a_step or len(one.indices) != 1):
                raise NotCovered(f"program {setting.program.name}: no value for {one}; expected a step's "
                                 f"{', '.join(sorted(of_a_step))}, or what an optimizer remembers")

    def loss_factor(self, t: int, memory: Numbers) -> float:
        """What multiplies the loss's derivative at step t."""
        return _number(self.factor, self.overlaps.time, t, memory)


def _number(value: sp.Expr, time: sp.Symbol, t: int, memory: Numbers) -> float:
    value = value.xreplace({time: sp.Integer(t)})
    if free := value.free_symbols - {s for one in value.atoms(Scalar) for s in one.free_symbols}:
        raise NotCovered(f"{value}: no value for {', '.join(sorted(map(str, free)))}")
    return float(value.xreplace({s: sp.Float(memory[(s.name, *map(int, s.indices))]) for s in value.atoms(Scalar)}))
