"""What a run needs, counted before it runs."""

from __future__ import annotations

import numpy as np
import sympy as sp

import tpcalc as tp
from reference.conditioned import ConditionedInterpreter
from reference.conditioned_needs import last_reads, most_vectors, products
from tpcalc.training.builders import L, T
from tpcalc.programs.language import Family, Matrix, MatVec, Outer, Transpose, Vector
from tpcalc.programs.program import Assign

A, B, X, Y, Z = (Family(Vector, name)() for name in "abxyz")
W, V = Family(Matrix, "W"), Family(Matrix, "V")
STATEMENTS = (Assign(X, MatVec(W[0], A)), Assign(W[1], W[0] + V[0] - Outer(X, sp.tanh(A))),
              Assign(Y, MatVec(Transpose(W[1]), X) + MatVec(V[0], B)), Assign(Z, MatVec(W[0], MatVec(W[1], Y))))


def test_products_with_trained_matrices_are_products_with_initial_ones() -> None:
    assert products(STATEMENTS) == {W[0]: 4, V[0]: 3}


def test_vectors_end_where_they_are_read_last() -> None:
    ends = last_reads(STATEMENTS, lambda member: member == A)
    assert [set(members) for members in ends] == [set(), set(), {X, B, V[0]}, {W[0], W[1], Y, Z}]
    assert most_vectors(STATEMENTS, ends) == 6  # a, b; x stays for the outer product, with tanh(a); y, z


def test_counts_of_a_network_are_those_of_its_run() -> None:
    """Rows that matrices hold in the end, and the most vectors that were held, are what was foreseen."""
    program = tp.program(tp.ResNet("tanh", block="mlp"), tp.SGD(0.3, momentum=0.5), tp.DepthScaling())
    run = ConditionedInterpreter(program, {T: 3, L: 4}, dict(xi=np.ones(3), y=np.arange(3.0)), "mse", 50, 0, np.float64,
                                 ())
    counts = []
    after = run.after
    run.after = lambda statement: (counts.append(sum(isinstance(m, Vector) for m in run.assigned)),  # type: ignore
                                   after(statement))[1]
    run.run()
    rows = sum(side.basis.count + side.images.count for matrix in run.matrices.values() for side in matrix.sides)
    foreseen = run.needed / (8 * 50)
    assert rows <= 2 * sum(run.met.values()) and 2 * sum(run.met.values()) - rows <= 2 * 2 * 4
    assert foreseen - 2 * sum(run.met.values()) >= max(counts)
