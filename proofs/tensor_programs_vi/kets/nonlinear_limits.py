"""Nonlinear networks at infinite depth: kets in layer time, from the kets of one layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Callable, Sequence

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.gaussian import Expectation
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, MeasuredNumber, Slip, Witness
from tpcalc.ledger.entry import line
from tpcalc.limits.kets.nodes import Answer, Density, E, FunctionValue, Increment
from tpcalc.limits.integral_equations import LimitEquation

from ..._line import DEPTH_MUP, OPT
from ...tpcalc.action_principle import INPUTS, TARGETS, simulated

h = sp.Symbol("h", real=True)
TANH, EVEN, SINE = tp.ResNet("tanh"), tp.ResNet(-sp.cos(h)), tp.ResNet(sp.sin(h + sp.Rational(1, 2)))
ABOVE = tp.DepthScaling(sp.Rational(3, 4), sp.Rational(1, 4))
SHALLOW, DEEP = 16, 64


@lru_cache(maxsize=4)
def limit(net: tp.ResNet, scale: tp.DepthScaling) -> tp.theory.KetLimitRegion:
    region, = tp.depth_limit(tp.kets(tp.program(net, OPT, scale))).regions
    return region


@dataclass(frozen=True)
class LimitDensity:
    """The equation of a density in the limit of a network, which is derived where it is asked for.

    name: "A" forward, "B" backward; own: of a step with itself, not with one before it.
    """

    net: tp.ResNet
    scale: tp.DepthScaling
    name: str
    own: bool = False

    @cached_property
    def equation(self) -> LimitEquation:
        found, = (e for e in limit(self.net, self.scale).equations if isinstance(e.target, Density)
                  and str(e.target.args[0]) == self.name and (e.target.args[1] == e.target.args[2]) == self.own)
        return found

    @property
    def target(self) -> sp.Expr:
        return self.equation.target

    @cached_property
    def value(self) -> sp.Expr:
        return self.equation.value

    def latex(self) -> str:
        return line(self.target, self.value)


DRIFT, ANSWERS = LimitDensity(EVEN, ABOVE, "A"), LimitDensity(SINE, DEPTH_MUP, "B", own=True)


def statement() -> Equations:
    """Laws, kets and densities; what streams answer is the solution of the same linear equations."""
    kinds = (Increment, Density)
    return Equations(tuple(Equation(e.target, e.value) for e in limit(TANH, DEPTH_MUP).equations
                           if e.target.has(*kinds) or isinstance(e.target, Expectation)))


def solved(net: tp.ResNet, scale: tp.DepthScaling,
           equations: Sequence[Equation | LimitDensity]) -> tp.theory.LimitOutputs:
    """Outputs by the limit of ``net`` with these equations for those with their targets."""
    told = {e.target: e.value for e in equations}
    compiled = limit(net, scale).compile()
    changed = tuple(LimitEquation(e.target, told.get(e.target, e.value), e.kinds, e.where, e.boundary)
                    for e in compiled.equations)
    return replace(compiled, equations=changed)(INPUTS, TARGETS)


def evidence() -> Evidence:
    return Evidence(tuple(number for name, net, equations in (
        ("tanh", TANH, statement().equations), ("sin(h + 1/2)", SINE, (ANSWERS,)))
        for number in against_the_action(name, net, equations)))


def against_the_action(name: str, net: tp.ResNet,
                       equations: Sequence[Equation | LimitDensity]) -> list[MeasuredNumber]:
    found = solved(net, DEPTH_MUP, equations)
    run = tp.train(net, tp.Task(INPUTS, TARGETS), OPT, DEPTH_MUP, depth=tp.oo, method="collocation")
    return [MeasuredNumber(f"f_{t} of {name} by these equations, against the action's", float(ours),
                           found.error_estimate, float(theirs))
            for t, (ours, theirs) in enumerate(zip(found.outputs, run.outputs.ravel())) if t]


def sampled(net: tp.ResNet, scale: tp.DepthScaling, step: int) -> tuple[float, float]:
    """An output of particles at depth 64, and an error that covers the distance to depth 16."""
    task = tp.Task(INPUTS, TARGETS)
    shallow, deep = (tp.train(net, task, OPT, scale, depth=depth, method="particles") for depth in (SHALLOW, DEEP))
    values = [float(run.outputs.ravel()[step]) for run in (shallow, deep)]
    assert deep.error_estimate is not None
    return values[1], float(np.hypot(deep.error_estimate, values[1] - values[0]))


def changed(net: tp.ResNet, scale: tp.DepthScaling, printed: Callable[[LimitEquation], sp.Expr]) -> np.ndarray:
    """Outputs by the equations with ``printed`` for the densities."""
    return solved(net, scale, tuple(Equation(e.target, printed(e)) for e in limit(net, scale).equations
                                    if isinstance(e.target, Density))).outputs


def means_apart(equation: LimitEquation) -> sp.Expr:
    """E[phi'(u_t)] E[phi'(u_s)] for E[phi'(u_t) phi'(u_s)]."""
    def apart(mean: sp.Expr) -> sp.Expr:
        factors = [f.as_base_exp() for f in sp.Mul.make_args(mean.body)]
        return sp.Mul(*(Expectation(base)**power for base, power in factors))
    return equation.value.replace(lambda e: isinstance(e, Expectation) and e.body.has(FunctionValue), apart)


def without_answers(equation: LimitEquation) -> sp.Expr:
    """The gradient of a step owes nothing to what the layer draws at that step: d dx_t / d u_t = 0."""
    if equation.target.args[1] != equation.target.args[2]:
        return equation.value
    return equation.value.replace(lambda e: isinstance(e, Answer) and e.args[0] == E, lambda e: sp.Integer(0))


def drift() -> Witness:
    truth, error = sampled(EVEN, ABOVE, 1)
    return Witness("f_1 of an even activation, alpha = 3/4", truth, error, float(changed(EVEN, ABOVE, means_apart)[1]),
                   float(solved(EVEN, ABOVE, (DRIFT,)).outputs[1]))


def backward() -> Witness:
    values, errors = simulated(SINE)
    return Witness("f_3 of sin(h + 1/2), alpha = gamma = 1/2, particles extrapolated", float(values[2]),
                   float(errors[2]), float(changed(SINE, DEPTH_MUP, without_answers)[3]),
                   float(solved(SINE, DEPTH_MUP, (ANSWERS,)).outputs[3]))


ENTRY = Entry(
    key="tensor_programs_vi/nonlinear_limits",
    kind="proposition",
    title="nonlinear networks in layer time",
    source="Tensor Programs VI, appendix G",
    says="The kets of a network with nonlinear layers, $\\alpha = \\gamma = 1/2$, here tanh with the mean subtracted: "
         "$u_t$ and $v_t$ are drawn anew by every layer, $\\phi = \\tanh$, and $r$, $e$ are what the streams answer to "
         "pushes along each other by these equations. On $1/2 < \\alpha < 1$, $\\gamma = 1 - \\alpha$, what has $r$ or "
         "$e$ and what layers draw is left out.",
    statement=statement,
    assumptions=("width to infinity, then depth", "streams without one layer know nothing of what it draws",
                 "layers close on kernels"),
    uses=("tensor_programs_vi/ket_equations", "gaussian/price"),
    evidence=evidence,
    errata=(
        Erratum(Slip.FALSE, "G.3, forward: the mean of $\\phi'$ taken apart, though one matrix enters both times",
                r"d | x_t \rangle &= dp\, \mathbb{E}[\phi'(u_t)]\, \ldots", DRIFT.latex, drift),
        Erratum(Slip.FALSE, "G.1, backward: the gradient of a step owes nothing to what the layer draws at that step",
                r"\partial | \delta x_t \rangle / \partial u_t &= 0",
                ANSWERS.latex, backward)),
)
