"""The backward pass multiplies with the transposes of the forward pass's matrices: does the limit see that?"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, Iterator

import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, MeasuredNumber, OrderBound, Rate, Slip, Witness
from tpcalc.programs.program import Program, Statement
from tpcalc.theory import Assign, Family, Matrix, Transpose

from .._line import ALPHA, DEPTH_MUP, GENERAL, HALF, NET
from ._networks import PlainNetwork, mean_change

F1, G1 = sp.Symbol("f_1"), sp.Symbol(r"\tilde{f}_1")
ETA, Y = sp.symbols("eta y")
L = sp.Symbol("L", positive=True)
Q = 1 + L**(-2 * ALPHA)
REUSED = Equation(F1, ETA * Y * Q**(L - 1), r"\gamma = 1 - \alpha")
INDEPENDENT = Equation(G1, ETA * Y * (Q**L - 1) / L**(1 - 2 * ALPHA), r"\gamma = 1 - \alpha")
LIMIT = Equation(F1 - G1, ETA * Y, r"\alpha = \tfrac{1}{2},\ L \to \infty")
COUPLING = OrderBound((r"f_1 - \tilde f_1",), 1 - 2 * ALPHA, r"\gamma = 1 - \alpha")

RATE, TARGET, EXACT = 0.75, 1.25, 1e-9
POWERS, DEPTHS, FAR = (HALF, 3 * HALF / 2, sp.Integer(1)), (2, 7), tuple(2.0**k for k in range(14, 18))
WIDE, DEEP, SEEDS = 200, 16, 20


def own(matrix: Matrix) -> Matrix:
    """The matrix of the same layer and step that the backward pass has for itself: B for W, B1 for W1."""
    return Family(Matrix, matrix.name.replace("W", "B"), layered=True)[matrix.args[-2], matrix.args[-1]]


def with_own_matrices(statement: Statement) -> Iterator[Statement]:
    """The statement, transposes taken of the backward pass's own matrices, which every update moves too."""
    if not isinstance(statement, Assign):
        yield replace(statement, body=tuple(one for inner in statement.body for one in with_own_matrices(inner)))
        return
    value = statement.value.replace(lambda e: isinstance(e, Transpose), lambda e: Transpose(own(e.args[0])))
    yield Assign(statement.target, value)
    if isinstance(statement.target, Matrix):
        yield Assign(own(statement.target), value.xreplace({m: own(m) for m in value.atoms(Matrix)}))


def with_own_backward_pass(program: Program) -> Program:
    body = tuple(one for statement in program.body for one in with_own_matrices(statement))
    return replace(program, name="independent backward pass", body=body,
                   matrices=(*program.matrices, *map(own, program.matrices)))


@lru_cache(maxsize=None)
def recursions(scale: tp.DepthScaling, net: tp.ResNet = NET) -> tuple[tp.theory.Recursion, tp.theory.Recursion]:
    """What the calculus derives from the program as it is, and from one whose backward pass has matrices of its own."""
    program = tp.program(net, tp.SGD(RATE), scale)
    return tp.recursion(tp.kets(program)), tp.recursion(tp.kets(with_own_backward_pass(program)))


@lru_cache(maxsize=None)
def compiled(net: tp.ResNet = NET) -> tuple[Any, ...]:
    """Their sources as Python runs them, which at these sizes is quicker than to compile them."""
    found: list[Any] = [recursion.compile() for recursion in recursions(GENERAL, net)]
    return tuple(replace(one, kernel=getattr(one.kernel, "py_func", one.kernel)) for one in found)


def at_depth(run: Any, alpha: sp.Expr, depth: int) -> float:
    """f_1 of a compiled recursion."""
    return float(run(depth, [1.0, 1.0], [TARGET, 0.0], alpha=alpha, gamma=1 - alpha).outputs[1])


def at_infinite_depth(recursion: tp.theory.Recursion) -> float:
    """f_1, by the integral equations of its limit."""
    return float(tp.depth_limit(recursion).compile()([1.0, 1.0], [TARGET, 0.0]).outputs[1])


def stated(equation: Equation, alpha: sp.Expr = HALF, depth: float = 1.0, **known: float) -> float:
    return float(equation.value.subs({ETA: known.get("eta", RATE), Y: known.get("y", TARGET), L: depth, ALPHA: alpha}))


