"""Measured powers held against those of a recipe, or against a verdict: what differs is a finding."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Callable, Iterator, Mapping

import sympy as sp

from ..verdicts import classify
from ..verdicts.advice import BEST
from ..verdicts.crossover import crossover
from ..tune.factors import SIGN, gradient_degree, layer_settings, name_in, owns_of, settable
from ..scaling import Scaling
from ..training.settings import Settings
from ..tune.visited_recipe import solved_powers
from ..verdicts.visits import classify_visits
from .findings import UNKNOWN, Finding, Power, branch_cause, fitted, update_cause
from .live_layers import AXES, LayerGroup
from .measuring import AS_HEAD, EVERYWHERE, Script, Sizes, first_update

TOLERANCE = 0.2   # of measured powers; exponents that people set differ by 1/2
EXACTLY = 0.02    # of powers that are read from groups
FELT = 0.03       # eps beside the root mean square of a gradient, from which on it is felt
STEPS = {"L": 2, "N": 4}  # measured exponents are read as multiples of 1/2, or 1/4, where a verdict is asked for
UNSEEN = Fraction(-1)  # power of what branches add that start at zero, where a verdict is asked for
SEEDS, CONFIRMED = 3, 12  # initializations; findings are of as many as the second
Found = tuple[list[Finding], dict[tuple[str, str], Power], list[str]]


@dataclass(frozen=True)
class ExpectedPowers:
    """Powers of the depth that a recipe has for parameters of layers that do what ``matrix`` does in its block."""

    given: Settings
    matrix: str

    @property
    def branch(self) -> float:
        """The power of what a branch adds."""
        return -float(self.given.alpha)

    @property
    def update(self) -> float:
        """The power of what one update of a layer changes in the stream, while eps is not felt."""
        bare = self.given.without_eps.without_decay
        return -float(bare.alpha + bare.gamma(self.matrix))

    @property
    def over(self) -> float | None:
        """The power of eps beside gradients, None where there is no eps, and where gradients go like no power of the
        depth, for the stream grows before training."""
        eps = self.given.eps(self.matrix)
        if eps is None or self.given.alpha < BEST.alpha:
            return None
        return float(eps - self.given.gradient_power(self.matrix))

    @property
    def share(self) -> float | None:
        """The power of the learning rate times the weight decay, None without one."""
        decay = self.given.decay_of(self.matrix)
        return None if decay is None else float(self.given.of(self.matrix, "lr") + decay)


@dataclass(frozen=True)
class ExpectedOfVisits(ExpectedPowers):
    """Powers of the number of visits; branches, lr: those that are set; degree: of the optimizer's direction."""

    branches: float
    lr: float
    degree: float

    @property
    def branch(self) -> float:
        return self.branches

    @property
    def gradient(self) -> float:
        """The power of a gradient, a sum over visits with each a branch's multiplier."""
        return 1 + self.branches

    @property
    def update(self) -> float:
        """The power of what one update changes in the stream at one visit."""
        return self.branches + self.lr + self.degree * self.gradient

    @property
    def over(self) -> float | None:
        return None if self.given.eps(self.matrix) is None else -self.gradient

    @property
    def share(self) -> float | None:
        return None if self.given.decay_of(self.matrix) is None else 0.0


