"""What powers of the number of visits do, where every layer is visited several times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import sympy as sp

from .._checks import exponent, short
from .._shown import Short
from ..errors import NotCovered
from ..models import ResNet
from ..models.networks import NETWORKS, Network
from ..optimizers import SGD
from ..optimizers.clipped import Clipped
from ..programs.language import Matrix, MatVec
from ..programs.program import Assign, Program, mapped
from ..scaling import DepthScaling
from ..training.builders import require_vectors_taken
from .assumed import by_network
from .counted import WIDE, by_gates, counted_program, require_frozen_embedding_readout, require_untied
from .counting import ALPHA, GAMMA
from .exponents import region_of
from .optimized import optimizer_or_default
from .verdict import NAMES, Verdict, judge_exponents

SAID = {name: NAMES[name] for name in ("x at initialization", "change of x", "change of h", "change of f")}
ASSUMED = ("the depth stays as N grows; what an initial matrix makes at different visits adds up coherently, as what "
           "one matrix makes of vectors that are alike, and so is counted as these vectors are; one input at every "
           "step, embedding and readout are not trained; exponents are those after the first update")
EPS = "eps is negligible beside gradients"
SMALL = sp.Rational(1, 4)


@dataclass(frozen=True, repr=False)
class VisitVerdict(Short):
    """What branch multipliers N^-branch and learning rates N^-lr do as the number N of visits grows.

    update: the power -update of N of what a step changes in weights, over which all visits have a mean; exponents:
    powers of N by name, oo for what explodes and -oo for what vanishes, without those of which a bound alone is known;
    stable_at_init, stable, nontrivial,
    feature_learning: flags as of ``tp.classify``, None where undecided; assumptions: what stands for the network.
    """

    branch: sp.Expr
    lr: sp.Expr
    update: sp.Expr
    optimizer: str
    exponents: dict[str, sp.Expr]
    stable_at_init: bool
    stable: bool | None
    nontrivial: bool | None
    feature_learning: bool | None
    assumptions: tuple[str, ...] = (ASSUMED,)

    @property
    def name(self) -> str:
        """What becomes of training, in words."""
        if not self.stable_at_init:
            return "the stream grows with the number of visits before training"
        if self.stable is False:
            return "training moves the stream or its layers more and more"
        if self.stable is None or self.nontrivial is None:
            return "undecided"
        return "does not depend on the number of visits" if self.nontrivial else "training learns nothing"

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} {_in_words(size)}" for name, size in self.exponents.items())
        return (f"branches N^({-self.branch}), learning rate N^({-self.lr}) of {self.optimizer}: {self.name}\n{sizes}\n"
                f"assumed: {'; '.join(self.assumptions)}")


def classify_visits(branch: Any = 1, lr: Any = 0, net: Network | None = None, opt: Any = None) -> VisitVerdict:
    """The verdict on powers of the number of visits, for networks whose layers are visited N times.

    branch, lr: branches are multiplied by N^-branch, learning rates as trainers write them by N^-lr. net: default the
    linear residual network; its own ``visits`` say nothing here. opt: an optimizer or its name, default plain SGD.
    Updates of optimizers other than SGD do not see how large gradients are, so that theirs move weights by N^-lr.

    Raises ``ValueError`` for what is no real number, no network and no optimizer, ``NotCovered`` where powers are not
    counted, with the reason. Source: [tpcalc/loops].

    >>> import tpcalc as tp
    >>> print(str(tp.theory.classify_visits(1, 0, tp.ResNet("tanh", "mlp"), "adam")).rpartition("assumed")[0].strip())
    branches N^(-1), learning rate N^(0) of adam: does not depend on the number of visits
    x at initialization 1, change of x 1, change of h 1, change of f 1
    >>> tp.theory.classify_visits(0.5, 0, tp.ResNet("tanh", "mlp")).exponents["x at initialization"]
    1/2
    """
    a, r = exponent("branch", branch), exponent("lr", lr)
    for name, power in (("branch", a), ("lr", r)):
        if not power.is_Rational:
            raise NotCovered(f"{name}: got {power}; powers of the number of visits are counted at rational numbers; "
                             "expected one")
    net = ResNet() if net is None else net
    if not isinstance(net, Network):
        raise ValueError(f"net: got {short(net)}; expected {NETWORKS}, or None")
    optimizer = optimizer_or_default(opt)
    if isinstance(optimizer, Clipped):
        raise NotCovered(f"opt: got {optimizer!r}; powers of the number of visits are counted without clipping; "
                         f"expected {optimizer.opt!r}")
    require_frozen_embedding_readout(net)
    require_untied(net)
    require_vectors_taken(net, optimizer, DepthScaling())
    if net.readouts_of_block and not isinstance(optimizer, SGD):
        raise NotCovered(f"opt: got {short(optimizer)} for {', '.join(net.readouts_of_block)}, which read numbers off "
                         "vectors; their first gradients vanish at infinite width, and with them sizes of first steps "
                         "are not known; expected a tp.SGD")
    if getattr(net, "inject", 0) != 0:
        raise NotCovered(f"inject: got {net.inject}; powers of the number of visits are counted where visits add "
                         "blocks alone; expected 0")
    update = r + (a - 1 if isinstance(optimizer, SGD) else 0)
    once: Network = replace(net.narrow, visits=1, order="cycle")  # type: ignore[type-var]
    found = _judged(once, a, update)
    if a <= 0 and found.exponents["x at initialization"] is sp.oo:
        _require_explosion(once, a, update)
    values = {name: found.exponents[name] for name in SAID if name in found.exponents and name not in found.bounds}
    assumed = (ASSUMED, *by_gates(once), *(by_network(once) if net.positions else ()),
               *([WIDE] if net.narrow is not net else ()), *([EPS] if getattr(optimizer, "eps", 0) != 0 else ()))
    return VisitVerdict(a, r, update, type(optimizer).__name__.lower(), values, found.stable_at_init,
                        found.stable_in_training, found.nontrivial, found.feature_learning, assumed)


def _require_explosion(net: Network, branch: sp.Expr, update: sp.Expr) -> None:
    """Raise ``NotCovered`` where layers are said to explode one by one, and smaller branches do not: sums of a layer's
    parts, such as 1 - tanh(x)^2, are counted apart there, and what they leave of each other is not known."""
    below = _judged(net, SMALL, update).exponents["x at initialization"]
    if below is not sp.oo:
        raise NotCovered(f"branch: got {branch}; which power of N the stream grows like is known where branches become "
                         f"smaller with N: at branch = {SMALL}, N^({below}); expected a positive power")


@lru_cache(maxsize=16)
def powers_of_visits(net: Network, opt: str) -> tuple[sp.Expr, sp.Expr]:
    """The powers of N that branch multipliers and learning rates of an optimizer are to have: the largest branches, in
    steps of a quarter, that leave the stream as it is before training, and rates at which the first update moves f by
    order one.

    Raises ``NotCovered`` where the verdict there does not say that training is stable and learns features.

    >>> powers_of_visits(ResNet("tanh", "mlp"), "adam")
    (-1, 0)
    """
    branches = sp.Rational(2), sp.Rational(7, 4), sp.Rational(3, 2), sp.Rational(5, 4), sp.Integer(1), sp.Rational(3, 4)
    branch = branches[0]
    for smaller in branches:
        try:
            if not classify_visits(smaller, 0, net, opt).stable_at_init:
                break
        except NotCovered:  # which way the stream goes is not known there
            break
        branch = smaller
    lr = classify_visits(branch, 0, net, opt).exponents.get("change of f", sp.oo)
    found = classify_visits(branch, lr if lr.is_finite else 0, net, opt)
    if lr.is_infinite or not (found.stable and found.nontrivial and found.feature_learning):
        raise NotCovered(f"visits: no powers are known for {net!r}, {opt}: {found.name}")
    return -branch, -lr


@lru_cache(maxsize=64)
def _judged(net: Network, branch: sp.Expr, update: sp.Expr) -> Verdict:
    """The verdict on a network with as many layers as there are visits, whose initial matrices are not drawn anew."""
    net.require_counted()
    program = coherent(counted_program(net, SGD(), DepthScaling(ALPHA, GAMMA)))
    region, exponents = region_of(program, branch, update)
    return judge_exponents(branch, update, region, exponents)


def coherent(program: Program) -> Program:
    """The program in which initial matrices leave vectors as they are.

    One matrix that all visits share makes of vectors that are alike vectors that are alike: what it adds to the stream
    in N visits is N times that, not its root. So sizes are those of vectors that add up; what matrices learn stays.

    >>> import tpcalc as tp
    >>> found = coherent(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling(1, 0)))
    >>> print(*[line.strip() for line in str(found).splitlines() if "x[t, l] :=" in line])
    x[t, l] := x[t, l - 1] + (-(W[0, l] @ x[t, l - 1]) + W[t, l] @ x[t, l - 1] + x[t, l - 1])/L
    """
    def product(one: MatVec) -> sp.Expr:
        matrix = one.matrix.member
        first = matrix.func(*matrix.args[:3], sp.Integer(0), *matrix.indices[1:])
        return one.vector + one - MatVec(one.matrix.xreplace({matrix: first}), one.vector)

    return replace(program, body=mapped(program.body, lambda s: [s if isinstance(s.target, Matrix) else Assign(
        s.target, s.value.replace(lambda e: isinstance(e, MatVec), product))]))


def _in_words(size: sp.Expr) -> str:
    return "exponential" if size is sp.oo else "0" if size is -sp.oo else "1" if size == 0 else f"N^({size})"
