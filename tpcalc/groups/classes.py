"""Optimizers by the names of their classes: as which optimizer of plans one moves weights."""

from __future__ import annotations

import re

from .._types import Fields, Value
from ..errors import NotCovered
from ..tune.factors import SIGN

NAMES = {"SGD": "sgd", "Adam": "adam", "AdamW": "adamw", "NAdam": "adam", "RAdam": "adam", "Adamax": "adam",
         "Lion": "lion", "SOAP": "soap", "Adafactor": "adafactor"}
VARIANT = re.compile(r"^Paged|^ScheduleFree|ScheduleFree\w*$|\d+bit$|Fp8$")  # rounded states, averaged weights: one law
SAME = ({"adam", "adamw"}, {"sgd", "momentum"})  # whose groups serve for each other
NONE = ("Adadelta", "LBFGS", "Rprop")  # of torch.optim, whose steps are those of no optimizer of plans


def name_of(optimizer: Value) -> str | None:
    """The optimizer of plans that moves weights as this one, by its class and the settings of its groups; None for a
    class that is not known.

    States of 8 bits, paged ones and averaged weights (schedule-free) are those of the optimizer they are made of.
    Adafactor without scale_parameter is "lion": entries of its steps have a fixed size, and it has no eps that is felt.
    Raises ``NotCovered`` for an Adafactor whose rate is not that of its groups, or whose decay is no share of it.

    >>> class AdamW8bit:
    ...     param_groups = []
    >>> name_of(AdamW8bit()), name_of(3)
    ('adamw', None)
    """
    name = NAMES.get(VARIANT.sub("", type(optimizer).__name__))
    groups = getattr(optimizer, "param_groups", [])
    if name == "adam" and groups and all(group.get("decoupled_weight_decay") for group in groups):
        return "adamw"
    if name != "adafactor":
        return name
    if any(group.get("relative_step") for group in groups):
        raise NotCovered("optimizer: got Adafactor with relative_step=True, which makes a learning rate of its own and "
                         "reads none of its groups; expected relative_step=False")
    scaled = {bool(group.get("scale_parameter", True)) for group in groups}  # torch's has no such setting
    if len(scaled) > 1:
        raise NotCovered("optimizer: got Adafactor with scale_parameter in some groups; expected it in all or in none")
    if scaled == {False}:
        return "lion"
    if any("scale_parameter" in group and group.get("weight_decay") for group in groups):
        raise NotCovered("optimizer: got Adafactor with weight_decay and scale_parameter=True, whose decay goes with "
                         "the size of the weight; expected a weight decay of 0, or scale_parameter=False")
    return name


def name_of_group(optimizer: Value, group: Fields) -> str | None:
    """As ``name_of``, of one group: of a Muon's that has groups of AdamW beside its own these are "adamw", and
    directions of its own have a fixed size, as signs have.

    >>> class Muon:
    ...     param_groups = [{"use_muon": True}, {"use_muon": False}]
    >>> [name_of_group(Muon(), group) for group in Muon.param_groups]
    ['signsgd', 'adamw']
    """
    if "Muon" in type(optimizer).__name__:
        return SIGN if group.get("use_muon", True) else "adamw"
    return name_of(optimizer)


def begins_otherwise(optimizer: Value) -> bool:
    """Are an optimizer's first updates those of gradient descent, or none, and no ones of its own law?"""
    return type(optimizer).__name__.startswith("RAdam")


def require_planned(planned: str, optimizer: Value) -> None:
    """Raise ``ValueError`` for an optimizer that is known to move weights otherwise than that of a plan."""
    groups, title = optimizer.param_groups, type(optimizer).__name__
    for group in groups:
        mode = f"muon-{group.get('adjust_lr_fn') or 'original'}"
        if "adjust_lr_fn" in group and mode != planned:
            raise ValueError(f"optimizer: got {title} with adjust_lr_fn={group['adjust_lr_fn']!r}, and the plan is for "
                             f"{planned}; expected a plan for optimizer={mode!r}")
        if "adjust_lr_fn" in group and not group.get("use_muon"):
            raise ValueError(f"optimizer: got {title} with a group of role {group.get('role')!r}, which is AdamW's; "
                             "expected groups with use_muon")
    found, orthogonal = name_of(optimizer), any(group.get("use_muon") for group in groups)
    if "Muon" in title and not planned.startswith("muon"):
        found = "muon"
    if title in NONE:
        raise ValueError(f"optimizer: got {title}, whose steps are those of no optimizer of plans; expected one that "
                         f"moves weights as {planned} does")
    if planned.startswith("muon") and not orthogonal:  # AdamW beside it
        planned = "adamw"
    if found == "adam" and planned == "adamw" and (decays := [one["weight_decay"] for one in groups if one.get(
            "weight_decay")]):
        raise ValueError(f"optimizer: got {title} with weight_decay={decays[0]:g}, which it adds to gradients, and the "
                         "plan's factors of the decay are AdamW's; expected AdamW, or decoupled_weight_decay=True")
    if found not in (None, planned) and not any({found, planned} <= names for names in SAME):
        raise ValueError(f"optimizer: got {title}, which moves weights as {found} does, and the plan is for {planned}; "
                         f"expected a plan for optimizer={found!r}")
