"""What many steps on batches of fresh samples add up to: powers of batch size and steps beside those of n and L."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Iterator, Mapping

import sympy as sp

from .._checks import exponent, short
from .._shown import Short, Tabled, text_table
from .._types import Fields, Number
from ..errors import NotCovered
from ..horizon.batches import BATCH, DECAY, HALF, SIGNAL, STEPS, WIDTH, BatchStep, batch_step
from ..horizon.transfer_rule import ABOVE, BELOW
from ..optimizers.updates import finite_batches
from ..optimizers.sgd import on_sphere
from ..orders import Affine, Region
from ..orders.pieces import divided, pieces
from .counted import Judged
from .verdict import SAMPLE, SHARE, Verdict
from .network_sizes import UNDECIDED

LETTERS = (BATCH, STEPS, WIDTH, SIGNAL, DECAY)
CHANGES = ("change of f", "change of x", "change of h")
LEARNED, FORGETTING, TRAINING, CHANGED = "learned", "forgetting", "training", "changed"
MEANS = ("B = L^b samples a batch, T = L^t steps, width L^n",
         "a sample's gradient has a mean L^s beside its noise, which data decide",
         "a decay takes L^w of the weights in a step, which you choose")
FRESH = ("samples are fresh and independent, and their gradients as large as that of the one that is counted; the mean "
         "is that of outputs away from their targets by order one, and falls as they come near")
FEW = "samples have a fixed number of directions: a batch has a gradient of fixed rank"
ALONE = ("steps add up while the network is the same to order one; regimes that are changed have powers of the steps "
         "until then, and what comes later feeds on itself, and is not counted")
MANY = ("samples have as many orthogonal inputs and gradients as the width: a batch has rank min(B, n), and noise "
        "reaches an input by what it overlaps with")


@dataclass(frozen=True, repr=False)
class HorizonRegime(Short):
    """A region of batch sizes and steps: powers of what T steps change in f by drift, and by noise, and where it is.

    name: which of the two is larger; "training" where all steps add up, "learned" where outputs have come near their
    targets, "forgetting" where weights remember fewer steps than T, "changed" where drift or noise has changed the
    network by order one before, with the powers of the steps until then; whether a batch is below or above the critical
    one, and of directions of whole matrices below or above the width.
    """

    name: str
    where: tuple[sp.Expr, ...]
    drift: sp.Expr
    noise: sp.Expr
    region: Region


@dataclass(frozen=True, repr=False)
class HorizonVerdict(Tabled, Short):
    """Powers of the depth that training has on batches and over steps; ``tp.classify(..., batch_size=, steps=)``.

    drift, noise: of what T steps change in f; L^window steps add up. after: by what happens, after how many steps it is
    of order one, a power of L; 0 is after a fixed number; nothing of what other changes overtake. Letters that were not
    given stay: b of batch size, t of steps, n of the width, s of a sample's mean gradient over its noise, w of the
    share of weights that decay takes in a step. ``regimes`` cuts the space of the letters; ``at`` has numbers.
    assumptions: in sentences. windows: what the window is the least of; step: a batch's, beside what one sample does.

    >>> import tpcalc as tp
    >>> found = tp.classify(1, 0, opt=tp.Adam(), batch_size="1/2").horizon
    >>> for what, steps in found.after.items():
    ...     print(f"{what}: L^({steps})")
    drift of f: L^(Max(0, -s + Max(-1/4, s)))
    drift of x: L^(Max(0, -s + Max(-1/4, s)))
    drift of h: L^(Max(0, -s + Max(-1/4, s)))
    noise of f: L^(Max(0, 2*Max(-1/4, s) + 1/2))
    noise of x: L^(Max(0, 2*Max(-1/4, s) + 1/2))
    noise of h: L^(Max(0, 2*Max(-1/4, s) + 1/2))
    memory of moments: L^(0)
    """

    drift: sp.Expr
    noise: sp.Expr
    window: sp.Expr
    after: dict[str, sp.Expr]
    assumptions: tuple[str, ...]
    windows: dict[str, sp.Expr]
    step: BatchStep

    @property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        """The letters that are left, those of batch size and steps first."""
        sizes = (self.drift, self.noise, *self.windows.values(), *self.after.values())
        found = set().union(*(one.free_symbols for one in sizes))
        order = {letter: k for k, letter in enumerate(LETTERS)}
        return tuple(sorted(found, key=lambda one: (order.get(one, -1), str(one))))

    @cached_property
    def regimes(self) -> tuple[HorizonRegime, ...]:
        """The regions on which drift and noise are single powers, as few as join in pairs; they cover all, and do not
        overlap."""
        found: list[HorizonRegime] = []
        for one in self._regimes():
            while pair := next(((other, both) for other in found if (both := self._joined(other, one))), None):
                found.remove(pair[0])
                one = pair[1]
            found.append(one)
        return tuple(found)

    def _joined(self, one: HorizonRegime, other: HorizonRegime) -> HorizonRegime | None:
        """Two regimes of one name as one where they touch, with powers that hold on both; None elsewhere."""
        if one.name != other.name:
            return None
        letters = self.parameters
        for powers, elsewhere in ((one, other), (other, one)):
            differences = (powers.drift - elsewhere.drift, powers.noise - elsewhere.noise)
            if all(elsewhere.region.sign(Affine.of(power, letters)) == "=" for power in differences):
                region = one.region.joined(other.region)
                return None if region is None else HorizonRegime(one.name, _where(region, letters), powers.drift,
                                                                 powers.noise, region)
        return None

    def _regimes(self) -> Iterator[HorizonRegime]:
        letters = self.parameters
        region = Region(len(letters))
        for one in letters:  # a mean is no larger than a sample's gradient, and what decays is no more than all
            region = region.where(Affine.of(one, letters), "<=" if one in (SIGNAL, DECAY) else ">=")
        given = [self.step.rank, self.step.critical, self.drift - self.window, self.noise - self.window * HALF]
        for part, found in pieces([*given, *self.windows.values()], region, letters):
            rank, critical, drift, noise, *windows = found
            width = "" if self.step.rank == 0 else ABOVE if rank == -self.step.seen else BELOW
            for above, batch in divided(part, Affine.of(critical, letters)):
                for kind, window, inside in _least(dict(zip(self.windows, windows)), batch, letters):
                    total = sp.expand(drift + window), sp.expand(noise + window * HALF)
                    for signal, last in divided(inside, Affine.of(total[0] - total[1], letters)):
                        name = ", ".join(filter(None, (
                            "signal" if signal else "noise", kind,
                            f"{'above' if above else 'below'} the critical batch", width)))
                        yield HorizonRegime(name, _where(last, letters), *total, last)

    def at(self, **powers: Number) -> HorizonRegime:
        """The regime at numbers for all letters that are left, by name; raises ``ValueError`` for others, or fewer."""
        letters = {str(one): one for one in self.parameters}
        if set(powers) != set(letters):
            raise ValueError(f"powers: got {', '.join(sorted(powers)) or 'none'}; expected "
                             f"{', '.join(letters) or 'none'}")
        values = [exponent(name, powers[name]) for name in letters]
        for name, value in zip(letters, values):
            if value.free_symbols:
                raise ValueError(f"{name}: got {value}; expected a number, since regimes are told apart by numbers")
        found = next((one for one in self.regimes if one.region.contains(values)), None)
        if found is None:
            raise ValueError(f"powers: got {powers}; expected s and w of at most 0, the others of at least 0")
        there = dict(zip(letters.values(), values))
        return HorizonRegime(found.name, found.where, found.drift.subs(there), found.noise.subs(there), found.region)

    @property
    def rows(self) -> list[Fields]:  # type: ignore[override]
        """One dictionary a regime: its name, where it is, and powers of drift and noise."""
        return [{"regime": one.name, "where": ", ".join(map(str, one.where)), "drift": one.drift, "noise": one.noise}
                for one in self.regimes]

    def __str__(self) -> str:
        after = [f"{what} is of order one after L^({steps}) steps" for what, steps in self.after.items()]
        return "\n".join([text_table(self.rows), *after, f"assumed: {'; '.join(self.assumptions)}"])


def judge_horizon(found: Verdict, net: Judged, opt: Any, batch_size: Any, steps: Any, data: str) -> HorizonVerdict:
    """What many steps add up to, each of which does on one sample what a verdict says.

    A batch's step is drift and noise (``batch_step``) in proportion to that. Of steps in a window theta drift adds up
    to L^theta times one, noise to its root. The window is all steps, or those that weights remember, or those after
    which outputs have come near their targets.

    What has changed by order one changes the next gradients, which is a loop over steps: of two matrices in a row each
    is the other's, and grows exponentially by gradient descent. So the window ends there too, and of what would take
    longer nothing is said. With one plain matrix in every layer the stream is in the loop, elsewhere what matrices make
    in a layer as well. Raises ``NotCovered`` where one step is not stable or changes nothing.
    """
    given = {BATCH: _power("batch_size", batch_size, BATCH), STEPS: _power("steps", steps, STEPS)}
    moved = {name: found.exponents.get(name, sp.oo) for name in CHANGES}
    if "change of f" in found.bounds or not moved["change of f"].is_finite or moved["change of f"] > 0:
        raise NotCovered(f"batch_size, steps: got {found.where}, {found.name}; what many steps add up to is counted "
                         "where one step changes outputs by a known power of at most order one")
    step = batch_step(opt, data)
    finite = {name[len("change of "):]: power for name, power in moved.items() if power.is_finite}
    fastest = max(power for name, power in finite.items() if name != "h" or not net.is_plain)
    per_step = {name: power for name, power in finite.items()
                if power >= fastest and f"change of {name}" not in found.bounds}
    after = {f"drift of {name}": _at_least_one(-(power + step.drift)) for name, power in per_step.items()}
    after.update({f"noise of {name}": _at_least_one(-2 * (power + step.noise_in_outputs))
                  for name, power in per_step.items()})
    decays = bool(getattr(opt, "weight_decay", 0))
    forgets = [-DECAY] * decays
    if decays:
        after["decay"] = -DECAY
    for name, one in found.matrices.items() if on_sphere(opt) else ():
        if one.name == UNDECIDED:
            raise NotCovered(f"opt: got {short(opt)}; of what updates of {name} do in a layer a bound alone is known")
        # |U|^2 / R^2 is L^(2 size - n), once a step where updates are independent, T^2 of it where they add up
        noise, drift = WIDTH - 2 * (one.update + step.noise), HALF * WIDTH - one.update - step.drift
        after[f"projection of {name}"] = _at_least_one(sp.Min(noise, drift))
        forgets.append(_at_least_one(noise))
    if any(getattr(opt, name, 0) for name in ("momentum", "beta1", "beta2")):
        after["memory of moments"] = sp.Integer(0)
    windows = {TRAINING: STEPS}
    if "f" in per_step:
        windows[LEARNED] = after["drift of f"]
    if forgets:
        windows[FORGETTING] = sp.Min(*forgets)
    windows[CHANGED] = sp.Min(_at_least_one(-(fastest + step.drift)), _at_least_one(-2 * (
        fastest + step.noise_in_outputs)))
    window = sp.Min(*windows.values())
    drift = finite["f"] + step.drift + window
    noise = finite["f"] + step.noise_in_outputs + window * HALF
    put = {letter: power for letter, power in given.items() if power != letter}
    assumed = (*MEANS, FRESH, ALONE, FEW if data == "fixed" else MANY, *(
        one for one in found.assumptions if one not in (SAMPLE, SHARE, *(
            finite_batches(opt) if data == "width" else ()))))
    return HorizonVerdict(
        drift=drift.subs(put), noise=noise.subs(put), window=window.subs(put),
        after={what: one.subs(put) for what, one in after.items()}, assumptions=assumed,
        windows={kind: one.subs(put) for kind, one in windows.items()},
        step=BatchStep(**{name: one.subs(put) for name, one in vars(step).items()}))


def _power(name: str, value: Any, letter: sp.Symbol) -> sp.Expr:
    """A power of at least 0, or a symbol, which stands for one."""
    if value is None:
        return letter
    if isinstance(value, sp.Symbol):
        if value in LETTERS and value != letter or str(value) in {str(one) for one in LETTERS} - {str(letter)}:
            raise ValueError(f"{name}: got {value}, which stands for another size; expected another letter")
        if value.is_nonnegative is False:
            raise ValueError(f"{name}: got the symbol {value}, which stands for no number of at least 0; expected one "
                             "that may")
        return letter if str(value) == str(letter) else value
    power = exponent(name, value)
    if not power.is_Rational or power < 0:
        raise ValueError(f"{name}: got {short(value)}; expected the power of L, a rational number of at least 0, or a "
                         "symbol")
    return power


def _at_least_one(power: sp.Expr) -> sp.Expr:
    """Nothing happens after less than one step."""
    return sp.Max(0, power)


def _where(region: Region, letters: tuple[sp.Symbol, ...]) -> tuple[sp.Expr, ...]:
    """Its equations and inequalities, without what the letters' own signs say."""
    return tuple(one for one in region.expressions(letters) if one != sp.true)


def _least(windows: Mapping[str, sp.Expr], region: Region, letters: tuple[sp.Symbol, ...]
           ) -> Iterator[tuple[str, sp.Expr, Region]]:
    """The parts of a region on which one of the windows is the least, the first of those that are equal."""
    names = list(windows)
    for k, name in enumerate(names):
        part = region
        for j, other in enumerate(names):
            if j != k:
                part = part.where(Affine.of(windows[other] - windows[name], letters), ">" if j < k else ">=")
        if not part.is_empty:
            yield name, windows[name], part
