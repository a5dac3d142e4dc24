"""What is set for the parameters of a network's layers, as powers of L, and the exponents that it comes to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Callable, Mapping

import sympy as sp

from ..errors import NotCovered
from ..scaling import Parametrization, Powers, Scaling
from ..scaling.parametrization import Frozen
from .carried import carried
from ..optimizers.faithful import EPS, decay_power, direction, faithful_rate, update_power
from ..models.network import Network

WITH_EPS = ("adam", "adamw")


@dataclass(frozen=True)
class Settings:
    """Powers of L that are set for the matrices and trained vectors of a network's layers, and what an optimizer makes
    of them. Sizes of gradients are counted in the network, ``carried``, in a stream of order one.

    powers: by name, of numbers in front of branches too; branch: of the branch multiplier; decay: what a weight decay
    does, "decoupled" W <- (1 - lr decay) W, "coupled" it adds decay W to the gradient, "independent"
    W <- (1 - decay) W; gradient: of all raw gradients, where a backward pass has a scale of its own; zero: what starts
    at zero, which is counted as of the usual size; fronts: of a further multiplier of every branch of a layer.

    >>> from tpcalc.models import ResNet
    >>> adam = Frozen({name: Powers(lr={"L": "-1/2"}) for name in ("W1", "W2")})
    >>> found = Settings(ResNet("relu", "mlp"), adam, "adam", sp.Rational(-1, 2))
    >>> found.alpha, found.gammas["W1"], found.gradient_power("W1")
    (1/2, 1/2, -1/2)
    """

    net: Network
    powers: Frozen[Powers]
    optimizer: str = "sgd"
    branch: sp.Expr = sp.Integer(0)
    decay: str = "decoupled"
    gradient: sp.Expr | None = None
    zero: tuple[str, ...] = ()
    fronts: tuple[sp.Expr, ...] = ()

    def of(self, name: str, setting: str) -> sp.Expr:
        """The power of L of a setting; of eps and of the decay 0 where there are none."""
        return self.powers[name].of(setting, "L")

    def eps(self, name: str) -> sp.Expr | None:
        """The power of an optimizer's eps, None where it has none or one that is negligible."""
        there = direction(self.optimizer).has(EPS) and self.powers[name].eps is not None
        return self.of(name, "eps") if there else None

    def decay_of(self, name: str) -> sp.Expr | None:
        """The power of a weight decay, None where there is none."""
        return None if self.powers[name].decay is None else self.of(name, "decay")

    def said(self, name: str) -> dict[str, sp.Expr]:
        """What there is to set for a parameter, by name."""
        found = {"branch": self.branch, "init": self.of(name, "init"), "lr": self.of(name, "lr")}
        beside = {"multiplier": self.of(name, "multiplier") or None, "eps": self.eps(name),
                  "weight_decay": self.decay_of(name)}
        return {**found, **{key: power for key, power in beside.items() if power is not None}}

    def changed(self, change: Callable[[str, Powers], Powers]) -> Settings:
        """Settings with other powers, by name."""
        return replace(self, powers=Frozen({name: change(name, one) for name, one in self.powers.items()}))

    @property
    def without_eps(self) -> Settings:
        """The settings with an eps that is negligible beside gradients."""
        return self.changed(lambda name, one: replace(one, eps=None))

    @property
    def without_decay(self) -> Settings:
        """The settings without weight decay."""
        return self.changed(lambda name, one: replace(one, decay=None))

    # What it comes to.

    @property
    def names(self) -> tuple[str, ...]:
        """The matrices and trained vectors of a layer."""
        return self.net.trained_of_block

    @property
    def in_front(self) -> tuple[str, ...]:
        """The trained numbers in front of branches, which multiply all that is there."""
        return tuple(name for name in self.powers if name not in self.names)

    @property
    def sizes(self) -> dict[str, sp.Expr]:
        """How large parameters start, their own multipliers included."""
        return {name: self.of(name, "multiplier") + self.of(name, "init") for name in self.names}

    @property
    def branches(self) -> tuple[sp.Expr, ...]:
        """The power of L of what stands in front of every branch of a layer."""
        many = len(carried(self.net).of_branches)
        fronts = self.fronts if any(self.fronts) else (sp.Integer(0),) * many
        if len(fronts) != many:
            raise NotCovered(f"net: got {self.net!r}, whose branches add to several streams, with multipliers for "
                             f"{', '.join(self.net.branch_kinds)}; expected one for all branches")
        return tuple(self.branch + front for front in fronts)

    @property
    def alphas(self) -> tuple[sp.Expr, ...]:
        """What each branch adds is L^-alpha. Raises ``NotCovered`` where one is no power of L."""
        return carried(self.net).alphas(self.branches, self.sizes)

    @property
    def alpha(self) -> sp.Expr:
        """What branches add is L^-alpha. Raises ``NotCovered`` where it is no power of L, or differs by branch."""
        found = set(self.alphas)
        if len(found) > 1:
            sizes = {**dict(zip(self.net.branch_kinds, self.fronts)), **self.sizes}
            said = ", ".join(f"{name} L^({power})" for name, power in sizes.items() if power != 0)
            raise NotCovered(f"sizes at first: got {said}, of which the branches of a layer come to be of different "
                             f"sizes, L^-alpha with alpha {', '.join(map(str, self.alphas))}; expected one alpha, of "
                             "which tp.classify alone takes several")
        return found.pop()

    def gradient_power(self, name: str) -> sp.Expr:
        """The power of L of the raw gradient of a parameter."""
        if self.gradient is not None:
            return self.gradient
        found = carried(self.net).gradient(name, self.branches, self.sizes) + self.of(name, "multiplier")
        if found == -sp.oo:
            raise NotCovered(f"{name}: its gradient vanishes, and with it no size of its updates is known")
        return sp.expand(found)

    def decay_enters(self, name: str) -> bool:
        """Does a coupled decay enter the optimizer beside the gradient, and as large as it or larger?"""
        beside = self._beside(name)
        return beside is not None and bool(beside >= self.gradient_power(name))

    def entering(self, name: str) -> sp.Expr:
        """The power of L of what enters the optimizer: the gradient, or a coupled decay that is larger."""
        beside = self._beside(name)
        return beside if beside is not None and self.decay_enters(name) else self.gradient_power(name)

    def _beside(self, name: str) -> sp.Expr | None:
        """The power of L of what a coupled decay adds to the gradient."""
        decay = self.decay_of(name)
        return None if decay is None or self.decay != "coupled" else decay + self.of(name, "init")

    def moved(self, name: str) -> sp.Expr:
        """g, the size L^-g of what gradients do to the raw parameter in one step, by the optimizer's own formula
        [tensor_programs_vi/definition_41]; a coupled decay may be in their way."""
        eps, beside = self.eps(name), self._beside(name)
        return update_power(self.optimizer, -self.gradient_power(name), -self.of(name, "lr"),
                            None if eps is None else -eps, None if beside is None else -beside)

    def gamma(self, name: str) -> sp.Expr:
        """The update exponent: updates relative to initial weights are L^-gamma."""
        return sp.expand(self.moved(name) + self.of(name, "init"))

    @property
    def gammas(self) -> dict[str, sp.Expr]:
        return {name: self.gamma(name) for name in self.names}

    @property
    def exponents(self) -> Parametrization:
        """alpha and the gamma of every parameter of a layer."""
        return Parametrization(depth={"alpha": self.alpha, **self.gammas})

    def outgrown(self, name: str) -> bool:
        """Does eps outgrow what enters Adam as depth grows, so that the size of an update is another one?"""
        return bool(self.moved(name) != self.without_eps.moved(name))

    def lost(self, name: str) -> sp.Expr | None:
        """The share L^-(this) of a parameter that one step's weight decay takes, None without one."""
        decay = self.decay_of(name)
        return None if decay is None else self._share(name, decay, self.decay)

    def _share(self, name: str, decay: sp.Expr, kind: str) -> sp.Expr:
        eps = self.eps(name)
        return decay_power(self.optimizer, -self.of(name, "lr"), -decay, -self.gradient_power(name),
                           None if eps is None else -eps, -self.of(name, "init"), kind)

    def visible_decay(self, name: str, kind: str) -> sp.Expr | None:
        """The power of L of a weight decay that neither dies out nor explodes, None where there is none."""
        comparable = self.gradient_power(name) - self.of(name, "init")  # a smaller coupled decay is lost in proportion
        found = comparable + self._share(name, comparable, kind)
        return found if self._share(name, found, kind) == 0 else None

    # And back.

    def realized(self, scale: Scaling) -> Settings:
        """The settings that come to exponents, initial sizes being what they are: the branch multiplier makes up the
        rest of alpha, learning rates make updates of size L^-gamma, and eps stays where it does not dominate gradients
        and else goes with them [tensor_programs_vi/definition_41].

        >>> from tpcalc.scaling import DepthScaling
        >>> from tpcalc.models import ResNet
        >>> Settings(ResNet(), Frozen({"W": Powers(eps={})}), "adam").realized(DepthScaling(1, 0)).said("W")
        {'branch': -1, 'init': 0, 'lr': 0, 'eps': -1}
        """
        there = replace(self, branch=sp.expand(self.branch + self.alpha - scale.alpha))
        return there.with_rates({name: scale.update_exponent(name) for name in self.names})

    def with_rates(self, gammas: Mapping[str, sp.Expr]) -> Settings:
        """The settings with the learning rates and eps that make updates of size L^-gamma."""
        def rated(name: str, one: Powers) -> Powers:
            if name not in gammas:
                return one
            size, eps = self.gradient_power(name), self.eps(name)
            kept = size if eps is None or eps > size else eps
            rate = faithful_rate(self.optimizer, gammas[name] - self.of(name, "init"), -size, -kept)
            return replace(one, lr={"L": sp.expand(-rate)}, eps=None if eps is None else {"L": kept})

        return self.changed(rated)

    @property
    def with_eps_in_proportion(self) -> Settings:
        """The settings with an eps that goes like gradients."""
        return self.changed(lambda name, one: replace(one, eps={"L": self.gradient_power(name)}))

    def with_visible_decay(self, kind: str) -> Settings:
        """The settings with the weight decay of this kind that stays visible, none where no power of L keeps it so."""
        def decaying(name: str, one: Powers) -> Powers:
            visible = self.visible_decay(name, kind) if name in self.names else None
            return replace(one, decay=None if visible is None else {"L": visible})

        return replace(self.changed(decaying), decay=kind)
