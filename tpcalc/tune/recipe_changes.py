"""What settings are after the first update, and what to set instead for Depth-muP."""

from __future__ import annotations

from dataclasses import replace
from typing import Iterable, Mapping

import sympy as sp

from ..errors import NotCovered
from ..scaling import Powers
from ..scaling.parametrization import as_power
from ..optimizers.faithful import direction_power
from ..training.settings import Settings
from .recipe import MEANING
from ..verdicts.advice import BEST
from ..verdicts.from_nothing import gate_gradient

SAID = {**MEANING, "lr": "learning rate"}  # of a matrix that is named


def moves(given: Settings) -> bool:
    """Is there a gradient at the first step?"""
    return bool(given.branch != -sp.oo)


def after_an_update(given: Settings) -> Settings:
    """The settings of the network that the first update leaves: what started at zero has the update's size.

    A number in front has a gradient that is a fluctuation: an optimizer whose directions are of one size, whatever
    gradients are, moves it by its learning rate, and one that is linear in gradients does not move it. Raises
    ``ValueError`` where such a gradient does not vanish.
    """
    if given.in_front:
        name, = given.in_front
        eps = given.eps(name)
        follows = direction_power(given.optimizer, sp.Integer(1), None if eps is None else -eps) != 0
        if follows and not gate_gradient(given.net).vanishes:  # type: ignore[arg-type]
            raise NotCovered(f"net: got {given.net!r}; the gradient of {name} does not vanish at first, and how far "
                             f"{given.optimizer} moves it is not counted; expected optimizers by signs")
        return replace(given, branch=-sp.oo if follows else given.branch + given.of(name, "lr"))
    return given.changed(lambda name, one: replace(
        one, init={"L": -given.moved(name)}) if name in given.zero else one)


def changes_to_depth_mup(given: Settings, sized: str = "") -> tuple[str, ...]:
    """What to change for Depth-muP with the same optimizer and initialization, matrix by matrix.

    sized: whose initial size makes alpha in the place of a branch multiplier.
    """
    best = _best(given, sized)
    found: dict[str, list[str]] = {}
    for name in given.powers:
        there, same = best.said(name), given.said(name)
        of = "initial value" if name in given.in_front else MEANING["init"]
        starts = [f"{of} from 0 to {as_power(there['init'])}"] if name in given.zero and (
            name not in given.in_front or there["init"] != 0) else []
        found[name] = starts + [f"{SAID[key]} from {as_power(same[key])} to {as_power(size)}"
                                for key, size in there.items()
                                if size != same[key] and not (starts and key == "init")]
    said = [f"{', '.join(names)}: {change}" for change, names in with_names(found).items()]
    return ("for Depth-muP: change " + "; ".join(said),) if said else ("it is Depth-muP: nothing to change",)


def _best(given: Settings, sized: str) -> Settings:
    """Settings at Depth-muP: eps stays where it may, weight decay becomes visible."""
    excess = sp.expand(BEST.alpha - given.alpha)  # what is missing of alpha
    best = given
    if sized:
        best = best.changed(lambda name, one: replace(one, init={"L": given.of(name, "init") - excess})
                            if name == sized else one)
    else:
        best = replace(best, branch=best.branch - excess)
    best = best.with_rates({name: BEST.gamma for name in best.names})
    visible = best.with_visible_decay(given.decay)

    def decided(name: str, one: Powers) -> Powers:
        if name in given.in_front:  # the first update is to make the multiplier, where there is one
            first = {"L": -excess}
            return replace(one, lr=first) if moves(after_an_update(given)) else replace(one, init=first)
        decays = one.decay is not None and visible.decay_of(name) is not None
        return replace(one, decay=visible.powers[name].decay) if decays else one

    return replace(best.changed(decided), branch=given.branch if given.in_front else best.branch)


def with_names(said: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Who says a sentence, by sentence, in the order in which they come."""
    found: dict[str, list[str]] = {}
    for name, sentences in said.items():
        for one in sentences:
            found.setdefault(one, []).append(name)
    return found
