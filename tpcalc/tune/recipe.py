"""Recipes: the multipliers to set, solved from the sizes that updates must have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping

import sympy as sp

from .. import _checks
from .._shown import Short
from .._text import Aligned
from ..derivations.printing import latex
from ..errors import NotCovered
from ..scaling import DepthScaling, Parametrization, Powers
from ..scaling.depth import EMBEDDING_READOUT_FAMILIES
from ..scaling.parametrization import as_power as written
from ..models import ResNet
from ..training.by_parameter import BRANCH, LAST
from ..optimizers.faithful import DECAYS
from ..optimizers.updates import DIRECTIONS, finite_batches, optimizer_name, rank_powers
from ..optimizers.sgd import on_sphere
from ..models.networks import NETWORKS, Network
from ..training.settings import WITH_EPS, Settings
from .blocks import realized_settings, set_on_block
from .named import LAYER, NAMED, NamedRecipe, width_of

MEANING = {
    "branch": "branch multiplier", "init": "initial standard deviation", "lr": "learning rate of the block's matrix",
    "multiplier": "multiplier of the matrix", "eps": "eps", "weight_decay": "weight decay",
    **{f"weight_decay_{kind}": f"weight decay, {kind}" for kind in DECAYS}}

IN_WIDTH = {"lr": "learning rate, in width", "relative step": "a step's norm over the weights'"}

MATRIX = "W"  # of a block of one matrix


@dataclass(frozen=True, repr=False)
class Recipe(Short, Aligned):
    """What to multiply the settings of a network of depth ``base_depth`` with at ``depth``.

    settings: the powers of the depth multiplier, depth / base_depth, for every matrix; decays: those of the weight
    decay, for every kind that then stays visible; visits: how often layers are visited, against once in the base, and
    of_visits: the powers of that, by name, beside those of the depth; changes: what is different from what was audited,
    a sentence each; caveat: what of the source's blocks verdicts are not about. of_width: by name, the powers of n
    that a batch's rank decides, where ``data`` said what that is; assumed: what they take for granted where it did not.

    >>> import tpcalc as tp
    >>> tp.recipe("depth-mup", optimizer="adam", depth=96, base_depth=12).factors["branch"]
    0.3535533905932738
    """

    name: str
    settings: Settings
    decays: dict[str, sp.Expr]
    changes: tuple[str, ...] = ()
    depth: int | None = None
    base_depth: float = 1
    source: str = ""
    caveat: str = ""
    visits: int = 1
    of_visits: dict[str, sp.Expr] = field(default_factory=dict)
    of_width: dict[str, sp.Expr] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()

    @property
    def depth_multiplier(self) -> float:
        """depth / base_depth; ``ValueError`` where no depth was given."""
        if self.depth is None:
            raise ValueError("depth: got None; expected a whole number of at least 1, as in tp.recipe(depth=96)")
        return self.depth / self.base_depth

    @property
    def powers(self) -> dict[str, sp.Expr]:
        """Powers of the depth multiplier by name, those of the last matrix of a branch; of the weight decay one for
        every kind that is visible."""
        decays = {f"weight_decay_{kind}": power for kind, power in self.decays.items()}
        return {**self.settings.said(self.settings.names[-1]), **decays}

    @property
    def factors(self) -> dict[str, float]:
        """The powers as numbers at ``depth`` and ``visits``."""
        return {name: self.depth_multiplier ** float(power) * self.visits ** float(self.of_visits.get(name, 0))
                for name, power in self.powers.items()}

    def latex(self) -> str:
        """The factors as lines of an ``aligned`` environment."""
        base = "L" if self.depth is None else r"\left(L / L_0\right)"
        return " \\\\\n".join(rf"\text{{{MEANING[name]}}} &\propto {base}^{{{latex(power)}}}"
                              + (rf" N^{{{latex(self.of_visits[name])}}}" if self.of_visits.get(name, 0) else "")
                              for name, power in self.powers.items())

    def __str__(self) -> str:
        lines = [f"{self.name}, {self.settings.optimizer}" + (
            "" if self.depth is None else f": depth {self.depth}, {self.depth_multiplier:g} times {self.base_depth}")
            + f", {self.visits} visits" * (self.visits > 1)]
        for name, power in self.powers.items():
            factor = "" if self.depth is None else f"  x {self.factors[name]:.6g}"
            of_visits = f" N^({self.of_visits[name]})" if self.of_visits.get(name, 0) else ""
            lines.append(f"  {MEANING[name]:<36} L^({power}){of_visits}{factor}")
        lines += [f"  {IN_WIDTH[name]:<36} n^({power})" for name, power in self.of_width.items()]
        return "\n".join([*lines, *self.changes, *([f"but: {self.caveat}"] if self.caveat else []),
                          *(f"assumed: {one}" for one in self.assumed)])


@dataclass(frozen=True, repr=False)
class MatrixRecipe(Short):
    """The powers of L to set for every matrix of a block, for one optimizer; ``factors``: as numbers at ``depth``.

    >>> import tpcalc as tp
    >>> print(tp.theory.matrix_recipe(tp.Parametrization(depth={"alpha": 1, "W1": 0, "W2": 1}), optimizer="sgd"))
    W1: branch multiplier L^(-1), initial standard deviation 1, learning rate of the block's matrix L
    W2: branch multiplier L^(-1), initial standard deviation 1, learning rate of the block's matrix 1
    """

    settings: Settings
    depth: int | None = None
    base_depth: float = 1

    @property
    def factors(self) -> dict[str, dict[str, float]]:
        """What to multiply the settings of a network of depth ``base_depth`` with, by matrix and setting."""
        if self.depth is None:
            raise ValueError("depth: got None; expected a whole number of at least 1, as in tp.recipe(depth=96)")
        ratio = self.depth / self.base_depth
        return {name: {key: ratio ** float(size) for key, size in self.settings.said(name).items()}
                for name in self.settings.powers}

    def __str__(self) -> str:
        return "\n".join(f"{name}: " + ", ".join(
            f"{MEANING[key]} {written(size)}" for key, size in self.settings.said(name).items())
            for name in self.settings.powers)


def recipe_of_depth(name: str | DepthScaling | Parametrization, optimizer: object, depth: int | None,
                    base_depth: float, data: str | None = None) -> Recipe:
    """The multipliers that a named recipe sets at ``depth``; ``tpcalc.recipe`` says what the arguments are.

    >>> recipe_of_depth("depth-mup", "sgd", 64, 1).factors["branch"]
    0.125
    """
    if depth is not None:
        depth = _checks.positive_integer("depth", depth)
    base_depth = DepthScaling(base_depth=base_depth).base_depth  # refused where it is not positive
    if isinstance(name, Parametrization) and name.parameters is None and name.own:
        raise ValueError(f"name: got {_checks.short(name)}, which has an exponent for every matrix; expected one "
                         "for all of them, tp.theory.matrix_recipe has the others")
    entry = of_powers(name)
    if on_sphere(optimizer) and entry.target is None:
        _require_nothing_of_norms(entry, optimizer)
    asked = None if optimizer is None else optimizer_name(optimizer)
    decays: dict[str, sp.Expr] = {}
    if entry.target is not None:
        found = set_on_block(entry, asked or "adam")
        kinds = () if on_sphere(optimizer) else DECAYS
        decays = {kind: power for kind in kinds if (power := found.visible_decay(MATRIX, kind)) is not None}
    else:
        found = set_on_block(entry, published_optimizer(entry, asked or entry.optimizer or "adam"))
    assumed = "" if asked is None else assumed_of_decay(entry, asked)
    of_width, taken = _of_width(found.optimizer if optimizer is None else optimizer, width_of(entry.factor), data)
    return Recipe(entry.name, found, decays, depth=depth, base_depth=base_depth, source=entry.source,
                  caveat="; ".join(filter(None, (entry.caveat, assumed))), of_width=of_width, assumed=taken)


def _require_nothing_of_norms(entry: NamedRecipe, optimizer: object) -> None:
    """Refuse weights on spheres for what was published for free ones, and for powers with a decay."""
    powers = entry.powers or {}
    if entry.optimizer or any(one.decay is not None for one in powers.values()):
        what = "which was published for weights whose norms move" if entry.optimizer else "which have a weight decay"
        raise NotCovered(f"optimizer: got {_checks.short(optimizer)}, whose weights keep their norms, with "
                         f"{entry.name!r}, {what}; expected sphere=False, or a recipe that is solved")


def _of_width(optimizer: object, outgrown: sp.Expr, data: str | None) -> tuple[dict[str, sp.Expr], tuple[str, ...]]:
    """Powers of n that go by the rank of gradients, and what is taken for granted of it; outgrown: by what power of n
    a recipe's own factor multiplies updates, which the learning rate undoes."""
    if data is None:
        return {}, finite_batches(optimizer)
    data = _checks.choice("data", data, DIRECTIONS)
    powers = rank_powers(optimizer)
    if powers is None:
        raise ValueError(f"data: got {data!r} with {_checks.short(optimizer)}, of which no power of the width that "
                         "goes by the rank of gradients is known; expected None, or tp.Muon, tp.NormalizedSGD, or "
                         "weights on spheres")
    found = powers.in_width(data)
    return {**found, "lr": found["lr"] - outgrown}, ()


