"""Powers that are given parameter by parameter, as exponents of a network that an optimizer trains, and back.

With W = n^m L^m' w the raw parameter w has the gradient of W times that factor, and moves by the optimizer's own
formula [tensor_programs_vi/definition_41]. What counts is how large W is, and by how much it moves.
"""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Mapping, Sequence

import sympy as sp

from .._checks import short
from .._types import Value
from ..errors import NotCovered
from ..scaling import DepthScaling, Parametrization, Powers, Scaling, WidthScaling, width_recipe
from ..scaling.depth import EMBEDDING_READOUT_FAMILIES
from ..scaling.parametrization import FAN_IN, ROLES, Frozen
from ..scaling.width import gradient_power
from .carried import carried
from ..optimizers.faithful import acts_on_entries, decay_kind, faithful_rate, update_power
from ..optimizers.updates import optimizer_name
from ..models.network import Network
from .settings import Settings

READ_IN, READ_OUT = EMBEDDING_READOUT_FAMILIES
BRANCH, LAST = "branch", "last"  # the number in front of a branch; the matrices that branches end with
WILD = "*?[]"


def with_exponents(scale: Scaling, net: Network, optimizer: object = None) -> Scaling:
    """A parametrization with exponents, for the trained parameters of a network, in place of powers by parameter;
    others as they are.

    The key "branch" is of the number in front of a branch, a multiplier alone, "attention" and "mlp" of one beside it,
    in front of the branches of that kind, and "last" of the matrices that branches end with. optimizer: one, or its
    name; gradient descent where none is given. Raises ``ValueError`` for a trained parameter without powers, for powers
    of what the network lacks, and for multipliers and initial sizes like powers of L of what a branch is not
    homogeneous in, or with which the branches of a layer differ in size.

    >>> from tpcalc.models import ResNet
    >>> every = Powers(multiplier={"L": "-1/2"}, init={"n": "-1/2"}, lr={"L": "-1/2", "n": -1})
    >>> with_exponents(Parametrization({"W": every}), ResNet("relu"), "adam")
    Parametrization(width='muP', depth={'alpha': 1/2, 'W': 1/2})
    """
    _require_network(scale, net)
    name = optimizer_name("sgd" if optimizer is None else optimizer)
    if not isinstance(scale, Parametrization) or scale.parameters is None:
        return scale
    require_what_is_counted(settings_in_layers(scale, net, optimizer), optimizer)
    return exponents_of_powers(scale, net, name, fixed=("eps",))


def require_what_is_counted(given: Settings, optimizer: object) -> None:
    """Raise ``NotCovered`` for an eps that decides updates, and for decays of which a step's share is not of order one,
    which that of an optimizer is at every size."""
    said = "tp.theory.audit_matrices counts it; expected None, or "
    for name, one in given.powers.items():
        if given.gamma(name) != given.without_eps.gamma(name):
            raise NotCovered(f"{name}: got eps L^({one.of('eps', 'L')}), which outgrows gradients; {said}one like them")
        if one.decay is None or not getattr(optimizer, "weight_decay", 0):
            continue
        share = one.of("decay", "L") + (0 if given.decay == "independent" else one.of("lr", "L"))
        if share != 0:
            raise NotCovered(f"{name}: got a decay whose share of a weight goes like L^({share}) in a step; {said}a "
                             "share that is the same at every depth")


def exponents_of_powers(scale: Parametrization, net: Network, optimizer: object = None, fixed: tuple[str, ...] = (),
                        alpha: sp.Expr | None = None) -> Parametrization:
    """The exponents that powers by parameter are while eps is negligible beside gradients; fixed: what is the same at
    every depth; alpha: beside which branches of different sizes are said."""
    found = settings_in_layers(scale, net, optimizer).without_eps
    given = named_powers(scale.parameters or {}, net)
    for name, one in given.items():
        _require_fixed(name, one, fixed)
        _require_fixed(name, one, ("eps", "decay"), "n")
    depth: dict[str, Value] = {"alpha": found.alpha if alpha is None else alpha, **found.gammas}
    for name in given.keys() - set(net.trained_of_block):
        _require_fixed(name, given[name], ("multiplier", "init"), "L")
        depth[name] = update_power(found.optimizer, sp.Integer(0), -given[name].of("lr", "L"))
    width = scale.width if scale.of_depth_alone else _in_width(given, net, _by_entries(found.optimizer))
    return Parametrization(width, depth)


