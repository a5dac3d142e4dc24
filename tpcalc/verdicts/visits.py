"""What powers of the number of visits do, where every layer is visited several times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Iterable

import sympy as sp

from .._checks import exponent, short
from .._shown import Short
from ..asymptotics.signs import COHERENT
from ..errors import NotCovered
from ..models import ResNet
from ..models.networks import NETWORKS, Network
from ..optimizers import SGD
from ..optimizers.clipped import Clipped
from ..optimizers.faithful import degree
from ..optimizers.updates import Optimizer
from ..programs.indices import L, VISITS, c, l, t
from ..programs.language import Matrix, MatVec, Member
from ..programs.program import Assign, Loop, Program, Statement, mapped
from ..scaling import DepthScaling, Scaling
from ..training.builders import UNIT, require_vectors_taken
from ..training.carried import carried
from .counted import WIDE, by_gates, counted_program, require_frozen_embedding_readout, require_untied
from .verdict import NAMES, Verdict, by_network, judge_exponents
from .counting import ALPHA, GAMMA, optimizer_or_default
from .exponents import region_of

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

    grows: ClassVar[str] = "N"

    branch: sp.Expr
    lr: sp.Expr
    update: sp.Expr
    optimizer: str
    exponents: dict[str, sp.Expr]
    stable_at_init: bool | None
    stable: bool | None
    nontrivial: bool | None
    feature_learning: bool | None
    assumptions: tuple[str, ...] = (ASSUMED,)

    @classmethod
    def not_counted(cls, branch: sp.Expr, lr: sp.Expr, opt: Optimizer, why: str) -> VisitVerdict:
        """What is said where no powers are counted."""
        return cls(branch, lr, update_of_rate(opt, branch, lr), _name(opt), {}, None, None, None, None, (why,))

    @property
    def said(self) -> dict[str, bool | None]:
        """All flags, by name."""
        return {name: getattr(self, name) for name in ("stable_at_init", "stable", "nontrivial", "feature_learning")}

    @property
    def where(self) -> str:
        """The powers that were given, in words."""
        return f"branches N^({-self.branch}), learning rate N^({-self.lr}) of {self.optimizer}"

    @property
    def name(self) -> str:
        """What becomes of training, in words."""
        if self.stable_at_init is None:
            return "not counted"
        if not self.stable_at_init:
            return "the stream grows with the number of visits before training"
        if self.stable is False:
            return "training moves the stream or its layers more and more"
        if self.stable is None or self.nontrivial is None:
            return "undecided"
        return "does not depend on the number of visits" if self.nontrivial else "training learns nothing"

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} {_in_words(size)}" for name, size in self.exponents.items())
        return (f"{self.where}: {self.name}\n{sizes}\n"
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
    once, optimizer, assumed = visited_once(ResNet() if net is None else net, opt)
    return judged_visits(once, optimizer, a, r, assumed)


def visited_once(net: Any, opt: Any) -> tuple[Network, Optimizer, tuple[str, ...]]:
    """The network whose layers are visited once, which stands for one of N visits, the optimizer, and what is assumed.

    Raises ``ValueError`` for what is none, ``NotCovered`` where powers of N are not counted.
    """
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
    once = net.narrow.visited_once
    _require_layers_of_one_kind(once)
    assumed = (ASSUMED, *by_gates(once), *(by_network(once) if net.positions else ()),
               *([WIDE] if net.narrow is not net else ()))
    return once, optimizer, assumed


def _require_layers_of_one_kind(net: Network) -> None:
    """Raise ``NotCovered`` for layers that depend on their number or the depth, which stay as N grows, and for trained
    vectors of the stream, whose gradients have no branch's multiplier."""
    for one in net.layer((t,), UNIT).statements:
        numbers = one.value.replace(lambda e: isinstance(e, Member), lambda e: sp.Integer(1)).free_symbols & {L, l}
        if numbers:
            raise NotCovered(f"net: got {net!r}, whose {one.target.name} depends on {', '.join(map(str, numbers))}; "
                             "powers of the number of visits are counted where all layers are alike at any depth")
    bare = [name for name, (power, _) in carried(net).of_gradients.items() if power != 1]
    if bare:
        raise NotCovered(f"net: got {net!r}; gradients of {', '.join(bare)} are no multiple of a branch's multiplier, "
                         "and their powers of the number of visits are not counted; expected parameters of branches")