class Measure:
    """A script to measure."""

    def __init__(self, script: Script) -> None:
        self.script, self.live = script, script.live
        self.axis = AXES[self.live.grows]

    def confirmed(self, sizes: list[int], configs: list[dict[str, object]],
                  judge: Callable[[dict[tuple[str, str], Power], list[list[Sizes]]], Found]) -> Found:
        """What ``judge`` says of the power of every quantity and of sizes, a list a seed. Where it finds something in
        few of them as if they had no error, it is asked again about more, with their errors."""
        runs: list[list[Sizes]] = []
        for seeds in (SEEDS, CONFIRMED):
            runs += [[first_update(self.script, config, seed) for config in configs]
                     for seed in range(len(runs), seeds)]
            keys = {key: None for run in runs for one in run for key in one}
            powers = {key: fitted(self._grown(sizes, key[1], runs[0]), [
                [one.get(key, math.nan) for one in run] for run in runs]) for key in keys}
            if seeds == CONFIRMED or not judge({key: replace(one, error=0.0) for key, one in powers.items()}, runs)[0]:
                break
        return judge(powers, runs)

    def _grown(self, sizes: list[int], pattern: str, run: list[Sizes]) -> list[int]:
        """What grows of a pattern: how many layers its stream has, of which some may not grow in number; else what make
        is given."""
        counts = [int(one.get(("layers", pattern), 0)) for one in run]
        return counts if self.live.grows == "L" and 0 < counts[0] and counts == sorted(set(counts)) else sizes

    def of_depth(self, sizes: list[int], configs: list[dict[str, object]], recipe: str | Scaling | None) -> Found:
        """Findings about the depth."""
        return self.confirmed(sizes, configs, lambda powers, runs: self._of_depth(sizes, powers, runs, recipe))

    def _of_depth(self, sizes: list[int], powers: dict[tuple[str, str], Power], runs: list[list[Sizes]],
                  recipe: str | Scaling | None) -> Found:
        groups = {group.pattern: group for group in self.live.groups.values()}
        groups |= {p + AS_HEAD: LayerGroup(p + AS_HEAD, False, False, False) for p in groups}
        patterns = [pattern for pattern in dict.fromkeys(pattern for _, pattern in powers) if pattern in groups]
        deepest = [run[-1] for run in runs]
        degree = {p: _average(deepest, "degree", p) for p in patterns}
        given = {p: None if recipe is None else self._expected(p.removesuffix(AS_HEAD), groups[p].ends, recipe, degree)
                 for p in patterns}
        found, left = list(self._blown_up(runs, sizes)), [
            f"{name}: several layers use it, and what one of them changes is not measured"
            for name in sorted(self.live.unlike_matrices(self.live.large))]
        shares = [(p, skip) for (q, p), skip in powers.items() if q == "skip" and skip.is_known and skip.differs(
            0, TOLERANCE)]
        found += [Finding.of(p, f"share of the stream behind a layer, power of {self.axis}", skip, 0.0,
                             "the multiplier is on the skip connection, not on the branch") for p, skip in shares]
        inside = {p: groups[p].in_layers for p in patterns}
        powers = {**powers, **{(q, p): one for p in patterns for q, one in _freed(p, powers, degree[p], given[p])}}
        off = {p: powers["update", p].value - self._expected_update(inside[p], given[p]) for p in patterns
               if ("update", p) in powers and powers["update", p].is_known}
        whole = all(abs(one) > TOLERANCE for p, one in off.items() if inside[p])
        for p in patterns:
            branch = _between(powers, "branch", p, 1.0)
            update = _between(powers, "update", p, 1.0 + degree[p])
            if _average(deepest, "dimensions", p) < 2:  # a vector after the stream does not grow with it
                update = _of_outputs(p, update, powers, deepest)
            if ("left out", p) in powers:
                left_out = "it has a gradient and is in no group of the optimizer: nothing trains it"
                if given[p] is None:
                    left.append(f"{p}: {left_out}")
                else:
                    found.append(Finding.of(p, "update", UNKNOWN, None, f"{left_out}; where that is meant, "
                                            "requires_grad=False says so"))
            elif not update.is_known:
                left.append(f"{p}: no update at the first step, or a gradient of zero")
            if groups[p].on_stream:  # it adds nothing: it multiplies what is there
                branch = UNKNOWN
            elif inside[p] and not branch.is_known and ("left out", p) not in powers:
                left.append(f"{p}: what it adds at initialization, since it, or what is behind it, starts at zero")
            expected = given[p]
            if expected is None:
                for one in self._against_verdict(p, inside[p], branch, update, whole, bool(shares)):
                    if one.is_certain(TOLERANCE):
                        found.append(one)
                    else:
                        left.append(f"{p}: {one.quantity} {one.measured:+.2f} +- {one.error:.2f}, which is not told "
                                    f"from {one.expected:+.2g}")
                found += self._eps(p, powers, deepest, inside[p], None, sizes[-1])
                if ("eps", p) in powers and math.isnan(_average(deepest, "entry", p)):
                    left.append(f"{p}: whether eps is felt, beside gradients that start at zero")
            else:
                found += self._against(p, inside[p], branch, update, expected, whole, bool(shares), deepest)
                found += self._eps(p, powers, deepest, inside[p], expected, sizes[-1])
                found += self._decay(p, powers, inside[p], expected)
        if not any(powers.get(("update", p), UNKNOWN).is_known for p in patterns if inside[p]) and not found:
            found.append(Finding.of(self.live.name, "update of layers", UNKNOWN, None, "no gradient reaches any layer, "
                                    "or no update: is the multiplier zero, or not initialized?"))
        if recipe is None:
            kept = [powers["update", p] for p in patterns if inside[p] and ("update", p) in powers]
            if kept and all(one.is_known and one.value < -1 - TOLERANCE for one in kept):
                best = max(kept, key=lambda one: one.value)
                found.append(Finding.of(self.live.name, self.update, best, -1.0, "updates of all layers together "
                                        f"vanish with {self.axis}: layers stay as they began"))
        size = "depth" if self.live.grows == "L" else "visits"
        return found, {(f"{size} {q}", p): one for (q, p), one in powers.items()}, left

    def _expected(self, pattern: str, ends: bool, recipe: str | Scaling, degree: Mapping[str, float]) -> ExpectedPowers:
        """The recipe's powers with the optimizer that moves a pattern's parameters: by its class, or by the degree of
        the steps of all parameters that optimizers of unknown classes move."""
        script = self.script
        own = script.names.get(pattern)
        if own is None:
            alike = [one for p, one in degree.items() if script.names.get(p.removesuffix(AS_HEAD)) is None]
            own = "sgd" if _middle(alike) > 0.5 else SIGN
        return expected_of(recipe, script.optimizer_name or own, script.optimizer_name is not None, self.live.grows,
                           own)[ends]

    @property
    def branch(self) -> str:
        return f"branch, power of {self.axis}"

    @property
    def update(self) -> str:
        return f"update, power of {self.axis}"

    def _expected_update(self, inside: bool, given: ExpectedPowers | None) -> float:
        if not inside:
            return 0.0
        return -1.0 if given is None else given.update

    def _against(self, p: str, inside: bool, branch: Power, update: Power, given: ExpectedPowers, whole: bool,
                 skipped: bool, deepest: list[Sizes]) -> list[Finding]:
        found = []
        expected = given.branch
        if inside and branch.is_known and branch.differs(expected, TOLERANCE):
            normalized = _average(deepest, "invariance", p) < 1e-3
            found.append(Finding.of(p, self.branch, branch, expected,
                                    branch_cause(branch.value, expected, normalized, skipped)))
        expected = self._expected_update(inside, given)
        tolerance = TOLERANCE * (1 + _average(deepest, "degree", p) / 2)  # gradients enter twice where updates grow so
        if _average(deepest, "dimensions", p) < 2:
            tolerance *= 1.25  # of vectors there are fewer entries to measure
        if update.is_known and update.differs(expected, tolerance):
            found.append(Finding.of(p, self.update, update, expected,
                                    update_cause(inside, update.value, expected, whole, self.axis)))
        return found

    def _against_verdict(self, p: str, inside: bool, branch: Power, update: Power, whole: bool,
                         skipped: bool) -> list[Finding]:
        """What ``classify`` says about the measured pair of exponents, read as multiples of 1/2."""
        if not update.is_known:
            return []
        if not inside:
            return [] if update.value <= TOLERANCE else [
                Finding.of(p, self.update, update, 0.0, update_cause(False, update.value, 0.0, whole, self.axis))]
        steps = STEPS[self.live.grows]
        together = Fraction(round(-steps * update.value), steps)
        alpha = Fraction(round(-steps * branch.value), steps) if branch.is_known else -UNSEEN
        starts, stays, largest = self._verdict(alpha, together - alpha)
        if not starts:
            return [Finding.of(p, self.branch, branch, largest, branch_cause(branch.value, largest, False, skipped))]
        if stays is False:
            return [Finding.of(p, self.update, update, -1.0, update_cause(True, update.value, -1.0, whole, self.axis))]
        return []

    def _verdict(self, alpha: Fraction, gamma: Fraction) -> tuple[bool | None, bool | None, float]:
        """Are the stream at initialization, and outputs in training, stable? And the largest power of branches."""
        if self.live.grows == "L":
            verdict = classify(alpha, gamma)
            return verdict.stable_at_init, verdict.output_stable, -0.5
        again = classify_visits(alpha, gamma, opt="signsgd")
        return again.stable_at_init, again.stable, -1.0

    def _raw(self, gradient: Power) -> Power:
        """The power of a gradient that is a sum over visits, of that at one of them."""
        return replace(gradient, value=gradient.value + (self.live.grows == "N"))

    def _eps(self, p: str, powers: dict[tuple[str, str], Power], deepest: list[Sizes], inside: bool,
             given: ExpectedPowers | None, depth: float) -> list[Finding]:
        eps, gradient = powers.get(("eps", p)), powers.get(("gradient", p))
        if eps is None or gradient is None or not eps.is_known or not gradient.is_known:
            return []
        expected = 0.0 if given is None else given.over
        if expected is None:
            return []
        felt = _average(deepest, "eps", p) > FELT * _average(deepest, "entry", p)
        allowed = max(0.0, expected)
        gradient = self._raw(gradient) if inside else gradient
        over = Power(eps.value - gradient.value, gradient.error)
        if over.value <= allowed or not over.differs(allowed, TOLERANCE) or given is None and not felt:
            return []
        size, entry = _average(deepest, "eps", p), _average(deepest, "entry", p)
        power = sp.Rational(str(round(over.value, 2)))
        there = None if math.isnan(entry) else crossover(
            {"depth": depth, "width": 1.0, "eps": size, "gradient": entry}, sp.Integer(0), power)
        return [Finding.of(p, f"eps over gradients, power of {self.axis}", over, allowed,
                           "eps is left as it is, or scaled less than gradients are: it takes over as "
                           f"{self.axis} grows"
                           + (f", from {there:.3g} on at this power" if there is not None else ""))]

    def _decay(self, p: str, powers: dict[tuple[str, str], Power], inside: bool,
               given: ExpectedPowers) -> list[Finding]:
        """The share of a weight that one step's decay takes: learning rate times decay."""
        rate, decay = powers.get(("lr", p)), powers.get(("decay", p))
        if rate is None or decay is None or not decay.is_known:
            return []
        if given.given.optimizer == "adam":
            return self._coupled(p, decay, inside, powers)
        share = Power(rate.value + decay.value, 0.0)
        wanted = given.share
        expected = wanted if inside and wanted is not None else 0.0
        if not inside and wanted is None or not share.differs(expected, EXACTLY):
            return []
        return [Finding.of(p, f"decay a step, power of {self.axis}", share, expected, "weight decay is left as it is "
                           f"while the learning rate goes with {self.axis}, or the other way")]

    def _coupled(self, p: str, decay: Power, inside: bool,
                 powers: dict[tuple[str, str], Power]) -> list[Finding]:
        """Adam adds the decay times the weight to gradients: beside them it is not to grow."""
        init, gradient = (powers.get((q, p), UNKNOWN) for q in ("init", "gradient"))
        gradient = self._raw(gradient) if inside else gradient
        over = Power(decay.value + init.value - gradient.value, math.hypot(init.error, gradient.error))
        if not over.is_known or over.value <= 0 or not over.differs(0.0, TOLERANCE):
            return []
        return [Finding.of(p, f"decay over gradients, power of {self.axis}", over, 0.0, "weight decay is added to "
                           "gradients, with factors of one that is not (AdamW), or none: it takes over")]

    def of_width(self, sizes: list[int], configs: list[dict[str, object]]) -> Found:
        """Findings about the width: updates are to change outputs by as much at any width."""
        return self.confirmed(sizes, configs, lambda powers, runs: self._of_width(sizes, powers, runs))

    def _of_width(self, sizes: list[int], powers: dict[tuple[str, str], Power], runs: list[list[Sizes]]) -> Found:
        found, left = list(self._blown_up(runs, sizes)), []
        for (quantity, p), power in list(powers.items()):
            if quantity == "update":  # outputs may begin small, but not move so; their number does not grow
                power = _of_outputs(p, power, powers, [run[-1] for run in runs])
            if quantity == "update" and power.is_known and power.differs(0.0, TOLERANCE):
                found.append(Finding.of(p, "update, power of the width", power, 0.0,
                                        "its learning rate or initial size does not go with the width as muP's does"))
            elif quantity == "update" and not power.is_known:
                left.append(f"{p}: no update at the first step of some width")
        return found, {(f"width {q}", p): one for (q, p), one in powers.items()}, left

    def _blown_up(self, runs: list[list[Sizes]], sizes: list[int]) -> list[Finding]:
        for run in runs:
            for size, one in zip(sizes, run):
                if not all(math.isfinite(value) for (q, _), value in one.items() if q in ("loss", "growth")):
                    return [Finding.of(EVERYWHERE, f"loss at size {size}", UNKNOWN, None, "values are not finite: "
                                       "something is not initialized, or branches are too large")]
        return []


