"""A plan: the powers and factors of every parameter of a model, and the groups that optimizers take."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from math import prod
from types import MappingProxyType
from typing import Callable, Iterable, Mapping

from .. import _checks
from .._types import Fields, Value
from .._shown import Short, Tabled, text_table
from ..errors import NotCovered
from ..optimizers.updates import DIRECTIONS, HALF, RELATIVE as ON_NORMS, finite_batches, rank_powers
from ..scaling import Powers, Scaling
from ..scaling.parametrization import Frozen
from ..tune.factors import (ADAMS, ADJUSTED, DEPTH, LOOPS, SIGN, WIDTH, assumed, checked_optimizer, depth_powers,
                            depth_reason, expert_growths, fold, gradient_degree, is_last, is_muon, on_spheres, one_eps,
                            optimizer_of_role, width_growths)
from ..tune.parameters import Parameter
from ..tune.recipe import named_recipe
from .horizon import BATCHES, LENGTH, plan_horizon, with_horizon
from .names import Shape, plain_name, renamed
from .rates import SCALE, base_rate, base_rates, groups_of, muon_rate_of, rates_of
from .roles import Roles, find_roles

SETTINGS = {"init": "init", "lr": "lr", "eps": "eps", "weight_decay": "decay", "forward": "multiplier"}
CLIPPING = ("a multiplier that is part of a matrix trains as one in the forward pass does, but not where gradients are "
            "clipped by their global norm: the matrix's gradient has another share in it")
HEADS = ("where heads grow with the width, attention logits are to be divided by a head's size over that of the base,"
         " to the power 1/2, besides its square root; shapes do not say so")
GAUGE = ("the multiplier is made a part of the parameter, whose gradients are that much smaller; by the degree of "
         "steps of {} in gradients, the learning rate then has it to the power {}")
WIDTH_REASON = ("a perceptron that is muP sets this for it, as {}: by fan-in, which grows by {:.6g}, and fan-out, "
                "which grows by {:.6g}")
AGAIN = ("the forward pass comes back to every layer {:.6g} times as often: visits of one matrix add up coherently, so "
         "that branches are divided by their number, and updates, over which all visits have a mean, stay")
FORWARD = "the forward pass multiplies its product by a number that grows by {:.6g}; it is taken back"
RELATIVE = ("steps of Adafactor are its rate times the size of the parameter, which has the factor of its initial size "
            "already; the learning rate leaves it out")
FLOOR = (1e-18, 1e-3)  # Adafactor's eps: beside gradients, the least whose square is a float32; and the least size
STEPS = ("Adafactor's steps are relative: the plan's groups say relative_step=False, scale_parameter=True, and eps, of "
         "which the second, the least size, goes with initial sizes; torch's takes a learning rate of 1/step^(1/2) at "
         "most, which undoes factors once the learning rate of a group is above it")
SPHERE = ("weights keep their Frobenius norm, and a step is its rate times that norm: the rate leaves out what the "
          "norm grows by")
RANK = ("a step of rank r has r^(-1/2) of its Frobenius norm in each of its directions, weights have n^(-1/2) in "
        "theirs: {}")
RANKS = {"fixed": "gradients have a fixed rank", "width": "gradients have a rank that grows as the width does"}
ON_SPHERE = ("matrices of layers are on spheres: W becomes |W_0| (W - lr |W_0| U / |U|) over its norm, as MuonH and "
             "AdamH have it; a weight decay takes nothing of them, and their groups have none")
HEAD = "as the head it meets a number that grows by {:.6g} and as the embedding one that grows by {:.6g}"


@dataclass(frozen=True)
class PowerStep:
    """One reason for powers of an entry. reason: in words; key: of the ledger, "" where it is none of a paper; powers:
    what the entry's are multiplied with."""

    reason: str = field(compare=False)
    key: str
    powers: Powers


