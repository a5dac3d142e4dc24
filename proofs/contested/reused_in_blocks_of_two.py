"""Blocks of two matrices: what is left of the inner one's updates where the backward pass has its own?"""

from __future__ import annotations

import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, MeasuredNumber, OrderBound, Rate, Slip, Witness

from .._line import ALPHA, DEPTH_MUP
from ._networks import PlainNetwork, mean_change
from .reused_weights import (DEEP, DEPTHS, ETA, EXACT, F1, FAR, G1, POWERS, SEEDS, WIDE, L, Q, Y, at_depth,
                             at_infinite_depth, compiled, recursions, stated)

NET = tp.ResNet("linear", "mlp")
REUSED = Equation(F1, 2 * ETA * Y * Q**(L - 1), r"\gamma = 1 - \alpha")
INDEPENDENT = Equation(G1, ETA * Y * (Q**L - 1) / L**(1 - 2 * ALPHA), r"\gamma = 1 - \alpha")
INNER = Equation(sp.Symbol(r"\tilde{f}_{1, 1}"), sp.Integer(0), r"W_1 \text{ alone is trained}")
LIMIT = Equation(F1 - G1, (1 + sp.E) * ETA * Y, r"\alpha = \tfrac{1}{2},\ L \to \infty")
COUPLING = OrderBound((r"f_1 - \tilde f_1",), sp.Integer(0), r"\gamma = 1 - \alpha,\ \alpha \geq \tfrac{1}{2}")
NEVER = 99.0


def real(reused: bool, inner_alone: bool = False) -> tuple[float, float]:
    """The change of f in one step up the output, of linear networks in NumPy, and its standard error."""
    gammas = (0.5, NEVER if inner_alone else 0.5)
    return mean_change(PlainNetwork(DEEP, WIDE // 2, gammas=gammas, reused=reused), SEEDS)


def evidence() -> Evidence:
    """Both programs at finite depth, exactly; their limits; real networks; the order of what lies between them."""
    numbers = [MeasuredNumber(f"{words} at alpha = {alpha}, L = {depth}", at_depth(run, alpha, depth), EXACT,
                              stated(equation, alpha, depth))
               for words, equation, run in zip(("f_1 of reused matrices", "f_1 of independent ones"),
                                               (REUSED, INDEPENDENT), compiled(NET))
               for alpha in POWERS for depth in DEPTHS]
    reused, apart = map(at_infinite_depth, recursions(DEPTH_MUP, NET))
    numbers.append(MeasuredNumber("their difference at infinite depth", reused - apart, EXACT, stated(LIMIT)))
    numbers += [MeasuredNumber(f"change of f of {SEEDS} networks of width {WIDE // 2}, {words}", *real(*of),
                               stated(equation, depth=DEEP, eta=1.0, y=1.0))
                for equation, words, of in ((REUSED, "reused", (True,)), (INDEPENDENT, "independent", (False,)),
                                            (INNER, "independent, the inner one trained", (False, True)))]
    return Evidence(tuple(numbers), tuple(
        Rate(f"f_1 less that of independent matrices at alpha = {alpha}", "L", 0.0 - float(COUPLING.power), FAR,
             tuple(stated(REUSED, alpha, depth) - stated(INDEPENDENT, alpha, depth) for depth in FAR))
        for alpha in POWERS))


def witness() -> Witness:
    """Real networks; were the coupling to die out, f_1 would be that of independent matrices by now."""
    printed, corrected = (stated(equation, depth=DEEP, eta=1.0, y=1.0) for equation in (INDEPENDENT, REUSED))
    return Witness(f"change of f in one step, linear, L = {DEEP}", *real(True), printed, corrected)


ENTRY = Entry(
    key="contested/reused_in_blocks_of_two",
    kind="claim",
    title="in blocks of two the inner matrix learns by what is reused alone",
    source="in our words; what is asked of arXiv:2512.21075v2 for blocks of two matrices, no paper at hand",
    says="It was said that in blocks of two matrices, $x^l = x^{l-1} + L^{-\\alpha} W_2^l W_1^l x^{l-1}$, reused "
         "matrices couple both passes by $L^{-2}$, so that a backward pass with matrices of its own has the same "
         "limit. An update of $W_1$ moves the block by $W_2 B_2^\\top \\delta$, if $B_2$ is what the backward pass "
         "multiplies with: $\\delta$, up to what layers do not share, where $B_2 = W_2$, and without a mean otherwise. "
         "So $\\tilde f_1$, the output after one step with independent matrices, has nothing of $W_1$, and misses half "
         "of $f_1$ even above $\\alpha = 1/2$: the coupling is of order one at every $\\alpha$, nowhere $L^{-2}$.",
    statement=lambda: Equations((REUSED, INDEPENDENT, INNER, LIMIT, COUPLING)),
    assumptions=("a linear network of blocks of two matrices", "width to infinity, then depth",
                 "frozen read-in and read-out"),
    uses=("contested/reused_weights", "contested/inner_matrices"),
    evidence=evidence,
    errata=(Erratum(Slip.FALSE, "what is said of blocks of two matrices",
                    r"f_1 - \tilde f_1 &= O(L^{-2}) \text{ at } \alpha = \tfrac{1}{2}", COUPLING.latex, witness),),
)
