"""The ends of layer time: where streams start, the outputs, and the derivatives of the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Mapping, Sequence

import sympy as sp

from ..._types import Value
from ...calculus.equations import KetEquation
from ...calculus.kets import Bracket, Ket
from ...calculus.memory import initial_weight_factor_of
from ...calculus.setting import Setting
from ...errors import NotCovered
from ...programs.language import LossDerivative, Scalar, Vector
from ..integral_equations import LimitEquation

Numbers = Mapping[tuple, float]
Indices = Mapping[sp.Symbol, sp.Integer]


@dataclass(frozen=True)
class LinearForm:
    """Numbers that multiply kets, or overlaps of kets, in a pass."""

    terms: tuple[tuple[sp.Expr, Value], ...]

    @classmethod
    def of(cls, target: sp.Expr, value: sp.Expr, kind: type[sp.Basic]) -> "LinearForm":
        """The value as a combination of what is of a kind. Raises ``NotCovered`` for what is none."""
        value = sp.expand(value)
        units = sorted(value.atoms(kind), key=str)
        terms = tuple((value.coeff(unit), unit) for unit in units)
        rest = sp.expand(value - sp.Add(*(factor * unit for factor, unit in terms)))
        if rest != 0 or any(factor.has(Ket, Bracket, sp.Sum) for factor, _ in terms):
            raise NotCovered(f"{target} = {value}; expected a combination of {kind.__name__.lower()}s")
        return cls(terms)

    def at(self, indices: Indices, memory: Numbers) -> list[tuple[float, Value]]:
        """Factors that are not 0 at a step and a sample, each with what it multiplies."""
        found = [(number_of(factor, indices, memory), unit) for factor, unit in self.terms]
        return [(factor, unit) for factor, unit in found if factor]


@dataclass(frozen=True)
class OutputReading:
    """An output: the scalar that the loss is of, and what it is made of; the scalar that is ``factor`` times the
    loss's derivative in it."""

    output: Scalar
    overlaps: LinearForm
    derivative: Scalar
    factor: sp.Expr


@dataclass(frozen=True)
class StreamBoundaries:
    """What boundary equations say, in numbers.

    starts: where streams start, by name; vectors: what trained vectors become, targets and combinations.
    """

    starts: dict[str, LinearForm]
    vectors: tuple[tuple[Ket, LinearForm], ...]
    outputs: tuple[OutputReading, ...]

    @classmethod
    def of(cls, setting: Setting, streams: Sequence[Ket], equations: Sequence[LimitEquation]) -> "StreamBoundaries":
        """Read them. streams: x and its gradient, at any layer. Raises ``NotCovered`` for ends of another form."""
        names = {ket.vector.name for ket in streams}
        ends = {e.target: e.value for e in equations if e.boundary}
        outputs = tuple(_read_outputs(setting, ends))
        forms = {target: LinearForm.of(target, value, Ket) for target, value in ends.items() if isinstance(target, Ket)}
        starts = {target.vector.name: form for target, form in forms.items() if target.vector.name in names}
        vectors = tuple((target, form) for target, form in forms.items() if target.vector.name not in names)
        found = cls(starts, vectors, outputs)
        found._require_known(setting, equations)
        return found

    def made(self, key: tuple, time: sp.Symbol) -> tuple[LinearForm, int] | None:
        """The combination that a trained vector is, by name and indices, and the step at which to read its numbers."""
        name, step, *others = key
        for target, form in self.vectors:
            index, *rest = target.vector.indices
            if target.vector.name == name and rest == others and (index.has(time) or index == step):
                return form, step - int(index.xreplace({time: sp.Integer(0)}))
        return None

    def _require_known(self, setting: Setting, equations: Sequence[LimitEquation]) -> None:
        """Every number in the equations is one of a pass: data, outputs, the loss's derivatives; or remembered."""
        of_a_pass = {scalar.name: len(scalar.indices) for scalar in (
            *setting.program.data, *(o.output for o in self.outputs), *(o.derivative for o in self.outputs))}
        remembered = {e.target.name for e in equations if isinstance(e.target, Scalar) and not e.boundary}
        remembered |= {initial_weight_factor_of(matrix)[0].name for matrix in setting.program.matrices}
        for one in set().union(*(e.value.atoms(Scalar) for e in equations)):
            if one.name not in remembered and len(one.indices) != of_a_pass.get(one.name):
                raise NotCovered(f"program {setting.program.name}: no value for {one}; expected a step's "
                                 f"{', '.join(sorted(of_a_pass))}, or what an optimizer remembers")


def _read_outputs(setting: Setting, ends: Mapping[sp.Expr, sp.Expr]) -> Iterable[OutputReading]:
    """Outputs in the order in which the loss has them."""
    losses = [target for target, value in ends.items() if value.has(LossDerivative)]
    found: dict[int, OutputReading] = {}
    several = {node for target in losses for node in ends[target].atoms(LossDerivative)}
    for derivative in losses:
        node, *more = ends[derivative].atoms(LossDerivative)
        factor, number = ends[derivative] / node, int(node.indices[-1]) if node.several else 0
        output = node.outputs[number]
        if more or factor.has(LossDerivative) or output not in ends or number in found:
            break
        found[number] = OutputReading(output, LinearForm.of(output, ends[output], Bracket), derivative, factor)
    outputs = {node.outputs for node in several}
    if len(outputs) != 1 or sorted(found) != list(range(len(outputs.pop()))):
        said = "; ".join(f"{target} = {ends[target]}" for target in losses) or "none"
        raise NotCovered(f"program {setting.program.name}: equations of the loss's derivatives are {said}; expected a "
                         "number times the derivative of a pass's loss in each of its outputs")
    return (found[number] for number in sorted(found))


def initial_vectors(setting: Setting, ends: Sequence[KetEquation | LimitEquation]) -> list[Vector]:
    """The initial vectors that equations outside of layers read: of a family all coordinates that stand in them."""
    found: dict[Vector, None] = {}
    for vector in setting.program.vectors:
        if all(index.is_Integer for index in vector.indices):
            found[vector] = None
            continue
        met = {ket.vector for e in ends for side in (e.target, e.value) for ket in side.atoms(Ket)
               if ket.vector.same_family(vector)}
        members = (vector.at(*(a if a.is_Integer else b for a, b in zip(vector.indices, one.indices))) for one in met)
        found |= dict.fromkeys(sorted(members, key=sp.default_sort_key))
    return list(found)


def number_of(value: sp.Expr, indices: Indices, memory: Numbers) -> float:
    """A number outside of layers at a step and a sample."""
    value = value.xreplace(dict(indices))
    if free := value.free_symbols - {s for one in value.atoms(Scalar) for s in one.free_symbols}:
        raise NotCovered(f"{value}: no value for {', '.join(sorted(map(str, free)))}")
    return float(value.xreplace({s: sp.Float(memory[(s.name, *map(int, s.indices))]) for s in value.atoms(Scalar)}))