@dataclass(frozen=True)
class PlanEntry:
    """One pattern of parameters. steps: reasons, whose powers multiply to those of the depth L, of the width n, or of
    fan-in and fan-out, and of numbers of the forward pass; growth: by what these grow. The multiplier is what is left
    for the forward pass, none where it is part of the parameter."""

    parameter: Parameter
    optimizer: str
    steps: tuple[PowerStep, ...] = ()
    growth: Mapping[str, float] = Frozen({})

    @cached_property
    def powers(self) -> Powers:
        """The product of all steps."""
        return reduce(Powers.times, (step.powers for step in self.steps), Powers())

    def factor(self, name: str) -> float:
        """What to multiply the base's setting with; name: "init", "lr", "eps", "weight_decay" or "forward"."""
        return prod((grown**float(self.powers.of(SETTINGS[name], size)) for size, grown in self.growth.items()),
                    start=1.0)

    def power(self, name: str) -> str:
        """The powers of the depth L, of the width n and of whatever else grows, as text."""
        powers = [(size.replace("_", "-"), self.powers.of(SETTINGS[name], size)) for size in self.growth]
        return " ".join(f"{base}^{power}" if power.is_Integer and power >= 0 else f"{base}^({power})"
                        for base, power in powers if power != 0) or "1"

    def moved(self, optimizer: str) -> float:
        """The factor of what multiplies the optimizer's direction: the learning rate's, and with Adafactor and on
        spheres that of the parameter's own size."""
        relative = optimizer == "adafactor" or on_spheres(optimizer) and self.optimizer == SIGN
        return self.factor("lr") * (self.factor("init") if relative else 1.0)

    @property
    def why(self) -> str:
        """Keys of the ledger that the powers rest on."""
        keys = [{"L": DEPTH, "N": LOOPS}.get(size, WIDTH) for size in self.growth
                if size in self.powers.sizes and size not in (BATCHES, LENGTH)]
        return ", ".join(dict.fromkeys(keys)) or "as in the base"


