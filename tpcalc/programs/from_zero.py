"""Matrices that start at zero: a program whose products are made by what matrices have learned, and by nothing else."""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from .._checks import instance, short
from ..errors import NotCovered
from .language import Matrix, MatVec
from .program import Assign, Program, mapped


def from_zero(program: Program, *names: str) -> Program:
    """The program with matrices of these families starting at 0, such as the readouts of branches.

    A product W_t x becomes (W_t - W_0) x, and so do those with the transpose: updates are the same, and W_0, still
    drawn, falls out. Optimizers that shrink W_0 are refused: what is left of it would not be W_0. Any reading of
    programs takes the result.

    Raises ``ValueError`` for names that are not those of the program's matrices, for none, and for matrices whose
    update reads the matrix itself otherwise than by adding to it. Source: Depthwise Hyperparameter Transfer, appendix M
    [depthwise_transfer/several_matrices].

    >>> import tpcalc as tp
    >>> from tpcalc.programs.from_zero import from_zero
    >>> program = tp.program(tp.ResNet("tanh", "mlp"), tp.SGD(1.0), tp.DepthScaling())
    >>> print(*(line.strip() for line in str(from_zero(program, "W2")).splitlines() if "x[t, l] :=" in line))
    x[t, l] := x[t, l - 1] + (-(W2[0, l] @ z[t, l]) + W2[t, l] @ z[t, l])/sqrt(L)
    """
    instance("program", program, Program)
    known = [matrix.name for matrix in program.matrices]
    if not names or not set(names) <= set(known):
        raise ValueError(f"names: got {short(names)}; expected one or more of {', '.join(map(repr, known))}")
    return replace(program, body=mapped(program.body, lambda one: [_learning(one, names)]))


def _learning(one: Assign, names: tuple[str, ...]) -> Assign:
    if not isinstance(one.target, Matrix):
        return replace(one, value=one.value.replace(
            lambda e: isinstance(e, MatVec) and e.matrix.member.name in names, _learned))
    before, own = _before(one.target), one.target.name in names
    rest = sp.expand(one.value) - before if own else one.value
    if any(matrix.name in names for matrix in rest.atoms(Matrix)):
        raise NotCovered(f"names: got {short(names)}, and {one.target} is made of {one.value}; expected matrices "
                         "to which updates are added, that do not depend on the matrices themselves")
    return one


def _before(target: Matrix) -> sp.Expr:
    """The matrix one step earlier: W[t, l] for W[t + 1, l]."""
    step = target.indices[0]
    return target.xreplace({step: step - 1})


def _learned(product: MatVec) -> sp.Expr:
    matrix = product.matrix.member  # of which it may be the transpose
    first = matrix.func(*matrix.args[:3], sp.Integer(0), *matrix.indices[1:])
    return product - MatVec(product.matrix.xreplace({matrix: first}), product.vector)