def settings_in_layers(scale: Parametrization, net: Network, optimizer: object = None, **more: Value) -> Settings:
    """What powers by parameter set for the layers of a network; more: as in ``Settings``."""
    given = dict(scale.parameters or {})
    branch, *fronts = (_in_front(key, given.get(key, Powers())) for key in (BRANCH, *net.branch_kinds))
    if len(set(fronts)) == 1:  # all branches are multiplied alike
        branch, fronts = branch + fronts[0], []
    powers = {name: one for name, one in named_powers(given, net).items() if name in net.trained_of_block}
    return Settings(net, Frozen(powers), optimizer_name("sgd" if optimizer is None else optimizer), branch,
                    fronts=tuple(fronts), **{"decay": decay_kind(optimizer), **more})


def _require_network(scale: object, net: object) -> None:
    if not isinstance(scale, (DepthScaling, Parametrization)):
        raise ValueError(f"scale: got {short(scale)}; expected a tp.DepthScaling or a tp.Parametrization")
    if isinstance(net, type) or not hasattr(net, "trained_of_block"):
        raise ValueError(f"net: got {short(net)}; expected a tp.ResNet or a tp.Transformer")


def _by_entries(opt: object) -> str:
    """The name of an optimizer that acts on every entry alone; ``ValueError`` for others."""
    name = optimizer_name("sgd" if opt is None else opt)
    if not acts_on_entries(name):
        raise NotCovered(f"optimizer: got {short(opt)}, of whose directions powers of n are not counted by parameter; "
                         "expected an optimizer that acts on every entry alone, or tp.Parametrization(depth=...)")
    return name


def _in_front(key: str, powers: Powers) -> sp.Expr:
    """The power of L of the number in front of branches; ``ValueError`` for anything else that is said of it."""
    if powers != Powers(multiplier={"L": powers.of("multiplier", "L")}):
        raise ValueError(f"{key}: got {powers}; expected a multiplier like a power of L alone")
    return powers.of("multiplier", "L")


def named_powers(given: Mapping[str, Powers], net: Network, what: str = "scale") -> dict[str, Powers]:
    """Powers of every trained parameter: those of its name, else of its role, else of the pattern that says most.
    What is frozen has those of its name or role, if any."""
    names = (*net.trained_of_block, *EMBEDDING_READOUT_FAMILIES)
    trained = names if net.train_embedding_readout else net.trained_of_block
    given = {key: one for key, one in given.items() if key not in (BRANCH, *net.branch_kinds)}
    last = carried(net).last if LAST in given else ()
    found: dict[str, Powers] = {}
    used: set[str] = set()
    for name in names:
        known = {name, *(["V"] if name == READ_OUT and "V" not in names else [])}
        roles = {_role(name, net), *([LAST] if name in last else [])}
        fits = {key: (key in known, key == LAST, key in roles, sum(letter not in WILD for letter in key))
                for key in given if key in known or key in roles or name in trained and fnmatchcase(name, key)}
        if fits:
            used |= fits.keys()
            first = [key for key in fits if fits[key] == max(fits.values())]
            found[name] = given[first[0]]
            if any(given[key] != found[name] for key in first):
                raise ValueError(f"{what}: got {' and '.join(first)} for {name}, and none says more than the other; "
                                 "expected one that does, such as its name")
    missing, others = [name for name in trained if name not in found], [key for key in given if key not in used]
    if missing or others:
        raise ValueError(f"{what}: got powers of {', '.join(given)}; " + (
            f"{', '.join(others)} is none of the network's" if others else f"there are none of {', '.join(missing)}")
            + f"; expected those of {', '.join(trained)}, of roles ({', '.join((*ROLES, LAST))}), or patterns")
    return found


def powers_by_parameter(scale: Scaling, net: Network, optimizer: object = None) -> dict[str, Powers]:
    """What to set for every trained parameter, and for "branch", the number in front of one; ``with_exponents`` turns
    it back.

    Raises ``ValueError`` where no learning rate moves a parameter by its exponent.

    >>> from tpcalc.scaling import DepthScaling
    >>> from tpcalc.models import ResNet
    >>> powers_by_parameter(DepthScaling(), ResNet("tanh"), "adam")["W"]
    Powers(multiplier={}, init={'n': -1/2}, lr={'L': -1/2, 'n': -1}, eps=None, decay=None)
    """
    _require_network(scale, net)
    name = _by_entries(optimizer)
    whole = scale if isinstance(scale, Parametrization) else Parametrization(depth=scale)
    if whole.scaling.branch != 1 or whole.scaling.base_depth != 1:
        raise ValueError(f"scale: got {short(scale)}; expected powers alone, with branch=1 and base_depth=1")
    width, found = whole.width_scaling, {BRANCH: Powers(multiplier={"L": -whole.alpha})}
    layers = Settings(net, Frozen(dict.fromkeys(net.trained_of_block, Powers())), name).realized(whole)
    rates = {parameter: layers.of(parameter, "lr") for parameter in layers.names}
    if net.train_embedding_readout:
        rates |= {end: -faithful_rate(name, whole.update_exponent(end), sp.Integer(0))
                  for end in EMBEDDING_READOUT_FAMILIES}
    for parameter, rate in rates.items():
        wide = powers_of_role(width, _role(parameter, net), name)
        found[parameter] = replace(wide, lr={**wide.lr, "L": rate}, eps=None, decay=None)
    return found


