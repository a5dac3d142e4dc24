"""What is set for the matrices of a block, as exponents, and what to set instead for Depth-muP."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Iterable, Mapping

import sympy as sp

from ..errors import NotCovered
from ..parametrizations import DepthChoices
from ..programs.carried import Carried, carried
from ..programs.faithful import decay_power, direction_power, faithful_rate, update_power
from ..programs.resolved import update_exponent
from .advice import BEST, as_power
from .counted import Judged
from .from_nothing import gate_gradient
from .recipe import MEANING, visible_decay

SETTINGS = {"lr": "learning rate"}  # of a matrix that is named


@dataclass(frozen=True)
class Settings:
    """Powers of L, by the names of a block's matrices and trained vectors, and of numbers in front of branches.

    zero: what starts at zero, which counts as one of the usual size; front: the power of L of a number in front.
    """

    net: Judged
    choices: Mapping[str, DepthChoices]
    zero: tuple[str, ...] = ()
    front: sp.Expr = sp.Integer(0)

    @property
    def without_eps(self) -> Settings:
        """A recipe with an eps that is negligible beside gradients."""
        return replace(self, choices={name: one.without_eps for name, one in self.choices.items()})

    @property
    def carried(self) -> Carried:
        return carried(self.net)

    @property
    def names(self) -> tuple[str, ...]:
        return self.net.trained_of_block

    @property
    def gates(self) -> tuple[str, ...]:
        """The numbers in front of branches, which multiply all that is there."""
        return tuple(name for name in self.choices if name not in self.names)

    @property
    def inits(self) -> dict[str, sp.Expr]:
        return {name: self.choices[name].init for name in self.names}

    @property
    def branch(self) -> sp.Expr:
        return next(iter(self.choices.values())).branch + self.front

    @property
    def total(self) -> sp.Expr:
        """The power of L that initial sizes bring to a branch."""
        return sp.expand(-self.branch - self.alpha)

    @property
    def alpha(self) -> sp.Expr:
        return self.carried.alpha(self.branch, self.inits)

    def seen(self, name: str, usual: bool = False) -> DepthChoices:
        """What is set for a matrix, with the gradient that enters its optimizer; usual: as if it started so large."""
        one = self.choices[name]
        seen = one if one.gradient is not None else replace(
            one, gradient=self.carried.gradient(name, self.branch, self.inits))
        return replace(seen, init=sp.Integer(0)) if usual else seen

    @property
    def gammas(self) -> dict[str, sp.Expr]:
        return {name: update_exponent(self.seen(name), self.alpha) for name in self.names}

    def lost(self, name: str) -> sp.Expr | None:
        """The share L^-(this) of a matrix that one step's weight decay takes."""
        one = self.choices[name]
        if one.weight_decay is None or not self.moves:
            return None
        eps = None if one.eps is None else -one.eps
        seen = self.seen(name)
        assert seen.gradient is not None
        return decay_power(one.optimizer, -one.lr, -one.weight_decay, -seen.gradient, eps, -one.init, one.decay)

    @property
    def moves(self) -> bool:
        return bool(self.front != -sp.oo)

    @property
    def counted(self) -> tuple[sp.Expr, tuple[tuple[str, sp.Expr], ...], tuple[str, ...]]:
        """alpha, gammas and what starts at zero, as they are counted; with a number in front, behind an update."""
        one = self.after_an_update() if self.gates else self
        return one.alpha, tuple(one.gammas.items()), () if self.gates else self.zero

    def after_an_update(self) -> Settings:
        """The settings of the network that the first update leaves: what started at zero has the update's size.

        A number in front has a gradient that is a fluctuation: an optimizer whose directions are of one size, whatever
        gradients are, moves it by its learning rate, and one that is linear in gradients does not move it. Raises
        ``ValueError`` where such a gradient does not vanish.
        """
        if self.gates:
            gate, = (self.choices[name] for name in self.gates)
            follows = direction_power(gate.optimizer, sp.Integer(1), None if gate.eps is None else -gate.eps) != 0
            if follows and not gate_gradient(self.net).vanishes:  # type: ignore[arg-type]
                raise NotCovered(f"net: got {self.net!r}; the gradient of {self.gates[0]} does not vanish at first, "
                                 f"and how far {gate.optimizer} moves it is not counted; expected optimizers by "
                                 "signs")
            return replace(self, front=-sp.oo if follows else gate.lr)
        sizes = {name: -update_power(one.optimizer, -self.seen(name).gradient_power, -one.lr,
                                     None if one.eps is None else -one.eps)
                 for name, one in self.choices.items() if name in self.zero}
        return replace(self, choices={name: replace(one, init=sizes.get(name, one.init))
                                      for name, one in self.choices.items()})


def changes_to_depth_mup(given: Settings, sized: str = "") -> tuple[str, ...]:
    """What to change for Depth-muP with the same optimizer and initialization, matrix by matrix.

    sized: whose initial size makes alpha in the place of a branch multiplier.
    """
    best = _best(given, sized)
    found: dict[str, list[str]] = {}
    for name, one in given.choices.items():
        there, same = best[name].powers, one.powers
        of = "initial value" if name in given.gates else MEANING["init"]
        starts = [f"{of} from 0 to {as_power(there['init'])}"] if name in given.zero and (
            name not in given.gates or there["init"] != 0) else []
        found[name] = starts + [f"{SETTINGS.get(key, MEANING[key])} from {as_power(same[key])} to {as_power(size)}"
                                for key, size in there.items()
                                if size != same[key] and not (starts and key == "init")]
    said = [f"{', '.join(names)}: {change}" for change, names in with_names(found).items()]
    return ("for Depth-muP: change " + "; ".join(said),) if said else ("it is Depth-muP: nothing to change",)


def _best(given: Settings, sized: str) -> dict[str, DepthChoices]:
    """Settings at Depth-muP: eps stays where it may, weight decay becomes visible."""
    excess = sp.expand(BEST.alpha - replace(given, front=sp.Integer(0)).alpha)  # what is missing of alpha
    best = dict(given.choices)
    if given.gates:
        front = -excess
    elif sized:
        front, best[sized] = sp.Integer(0), replace(best[sized], init=best[sized].init - excess)
    else:
        front, best = sp.Integer(0), {name: replace(one, branch=one.branch - excess) for name, one in best.items()}
    there = replace(given, choices=best, front=front)
    found = {name: _of_matrix(best[name], there.seen(name), given.choices[name]) for name in given.names}
    for name in given.gates:  # the first update is to make the multiplier, where there is one
        moves = given.after_an_update().moves
        found[name] = replace(best[name], lr=front) if moves else replace(best[name], init=front)
    return found


def _of_matrix(one: DepthChoices, seen: DepthChoices, before: DepthChoices) -> DepthChoices:
    size = seen.gradient_power
    kept = size if one.eps is None or one.eps > size else one.eps
    rate = faithful_rate(one.optimizer, BEST.gamma - one.init, -size, -kept)
    best = replace(seen, lr=-rate, eps=None if one.eps is None else kept)
    visible = None if one.weight_decay is None else visible_decay(best, one.decay)
    return best if visible is None else replace(best, weight_decay=visible)


def with_names(said: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Who says a sentence, by sentence, in the order in which they come."""
    found: dict[str, list[str]] = {}
    for name, sentences in said.items():
        for one in sentences:
            found.setdefault(one, []).append(name)
    return found
