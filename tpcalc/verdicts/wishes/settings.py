"""What is set, as powers of L: branch multiplier, learning rates, eps and decay, as affine images of exponents."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Mapping, Sequence

import sympy as sp

from ..._checks import exponent, short
from ..counted import ASSUMED, STATES, UNNORMED
from ...errors import NotCovered
from ...orders import Affine
from ...orders.polytope import Point, Polytope
from ...scaling import DepthScaling, Parametrization, WidthScaling
from ...optimizers import SGD
from ...training.carried import carried
from ...optimizers.faithful import EPS, decay_power, degree, direction, direction_power
from ...optimizers.updates import Optimizer, finite_batches, optimizer_name
from .sizes import DepthSizes, PowerSizes, Reason

ALL, MULTIPLIER, INIT, LR, EPSILON, DECAY = "*", "multiplier", "init", "lr", "eps", "decay"
Key = tuple[str, str]
Recipe = DepthScaling | Parametrization | WidthScaling | None
BESIDE, SHARE = "eps beside gradients", "the share of a weight that a step's decay takes"
FIXED, ONE_RATE = "it is fixed", "one learning rate is wished for"
TRAINING = "training is counted where the network is stable at initialization"
DECAYING = "what weight decay changes by itself is no update here"
SETTINGS_RULES = (BESIDE, SHARE, FIXED, ONE_RATE)


@dataclass(frozen=True)
class PowerCondition:
    """A form in alpha and the gammas that is to be at least 0, or 0, with why."""

    form: Affine
    reason: Reason
    equal: bool = False

    @property
    def forms(self) -> tuple[Affine, ...]:
        return (self.form, self.form * -1) if self.equal else (self.form,)


@dataclass(frozen=True)
class EpsRegime:
    """Powers of L of what is set, as forms in alpha and the gammas, where one and the same of eps and gradients
    decides the size of every direction; conditions: where that is so, and where settings are what was fixed."""

    powers: Mapping[Key, Affine]
    conditions: tuple[PowerCondition, ...] = ()
    said: tuple[str, ...] = field(default=(), compare=False)


class PowerSettings:
    """What an optimizer and initial sizes are set to, as powers; names: the parameters that have a setting of a kind,
    none where it is one for all of them; regimes: ways in which they are images of exponents."""

    names: Mapping[str, tuple[str, ...]]
    regimes: tuple[EpsRegime, ...]

    def __init__(self, sizes: PowerSizes, opt: Optimizer, fixed: Mapping[Key, object] | None) -> None:
        self.sizes, self.opt, self.name = sizes, opt, optimizer_name(opt)
        self.fixed = self._fixed({} if fixed is None else fixed)

    @property
    def keys(self) -> tuple[Key, ...]:
        """All that is set."""
        return tuple((name, kind) for kind, names in self.names.items() if kind not in self.unset
                     for name in names or (ALL,))

    @property
    def unset(self) -> Mapping[str, str]:
        """Kinds of settings that stay as they are, with why no other power of theirs is counted."""
        raise NotImplementedError

    @property
    def free(self) -> dict[Key, sp.Symbol]:
        """What is not fixed, with a symbol for its power."""
        return {key: self.symbol(key) for key in self.keys if key not in self.fixed}

    def symbol(self, key: Key) -> sp.Symbol:
        name, kind = key
        return sp.Symbol(kind if name == ALL or len(self.sizes.trained) == 1 else f"{kind}_{name}", real=True)

    def of(self, key: object, what: str) -> tuple[Key, ...]:
        """The settings that a key names: of one parameter, or of all; ``ValueError`` for another."""
        names = self.names
        if isinstance(key, tuple) and len(key) == 2 and key[1] in names and key[0] in (ALL, *names[key[1]]):
            return tuple((name, key[1]) for name in names[key[1]] if key[0] in (ALL, name)) or ((ALL, key[1]),)
        lacks = f"; {self.name} has no {key[1]} here" if isinstance(key, tuple) and len(key) == 2 and key[1] in (
            EPSILON, DECAY) and key[1] not in names else ""
        whole = [f"('*', {kind!r}) or " for kind, some in names.items() if not some and kind not in self.unset]
        raise ValueError(f"{what}: got {short(key)}{lacks}; expected {''.join(whole)}a pair of '*' or a name in "
                         f"{', '.join(self.sizes.trained)} and one of {', '.join(k for k in names if names[k])}")

    def _fixed(self, given: Mapping[Key, object]) -> dict[Key, sp.Rational]:
        if not isinstance(given, Mapping):
            raise ValueError(f"fixed: got {short(given)}; expected a mapping such as {{('*', 'lr'): 0}}")
        found: dict[Key, sp.Rational] = {}
        for key, value in sorted(given.items(), key=lambda item: not (isinstance(item[0], tuple) and ALL in item[0])):
            power = exponent("fixed", value)
            if not power.is_Rational:
                raise ValueError(f"fixed: got {short(value)} for {short(key)}; expected a rational number, a power of "
                                 f"{self.sizes.grows}")
            for one in self.of(key, "fixed"):
                if one[1] in self.unset and power != 0:
                    raise NotCovered(f"fixed: got {one[1]} {power}; {self.unset[one[1]]}")
                found[one] = power
        return {key: power for key, power in found.items() if key[1] not in self.unset}

    def affine(self, value: sp.Expr) -> Affine:
        """A form in the exponents."""
        return Affine.of(value, self.sizes.symbols)

    def as_fixed(self, powers: Mapping[Key, Affine], kinds: Sequence[str]) -> list[PowerCondition]:
        """Conditions for what is fixed, of these kinds."""
        return [PowerCondition(powers[key] - self.affine(power), Reason(self.symbol(key), FIXED), True)
                for key, power in self.fixed.items() if key[1] in kinds]

    # What wishes ask of them.

    def conditions(self, asked: str, regime: EpsRegime) -> list[PowerCondition] | None:
        """In exponents; None where it cannot be met."""
        names = self.sizes.trained
        if asked == "one lr":
            first, *rest = (regime.powers[name, LR] for name in names)
            return [PowerCondition(one - first, Reason(self.symbol((name, LR)), ONE_RATE), True)
                    for name, one in zip(names[1:], rest)]
        return []

    def beyond(self, asked: set[str], regime: EpsRegime) -> list[tuple[sp.Expr, bool, Reason]]:
        """What is free beside exponents: expressions that are at least 0, or equal to it."""
        return []

    def in_settings(self, form: Affine, regime: EpsRegime) -> sp.Expr:
        """A form in exponents as one in what is set."""
        raise NotImplementedError

    def written(self, form: Affine) -> tuple[Affine, Sequence[sp.Symbol]]:
        """A form as people read it, and what it is a form in: exponents, where these have names of their own."""
        return form, self.sizes.symbols

    def require_gradients(self, of: Polytope) -> None:
        """Raise ``NotCovered`` where updates are of another size than is counted."""

    def recipe(self, point: Sequence[Fraction]) -> Recipe:
        """The parametrization at exponents."""
        raise NotImplementedError

    @property
    def assumed(self) -> list[str]:
        """What is taken for granted."""
        return []


class DepthSettings(PowerSettings):
    """What an optimizer and a branch multiplier are set to, as powers of L."""

    sizes: DepthSizes

    def __init__(self, sizes: DepthSizes, opt: Optimizer, fixed: Mapping[Key, object] | None) -> None:
        self.has_eps, self.has_decay = bool(direction(optimizer_name(opt)).has(EPS)), bool(opt.weight_decay)
        kinds = (LR, *[EPSILON] * self.has_eps, *[DECAY] * self.has_decay)
        self.names = {MULTIPLIER: (), **dict.fromkeys(kinds, sizes.trained), INIT: ()}
        self.gradients = {name: sp.expand(sizes.summed - carried(sizes.net).of_gradients[name][0] * sizes.symbols[0])
                          for name in sizes.trained}
        super().__init__(sizes, opt, fixed)
        self.regimes = tuple(self._regimes())

    @property
    def unset(self) -> Mapping[str, str]:
        return {INIT: f"initial sizes are counted as they are, {self.sizes.grows}^0; a power of theirs is one of the "
                "branch multiplier where a block is homogeneous in them"}

    # From exponents to what is set.

    def _regimes(self) -> list[EpsRegime]:
        """One, or one for every way in which an eps that is fixed is larger or smaller than gradients."""
        alpha, *gammas = self.sizes.symbols
        choices: dict[tuple[sp.Expr, sp.Expr | None], list[tuple[sp.Expr, list[PowerCondition], str]]] = {}
        for name in self.sizes.trained:
            kind = self.gradients[name], self.fixed.get((name, EPSILON))
            choices.setdefault(kind, self._directions(*kind))
        found = []
        for some in product(*choices.values()):
            chosen = dict(zip(choices, some))
            powers: dict[Key, Affine] = {(ALL, MULTIPLIER): self.affine(-alpha)}
            conditions = [condition for _, more, _ in some for condition in more]
            for name, gamma in zip(self.sizes.trained, gammas):
                eps = self.fixed.get((name, EPSILON))
                rate = chosen[self.gradients[name], eps][0] - gamma
                powers[name, LR] = self.affine(rate)
                if self.has_eps:
                    powers[name, EPSILON] = self.affine(self.gradients[name] if eps is None else eps)
                if self.has_decay:
                    decay = self.fixed.get((name, DECAY))
                    powers[name, DECAY] = self._visible(name, rate) if decay is None else self.affine(decay)
            conditions += self.as_fixed(powers, (MULTIPLIER, LR))
            said = dict.fromkeys(said for _, _, said in some if said)
            found.append(EpsRegime(powers, tuple(conditions), tuple(said)))
        return found

    def _directions(self, gradient: sp.Expr, eps: sp.Expr | None) -> list[tuple[sp.Expr, list[PowerCondition], str]]:
        """Powers of 1/L of an optimizer's direction, and where each is the one that counts."""
        if eps is None:
            said = "eps is free, and taken to be no larger than gradients" if self.has_eps else ""
            return [(-gradient * degree(self.name), [], said)]
        size = direction_power(self.name, -gradient, -eps)
        cases = size.args if isinstance(size, sp.Max) else (size,)
        found = []
        for one in cases:
            ahead = [PowerCondition(self.affine(one - other), Reason(sp.Max(*cases), BESIDE))
                     for other in cases if other != one]
            charged = one != -gradient * degree(self.name)
            said = f"eps, {self.sizes.grows}^({eps}), is {'at least as large' if charged else 'no larger than'}" + (
                " as gradients, and decides the size of updates" if charged else " gradients")
            found.append((one, ahead, said))
        return found

    def share(self, name: str, regime: EpsRegime) -> Affine:
        """The power of L of the share of a weight that one step's decay takes."""
        return self._share(regime.powers[name, LR], regime.powers[name, DECAY], name)

    def _share(self, rate: Affine, decay: Affine, name: str) -> Affine:
        symbols = self.sizes.symbols
        lost = decay_power(self.name, -rate.expression(symbols), -decay.expression(symbols), -self.gradients[name],
                           kind=self.kind)
        return self.affine(sp.expand(-lost))

    def _visible(self, name: str, rate: sp.Expr) -> Affine:
        """The decay's power at which that share is of order one."""
        nothing = self.affine(sp.Integer(0))
        return nothing - self._share(self.affine(rate), nothing, name)

    @property
    def kind(self) -> str:
        if getattr(self.opt, "independent", False):
            return "independent"
        return "decoupled" if getattr(self.opt, "decoupled", True) else "coupled"

    def conditions(self, asked: str, regime: EpsRegime) -> list[PowerCondition] | None:
        names = self.sizes.trained
        if asked == "one lr":
            return super().conditions(asked, regime)
        if asked == "eps in proportion":
            return [PowerCondition(regime.powers[name, EPSILON] - self.affine(self.gradients[name]),
                                   Reason(self.symbol((name, EPSILON)), "eps is to go like gradients"), True)
                    for name in names] if self.has_eps else None
        if not self.has_decay:
            return None if asked == "visible decay" else []
        return [PowerCondition(self.share(name, regime) * -1, Reason(self.symbol((name, DECAY)), SHARE),
                               asked == "visible decay") for name in names]

    def beyond(self, asked: set[str], regime: EpsRegime) -> list[tuple[sp.Expr, bool, Reason]]:
        found, free = [], self.free
        for name in self.sizes.trained:
            if (name, EPSILON) in free:
                found.append((self.in_settings(self.affine(self.gradients[name]), regime) - free[name, EPSILON],
                              "eps in proportion" in asked, Reason(free[name, EPSILON], BESIDE)))
            if (name, DECAY) in free and asked & {"bounded decay", "visible decay"}:
                visible = self.in_settings(regime.powers[name, DECAY], regime)
                found.append((visible - free[name, DECAY], "visible decay" in asked, Reason(
                    free[name, DECAY], SHARE)))
        return found

    def in_settings(self, form: Affine, regime: EpsRegime) -> sp.Expr:
        alpha, *gammas = self.sizes.symbols
        power = (ALL, MULTIPLIER)
        multiplier = self.fixed.get(power, self.symbol(power))
        values = {alpha: -multiplier}
        for name, gamma in zip(self.sizes.trained, gammas):
            rate = self.fixed.get((name, LR), self.symbol((name, LR)))
            values[gamma] = regime.powers[name, LR].expression(self.sizes.symbols) + gamma - rate
        written = form.expression(self.sizes.symbols).subs({g: values[g] for g in gammas}, simultaneous=True)
        return sp.expand(written.subs(alpha, values[alpha]))  # rates have alpha in them

    def require_gradients(self, of: Polytope) -> None:
        """Raise ``NotCovered`` where gradients have powers of L beyond their multiplier's, and an optimizer that is no
        linear function of them has steps of another size then."""
        if isinstance(self.opt, SGD):
            return
        if self.sizes.net.vectors_of_block:
            names = ", ".join(self.sizes.net.vectors_of_block)
            raise NotCovered(f"opt: got {self.opt!r} for {names}, trained vectors, the size of whose steps is not told "
                             "from that of their gradients; expected gradient descent")
        for point in (*of.corners, of.center):
            for name, power in self._beyond(point).items():
                if power != 0:
                    size = "0" if power == -sp.oo else f"{self.sizes.grows}^({power})"
                    raise NotCovered(f"net: got {self.sizes.net!r}; gradients of {name} go like {size} beside their "
                                     f"multiplier where alpha = {point[0]}, and {self.name}'s steps with them; "
                                     "expected ones of order one, or gradient descent")

    def recipe(self, point: Sequence[Fraction]) -> Recipe:
        alpha, *gammas = map(sp.Rational, point)
        names = self.sizes.trained
        return Parametrization(depth={"alpha": alpha, **dict(zip(names, gammas))}).over(names, ends=False)

    @property
    def assumed(self) -> list[str]:
        net = self.sizes.net
        said = [TRAINING, *finite_batches(self.opt), *[DECAYING] * self.has_decay]
        return said + ([UNNORMED] * (net.norm is None) + [STATES] * bool(net.states_of_block) + [ASSUMED]
                       if net.positions else [])

    def _beyond(self, point: Point) -> dict[str, sp.Expr]:
        values = dict(zip(self.sizes.symbols, map(sp.Rational, point)))
        gammas = dict(zip(self.sizes.trained, list(values.values())[1:]))
        return {name: moves + gammas[name] for name, moves in self.sizes.terms.there(values).gradients(0).items()}
