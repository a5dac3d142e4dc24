"""What to set for every matrix of a network, as powers of all sizes that grow: n, m, E, k and L."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, reduce
from typing import Iterator, Mapping

import sympy as sp

from .. import _checks
from .._shown import Short, Tabled, text_table
from .._types import Fields, Number
from ..errors import NotCovered
from ..models.experts import ROUTER, MoE
from ..models.networks import NETWORKS, Network, Residual
from ..optimizers.faithful import NameWithDirection, optimizer_name
from ..optimizers.updates import finite_batches
from ..optimizers.sgd import on_sphere
from ..scaling import Powers, Scaling
from ..scaling.depth import EMBEDDING_READOUT_FAMILIES
from ..scaling.parametrization import as_power
from ..training.by_parameter import named_powers
from ..training.carried import carried
from ..training.fans import STREAM, fans_of
from .factors import (
    ADAMS, ADJUSTED, AS_WRITTEN, BALANCED, FEW, OPTIMIZERS, assumed, checked_optimizer, depth_powers, expert_growths,
    gradient_degree, is_last, is_muon, layer_settings, on_spheres, one_eps, optimizer_of_role, settable, width_growths)
from .named import NamedRecipe
from .parameters import FREE, SHARES, Parameter, ParameterGrowth

SIZES = {"n": "the width of the stream", "m": "the width of a hidden layer, of experts that of one",
         "E": "how many experts there are", "k": "how many of them act", "L": "the depth"}
SETTINGS = ("init", "lr", "eps", "decay", "multiplier")
READ_IN, READ_OUT = EMBEDDING_READOUT_FAMILIES
SOME = "a mapping from some of n, m, E, k and L to numbers"
NEVER = -1.0  # a width by which nothing grows, so that fan-in and fan-out have powers of their own
# One in which what experts that act have together is narrower than the stream, and one in which it is as wide.
SMALL = {"n": 16.0, "m": 2.0, "E": 2.0, "k": 2.0, "L": 2.0}
LARGE = {**SMALL, "m": 16.0, "E": 16.0, "k": 16.0}
BY_MUON = "logits of experts that act, which a router's updates are made of, move by up to (E/k)^(1/2) times all"
BY_LEARNED = ("routers' gradients are of what experts have learned; those of noise, like m^(-1/2), are smaller the "
              "wider experts are")
WORDS = {frozenset(): "learns", frozenset([True]): "unstable", frozenset([False]): "lazy",
         frozenset([True, False]): "depends"}  # by whether a size makes what a step changes grow
LEARNED = "m outgrows {}"
TOGETHER = "E m is n, and k is a share of E: powers are those of experts whose number grows as the width does"


@dataclass(frozen=True)
class OneMatrix:
    """A trained matrix or vector of a network, by its role; reads, makes: sizes of these vectors, "" for one that does
    not grow; moe: whose router or expert it is of."""

    name: str
    parameter: Parameter
    reads: str
    makes: str
    moe: MoE | None = None

    @property
    def as_many(self) -> str:
        """The condition under which what acts together is as wide as what it reads."""
        together = ["k"] * (self.moe is not None) + [self.makes] * bool(self.makes)
        return f"{' '.join(together)} grows as {self.reads} or more"


@dataclass(frozen=True, repr=False)
class NetworkRecipe(Short, Tabled):
    """What to set for every matrix of a network, as powers of the sizes that grow, in a trainer's terms: gates that are
    softmaxes are shares with the sum 1, and routers of a fixed number of experts, R = r / n, are rows of a matrix.

    name: of the recipe; optimizer: whose; branch: the power of L of the number in front of branches; matrices: by name,
    ``tp.Powers`` of n, m, E, k and L, with which updates move what every matrix makes as much at every size; where: by
    name and condition what is otherwise where that holds; assumed: what is taken for granted, a sentence each.

    >>> import tpcalc as tp
    >>> found = tp.recipe("depth-mup", "adamw", net=tp.Transformer(mlp=tp.MoE(experts=8, active=2)))
    >>> found.matrices["W2_1"].lr, found.matrices["W2_1"].init, found.where["W2_1"]
    ({'L': -1/2, 'm': -1}, {'k': 1/2, 'm': -1/2}, {})
    >>> found.matrices["R_1"].init, found.where["R_1"]["k grows as n or more"].init
    ({'k': 1/2, 'n': -1}, {'n': -1/2})
    >>> round(found.factors(dict(n=256, m=512, E=8, k=2, L=8), dict(n=1024, m=512, E=32, k=8, L=8))["R_1"]["init"], 3)
    0.5
    """

    name: str
    optimizer: str
    net: Network
    branch: sp.Expr
    matrices: Mapping[str, Powers]
    where: Mapping[str, Mapping[str, Powers]]
    assumed: tuple[str, ...]
    given: str | Scaling = field(repr=False)

    @property
    def rows(self) -> list[Fields]:
        """A line for matrices that are set alike, and one for each condition under which they are set otherwise."""
        alike: dict[tuple[Powers, tuple[tuple[str, Powers], ...]], list[str]] = {}
        for name, powers in self.matrices.items():
            alike.setdefault((powers, tuple(self.where[name].items())), []).append(name)
        named = {"matrix": "branch"} | {one: None for one in SETTINGS if one != "eps" or any(
            powers.eps is not None for powers in self.matrices.values())}
        found: list[Fields] = [{**named, "multiplier": as_power(self.branch)}]
        for (powers, others), names in alike.items():
            shown = ", ".join(names) if len(names) < 4 else f"{names[0]} ... {names[-1]}"
            found += [{**named, "matrix": shown, **_row(powers)}, *(
                {**named, "matrix": f"  where {condition}", **_row(other)} for condition, other in others)]
        return found

    def __str__(self) -> str:
        sizes = "; ".join(f"{size} is {said}" for size, said in SIZES.items()
                          if any(size in one.sizes for one in self.matrices.values()))
        return "\n".join([f"{self.name}, {self.optimizer}: {sizes}", text_table(self.rows),
                          *(f"assumed: {one}" for one in self.assumed)])

    def factors(self, base: Mapping[str, Number], target: Mapping[str, Number]) -> dict[str, dict[str, float]]:
        """By matrix and setting, what to multiply the settings of a network of the sizes ``base`` with at ``target``,
        {"n": ..., "L": ...}; what is left out stays, and where experts grow in number with n, E and k go with n / m.
        Where conditions compare sizes, these decide; routers are as fast as they may be at any m. Raises ``ValueError``
        for sizes that are not positive, or of which no power knows, for k above E, and for E or k that do not go with
        n / m where they have to."""
        _checks.instance("base", base, Mapping, SOME)
        _checks.instance("target", target, Mapping, SOME)
        grown = {size: _checks.positive_number(size, target[size]) / _checks.positive_number(size, base[size])
                 for size in base if size in target}
        if not {*base, *target} == {*grown} <= {*SIZES}:
            raise ValueError(f"base, target: got {_checks.short(dict(base))} and {_checks.short(dict(target))}; "
                             f"expected numbers for some of {', '.join(SIZES)}, the same ones in both")
        for name, sizes in (("base", base), ("target", target)):
            number, active = (_checks.positive_number(size, sizes.get(size, 1)) for size in "Ek")
            if {"E", "k"} <= {*sizes} and active > number:
                raise ValueError(f"{name}: got k={sizes['k']} of E={sizes['E']}; expected at most as many as there are")
        if self._grows_with_n:
            number = grown.get("n", 1.0) / grown.get("m", 1.0)
            for size, said in (("E", "E m in proportion to n"), ("k", "k m in proportion to n")):
                if not math.isclose(grown.setdefault(size, number), number):
                    raise ValueError(f"{size}: got {_checks.short(base)} and {_checks.short(target)}; expected {said}, "
                                     "where experts are groups of coordinates")
        grown = {**dict.fromkeys(SIZES, 1.0), **grown}
        found = {}
        for one in self._ones:
            powers = powers_of(one, self.given, self.optimizer, grown)
            found[one.name] = {setting: float(sp.prod([grown[size]**float(powers.of(setting, size)) for size in SIZES]))
                               for setting in SETTINGS if getattr(powers, setting) is not None}
        return found

    def judged(self, rates: Mapping[str, Mapping[str, Number]]) -> dict[str, tuple[str, dict[str, sp.Expr]]]:
        """What learning rates of one's own do to every matrix, with this recipe's initial sizes and multipliers: a word
        and the powers with which what a step changes of what the matrix makes grows; likewise, as "R_1 where ...", what
        they do where other rates are the recipe's.

        rates: by name or pattern, such as "R_*", powers by size. "learns": of order one at every size, or as large as
        the recipe has it with depth; "lazy": smaller the larger some size is; "unstable": larger; "depends": one size
        makes it larger and another smaller. Raises ``ValueError`` for names that the network lacks or that are left
        out, and for other sizes.

        >>> import tpcalc as tp
        >>> found = tp.recipe(net=tp.ResNet("tanh", tp.MoE(experts=8, active=2), norm="rms"))
        >>> found.judged({"*": {"n": -1, "L": "-1/2"}, "R_*": {"n": -1, "L": -1}})["R_8"]
        ('lazy', {'L': -1/2})
        """
        if not isinstance(rates, Mapping) or not rates:
            raise ValueError(f"rates: got {_checks.short(rates)}; expected powers by size, by names or patterns")
        given = named_powers({key: Powers(lr=one) for key, one in rates.items()}, self.net, "rates")
        found = {}
        for name, own in self.matrices.items():
            known = given.get(READ_OUT if name == READ_OUT[-1] else name)
            if known is None:
                raise ValueError(f"rates: got none for {name}; expected powers for every trained matrix and vector")
            if not known.sizes <= SIZES.keys():
                raise ValueError(f"{name}: got powers of {', '.join(sorted(known.sizes - SIZES.keys()))}; expected "
                                 f"those of {', '.join(SIZES)}")
            faster = {f"{name} where {condition}": other for condition, other in self.where[name].items()
                      if other.lr != own.lr}
            for key, powers in {name: own, **faster}.items():
                excess = self._free({size: known.of("lr", size) - powers.of("lr", size) for size in SIZES})
                excess = {size: power for size, power in excess.items() if power != 0}
                found[key] = WORDS[frozenset(bool(power > 0) for power in excess.values())], excess
        return found

    @property
    def _grows_with_n(self) -> bool:
        """Are experts groups of coordinates, so that E m is n, and k a share of E?"""
        return any(moe.expert_dim is not None for moe in self.net.experts)

    def _free(self, powers: dict[str, sp.Expr]) -> dict[str, sp.Expr]:
        """Powers of sizes that grow by themselves."""
        if not self._grows_with_n:
            return powers
        number = powers["E"] + powers["k"]
        return {"n": powers["n"] + number, "m": powers["m"] - number, "L": powers["L"]}

    @cached_property
    def _ones(self) -> list[OneMatrix]:
        return weights_of(self.net)


def network_recipe(name: str | Scaling, optimizer: object, net: Network) -> NetworkRecipe:
    """``tpcalc.recipe`` with a network; it says what the arguments are.

    >>> import tpcalc as tp
    >>> print(network_recipe("ode", "sgd", tp.ResNet("tanh", "mlp", norm="rms")))
    ode, sgd: n is the width of the stream; m is the width of a hidden layer, of experts that of one; L is the depth
                          matrix            init          lr            decay  multiplier
                          branch               -           -                -      L^(-1)
                              W1  n^(-1) m^(1/2)  n^(-1) m L  n m^(-1) L^(-1)           1
      where m grows as n or more        n^(-1/2)  n^(-1) m L  n m^(-1) L^(-1)           1
                              W2        m^(-1/2)  n m^(-1) L  n^(-1) m L^(-1)           1
    """
    _checks.instance("net", net, Network, NETWORKS)
    moved_by, entry, ones = _planned(optimizer), settable(name), weights_of(net)
    if moved_by in ADJUSTED or entry.factor is not None:
        raise NotCovered(f"net: got {_checks.short(net)} with {moved_by} and {entry.name!r}, by which updates are "
                         "multiplied by a factor of a matrix's shape; expected others, or net=None")
    matrices: dict[str, Powers] = {}
    where: dict[str, dict[str, Powers]] = {}
    for one in ones:
        grows_with_n = one.moe is not None and one.moe.expert_dim is not None  # and so k m is a share of n
        few, many = (powers_of(one, name, moved_by, grown) for grown in (SMALL, LARGE))
        matrices[one.name] = many if grows_with_n else few
        where[one.name] = {} if grows_with_n or few == many else {one.as_many: many}
        where[one.name].update(_faster(one, entry, moved_by, matrices[one.name]))
    branch = layer_settings(name, moved_by, optimizer_of_role(ones[0].parameter, moved_by)).branch
    said = tuple(dict.fromkeys(_assumed(name, moved_by, ones)))
    return NetworkRecipe(entry.name, moved_by, net, branch, matrices, where, said, name)


def _row(powers: Powers) -> Fields:
    """Settings as text."""
    return {one: " ".join(as_power(powers.of(one, size), size) for size in SIZES if powers.of(one, size) != 0) or "1"
            for one in SETTINGS if getattr(powers, one) is not None}


def weights_of(net: Network) -> list[OneMatrix]:
    """The trained matrices and vectors of a network, each with its role.

    Raises ``NotCovered`` for layers that do more than add to a stream, for trained vectors that are no routers, and for
    mixtures that no branch ends with, as those within experts or in front of a norm.
    """
    if isinstance(net, Residual):
        net.require_added()
    net.require_one_visit("what is set for matrices is told")
    last, found = carried(net).last, dict[str, OneMatrix]()
    for part, (reads, makes) in fans_of(net).items():
        moe, kind = net.routed.get(part, (None, ""))
        if moe is None and part in net.vectors_of_block:
            raise NotCovered(f"net: got {_checks.short(net)}, with the trained vector {part}; what is set is told of "
                             "matrices and routers")
        role, name = kind or ("branch output" if part in last else "hidden"), net.whole(part)
        own = Parameter(name, role, True, (2, 2), 1.0, (name,), of_output=part in last)
        found[name] = OneMatrix(name, own, reads, "" if kind == ROUTER else makes, moe)  # a router is a row an expert
    for moe in net.experts:
        if not any(one.moe == moe and one.parameter.of_output for one in found.values()):
            raise NotCovered(f"net: got {_checks.short(net)}, with {_checks.short(moe)}, which no branch ends with; "
                             "what is set for experts is told where their products are added to the stream")
    ends = [(READ_IN, "input", "", STREAM), (READ_OUT[-1], "output", STREAM, "")] if net.train_embedding_readout else []
    if ends and net.ties_embedding_readout:
        raise NotCovered(f"net: got {_checks.short(net)}, whose readout is its embedding; expected tied=False")
    return [*found.values(), *(OneMatrix(name, Parameter(name, role, False, (2, 2), 1.0, (name,)), reads, makes)
                               for name, role, reads, makes in ends)]


def powers_of(one: OneMatrix, recipe: str | Scaling, optimizer: str, grown: Mapping[str, float]) -> Powers:
    """Powers of all sizes, as plans for models have them; those that do not grow may be missing."""
    gates = "" if one.moe is None else FREE if one.moe.gate == "sigmoid" else SHARES
    experts, active = (grown["E"], grown["k"]) if one.moe else (1.0, 1.0)
    fan_in, fan_out = (grown[size] if size else 1.0 for size in (one.reads, one.makes))
    parameter = replace(one.parameter, use=ParameterGrowth(fan_in, fan_out, grown["L"], experts=experts, active=active,
                                                           gates=gates))
    deep = depth_powers(parameter, recipe, optimizer)
    if is_last(parameter) and parameter.in_layers:  # the number in front of branches is one for all
        own = layer_settings(recipe, optimizer, optimizer_of_role(parameter, optimizer)).branch
        deep = deep.times(Powers(multiplier={"L": -own}))
    wide, _ = width_growths(parameter, optimizer, NEVER, one_eps(recipe))
    steps = [deep, _named(wide, {"fan_in": one.reads, "fan_out": one.makes}),
             *(powers for _, powers in expert_growths(parameter, optimizer))]
    found = reduce(Powers.times, steps)
    return found if optimizer_of_role(parameter, optimizer) in ADAMS else replace(found, eps=None)


def _named(powers: Powers, names: Mapping[str, str]) -> Powers:
    """Powers of sizes by other names, of two that have one name together."""
    def one_of(size: str) -> Powers:
        said = {one.name: powers.of(one.name, size) for one in fields(powers) if getattr(powers, one.name) is not None}
        return Powers.in_one(names.get(size, size), size, said)

    return reduce(Powers.times, map(one_of, powers.sizes), Powers())


def _faster(one: OneMatrix, entry: NamedRecipe, optimizer: str, powers: Powers) -> Iterator[tuple[str, Powers]]:
    """What the rate of a router of gates that are no shares may be where learning drives it: a logit may then move by
    L^gamma of what it moves by noise, along gradients that are L^-gamma [what experts have learned].

    Noise of an expert's m coordinates is as large as what they have learned where m is L^(2 gamma).
    """
    target = entry.target
    if one.parameter.role != ROUTER or one.moe is None or one.moe.gate != "sigmoid" or target is None or (
            target.gamma <= 0 or target.alpha + target.gamma != 1):
        return
    more = target.gamma * (1 + gradient_degree(optimizer_of_role(one.parameter, optimizer)))
    eps = None if powers.eps is None else {"L": -target.gamma}
    yield LEARNED.format(as_power(2 * target.gamma)), powers.times(Powers(lr={"L": more}, eps=eps, decay={"L": -more}))


def _planned(optimizer: object) -> str:
    """The optimizer of plans that moves weights as this one."""
    name = "adam" if optimizer is None else optimizer if isinstance(optimizer, str) else optimizer_name(optimizer)
    if isinstance(name, NameWithDirection):
        raise NotCovered(f"optimizer: got {_checks.short(optimizer)} with net=, whose direction is its own; expected "
                         f"one of {', '.join(map(repr, OPTIMIZERS))}")
    found = checked_optimizer(name)
    if on_sphere(optimizer) or on_spheres(found) or found == "adafactor":
        raise NotCovered(f"optimizer: got {_checks.short(optimizer)} with net=, whose steps are relative to sizes of "
                         "weights; expected others, or tpcalc.torch.plan")
    return found


def _assumed(recipe: str | Scaling, optimizer: str, ones: list[OneMatrix]) -> Iterator[str]:
    """What is taken for granted."""
    yield from assumed(recipe, optimizer)
    if is_muon(optimizer):
        yield from finite_batches("muon")
        if any(one.parameter.role == ROUTER for one in ones):
            yield BY_MUON
    mixtures = list(dict.fromkeys(one.moe for one in ones if one.moe is not None))
    for moe in mixtures:
        yield BALANCED
        if moe.init == "A":
            yield AS_WRITTEN
        if gradient_degree(optimizer):
            yield BY_LEARNED
        if gradient_degree(optimizer) or optimizer in ADAMS:
            yield FEW
        if moe.expert_dim is not None:
            yield TOGETHER
