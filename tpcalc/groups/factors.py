"""Powers of width and depth for every role: initial size, learning rate, eps and weight decay, from recipes."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache

import sympy as sp

from .._checks import choice
from ..classification.advice import as_power
from ..classification.own_block import width_of
from ..classification.recipe import assumed_of_decay, named_recipe, of_powers, published_optimizer
from ..classification.recipe_blocks import set_on_block
from ..errors import NotCovered
from ..parametrizations import Powers, Scaling, width_recipe
from ..parametrizations.recipes import POST_NORM, NamedRecipe
from ..programs.carried import carried
from ..programs.faithful import direction_power, faithful_rate
from ..programs.settings import WITH_EPS as ADAMS, Settings
from .roles import Parameter

OPTIMIZERS = ("sgd", "momentum", *ADAMS, "lion", "muon")
ORTHOGONALIZED = ("hidden", "branch output", "router", "expert", "token mixing")
SIGN = "signsgd"  # whose directions have a fixed size, as Muon's have
ZERO = sp.Integer(0)
DEPTH = "tensor_programs_vi/definition_41"
WIDTH = "meta_principled/translation"


@dataclass(frozen=True)
class RolePowers:
    """Powers of one growing variable: of the initial size, the learning rate, eps and the weight decay of a parameter,
    and of a multiplier in the forward pass."""

    init: sp.Expr = ZERO
    lr: sp.Expr = ZERO
    eps: sp.Expr = ZERO
    weight_decay: sp.Expr = ZERO
    forward: sp.Expr = ZERO

    def plus(self, other: "RolePowers") -> "RolePowers":
        """The powers of a product."""
        return RolePowers(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def folded(self, optimizer: str) -> "RolePowers":
        """Powers of that training with the multiplier as a part of the parameter, which is then that much larger.

        Its gradient is that much smaller, and so is a direction of the optimizer as far as it is linear in gradients;
        eps goes with gradients, and a step's decay takes the share that it took.
        """
        rate = self.forward * (1 + _degree(optimizer))
        return RolePowers(self.init + self.forward, self.lr + rate, self.eps - self.forward, self.weight_decay - rate)


@lru_cache(maxsize=None)
def _degree(optimizer: str) -> sp.Expr:
    """The degree of an optimizer's direction in gradients and eps together."""
    return direction_power(optimizer, sp.Integer(1), sp.Integer(1))


def optimizer_of_role(parameter: Parameter, optimizer: str) -> str:
    """Whose directions move this parameter: Muon takes the matrices of layers, and AdamW all others."""
    if optimizer != "muon":
        return optimizer
    return SIGN if parameter.in_layers and parameter.role in ORTHOGONALIZED else "adamw"


@lru_cache(maxsize=None)
def layer_settings(name: str | Scaling, optimizer: str, own: str) -> Settings:
    """What a named recipe sets for parameters of a layer that directions of ``own`` move, in a plan for ``optimizer``;
    with the weight decay that stays visible where a recipe that is solved does not say it.

    Gradients carry the branch multiplier, as those of models do: a recipe with a backward pass of its own has an eps
    that is as large beside these. Raises ``ValueError`` for recipes that are no settings of parameters, or not
    published for ``optimizer``.
    """
    entry = settable(name)
    if entry.target is not None:
        return set_on_block(entry, own).with_visible_decay("coupled" if own in ("sgd", "momentum") else "decoupled")
    published_optimizer(entry, optimizer)
    found = set_on_block(entry, own)
    there = replace(found, gradient=None, decay="decoupled")

    def in_groups(name: str, one: Powers) -> Powers:
        decay, eps = found.decay_of(name), found.eps(name)
        if decay is not None and found.decay == "independent":  # in groups the learning rate multiplies it
            one = replace(one, decay={"L": decay - found.of(name, "lr")})
        if eps is not None:
            one = replace(one, eps={"L": eps - found.gradient_power(name) + there.gradient_power(name)})
        return one

    return there.changed(in_groups)


def is_last(parameter: Parameter) -> bool:
    """Does a branch end with this parameter?"""
    return parameter.role == "branch output" or parameter.of_output


def name_in(given: Settings, last: bool) -> str:
    """A matrix of a recipe's block that a branch ends with, or one that it does not end with, where there is one."""
    ends = carried(given.net).last
    return next((name for name in given.names if (name in ends) == last), ends[-1])


def settable(name: str | Scaling) -> NamedRecipe:
    """The data of a recipe that is settings of parameters, one power of L for all matrices of a layer but for initial
    sizes; ``ValueError`` for others."""
    entry = of_powers(name)
    if entry.block == POST_NORM:
        raise ValueError(f"recipe: got {entry.name!r}, which multiplies the stream in front of norms; expected "
                         "recipes that are settings of parameters")
    return entry


