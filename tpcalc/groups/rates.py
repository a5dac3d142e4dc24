"""Learning rates of an optimizer that has a plan's groups: set anew by a schedule, and held against the plan."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .. import _checks
from .._types import Fields, Value
from .classes import require_planned
from ..tune.factors import is_muon

if TYPE_CHECKING:
    from .plan import Plan

SCALE = "lr_scale"  # of a group: its learning rate over the base's
SAME = 1e-6         # relative, of rates that are one


def groups_of(plan: Plan, optimizer: Value) -> list[Fields]:
    """The groups of an optimizer; raises ``ValueError`` for some that are not the plan's."""
    groups = getattr(optimizer, "param_groups", None)
    if not isinstance(groups, list) or not groups:
        raise ValueError(f"optimizer: got {_checks.short(optimizer)}; expected one with param_groups")
    known = {entry.parameter.role: set[float]() for entry in plan.entries}
    for entry in plan.entries:
        known[entry.parameter.role].add(entry.factor("lr"))
    for i, group in enumerate(groups):
        if group.get(SCALE) not in known.get(group.get("role"), ()):
            raise ValueError(f"optimizer: got group {i} of role {group.get('role')!r} with {SCALE} {group.get(SCALE)}; "
                             "expected the groups of this plan, as plan.groups(model, lr=...) returns them")
    return groups


def base_rate(group: Fields, lr: float, muon_lr: float | None) -> float:
    """The rate that a group's factor multiplies: Muon's where the group is Muon's and it has one."""
    return muon_lr if muon_lr is not None and group.get("use_muon") else lr


def rates_of(plan: Plan, optimizer: Value, lr: object, muon_lr: object = None) -> list[float]:
    """The learning rate of every group, in order, where the base's is ``lr``."""
    rate = _checks.nonnegative_number("lr", lr)
    muon_rate = muon_rate_of(plan, muon_lr)
    return [base_rate(group, rate, muon_rate) * group[SCALE] for group in groups_of(plan, optimizer)]


def muon_rate_of(plan: Plan, muon_lr: object) -> float | None:
    """Muon's rate at the base, None where it is that of the other groups; ``ValueError`` in other plans."""
    if muon_lr is None:
        return None
    if not is_muon(plan.optimizer):
        raise ValueError(f"muon_lr: got {muon_lr!r}, and the plan is for {plan.optimizer}; expected None, or a plan "
                         "for optimizer='muon'")
    return _checks.nonnegative_number("muon_lr", muon_lr)


def _of_base(groups: list[Fields], setting: str, words: str, expected: str) -> float | None:
    """What these groups say that a setting is at the base, by its factors; None where no group does."""
    said = None
    for group in sorted(groups, key=lambda one: not one[f"{setting}_scale"]):
        value, scale = float(group[setting]), group[f"{setting}_scale"]
        if said is None and scale:
            said = value / scale
        if not math.isclose(value, (said or 0.0) * scale, rel_tol=SAME):
            times = f"{value / said:.4g} times the base's and " if said else "not the base's 0, and "
            raise ValueError(f"optimizer: got {words} of {value:g} for role {group['role']!r}, which is {times}"
                             f"{scale:.4g} times in the plan; expected {expected}")
    return said


def base_rates(plan: Plan, optimizer: Value) -> dict[str, float]:
    """What all groups say that the base's learning rate is: "lr", and "muon_lr" for those of Muon; raises
    ``ValueError`` where they do not say the same of it, of weight decay and of Adam's eps."""
    groups = groups_of(plan, optimizer)
    require_planned(plan.optimizer, optimizer)
    found = dict[str, float]()
    for name, muon in (("lr", False), ("muon_lr", True)):
        rate = _of_base([group for group in groups if bool(group.get("use_muon")) == muon], "lr", "a learning rate",
                        "rates of plan.set_lr(optimizer, lr), or schedules of plan.rates(optimizer, lr)")
        if rate is not None:
            found[name] = rate
    for name, words in (("weight_decay", "a weight decay"), ("eps", "an eps")):
        _of_base([group for group in groups if f"{name}_scale" in group], name, words,
                 "that of plan.groups(model, ...), or the same multiple of it in all groups")
    if not any(found.values()):
        raise ValueError("optimizer: got a learning rate of 0 in all groups, which says nothing of their factors; "
                         "expected a step at which it is positive")
    return found
