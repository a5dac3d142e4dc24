"""A verdict on a depth scaling: flags that follow from exponents by definition, and what they take for granted."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from math import isfinite
from types import SimpleNamespace
from typing import TYPE_CHECKING, ClassVar, Mapping

import sympy as sp

from .._shown import Short
from .._text import Aligned
from ..derivations.printing import latex
from ..errors import NotCovered
from ..optimizers import SGD
from ..optimizers.updates import Optimizer, finite_batches, optimizer_name
from ..orders import Region, point_of
from ..scaling import Scaling
from ..scaling.parametrization import as_power
from .counted import ASSUMED, NORMED, STATES, TABLED, TURNED, UNNORMED, Judged
from .counting import ALPHA, GAMMA
from .crossover import far_away
from .ket_exponents import Exponents
from .network_sizes import MatrixVerdict, NetworkSize, alphas_of, gammas_of

if TYPE_CHECKING:
    from .horizon import HorizonVerdict

CLIPPED = ("clipping divides gradients by the power of L of their common size where that grows, and by no power of it "
           "elsewhere")
FOLDED = ("powers of initial sizes and of numbers in front of matrices are folded into branch multipliers and updates: "
          "h, gradients and sizes of entries are those of matrices that start as usual")
FROZEN = "embedding and readout are not trained"
SHARE = "a weight decay takes a share of order one in a step"
SAMPLE = "one input at every step stands for batches of a size that stays as L grows"


def by_updates(exponents: Exponents, asked: int, starts: bool = True, first_alone: bool = False) -> str:
    """How many updates are counted, and what is known of later ones; starts: is the network stable at first?"""
    if not starts:
        return "no update is counted, for the network is not stable at initialization"
    counted, after = exponents.updates, exponents.after
    many = "the first update" if asked == 1 else f"the first {asked} updates"
    if exponents.explosions and exponents.explosions[0][0] <= asked:
        return (f"exponents are those after {after} of {asked} updates, without what explodes in step "
                f"{exponents.explosions[0][0]}")
    if exponents.settled:
        return (f"exponents are those after {many}; update {counted} has those of the one before, and so have all "
                "later ones")
    alone = " alone, for gradients of later steps are of another order" * first_alone
    more = f"; updates up to {counted} were looked at" * (counted > asked)
    return f"exponents are those after {many}{alone}{more}"


def by_optimizer(opt: Optimizer, scale: Scaling, counted: Scaling, names: tuple[str, ...]) -> list[str]:
    """Sentences on the optimizer: that gradient descent with updates as large stands for it, and what is supposed of
    the rank of gradients, of eps and of weight decay; none of plain SGD."""
    found = [*finite_batches(opt)]
    if not isinstance(opt, SGD):
        moved = ", ".join(f"{name} L^({-counted.update_exponent(name)})" for name in names
                          if counted.update_exponent(name) != scale.update_exponent(name))
        found.append(f"gradient descent whose updates are as large stands for {optimizer_name(opt)}"
                     + f", per gradient {moved}" * bool(moved))
        eps = getattr(opt, "eps", 0)
        found += ["eps stays as it is as L grows"] * bool(eps and isfinite(eps))
    decay = opt.weight_decay
    return found + [SHARE] * bool(decay)


def by_visits(net: Judged) -> list[str]:
    """What stands for layers that are visited several times."""
    return ["two visits of every layer stand for all visits that stay as L grows"] * (net.visits > 1)


def by_network(net: Judged) -> list[str]:
    """What stands for a network of several positions."""
    return [UNNORMED] * (net.norm is None) + [NORMED] * any(one.qk_norm for one in net.chooses) + [
        TURNED] * any(one.angles for one in net.chooses) + [
        TABLED] * any(one.table is not None for one in net.chooses) + [
        STATES] * bool(net.states_of_block) + [ASSUMED]


UNSAID = ("alpha", "gamma", "name", "exponents", "bounds", "reasons", "matrices", "sizes", "assumptions",
          "horizon")


@dataclass(frozen=True, repr=False)
class Verdict(Short, Aligned):
    """What a depth scaling does, for networks trained by one-homogeneous faithful updates.

    Flags are True, False, or None where undefined or undecided. stable_in_training is Definition 5.2, with h;
    output_stable asks for x and f only; nontrivial: outputs that an update moves from a stable start are, also where
    training is not stable. diversity_exponent:
    Definition 5.6, at t >= 1 and generic layer. layerwise_linear: Definition G.1, for a smooth activation in place of a
    linear one, which is always linear.
    matrices: what the updates of each matrix, and each trained vector, of a block do by themselves, by name
    (``MatrixVerdict``), counted when one is asked for; gamma: None where matrices have update exponents of their own.
    sizes: powers of n and L of activations, gradients and updates by name, counted when asked for (``NetworkSizes``).
    exponents: powers of L by name; bounds: the names of those that are upper bounds, a flag that would need more than
    a bound being None; reasons: a sentence a flag; assumptions: sentences on what stands for the network and its
    training, and on how many updates are counted. horizon: of batches and many steps, where ``batch_size`` or ``steps``
    were given (``HorizonVerdict``). Rates that move the stream by order one are 1/L, not L^(-3/2), with
    skip connections [contested/rate_from_second_moments]. Source: Tensor Programs VI, section 5, definitions
    [tensor_programs_vi/definitions_5] and claims
    [tensor_programs_vi/claim_51] [tensor_programs_vi/claim_52] [tensor_programs_vi/claim_53]
    [tensor_programs_vi/claim_54] [tensor_programs_vi/claim_55], and appendix G.5 [tensor_programs_vi/claim_g1].

    >>> import tpcalc as tp
    >>> verdict = tp.classify(0.5, 0.5)
    >>> verdict.name, verdict.stable_at_init, verdict.nontrivial
    ('Depth-muP', True, True)
    """

    grows: ClassVar[str] = "L"

    alpha: sp.Expr
    gamma: sp.Expr | None
    name: str
    stable_at_init: bool
    stable_in_training: bool | None
    output_stable: bool | None
    nontrivial: bool | None
    faithful_at_init: bool
    faithful_in_training: bool | None
    feature_learning: bool | None
    redundant: bool | None
    layerwise_linear: bool | None
    diversity_exponent: sp.Expr | None
    exponents: dict[str, sp.Expr]
    reasons: tuple[str, ...]
    bounds: frozenset[str] = frozenset()
    matrices: Mapping[str, MatrixVerdict] = field(default_factory=dict, compare=False)
    sizes: Mapping[str, Mapping[str, NetworkSize]] = field(default_factory=dict, compare=False)
    assumptions: tuple[str, ...] = ()
    horizon: HorizonVerdict | None = field(default=None, compare=False)

    @property
    def said(self) -> dict[str, bool | sp.Expr | None]:
        """All flags, and the diversity exponent, by name: what a region of a phase diagram has in common."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in UNSAID}

    @property
    def complete_in_feature_learning(self) -> bool:
        """Does no matrix have an effect on its block that becomes linear in updates, those of the block together?

        Raises ``ValueError`` where matrices were not judged, as of a tp.Program. Source: arXiv:2505.01618, which asks
        it of every matrix; a block that is linear in all updates, as one matrix alone is, is not complete. Whether
        branches need it is contested [contested/one_branch_exponent].

        >>> import tpcalc as tp
        >>> net = tp.ResNet("linear", "mlp")
        >>> [tp.classify(*point, net).complete_in_feature_learning for point in ((0.5, 0.5), (1, 0))]
        [False, True]
        """
        if not self.matrices:
            raise NotCovered("matrices: not judged one by one for this network; expected a tp.ResNet")
        return all(one.complete for one in self.matrices.values())

    @property
    def where(self) -> str:
        """The exponents that were given, in words."""
        if self.gamma is not None:
            return f"alpha = {self.alpha}, gamma = {self.gamma}"
        alphas = [f"alpha of {kind} = {alpha}" for kind, alpha in alphas_of(self.matrices, self.alpha).items()]
        return ", ".join([*(alphas or [f"alpha = {self.alpha}"]), *(
            f"gamma of {name} = {gamma}" for name, gamma in gammas_of(self.matrices).items())])

    def latex(self) -> str:
        """The exponents as lines of an ``aligned`` environment."""
        gammas = {"": self.gamma} if self.gamma is not None else gammas_of(self.matrices)
        given = [rf"\gamma{f'_{{{name}}}' * bool(name)} = {latex(gamma)}" for name, gamma in gammas.items()]
        lines = [", \\; ".join([rf"\alpha = {latex(self.alpha)}", *given]) + rf" &: \text{{{self.name}}}"]
        for name, exponent in self.exponents.items():
            relation = r"\lesssim" if name in self.bounds else r"\sim"
            lines.append(rf"\text{{{name}}} &{relation} {_power(exponent)}")
        return " \\\\\n".join(lines)

    @property
    def far_away(self) -> str:
        """From which depth on what is said of powers of L is felt; "" where nothing grows or vanishes."""
        if self.gamma is not None:
            return far_away(self.alpha, (self.gamma,))
        return far_away(self.alpha, gammas_of(self.matrices).values())

    def __str__(self) -> str:
        far = self.far_away
        assumed = [f"assumed: {'; '.join(self.assumptions)}"] * bool(self.assumptions)
        return "\n".join([f"{self.where}: {self.name}", *self.reasons, *[far] * bool(far), *assumed])


