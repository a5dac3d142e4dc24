"""``recipe``: what to set for a depth, for a number of visits of its layers, or for every matrix of a network."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import overload

import sympy as sp

from .. import _checks
from ..errors import NotCovered
from ..models.network import Network
from ..optimizers.faithful import direction_power
from ..scaling import DepthScaling, Parametrization
from .network_recipe import NetworkRecipe, network_recipe
from .recipe import Recipe, named_recipe, recipe_of_depth


@overload
def recipe(name: str | DepthScaling | Parametrization = ..., optimizer: object = ..., depth: int | None = ...,
           base_depth: float = ..., visits: int = ..., data: str | None = ..., net: None = ...) -> Recipe: ...


@overload
def recipe(name: str | DepthScaling | Parametrization = ..., optimizer: object = ..., *, net: Network
           ) -> NetworkRecipe: ...


def recipe(name: str | DepthScaling | Parametrization = "depth-mup", optimizer: object = None,
           depth: int | None = None, base_depth: float = 1, visits: int = 1, data: str | None = None,
           net: Network | None = None) -> Recipe | NetworkRecipe:
    """The multipliers that a named recipe sets at ``depth``, relative to a network of depth ``base_depth``.

    "depth-mup" and "ode" are solved for ``optimizer`` ("adam" where none is given), with the matrices' initialization
    left as it is, and so is a ``tp.DepthScaling``; ``tp.theory.matrix_recipe`` has exponents matrix by matrix. Powers
    of L by role, a ``tp.Parametrization`` of "branch", "*" and "last", are taken as they are. The others are taken as
    published: ``optimizer`` must be that of the source, Adam and AdamW standing for each other; ``caveat`` says what is
    then assumed of the weight decay. visits: how often every layer is visited, with the same matrices, where the base
    visits it once: the powers of that are counted as ``tp.theory.classify_visits`` does, for recipes that are solved.
    data: do samples have a "fixed" number of directions, or as many as the "width"? A gradient's rank goes with that,
    and by it go powers of n of Muon's and normalized steps and of weights on spheres, ``of_width``: of the rate, and of
    a step's Frobenius norm over that of the weights. None leaves them out, and ``assumed`` says so.
    net: a network, for which a ``tpcalc.tune.network_recipe.NetworkRecipe`` is returned: what to set for every matrix
    of it, routers and experts among them, as powers of the width n, the width m of a hidden layer, the number E of
    experts, k of those that act, and the depth L, as plans for models in PyTorch have them; optimizer: any of these.

    Raises ``ValueError`` for unknown names and optimizers, ``data`` beside an optimizer that does not go by the rank, a
    depth that is not a whole number, and recipes that no power of L for one matrix can say. Source: Tensor Programs VI,
    Definition 4.1 and Claim 5.5; for the others ``.source``.

    >>> import tpcalc as tp
    >>> tp.recipe("depth-mup", optimizer="sgd", depth=64).factors["branch"]
    0.125
    >>> [tp.recipe("depth-mup", tp.NormalizedSGD(), data=data).of_width["lr"] for data in ("fixed", "width")]
    [0, 1/2]
    >>> tp.recipe("depth-mup", "adamw", net=tp.ResNet("tanh", "mlp", norm="rms")).matrices["W2"].lr
    {'L': -1/2, 'm': -1}
    """
    if net is not None:
        for what, given, usual in (("depth", depth, None), ("base_depth", base_depth, 1), ("visits", visits, 1),
                                   ("data", data, None)):
            if given != usual:
                raise ValueError(f"{what}: got {_checks.short(given)} with net=; expected {usual}, and sizes for the "
                                 "recipe's factors(base, target)")
        return network_recipe(name, optimizer, net)
    found = recipe_of_depth(name, optimizer, depth, base_depth, data)
    if _checks.whole_number("visits", visits, 1) == 1:
        return found
    if named_recipe(name).target is None:
        raise NotCovered(f"visits: got {visits} with {found.name!r}, which was published for layers that are visited "
                         "once; expected 1, or a recipe that is solved")
    powers = powers_of_visits(found.settings.net, found.settings.optimizer)
    return replace(found, visits=visits, of_visits=dict(zip(("branch", "lr"), powers)))


def solved_powers(name: str | DepthScaling | Parametrization, net: Network, opt: str) -> tuple[sp.Expr, sp.Expr]:
    """``powers_of_visits`` for a recipe that is solved, of an optimizer of plans; ``NotCovered`` for others."""
    entry = named_recipe(name)
    if entry.target is None:
        raise NotCovered(f"recipe: got {entry.name!r}, which was published for layers that are visited once; expected "
                         "a recipe that is solved")
    return powers_of_visits(net, "sgd" if direction_power(opt, sp.Integer(1), sp.Integer(1)) else "adam")


@lru_cache(maxsize=16)
def powers_of_visits(net: Network, opt: str) -> tuple[sp.Expr, sp.Expr]:
    """The powers of N that branch multipliers and learning rates of an optimizer are to have: the largest branches with
    which training is stable and learns features, at one rate.

    Raises ``NotCovered`` where wishes exclude each other.

    >>> import tpcalc as tp
    >>> powers_of_visits(tp.ResNet("tanh", "mlp"), "adam")
    (-1, 0)
    """
    from ..verdicts.wishes import solve  # recipes of a depth know no solver
    found = solve(net, opt, ("stable", "nontrivial", "feature learning", "one learning rate"),
                  maximize=("*", "multiplier"), grows="N")
    if found.conflict is not None:
        raise NotCovered(f"visits: no powers are known for {net!r}, {opt}: {found.excluded}")
    lr, = {power for (_, kind), power in found.settings.items() if kind == "lr"}
    return found.settings["*", "multiplier"], lr
