"""From a program to the equations of its kets."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from .._shown import Short
from .._text import Aligned
from ..errors import NotCovered
from ..programs.algebra import multiplied_out
from ..programs.language import HeadSum, Matrix, MatVec, Vector
from ..optimizers.spectral import Spectral
from ..programs.norms import at_infinite_width
from ..programs.program import Location, Program
from ..derivations.derivation import Derivation
from .part_names import PartNames
from .kets import Ket
from ..derivations.printing import latex
from .outer_products import of_named_vectors
from .rules import Causality, Collect, DotSum, HatDot, VectorsToKets, Unroll, UpdateActs
from .support import Support
from .setting import Setting


@dataclass(frozen=True, repr=False)
class KetEquation(Short):
    """``target = value`` at a place of the program: a ket, or a scalar's limit."""

    target: sp.Expr
    value: sp.Expr
    location: Location


@dataclass(frozen=True, repr=False)
class KetEquations(Short, Aligned):
    """The hat/dot equations of a program, with the derivation that led to them.

    equations: in program order; support: until when base kets can have coefficients; setting: the
    program as the rules see it.

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> print(tp.kets(tp.program(net, opt, scale)).equations[0].target)
    |x[t, 0]>
    """

    setting: Setting
    equations: tuple[KetEquation, ...]
    support: Support
    derivation: Derivation

    @property
    def names(self) -> PartNames:
        """Names of long parts, such as functions of gradients under independent copies."""
        return PartNames(self.setting, [e.value for e in self.equations])

    def latex(self) -> str:
        """The equations as lines of an ``aligned`` environment, with their ranges; long functions of gradients under
        independent copies have names, whose lines stand last."""
        names = self.names
        lines = [rf"{latex(e.target)} &= {latex(names.written(e.value))}{_range(e.location)}" for e in self.equations]
        return " \\\\\n".join([*lines, *names.lines])

    def __str__(self) -> str:
        return "\n".join(f"{e.target} = {e.value}" for e in self.equations)


def _range(location: Location) -> str:
    inner = location.loops[1:]
    return "".join(rf", \quad {sp.latex(loop.index)} = {sp.latex(loop.first)}, \ldots, {sp.latex(loop.last)}"
                   for loop in inner)


def kets(program: Program) -> KetEquations:
    """Derive the infinite-width equations of a program whose vectors are linear in its matrices.

    Every vector's ket is written through hat-kets, earlier kets and numbers. Raises ``ValueError`` for a
    statement that the rules cannot treat, naming it. Source: Tensor Programs VI, appendix C.2
    [tensor_programs_vi/ket_equations] and Definition C.1 [tensor_programs_vi/definition_c1].

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> equations = tp.kets(tp.program(net, opt, scale))
    >>> len(equations.equations), all(step.check() for step in equations.derivation.steps)
    (6, True)
    """
    if not isinstance(program, Program):
        raise ValueError(f"program: got {program!r}; expected a tp.program(...)")
    for location in program.locations():
        if location.statement.value.has(Spectral):
            raise NotCovered(f"program {program.name}: {location.statement.target} moves by a function of Gram "
                             "matrices of all its rows, for which kets have no rule; expected updates that are "
                             "functions of entries, or tp.train")
        for node in location.statement.value.atoms(HeadSum):
            raise NotCovered(f"program {program.name}: {location.statement.target} has {node}, of coordinates of heads "
                             "or experts; kets are of one coordinate; expected head_dim=1 and expert_dim=1")
    program = of_named_vectors(at_infinite_width(program))
    setting = Setting.of(program)
    derivation = Derivation()
    found: list[KetEquation] = []
    for matrix in setting.trained():
        derivation.apply(Unroll(setting), matrix, matrix)
    for location in program.locations():
        target, value = location.statement.target, location.statement.value
        if isinstance(target, Matrix):
            continue
        left = Ket(target) if isinstance(target, Vector) else target
        value = derivation.through((VectorsToKets(), UpdateActs(setting), HatDot(setting),
                                    DotSum(setting, location.position)), left, value)
        found.append(KetEquation(left, multiplied_out(value) if location.statement.value.has(MatVec) else value,
                                 location))
    vectors = [(e.target.vector, e.value) for e in found if isinstance(e.target, Ket)]
    support = Support(setting, vectors)
    finished = []
    for e in found:
        value = derivation.apply(Causality(support), e.target, e.value)
        value = derivation.apply(Collect(Ket), e.target, value) if e.location.statement.value.has(MatVec) else value
        finished.append(KetEquation(e.target, value, e.location))
    return KetEquations(setting, tuple(finished), support, derivation)
