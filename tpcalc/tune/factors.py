"""Powers of width and depth for every role: initial size, learning rate, eps and weight decay, from recipes."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Mapping

import sympy as sp

from .._checks import choice
from ..errors import NotCovered
from ..scaling import Powers, Scaling, width_recipe
from ..scaling.parametrization import ROLES, as_power
from ..training.by_parameter import powers_of_role
from ..training.carried import carried
from ..optimizers.faithful import direction_power
from ..training.settings import WITH_EPS as ADAMS, Settings
from .blocks import set_on_block
from .named import POST_NORM, NamedRecipe, width_of
from .recipe import assumed_of_decay, named_recipe, of_powers, published_optimizer
from .parameters import FREE, SHARES, Parameter

ADJUSTED = {f"muon-{mode}": factor for mode, factor in (("original", named_recipe("muon").factor), (
    "match_rms_adamw", named_recipe("muon-unit-rms").factor))}  # torch.optim.Muon, by its adjust_lr_fn
LIKE = {"adafactor": "lion", "soap": "adamw"}  # whose powers of the depth they have: directions of a fixed size
SPHERES = ("muonh", "adamh")  # matrices of layers on Frobenius spheres, by steps relative to their norms
OPTIMIZERS = ("sgd", "momentum", *ADAMS, "lion", "muon", *ADJUSTED, *LIKE, *SPHERES)
ORTHOGONALIZED = ("hidden", "branch output", "router", "expert", "token mixing")
SIGN = "signsgd"  # whose directions have a fixed size, as Muon's have
ZERO = sp.Integer(0)
DEPTH = "tensor_programs_vi/definition_41"
WIDTH = "meta_principled/translation"
LOOPS = "tpcalc/loops"

ROUTED = ("router", "expert")
TOGETHER = "experts that act on one vector are as one perceptron, of so many rows, or columns that updates add up over"
ROWS = "orthogonal updates of a router are those of all its rows"
GATES = "gates are shares, which are the smaller the more experts there are to share; it is taken back"
PART = "an expert has its gradient from the vectors that it acts on, k/E of a batch"


AS_WRITTEN = ("gates are shares whose sum does not know how many experts act, and as models are written neither do "
              "initial sizes: more active experts make the branch smaller (convention A); initial sizes here grow like "
              "the root of how many act (convention B)")
FEW = ("learning rates by gradient descent, and eps, go with how many experts there are over how many act, as where "
       "words have a share c in common and experts over active ones are fewer than c times the words of a batch; "
       "beyond that words move an expert one by one, and there is no such factor")
BALANCED = "experts act on equal shares of a batch"


OneSize = Mapping[str, sp.Expr]  # by setting, powers of one growing variable


def fold(powers: Powers, optimizer: str) -> Powers:
    """What is multiplied with powers of a parameter so that training is that with the multiplier as a part of it, which
    is then that much larger.

    Its gradient is that much smaller, and so is a direction of the optimizer as far as it is linear in gradients; eps
    goes with gradients, and a step's decay takes the share that it took.
    """
    front = powers.multiplier
    less = {size: -power for size, power in front.items()}
    rate = {size: power * (1 + gradient_degree(optimizer)) for size, power in front.items()}
    return Powers(less, front, rate, less, {size: -power for size, power in rate.items()})


@lru_cache(maxsize=None)
def gradient_degree(optimizer: str) -> sp.Expr:
    """The degree of an optimizer's direction in gradients and eps together."""
    return direction_power(optimizer, sp.Integer(1), sp.Integer(1))


def is_muon(optimizer: str) -> bool:
    """Do orthogonal directions move matrices of layers?"""
    return optimizer in ("muon", "muonh") or optimizer in ADJUSTED


def on_spheres(optimizer: str) -> bool:
    """Do matrices of layers keep their Frobenius norms, and move by steps that are relative to them?"""
    return optimizer in SPHERES


def owns_of(optimizer: str) -> tuple[str, ...]:
    """Whose directions move parameters: matrices of layers first, and all others. On spheres sizes of directions are
    nobody's: those of signs stand for them."""
    return (SIGN, "adamw") if is_muon(optimizer) or on_spheres(optimizer) else (LIKE.get(optimizer, optimizer),)


def optimizer_of_role(parameter: Parameter, optimizer: str) -> str:
    """Whose directions move this parameter: Muon takes the matrices of layers, and AdamW all others. torch's takes no
    weights of three dimensions and more, which AdamW has then."""
    orthogonal = parameter.in_layers and parameter.role in ORTHOGONALIZED and (
        optimizer not in ADJUSTED or len(parameter.shape) == 2)
    return owns_of(optimizer)[0 if orthogonal else -1]


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
    for own in owns_of(optimizer):
        found = layer_settings(name, optimizer, own)
        if any(map(found.without_decay.outgrown, found.names)):
            said.append(f"eps of {entry.name!r} falls less than gradients do, and outgrows them from a depth on that "
                        "is not known; until then it is negligible")
    return [one for one in said if one]


