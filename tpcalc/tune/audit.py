"""``audit``: which depth scaling a real recipe realizes, and what it would take to be Depth-muP."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Mapping

import numpy as np
import sympy as sp

from .._types import Number
from .._checks import exponent, short
from .._shown import Short
from .._text import Aligned
from ..derivations.printing import latex
from ..scaling import DepthScaling, Parametrization, Powers, WidthScaling
from ..scaling.parametrization import Frozen, as_power
from ..models import ResNet
from ..optimizers.faithful import decay_kind
from ..optimizers.updates import finite_batches, optimizer_name
from ..optimizers.sgd import on_sphere
from ..training.settings import Settings
from .recipe import MATRIX, MEANING, Recipe
from ..verdicts.advice import BEST, of_block, of_matrix
from ..verdicts.classify import classify
from ..verdicts.crossover import checked_sizes, crossover, far_away, since
from ..verdicts.verdict import Verdict

MOST_DENOMINATOR = 64  # of powers of L that anybody sets as floats
COVERED = "a residual block of one matrix without normalization; with init other than 0, a one-homogeneous activation"

ELSEWHERE = ("tp.classify judges exponents, tp.theory.audit_matrices raw powers for every matrix, "
             "tp.width.broken_principles powers of n")


@dataclass(frozen=True, repr=False)
class Audit(Short, Aligned):
    """What the powers of L in ``settings`` come to, in both regimes of Adam's eps.

    alpha, gamma: the depth scaling (tp.DepthScaling) they realize while eps is negligible beside gradients; decay: one
    step of weight decay takes a share L^-decay of a weight, None without one; verdict: of (alpha, gamma);
    eps_in_charge: the verdict where eps, at the power of L that was given, outgrows gradients, None where it never
    does, or where gradients are no power of L since the network explodes; crossover_depth: the depth at which eps is as
    large as the gradient, None where ``sizes`` do not say it; warnings: what falls short of Depth-muP; reasons: how
    alpha and gamma come about; recipe: Depth-muP with this optimizer, ``recipe.changes`` what to change;
    faithful_at_init: is the raw h = W x of order one; assumed: of the rank of gradients, where steps go by it.

    >>> import tpcalc as tp
    >>> found = tp.audit(branch=-1, lr=0, optimizer="adam", eps=-1)
    >>> found.alpha, found.gamma, found.faithful_at_init
    (1, 0, True)
    >>> found = tp.audit("-1/2", sizes=dict(depth=12, width=768, eps=1e-8, gradient=1e-5))
    >>> found.name, found.eps_in_charge.name, found.crossover_depth
    ('unstable in training', 'Depth-muP', 12000000.0)
    """

    settings: Settings
    alpha: sp.Expr
    gamma: sp.Expr
    decay: sp.Expr | None
    verdict: Verdict
    warnings: tuple[str, ...]
    reasons: tuple[str, ...]
    recipe: Recipe
    faithful_at_init: bool
    base_depth: float = 1
    eps_in_charge: Verdict | None = None
    crossover_depth: float | None = None
    sizes: Mapping[str, float] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The verdict's name, that of a negligible eps."""
        return self.verdict.name

    @property
    def powers(self) -> dict[str, sp.Expr]:
        """What was set, by name."""
        return self.settings.said(MATRIX)

    @property
    def far_away(self) -> str:
        """From which depth on what is said of powers of L is felt; "" where nothing grows or vanishes."""
        return far_away(self.alpha, (self.gamma,), (self.decay or sp.Integer(0),))

    @property
    def scaling(self) -> DepthScaling:
        """The depth scaling to give to ``tp.train``, with this base depth, while eps is negligible."""
        return DepthScaling(self.alpha, self.gamma, base_depth=self.base_depth)

    def latex(self) -> str:
        """What was set, and what it comes to, as lines of an ``aligned`` environment."""
        lines = [rf"\text{{{MEANING[name]}}} &\propto L^{{{latex(size)}}}"
                 for name, size in self.powers.items()]
        return " \\\\\n".join([*lines, self.verdict.latex()])

    def __str__(self) -> str:
        given = ", ".join(f"{name} {as_power(size)}" for name, size in self.powers.items())
        far, charged = self.far_away, self.eps_in_charge
        regimes = [] if charged is None else [
            f"with eps in charge, {since(self.sizes, self.crossover_depth)}: {charged.where}: {charged.name}"]
        headline = f"alpha = {self.alpha}, gamma = {self.gamma}: {self.name}"
        lines = [f"{self.settings.optimizer}: {given}", *self.reasons,
                 headline + ", while eps is negligible" * bool(regimes),
                 *regimes, *(f"warning: {one}" for one in self.warnings), *[far] * bool(far), *self.recipe.changes,
                 *(f"assumed: {one}" for one in self.assumed), f"covered: {COVERED}"]
        return "\n".join(lines)


