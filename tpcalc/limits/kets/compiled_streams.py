"""The equations of a ket limit as a function of data and targets, which are arrays pass by pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Mapping

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from ..._checks import finite_array
from ..._shown import Short
from ...calculus.kets import Ket
from ...calculus.setting import Setting
from ...errors import Divergence
from ...programs.language import LossDerivative
from ...programs.program import Program
from ..collocation import LimitOutputs
from ..integral_equations import LimitEquation
from .march import March
from .passes import Passes
from .sampled import SampledMarch


def numbers_by_pass(setting: Setting, inputs: ArrayLike, targets: ArrayLike, data: Mapping[str, ArrayLike]
                    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A program's data by name, and targets: an axis for every index that the program's numbers have.

    Raises ``ValueError`` for what does not fit.
    """
    program = setting.program
    names = [scalar.name for scalar in program.data]
    if set(data) != set(names[1:]):
        raise ValueError(f"data: got {sorted(data)}; expected {sorted(names[1:])}")
    y = finite_array("targets", targets)
    arrays = {name: finite_array(name, value) for name, value in zip(names, (inputs, *data.values()))}
    output = next(node for location in program.locations() for node in location.statement.value.atoms(LossDerivative))
    lengths = _lengths(program)
    sizes = dict(zip((lengths[index][1] for index in output.indices), y.shape))
    for name, array, indices in [("targets", y, output.indices), *((one.name, arrays[one.name], one.indices)
                                                                   for one in program.data)]:
        expected = tuple(sizes.get(size, size) for _, size in map(lengths.__getitem__, indices))
        if array.shape != expected or not array.size:
            shape = ", ".join(f"{size} {role}" for (role, _), size in zip(map(lengths.__getitem__, indices), expected))
            raise ValueError(f"{name}: got shape {array.shape} and targets of shape {y.shape}; expected {shape}")
    return arrays, y


def _lengths(program: Program) -> dict[sp.Symbol, tuple[str, sp.Expr]]:
    """What an index counts, and how many there are: a number, or a symbol of the program's."""
    words = {"clock": "steps", "sample": "samples", "width": "coordinates"}
    found = {}
    ranges = [(one.index, *one.bounds) for location in program.locations() for one in location.loops]
    ranges += [limits for location in program.locations() for one in location.statement.value.atoms(sp.Sum)
               for limits in one.limits]
    roles = program.index_roles()
    for index, first, last in ranges:
        size = last - first + 1
        found[index] = words.get(roles.get(index, ""), "numbers"), int(size) if size.is_Integer else size
    return found


CELLS = (8, 16, 32, 64, 128)  # of layer time, or of each octave of it where functions have kinks
RESOLVED = 1e-3              # of the largest output: the error with which three meshes are enough
SAMPLED_CELLS = (6, 12)      # where means are sampled
SCRAMBLES, POINTS = 4, 2**9  # of means over what a layer draws
ROUND_OFF = 1e-13            # of outputs that are 0
COVERED = 2.0                # standard errors within which means of scrambles are


@dataclass(frozen=True, repr=False)
class CompiledStreams(Short):
    """The equations of a ket limit as a function of data and targets.

    Steps in layer time are second order; outputs are extrapolated from meshes. inside: whether updates stand inside
    functions; means are then over scrambled points.

    >>> import tpcalc as tp
    >>> limit = tp.depth_limit(tp.kets(tp.program(tp.ResNet("tanh"), tp.SGD(), tp.DepthScaling())))
    >>> found = limit.compile()([1.0, 0.8], [1.0, -0.7])
    >>> found.outputs.round(3).tolist()
    [0.0, 0.531]
    """

    setting: Setting
    passes: Passes
    streams: tuple[Ket, Ket]
    equations: tuple[LimitEquation, ...]
    loss: Callable[[Any, Any], Any]
    inside: bool = False

    def __call__(self, inputs: ArrayLike, targets: ArrayLike, **data: ArrayLike) -> LimitOutputs:
        """Train on inputs and targets of shape (steps,), of batches (steps, samples), of several numbers a sample with
        these as a last axis; data: further data of the program by name, such as rates. Outputs have the targets' shape.

        Raises ``ValueError`` for what does not fit, ``Divergence`` naming the step where the solution blows up.
        """
        arrays, y = numbers_by_pass(self.setting, inputs, targets, data)
        given = self.setting, self.passes, self.streams, self.equations, self.loss, arrays, y
        if self.inside:
            return self._sampled(given)
        problem, solved = Divergence(""), dict[int, tuple[March, np.ndarray]]()
        for cells in CELLS:
            try:
                march = March(cells, *given)
                solved[cells] = march, march.outputs()
            except Divergence as failure:  # coarse meshes blow up where finer ones need not
                problem = failure
                continue
            before = [solved[part][1] for part in (cells // 4, cells // 2) if part in solved]
            if len(before) < 2:
                continue
            coarse, fine = (4 * before[1] - before[0]) / 3, (4 * solved[cells][1] - before[1]) / 3
            found = LimitOutputs(fine, float(np.max(np.abs(fine - coarse))), len(march.mesh), march.values())
            if found.error_estimate <= RESOLVED * _largest(found) or cells == CELLS[-1]:
                return _with_digits(found)
        raise problem

    def _sampled(self, given: tuple[Any, ...]) -> LimitOutputs:
        """Means over scrambles; errors are what these scatter by, and what a coarser mesh and fewer points make."""
        coarse, fine = SAMPLED_CELLS
        one, two, few = (np.array([SampledMarch(cells, points, seed, *given).outputs() for seed in range(SCRAMBLES)])
                         for cells, points in ((coarse, POINTS), (fine, POINTS), (coarse, POINTS // 4)))
        found = (4 * two - one) / 3
        error = (COVERED * np.std(found, axis=0, ddof=1) / np.sqrt(SCRAMBLES)
                 + np.abs(np.mean(found - two, axis=0)) + np.abs(np.mean(one - few, axis=0)))
        return _with_digits(LimitOutputs(np.mean(found, axis=0), float(np.max(error)), fine + 1, {}))


def _largest(found: LimitOutputs) -> float:
    return float(np.max(np.abs(found.outputs)))


def _with_digits(found: LimitOutputs) -> LimitOutputs:
    """Raise ``Divergence`` where the error is as large as all that is found."""
    if max(ROUND_OFF, _largest(found)) <= found.error_estimate:
        raise Divergence(f"{found.nodes} nodes of layer time do not resolve the equations of the limit: outputs up to "
                         f"{_largest(found):.1e} have an error of {found.error_estimate:.1e}")
    return found