def one_eps(name: str | Scaling) -> bool:
    """Is the recipe published with one eps for all parameters? In those that are derived it goes with gradients."""
    entry = named_recipe(name)
    return entry.powers is not None and bool(entry.optimizer)


def depth_powers(parameter: Parameter, name: str | Scaling, optimizer: str) -> Powers:
    """Powers of the depth: those of the recipe in layers, none outside of them.

    A recipe that is published with one eps for all parameters has it outside of layers too.
    """
    own = optimizer_of_role(parameter, optimizer)
    if parameter.role == "stream factor":  # updates of all layers' factors are aligned, and no multiplier scales them
        return Powers(lr={"L": -1})
    found, last = layer_settings(name, optimizer, own), is_last(parameter)
    matrix = name_in(found, last)
    eps = found.eps(matrix)
    eps = found.gradient_power(matrix) if eps is None else eps
    if not parameter.in_layers:
        published = named_recipe(name)
        outside = None if published.powers is None else set_on_block(published).eps(matrix)
        return Powers(eps={"L": eps if outside is None else outside}) if one_eps(name) and own in ADAMS else Powers()
    init = found.of(matrix, "init") if parameter.is_matrix or last else ZERO  # a bias behind a matrix adds as it does
    front = found.of(matrix, "multiplier") + (found.branch if last else ZERO)
    return Powers({"L": front}, {"L": init}, {"L": found.of(matrix, "lr")},
                  {"L": eps} if own in ADAMS else None, {"L": found.decay_of(matrix) or ZERO})


def depth_reason(parameter: Parameter, name: str | Scaling, own: str) -> str:
    """Why a parameter has the powers of ``depth_powers``, in words; own: whose directions move it."""
    if parameter.role == "stream factor":
        return "a factor of the stream itself: updates of all layers' factors are aligned, and no multiplier scales it"
    entry = named_recipe(name)
    source = f"{entry.title} ({entry.source})" if entry.source else entry.title
    if not parameter.in_layers:
        shared = ", but for the one eps of all parameters" if one_eps(name) and own in ADAMS else ""
        return f"{source} leaves it, outside of layers, as it is{shared}"
    kind = "matrix" if parameter.is_matrix else "vector"
    how = f"solved for {own}" if entry.target is not None else "as published"
    return f"{source}, {how}: a {kind} of a layer, which {'a' if is_last(parameter) else 'no'} branch ends with"


def width_growths(parameter: Parameter, optimizer: str, width: float, shared_eps: bool = False,
                  factor: sp.Expr | None = None, stays: bool = False) -> tuple[Powers, dict[str, float]]:
    """Powers of what grows of a parameter with the width that make a perceptron's maximal-update parametrization, and
    by what it grows: n where all that grows does as the width does, and else fan-in and fan-out by themselves. Of a
    router, as of a head, fan-in alone grows. stays: the stream has one width, as where experts or hidden layers alone
    grow, and nothing is called n.

    shared_eps: with the eps of matrices in layers for all, the smallest one; factor: what a recipe multiplies
    orthogonal updates with, by fan-out and fan-in: the learning rate undoes what grows of it. Raises ``NotCovered`` for
    such a factor and a matrix of which not all dimensions grow alike.

    Experts that act together are as one matrix whose fan-in or fan-out is theirs times how many act: initial sizes
    compare these.

    Matrices that keep activations of order one start like fan-in^(-1/2) where fan-out grows as much or more; where it
    grows less, updates outgrow initial products, which are the smaller for it.
    """
    use, own = parameter.use, optimizer_of_role(parameter, optimizer)
    if optimizer == "soap" and parameter.is_matrix and not use.fan_in == use.fan_out == 1:
        raise NotCovered(f"{parameter.pattern}: got a matrix that grows with the width, with soap, whose steps go with "
                         "the width as Muon's do while gradients have a fixed rank, and as Adam's do where it is full; "
                         "expected models of one width")
    factor = ADJUSTED.get(optimizer, factor)
    uniform = not stays and {use.fan_in, use.fan_out} <= {1, width}
    alike = use.fan_in == use.fan_out and (len(parameter.grows) > 2 or len(set(parameter.grows)) < 2)
    if factor is not None and own == SIGN and not alike:
        raise NotCovered(f"{parameter.pattern}: got the shape {parameter.shape}, of which not all dimensions grow "
                         f"alike, with {optimizer} updates that are multiplied by a factor of them; expected matrices "
                         "of layers that grow as a whole")
    powers, growth = Powers(), dict[str, float]()
    for size, grown, each in zip(("fan_in", "fan_out"), (use.fan_in, use.fan_out),
                                 _fan_powers(parameter, own, _out_grows_more(parameter))):
        if grown != 1:
            name = "n" if uniform else size
            powers, growth[name] = powers.times(_in(name, each)), grown
    if factor is not None and own == SIGN and growth:
        power, size = width_of(factor), "n" if uniform else "fan_in"
        powers, growth[size] = powers.times(_in(size, {"lr": -power, "decay": power})), use.fan_in
    if shared_eps and own in ADAMS and width != 1:
        powers, growth["n"] = replace(powers, eps={"n": _width_powers(1, False, own)["eps"]}), width
    return powers, growth