@dataclass(frozen=True, repr=False)
class Plan(Short, Tabled):
    """What to set for the target so that it trains as the base does. See ``plan_shapes`` and ``tpcalc.torch.plan``.

    recipe: the depth recipe's name; optimizer: whose; forward: "gauge" or "multiplier"; entries: one a pattern;
    unfolded: modules that cannot carry a multiplier, with those whose output can be multiplied; notes: what the plan
    cannot do, or does not know.
    """

    recipe: str
    optimizer: str
    forward: str
    roles: Roles
    entries: tuple[PlanEntry, ...]
    unfolded: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[Fields]:
        """One dictionary a pattern: role, power and factor of each setting, and the ledger's keys."""
        return list(
            {"pattern": e.parameter.pattern, "role": e.parameter.role,
             **{name: f"{e.power(name)} = {e.factor(name):.4g}" for name in ("init", "lr", "eps", "weight_decay")
                if (name != "eps" or e.optimizer in ADAMS) and (name != "weight_decay" or e.parameter.decays)},
             "why": e.why} for e in self.entries)

    @property
    def title(self) -> str:
        """The recipe, the optimizer, and what grows, in a line."""
        layers = self.roles.layers
        visits = next((one.use.visits for one in self.roles.parameters if one.use.visits != 1), 1)
        alone = self.roles.stays and self.roles.width != 1
        return (f"{self.recipe}, {self.optimizer}: depth {layers.base} -> {layers.target}, width "
                f"{'of hidden layers alone ' * alone}times {self.roles.width:g}"
                + f", visits of layers times {visits:g}" * (visits != 1))

    def __str__(self) -> str:
        lines = [f"in forward: multiply what {module or 'the model'} returns by {factor:.6g}"
                 for module, factor in self.multipliers().items()]
        return "\n".join([self.title, text_table(self.rows), *lines, *(f"note: {note}" for note in self.notes)])

    def entry(self, name: str) -> PlanEntry:
        """The entry of the parameter of this name; ``ValueError`` where the plan has none."""
        name = plain_name(name)
        pattern = self.roles.layers.pattern(name)
        for names in ("names", "base_names"):
            for entry in self.entries:
                if name in getattr(entry.parameter, names):
                    return entry
        for entry in self.entries:
            if entry.parameter.pattern == pattern:
                return entry
        raise ValueError(f"{name}: got a parameter that the plan does not know; expected models as make(**target) "
                         "returns them")

    def groups(self, model: Value, lr: float, weight_decay: float = 0.0, eps: float | None = None,
               muon_lr: float | None = None) -> list[Fields]:
        """Parameter groups for an optimizer of ``torch.optim``: every parameter that is trained is in exactly one.

        Parameters
        ----------
        model:
            a module with ``named_parameters()``, as make(**target) returns it. Names may have in them what
            torch.compile, DDP, FSDP and checkpointing add, and one and the same beginning, as of a module that has the
            model as its only part.
        lr, weight_decay, eps, muon_lr:
            what is right for the base. Vectors (gains, biases) do not decay. eps: None is 1e-8, PyTorch's. muon_lr: of
            Muon's groups; None is ``lr``.

        Returns a list of dictionaries with "params", "lr", "weight_decay", "role", "eps" for Adam, and the factors of
        these relative to the base's, "lr_scale" and so on; with Muon there is "use_muon" besides, "sphere" for weights
        on spheres, and settings of their own for torch's Muon and Adafactor. Raises ``ValueError`` for a
        model that is not the target's: other parameters, or shapes; and for settings that the optimizer does not have.
        """
        self._require_target(model)
        rate, decay = _checks.positive_number("lr", lr), _checks.nonnegative_number("weight_decay", weight_decay)
        if decay and self.optimizer == "adam":
            raise ValueError(f"weight_decay: got {weight_decay} with adam, whose steps do not keep it visible at any "
                             "power of the depth; expected 0, or a plan for an optimizer whose decay is decoupled")
        if decay and self.optimizer == "adafactor":
            raise ValueError(f"weight_decay: got {weight_decay} with adafactor, of which transformers' decays by it "
                             "times the size of the weight, and torch's does not; expected 0")
        if eps is not None and not any(entry.optimizer in ADAMS for entry in self.entries):
            raise ValueError(f"eps: got {eps!r}; {self.optimizer} has none; expected None")
        muon_rate = muon_rate_of(self, muon_lr)
        base_eps = 1e-8 if eps is None else _checks.positive_number("eps", eps)
        groups: dict[tuple[tuple[str, object], ...], Fields] = {}
        for name, parameter in self.named(model).items():
            entry = self.entry(name)
            if not getattr(parameter, "requires_grad", True):
                continue
            own = base_rate({"use_muon": is_muon(self.optimizer) and entry.optimizer == SIGN}, rate, muon_rate)
            on_sphere = on_spheres(self.optimizer) and entry.optimizer == SIGN
            decays = entry.factor("weight_decay") if entry.parameter.decays and not on_sphere else 0.0
            settings: Fields = {"lr": own * entry.factor("lr"), SCALE: entry.factor("lr"),
                                "weight_decay": decay * decays, "weight_decay_scale": decays}
            if entry.optimizer in ADAMS:
                settings.update(eps=base_eps * entry.factor("eps"), eps_scale=entry.factor("eps"))
            if is_muon(self.optimizer):
                settings["use_muon"] = entry.optimizer == SIGN
            if on_spheres(self.optimizer):
                settings["sphere"] = on_sphere
            if self.optimizer in ADJUSTED and entry.optimizer == SIGN:
                settings["adjust_lr_fn"] = self.optimizer.partition("-")[2]
            if self.optimizer == "adafactor":
                settings.update(eps=(FLOOR[0], FLOOR[1] * entry.factor("init")), relative_step=False,
                                scale_parameter=True)
            settings["role"] = entry.parameter.role
            groups.setdefault(tuple(settings.items()), {"params": [], **settings})["params"].append(parameter)
        return list(groups.values())

    def rates(self, optimizer: Value, lr: float, muon_lr: float | None = None) -> list[float]:
        """The learning rate of every group of an optimizer, in their order, where the base's is ``lr``.

        Schedulers that take rates of their own take this list: ``OneCycleLR(optimizer, max_lr=plan.rates(optimizer,
        1e-3), ...)``. Those that multiply rates need nothing. Raises ``ValueError`` for groups that are not the plan's.

        >>> class Optimizer:
        ...     param_groups = [{"lr": 1.0, "lr_scale": 0.25, "role": "branch output"}]
        >>> shapes = {"emb.weight": (65, 8), "h.0.proj.weight": (8, 8), "head.weight": (65, 8)}
        >>> deeper = {**shapes, **{f"h.{l}.proj.weight": (8, 8) for l in range(4)}}
        >>> plan, optimizer = plan_shapes(shapes, deeper), Optimizer()
        >>> plan.rates(optimizer, 1e-3)
        [0.00025]
        >>> plan.set_lr(optimizer, 2e-3)
        >>> optimizer.param_groups[0]["lr"], plan.check(optimizer)
        (0.0005, {'lr': 0.002})
        """
        return rates_of(self, optimizer, lr, muon_lr)

    def set_lr(self, optimizer: Value, lr: float, muon_lr: float | None = None) -> None:
        """Set the learning rate of every group: ``lr``, what it would be at the base, times the group's factor. It
        stands where a training loop has ``group["lr"] = lr``. Raises as ``rates``."""
        for group, rate in zip(groups_of(self, optimizer), rates_of(self, optimizer, lr, muon_lr)):
            group["lr"] = rate

    def check(self, optimizer: Value) -> dict[str, float]:
        """{"lr": the base's learning rate, by all groups of an optimizer}, and "muon_lr" by those of Muon.

        To be called after the first step of a scheduler: raises ``ValueError`` where groups have not the plan's factors
        any more, as behind ``OneCycleLR(max_lr=1e-3)`` or a loop that sets all rates alike, and so for weight decay and
        Adam's eps; where all rates are 0, so that nothing can be told; and for groups that are not the plan's.
        """
        return base_rates(self, optimizer)

    def rename(self, model: Value) -> Callable[[str], str]:
        """The function from the names that a model has for its parameters and modules to those of the plan."""
        if not hasattr(model, "named_parameters"):
            raise ValueError(f"model: got {_checks.short(model)}; expected one with named_parameters()")
        known = [name for one in self.entries for name in (*one.parameter.names, *one.parameter.base_names)]
        return renamed([name for name, _ in model.named_parameters()], known)

    def named(self, model: Value) -> dict[str, Value]:
        """The plan's name -> the parameter of a model that may be wrapped, or a part of another module that has no
        other parameters."""
        rename, found, given = self.rename(model), dict[str, Value](), dict[str, str]()
        for name, parameter in model.named_parameters():
            if (plain := rename(name)) in found:
                raise ValueError(f"model: got {name} and {given[plain]}, which are one name without what wrappers add; "
                                 "expected models as make(**target) returns them")
            found[plain], given[plain] = parameter, name
        return found

    def _require_target(self, model: Value) -> None:
        shapes = {name: tuple(parameter.shape) for name, parameter in self.named(model).items()}
        wanted = {name: entry.parameter.shape for entry in self.entries for name in entry.parameter.names}
        for name in (*shapes, *wanted):
            got, expected = shapes.get(name), wanted.get(name)
            if got != expected:
                raise ValueError(f"model: got {name} of shape {got or 'none, it has no such parameter'}; expected "
                                 f"{expected or 'no such parameter'}, as make(**target) has it")

    def multipliers(self) -> dict[str, float]:
        """{pattern of a module, "" for the model: the factor that what it returns has to be multiplied with, in the
        forward pass}."""
        behind = dict(self.unfolded)
        return {behind.get(one.parameter.module, one.parameter.module if one.parameter.head is None
                           else one.parameter.head): one.factor("forward") for one in self.entries
                if one.parameter.is_matrix and one.factor("forward") != 1}

    def to(self, form: str) -> Value:
        """Overrides as other trainers take them, factors relative to the base's settings.

        form: "json" text of everything; "hf" a list of dictionaries (regular expression ``params``, ``lr_scale``,
        ``weight_decay_scale``, ``eps_scale``) to make groups of; "nemo" NeMo Automodel's ``param_group_overrides``;
        "megatron" {name pattern of a ParamKey: factors}. NeMo's has no eps: raises ``ValueError`` where parameters need
        different ones.
        """
        return FORMATS[_checks.choice("form", form, FORMATS)](self)