def require_same_for_all(name: str | Scaling) -> NamedRecipe:
    """The data of a recipe that sets the same for all matrices of a layer, so that measured powers of the depth can be
    held against it; ``ValueError`` naming the matrices that differ in others."""
    entry = settable(name)
    found = set_on_block(entry)
    given = {name: found.of(name, "init") for name in found.names}
    smaller = {matrix: init for matrix, init in given.items() if init != 0}
    others = [matrix for matrix in given if matrix not in smaller]
    if smaller and others:
        raise ValueError(f"recipe: got {entry.name!r}, in which {', '.join(smaller)} start like "
                         f"{as_power(next(iter(smaller.values())))} and {', '.join(others)} do not; their "
                         "gradients go like other powers of the depth, and measured ones are held against one power "
                         "for all matrices of a layer; expected recipes that start all of them alike")
    return entry


def assumed(name: str | Scaling, optimizer: str) -> list[str]:
    """What a plan assumes of the weight decay and of eps, a sentence each."""
    entry = named_recipe(name)
    said = [assumed_of_decay(entry, optimizer)]
    for own in dict.fromkeys((optimizer,) if optimizer != "muon" else (SIGN, "adamw")):
        found = layer_settings(name, optimizer, own)
        if any(map(found.without_decay.outgrown, found.names)):
            said.append(f"eps of {entry.name!r} falls less than gradients do, and outgrows them from a depth on that "
                        "is not known; until then it is negligible")
    return [one for one in said if one]


def one_eps(name: str | Scaling) -> bool:
    """Is the recipe published with one eps for all parameters? In those that are derived it goes with gradients."""
    return named_recipe(name).target is None


def depth_powers(parameter: Parameter, name: str | Scaling, optimizer: str) -> RolePowers:
    """Powers of the depth: those of the recipe in layers, none outside of them.

    A recipe that is published with one eps for all parameters has it outside of layers too.
    """
    own = optimizer_of_role(parameter, optimizer)
    if parameter.role == "stream factor":  # updates of all layers' factors are aligned, and no multiplier scales them
        return RolePowers(lr=sp.Integer(-1))
    found, last = layer_settings(name, optimizer, own), is_last(parameter)
    matrix = name_in(found, last)
    eps = found.eps(matrix)
    eps = found.gradient_power(matrix) if eps is None else eps
    if not parameter.in_layers:
        published = named_recipe(name)
        outside = None if published.powers is None else set_on_block(published).eps(matrix)
        return RolePowers(eps=(eps if outside is None else outside) if one_eps(name) and own in ADAMS else ZERO)
    init = found.of(matrix, "init") if parameter.is_matrix or last else ZERO  # a bias behind a matrix adds as it does
    return RolePowers(init, found.of(matrix, "lr"), eps if own in ADAMS else ZERO,
                      found.decay_of(matrix) or ZERO, found.branch if last else ZERO)


@dataclass(frozen=True)
class Growth:
    """What grows, from base to target: "L", "n", "fan-in", "fan-out" or a number of the forward pass, by a factor; and
    the powers of it that a parameter's settings have."""

    symbol: str
    factor: float
    powers: RolePowers


def width_growths(parameter: Parameter, optimizer: str, width: float, shared_eps: bool = False,
                  factor: sp.Expr | None = None) -> tuple[Growth, ...]:
    """What grows of a parameter with the width, and the powers of it: n where all that grows does as the width does,
    and else fan-in and fan-out by themselves. Of a router, as of a head, fan-in alone grows.

    Matrices that keep activations of order one start like fan-in^(-1/2) where fan-out grows as much or more; where it
    grows less, updates outgrow initial products, which are the smaller for it.
    """
    if parameter.use is None:
        return (Growth("n", width, width_powers(parameter, optimizer, shared_eps, factor)),) if width != 1 else ()
    use, own = parameter.use, optimizer_of_role(parameter, optimizer)
    uniform = {use.fan_in, use.fan_out} <= {1, width}
    if factor is not None and own == SIGN and use.fan_in != use.fan_out:
        raise NotCovered(f"{parameter.pattern}: fan-in grows by {use.fan_in:g} and fan-out by {use.fan_out:g}, with a "
                         "recipe that multiplies updates by a factor of them; expected both to grow alike")
    ins, outs = _fan_powers(parameter, own, use.fan_out >= use.fan_in)
    fans = tuple(Growth("n" if uniform else name, grown, powers) for name, grown, powers in (
        ("fan-in", use.fan_in, ins), ("fan-out", use.fan_out, outs)) if grown != 1)
    if uniform and len(fans) == 2:
        fans = (Growth("n", width, fans[0].powers.plus(fans[1].powers)),)
    if factor is not None and own == SIGN and fans:
        power = width_of(factor)
        fans = (*fans, Growth("n", width, RolePowers(lr=-power, weight_decay=power)))
    if shared_eps and own in ADAMS and width != 1:
        smallest = _width_powers(1, False, own).eps
        fans = (*(replace(one, powers=replace(one.powers, eps=ZERO)) for one in fans),
                Growth("n", width, RolePowers(eps=smallest)))
    return fans