NAMES = {"x at initialization": "x_init", "h at initialization": "h_init", "change of f": "df", "change of x": "dx",
         "change of h": "dh", "update of h": "update", "noise of x over a piece": "noise",
         "drift of x over a piece": "drift", "linearization error of a layer": "linearization"}


def _power(exponent: sp.Expr) -> str:
    if exponent is sp.oo:
        return r"\text{exponential}"
    return "0" if exponent is -sp.oo else f"L^{{{latex(exponent)}}}"


def judge_exponents(alpha: sp.Expr, gamma: sp.Expr | None, region: Region, exponents: Exponents,
                    matrices: Mapping[str, MatrixVerdict] | None = None,
                    point: tuple[sp.Expr, ...] | None = None) -> Verdict:
    """Apply the definitions of Tensor Programs VI, section 5, to the exponents of a region, at (alpha, gamma), or at a
    point of the plane of other exponents."""
    if point is None:
        point = point_of({ALPHA: alpha, GAMMA: gamma}, (ALPHA, GAMMA)) if region.size else ()
    known = exponents.known_at(point)
    e = SimpleNamespace(**known.at(point))
    starts = bool(max(e.x_init, e.h_init, e.f_init) <= 0)
    at_most = {name for name in known.bounds if getattr(e, name) != -sp.oo}
    later = [(t, v.at(point)) for t, v in exponents.explosions]
    breaks = bool(later or exponents.grows)
    bursts = bool(later) and later[0][0] == 0  # before any training
    undecided = known is not exponents

    def least(name: str, size: sp.Expr) -> bool | None:
        """Is an exponent at least so large? None where a bound alone says so."""
        return False if getattr(e, name) < size else None if name in at_most else True

    grown = [name for name in ("dx", "df") if getattr(e, name) > 0]
    outputs = None if undecided else bool(starts and not grown and not breaks)
    if starts and grown and at_most.issuperset(grown) and known.at_first.at(point) <= 0:
        undecided, outputs = True, None
    grows = least("dh", sp.Rational(0)) if e.dh > 0 else False
    stable = None if undecided and grows is False else False if outputs is False or grows else None if (
        grows is None or outputs is None) else True
    moves = bool(starts and e.df >= 0)
    first, first_x = (exponent.at(point) for exponent in (known.f_at_first, known.at_first))
    nontrivial = True if moves and (first > 0 or first == first_x == 0) else (
        least("df", sp.Integer(0)) if outputs or moves else None)
    faithful_init = bool(e.h_init == 0)
    faithful = None if stable is None else bool(stable and max(e.h_init, e.dh) == 0)
    learning = None if undecided else False if not outputs or grows or e.dh < 0 else least("dh", sp.Integer(0))
    diversity = _diversity(e) if outputs else None
    if at_most & {"noise", "drift"} and diversity is not None:
        diversity = None
    linear = None if not outputs else True if e.linearization < -1 else None if "linearization" in at_most else False
    redundant = None if diversity is None else bool(diversity == 0)
    if not starts:
        name = "explodes at initialization" if sp.oo in (e.x_init, e.h_init, e.f_init) else (
            "grows at initialization" + (", and its gradient explodes" if bursts else ""))
    elif e.x_init is -sp.oo:
        name = "decays"
    elif undecided:
        name = "undecided"
    elif not outputs:
        name = "unstable in training"
    elif nontrivial is None or stable is None:
        name = "stable in x and f, the rest undecided"
    elif not nontrivial:
        name = "trivial" if stable else "trivial, with h growing"
    elif not stable:
        name = "converges in x and f, not in h"
    else:
        name = "Depth-muP" if faithful_init and faithful and learning and not redundant else "ODE limit"
    said = {name: in_words(getattr(e, name)) if name not in at_most else f"at most {in_words(getattr(e, name))}"
            for name in known.at(point)}
    counted = starts or bursts  # a stream that grows at initialization, layer by layer, is no place to start from
    named = {name: getattr(e, field) for name, field in NAMES.items() if counted or field.endswith("init")}
    reasons = (
        f"initialization: x {said['x_init']}, h {said['h_init']}, f {said['f_init']}"
        + (f"; a sweep multiplies by {_exponential(later[0][1])}" if bursts and not starts else "")
        + f", {_word(starts, 'stable', 'not stable')}",
        "training: not counted, for the stream grows with depth before it" if not counted else
        f"training: {_steps(exponents.after)} x {said['dx']}, h {said['dh']}, f {said['df']}"
        + (f"; at step {later[0][0]} a sweep multiplies by {'at most ' * ('dx' in at_most)}"
           f"{_exponential(later[0][1])}" if later and starts else "")
        + ("; exponents grow with every step" if exponents.grows else "")
        + (", which the activation may hold back, so that x and f are undecided" if undecided else
           f": x and f {_word(outputs, 'are', 'are not')} stable, with h {_word(stable, 'stable', 'not stable')}"),
        _undefined("nontrivial", nontrivial, outputs or moves) or
        f"nontrivial: the change of f is {said['df']}: {_word(nontrivial, 'yes', 'no')}",
        f"faithful: h is {said['h_init']} at initialization ({_word(faithful_init, 'yes', 'no')})" + (
            f" and {'at most ' * ('dh' in at_most and bool(e.dh > e.h_init))}{in_words(max(e.h_init, e.dh))} in "
            f"training ({_word(faithful, 'yes', 'no')})" if counted else ", and not in training, which is not counted"),
        f"feature learning: the change of h is {said['dh']}: {_word(learning, 'yes', 'no')}" if counted else
        "feature learning: training is not counted: no",
        _undefined("diversity", diversity, outputs and at_most & {"noise", "drift"}) or
        f"diversity: a piece eps of the network adds {_of_piece('noise', e.noise, sp.Rational(1, 2))} and "
        f"{_of_piece('drift', e.drift, sp.Integer(1))}: exponent {diversity}, "
        f"{_word(redundant, 'redundant', 'not redundant')}",
        _undefined("layerwise linear", linear, outputs) or
        f"layerwise linear: linearizing a smooth activation in the update errs by {said['linearization']} a layer; "
        f"less than 1/L is allowed: {_word(linear, 'yes', 'no')}",
    )
    bounds = frozenset(name for name, field in NAMES.items() if field in at_most and name in named)
    return Verdict(alpha, gamma, name, starts, stable, outputs, nontrivial, faithful_init, faithful, learning,
                   redundant, linear, diversity, named, reasons, bounds, matrices or {})


