"""A plan as a document: for every pattern its powers, why they are what they are, and what was measured."""

from __future__ import annotations

from typing import Iterator

from ..tune.factors import ADAMS
from ..groups.plan import SETTINGS, PlanEntry, PowerStep
from ..ledger.catalogue import entry as ledger_entry
from ..tune.named import NAMED
from .model_plan import ModelPlan

WORDS = {"init": "initial size", "lr": "learning rate", "eps": "eps", "weight_decay": "weight decay",
         "forward": "multiplier"}
GROWING = {"L": "depth L", "n": "width n", "N": "visits N", "fan_in": "fan-in", "fan_out": "fan-out",
           "forward": "numbers of the forward pass", "head": "numbers before the head",
           "B": "batch size B", "T": "steps T"}


def design_of(plan: ModelPlan) -> str:
    """The document of a plan, in Markdown."""
    sections = [part for one in plan.entries for part in _section(plan, one)]
    return "\n\n".join([f"# {plan.title}", *_beginning(plan), *sections]) + "\n"


def _beginning(plan: ModelPlan) -> Iterator[str]:
    named = next((one for one in NAMED if one.name == plan.recipe), None)
    if named is not None:
        yield f"Recipe: {named.title}, {named.source}." + (f" Caveat: {named.caveat}." if named.caveat else "")
    yield ("Every factor multiplies what is right for the base: learning rates, eps and weight decays in groups of "
           f"{plan.optimizer}, initial sizes in the model" + (
               "; multipliers stand in the forward pass." if plan.multipliers() else "."))
    yield _table(("pattern", *WORDS.values()), [
        (f"`{one.parameter.pattern}`", *(f"{one.factor(name):.4g}" if _has(one, name) else "-" for name in WORDS))
        for one in plan.entries])
    keys = dict.fromkeys(step.key for one in plan.entries for step in one.steps if step.key and _shown(step, one))
    yield "What it rests on:\n\n" + "\n".join(f"- {ledger_entry(key).source}: {ledger_entry(key).title} [{key}]"
                                              for key in keys)
    if plan.multipliers():
        yield "In the forward pass:\n\n" + "\n".join(
            f"- what `{module or 'the model'}` returns is multiplied by {factor:.6g}"
            for module, factor in plan.multipliers().items())
    if plan.notes:
        yield "What it does not know:\n\n" + "\n".join(f"- {note}" for note in plan.notes)


def _section(plan: ModelPlan, one: PlanEntry) -> Iterator[str]:
    given = one.parameter
    yield f"## `{given.pattern}`"
    grown = ", ".join(f"{GROWING[size]} by {by:.6g}" for size, by in one.growth.items() if by != 1)
    yield (f"{given.role}, {'one a layer' if given.in_layers else 'outside of layers'}, {given.shape}, "
           f"{len(given.names)} in the target. What grows: {grown or 'nothing'}.")
    set_here = [name for name in WORDS if one.power(name) != "1" and _has(one, name)]
    yield _table(("setting", "power", "factor"), [
        (WORDS[name], one.power(name), f"{one.factor(name):.4g}") for name in set_here]) if set_here else (
            "All settings are those of the base.")
    lines = [f"{i}. {step.reason}{f' [{step.key}]' if step.key else ''}: {_shown(step, one) or 'no power'}"
             for i, step in enumerate(one.steps, start=1)]
    yield "Why, step by step; powers multiply:\n\n" + "\n".join(lines) if lines else "Why: it is left as in the base."
    claims = [] if plan.reading is None else [
        claim for claim in plan.reading.claims
        if set(claim.about.split("; ")[0].split(", ")) & {*given.names, *given.base_names}]
    yield "Measured on this model:\n\n" + ("\n".join(f"- {claim}" for claim in claims) or (
        "- nothing of it alone" if plan.reading is not None else "- nothing: the plan has no reading"))


def _has(one: PlanEntry, name: str) -> bool:
    """Does a parameter have this setting?"""
    return not (name == "eps" and one.optimizer not in ADAMS or name == "weight_decay" and not one.parameter.decays)


def _shown(step: PowerStep, one: PlanEntry) -> str:
    """What a step sets, of what grows."""
    alone = PlanEntry(one.parameter, one.optimizer, (step,), {size: by for size, by in one.growth.items() if by != 1})
    return ", ".join(f"{WORDS[name]} {alone.power(name)}" for name in SETTINGS
                     if alone.power(name) != "1" and _has(one, name))


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *rows))