def plan_shapes(base: Mapping[str, Shape], target: Mapping[str, Shape], recipe: str | Scaling = "depth-mup",
                optimizer: str = "adamw", forward: str = "gauge", width: str = "muP",
                ties: Iterable[tuple[str, ...]] = (), unfolded: Mapping[str, str] = MappingProxyType({}),
                horizon: Mapping[str, Value] | None = None, x: Value = None, data: str | None = None) -> Plan:
    """A plan from names and shapes of a model at two sizes; needs no torch.

    Parameters
    ----------
    base, target, ties:
        as in ``find_roles``.
    recipe:
        a name of ``tp.named_recipes()`` for the depth, or a ``tp.DepthScaling``, or a ``tp.Parametrization`` that is
        muP in width and has one exponent for all matrices, or powers of L for "branch", "*" and "last".
    optimizer:
        "sgd", "momentum", "adam", "adamw", "lion" with its decoupled weight decay, or "muon" for the matrices of layers
        with AdamW for the rest: a Muon whose updates have spectral norm 1. "muon-original" and "muon-match_rms_adamw"
        are torch.optim.Muon by its adjust_lr_fn. "adafactor" moves weights relative to their sizes (without
        scale_parameter it is "lion"); "soap" is for one width. "muonh" and "adamh" keep matrices of layers on
        Frobenius spheres, by steps relative to their norms, with AdamW for the rest.
    forward:
        "gauge" makes the branch multiplier a part of the last matrix of a branch; "multiplier" leaves it to the forward
        pass.
    width:
        "muP".
    unfolded:
        {pattern of a module behind which something normalizes, so that it cannot carry the multiplier: pattern of the
        module whose output can be multiplied}.
    horizon:
        ``dict(batch_size=(512, 1024), steps=(10_000, 40_000))``, pairs of base and target: rates and decays then have
        powers of both, as ``tp.transfer_rule`` has them. Batches count what a gradient is a mean of: tokens, where
        every one has a target. ``u`` of the rule may be there too.
    x:
        of the rule: how best rates fall with data. Refused where it is needed and not given.
    data:
        "fixed" or "width", the number of directions of samples: of that the rank of a batch's gradient is. Needed where
        a rate goes by it: with "muonh" and "adamh" where the width grows, with Muon where the batch does.

    Raises ``ValueError`` for what is not understood, naming the parameter. Source: Tensor Programs VI, Definition 4.1
    [tensor_programs_vi/definition_41]; Meta-Principled Family, (2.4) to (2.8) [meta_principled/translation].

    >>> small = {"emb.weight": (65, 8), "h.0.fc.weight": (32, 8), "h.0.proj.weight": (8, 32), "head.weight": (65, 8)}
    >>> large = {"emb.weight": (65, 8), **{f"h.{l}.{k}": s for l in range(4) for k, s in (
    ...     ("fc.weight", (32, 8)), ("proj.weight", (8, 32)))}, "head.weight": (65, 8)}
    >>> found = plan_shapes(small, large)
    >>> found.entry("h.3.proj.weight").factor("lr"), found.entry("h.3.fc.weight").factor("lr"), found.multipliers()
    (0.25, 0.5, {})
    """
    forward = _checks.choice("forward", forward, ("gauge", "multiplier"))
    _checks.choice("width", width, ("muP",))
    there = plan_horizon(horizon, x, data)
    found = find_roles(base, target, ties)
    return with_horizon(plan_of_roles(found, recipe, checked_optimizer(optimizer), forward, unfolded,
                                      (HEADS,) if found.width != 1 else (), data=data), there)


