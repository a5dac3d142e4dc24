"""Named recipes on blocks that they are for, as far as there are verdicts on these, matrix by matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Iterable, Mapping

import sympy as sp

from .._checks import short
from .._shown import Short
from .._text import Aligned
from ..derivations.printing import latex
from ..errors import NotCovered
from ..models import ResNet
from ..models.network import Network
from ..optimizers import SGD
from ..optimizers.faithful import direction_power
from ..optimizers.updates import finite_batches
from ..programs.from_zero import from_zero
from ..programs.program import Program
from ..scaling import Parametrization, Powers, Scaling
from ..scaling.parametrization import as_power
from ..training.builders import counted_training
from ..training.by_parameter import exponents_of_powers, settings_in_layers
from ..training.settings import Settings
from ..verdicts.advice import BEST, of_block, of_matrix
from ..verdicts.classify import classify
from ..verdicts.counted import Judged
from ..verdicts.crossover import far_away
from ..verdicts.from_nothing import gate_gradient, of_gate, of_zero
from ..verdicts.transformers import name_on_transformer
from ..verdicts.verdict import Verdict
from .blocks import set_on_block
from .named import MLP, NamedRecipe, width_of
from .recipe import MEANING, named_recipe

Gammas = tuple[tuple[str, sp.Expr], ...]  # gamma by matrix
SAID = {**MEANING, "lr": "learning rate"}  # of a matrix that is named


@lru_cache(maxsize=128)
def verdict_on(net: Judged, alpha: sp.Expr, gammas: Gammas, zero: tuple[str, ...]) -> Verdict:
    """The verdict at exponents by matrix, with matrices of these names starting at zero."""
    scale = block_exponents(alpha, dict(gammas))
    if zero:
        assert isinstance(net, ResNet)
        return of_zero(net, scale, zero)
    return classify(scale, net)


@lru_cache(maxsize=128)
def name_on(net: Judged, alpha: sp.Expr, gammas: Gammas, zero: tuple[str, ...]) -> str:
    """The name of that verdict, for which no matrix needs to be counted by itself."""
    return name_on_transformer(net, block_exponents(alpha, dict(gammas))) if net.positions else verdict_on(
        net, alpha, gammas, zero).name


def verdict_past_zero(net: Judged) -> Verdict:
    """The verdict behind a number that starts at 0 and, moved along its gradient, stays there."""
    assert isinstance(net, ResNet)
    return of_gate(net, dict.fromkeys(net.matrices_of_block, sp.Integer(0)))


def block_exponents(alpha: sp.Expr, gammas: Mapping[str, sp.Expr]) -> Parametrization:
    return Parametrization(depth={"alpha": alpha, **gammas})


UNKNOWN = "from a depth on that is not known (tp.audit with sizes= says it for powers and sizes of one's own)"


@dataclass(frozen=True, repr=False)
class RecipeAudit(Short, Aligned):
    """What the powers of L of a named recipe come to on its own block, or powers by parameter on a network.

    block: in words, or the network; settings: what is set; alpha, gammas: the exponents that it is while eps is
    negligible, from the first update on where something starts at zero; decays: one step of weight decay takes a share
    L^-decay of a matrix, None without one; called: the name of the verdict; outgrown: matrices whose gradients eps
    outgrows as depth grows; warnings: what falls short of Depth-muP; changes: the least that makes it that; caveat:
    what of the source's block is not judged; width: the power of n by which updates of square matrices exceed those
    that keep activations of order one, of recipes that multiply updates with a factor of their own, else 0.

    >>> import tpcalc as tp
    >>> found = tp.named_recipes()["layerscale"]
    >>> found.block, {name: str(gamma) for name, gamma in found.gammas.items()}, found.called
    ('MLP behind a norm, scaled', {'W1': '0', 'W2': '0', 's': '0'}, 'grows at initialization')
    """

    name: str
    block: str
    settings: Settings
    alpha: sp.Expr
    gammas: Mapping[str, sp.Expr]
    decays: Mapping[str, sp.Expr | None]
    called: str
    warnings: tuple[str, ...]
    changes: tuple[str, ...]
    source: str = ""
    caveat: str = ""
    width: sp.Expr = sp.Integer(0)
    outgrown: tuple[str, ...] = ()

    @property
    def called_in_charge(self) -> str:
        """The name of the verdict where eps outgrows the gradients of ``outgrown``, "" where it outgrows none."""
        return name_on(self.net, *_counted(self.settings)) if self.outgrown else ""

    @property
    def verdict(self) -> Verdict:
        """That of ``tp.classify`` at these exponents, on ``net``; of what starts at zero, on ``program``."""
        start = self.settings.without_eps
        return verdict_on(self.net, *_counted(start)) if moves(after_an_update(start)) else verdict_past_zero(self.net)

    @property
    def eps_in_charge(self) -> Verdict | None:
        """The verdict where eps outgrows the gradients of ``outgrown``, None where it outgrows none."""
        if not self.outgrown:
            return None
        return verdict_on(self.net, *_counted(self.settings))

    @property
    def far_away(self) -> str:
        """From which depth on what is said of powers of L is felt; "" where nothing grows or vanishes."""
        return far_away(self.alpha, self.gammas.values(), (one for one in self.decays.values() if one))

    @property
    def gamma(self) -> sp.Expr | None:
        """The update exponent that all matrices have, None where they differ."""
        return next(iter(self.gammas.values())) if len(set(self.gammas.values())) == 1 else None

    @property
    def decay(self) -> sp.Expr | None:
        """The share of the weight decay where it is that of all matrices, else None."""
        return next(iter(self.decays.values())) if len(set(self.decays.values())) == 1 else None

    @property
    def optimizer(self) -> str:
        return self.settings.optimizer

    @property
    def assumed(self) -> tuple[str, ...]:
        """What is taken for granted of the rank of gradients, where steps go by it."""
        return finite_batches(self.optimizer)

    @property
    def zero(self) -> tuple[str, ...]:
        """What starts at zero."""
        return self.settings.zero

    @property
    def scaling(self) -> Scaling:
        """The exponents to give to ``tp.train``, with ``net``.

        Raises ``ValueError`` where something starts at zero, which no scaling says; ``program`` does.
        """
        if self.zero:
            raise NotCovered(f"scaling: asked of {self.name!r}, in which {', '.join(self.zero)} starts at zero; "
                             "expected its .program, which has that")
        return block_exponents(self.alpha, self.gammas).over(self.gammas, ends=False)

    @property
    def program(self) -> Program:
        """The training that is judged, by plain gradient descent with updates of the recipe's sizes.

        Raises ``ValueError`` for a number in front of a branch that starts at zero, of which the network that is judged
        is the one that an update leaves.
        """
        missing = [name for name in self.zero if name not in self.gammas]
        if missing:
            raise NotCovered(f"program: asked of {self.name!r}, in which the number {missing[0]} starts at zero; "
                             "expected recipes in which matrices do, or nothing")
        start = self.settings.without_eps
        written = counted_training(self.net, SGD(), start.exponents)
        return from_zero(written, *self.zero) if self.zero else written

    @property
    def net(self) -> Judged:
        """The network that is judged; of norms that stand after a branch with these before it, as ``BLOCKS`` says."""
        return self.settings.net  # type: ignore[return-value]

    @cached_property
    def groups(self) -> dict[tuple[str, ...], dict[str, sp.Expr]]:
        """What is set, once for all that have it and one gamma, by their names."""
        found: dict[tuple[object, ...], list[str]] = {}
        for name in self.settings.powers:
            said = tuple(self.settings.said(name).items())
            found.setdefault((said, self.gammas.get(name), name in self.zero), []).append(name)
        return {tuple(names): self.settings.said(names[0]) for names in found.values()}

    def powers_of(self, names: tuple[str, ...]) -> dict[str, str]:
        """What is set for a group, in words."""
        said = {key: as_power(size) for key, size in self.groups[names].items()}
        return {**said, "init": "0"} if names[0] in self.zero else said

    def latex(self) -> str:
        """What was set, and what it comes to, as lines of an ``aligned`` environment."""
        lines = [rf"\text{{{MEANING[key]} of {', '.join(names)}}} &" + (
            "= 0" if key == "init" and names[0] in self.zero else rf"\propto L^{{{latex(size)}}}")
            for names, said in self.groups.items() for key, size in said.items()]
        return " \\\\\n".join([*lines, self.verdict.latex()])

    @property
    def where(self) -> str:
        """The exponents, those of matrices that share one together."""
        by_gamma = with_names({name: [f"gamma = {gamma}"] for name, gamma in self.gammas.items()})
        said = [one if len(by_gamma) == 1 else f"{one} of {', '.join(names)}" for one, names in by_gamma.items()]
        return ", ".join([f"alpha = {self.alpha}", *said])

    def __str__(self) -> str:
        lines = [f"{self.name}, {self.optimizer}: {self.block}"]
        for names in self.groups:
            lines.append(f"{', '.join(names)}: " + ", ".join(
                f"{key} {size}" for key, size in self.powers_of(names).items()))
        charged = [f"with eps in charge of {', '.join(self.outgrown)}, {UNKNOWN}: {self.called_in_charge}"
                   ] if self.outgrown else []
        far = self.far_away
        lines += [f"{self.where}: {self.called}{', while eps is negligible' * bool(charged)}", *charged,
                  *(f"warning: {one}" for one in self.warnings), *[far] * bool(far), *self.changes]
        return "\n".join([*lines, *([f"but: {self.caveat}"] if self.caveat else []),
                          *(f"assumed: {one}" for one in self.assumed)])


def audit_on_mlp(name: str, optimizer: str | None = None) -> RecipeAudit:
    """Audit a named recipe on a transformer's MLP, x + eps W2 relu(W1 x / rms(x)), whatever its own block is.

    Both matrices have the recipe's rate, eps and branch multiplier; an initialization that goes down with the depth is
    that of the last matrix of a branch alone, as sources have it. The norm is that of root mean squares, without gains;
    attention is another block. Behind a norm the stream of a branch of order one grows like a power of the depth and
    does not explode. optimizer: for recipes that are solved for one, such as "depth-mup"; "adam" where None is given.

    Raises ``ValueError`` for unknown names, and for recipes in which something starts at zero or is more than a matrix.
    Source: ``tp.recipe(name).source``.

    >>> print(audit_on_mlp("gpt-2").where)
    alpha = 1/2, gamma = 0 of W1, gamma = -1/2 of W2
    """
    entry = named_recipe(name)
    if entry.outside:
        raise NotCovered(f"name: got {name!r}, {entry.outside}; expected recipes for the matrices of any MLP")
    return audit_on_block(replace(entry, block=MLP), optimizer)


def audit_on_block(entry: NamedRecipe, optimizer: str | None = None) -> RecipeAudit:
    """The audit of a recipe on its own block.

    Raises ``ValueError`` for initial sizes of what its block is not homogeneous in, and for those that make branches of
    a layer differ in alpha.
    """
    given = set_on_block(entry, optimizer if entry.target is not None else None)
    return replace(audit_settings(given, entry.name, entry.block, entry.sized), source=entry.source,
                   caveat=entry.caveat, width=width_of(entry.factor))


def audit_settings(given: Settings, name: str, block: str, sized: str = "") -> RecipeAudit:
    """The audit of what is set for a network; sized: whose initial size makes alpha in place of a branch multiplier."""
    first, net = given.without_eps, given.net
    then = after_an_update(first)
    if moves(then):
        alpha, gammas, there = then.alpha, then.gammas, after_an_update(given)
        said = [*of_block(then), *(
            f"{', '.join(names)}: {warning}" if len(gammas) > 1 else warning for warning, names in with_names(
                {name: list(of_matrix(there, name, UNKNOWN)) for name in gammas}).items())]
        decays = {name: then.lost(name) if name in gammas else None for name in given.powers}
        called = name_on(net, *_counted(first))  # type: ignore[arg-type]
        outgrown = tuple(name for name in gammas if alpha >= BEST.alpha and there.outgrown(name))
    else:
        alpha, gammas, outgrown = sp.oo, dict.fromkeys(net.trained_of_block, sp.oo), ()
        said = [f"{', '.join(given.zero)} starts at zero, and gradients with it: nothing moves"]
        decays, called = dict.fromkeys(given.powers), verdict_past_zero(net).name  # type: ignore[arg-type]
    return RecipeAudit(name, block, given, alpha, gammas, decays, called, tuple(said),
                       changes_to_depth_mup(given, sized), outgrown=outgrown)


def audit_matrices(scale: Parametrization, net: Judged | None = None, optimizer: object = None) -> RecipeAudit:
    """The audit of powers by parameter: the exponents that they are, in both regimes of eps.

    scale: a ``tp.Parametrization`` of ``tp.Powers``; net: the network that these are for, default the linear residual
    network; optimizer: one or its name, default gradient descent. Raises ``ValueError`` for anything else and for a
    parametrization that has exponents already. Source: Tensor Programs VI, Definition 4.1 and section 5.

    >>> import tpcalc as tp
    >>> raw = {"branch": tp.Powers(multiplier={"L": -1}), "*": tp.Powers(eps={"L": -1}),
    ...        "W2": tp.Powers(lr={"L": -1}, eps={"L": -1})}
    >>> found = tp.theory.audit_matrices(tp.Parametrization(depth=raw), tp.ResNet("relu", "mlp"), "adam")
    >>> found.where, found.called
    ('alpha = 1, gamma = 0 of W1, gamma = 1 of W2', 'ODE limit')
    """
    if not isinstance(scale, Parametrization):
        raise ValueError(f"scale: got {short(scale)}; expected a tp.Parametrization of powers by parameter")
    if net is not None and not isinstance(net, Network):
        raise ValueError(f"net: got {short(net)}; expected a tp.ResNet, a tp.Transformer or None")
    if scale.parameters is None:
        raise ValueError(f"scale: got {scale!r}, which has exponents; tp.classify judges these; expected powers by "
                         "parameter, tp.Powers for every matrix")
    net = ResNet() if net is None else net
    given = settings_in_layers(scale, net, optimizer)
    for name in given.powers:
        for setting, power in given.said(name).items():
            if not power.is_number:
                raise ValueError(f"{setting}: got {power}; expected a real number, as a power of L")
    exponents_of_powers(scale, net, optimizer).require_mup(ends=False)
    return audit_settings(given, "powers by parameter", repr(net))


def _counted(given: Settings) -> tuple[sp.Expr, tuple[tuple[str, sp.Expr], ...], tuple[str, ...]]:
    """alpha, gammas and what starts at zero, as they are counted; with a number in front, behind an update."""
    one = after_an_update(given) if given.in_front else given
    return one.alpha, tuple(one.gammas.items()), () if given.in_front else given.zero


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
