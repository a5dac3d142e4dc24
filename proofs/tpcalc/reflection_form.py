"""The reflection form: a node splits the network into two scatterers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.calculus import Derivation
from tpcalc.ledger import Entry, Equation, Equations, Proof

from .._line import NET, OPT, random_task, relative
from .._matrices import Known, MatrixExpression, Transposed, matrix, value
from .._rewriting import Rewriting, of_nodes
from ._symbols import same_polynomials

SOURCE = "tpcalc"
ROWS = 4
EPS, UPDATE = sp.symbols("epsilon g", positive=True)


RHO = matrix(r"\rho")  # diagonal


class Cov(MatrixExpression):
    """The covariance of a vector of random variables, one for every row (step, input)."""

    def _latex(self, printer: Any) -> str:
        return rf"\mathrm{{Cov}}\left({printer.doprint(self.args[0])}\right)"


class SlopeIn(MatrixExpression):
    """The derivatives of a vector of random variables in another: args: the vector, the base."""

    def _latex(self, printer: Any) -> str:
        vector, base = map(printer.doprint, self.args)
        return rf"\frac{{\partial}}{{\partial {base}}}\left({vector}\right)"


def substitute(old: sp.Expr, new: sp.Expr, reason: str) -> Rewriting:
    """Put in what a symbol stands for."""
    return Rewriting("substitute", reason, SOURCE, lambda expression: sp.expand(expression.subs(old, new)))


def resolve(vector: sp.Expr, inverse: sp.Expr, own: sp.Expr) -> Rewriting:
    """v = M v + b becomes v = (1 - M)^-1 b, the inverse by its name; own: the M."""
    def apply(expression: sp.Expr) -> sp.Expr:
        terms = sp.Add.make_args(sp.expand(expression))
        with_it = [term for term in terms if term.has(vector)]
        if sp.expand(sp.Add(*with_it) - own * vector) != 0:
            raise ValueError(f"{expression}: what multiplies {vector} is not {own}")
        return sp.Add(*(inverse * term for term in terms if term not in with_it))
    return Rewriting("resolve", "the matrix is strictly lower triangular by steps, so that the inverse exists",
                     "algebra", apply)


def independent(*covariances: tuple[sp.Expr, sp.Expr]) -> Rewriting:
    """The covariance of sum M_i z_i is sum M_i Cov(z_i) M_i^T, where the z_i are independent."""
    def of(covariance: Cov) -> sp.Expr:
        vector = sp.expand(covariance.args[0])
        factors = [(_coefficient(vector, source), known) for source, known in covariances]
        return sp.Add(*(factor * known * _transposed(factor) for factor, known in factors))
    return Rewriting("independence", "the two sides of a node share no base ket, nor do the hats of a layer with "
                     "either", "Tensor Programs VI, definition C.1", of_nodes(Cov, of))


def differentiate(reason: str) -> Rewriting:
    """The derivative of a linear combination in one of its independent parts is that part's coefficient."""
    return Rewriting("differentiate", reason, "Tensor Programs VI, appendix C.3",
                     of_nodes(SlopeIn, lambda e: _coefficient(sp.expand(e.args[0]), e.args[1])))


def _transposed(expression: sp.Expr) -> sp.Expr:
    scalars, factors = expression.args_cnc()
    return sp.Mul(*scalars, *(f if f == RHO else Transposed(f) for f in reversed(factors)))


def _coefficient(vector: sp.Expr, source: sp.Expr) -> sp.Expr:
    """The matrix that multiplies ``source`` from the left in a sum of such products."""
    total = sp.Integer(0)
    for term in sp.Add.make_args(vector):
        scalars, factors = term.args_cnc()
        if factors and factors[-1] == source:
            total += sp.Mul(*scalars, *factors[:-1])
    return total


@dataclass(frozen=True)
class DirectionSymbols:
    """The symbols of one direction: forward, x from node l - 1 to l, or backward, delta from l to l - 1."""

    x: sp.Symbol          # the signal at the node it comes from
    new_x: sp.Symbol      # and at the node it goes to
    alone: sp.Symbol      # its part that answers nothing
    new_alone: sp.Symbol
    P: sp.Symbol          # its answer to the other signal
    new_P: sp.Symbol
    S: sp.Symbol          # the covariance of the part alone
    new_S: sp.Symbol
    C: sp.Symbol          # its own covariance
    hat: sp.Symbol        # of the layer's product with it
    A: sp.Symbol          # what the layer adds
    wC: sp.Symbol         # w o C
    G: sp.Symbol
    H: sp.Symbol


FORWARD = DirectionSymbols(*map(matrix, (
    "x^{l-1}", "x^{l}", r"x_{\leftarrow}^{l-1}", r"x_{\leftarrow}^{l}", "P^{l-1}", "P^{l}", "S^{l-1}", "S^{l}",
    "C_0^{l}", r"\hat{F}^{l}", "A^{l}", r"\left(w \circ C_0^{l}\right)", "G^{l-1}", "H^{l}")))