def powers_of_role(scaling: WidthScaling, role: str, optimizer: str, multiplier: sp.Expr = sp.Integer(0),
                   vector: bool = False) -> Powers:
    """What a width scaling sets for "input", "hidden" or "output" in powers of n, with n^multiplier in front; vector:
    of one beside the matrix.

    Learning rates move weights as far as its own move them by gradient descent, eps goes with gradients, and the
    decoupled weight decay stays visible.

    >>> powers_of_role(width_recipe("muP", 3), "hidden", "adam")
    Powers(multiplier={}, init={'n': -1/2}, lr={'n': -1}, eps={'n': -1}, decay={'n': 1})
    """
    i, fan_in = ROLES.index(role), sp.Integer(0) if vector else FAN_IN[role]
    gradient, moved = gradient_power(scaling, role) - multiplier, scaling.q[i] + fan_in - scaling.r  # as n^-(this)
    rate = sp.expand(-faithful_rate(optimizer, gradient_power(scaling, role) + moved + multiplier, gradient, gradient))
    start = sp.expand(-(scaling.p[i] + fan_in) / 2 - multiplier)
    return Powers(*({"n": power} for power in (multiplier, start, rate, sp.expand(-gradient), -rate)))


def _role(name: str, net: Network) -> str:
    """Input, hidden or output, as powers of n are counted: what multiplies vectors entry by entry is like the first."""
    if name == READ_IN or name in net.vectors_of_block:
        return "input"
    return "output" if name == READ_OUT else "hidden"


def _require_fixed(parameter: str, powers: Powers, settings: tuple[str, ...], only: str = "") -> None:
    """Raise ``NotCovered`` for settings that go like powers of sizes."""
    for setting in settings:
        for size, power in (getattr(powers, setting) or {}).items():
            if size == (only or size):
                raise NotCovered(f"{parameter}: got {setting} {size}^({power}); expected a fixed one, as eps and decay "
                                 "are the optimizer's at every size, and multipliers like powers of L those of layers")


def _in_width(found: Mapping[str, Powers], net: Network, opt: str) -> str | WidthScaling:
    """The width scaling of embedding, blocks and readout, "muP" where it is that; muP's for what is frozen. Raises
    ``NotCovered`` where entries of hidden vectors do not start of order one: of gradients no power is known."""
    mup = width_recipe("muP", 3)
    starts = {name: -2 * (one.of("multiplier", "n") + one.of("init", "n")) for name, one in found.items()}
    p = _by_roles(starts, net, mup.p)
    start, moves = WidthScaling(p, (0,) * len(ROLES), 0), {}
    for name, one in found.items():
        if name in net.trained_of_block or net.train_embedding_readout:
            multiplier, gradient = one.of("multiplier", "n"), gradient_power(start, _role(name, net))
            moves[name] = update_power(opt, gradient - multiplier, -one.of("lr", "n")) - multiplier - gradient
    whole = WidthScaling(p, _by_roles(moves, net, [q - mup.r for q in mup.q]), 0)
    return "muP" if Parametrization(whole).is_mup(ends=net.train_embedding_readout) else whole


def _by_roles(powers: Mapping[str, sp.Expr], net: Network, others: Sequence[sp.Expr]) -> list[sp.Expr]:
    """p or q of input, hidden and output, which is n^-(this) over the fan-in; ``others`` of roles that nobody has."""
    found: dict[str, sp.Expr] = {}
    for name, power in powers.items():
        role = _role(name, net)
        if found.setdefault(role, sp.expand(power - FAN_IN[role])) != sp.expand(power - FAN_IN[role]):
            raise NotCovered(f"{name}: got other powers of n than others of its role, {role!r}; expected the same, "
                             "gains and other trained vectors being of that of the embedding")
    return [found.get(role, other) for role, other in zip(ROLES, others)]
