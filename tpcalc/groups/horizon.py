"""A plan for another batch size and number of steps: powers of both in rate and decay, from the rule of transfer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Mapping, TypeVar

import sympy as sp

from .._checks import choice, exponent, positive_integer, short
from ..errors import NotCovered
from ..optimizers.updates import DIRECTIONS
from ..scaling import Powers
from ..scaling.parametrization import Frozen
from ..tune.factors import SIGN, is_muon, on_spheres

if TYPE_CHECKING:
    from ..horizon.transfer_rule import BatchPowers, TransferRule
    from .plan import Plan, PlanEntry, PowerStep

ALLOWED = ("batch_size", "steps", "u")
BATCHES, LENGTH = "B", "T"
HALF = sp.Rational(1, 2)
WHY = "{} steps of {} samples in the place of {} of {}: {}"
NARROW = "a batch of fewer samples than the width makes steps of as many directions, whose number stays as it grows"


@dataclass(frozen=True)
class PlanHorizon:
    """Batch sizes and steps of base and target; x, u as of ``tp.transfer_rule``, None where they were not given; data:
    do samples have a fixed number of directions, or as many as the width, None where nobody said."""

    batch_size: tuple[int, int]
    steps: tuple[int, int]
    x: sp.Expr | None
    u: sp.Expr | None
    data: str | None

    @property
    def batch(self) -> sp.Expr:
        return sp.Rational(self.batch_size[1], self.batch_size[0])

    @property
    def length(self) -> sp.Expr:
        return sp.Rational(self.steps[1], self.steps[0])

    def powers(self, name: str, found: BatchPowers) -> dict[str, sp.Expr]:
        """Powers of batch and steps in a setting; of the batch alone where the amount of data is the same, so that x
        and u cancel. Raises ``NotCovered`` for what data decide and nobody gave."""
        from ..horizon.transfer_rule import U, X  # here, since their package has compiled kernels
        hints = {X: ("x=...", "the best rate at one batch size goes like D^-x; HorizonSweep.fit() of a sweep over "
                     "steps has it"),
                 U: ("horizon=dict(..., u=...)", "what decay takes of the weights in a step goes like D^-u; u=1 keeps "
                     "it the same share of training, and does where nothing decays")}
        if self.batch * self.length == 1:
            return {BATCHES: found.at_fixed_data}
        known = {letter: value for letter, value in ((X, self.x), (U, self.u)) if value is not None}
        powers = {BATCHES: sp.expand(found.batch.subs(known)), LENGTH: sp.expand(found.steps.subs(known))}
        for letter, (given, hint) in hints.items():
            if any(letter in power.free_symbols for power in powers.values()):
                more = float(self.batch * self.length)
                raise NotCovered(f"{letter}: needed for the {name}, which {more:.6g} times the data move as a power "
                                 f"that data and schedule decide; expected {given}: {hint}")
        return powers


def plan_horizon(horizon: Mapping[str, Any] | None, x: Any = None, data: str | None = None) -> PlanHorizon | None:
    """What ``plan`` was given, checked; None without a horizon.

    >>> plan_horizon(dict(batch_size=(512, 1024), steps=(10_000, 5_000))).length
    1/2
    """
    if data is not None:
        choice("data", data, DIRECTIONS)
    if horizon is None:
        if x is not None:
            raise ValueError(f"x: got {short(x)} without a horizon; expected horizon=dict(batch_size=..., steps=...)")
        return None
    if not isinstance(horizon, Mapping) or not set(horizon) <= set(ALLOWED) or not set(horizon) - {"u"}:
        raise ValueError(f"horizon: got {short(horizon)}; expected a dictionary of batch_size or steps, or both, pairs "
                         "of base and target, and perhaps u")
    pairs = {}
    for name in ("batch_size", "steps"):
        pair = horizon.get(name, (1, 1))
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(f"horizon: got {name} {short(pair)}; expected a pair, of base and target")
        pairs[name] = tuple(positive_integer(f"horizon: {name}", one) for one in pair)
    u = horizon.get("u")
    powers = {name: None if value is None else exponent(name, value) for name, value in (("x", x), ("u", u))}
    for name, power in powers.items():
        if power is not None and power.free_symbols:
            raise ValueError(f"{name}: got {power}; expected a number, of which a plan has factors")
    return PlanHorizon(**pairs, **powers, data=data)  # type: ignore[arg-type]


P = TypeVar("P", bound="Plan")


def with_horizon(plan: P, horizon: PlanHorizon | None) -> P:
    """The plan with powers of batch size B and steps T in rates and decays; what is known of them in its notes.

    Raises ``NotCovered`` where x, u or ``data`` are needed and were not given, for SOAP, and for Muon between two
    batches of which one is below the least dimension of a matrix and one above, or both above one that grows, and for
    kernels and stacks of matrices where the rank of gradients is asked for.
    """
    if horizon is None:
        return plan
    from ..horizon.transfer_rule import BELOW
    from .plan import PowerStep
    entries, said = [], dict[str, None]()
    for entry in plan.entries:
        rule, where = _rule(plan.optimizer, entry, horizon)
        region = next(one for one in rule.regions if one.where == where)
        decays = region.decay is not None and entry.parameter.decays and plan.optimizer not in ("adam", "adafactor")
        powers = Powers(lr=horizon.powers("rate", region.rate), decay=horizon.powers(
            "decay", region.decay) if decays and region.decay is not None else None)
        steps = [_step(horizon, where, powers)]
        if where == BELOW and on_spheres(plan.optimizer) and "n" in entry.growth:
            steps.append(PowerStep(NARROW, "", Powers(lr={"n": -HALF})))  # without batches the rank is taken to grow
        growth = {BATCHES: float(horizon.batch), LENGTH: float(horizon.length)}
        entries.append(replace(entry, steps=(*entry.steps, *steps), growth=Frozen({**entry.growth, **growth})))
        said.update(dict.fromkeys(rule.assumptions))
    return replace(plan, entries=tuple(entries), notes=(*plan.notes, f"batch and steps: {'; '.join(said)}"))


def _step(horizon: PlanHorizon, where: str, powers: Powers) -> PowerStep:
    from .plan import PowerStep
    (old_batch, batch), (old_steps, steps) = horizon.batch_size, horizon.steps
    return PowerStep(WHY.format(steps, batch, old_steps, old_batch, where), "", powers)


def _rule(optimizer: str, entry: PlanEntry, horizon: PlanHorizon) -> tuple[TransferRule, str]:
    """The rule for a parameter, and the region that both batches are in."""
    from ..horizon.transfer_rule import ABOVE, ALL, BELOW, transfer_rule
    orthogonal = is_muon(optimizer) and entry.optimizer == SIGN
    if on_spheres(optimizer) and entry.optimizer == SIGN:
        rule = transfer_rule(optimizer, horizon.x, horizon.u)
    else:
        one = "muon" if orthogonal else "soap" if optimizer == "soap" else entry.optimizer
        rule = transfer_rule(one, horizon.x, horizon.u)
    if not orthogonal:
        return rule, ALL
    pattern = entry.parameter.pattern
    if horizon.data is None:
        raise NotCovered(f"data: needed for {pattern}, whose rate moves with the batch by the rank of its gradient; "
                         "expected data='fixed', samples of a fixed number of directions, or 'width', as many as the "
                         "width, so that a batch has as many as it has samples, or tokens")
    if horizon.data == "fixed":
        return rule, ABOVE
    if len(entry.parameter.shape) > 2:
        raise NotCovered(f"horizon: got {pattern} of shape {entry.parameter.shape} with data='width'; kernels meet "
                         "more samples than a batch has, and of stacks of matrices each may meet fewer, so that the "
                         "rank of their gradients is not known; expected matrices, or data='fixed'")
    least = _least(entry)
    if all(size <= width for size, width in zip(horizon.batch_size, least)):
        return rule, BELOW
    above = all(size >= width for size, width in zip(horizon.batch_size, least))
    if above and least[0] == least[1]:
        return rule, ABOVE
    if above:
        raise NotCovered(f"horizon: got batch sizes {horizon.batch_size[0]} and {horizon.batch_size[1]}, above the "
                         f"least dimension of {pattern}, {least[0]} in the base and {least[1]} in the target: Muon's "
                         "rate goes with the batch over the width there, and how noise goes with the width is not "
                         "known; expected batches below it, or one width")
    wide = str(least[1]) if least[0] == least[1] else f"{least[0]} in the base and {least[1]} in the target"
    raise NotCovered(f"horizon: got batch sizes {horizon.batch_size[0]} and {horizon.batch_size[1]} with {pattern}, "
                     f"whose least dimension is {wide}: Muon's rate moves like B^0 below and B^(1/2) above it, and "
                     f"what it does in between is not known; expected two batches below {wide} or two above")


def _least(entry: PlanEntry) -> tuple[int, int]:
    """The least dimension of a matrix in base and target."""
    one = entry.parameter
    grows = one.grows or (False,) * len(one.shape)
    return min(round(size / one.width) if wide else size for size, wide in zip(one.shape, grows)), min(one.shape)