def _diversity(e: SimpleNamespace) -> sp.Expr | None:
    """1 - (power of eps in the size of what a piece eps adds), depth first to infinity, then eps to 0."""
    pieces = [(e.noise, sp.Rational(1, 2)), (e.drift, sp.Integer(1))]
    surviving = [power for exponent, power in pieces if exponent == 0]
    return 1 - min(surviving) if surviving else None


def _steps(updates: int) -> str:
    return "one step changes" if updates == 1 else f"{updates} steps change"


def _exponential(exponent: sp.Expr) -> str:
    return "more than every power of L" if exponent is sp.oo else f"exp({as_power(exponent)})"


def _of_piece(what: str, size: sp.Expr, power: sp.Expr) -> str:
    """What a piece eps of the network adds, of the size of a power of L times one of eps."""
    if not size.is_finite:
        return f"no {what}" if size is -sp.oo else f"{what} exponential in L"
    return f"{what} of order " + " ".join([as_power(size)] * (size != 0) + [as_power(power, "eps")])


def in_words(exponent: sp.Expr, unit: int | str = "of order one") -> str:
    """A size as a power of L."""
    if exponent is sp.oo:
        return "exponential in L"
    return "0" if exponent is -sp.oo else str(unit) if exponent == 0 else f"L^({exponent})"


def _word(flag: bool | None, yes: str, no: str) -> str:
    return "undecided" if flag is None else yes if flag else no


def _undefined(name: str, value: object, asked: object = False) -> str:
    if value is not None:
        return ""
    return f"{name}: undecided, for only an upper bound is known" if asked else f"{name}: undefined here"
