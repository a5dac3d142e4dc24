"""Powers of batch size, steps and data by which the best rate and decay move."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import sympy as sp

from .._checks import choice, exact, exponent, positive_number
from .._shown import Tabled, text_table
from .._types import Fields, Number
from ..errors import NotCovered
from ..optimizers.faithful import decay_kind
from ..optimizers.updates import RELATIVE, optimizer_name
from ..optimizers.sgd import on_sphere
from .batches import BATCH, HALF, WIDTH, batch_step, below_critical

X, U = sp.Symbol("x", real=True), sp.Symbol("u", real=True)
BELOW, ABOVE, ALL = "below the width", "above the width", "below the critical batch"


@dataclass(frozen=True)
class BatchPowers:
    """A setting goes like B^batch T^steps, of the batch size B and the number of steps T.

    at_fixed_data: its power of B where D = B T is fixed; data: its power of D where B is fixed.
    """

    batch: sp.Expr
    steps: sp.Expr

    @property
    def at_fixed_data(self) -> sp.Expr:
        return sp.expand(self.batch - self.steps)

    @property
    def data(self) -> sp.Expr:
        return self.steps


@dataclass(frozen=True)
class BatchRegion:
    """Batches of one region: where it is, and the powers of rate and decay there; None on spheres, which have none."""

    where: str
    rate: BatchPowers
    decay: BatchPowers | None


@dataclass(frozen=True, repr=False)
class TransferRule(Tabled):
    """How rate and decay move with batch size and steps; ``tp.transfer_rule`` says what is derived and what is given.

    regions: of batch sizes; assumptions: what is taken for granted.
    """

    optimizer: str
    regions: tuple[BatchRegion, ...]
    assumptions: tuple[str, ...] = field(default=())

    @property
    def rows(self) -> list[Fields]:  # type: ignore[override]
        """One dictionary a region and setting: powers of B at fixed data and at fixed steps, of T at fixed batch."""
        return [{"batches": region.where, "setting": name, "B_at_fixed_D": powers.at_fixed_data,
                 "B_at_fixed_T": powers.batch, "T_at_fixed_B": powers.steps}
                for region in self.regions for name, powers in _settings(region)]

    def __str__(self) -> str:
        return text_table(self.rows)

    __repr__ = __str__

    def factors(self, batch: Number = 1, steps: Number = 1, where: str | None = None) -> dict[str, sp.Expr]:
        """What rate and decay are multiplied by when the batch is ``batch`` times as large, the steps ``steps`` times.

        where: the region of both batches, needed where there are several. Numbers where all powers are numbers,
        expressions in the symbols of the others elsewhere. Raises ``ValueError`` for another region.
        """
        names = [region.where for region in self.regions]
        if where is None and len(names) > 1:
            raise ValueError(f"where: got None for {self.optimizer}; expected one of {', '.join(map(repr, names))}")
        found = self.regions[0 if where is None else names.index(choice("where", where, names))]
        b, t = (_times(name, value) for name, value in (("batch", batch), ("steps", steps)))
        return {name: sp.powsimp(b**powers.batch * t**powers.steps) for name, powers in _settings(found)}


def _settings(region: BatchRegion) -> list[tuple[str, BatchPowers]]:
    """The settings that a region has, by name."""
    return [("rate", region.rate)] + ([] if region.decay is None else [("decay", region.decay)])


def transfer_rule(optimizer: Any, x: Any = None, u: Any = None) -> TransferRule:
    """The powers of batch size B, steps T and data D = B T in the best rate and decay, of small steps on fresh samples.

    Below the critical batch a step is noise with a small drift. Two trainings on the same data are one where drift and
    squared noise of all steps are: that gives the power p of B in the rate at fixed data, from the direction's degree
    in the gradient, and that lr wd T is fixed with it. How the best rate falls with data, D^-x, and the share of the
    weights that decay takes in a step, lr wd ~ D^-u at a fixed batch, are the data's and the schedule's: theory gives
    neither, and they stay symbols unless you give what you measured.

    Parameters
    ----------
    optimizer:
        a name or an optimizer, with a direction that is a power of the gradient: SGD, SignSGD, Lion, Adam, AdamW,
        NormalizedSGD, Muon. Its ``weight_decay`` says of which kind the decay is; without one it is decoupled. "muonh"
        and "adamh" are Muon and Adam on Frobenius spheres, by rates relative to norms.
    x, u:
        numbers, or None for symbols. u = 1 keeps 1 / (lr wd) a fixed share of training.

    On spheres the norm that a step adds, and is taken away again, is of drift and squared noise too, so that the power
    p is the same; a decay takes nothing there.

    Raises ``NotCovered`` for Shampoo, SOAP, and directions that are no power of the gradient. Source: [tpcalc/batches].

    >>> import tpcalc as tp
    >>> tp.transfer_rule(tp.SGD()).factors(batch=2, steps=4)["rate"].simplify()
    2**(1 - 3*x)
    >>> tp.transfer_rule("adam", x=0.5, u=1).factors(batch=2, steps=4)
    {'rate': 1/2, 'decay': 1/2}
    >>> print(tp.transfer_rule("muon"))
            batches  setting  B at fixed D  B at fixed T  T at fixed B
    below the width     rate             0            -x            -x
    below the width    decay             1    -u + x + 1        -u + x
    above the width     rate           1/2       1/2 - x            -x
    above the width    decay           1/2  -u + x + 1/2        -u + x
    """
    relative = RELATIVE.get(optimizer.lower()) if isinstance(optimizer, str) else None
    name = optimizer_name(optimizer) if relative is None else optimizer.lower()
    optimizer = optimizer if relative is None else relative
    step = batch_step(optimizer, "width")
    drift, noise = below_critical(step.drift), below_critical(step.noise)
    if relative is not None:  # a step at rate 1 is its direction over the norm, which noise has
        drift, noise = drift - noise, sp.Integer(0)
    parts = {BELOW: BATCH, ABOVE: WIDTH} if step.rank != 0 else {ALL: step.rank}
    regions = {where: tuple(one.subs(step.rank, rank).coeff(BATCH) for one in (drift, noise))
               for where, rank in parts.items()}
    falls, share = X if x is None else _in_letters("x", x), U if u is None else _in_letters("u", u)
    found = []
    for where, (drift, noise) in regions.items():
        p = batch_power(drift, noise)
        rate = BatchPowers(p - falls, -falls)
        # a decay inside of SGD's gradient takes part in the rate as a decoupled one does
        takes = BatchPowers(sp.Integer(0), sp.Integer(0)) if decay_kind(optimizer) == "independent" else rate
        decay = BatchPowers(1 - share - takes.batch, -share - takes.steps)
        found.append(BatchRegion(where, rate, None if on_sphere(optimizer) else decay))
    assumed = ["batches below the critical one, whose noise is larger than their mean",
               "rates small, and memories of momentum and second moments short beside the training",
               "one schedule, stretched to the number of steps"]
    if getattr(optimizer, "eps", 0):
        assumed.append("eps far below the gradients' noise")
    if step.rank != 0:
        assumed.append("samples of a batch below the width have orthogonal inputs and gradients")
    return TransferRule(str(name), tuple(found), tuple(assumed))


def _in_letters(name: str, value: Any) -> sp.Expr:
    """A power, in which symbols called x and u are the rule's, whatever is assumed of them: u = 2 x cancels."""
    power, letters = exponent(name, value), {"x": X, "u": U}
    return power.subs({one: letters[one.name] for one in power.free_symbols if one.name in letters})


def _times(name: str, value: Number) -> sp.Expr:
    positive_number(name, value)
    return exact(name, value)


def batch_power(drift: sp.Expr, noise: sp.Expr) -> sp.Expr:
    """p: rates go like B^p at fixed data, of steps that drift by B^drift and are noise of size B^noise at rate 1.

    Drift rate T and noise^2 rate^2 T are those of other batches with T ~ 1/B. Raises ``NotCovered`` where the two ask
    for different rates.

    >>> batch_power(sp.Integer(0), -sp.Rational(1, 2))
    1
    """
    by_drift, by_noise = 1 - drift, HALF - noise
    if by_drift != by_noise:
        raise NotCovered(f"drift, noise: got powers {drift} and {noise} of the batch; no rate keeps both at fixed "
                         f"data: one asks for B^({by_drift}), the other for B^({by_noise})")
    return by_drift