def plan_of_roles(found: Roles, recipe: str | Scaling, optimizer: str, forward: str,
                  unfolded: Mapping[str, str] = MappingProxyType({}), notes: tuple[str, ...] = (),
                  of_visits: Mapping[str, Powers] = MappingProxyType({}), data: str | None = None) -> Plan:
    """A plan from roles, whatever told them; the other arguments are those of ``plan_shapes``. of_visits: the powers of
    the number of visits for matrices of layers, by what moves them; needed where that grows."""
    data = data and _checks.choice("data", data, DIRECTIONS)
    entries, clips = [], False
    for parameter in found.parameters:
        own, use = optimizer_of_role(parameter, optimizer), parameter.use
        if use.as_base:
            entries.append(PlanEntry(parameter, own))
            continue
        steps = [PowerStep(depth_reason(parameter, recipe, own), DEPTH, depth_powers(parameter, recipe, optimizer))]
        if steps[0].powers.multiplier and forward == "gauge" and parameter.module not in unfolded:
            steps.append(PowerStep(GAUGE.format(own, 1 + gradient_degree(own)), "", fold(steps[0].powers, own)))
            clips = True
        growth = {"L": use.depth}
        if use.visits != 1 and parameter.in_layers:
            given = of_visits[own]
            again = given if is_last(parameter) else replace(given, multiplier=Frozen({}))
            steps.append(PowerStep(AGAIN.format(use.visits), LOOPS, again))
            if again.multiplier and forward == "gauge" and parameter.module not in unfolded:
                steps.append(PowerStep(GAUGE.format(own, 1 + gradient_degree(own)), "", fold(again, own)))
                clips = True
            growth["N"] = use.visits
        wide, grown = width_growths(parameter, optimizer, found.width, one_eps(recipe), named_recipe(recipe).factor,
                                    found.stays)
        if grown:
            steps.append(PowerStep(WIDTH_REASON.format(parameter.role, use.fan_in, use.fan_out), WIDTH, wide))
        growth.update(grown)
        for reason, powers in expert_growths(parameter, optimizer, named_recipe(recipe).factor):
            steps.append(PowerStep(reason, "", powers))
            growth.update({"k": use.active, "E": use.experts})
        if use.forward != 1:  # what the forward pass already has is taken back
            front = Powers({"forward": -1})
            steps.append(PowerStep(FORWARD.format(use.forward), "", front.times(fold(front, own))))
            growth["forward"] = use.forward
        if parameter.role == "tied" and use.forward != use.at_head:
            steps.append(PowerStep(HEAD.format(use.at_head, use.forward), "", Powers({"head": 1})))
            growth["head"] = use.forward / use.at_head
        entry = PlanEntry(parameter, own, tuple(steps), Frozen(growth))
        if optimizer == "adafactor":
            steps.append(PowerStep(RELATIVE, "", Powers(
                lr={size: -power for size, power in entry.powers.init.items()},
                decay={size: -power for size, power in (entry.powers.decay or {}).items()})))  # which groups refuse
            entry = replace(entry, steps=tuple(steps))
        if on_spheres(optimizer) and own == SIGN:
            entry = replace(entry, steps=(*steps, *_on_sphere(entry, optimizer, data)))
        entries.append(entry)
    own_notes = [note for note, holds in ((ON_SPHERE, on_spheres(optimizer)), (STEPS, optimizer == "adafactor"),
                                          (CLIPPING, clips)) if holds]
    if found.width != 1 and data != "width" and (is_muon(optimizer) or on_spheres(optimizer)):
        own_notes += finite_batches(ON_NORMS.get(optimizer, "muon"))
    said = [*assumed(recipe, optimizer), *own_notes, *notes]
    return Plan(named_recipe(recipe).name, optimizer, forward, found, tuple(entries), tuple(unfolded.items()),
                tuple(said))