BACKWARD = DirectionSymbols(*map(matrix, (
    r"\delta^{l}", r"\delta^{l-1}", r"\delta_{\rightarrow}^{l}", r"\delta_{\rightarrow}^{l-1}", "Q^{l}", "Q^{l-1}",
    "R^{l}", "R^{l-1}", "C_1^{l}", r"\hat{B}^{l}", "B^{l}", r"\left(w \circ C_1^{l}\right)", "G'^{l}", "K^{l}")))
BEFORE = matrix("z")  # what the other side was before this layer's hat entered


def _at_the_node(derivation: Derivation, mine: DirectionSymbols, other: DirectionSymbols) -> list[Equation]:
    """The signal from what lies to both sides of its node, its covariance, its response, and so what the layer adds."""
    value = derivation.apply(substitute(other.new_x, other.new_P * mine.x + other.new_alone,
                                        "what lies beyond reflects too"), mine.x, mine.P * other.new_x + mine.alone)
    signal = derivation.apply(resolve(mine.x, mine.G, mine.P * other.new_P), mine.x, value)
    value = derivation.apply(substitute(mine.x, signal, "the signal at the node"), mine.C, Cov(mine.x))
    covariance = derivation.apply(independent((mine.alone, mine.S), (other.new_alone, other.new_S)), mine.C, value)
    response = SlopeIn(mine.x, other.hat)
    value = derivation.apply(substitute(mine.x, signal, "the signal at the node"), response, response)
    value = derivation.apply(substitute(other.new_alone, EPS * RHO * other.hat + BEFORE, "the layer adds the hat"),
                             response, value)
    value = derivation.apply(differentiate("linearity; nothing else depends on that hat"), response, value)
    added = derivation.apply(substitute(response, value, "the response, in what the ket equations say a layer adds"),
                             mine.A, EPS * (RHO * response - UPDATE * mine.wC))
    return [Equation(mine.x, signal), Equation(mine.C, covariance), Equation(mine.A, added)]


def _through_the_layer(derivation: Derivation, mine: DirectionSymbols, other: DirectionSymbols) -> list[Equation]:
    """From the split at one node to the split at the next."""
    value = derivation.apply(substitute(other.new_x, other.x + EPS * RHO * other.hat + other.A * mine.x,
                                        "the layer, the other way"), mine.x, mine.P * other.new_x + mine.alone)
    value = derivation.apply(resolve(mine.x, mine.H, mine.P * other.A), mine.x, value)
    whole = derivation.apply(substitute(mine.x, value, "the line before, in the layer's own equation"), mine.new_x,
                             mine.x + EPS * RHO * mine.hat + mine.A * other.x)
    answer = derivation.apply(differentiate("what comes in from the other side, with all else held"), mine.new_P,
                              SlopeIn(whole, other.x))
    rest = derivation.apply(substitute(mine.new_x, whole, "the signal at the next node"), mine.new_alone,
                            mine.new_x - mine.new_P * other.x)
    rest = derivation.apply(substitute(mine.new_P, answer, "its answer"), mine.new_alone, rest)
    value = derivation.apply(substitute(mine.new_alone, rest, "the part alone"), mine.new_S, Cov(mine.new_alone))
    covariance = derivation.apply(independent((mine.alone, mine.S), (mine.hat, mine.C), (other.hat, other.C)),
                                  mine.new_S, value)
    return [Equation(mine.new_P, answer), Equation(mine.new_alone, rest), Equation(mine.new_S, covariance)]


@lru_cache(maxsize=None)
def derived() -> tuple[Derivation, tuple[Equation, ...]]:
    """The recorded steps of the reflection form, and its equations."""
    derivation = Derivation()
    found: list[Equation] = []
    for mine, other in ((FORWARD, BACKWARD), (BACKWARD, FORWARD)):
        found += _at_the_node(derivation, mine, other) + _through_the_layer(derivation, mine, other)
    return derivation, tuple(found)


def _random_layer(rng: np.random.Generator) -> dict[sp.Expr, Any]:
    """One layer with everything in it consistent: matrices, and signals as (rows, sources) arrays.

    The independent sources are the hats of the layer and the parts alone that come in from both sides.
    """
    one = np.eye(ROWS)
    known: dict[sp.Expr, Any] = {EPS: rng.uniform(0.2, 1), UPDATE: rng.uniform(0.2, 1),
                                 RHO: np.diag(rng.uniform(0.5, 1, ROWS))}
    sources = (FORWARD.hat, BACKWARD.hat, FORWARD.alone, BACKWARD.alone)
    for i, (source, covariance) in enumerate(zip(sources, (FORWARD.C, BACKWARD.C, FORWARD.S, BACKWARD.S))):
        root = np.tril(rng.standard_normal((ROWS, ROWS)))
        known[covariance], known[source] = root @ root.T, np.zeros((ROWS, len(sources) * ROWS))
        known[source][:, i * ROWS:(i + 1) * ROWS] = root
    sides = ((FORWARD, BACKWARD), (BACKWARD, FORWARD))
    for mine, _ in sides:
        for causal in (mine.P, mine.A, mine.wC):
            known[causal] = np.tril(rng.standard_normal((ROWS, ROWS)), -1)
    drift = known[EPS] * known[RHO]
    for mine, other in sides:
        known[mine.H] = np.linalg.inv(one - known[mine.P] @ known[other.A])
        known[mine.new_P] = known[mine.A] + known[mine.H] @ known[mine.P]
        known[mine.new_alone] = drift @ known[mine.hat] + known[mine.H] @ (
            known[mine.P] @ drift @ known[other.hat] + known[mine.alone])
        known[mine.new_S] = known[mine.new_alone] @ known[mine.new_alone].T
    for mine, other in sides:
        known[mine.G] = np.linalg.inv(one - known[mine.P] @ known[other.new_P])
        known[mine.x] = known[mine.G] @ (known[mine.P] @ known[other.new_alone] + known[mine.alone])
        known[other.new_x] = known[other.new_P] @ known[mine.x] + known[other.new_alone]
    return known


