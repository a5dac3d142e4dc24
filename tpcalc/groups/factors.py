"""Powers of width and depth for every role: initial size, learning rate, eps and weight decay, from recipes."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache

import sympy as sp

from .._checks import choice
from ..classification.advice import eps_outgrows, as_power
from ..programs.faithful import direction_power, faithful_rate
from ..classification.own_block import own_settings_of, width_of
from ..classification.recipe import (
    ADAMS as ADAMS, assumed_of_decay, named_recipe, of_powers, published_choices, realize, visible_decay)
from ..errors import NotCovered
from ..parametrizations import DepthChoices, Scaling, width_recipe
from ..parametrizations.recipes import POST_NORM, NamedRecipe
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
def depth_choices(name: str | Scaling, optimizer: str, own: str) -> DepthChoices:
    """What a named recipe sets for parameters of a layer that directions of ``own`` move, in a plan for ``optimizer``;
    with the weight decay that stays visible where a recipe that is solved does not say it.

    Gradients carry the branch multiplier, as those of models do: a recipe with a backward pass of its own has an eps
    that is as large beside these. Raises ``ValueError`` for recipes that are no settings of parameters, or not
    published for ``optimizer``.
    """
    entry = settable(name)
    if entry.target is not None:
        choices = realize(entry.target, own)
        return replace(choices, weight_decay=visible_decay(
            choices, "coupled" if own in ("sgd", "momentum") else "decoupled"))
    choices = replace(published_choices(entry, optimizer), optimizer=own)
    decay, eps = choices.weight_decay, choices.eps
    if decay is not None and choices.decay == "independent":  # in groups the learning rate multiplies it
        decay = decay - choices.lr
    if eps is not None:
        eps = eps - choices.gradient_power + choices.branch
    return replace(choices, weight_decay=decay, decay="decoupled", eps=eps, gradient=None)


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
    given = {} if entry.target is not None else own_settings_of(entry).inits
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
        if own in ADAMS and eps_outgrows(replace(depth_choices(name, optimizer, own), weight_decay=None)):
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
    choices = depth_choices(name, optimizer, own)
    eps = choices.gradient_power if choices.eps is None else choices.eps
    if not parameter.in_layers:
        published = named_recipe(name).choices
        outside = eps if published is None or published.eps is None else published.eps
        return RolePowers(eps=outside if one_eps(name) and own in ADAMS else ZERO)
    last = parameter.role == "branch output" or parameter.of_output
    return RolePowers(choices.init if parameter.is_matrix and last else ZERO, choices.lr, eps if own in ADAMS else ZERO,
                      choices.weight_decay or ZERO, choices.branch if last else ZERO)


@dataclass(frozen=True)
class Growth:
    """What grows, from base to target: "L", "n", "fan-in", "fan-out" or a number of the forward pass, by a factor; and
    the powers of it that a parameter's settings have."""

    symbol: str
    factor: float
    powers: RolePowers


def width_growths(parameter: Parameter, optimizer: str, width: float, shared_eps: bool = False,
                  factor: sp.Expr | None = None) -> tuple[Growth, ...]:
    """What grows of a parameter with the width, and the powers of it that make a perceptron's maximal-update
    parametrization: n where all that grows does as the width does, and else fan-in and fan-out by themselves. Of a
    router, as of a head, fan-in alone grows.

    shared_eps: with the eps of matrices in layers for all, the smallest one; factor: what a recipe multiplies
    orthogonal updates with, by fan-out and fan-in: the learning rate undoes what grows of it. Raises ``NotCovered`` for
    such a factor and a matrix of which not all dimensions grow alike.

    Matrices that keep activations of order one start like fan-in^(-1/2) where fan-out grows as much or more; where it
    grows less, updates outgrow initial products, which are the smaller for it.
    """
    use, own = parameter.use, optimizer_of_role(parameter, optimizer)
    uniform = {use.fan_in, use.fan_out} <= {1, width}
    alike = use.fan_in == use.fan_out and (len(parameter.grows) > 2 or len(set(parameter.grows)) < 2)
    if factor is not None and own == SIGN and not alike:
        raise NotCovered(f"{parameter.pattern}: got the shape {parameter.shape}, of which not all dimensions grow "
                         "alike, with a recipe that multiplies updates by a factor of them; expected matrices of "
                         "layers that grow as a whole")
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
