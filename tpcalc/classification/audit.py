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
from ..parametrizations import DepthChoices, DepthScaling, Parametrization, WidthScaling
from ..programs.faithful import decay_power, optimizer_name
from .advice import BEST, decay_enters, eps_outgrows, raw_update_exponent, as_power, warnings
from .classify import classify
from .crossover import checked_sizes, crossover, far_away, since
from .recipe import MEANING, Recipe, realize, visible_decay
from .verdict import Verdict

MOST_DENOMINATOR = 64  # of powers of L that anybody sets as floats
COVERED = "a residual block of one matrix without normalization; with init other than 0, a one-homogeneous activation"

ELSEWHERE = ("tp.classify judges exponents, tp.theory.audit_matrices raw powers for every matrix, "
             "tp.width.broken_principles powers of n")


@dataclass(frozen=True, repr=False)
class Audit(Short, Aligned):
    """What the powers of L in ``choices`` come to, in both regimes of Adam's eps.

    alpha, gamma: the depth scaling (tp.DepthScaling) they realize while eps is negligible beside gradients; decay: one
    step of weight decay takes a share L^-decay of a weight, None without one; verdict: of (alpha, gamma);
    eps_in_charge: the verdict where eps, at the power of L that was given, outgrows gradients, None where it never
    does, or where gradients are no power of L since the network explodes; crossover_depth: the depth at which eps is as
    large as the gradient, None where ``sizes`` do not say it; warnings: what falls short of Depth-muP; reasons: how
    alpha and gamma come about; recipe: Depth-muP with this optimizer, ``recipe.changes`` what to change;
    faithful_at_init: is the raw h = W x of order one.

    >>> import tpcalc as tp
    >>> found = tp.audit(branch=-1, lr=0, optimizer="adam", eps=-1)
    >>> found.alpha, found.gamma, found.faithful_at_init
    (1, 0, True)
    >>> found = tp.audit("-1/2", sizes=dict(depth=12, width=768, eps=1e-8, gradient=1e-5))
    >>> found.name, found.eps_in_charge.name, found.crossover_depth
    ('unstable in training', 'Depth-muP', 12000000.0)
    """

    choices: DepthChoices
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

    @property
    def name(self) -> str:
        """The verdict's name, that of a negligible eps."""
        return self.verdict.name

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
                 for name, size in self.choices.powers.items()]
        return " \\\\\n".join([*lines, self.verdict.latex()])

    def __str__(self) -> str:
        given = ", ".join(f"{name} {as_power(size)}" for name, size in self.choices.powers.items())
        far, charged = self.far_away, self.eps_in_charge
        regimes = [] if charged is None else [
            f"with eps in charge, {since(self.sizes, self.crossover_depth)}: {charged.where}: {charged.name}"]
        headline = f"alpha = {self.alpha}, gamma = {self.gamma}: {self.name}"
        lines = [f"{self.choices.optimizer}: {given}", *self.reasons,
                 headline + ", while eps is negligible" * bool(regimes),
                 *regimes, *(f"warning: {one}" for one in self.warnings), *[far] * bool(far), *self.recipe.changes,
                 f"covered: {COVERED}"]
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
        "sgd", "momentum", "signsgd", "lion", "adam", "adamw", "muon", "normalizedsgd", or an object as ``tp.SGD()``.
    eps:
        of Adam's eps: 0 is a fixed one, None one that is negligible. Others do not read it.
    weight_decay, decoupled, independent:
        of the weight decay, None without one; decoupled: W <- (1 - lr decay) W, else it is added to the gradient;
        independent: W <- (1 - decay) W.
    gradient:
        of the raw gradient, where it is not that of the branch multiplier (backward passes of their own scale).
    base_depth:
        the depth at which all factors are one: the settings are those values there, times powers of L / base_depth.

    Powers of every matrix of a network are audited by ``tp.theory.audit_matrices``, those of n by
    ``tp.width.broken_principles``.

    Raises ``ValueError`` for powers that are not real numbers, for floats that look like values (a denominator above
    64, such as 1e-3, or a branch above 0, such as 0.7; exact numbers pass), unknown optimizers, a base depth that is
    not positive, and sizes of other names or that are not positive. Source: Tensor Programs VI, Definition 4.1 and
    section 5; a gradient goes like the branch multiplier only while the network is stable, else exponents are those of
    the first step.

    >>> import tpcalc as tp
    >>> tp.audit(branch="-1/2", lr="-1/2", optimizer="sgd").verdict.name
    'trivial'
    """
    given = checked_sizes(sizes)
    if isinstance(branch, (DepthScaling, Parametrization, WidthScaling)):
        raise ValueError(f"branch: got {short(branch)}; expected the power of L of the branch multiplier; "
                         f"{ELSEWHERE}")
    for flag, value in (("decoupled", decoupled), ("independent", independent)):
        if not isinstance(value, bool):
            raise ValueError(f"{flag}: got {value!r}; expected False and True")
    if independent and not decoupled:
        raise ValueError("independent: got True with decoupled False; a decay inside the gradient takes part in the "
                         "update; expected one of them")
    powers = {"branch": branch, "lr": lr, "eps": eps, "init": init, "weight_decay": weight_decay, "gradient": gradient}
    for name, power in powers.items():
        _require_power(name, power)
    kind = "independent" if independent else "decoupled" if decoupled else "coupled"
    return judge_choices(DepthChoices(branch, lr, optimizer_name(optimizer), eps, init, weight_decay, kind, gradient),
                         base_depth, given)


def _require_power(name: str, given: object) -> None:
    """Raise ``ValueError`` for a float that looks like a value of the setting, not like its power of L."""
    if not isinstance(given, (float, np.floating, sp.Float)):
        return
    read = exponent(name, given)
    if read.q > MOST_DENOMINATOR or read == 0 != given or name == "branch" and read > 0:
        raise ValueError(f"{name}: got {given!r}, which looks like a value; expected the power of L that the "
                         "setting goes like, such as branch=-1 for a multiplier like 1/L: exact numbers, and floats of "
                         f"denominator {MOST_DENOMINATOR} at most, for the branch not above 0. Values go with "
                         "base_depth=")


def judge_choices(choices: DepthChoices, base_depth: float = 1, sizes: Mapping[str, float] | None = None) -> Audit:
    """From powers of L to (alpha, gamma) and all that follows, with a negligible eps and with one in charge.

    The matrix is L^init times one of the usual size, so that a one-homogeneous block carries branch + init, and its
    updates, relative to it, are L^-init as large as those of the raw matrix.
    """
    choices.require_numbers()
    bare, sizes = choices.without_eps, {} if sizes is None else sizes
    b, moved = -choices.init, raw_update_exponent(bare)
    alpha, gamma = b - choices.branch, moved - b
    base_depth = DepthScaling(alpha, gamma, base_depth=base_depth).base_depth  # refused where it is not positive
    verdict = classify(alpha, gamma)
    charged = eps_outgrows(choices) and verdict.stable_at_init
    lost, crossed = _lost(bare), None
    if charged and choices.eps is not None and not decay_enters(choices):
        crossed = crossover(sizes, choices.gradient_power, choices.eps)
    reasons = [
        f"branch {as_power(choices.branch)} times init {as_power(choices.init)}: blocks of order {as_power(-alpha)}",
        f"gradients of order {as_power(choices.gradient_power)}, which {choices.optimizer} turns into directions of "
        f"order "
        f"{as_power(-choices.lr - moved)}; times the learning rate {as_power(choices.lr)}: updates of order "
        f"{as_power(-moved)}, "
        f"relative to the initial weights {as_power(-gamma)}"]
    if lost is not None:
        reasons.append(f"{choices.decay} weight decay {as_power(choices.powers['weight_decay'])}: a share of order "
                       f"{as_power(-lost)} of a weight a step")
    return Audit(choices, alpha, gamma, lost, verdict,
                 tuple(warnings(choices, alpha, gamma, lost, since(sizes, crossed))), tuple(reasons),
                 _towards_best(choices), bool(verdict.faithful_at_init and b == 0), base_depth,
                 classify(alpha, raw_update_exponent(choices) - b) if charged else None, crossed, dict(sizes))


def _lost(choices: DepthChoices) -> sp.Expr | None:
    """The share L^-(this) of a weight that one step's decay takes, None without one."""
    if choices.weight_decay is None:
        return None
    return decay_power(choices.optimizer, -choices.lr, -choices.weight_decay, -choices.gradient_power, None,
                       -choices.init, choices.decay)


def _towards_best(choices: DepthChoices) -> Recipe:
    """Depth-muP with the same optimizer: eps stays where it may, weight decay becomes visible."""
    best = realize(BEST, choices.optimizer, eps=choices.eps, gradient=choices.gradient)
    if choices.eps is None:
        best = replace(best, eps=None)
    if choices.weight_decay is not None:
        kind = choices.decay if visible_decay(best, choices.decay) is not None else "decoupled"
        best = replace(best, weight_decay=visible_decay(best, kind), decay=kind)
    changes = [f"change {MEANING[name]} from {as_power(choices.powers[name])} to {as_power(size)}"
               for name, size in best.powers.items() if size != choices.powers[name]]
    if best.decay != choices.decay:
        changes.append(f"change weight decay from {choices.decay} to {best.decay}: {choices.optimizer}'s steps are "
                       "too small for a visible decay inside the gradient")
    head = "for Depth-muP: " if changes else "it is Depth-muP: nothing to change"
    return Recipe("depth-mup", best, {}, (head + "; ".join(changes),))
