"""One step on one sample: two rows, so that the reflection form is four numbers a layer; its recurrences."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from tpcalc.calculus import Derivation

from ...tpcalc.reflection_form import BACKWARD, FORWARD, DirectionSymbols, derived
from ._rules import L_, LAYER, Part, insert, matrix_value, solve_recurrence, write_out

ETA, Y, CHI = sp.symbols("eta y chi", real=True)   # chi: the loss derivative after the step
U = sp.Symbol("u", real=True)                      # learning rate of the read-in, in units of eta
H0, P, S, H1 = (sp.Function(name) for name in ("H_0", "P", "S", "H_1"))
G0, Q, R, G1 = (sp.Function(name) for name in ("G_0", "Q", "R", "G_1"))
F1 = sp.Symbol("f_1")


def _triangle(entry: sp.Expr) -> sp.Matrix:
    return sp.Matrix([[0, 0], [entry, 0]])


@lru_cache(maxsize=None)
def matrices() -> dict[sp.Expr, sp.Matrix]:
    """All matrices of layer l, from what stands at the nodes l - 1 and l.

    Rows: before the step and after it, the same input of |xi| = 1, f_0 = 0 and so loss derivatives -y and chi.
    """
    known: dict[sp.Expr, sp.Matrix] = {}
    value = {equation.target: equation.value for equation in derived()[1]}
    scale = sp.diag(-Y, CHI)
    for node, x_node, d_node in ((LAYER - 1, (FORWARD.P, FORWARD.S), (BACKWARD.new_P, BACKWARD.new_S)),
                                 (LAYER, (FORWARD.new_P, FORWARD.new_S), (BACKWARD.P, BACKWARD.S))):
        known[x_node[0]] = _triangle(P(node))
        known[x_node[1]] = sp.Matrix([[H0(node), H0(node)], [H0(node), S(node)]])
        known[d_node[0]] = _triangle(CHI * Q(node))
        known[d_node[1]] = scale * sp.Matrix([[G0(node), G0(node)], [G0(node), R(node)]]) * scale
    one = sp.eye(2)
    for mine, other in ((FORWARD, BACKWARD), (BACKWARD, FORWARD)):
        known[mine.G] = (one - known[mine.P] * known[other.new_P]).inv()
        known[mine.C] = matrix_value(value[mine.C], known)
        known[mine.wC] = _triangle(ETA * known[mine.C][1, 0])
        known[mine.A] = matrix_value(value[mine.A], known)
    for mine, other in ((FORWARD, BACKWARD), (BACKWARD, FORWARD)):
        known[mine.H] = (one - known[mine.P] * known[other.A]).inv()
    return known


@dataclass(frozen=True)
class Unknown:
    """An entry of the reflection form: its function, where it is known, and its recurrence by layers.

    after, before: y(l) and y(l - 1) for forward ones, the other way round for backward ones; start: at layer 0, or L.
    """

    function: sp.Function
    start: sp.Expr
    side: DirectionSymbols
    of: sp.Expr          # the matrix it is an entry of
    row: int
    column: int
    size: sp.Expr        # entry = size * function

    @property
    def forward(self) -> bool:
        return self.side is FORWARD

    after = property(lambda self: self.function(LAYER if self.forward else LAYER - 1))
    before = property(lambda self: self.function(LAYER - 1 if self.forward else LAYER))

    def recurrence(self, derivation: Derivation) -> sp.Expr:
        """y at the next node, in terms of everything at the nodes before."""
        value = next(equation.value for equation in derived()[1] if equation.target == self.of)
        return derivation.apply(write_out(matrices()), self.after, Part(value, self.row, self.column) / self.size)


def unknowns(u: sp.Expr = U) -> tuple[Unknown, ...]:
    """In an order in which each needs only those before it; u: learning rate of the read-in, 0 where it is frozen."""
    return (Unknown(H0, sp.Integer(1), FORWARD, FORWARD.new_S, 0, 0, sp.Integer(1)),
            Unknown(G0, sp.Integer(1), BACKWARD, BACKWARD.new_S, 0, 0, Y**2),
            Unknown(P, -u * ETA, FORWARD, FORWARD.new_P, 1, 0, sp.Integer(1)),
            Unknown(Q, sp.Integer(0), BACKWARD, BACKWARD.new_P, 1, 0, CHI),
            Unknown(S, sp.Integer(1), FORWARD, FORWARD.new_S, 1, 1, sp.Integer(1)),
            Unknown(R, sp.Integer(1), BACKWARD, BACKWARD.new_S, 1, 1, CHI**2))


def kernel(derivation: Derivation, forward: bool) -> sp.Expr:
    """H_1 or G_1 at a node, in terms of the entries there: the covariance of the signal itself."""
    side = FORWARD if forward else BACKWARD
    value = next(equation.value for equation in derived()[1] if equation.target == side.C)
    target = H1(LAYER - 1) if forward else G1(LAYER)
    size = sp.Integer(1) if forward else CHI**2
    found = derivation.apply(write_out(matrices()), target, Part(value, 1, 1) / size)
    return found.subs(LAYER, LAYER + 1) if forward else found


def by_layers(derivation: Derivation, u: sp.Expr) -> dict[sp.Expr, sp.Expr]:
    """Everything as functions of the layer: f(l) -> its value."""
    found: dict[sp.Expr, sp.Expr] = {}
    for one in unknowns(u):
        value = derivation.apply(insert(found), one.after, one.recurrence(derivation))
        target = one.function(LAYER)
        found[target] = derivation.apply(solve_recurrence(target, one.start, one.forward), target, value)
    changes(derivation, found, LAYER)
    found[F1] = derivation.apply(insert(found), F1, -Y * P(L_))
    return found


def changes(derivation: Derivation, found: dict[sp.Expr, sp.Expr], where: sp.Expr) -> None:
    """Add H_1 - H_0 and G_1 - G_0."""
    for new, old, forward in ((H1, H0, True), (G1, G0, False)):
        value = kernel(derivation, forward).subs(LAYER, where)
        found[new(where) - old(where)] = derivation.apply(insert(found), new(where) - old(where), value - old(where))
