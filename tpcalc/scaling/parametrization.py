"""Exponents in width and depth for every matrix: a width scaling beside a depth scaling that may name matrices.

``Powers`` has what is set for a trained parameter, as powers of everything that grows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Iterable, Iterator, Mapping, TypeVar

import sympy as sp

from .._checks import choice, exact, exponent, short, whole_number
from .._types import Value
from ..errors import NotCovered
from .depth import EMBEDDING_READOUT_FAMILIES, DepthScaling
from .width import WidthScaling
from .width_recipes import NAMED_WIDTHS, width_recipe

V = TypeVar("V")
ROLES = ("input", "hidden", "output")
FAN_IN = dict(zip(ROLES, (0, 1, 1)))  # the power of n that a role's fan-in grows with
NEEDED = ("multiplier", "init", "lr")  # settings that every parameter has


class Frozen(Mapping[str, V]):
    """A mapping from names that is a value: hashable, and equal to any with the same entries."""

    def __init__(self, entries: Mapping[str, V]) -> None:
        self._entries = dict(entries)

    def __getitem__(self, name: str) -> V:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(frozenset(self._entries.items()))

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name!r}: {value}" for name, value in self._entries.items()) + "}"


@dataclass(frozen=True)
class Powers:
    """What is set for a trained parameter: ``lr={"L": -1/2, "n": -1}`` is a learning rate like L^(-1/2) / n.

    multiplier: of the number in front of the parameter; init: of the standard deviation of initial entries; lr: of its
    learning rate; eps: of Adam's eps, None one that is negligible; decay: of the weight decay, None without one, or
    where a step of the optimizer's takes the same share of a weight at every size. Each is a mapping from what grows, a
    symbol or its name, to its power; n is the width and L the depth, and what is left out has the power 0. Raises
    ``ValueError`` for exponents that are not real and finite, for names that are no identifiers, and for a size that is
    named twice.

    >>> Powers(init={"n": -0.5}, lr={"n": -1, sp.Symbol("L"): "-1/2"})
    Powers(multiplier={}, init={'n': -1/2}, lr={'L': -1/2, 'n': -1}, eps=None, decay=None)
    """

    multiplier: Mapping[str, sp.Expr] = Frozen({})
    init: Mapping[str, sp.Expr] = Frozen({})
    lr: Mapping[str, sp.Expr] = Frozen({})
    eps: Mapping[str, sp.Expr] | None = None
    decay: Mapping[str, sp.Expr] | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None or one.name in NEEDED:
                object.__setattr__(self, one.name, _of_sizes(one.name, value))

    @classmethod
    def in_one(cls, size: str, name: str, given: Value) -> "Powers":
        """Powers of one size, from {"init": -1/2, ...}; ``ValueError`` for other names and other things."""
        if isinstance(given, cls):
            return given
        allowed = [one.name for one in fields(cls)]
        if not isinstance(given, Mapping) or not set(given) <= set(allowed):
            raise ValueError(f"{name}: got {short(given)}; expected a mapping from {', '.join(allowed)} to powers")
        powers: dict[str, Value] = {one: None if value is None else {size: value} for one, value in given.items()}
        return cls(**powers)

    def of(self, setting: str, size: str) -> sp.Expr:
        """The power of a size with which a setting goes; ``ValueError`` for what is no setting."""
        if setting not in self.__dataclass_fields__:
            choice("setting", setting, list(self.__dataclass_fields__))
        return (getattr(self, setting) or {}).get(size, sp.Integer(0))

    def times(self, other: "Powers") -> "Powers":
        """The powers of a product, setting by setting."""
        found: dict[str, Value] = {}
        for one in fields(self):
            ours, theirs = getattr(self, one.name), getattr(other, one.name)
            if ours is not None or theirs is not None:
                found[one.name] = {size: self.of(one.name, size) + other.of(one.name, size)
                                   for size in {**(ours or {}), **(theirs or {})}}
        return Powers(**found)

    @property
    def sizes(self) -> frozenset[str]:
        """What anything that is set grows with."""
        return frozenset(size for one in fields(self) for size in getattr(self, one.name) or ())


def as_power(exponent: sp.Expr, base: str = "L") -> str:
    """L^(1/2), L, 1."""
    return "1" if exponent == 0 else base if exponent == 1 else f"{base}^({exponent})"


def _of_sizes(setting: str, given: Value) -> Frozen[sp.Expr]:
    """Powers by the names of sizes, in their order, without those that are 0."""
    if not isinstance(given, Mapping) or not all(str(size).isidentifier() for size in given):
        raise ValueError(f"{setting}: got {short(given)}; expected a mapping from what grows, such as \"n\" and \"L\", "
                         "to powers")
    if len({str(size) for size in given}) < len(given):
        raise ValueError(f"{setting}: got {short(given)}; expected each size once, as a symbol or by its name")
    found = {str(size): exponent(f"{setting}[{str(size)!r}]", power) for size, power in given.items()}
    return Frozen({size: found[size] for size in sorted(found) if found[size] != 0})


def roles(name: str, given: Mapping[str, Value]) -> Frozen[Powers]:
    """Powers of n of all three roles; ``ValueError`` where one is missing or there is another."""
    if set(given) != set(ROLES):
        raise ValueError(f"{name}: got {short(dict(given))}; expected powers of n for each of {', '.join(ROLES)}")
    return Frozen({role: Powers.in_one("n", f"{name}[{role!r}]", given[role]) for role in ROLES})


SCALED = ("alpha", "gamma", "branch", "base_depth")  # what a tp.DepthScaling has
HALF = sp.Rational(1, 2)


@dataclass(frozen=True)
class Parametrization:
    """Powers of the width n and of the depth L for every matrix of a residual network.

    Parameters
    ----------
    width:
        "muP", or another name that ``tp.width.width_recipe`` knows; a ``tp.WidthScaling`` of three layers or more, its
        first for the embedding, its last for the readout, those between, which must be alike, for the blocks' matrices;
        or {role: powers} for the roles "input", "hidden" and "output", with powers {"init": ..., "multiplier": ...,
        "lr": ..., "eps": ..., "decay": ...} of n, 0 (of the last two: none) where one is left out. Networks are
        trained with the optimizer's eps and decay at every width: powers of these but 0 are refused there.
        Or {parameter: tp.Powers}, powers of n and L both, keys being names of parameters, roles or patterns, of which a
        name counts before a role, a role before a pattern, and of patterns the one that says most; "branch", the number
        in front of branches, "attention" and "mlp", one beside it for branches of that kind, and "last", what branches
        end with: a network and its optimizer, beside which they are read, make exponents of them.
    depth:
        a ``tp.DepthScaling``, for all matrices of a block; or {"alpha": ..., name: gamma}, where updates of the matrix
        of that name are of size L^-gamma: names are those of the block ("W"; "W1", "W2", ...), of its trained vectors
        ("gn", "gn1", ... of gains, "a" of a learned skip: ``net.trained_of_block`` has them all) and of the ends ("U",
        and "V" or, beside a block that has one, "nV"; 0 where they are left out). "gamma" stands for matrices without
        an entry, "branch" and "base_depth" are those of a tp.DepthScaling. Or {parameter: tp.Powers}, powers of L
        alone, of what layers have, keys being as above, "branch" and "last" among them.

    With one gamma for all matrices and muP in width it is that tp.DepthScaling, everywhere. Raises ``ValueError`` for
    names that are no identifiers, exponents that are not real and finite, and an alpha that is missing.

    Source: Tensor Programs VI, sections 4 and K.3, which lets learning rates vary between the layers of a block
    [tensor_programs_vi/definition_41]; Meta-Principled Family for the width [meta_principled/translation].

    >>> one = Parametrization(depth={"alpha": 1, "W1": 0, "W2": 1 / 2})
    >>> one.update_exponent("W2"), one.update_exponent("U"), one.alpha
    (1/2, 0, 1)
    >>> Parametrization("SP").width_scaling
    WidthScaling(p=(0, 0, 0), q=(0, -1, -1), r=0)
    """

    width: str | WidthScaling | Mapping[str, Value] = "muP"
    depth: DepthScaling | Mapping[str, Value] = field(default_factory=DepthScaling)

    def __post_init__(self) -> None:
        if isinstance(self.width, str):
            object.__setattr__(self, "width", choice("width", self.width, [recipe.name for recipe in NAMED_WIDTHS]))
        elif isinstance(self.width, Mapping):
            every = _are_by_parameter(self.width)
            object.__setattr__(self, "width", (_by_parameter if every else roles)("width", self.width))
            if every and self.depth in (DepthScaling(), {}):  # which is none: powers of L are among these
                object.__setattr__(self, "depth", Frozen({}))
                return
            if every:
                raise ValueError(f"depth: got {short(self.depth)} beside powers by parameter; expected powers of L "
                                 "among these")
        elif not isinstance(self.width, WidthScaling):
            raise ValueError(f"width: got {short(self.width)}; expected a name, a tp.WidthScaling, or a mapping "
                             "from roles to powers of n")
        if isinstance(self.depth, Mapping):
            object.__setattr__(self, "depth", _by_matrix(self.depth))
        elif not isinstance(self.depth, DepthScaling):
            raise ValueError(f"depth: got {short(self.depth)}; expected a tp.DepthScaling, or a mapping from "
                             "matrices' names to exponents")

    @property
    def parameters(self) -> Mapping[str, Powers] | None:
        """Powers by parameter, or None where there are others."""
        found: Value = self.depth if self.of_depth_alone else self.width if self.depth == {} else None
        return found if isinstance(found, Mapping) else None

    @property
    def of_depth_alone(self) -> bool:
        """Are there powers of L by parameter, beside a width scaling?"""
        return isinstance(self.depth, Mapping) and any(isinstance(one, Powers) for one in self.depth.values())

    @property
    def scaling(self) -> DepthScaling:
        """alpha, the branch and its base depth, and the gamma of matrices without one of their own.

        Raises ``ValueError`` for powers by parameter, which say sizes of updates only with an optimizer.
        """
        if isinstance(self.depth, DepthScaling):
            return self.depth
        self._require_bound()
        return DepthScaling(**{"gamma": 0, **{name: self.depth[name] for name in SCALED if name in self.depth}})

    def _require_bound(self) -> None:
        if self.parameters is not None:
            raise NotCovered(f"{'depth' if self.of_depth_alone else 'width'}: got {short(self.parameters)}, powers by "
                             "parameter, of which a network and its "
                             "optimizer make exponents; expected tp.theory.with_exponents(scale, net, opt)")

    @property
    def alpha(self) -> sp.Expr:
        return self.scaling.alpha

    @property
    def own(self) -> Mapping[str, sp.Expr]:
        """gamma of the matrices that have one of their own."""
        self._require_bound()
        if isinstance(self.depth, DepthScaling):
            return {}
        return {name: value for name, value in self.depth.items() if name not in SCALED}

    def update_exponent(self, matrix: str) -> sp.Expr:
        """gamma of a matrix: its updates are of size L^-gamma. Raises ``ValueError`` for one that has none."""
        if matrix in EMBEDDING_READOUT_FAMILIES:
            return self.own.get(matrix, self.own.get("V" if matrix == "nV" else matrix, sp.Integer(0)))
        default = isinstance(self.depth, DepthScaling) or "gamma" in self.depth
        if matrix not in self.own and not default:
            raise ValueError(f"depth: got {short(self.depth)}, nothing for the matrix {short(matrix)}; expected an "
                             "exponent for every matrix, or \"gamma\" for those without one")
        return self.own.get(matrix, self.scaling.gamma)

    def step_size(self, matrix: str, depth: sp.Expr) -> sp.Expr:
        """The size of one update of a matrix, (depth / base_depth)^-gamma, exactly, of a depth that may be a symbol."""
        return (depth / exact("base_depth", self.scaling.base_depth)) ** -self.update_exponent(matrix)

    def over(self, matrices: Iterable[str], linear: bool = True, ends: bool = True) -> DepthScaling | Parametrization:
        """The parametrization for a network whose blocks have these matrices: a tp.DepthScaling where it is one.

        linear, ends: as in ``is_mup``.
        Raises ``ValueError`` where it has exponents of matrices that the network lacks, or none for one of its own.
        """
        names = tuple(matrices)
        for name in self.own:
            if name not in (*names, *EMBEDDING_READOUT_FAMILIES, "V"):
                raise ValueError(f"depth: got {name!r}; expected names of the network's matrices, {', '.join(names)}, "
                                 "its ends U, V")
        if ends and "V" in self.own and "V" in names and "nV" not in self.own:
            raise ValueError("depth: got 'V', which is a matrix of the block here; expected 'nV' for the read-out "
                             "beside it")
        self._require_read()
        gammas = {self.update_exponent(name) for name in names}
        moved = ends and any(self.update_exponent(end) for end in EMBEDDING_READOUT_FAMILIES)
        if len(gammas) == 1 and not moved and self.is_mup(linear, ends):
            whole = self.scaling
            return DepthScaling(whole.alpha, gammas.pop(), whole.branch, whole.base_depth)
        return self

    def _require_read(self) -> None:
        """Raise ``NotCovered`` for powers of n of eps or of weight decay: optimizers have these as numbers."""
        powers = self.width if isinstance(self.width, Mapping) else {}
        for role, one in powers.items():
            for name in ("eps", "decay"):
                if one.of(name, "n"):
                    raise NotCovered(f"width: got {name} n^({one.of(name, 'n')}) of {role!r}; networks are trained "
                                     "and judged with an eps and a weight decay that are the optimizer's at every "
                                     "width; expected 0, or None")

    def with_exponents(self, alpha: sp.Expr, gammas: Mapping[str, sp.Expr]) -> Parametrization:
        """This parametrization with other exponents in depth, its constants being what they are."""
        whole = self.scaling
        return Parametrization(self.width, {"alpha": alpha, **gammas, "branch": whole.branch,
                                            "base_depth": whole.base_depth})

    def require_numbers(self) -> None:
        """Raise ``ValueError`` for symbols among the exponents."""
        self.scaling.require_numbers()
        width = self.width_scaling
        for value in (*self.own.values(), *width.p, *width.q, width.r):
            if not value.is_number:
                raise ValueError(f"exponents: got {short(value)}; expected numbers, to evaluate")

    @property
    def width_scaling(self) -> WidthScaling:
        """The width scaling of the network's embedding, blocks and readout, as a perceptron of three layers.

        Raises ``ValueError`` for a tp.WidthScaling of two layers, or of hidden layers that are not alike.
        """
        if not self.of_depth_alone:
            self._require_bound()
        if isinstance(self.width, str):
            return width_recipe(self.width, 3)
        if isinstance(self.width, WidthScaling):
            (first, *p, last), (begins, *q, ends) = self.width.p, self.width.q
            if not p or len(set(p)) > 1 or len(set(q)) > 1:
                raise NotCovered(f"width: got {short(self.width)}; a residual network takes one of at least three "
                                 "layers, with all hidden ones alike: its blocks are they")
            return WidthScaling((first, p[0], last), (begins, q[0], ends), self.width.r)
        return _translated(self.width)

    def is_mup(self, linear: bool = True, ends: bool = True) -> bool:
        """Are these the powers of n in which ket equations are written? linear: is the optimizer linear in gradients?
        Of others "muP" alone is, by name, for rates are those of gradient descent; ends: are these trained?"""
        return self.width == "muP" or linear and not any(self.beyond_mup(ends).values())

    def require_mup(self, linear: bool = True, ends: bool = True) -> None:
        """Raise ``ValueError`` unless ``is_mup``, with the powers of n that differ."""
        if self.is_mup(linear, ends):
            return
        differing = ", ".join(f"{name} n^({power})" for name, power in self.beyond_mup(ends).items() if power)
        raise NotCovered(f"width: got {short(self.width)}, which is not muP in width" + (
            f": relative to it {differing}" if differing else " by name, and its rates are those of gradient descent")
            + "; vectors have kets where their entries stay of order one; expected 'muP'")

    def at_width(self, n: int) -> ParametrizationAtWidth:
        """The parametrization of a real network of width n, with its powers of n as numbers."""
        return ParametrizationAtWidth(self.width, self.depth, whole_number("n", n, 1))

    def beyond_mup(self, ends: bool = True) -> Mapping[str, sp.Expr]:
        """Powers of n by which initial weights ("U", "W", "V") and learning rates of plain gradient descent ("rate of
        U", ...) differ from muP's; without ``ends``, where embedding and readout are frozen, those of W alone move."""
        mine, mup = self.width_scaling, width_recipe("muP", 3)
        names = ("U", "W", "V")
        starts = {name: sp.expand((b - a) / 2) for name, a, b in zip(names, mine.p, mup.p)}
        moves = {f"rate of {name}": sp.expand(mine.r - a - mup.r + b)
                 for name, a, b in zip(names, mine.q, mup.q) if ends or name == "W"}
        return {**starts, **moves}


@dataclass(frozen=True)
class ParametrizationAtWidth(Parametrization):
    """A parametrization at one width n: what differs from muP are numbers, in front of initial weights and updates."""

    n: int = 1

    def require_mup(self, linear: bool = True, ends: bool = True) -> None:
        """Raise ``ValueError`` for an optimizer that is not linear in gradients, whose rates are not known."""
        if not linear:
            super().require_mup(linear, ends)

    def step_size(self, matrix: str, depth: sp.Expr) -> sp.Expr:
        """The size of one update of a matrix, by which it differs from muP at width n included."""
        return super().step_size(matrix, depth) * sp.Integer(self.n) ** self.beyond_mup()[f"rate of {_role(matrix)}"]

    def initial_factor(self, matrix: str) -> float:
        """The initial standard deviation of a matrix, or an end, over that of muP."""
        return float(self.n ** float(self.beyond_mup()[_role(matrix)]))


def _role(matrix: str) -> str:
    return {"U": "U", "nV": "V"}.get(matrix, "W")


Scaling = DepthScaling | Parametrization


def _by_matrix(given: Mapping[Value, Value]) -> Frozen[Value]:
    """Exponents by name, or powers of L by parameter, read strictly."""
    if any(isinstance(value, Powers) for value in given.values()):
        return _by_parameter("depth", given, ("L",))
    for name in given:
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"depth: got {short(name)} as a name; expected names of matrices, and "
                             f"{', '.join(SCALED)}")
    if "alpha" not in given:
        raise ValueError(f"depth: got {short(dict(given))}; expected \"alpha\", the branch's, and an exponent for "
                         "every matrix")
    read = {name: value if name in ("branch", "base_depth") else exponent(f"depth[{name!r}]", value)
            for name, value in given.items()}
    DepthScaling(**{name: read[name] for name in SCALED if name in read})  # refuses what it does not take
    return Frozen(read)