def published_optimizer(entry: NamedRecipe, optimizer: str) -> str:
    """An optimizer that a recipe is taken for as published; Adam and AdamW have one recipe.

    Raises ``ValueError`` for one that it was not published for.
    """
    if entry.optimizer and optimizer != entry.optimizer and not {optimizer, entry.optimizer} <= set(WITH_EPS):
        raise ValueError(f"optimizer: got {optimizer!r}, for which {entry.name!r} was not published; expected its "
                         f"own, which print(tp.named_recipes()[{entry.name!r}]) names, or a recipe that is solved for "
                         "any optimizer: " + ", ".join(repr(one.name) for one in NAMED if one.target is not None))
    return optimizer


def assumed_of_decay(entry: NamedRecipe, optimizer: str) -> str:
    """What is assumed of the weight decay of a recipe that is taken as published, "" where it was published for this
    optimizer and says it.

    >>> assumed_of_decay(named_recipe("completep"), "adam")
    "'completep' has a decoupled weight decay, and adam is assumed to have none"
    """
    if entry.powers is None:
        return ""
    if all(one.decay is None for one in entry.powers.values()):
        return f"{entry.name!r} says nothing of weight decay, which is assumed to be left as it is"
    if optimizer == "adam":
        article = "an" if entry.decay == "independent" else "a"
        return f"{entry.name!r} has {article} {entry.decay} weight decay, and adam is assumed to have none"
    if entry.decay == "independent":
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
    """The data of a named recipe, or of a depth scaling, or of powers of L by role, that stands for one.

    Raises ``ValueError`` with the names there are, and for scalings whose constants are not 1, whose matrices have
    exponents of their own, or which are not muP in width.

    >>> from tpcalc.scaling import Powers
    >>> named_recipe(Parametrization(depth={"*": Powers(lr={"L": -1}), "last": Powers(init={"L": "-1/2"})})).name
    'powers of *, last'
    """
    if isinstance(name, Parametrization):
        if name.of_depth_alone and name.width == "muP":
            return _by_role(name.parameters or {})
        if name.parameters is not None or name.own or not name.is_mup(ends=False):
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