def expert_growths(parameter: Parameter, optimizer: str, factor: sp.Expr | None = None) -> list[tuple[str, Powers]]:
    """Powers of how many experts there are, E, and of how many act, k, with their reasons.

    What acts together is as one perceptron: k times as many rows of a router or of experts' first matrices, and k times
    as many columns of those that a branch ends with, over which updates add up, whatever each is moved by. Gates that
    the forward pass makes smaller are taken back. A matrix of an expert has a gradient of the share k/E of a batch.

    factor: as in ``width_growths``. Raises ``NotCovered`` for one beside a router with more rows, and for SOAP.
    """
    use, own = parameter.use, optimizer_of_role(parameter, optimizer)
    if use.experts == use.active == 1 or parameter.role not in ROUTED:
        return []
    if optimizer == "soap":
        raise NotCovered(f"{parameter.pattern}: got experts that grow in number by {use.experts:g}, active ones by "
                         f"{use.active:g}, with soap, whose steps go with the rank of gradients; expected as many")
    if parameter.role == "router" and own == SIGN and ADJUSTED.get(optimizer, factor) is not None and use.experts != 1:
        raise NotCovered(f"{parameter.pattern}: got experts that grow in number by {use.experts:g}, with {optimizer} "
                         "updates that are multiplied by a factor of fan-in and fan-out; expected as many")
    moved, degree = "lion" if own == SIGN else own, gradient_degree(own)
    ins, outs = _fan_powers(parameter, moved, _out_grows_more(parameter))
    found = [(TOGETHER, _in("k", ins if is_last(parameter) else outs))]
    if parameter.role == "router" and own == SIGN:  # whose updates are those of all its rows
        found.append((ROWS, _in("E", {"lr": -_width_powers(1, False, own)["init"],
                                      "decay": _width_powers(1, False, own)["init"]})))
    if is_last(parameter) and use.gates != FREE:
        front = _in("k" if use.gates == SHARES else "E", {"multiplier": sp.Integer(1)})
        found.append((GATES, front.times(fold(front, own))))
    part = {"E": sp.Integer(1), "k": -sp.Integer(1)}  # of a batch, to the power -1
    found.append((PART, Powers(lr={size: power * degree for size, power in part.items()},
                               eps={size: -power for size, power in part.items()} if own in ADAMS else None,
                               decay={size: -power * degree for size, power in part.items()})))
    return found


def _out_grows_more(parameter: Parameter) -> bool:
    """Does what a matrix makes grow as what it reads, or more? Of experts, of all that act together: what these bring
    to the stream is of order one at first, however many act."""
    use = parameter.use
    if parameter.role == "expert" and is_last(parameter):
        return True
    return use.active * use.fan_out >= use.fan_in


def _in(size: str, powers: OneSize) -> Powers:
    return Powers.in_one(size, size, powers)


def _fan_powers(parameter: Parameter, own: str, out_grows_more: bool) -> tuple[OneSize, OneSize]:
    """Powers of fan-in and of fan-out: those of a head, of which fan-in alone grows, and those of an embedding; both
    together are those of a hidden matrix."""
    if parameter.role == "tied":
        return {"multiplier": _width_powers(2, False, own)["init"]}, _width_powers(0, False, own)
    if not parameter.is_matrix:
        return {}, _width_powers(0, True, own)
    ins, outs, both = (_width_powers(layer, False, own) for layer in (2, 0, 1))
    if own == SIGN:  # orthogonal directions, of spectral norm 1, where fan-out over fan-in, to the power 1/2, is wanted
        ins, outs = ({**one, "lr": power, "decay": -power} for one, power in ((ins, both["init"]),
                                                                              (outs, -both["init"])))
    start = (both["init"], ZERO) if out_grows_more else (ins["init"], both["init"] - ins["init"])
    return {**ins, "init": start[0]}, {**outs, "init": start[1]}


@lru_cache(maxsize=None)
def _width_powers(layer: int, vector: bool, optimizer: str) -> OneSize:
    """Powers for layer 0, 1 or 2 of a perceptron that is muP: its matrix, or a vector beside it; one of outputs starts
    as it is."""
    found = powers_of_role(width_recipe("muP", 3), ROLES[layer], optimizer, vector=vector)
    start = ZERO if vector and layer == 2 else found.of("init", "n")
    return {"init": start, "lr": found.of("lr", "n"), "eps": found.of("eps", "n") if optimizer in ADAMS else ZERO,
            "decay": found.of("decay", "n")}


def checked_optimizer(value: object) -> str:
    """One of ``OPTIMIZERS``; ``ValueError`` for any other."""
    return choice("optimizer", value, OPTIMIZERS)