def _are_by_parameter(given: Mapping[Value, Value]) -> bool:
    """Has any of them powers of something beside n, or is any key no role?"""
    return any(isinstance(one, Powers) for one in given.values()) and (
        set(given) != set(ROLES) or any(isinstance(one, Powers) and one.sizes - {"n"} for one in given.values()))


def _by_parameter(name: str, given: Mapping[Value, Value], sizes: tuple[str, ...] = ("n", "L")) -> Frozen[Powers]:
    for key, one in given.items():
        if not isinstance(key, str) or not isinstance(one, Powers):
            raise ValueError(f"{name}: got {short(key)}: {short(one)}; expected tp.Powers by names, roles or patterns")
        others = one.sizes - set(sizes)
        if others:
            raise NotCovered(f"{key}: got powers of {', '.join(sorted(others))}; expected those of " + (
                "the width n and the depth L (tp.recipe(net=...) has others)" if "n" in sizes else
                "the depth L, beside powers of n as width="))
    return Frozen(given)


def _translated(powers: Mapping[str, Powers]) -> WidthScaling:
    """(p, q, r) of three roles: the effective weights have variance n^-p / fan-in and move at n^(r - q) / fan-in."""
    each = [{setting: powers[role].of(setting, "n") for setting in ("multiplier", "init", "lr")} for role in ROLES]
    sizes = [one["multiplier"] + one["init"] for one in each]
    moves = [2 * one["multiplier"] + one["lr"] for one in each]
    return WidthScaling([sp.expand(-2 * size - fan_in) for size, fan_in in zip(sizes, FAN_IN.values())],
                        [sp.expand(-move - fan_in) for move, fan_in in zip(moves, FAN_IN.values())], 0)