def _on_sphere(entry: PlanEntry, optimizer: str, data: str | None) -> list[PowerStep]:
    """What rates relative to Frobenius norms have besides those of steps of spectral norm 1.

    Raises ``NotCovered`` where the width grows and nobody said which rank gradients have, and for matrices of which not
    all dimensions grow as one.
    """
    powers = entry.powers
    steps = [PowerStep(SPHERE, "", Powers(lr={size: -power for size, power in powers.init.items()},
                                          decay={size: -power for size, power in (powers.decay or {}).items()}))]
    wide = [size for size in entry.growth if size in ("n", "fan_in", "fan_out")]
    if not wide:
        return steps
    pattern = entry.parameter.pattern
    if wide != ["n"] or entry.parameter.use.fan_in != entry.parameter.use.fan_out:
        raise NotCovered(f"{pattern}: got a matrix of which not all dimensions grow as one, with {optimizer}, whose "
                         "steps go by the rank of gradients; expected matrices of layers that grow as a whole")
    if data is None:
        raise NotCovered(f"data: needed for {pattern}, whose rate on a sphere goes with the width as the root of a "
                         "gradient's rank over it; expected data='fixed', samples of a fixed number of directions, or "
                         "'width', as many as the width")
    powers_of_rank = rank_powers(ON_NORMS[optimizer])
    assert powers_of_rank is not None
    relative = powers_of_rank.in_width(data)["relative step"] - HALF  # the first step took the size of entries
    return [*steps, PowerStep(RANK.format(RANKS[data]), "", Powers(lr={"n": relative}))]