def audit(branch: Number, lr: Number = 0, optimizer: object = "adam", eps: Number | None = 0, init: Number = 0,
          weight_decay: Number | None = None, decoupled: bool = True, independent: bool = False,
          gradient: Number | None = None, base_depth: float = 1,
          sizes: Mapping[str, float] | None = None) -> Audit:
    """The audit of a recipe whose settings go like powers of the depth: ``branch=-1`` is a multiplier like L^-1.

    Parameters
    ----------
    branch, lr, init:
        of the branch multiplier, the learning rate and the initial standard deviation of a block's matrix, relative to
        a recipe that is right in width.
    optimizer:
        "sgd", "momentum", "signsgd", "lion", "adam", "adamw", "muon", "normalizedsgd", "shampoo", "soap", or an object
        as ``tp.SGD()``.
    eps:
        of the eps of Adam, Shampoo and SOAP: 0 is a fixed one, None one that is negligible, as that of an optimizer
        given with ``eps=0`` is. Others do not read it.
    weight_decay, decoupled, independent:
        of the weight decay, None without one; decoupled: W <- (1 - lr decay) W, else it is added to the gradient;
        independent: W <- (1 - decay) W; of an optimizer with a decay, what it says of them itself.
    gradient:
        of the raw gradient, where it is not that of the branch multiplier (backward passes of their own scale).
    base_depth:
        the depth at which all factors are one: the settings are those values there, times powers of L / base_depth.

    Powers of every matrix of a network are audited by ``tp.theory.audit_matrices``, those of n by
    ``tp.width.broken_principles``.

    Raises ``ValueError`` for powers that are not real numbers, for floats that look like values (a denominator above
    64, such as 1e-3, or a branch above 0, such as 0.7; exact numbers pass), unknown optimizers, a base depth that is
    not positive, sizes of other names or that are not positive, and a decay of weights on spheres. Source: Tensor
    Programs VI, Definition 4.1 and section 5; a gradient goes like the branch multiplier only while the network is
    stable, else exponents are those of the first step.

    >>> import tpcalc as tp
    >>> tp.audit(branch="-1/2", lr="-1/2", optimizer="sgd").verdict.name
    'trivial'
    """
    given = checked_sizes(sizes)
    if on_sphere(optimizer) and weight_decay is not None:
        raise ValueError(f"weight_decay: got {short(weight_decay)} with {short(optimizer)}, whose weights keep their "
                         "norms: a decay takes nothing of them; expected None")
    if isinstance(branch, (DepthScaling, Parametrization, WidthScaling)):
        raise ValueError(f"branch: got {short(branch)}; expected the power of L of the branch multiplier; "
                         f"{ELSEWHERE}")
    for flag, value in (("decoupled", decoupled), ("independent", independent)):
        if not isinstance(value, bool):
            raise ValueError(f"{flag}: got {value!r}; expected False and True")
    if independent and not decoupled:
        raise ValueError("independent: got True with decoupled False; a decay inside the gradient takes part in the "
                         "update; expected one of them")
    given_powers = {"branch": branch, "lr": lr, "eps": eps, "init": init, "weight_decay": weight_decay,
                    "gradient": gradient}
    powers = {name: _read_power(name, power) for name, power in given_powers.items()}
    if getattr(optimizer, "eps", None) == 0 == powers["eps"] and "eps" not in given:
        powers["eps"] = None  # an optimizer that is given with none has none that could outgrow gradients
    one = Powers(init={"L": powers["init"]}, lr={"L": powers["lr"]}, eps=_if_any(powers["eps"]),
                 decay=_if_any(powers["weight_decay"]))
    kind = "independent" if independent else decay_kind(optimizer) if decoupled else "coupled"
    found = _judged(Settings(ResNet(), Frozen({MATRIX: one}), optimizer_name(optimizer), powers["branch"], kind,
                             powers["gradient"]), base_depth, given)
    return replace(found, assumed=finite_batches(optimizer))