def expected_of(name: str | Scaling, optimizer: str, known: bool = True, grows: str = "L", own: str | None = None
                ) -> dict[bool, ExpectedPowers]:
    """The powers of a recipe with the optimizer that is there, with a weight decay that stays visible where the recipe
    is solved: of matrices that branches end with, and of others; known: is the optimizer known by its class, so that a
    published recipe can be for another one? grows: the depth L, or the number of visits N; own: whose directions move
    these parameters, None for the optimizer's.

    Raises ``ValueError`` for a published recipe that is not for this optimizer.
    """
    entry, own = settable(name), own or optimizer
    given = layer_settings(name, optimizer if known or not entry.optimizer else entry.optimizer, owns_of(own)[0])
    if grows == "L":
        return {ends: ExpectedPowers(given, name_in(given, ends)) for ends in (True, False)}
    degree = float(gradient_degree(own))
    branch, lr = map(float, solved_powers(name, given.net, own))
    return {ends: ExpectedOfVisits(given, name_in(given, ends), branch, lr, degree) for ends in (True, False)}


def _of_outputs(pattern: str, update: Power, powers: dict[tuple[str, str], Power], runs: list[Sizes]) -> Power:
    """The power of a change of outputs that is not measured relative to the outputs."""
    signal = powers.get(("signal", pattern))
    if signal is None:
        return update
    times = 1 + _average(runs, "degree", pattern)
    return Power(update.value + times * signal.value, update.error)