def _value(node: sp.Expr, known: Known) -> Any:
    return value(node, known, {Cov: _covariance, SlopeIn: _slope})


def _covariance(node: Cov, known: Known) -> np.ndarray:
    vector = _value(node.args[0], known)
    return np.asarray(vector @ vector.T)


def _slope(node: SlopeIn, known: Known) -> np.ndarray:
    """The coefficient of a hat, from the columns of its source; of the other signal, by moving that alone."""
    vector, base = node.args
    if base in (FORWARD.hat, BACKWARD.hat):
        inner = {**known, BEFORE: _before(base, known)}
        columns = np.flatnonzero(known[base].any(axis=0))
        return _value(vector, inner)[:, columns] @ np.linalg.inv(known[base][:, columns])
    return np.column_stack([_value(vector, {**known, base: known[base] + move}) - _value(vector, known)
                            for move in np.eye(ROWS)[:, :, None]])[:, ::known[base].shape[1]]


def _before(hat: sp.Expr, known: Known) -> np.ndarray:
    side = FORWARD if hat == FORWARD.hat else BACKWARD
    return known[side.new_alone] - known[EPS] * known[RHO] @ known[hat]


def _check_numbers(rng: np.random.Generator) -> float:
    derivation, _ = derived()
    known = _random_layer(rng)
    worst = 0.0
    for step in derivation.steps:
        side = BACKWARD.hat if step.before.has(BACKWARD.hat) else FORWARD.hat
        numbers = {**known, BEFORE: _before(side, known)}
        before, after = (_value(e, numbers) for e in (step.before, step.after))
        worst = max(worst, relative(before, after))
        if step.left in known and step.left not in (FORWARD.A, BACKWARD.A, FORWARD.C, BACKWARD.C):
            worst = max(worst, relative(known[step.left], after))
    if not all(same_polynomials(steps, 3) for steps in (1, 2, 3)):
        return np.inf
    for alpha, gamma in rng.uniform((0.5, 0.0), 1.0, (4, 2)):
        task, scale, depth = random_task(rng, 5), tp.DepthScaling(alpha, gamma), int(rng.integers(1, 12))
        fast, oracle = (tp.train(NET, task, OPT, scale, depth, method=method) for method in
                        ("reflection", "coefficients"))
        worst = max(worst, relative(fast.outputs, oracle.outputs),
                    relative(fast.forward_covariance, oracle.forward_covariance),
                    relative(fast.backward_covariance, oracle.backward_covariance))
    return worst


def derive() -> Proof:
    return Proof(derived()[0].steps, _check_numbers,
                 "both sides of every step in a random layer; kets and reflections of 1, 2, 3 steps through 3 layers "
                 "as polynomials, with a symbol for every number; and outputs and covariances of whole trainings "
                 "against the coefficients of lemma D.1, on 4 random tasks, scalings and depths")


ENTRY = Entry(
    key="tpcalc/reflection_form",
    kind="theorem",
    title="the reflection form",
    source="tpcalc (new); composition of scatterers, Redheffer's star product",
    says="Split a linear residual network at a node: what lies to its left answers an incoming $\\delta$, "
         "$x^l = P^l \\delta^l + x_{\\leftarrow}^l$, what lies to its right an incoming $x$, $\\delta^l = Q^l x^l + "
         "\\delta_{\\rightarrow}^l$, rows being training samples. $S^l$ and $R^l$ are the covariances of the parts "
         "alone, $\\rho$ and $w$ those of $W_t = \\rho_t W_0 - g \\sum_{s<t} w_{ts}\\, \\delta_s \\otimes x_s / n$. "
         "With $G^{l-1} = (1 - P^{l-1} Q^{l-1})^{-1}$, $H^l = (1 - P^{l-1} B^l)^{-1}$, $G'^{l} = (1 - Q^l P^l)^{-1}$, "
         "$K^l = (1 - Q^l A^l)^{-1}$ everything follows from layer to layer, in time linear in the depth.",
    statement=lambda: Equations(derived()[1]),
    assumptions=("linear residual network, updates linear in the gradients, width to infinity at fixed depth",
                 "$P$, $Q$, $A$, $B$ are strictly lower triangular by steps: a signal answers earlier updates only"),
    uses=("tensor_programs_vi/ket_equations", "tensor_programs_vi/definition_c1"),
    derive=derive,
)