def _if_any(power: sp.Expr | None) -> Mapping[str, sp.Expr] | None:
    return None if power is None else {"L": power}


def _read_power(name: str, given: Number | None) -> sp.Expr | None:
    """A power of L as an exact number, None where a setting that there may be is not there.

    Raises ``ValueError`` for a float that looks like a value of the setting, not like its power of L.
    """
    if given is None and name in ("eps", "weight_decay", "gradient"):
        return None
    read = exponent(name, given)
    if not read.is_number:
        raise ValueError(f"{name}: got {read}; expected a real number, as a power of L")
    if isinstance(given, (float, np.floating, sp.Float)) and (
            read.q > MOST_DENOMINATOR or read == 0 != given or name == "branch" and read > 0):
        raise ValueError(f"{name}: got {given!r}, which looks like a value; expected the power of L that the "
                         "setting goes like, such as branch=-1 for a multiplier like 1/L: exact numbers, and floats of "
                         f"denominator {MOST_DENOMINATOR} at most, for the branch not above 0. Values go with "
                         "base_depth=")
    return read


def _judged(given: Settings, base_depth: float, sizes: Mapping[str, float]) -> Audit:
    """From powers of L to (alpha, gamma) and all that follows, with a negligible eps and with one in charge.

    The matrix is L^init times one of the usual size, so that a one-homogeneous block carries branch + init, and its
    updates, relative to it, are L^-init as large as those of the raw matrix.
    """
    bare = given.without_eps
    alpha, gamma, lost, powers = bare.alpha, bare.gamma(MATRIX), bare.lost(MATRIX), given.said(MATRIX)
    base_depth = DepthScaling(alpha, gamma, base_depth=base_depth).base_depth  # refused where it is not positive
    verdict = classify(alpha, gamma)
    charged, crossed = given.outgrown(MATRIX) and verdict.stable_at_init, None
    if charged and not given.decay_enters(MATRIX):
        crossed = crossover(sizes, given.gradient_power(MATRIX), powers["eps"])
    moved = bare.moved(MATRIX)
    reasons = [
        f"branch {as_power(given.branch)} times init {as_power(powers['init'])}: blocks of order {as_power(-alpha)}",
        f"gradients of order {as_power(given.gradient_power(MATRIX))}, which {given.optimizer} turns into directions "
        f"of order {as_power(-powers['lr'] - moved)}; times the learning rate {as_power(powers['lr'])}: updates of "
        f"order {as_power(-moved)}, relative to the initial weights {as_power(-gamma)}"]
    if lost is not None:
        reasons.append(f"{given.decay} weight decay {as_power(powers['weight_decay'])}: a share of order "
                       f"{as_power(-lost)} of a weight a step")
    said = (*of_block(given), *of_matrix(given, MATRIX, since(sizes, crossed)))
    return Audit(given, alpha, gamma, lost, verdict, said, tuple(reasons), _towards_best(given),
                 bool(verdict.faithful_at_init and powers["init"] == 0), base_depth,
                 classify(alpha, given.gamma(MATRIX)) if charged else None, crossed, dict(sizes))


def _towards_best(given: Settings) -> Recipe:
    """Depth-muP with the same optimizer: eps stays where it may, weight decay becomes visible."""
    best = given.changed(lambda name, one: replace(one, init={})).realized(BEST)
    if given.decay_of(MATRIX) is not None:
        visible = best.visible_decay(MATRIX, given.decay) is not None
        best = best.with_visible_decay(given.decay if visible else "decoupled")
    there, same = best.said(MATRIX), given.said(MATRIX)
    changes = [f"change {MEANING[name]} from {as_power(same[name])} to {as_power(size)}"
               for name, size in there.items() if size != same[name]]
    if best.decay != given.decay:
        changes.append(f"change weight decay from {given.decay} to {best.decay}: {given.optimizer}'s steps are "
                       "too small for a visible decay inside the gradient")
    head = "for Depth-muP: " if changes else "it is Depth-muP: nothing to change"
    return Recipe("depth-mup", best, {}, (head + "; ".join(changes),))
