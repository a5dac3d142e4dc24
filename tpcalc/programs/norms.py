"""Ratios of Frobenius norms: numbers of real networks, and 1 at infinite width where updates made the difference."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import sympy as sp
from sympy.printing.printer import Printer

from ..errors import NotCovered
from .language import Matrix, Real, Scalar
from .program import Assign, Program, made_of, mapped


class NormRatio(Real):
    """|A| / |B|, Frobenius norms of two matrices, or of several parts of one.

    above, below: members, in tuples. An update of finitely many outer products, or of a function of their entries, has
    a norm of order one and an initial matrix one of sqrt(n): the ratio before and after an update is 1 + O(1 / n).

    >>> from tpcalc.programs.language import Family
    >>> A, B = (Family(Matrix, name)() for name in "AB")
    >>> print(NormRatio((A,), (B,)))
    norm(A)/norm(B)
    """

    own_kind = "scalar"
    above = property(lambda self: tuple(self.args[0]))
    below = property(lambda self: tuple(self.args[1]))

    def __new__(cls, above: tuple[Matrix, ...], below: tuple[Matrix, ...]) -> sp.Expr:
        parts = isinstance(above, (tuple, sp.Tuple)) and isinstance(below, (tuple, sp.Tuple))
        if not (parts and above and len(above) == len(below)
                and all(isinstance(one, Matrix) for one in (*above, *below))):
            raise TypeError(f"NormRatio({above}, {below}): a ratio of norms is of two tuples of members of families of "
                            "matrices, as many above as below")
        return super().__new__(cls, sp.Tuple(*above), sp.Tuple(*below))

    def _sympystr(self, printer: Printer) -> str:
        return "/".join(f"norm({', '.join(map(printer.doprint, part))})" for part in (self.above, self.below))

    def _latex(self, printer: Printer) -> str:
        norms = (rf"\lVert {', '.join(map(printer.doprint, part))} \rVert_F" for part in (self.above, self.below))
        return r"\frac{%s}{%s}" % tuple(norms)


@lru_cache(maxsize=64)  # what is lowered is known by its program
def at_infinite_width(program: Program) -> Program:
    """The program whose ratios of norms are 1, which they are at infinite width; itself where it has none.

    Matrices that only ratios read are written out. Raises ``NotCovered`` where the matrix above has no initial one in
    it, and where that below is not the one above and what an update adds to it, outer products and buffers of them.

    >>> import tpcalc as tp
    >>> net, scale, task = tp.ResNet(), tp.DepthScaling(), tp.Task([1, 0.8], [1, -0.7])
    >>> on_sphere, free = (tp.program(net, tp.Muon(0.3, sphere=sphere), scale) for sphere in (True, False))
    >>> at_infinite_width(on_sphere).body == free.body
    True
    """
    ratios = {one.target: one.value for one in (location.statement for location in program.locations())
              if one.value.has(NormRatio)}
    if not ratios:
        return program
    values = {location.statement.target: location.statement.value for location in program.locations()}
    large = _with_initial_matrices(program)
    ones, inside = dict[sp.Expr, sp.Expr](), dict[sp.Expr, sp.Expr]()
    for target, ratio in ratios.items():
        if not (isinstance(ratio, NormRatio) and isinstance(target, Scalar)):
            raise NotCovered(f"program {program.name}: {target} := {ratio}; a ratio of norms stands alone in its "
                             "statement at infinite width")
        ones[target] = sp.Integer(1)
        for above, below in zip(ratio.above, ratio.below):
            if below != above and above.name not in large:
                raise NotCovered(f"program {program.name}: {target} := {ratio}, and {above} is made of outer products "
                                 "alone, whose norm is no larger than that of an update, so that the ratio is not 1 at "
                                 "infinite width")
            update = values.get(below, below) - above
            if large & {matrix.name for matrix in update.atoms(Matrix)}:
                raise NotCovered(f"program {program.name}: {target} := {ratio}, and {below} is not {above} and what an "
                                 "update adds to it, so that the ratio is not known to be 1 at infinite width")
            if below != above:
                inside[below] = values[below]

    def change(one: Assign) -> list[Assign]:
        if one.target in ratios or one.target in inside:
            return []
        return [Assign(one.target, one.value.xreplace(ones).xreplace(inside))]

    found = replace(program, body=mapped(program.body, change))
    left = {m for location in found.locations() for m in location.statement.value.atoms(Scalar, Matrix)}
    for one in (*ones, *inside):
        if any(one.same_family(other) for other in left):
            raise NotCovered(f"program {program.name}: {one} is read at other indices than it is made at; expected "
                             "a ratio of norms, and the matrix below, in the statements beside it")
    return found


def _with_initial_matrices(program: Program) -> set[str]:
    """The names of families that initial matrices are in; others are made of outer products alone, as buffers are."""
    statements = [location.statement for location in program.locations()]
    return made_of({matrix.name for matrix in program.matrices}, (
        (one.target.name, {matrix.name for matrix in one.value.atoms(Matrix)}) for one in statements
        if isinstance(one.target, Matrix)))