def regular_expression(pattern: str) -> str:
    """What matches the names that a pattern stands for, and no others."""
    return "^" + re.escape(pattern).replace(r"\*", r"\d+") + "$"


def _factors(entry: PlanEntry, names: dict[str, str]) -> dict[str, float]:
    found = {key: entry.factor(name) for name, key in names.items() if name != "eps" or entry.optimizer in ADAMS}
    if not entry.parameter.decays:
        found[names["weight_decay"]] = 0.0
    return found


def to_json(plan: Plan) -> str:
    """Everything, as text."""
    names = {name: name for name in ("init", "lr", "eps", "weight_decay", "forward")}
    return json.dumps({
        "recipe": plan.recipe, "optimizer": plan.optimizer, "forward": plan.forward,
        "depth": [plan.roles.layers.base, plan.roles.layers.target], "width": plan.roles.width,
        "parameters": [{"pattern": e.parameter.pattern, "role": e.parameter.role,
                        "powers": {name: e.power(name) for name in names}, "factors": _factors(e, names)}
                       for e in plan.entries], "multipliers": plan.multipliers(), "notes": list(plan.notes)}, indent=2)


def to_hugging_face(plan: Plan) -> list[Fields]:
    """One dictionary a pattern: groups are made of them in a trainer's ``create_optimizer``."""
    names = {"lr": "lr_scale", "weight_decay": "weight_decay_scale", "eps": "eps_scale"}
    return [{"params": regular_expression(e.parameter.pattern), **_factors(e, names)} for e in plan.entries]


def to_nemo(plan: Plan) -> Fields:
    """NeMo Automodel's ``param_group_overrides``, a factor of the optimizer's eps beside them."""
    eps = {e.factor("eps") for e in plan.entries if e.optimizer in ADAMS}
    if len({round(one, 12) for one in eps}) > 1:
        raise ValueError("form: got 'nemo', which has one eps for all parameters, and this plan has "
                         f"{', '.join(f'{one:.4g}' for one in sorted(eps))} times the base's; expected a recipe with "
                         "one eps, such as 'completep' with forward='multiplier', or another form")
    names = {"lr": "lr_mult", "weight_decay": "wd_mult", "eps": "eps"}
    overrides = [{"pattern": regular_expression(e.parameter.pattern), **_factors(e, names)} for e in plan.entries]
    for one in overrides:
        one.pop("eps", None)
    return {"param_group_overrides": overrides, "eps_scale": eps.pop() if eps else 1.0}


def to_megatron(plan: Plan) -> dict[str, dict[str, float]]:
    """{name of a ParamKey: factors}: multiply the configuration's max_lr, min_lr and eps by them in an override."""
    names = {"lr": "lr_mult", "weight_decay": "wd_mult", "eps": "eps_mult"}
    return {e.parameter.pattern: _factors(e, names) for e in plan.entries}


FORMATS: dict[str, Callable[[Value], object]] = {
    "hf": to_hugging_face, "nemo": to_nemo, "megatron": to_megatron, "json": to_json}
