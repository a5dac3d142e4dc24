"""The ends of layer time: where streams start, the output, and the derivative of the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Sequence

import sympy as sp

from ..._types import Value
from ...calculus.kets import Bracket, Ket
from ...calculus.memory import initial_weight_factor_of
from ...calculus.setting import Setting
from ...errors import NotCovered
from ...programs.language import LossDerivative, Scalar
from ..integral_equations import LimitEquation

Numbers = Mapping[tuple, float]


@dataclass(frozen=True)
class LinearForm:
    """Numbers that multiply kets, or overlaps of kets, at a step."""

    terms: tuple[tuple[sp.Expr, Value], ...]
    time: sp.Symbol

    @classmethod
    def of(cls, target: sp.Expr, value: sp.Expr, kind: type[sp.Basic], time: sp.Symbol) -> "LinearForm":
        """The value as a combination of what is of a kind. Raises ``NotCovered`` for what is none."""
        value = sp.expand(value)
        units = sorted(value.atoms(kind), key=str)
        terms = tuple((value.coeff(unit), unit) for unit in units)
        rest = sp.expand(value - sp.Add(*(factor * unit for factor, unit in terms)))
        if rest != 0 or any(factor.has(Ket, Bracket, sp.Sum) for factor, _ in terms):
            raise NotCovered(f"{target} = {value}; expected a combination of {kind.__name__.lower()}s")
        return cls(terms, time)

    def at(self, t: int, memory: Numbers) -> list[tuple[float, Value]]:
        """Factors at step t that are not 0, each with what it multiplies."""
        found = [(_number(factor, self.time, t, memory), unit) for factor, unit in self.terms]
        return [(factor, unit) for factor, unit in found if factor]


@dataclass(frozen=True)
class StreamBoundaries:
    """What boundary equations say, in numbers.

    starts: where streams start, by name; vectors: what trained vectors become, targets and combinations; output: the
    scalar that the loss is of; overlaps: what it is made of; derivative: the scalar that is ``factor`` times the loss's
    derivative.
    """

    starts: dict[str, LinearForm]
    vectors: tuple[tuple[Ket, LinearForm], ...]
    output: Scalar
    overlaps: LinearForm
    derivative: Scalar
    factor: sp.Expr

    @classmethod
    def of(cls, setting: Setting, streams: Sequence[Ket], equations: Sequence[LimitEquation]) -> "StreamBoundaries":
        """Read them. streams: x and its gradient, at any layer. Raises ``NotCovered`` for ends of another form."""
        time, names = setting.time, {ket.vector.name for ket in streams}
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
        forms = {target: LinearForm.of(target, value, Ket, time) for target, value in ends.items()
                 if isinstance(target, Ket)}
        starts = {target.vector.name: form for target, form in forms.items() if target.vector.name in names}
        vectors = tuple((target, form) for target, form in forms.items() if target.vector.name not in names)
        found = cls(starts, vectors, output, LinearForm.of(output, ends[output], Bracket, time), derivative, factor)
        found._require_known(setting, equations)
        return found

    def made(self, name: str, step: int) -> tuple[LinearForm, int] | None:
        """The combination that a trained vector is at a step, and the step at which to read its numbers."""
        for target, form in self.vectors:
            index = target.vector.indices[0]
            if target.vector.name == name and (index.has(form.time) or index == step):
                return form, step - int(index.xreplace({form.time: sp.Integer(0)}))
        return None

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