def _freed(pattern: str, powers: dict[tuple[str, str], Power], degree: float,
           given: ExpectedPowers | None) -> Iterator[tuple[str, Power]]:
    """Powers of what is freed by updates of what starts at zero, with branches that add what they are to."""
    if ("freed", pattern) in powers:
        for quantity, times in (("update", 1 + degree), ("gradient", 1.0)):
            power = powers.get((quantity, pattern), UNKNOWN)
            branch = float(UNSEEN) if given is None else given.branch
            yield quantity, replace(power, value=power.value + times * branch)


def _between(powers: dict[tuple[str, str], Power], quantity: str, pattern: str, times: float) -> Power:
    """A power of what is beside the stream in front of a layer, or beside where it begins: a limit in depth does not
    tell between both. times: how often the size of the stream enters."""
    power, grown = (powers.get((q, pattern), UNKNOWN) for q in (quantity, "grown"))
    half = times * grown.value / 2 if grown.is_known and power.is_known else 0.0
    return Power(power.value + half, math.hypot(power.error, half))


def _average(runs: list[Sizes], quantity: str, pattern: str) -> float:
    values = [one[quantity, pattern] for one in runs if (quantity, pattern) in one]
    return sum(values) / len(values) if values else math.nan


def _middle(values: list[float]) -> float:
    known = sorted(v for v in values if math.isfinite(v))
    return known[len(known) // 2] if known else 0.0
