"""``recipe``: the multipliers to set, solved from the sizes that updates must have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Mapping

import sympy as sp

from .. import _checks
from .._shown import Short
from .._text import Aligned
from ..derivations.printing import latex
from ..parametrizations import DepthChoices, DepthScaling, Parametrization
from ..parametrizations.choices import DECAYS
from ..parametrizations.recipes import NAMED, NamedRecipe
from ..programs.faithful import decay_power, faithful_rate, optimizer_name
from .advice import as_power as written

MEANING = {
    "branch": "branch multiplier", "init": "initial standard deviation", "lr": "learning rate of the block's matrix",
    "eps": "Adam's eps", "weight_decay": "weight decay",
    **{f"weight_decay_{kind}": f"weight decay, {kind}" for kind in DECAYS}}

ADAMS = ("adam", "adamw")


@dataclass(frozen=True, repr=False)
class Recipe(Short, Aligned):
    """What to multiply the settings of a network of depth ``base_depth`` with at ``depth``.

    choices: the powers of the depth multiplier, depth / base_depth; decays: those of the weight decay, for every kind
    that then stays visible; changes: what is different from what was audited, a sentence each; caveat: what
    of the source's blocks verdicts are not about.

    >>> import tpcalc as tp
    >>> tp.recipe("depth-mup", optimizer="adam", depth=96, base_depth=12).factors["branch"]
    0.3535533905932738
    """

    name: str
    choices: DepthChoices
    decays: dict[str, sp.Expr]
    changes: tuple[str, ...] = ()
    depth: int | None = None
    base_depth: float = 1
    source: str = ""
    caveat: str = ""

    @property
    def depth_multiplier(self) -> float:
        """depth / base_depth; ``ValueError`` where no depth was given."""
        if self.depth is None:
            raise ValueError("depth: got None; expected a whole number of at least 1, as in tp.recipe(depth=96)")
        return self.depth / self.base_depth

    @property
    def powers(self) -> dict[str, sp.Expr]:
        """Powers of the depth multiplier by name; of the weight decay one for every kind that is visible."""
        return {**self.choices.powers, **{f"weight_decay_{kind}": power for kind, power in self.decays.items()}}

    @property
    def factors(self) -> dict[str, float]:
        """The powers as numbers at ``depth``."""
        return {name: self.depth_multiplier ** float(power) for name, power in self.powers.items()}

    def latex(self) -> str:
        """The factors as lines of an ``aligned`` environment."""
        base = "L" if self.depth is None else r"\left(L / L_0\right)"
        return " \\\\\n".join(rf"\text{{{MEANING[name]}}} &\propto {base}^{{{latex(power)}}}"
                              for name, power in self.powers.items())

    def __str__(self) -> str:
        lines = [f"{self.name}, {self.choices.optimizer}" + (
            "" if self.depth is None else f": depth {self.depth}, {self.depth_multiplier:g} times {self.base_depth}")]
        for name, power in self.powers.items():
            factor = "" if self.depth is None else f"  x {self.factors[name]:.6g}"
            lines.append(f"  {MEANING[name]:<36} L^({power}){factor}")
        return "\n".join([*lines, *self.changes, *([f"but: {self.caveat}"] if self.caveat else [])])


@dataclass(frozen=True, repr=False)
class MatrixRecipe(Short):
    """The powers of L to set for every matrix of a block, for one optimizer; ``factors``: as numbers at ``depth``.

    >>> import tpcalc as tp
    >>> print(tp.theory.matrix_recipe(tp.Parametrization(depth={"alpha": 1, "W1": 0, "W2": 1}), optimizer="sgd"))
    W1: branch multiplier L^(-1), initial standard deviation 1, learning rate of the block's matrix L
    W2: branch multiplier L^(-1), initial standard deviation 1, learning rate of the block's matrix 1
    """

    choices: Mapping[str, DepthChoices]
    depth: int | None = None
    base_depth: float = 1

    @property
    def factors(self) -> dict[str, dict[str, float]]:
        """What to multiply the settings of a network of depth ``base_depth`` with, by matrix and setting."""
        if self.depth is None:
            raise ValueError("depth: got None; expected a whole number of at least 1, as in tp.recipe(depth=96)")
        ratio = self.depth / self.base_depth
        return {name: {key: ratio ** float(size) for key, size in one.powers.items()}
                for name, one in self.choices.items()}

    def __str__(self) -> str:
        return "\n".join(f"{name}: " + ", ".join(f"{MEANING[key]} {written(size)}" for key, size in one.powers.items())
                         for name, one in self.choices.items())


def recipe(name: str | DepthScaling | Parametrization = "depth-mup", optimizer: object = None,
           depth: int | None = None, base_depth: float = 1) -> Recipe:
    """The multipliers that a named recipe sets at ``depth``, relative to a network of depth ``base_depth``.

    "depth-mup" and "ode" are solved for ``optimizer`` ("adam" where none is given), with the matrices' initialization
    left as it is, and so is a ``tp.DepthScaling``; ``tp.theory.matrix_recipe`` has exponents matrix by matrix. The
    others are taken as published: ``optimizer`` must be that of the source, Adam and AdamW standing for each other;
    ``caveat`` says what is then assumed of the weight decay. Raises ``ValueError`` for unknown names and
    optimizers, a depth that is not a whole number, and recipes that no power of L for one matrix can say. Source:
    Tensor Programs VI, Definition 4.1 and Claim 5.5; for the others ``.source``.

    >>> import tpcalc as tp
    >>> tp.recipe("depth-mup", optimizer="sgd", depth=64).factors["branch"]
    0.125
    """
    if depth is not None:
        depth = _checks.positive_integer("depth", depth)
    base_depth = DepthScaling(base_depth=base_depth).base_depth  # refused where it is not positive
    if isinstance(name, Parametrization) and name.own:
        raise ValueError(f"name: got {_checks.short(name)}, which has an exponent for every matrix; expected one "
                         "for all of them, tp.theory.matrix_recipe has the others")
    entry = of_powers(name)
    asked = None if optimizer is None else optimizer_name(optimizer)
    if entry.target is not None:
        choices = realize(entry.target, asked or "adam")
        decays = {kind: power for kind in DECAYS if (power := visible_decay(choices, kind)) is not None}
    else:
        assert entry.choices is not None
        choices, decays = published_choices(entry, asked or entry.choices.optimizer), {}
    assumed = "" if asked is None else assumed_of_decay(entry, asked)
    return Recipe(entry.name, choices, decays, depth=depth, base_depth=base_depth, source=entry.source,
                  caveat="; ".join(filter(None, (entry.caveat, assumed))))


def published_choices(entry: NamedRecipe, optimizer: str) -> DepthChoices:
    """What a recipe sets that is taken as published, for this optimizer; Adam and AdamW have one recipe.

    Raises ``ValueError`` for an optimizer that it was not published for.
    """
    assert entry.choices is not None
    if optimizer != entry.choices.optimizer and not {optimizer, entry.choices.optimizer} <= set(ADAMS):
        raise ValueError(f"optimizer: got {optimizer!r}, for which {entry.name!r} was not published; expected its "
                         f"own, which print(tp.named_recipes()[{entry.name!r}]) names, or a recipe that is solved for "
                         "any optimizer: " + ", ".join(repr(one.name) for one in NAMED if one.target is not None))
    return replace(entry.choices, optimizer=optimizer)


def assumed_of_decay(entry: NamedRecipe, optimizer: str) -> str:
    """What is assumed of the weight decay of a recipe that is taken as published, "" where it was published for this
    optimizer and says it.

    >>> assumed_of_decay(named_recipe("completep"), "adam")
    "'completep' has a decoupled weight decay, and adam is assumed to have none"
    """
    if entry.choices is None:
        return ""
    if entry.choices.weight_decay is None:
        return f"{entry.name!r} says nothing of weight decay, which is assumed to be left as it is"
    if optimizer == "adam":
        kind = entry.choices.decay
        article = "an" if kind == "independent" else "a"
        return f"{entry.name!r} has {article} {kind} weight decay, and adam is assumed to have none"
    if entry.choices.decay == "independent":
        return (f"{entry.name!r} has a weight decay that is not multiplied by the learning rate; that of {optimizer}, "
                "which is, is assumed to take the same share of a weight")
    return ""


def of_powers(name: str | DepthScaling | Parametrization) -> NamedRecipe:
    """The data of a recipe that powers of L for every matrix say; ``ValueError`` for others, with what is in the way.

    >>> of_powers("gpt-2").block
    'attention and MLP, norms before'
    """
    entry = named_recipe(name)
    if entry.outside:
        raise ValueError(f"name: got {name!r}, {entry.outside}; expected other recipes, tp.named_recipes() "
                         "judges it")
    return entry


def named_recipe(name: str | DepthScaling | Parametrization) -> NamedRecipe:
    """The data of a named recipe, or of a depth scaling that stands for one.

    Raises ``ValueError`` with the names there are, and for scalings whose constants are not 1, whose matrices have
    exponents of their own, or which are not muP in width.
    """
    if isinstance(name, Parametrization):
        if name.own or name.choices is not None or not name.is_mup(ends=False):
            raise ValueError(f"name: got {_checks.short(name)}; expected one exponent for all matrices, and muP in "
                             "width")
        name = name.scaling
    if isinstance(name, DepthScaling):
        name.require_numbers()
        if name.branch != 1 or name.base_depth != 1:
            raise ValueError(f"name: got {name!r}; expected powers alone, with the constants branch=1 and "
                             "base_depth=1")
        return NamedRecipe(f"alpha = {name.alpha}, gamma = {name.gamma}", "a depth scaling", "as given", target=name)
    name = _checks.choice("name", name, (one.name for one in NAMED))
    return next(one for one in NAMED if one.name == name)


def realize(target: DepthScaling, optimizer: str, init: sp.Expr = sp.Integer(0), eps: sp.Expr | None = None,
            gradient: sp.Expr | None = None) -> DepthChoices:
    """The powers of L that realize (alpha, gamma) with an initialization L^init.

    The branch multiplier makes up the rest of alpha. eps is kept where it does not dominate the gradients; else, and
    where it is None, it goes with them, as Tensor Programs VI's Definition 4.1 has it.
    """
    branch = -(target.alpha + init)
    size = branch if gradient is None else gradient
    kept = size if eps is None or eps > size else eps
    rate = faithful_rate(optimizer, target.gamma - init, -size, -kept)
    return DepthChoices(branch, -rate, optimizer, kept, init, gradient=gradient)


def visible_decay(choices: DepthChoices, kind: str) -> sp.Expr | None:
    """The power of L of a weight decay that neither dies out nor explodes, or None where there is none."""
    a, c, b = -choices.gradient_power, -choices.lr, -choices.init
    e = None if choices.eps is None else -choices.eps

    def lost(w: sp.Expr) -> sp.Expr:
        return decay_power(choices.optimizer, c, w, a, e, b, kind)

    comparable = a - b  # from here on a coupled decay is smaller than the gradient, and what is lost grows like w
    w = comparable - lost(comparable)
    return -w if lost(w) == 0 else None


def matrix_recipe(scale: Parametrization, optimizer: object = None, depth: int | None = None,
                  base_depth: float = 1) -> MatrixRecipe:
    """The powers that realize exponents matrix by matrix: every matrix has the gradient of a block and its own rate.

    scale: a ``tp.Parametrization`` with an exponent for every matrix of a block, {"alpha": ..., "W1": ...}; optimizer:
    "adam" where none is given; depth, base_depth: as in ``tp.recipe``. Raises ``ValueError`` for anything else, raw
    powers and one gamma for all matrices included. Source: Tensor Programs VI, Definition 4.1 and Claim 5.5.

    >>> import tpcalc as tp
    >>> scale = tp.Parametrization(depth={"alpha": 1, "W1": 0, "W2": 1})
    >>> tp.theory.matrix_recipe(scale, "sgd", depth=4).factors["W2"]["branch"]
    0.25
    """
    if not isinstance(scale, Parametrization):
        raise ValueError(f"scale: got {_checks.short(scale)}; expected a tp.Parametrization")
    depth = _checks.positive_integer("depth", depth) if depth is not None else None
    base_depth = DepthScaling(base_depth=base_depth).base_depth  # refused where it is not positive
    rule = "adam" if optimizer is None else optimizer_name(optimizer)
    own = {name: scale.update_exponent(name) for name in scale.own if name not in ("U", "nV")}
    if not own:
        raise ValueError(f"scale: got {scale!r}, which names no matrix; expected an exponent for every matrix of a "
                         "block, {'alpha': ..., 'W1': ...}")
    found = {name: realize(DepthScaling(scale.alpha, gamma), rule) for name, gamma in own.items()}
    return MatrixRecipe(found, depth, base_depth)