def update_of_rate(opt: Optimizer, branch: sp.Expr, lr: sp.Expr) -> sp.Expr:
    """The power of 1/N of what a step changes in weights; gradients are sums over N visits, each with a branch's
    multiplier."""
    return lr + degree(opt) * (branch - 1)


def judged_visits(once: Network, opt: Optimizer, branch: sp.Expr, lr: sp.Expr, assumed: tuple[str, ...]
                  ) -> VisitVerdict:
    """The verdict on a network of ``visited_once``."""
    update = update_of_rate(opt, branch, lr)
    found = _judged(once, branch, update)
    if branch <= 0 and found.exponents["x at initialization"] is sp.oo:
        _require_explosion(once, branch, update)
    values = {name: found.exponents[name] for name in SAID if name in found.exponents and name not in found.bounds}
    return VisitVerdict(branch, lr, update, _name(opt), values, found.stable_at_init,
                        found.stable_in_training, found.nontrivial, found.feature_learning,
                        (*assumed, *([EPS] if getattr(opt, "eps", 0) != 0 else ())))


def _require_explosion(net: Network, branch: sp.Expr, update: sp.Expr) -> None:
    """Raise ``NotCovered`` where layers are said to explode one by one, and smaller branches do not: sums of a layer's
    parts, such as 1 - tanh(x)^2, are counted apart there, and what they leave of each other is not known."""
    below = _judged(net, SMALL, update).exponents["x at initialization"]
    if below is not sp.oo:
        raise NotCovered(f"branch: got {branch}; which power of N the stream grows like is known where branches become "
                         f"smaller with N: at branch = {SMALL}, N^({below}); expected a positive power")


@lru_cache(maxsize=64)
def _judged(net: Network, branch: sp.Expr, update: sp.Expr) -> Verdict:
    """The verdict on a network with as many layers as there are visits, whose initial matrices are not drawn anew."""
    net.require_counted()
    region, exponents = region_of(program_of_visits(net, DepthScaling(ALPHA, GAMMA)), branch, update)
    return judge_exponents(branch, update, region, exponents)


def program_of_visits(net: Network, scale: Scaling) -> Program:
    """The training of a network with as many layers as there are visits, N, whose initial matrices are not drawn anew,
    by plain SGD; its exponents are powers of 1/N."""
    program, visit = coherent(counted_program(net, SGD(), scale)), {L: VISITS, l: c}

    def renamed(loop: Loop, body: tuple[Statement, ...]) -> Iterable[Statement]:
        index, first, last = (one.xreplace(visit) for one in (loop.index, loop.first, loop.last))
        yield Loop(index, first, last, body, loop.descending)

    body = mapped(program.body, lambda s: [Assign(s.target.xreplace(visit), s.value.xreplace(visit))], renamed)
    return replace(program, body=body, sizes=tuple(visit.get(size, size) for size in program.sizes),
                   meaning={visit.get(one, one): said for one, said in program.meaning.items()},
                   roles={visit.get(index, index): role for index, role in program.roles.items()})


def coherent(program: Program) -> Program:
    """The program in which initial matrices leave vectors as they are, times s.

    One matrix that all visits share makes of vectors that are alike vectors that are alike: what it adds to the stream
    in N visits is N times that, not its root. So sizes are those of vectors that add up; what matrices learn stays. s,
    ``asymptotics.signs.Coherent``, says that signs decide nothing: a matrix turns some vectors one way and some
    another.

    >>> import tpcalc as tp
    >>> found = coherent(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling(1, 0)))
    >>> print(*[line.strip() for line in str(found).splitlines() if "x[t, l] :=" in line])
    x[t, l] := x[t, l - 1] + (-(W[0, l] @ x[t, l - 1]) + W[t, l] @ x[t, l - 1] + s*x[t, l - 1])/L
    """
    def product(one: MatVec) -> sp.Expr:
        matrix = one.matrix.member
        first = matrix.func(*matrix.args[:3], sp.Integer(0), *matrix.indices[1:])
        return COHERENT * one.vector + one - MatVec(one.matrix.xreplace({matrix: first}), one.vector)

    return replace(program, body=mapped(program.body, lambda s: [s if isinstance(s.target, Matrix) else Assign(
        s.target, s.value.replace(lambda e: isinstance(e, MatVec), product))]))


def _name(opt: Optimizer) -> str:
    return type(opt).__name__.lower()


def _in_words(size: sp.Expr) -> str:
    return "exponential" if size is sp.oo else "0" if size is -sp.oo else "1" if size == 0 else f"N^({size})"