def evidence() -> Evidence:
    """Both programs at finite depth, exactly; their limits; real networks; the order of what lies between them."""
    numbers = [MeasuredNumber(f"{words} at alpha = {alpha}, L = {depth}", at_depth(run, alpha, depth), EXACT,
                              stated(equation, alpha, depth))
               for words, equation, run in zip(("f_1 of reused matrices", "f_1 of independent ones"),
                                               (REUSED, INDEPENDENT), compiled())
               for alpha in POWERS for depth in DEPTHS]
    reused, apart = map(at_infinite_depth, recursions(DEPTH_MUP))
    numbers.append(MeasuredNumber("their difference at infinite depth", reused - apart, EXACT, stated(LIMIT)))
    for is_reused, equation in ((True, REUSED), (False, INDEPENDENT)):
        mean, error = mean_change(PlainNetwork(DEEP, WIDE, reused=is_reused), SEEDS)
        numbers.append(MeasuredNumber(f"change of f of {SEEDS} networks of width {WIDE}, reused: {is_reused}", mean,
                                      error, stated(equation, depth=DEEP, eta=1.0, y=1.0)))
    rates = tuple(Rate(f"f_1 less that of independent matrices at alpha = {alpha}", "L",
                       0.0 - float(COUPLING.power.subs(ALPHA, alpha)), FAR,
                       tuple(stated(REUSED, alpha, depth) - stated(INDEPENDENT, alpha, depth) for depth in FAR))
                  for alpha in POWERS)
    return Evidence(tuple(numbers), (*rates, of_tanh()))


def of_tanh() -> Rate:
    """What real networks x + L^(-1/2) W tanh(x) show, for which nothing is stated in closed form."""
    depths = (4, 8, 16)
    found = [[mean_change(PlainNetwork(depth, WIDE, phi="tanh", reused=reused), SEEDS)[0] for depth in depths]
             for reused in (True, False)]
    return Rate(f"the same of {SEEDS} networks with tanh at alpha = 1/2", "L",
                0.0 - float(COUPLING.power.subs(ALPHA, HALF)), depths,
                tuple(one - other for one, other in zip(*found)), allowance=0.25)


def witness() -> Witness:
    """Real networks; were the coupling to die out like L^-2, f_1 would be that of independent matrices by now."""
    mean, error = mean_change(PlainNetwork(DEEP, WIDE), SEEDS)
    printed, corrected = (stated(equation, depth=DEEP, eta=1.0, y=1.0) for equation in (INDEPENDENT, REUSED))
    return Witness(f"change of f in one step, linear, L = {DEEP}", mean, error, printed, corrected)


ENTRY = Entry(
    key="contested/reused_weights",
    kind="claim",
    title="the backward pass sees the forward pass's matrices",
    source="in our words, from the abstract of arXiv:2512.21075v2; against Depthwise Hyperparameter Transfer, (38)",
    says="It was said that at $\\alpha = \\gamma = 1/2$ what the backward pass's reuse of every matrix does dies out "
         "like $L^{-2}$, so that the limit is that of a backward pass with matrices drawn for itself. $f_1$ is the "
         "output after one step on one input of a linear network, $\\tilde f_1$ the same with matrices "
         "$B^l$ of its own for the backward pass, which updates move as they do $W^l$. The two differ by $\\eta y$ at "
         "infinite depth: the response of $x$ to $W_0^\\top \\delta$ is of size $L^{-1}$ in a layer, and layers add it "
         "up with one sign. It dies out above $\\alpha = 1/2$, at $\\alpha = 1$ like $L^{-1}$, nowhere like $L^{-2}$.",
    statement=lambda: Equations((REUSED, INDEPENDENT, LIMIT, COUPLING)),
    assumptions=("a linear network of blocks of one matrix", "width to infinity, then depth",
                 "frozen read-in and read-out"),
    uses=("tensor_programs_vi/recursion_h3", "depthwise_transfer/responses"),
    evidence=evidence,
    errata=(Erratum(Slip.FALSE, "the abstract, of the coupling by reused weights",
                    r"f_1 - \tilde f_1 &= O(L^{-2}) \text{ at } \alpha = \tfrac{1}{2}", COUPLING.latex, witness),),
)