def _by_role(given: Mapping[str, Powers]) -> NamedRecipe:
    """Powers of L of what branches end with and of all others, as a recipe."""
    if not set(given) <= {BRANCH, LAST, "*"}:
        raise NotCovered(f"name: got powers of {', '.join(given)}; expected those of '*' and of {LAST!r}, what "
                         f"branches end with, for any matrices of layers, and a multiplier for {BRANCH!r}")
    return NamedRecipe(f"powers of {', '.join(given)}", "powers by role", "as given", given, optimizer="", block=LAYER)


def matrix_recipe(scale: Parametrization, optimizer: object = None, depth: int | None = None,
                  base_depth: float = 1, net: Network | None = None) -> MatrixRecipe:
    """The powers that realize exponents matrix by matrix: every matrix has a gradient of its own and its own rate.

    scale: a ``tp.Parametrization`` with an exponent for every matrix of a block, {"alpha": ..., "W1": ...}; optimizer:
    "adam" where none is given; depth, base_depth: as in ``tp.recipe``; net: whose matrices these are, default a block
    that is a product of them. Raises ``ValueError`` for anything else, powers by parameter and one gamma for all
    matrices included. Source: Tensor Programs VI, Definition 4.1 and Claim 5.5.

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
    own = [name for name in scale.own if name not in EMBEDDING_READOUT_FAMILIES]
    if not own:
        raise ValueError(f"scale: got {scale!r}, which names no matrix; expected an exponent for every matrix of a "
                         "block, {'alpha': ..., 'W1': ...}")
    if net is None:
        net = ResNet() if own == [MATRIX] else ResNet("linear", "mlp", matrices=max(len(own), 2))
    _checks.instance("net", net, Network, f"{NETWORKS} or None")
    scale.over(net.trained_of_block, ends=False)  # refuses names that are not the network's
    return MatrixRecipe(realized_settings(net, rule, scale), depth, base_depth)