def _fan_powers(parameter: Parameter, own: str, out_grows_more: bool) -> tuple[RolePowers, RolePowers]:
    """Powers of fan-in and of fan-out: those of a head, of which fan-in alone grows, and those of an embedding; both
    together are those of a hidden matrix."""
    if parameter.role == "tied":
        return RolePowers(forward=_width_powers(2, False, own).init), _width_powers(0, False, own)
    if not parameter.is_matrix:
        return RolePowers(), _width_powers(0, True, own)
    ins, outs, both = (_width_powers(layer, False, own) for layer in (2, 0, 1))
    if own == SIGN:  # orthogonal directions, of spectral norm 1, where fan-out over fan-in, to the power 1/2, is wanted
        ins, outs = replace(ins, lr=both.init, weight_decay=-both.init), replace(outs, lr=-both.init,
                                                                                 weight_decay=both.init)
    start = (both.init, ZERO) if out_grows_more else (ins.init, both.init - ins.init)
    return replace(ins, init=start[0]), replace(outs, init=start[1])


def width_powers(parameter: Parameter, optimizer: str, shared_eps: bool = False,
                 factor: sp.Expr | None = None) -> RolePowers:
    """Powers of the width that make a perceptron's maximal-update parametrization, for this optimizer.

    shared_eps: with the eps of matrices in layers for all, the smallest one; factor: what a recipe multiplies
    orthogonal updates with, by fan-out and fan-in: the learning rate undoes what grows of it. Raises
    ``ValueError`` for such a factor and a matrix of which not all dimensions grow.
    """
    found = _own_width_powers(parameter, optimizer)
    if factor is not None and optimizer_of_role(parameter, optimizer) == SIGN:
        if not all(parameter.grows):
            raise ValueError(f"{parameter.pattern}: got the shape {parameter.shape}, of which not all dimensions grow,"
                             " with a recipe that multiplies updates by a factor of them; expected matrices of "
                             "layers that grow as a whole")
        return replace(found, lr=found.lr - width_of(factor), weight_decay=found.weight_decay + width_of(factor))
    if shared_eps and optimizer_of_role(parameter, optimizer) in ADAMS:
        return replace(found, eps=_width_powers(1, False, optimizer_of_role(parameter, optimizer)).eps)
    return found


def _own_width_powers(parameter: Parameter, optimizer: str) -> RolePowers:
    own = optimizer_of_role(parameter, optimizer)
    if own == SIGN:  # matrices whose direction is orthogonal move by their own size at any width
        return RolePowers(init=_width_powers(1, False, SIGN).init)
    fixed = not parameter.is_matrix and not any(parameter.grows)
    if fixed:
        return _width_powers(2, True, own)
    layer = {"hidden": 1, "branch output": 1, "output": 2}.get(parameter.role, 0)
    found = _width_powers(layer, not parameter.is_matrix, own)
    if parameter.role == "tied":  # the head reads it with the multiplier that an output matrix carries in its entries
        found = RolePowers(found.init, found.lr, found.eps, found.weight_decay, _width_powers(2, False, own).init)
    return found


@lru_cache(maxsize=None)
def _width_powers(layer: int, vector: bool, optimizer: str) -> RolePowers:
    """Powers for layer 0, 1 or 2 of a perceptron: its matrix, or a vector beside it.

    Rates are those of gradient descent; other optimizers move weights by as much. What an output is made of is of order
    one, and all gradients behind the output matrix have its size.
    """
    scaling = width_recipe("muP", 3).canonical()
    fan_in = (0, 1, 1)

    def init(i: int) -> sp.Expr:
        return -(scaling.p[i] + fan_in[i]) / 2

    rate = scaling.r - scaling.q[layer] - (0 if vector else fan_in[layer])
    gradient = ZERO if layer == 2 else init(2)
    lr = -faithful_rate(optimizer, -(rate + gradient), -gradient, -gradient)
    start = (ZERO if layer == 2 else -scaling.p[layer] / 2) if vector else init(layer)
    return RolePowers(start, lr, gradient if optimizer in ADAMS else ZERO, -lr)


def checked_optimizer(value: object) -> str:
    """One of ``OPTIMIZERS``; ``ValueError`` for any other."""
    return choice("optimizer", value, OPTIMIZERS)
