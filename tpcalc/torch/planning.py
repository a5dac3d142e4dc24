"""``plan``: the factors for the model you have, from a reading of it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from math import prod
from typing import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import Module as Model
from torch.utils._pytree import tree_map

from .. import _checks
from ..errors import NotCovered
from ..groups import Plan, plan_shapes
from ..groups.factors import SIGN, checked_optimizer, is_last, layer_settings, name_in
from ..groups.names import Shape, plain_name
from ..groups.plan import PlanEntry, plan_of_roles
from ..scaling import Scaling
from .judging import ExpectedPowers
from .reading.building import LARGEST, Config, Make, NotRun, draw_zeros, on_meta
from .reading.claims import require
from .reading.planned import planned
from .reading.reading import Reading, read
from .streams import MAKE, build
from .update_claims import UpdateClaims


@dataclass(frozen=True, repr=False)
class ModelPlan(Plan):
    """A plan that can set initial sizes, since it knows how the base is made.

    make, base: as given to ``plan``; reading: what its roles rest on, None where names and shapes told them; behind:
    modules to multiply, with factors.
    """

    make: Make = Model
    base: Config = ()  # type: ignore[assignment]
    reading: Reading | None = None
    behind: tuple[tuple[str, float], ...] = ()

    def multipliers(self) -> dict[str, float]:
        """As in ``Plan``, and modules that return a branch behind which a norm stands."""
        return {**super().multipliers(), **{module: factor for module, factor in self.behind if factor != 1}}

    def explain(self, pattern: str) -> str:
        """What the reading knows of the parameters that match, and the powers of their settings. Raises ``ValueError``
        where none matches."""
        entries = [one for one in self.entries if fnmatchcase(one.parameter.pattern, pattern)
                   or any(fnmatchcase(name, pattern) for name in one.parameter.names)]
        if not entries:
            raise ValueError(f"pattern: got {pattern!r}, which no parameter matches; expected names or patterns")
        lines = []
        for entry in entries[:1]:
            if self.reading is not None and entry.parameter.base_names:
                lines.append(self.reading.explain(entry.parameter.base_names[0]))
            lines += [f"  {name}: {entry.power(name)} = {entry.factor(name):.4g}" for name in (
                "init", "lr", "eps", "weight_decay", "forward") if entry.power(name) != "1"]
            lines.append(f"  why: {entry.why}")
        return "\n".join(lines)

    def init_(self, model: Model, seed: int = 0) -> Model:
        """Give every parameter the size that it has in the base, times its factor; in place, and returns the model.

        What the model has drawn keeps its shape: root mean squares are set, pattern by pattern, over all layers. So
        factors of the depth that the model's own initialization has, such as GPT-2's, do not count twice. A base is
        built for its sizes, from ``seed``.

        Raises ``ValueError`` for parameters on the meta device, that are not finite (a model after ``to_empty`` has to
        be initialized first), and of a pattern that is zero here and not in the base.
        """
        return self.sized_(model, build(self.make, self.base, seed))

    def sized_(self, model: Model, base: Model) -> Model:
        """As ``init_``, with the sizes of a base that is given."""
        small, large = _sums(base), _sums(model)
        entries = {name: self.entry(name) for name in large}
        groups: dict[str, list[str]] = {}
        for name, entry in entries.items():
            groups.setdefault(entry.parameter.pattern, []).append(name)
        factors = {}
        for pattern, names in groups.items():
            entry = entries[names[0]]
            twins = entry.parameter.base_names or [one for one in small if self.entry(one) is entry]
            before, now = (_size([sums[one] for one in given]) for sums, given in ((small, twins), (large, names)))
            if not now < float("inf") or now == 0 and before != 0:
                raise ValueError(f"{pattern}: got values of root mean square {now:g}, {before:g} in the "
                                 "base; expected a model that is initialized, in its own way")
            factors[pattern] = before * entry.factor("init") / now if before else 0.0
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                factor = factors[entries[plain_name(name)].parameter.pattern]
                parameter.mul_(factor) if factor else parameter.zero_()
        return model

    def multiplied_(self, model: Model) -> Model:
        """What modules return is multiplied as ``multipliers()`` says, by hooks; in place, and returns the model."""
        for pattern, factor in self.multipliers().items():
            for name, module in model.named_modules():
                if _is_named(plain_name(name), pattern):
                    module.register_forward_hook(partial(_times, factor))
        return model


def _is_named(module: str, pattern: str) -> bool:
    """Does a pattern name this module? Its stars are numbers of layers, and not what stands within them."""
    parts, stars = module.split("."), pattern.split(".")
    return len(parts) == len(stars) and all(map(fnmatchcase, parts, stars))


def _times(factor: float, module: Model, args: object, output: object) -> object:
    return tree_map(lambda one: one * factor if isinstance(one, Tensor) and one.is_floating_point() else one, output)


def _sums(model: Model) -> dict[str, tuple[float, int]]:
    """Parameter -> the sum of its squares, and how many there are."""
    found = {}
    for name, parameter in model.named_parameters():
        if parameter.is_meta:
            raise ValueError(f"{name}: got on the meta device; expected models with values")
        found[plain_name(name)] = float(parameter.detach().double().square().sum()), parameter.numel()
    return found


def _size(sums: Sequence[tuple[float, int]]) -> float:
    """The root mean square of several parameters together."""
    return float((sum(one for one, _ in sums) / max(1, sum(count for _, count in sums)))**0.5)


def plan(make: Make | Model, base: Config | Model, target: Config | None = None,
         recipe: str | Scaling = "depth-mup", optimizer: str = "adamw", forward: str = "gauge", batch: object = None,
         width: str = "muP", roles: Mapping[str, str] | None = None, reading: Reading | None = None,
         unknown: str = "refuse") -> ModelPlan:
    """What to set for ``make(**target)`` so that it trains as ``make(**base)`` does.

    Parameters
    ----------
    make:
        returns a ``torch.nn.Module``; or, with the target in place of base, a model or a configuration of transformers.
    base, target:
        its arguments, for the model whose settings are right and for the one that is wanted.
    recipe, optimizer, forward, width:
        as in ``tpcalc.groups.plan_shapes``. "gauge" makes the branch multiplier a part of the last matrix of a branch:
        exact for SGD (learning rate times m^2), Adam and AdamW (rate times m, eps and decay over m), not where
        gradients are clipped by their global norm. Where something normalizes after that matrix, ``multipliers()``
        says which module's output to multiply.
    batch, roles:
        as in ``tpcalc.torch.read``, which says what parameters do.
    reading:
        what ``read`` returned for these models; None reads them. A model that does not run on a drawn batch is planned
        by names and shapes, which a note says.
    unknown:
        "refuse", or "as-base" for parameters that are not understood: they keep the base's settings, which notes say.

    Returns a plan: ``print`` it, ``plan.init_(model)``, ``plan.groups(model, lr=...)``, ``plan.multipliers()``,
    ``plan.explain(pattern)``, ``plan.to("json")``. Raises ``NotCovered`` naming the parameter that is not understood,
    or the operation on the stream that no power of the depth is known for. Source: Tensor Programs VI, Definition 4.1
    [tensor_programs_vi/definition_41]; Meta-Principled Family, (2.4) to (2.8) [meta_principled/translation].

    >>> import torch
    >>> from torch import nn
    >>> class Net(nn.Module):
    ...     def __init__(self, n_layer, n=16):
    ...         super().__init__()
    ...         self.emb = nn.Linear(3, n)
    ...         self.h = nn.ModuleList(
    ...             nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n)) for _ in range(n_layer))
    ...         self.head = nn.Linear(n, 1)
    ...     def forward(self, x):
    ...         x = self.emb(x)
    ...         for block in self.h:
    ...             x = x + block(x)
    ...         return self.head(x)
    >>> found = plan(Net, dict(n_layer=4), dict(n_layer=64), recipe="depth-mup", optimizer="adamw")
    >>> model = found.init_(Net(n_layer=64))
    >>> optimizer = torch.optim.AdamW(found.groups(model, lr=1e-3, weight_decay=0.1))
    >>> sorted({group["lr"] for group in optimizer.param_groups})
    [6.25e-05, 0.00025, 0.001]
    """
    if target is None:
        make, base, target = two_models(make, base)
    _checks.function("make", make, MAKE, optional=False)
    for name, config in (("base", base), ("target", target)):
        _checks.instance(name, config, Mapping, "a dictionary of arguments of make")
    _checks.choice("unknown", unknown, ("refuse", "as-base"))
    optimizer, forward = checked_optimizer(optimizer), _checks.choice("forward", forward, ("gauge", "multiplier"))
    try:
        found = read(make, base, target, batch, roles) if reading is None else reading
    except NotRun as refusal:
        small, ties = meta_shapes(make, base)
        shapes = plan_shapes(small, meta_shapes(make, target)[0], recipe, optimizer, forward, width, ties)
        note = (f"the base could not be run on a batch that was drawn ({refusal.kind}), so that roles are those that "
                "names and shapes tell; give batch= for a look at it")
        return _model_plan(shapes, make, base, (note,))
    _checks.choice("width", width, ("muP",))
    told = planned(found, unknown)
    if forward == "multiplier":
        for end, module in told.returning.items():
            if not module:
                raise NotCovered(f"{end}: got a branch that no module returns, with forward='multiplier'; expected "
                                 "modules that return branches, or forward='gauge'")
    result = plan_of_roles(told.roles, recipe, optimizer, forward, told.returning if forward == "multiplier" else {},
                           told.notes)
    own = SIGN if optimizer == "muon" else optimizer
    power = float(layer_settings(recipe, optimizer, own).branch)
    made = _model_plan(result, make, base, (), found, tuple((module, depth**power) for module, depth in told.behind))
    if sum(map(prod, found.shapes.values())) > LARGEST:
        return made
    return _tested(made, recipe, make, base, target, batch)


def _tested(made: ModelPlan, recipe: str | Scaling, make: Make, base: Config, target: Config,
            batch: object) -> ModelPlan:
    """The plan, its reading with the claims that updates and streams of base and target agree. Raises ``NotCovered``
    naming parameter, operation and module where one does not hold."""
    assert made.reading is not None

    def pair(seed: int) -> tuple[Model, Model]:
        small, large = build(make, base, seed), build(make, target, seed)
        for one in (small, large):
            draw_zeros(one)
        return small, made.multiplied_(made.sized_(large, small))

    def expected(entry: PlanEntry) -> float | None:
        if not entry.parameter.in_layers:
            return 0.0
        if entry.parameter.role == "stream factor":  # it multiplies the stream itself
            return float(entry.powers.of("lr", "L"))
        given = layer_settings(recipe, made.optimizer, entry.optimizer)
        return ExpectedPowers(given, name_in(given, is_last(entry.parameter))).update

    found = UpdateClaims(pair, made.entry, expected, made.roles.width != 1).claims(batch)
    require(found)
    return replace(made, reading=replace(made.reading, claims=(*made.reading.claims, *found)))


def _model_plan(found: Plan, make: Make, base: Config, notes: tuple[str, ...], reading: Reading | None = None,
                behind: tuple[tuple[str, float], ...] = ()) -> ModelPlan:
    return ModelPlan(**{**vars(found), "notes": (*found.notes, *notes)}, make=make, base=dict(base), reading=reading,
                     behind=behind)


def two_models(small: object, large: object) -> tuple[Make, Config, Config]:
    """make, base and target for two models, or for two configurations of transformers."""
    given = {"base": small, "target": large}
    if all(isinstance(one, torch.nn.Module) for one in given.values()):
        return (lambda which: copy.deepcopy(given[which])), {"which": "base"}, {"which": "target"}
    if all(hasattr(one, "model_type") and hasattr(one, "architectures") for one in given.values()):
        return (lambda which: _from_configuration(given[which])), {"which": "base"}, {"which": "target"}
    raise ValueError(f"target: got None, with {_checks.short(small)} and {_checks.short(large)}; expected make, base "
                     "and target, two models, or two configurations of transformers")


def _from_configuration(config: object) -> Model:
    """The model that a configuration of transformers is of: of its first architecture, or a causal language model."""
    import transformers  # type: ignore[import-not-found]
    names = getattr(config, "architectures", None)
    if names:
        return getattr(transformers, names[0])(config)
    return transformers.AutoModelForCausalLM.from_config(config)


def meta_shapes(make: Make, config: Config) -> tuple[dict[str, Shape], list[tuple[str, ...]]]:
    """Name -> shape of every parameter, and the names of those that have several; of a model without values."""
    model = on_meta(make, config)
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(plain_name(name))
    shapes = {plain_name(name): tuple(parameter.shape) for name, parameter in model.named_parameters()}
    return shapes, [tuple(all_names) for all_names in names.values() if len(all_names) > 1]
