"""A deeper model from a trained one: weights, multipliers and the optimizer's state, by the plans of both depths."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Callable, Mapping

import torch
from torch import Tensor
from torch.nn import Module as Model

from .. import _checks
from .._shown import Short
from ..errors import NotCovered
from ..groups.plan import PlanEntry
from .model_plan import ModelPlan
from .reading.planned import module_patterns, stars_of
from .streams import drawn_batch, output_of, run_on

if TYPE_CHECKING:
    from .families import PlanFamily

NEW, ORDERS = ("zero", "copy"), ("interleaved", "stacked")
DEGREES = {"exp_avg": 1, "exp_avg_sq": 2, "max_exp_avg_sq": 2, "momentum_buffer": 1}  # of state in gradients
EXACT = 1e-4  # of the outputs' size, up to which the function is the same


@dataclass(frozen=True, repr=False)
class GrownModel(Short):
    """A deeper model that goes on from a trained one.

    model: it, with its multipliers; plan: its own; new, order: as given; layers: how many the models have; origins:
    {parameter: that of the trained model whose values it has}, without those that start anew; scales: {parameter: what
    these values were multiplied by}; added: what the copies of a layer add to the stream together, over what that layer
    did; difference: of outputs, over their size, on one batch.
    """

    model: Model
    plan: ModelPlan
    new: str
    order: str
    layers: tuple[int, int]
    origins: Mapping[str, str]
    scales: Mapping[str, float]
    added: float
    difference: float
    _gradients: Mapping[str, float]
    _trained: Mapping[str, Tensor]

    def move_state(self, before: torch.optim.Optimizer, after: torch.optim.Optimizer) -> None:
        """Give an optimizer of the grown model the state of the one of the trained model, parameter by parameter.

        Moments are scaled as gradients are. Parameters that start anew have none, and count their steps from 0. Raises
        ``NotCovered`` for state that is not known to scale, ``ValueError`` for an optimizer of other parameters.
        """
        parameters = self.plan.named(self.model)
        known = {id(p) for group in after.param_groups for p in group["params"]}
        moved = {}
        for name, origin in self.origins.items():
            state = before.state.get(self._trained[origin])
            if not state:
                continue
            if id(parameters[name]) not in known:
                raise ValueError(f"after: got an optimizer that has not {name}; expected one of plan.groups(model)")
            moved[name] = {key: _scaled(name, key, value, self._gradients[name]) for key, value in state.items()}
        if not moved and not _keeps_nothing(before):
            raise ValueError("before: got an optimizer without state for the trained model; expected the one that has "
                             "trained it")
        for name, state in moved.items():
            after.state[parameters[name]] = state

    def __str__(self) -> str:
        multiplied = sorted({f"{scale:.4g}" for scale in self.scales.values() if abs(scale - 1) > 1e-9})
        lines = [f"{self.layers[0]} -> {self.layers[1]} layers, {self.order}, new ones "
                 f"{'at zero' if self.new == 'zero' else 'are copies'}: {self.plan.title}"]
        lines += [f"weights times {', '.join(multiplied)} at the end of branches"] if multiplied else []
        lines += [f"copies of a layer add {self.added:.4g} times what it did"] if self.new == "copy" else []
        return "\n".join([*lines, f"outputs differ by {self.difference:.1g} of their size"])


def grow(family: PlanFamily, model: Model, to: Mapping[str, object], at: Mapping[str, object] | None, new: str,
         order: str, seed: int) -> GrownModel:
    """What ``PlanFamily.grow`` returns."""
    new, order = _checks.choice("new", new, NEW), _checks.choice("order", order, ORDERS)
    one, other = family.at(**(at or {})), family.at(**to)
    origins, fresh, layers = _origins(one, other, order)
    trained = one.named(model)
    one._require_target(model)
    first = next(iter(trained.values()))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        deeper = other.init_(family.make(**{**family.base, **to}), seed).to(first.device, first.dtype)
    ends = _carriers(one, other)
    multiplied = {pattern: _ratio(one, other, pattern, modules) for pattern, modules in ends.items()}
    copied = new == "copy"
    scales, gradients = dict[str, float](), dict[str, float]()
    with torch.no_grad():
        for name, parameter in other.named(deeper).items():
            entry, base = other.entry(name), one.entry(origins[name])
            pattern = entry.parameter.pattern
            if name in fresh and not copied:
                if pattern in ends:
                    parameter.zero_()
                continue
            scale = entry.factor("init") / base.factor("init") if copied else 1 / multiplied.get(pattern, 1.0)
            scales[name] = scale
            gradients[name] = _gradient(entry, base) if copied else 1 / scale
            parameter.copy_(trained[origins[name]] * scale)
            parameter.requires_grad_(trained[origins[name]].requires_grad)
        _move_buffers(one.rename(model), model, deeper, origins)
    other.multiplied_(deeper)
    batch = family.told("batch")
    difference = _difference(model, deeper, drawn_batch(model) if batch is None else batch)
    if not copied and not difference <= EXACT:
        raise NotCovered(f"new: got 'zero' with a model whose outputs then differ by {difference:.2g} of their size, "
                         "as where the stream is multiplied in every layer; expected layers that do nothing where "
                         "what their branches end in is 0")
    grown = layers[1] / layers[0]
    added = [grown * scale * multiplied[other.entry(name).parameter.pattern] for name, scale in scales.items()
             if copied and other.entry(name).parameter.pattern in ends]
    return GrownModel(deeper, other, new, order, layers, {name: origins[name] for name in scales}, scales,
                      max(added, default=1.0), difference, gradients, trained)


def _origins(one: ModelPlan, other: ModelPlan, order: str) -> tuple[dict[str, str], set[str], tuple[int, int]]:
    """Parameter of the deeper model -> of the trained one; those of new layers; and how many layers both have."""
    before = {entry.parameter.pattern: entry.parameter for entry in one.entries}
    origins, fresh, counts = dict[str, str](), set[str](), set[tuple[int, int]]()
    for entry in other.entries:
        now, then = entry.parameter, before.get(entry.parameter.pattern)
        if then is None and now.base_names != now.names:
            raise NotCovered(f"to: got {now.pattern}, which does what {now.base_names[0]} does in one list of several "
                             "kinds of parameters; expected layers that are modules, or a list for every kind")
        if then is None or then.shape != now.shape:
            raise ValueError(f"to: got {now.pattern} of shape {now.shape}, {then.shape if then else 'none'} in the "
                             "trained model; expected settings that change the depth alone")
        old, names = (sorted(each.names, key=lambda name: _numbers(now.pattern, name)) for each in (then, now))
        if len(names) != len(old):
            counts.add((len(old), len(names)))
        if len(names) < len(old) or len(counts) > 1:
            raise ValueError(f"to: got {len(names)} of {now.pattern}, {len(old)} in the trained model, where others go "
                             f"by {sorted(counts)}; expected more layers, and as many more of every kind")
        for k, (i, is_new) in enumerate(_positions(len(old), len(names), order)):
            origins[names[k]] = old[i]
            fresh.update([names[k]] if is_new else [])
    if not counts:
        raise ValueError("to: got a model that is no deeper; expected more layers")
    return origins, fresh, counts.pop()


def _numbers(pattern: str, name: str) -> tuple[int, ...]:
    """The numbers that stand for the stars of a pattern."""
    found = re.fullmatch(re.escape(pattern).replace(r"\*", r"(\d+)"), name)
    return tuple(map(int, found.groups())) if found else ()


def _positions(old: int, new: int, order: str) -> list[tuple[int, bool]]:
    """For every layer of the deeper model the one that it is, or comes after, in the trained one, and whether it is
    new."""
    if order == "stacked":
        return [(k % old, k >= old) for k in range(new)]
    starts = [-(-i * new // old) for i in range(old)]
    return [(max(i for i, start in enumerate(starts) if start <= k), k not in starts) for k in range(new)]


def _carriers(one: ModelPlan, other: ModelPlan) -> dict[str, set[str]]:
    """Pattern of the parameters that branches of layers end in -> patterns of the modules that return these."""
    reading = other.reading
    if reading is None or one.reading is None:
        raise NotCovered("make: got a model that was planned by names and shapes; expected one that can be read, of "
                         "which is known what branches end in")
    patterns = stars_of(reading, ((one.parameter.pattern, one.parameter.names) for one in other.entries))
    found: dict[str, set[str]] = {}
    for branch, module, chosen in module_patterns(reading, patterns):
        if not branch.ends:
            raise NotCovered(f"{branch.norm or branch.add}: got a branch that ends in no parameter; expected some, "
                             "which can be 0")
        for name in branch.ends:
            found.setdefault(chosen[name], set()).add(module)
    return found


def _ratio(one: ModelPlan, other: ModelPlan, pattern: str, modules: set[str]) -> float:
    """What the forward pass multiplies a branch with in the deeper model, over that in the trained one."""
    def factor(plan: ModelPlan) -> float:
        own = next(one.parameter.use.forward for one in plan.entries if one.parameter.pattern == pattern)
        return own * prod(hook for module, hook in plan.multipliers().items() if module in modules)

    return factor(other) / factor(one)


def _gradient(entry: PlanEntry, base: PlanEntry) -> float:
    """By how much gradients of a copied parameter change: as eps does, which goes with them; 0 where it is unknown."""
    return entry.factor("eps") / base.factor("eps") if entry.optimizer in ("adam", "adamw") else 0.0


def _keeps_nothing(optimizer: torch.optim.Optimizer) -> bool:
    """Is it gradient descent without momentum, which has no state?"""
    return isinstance(optimizer, torch.optim.SGD) and not any(group["momentum"] for group in optimizer.param_groups)


def _scaled(name: str, key: str, value: object, factor: float) -> object:
    """State of an optimizer for a parameter whose gradients are multiplied with a factor."""
    if not isinstance(value, Tensor):
        return value
    if value.dim() == 0 or factor == 1:
        return value.clone()
    if key not in DEGREES or not factor:
        raise NotCovered(f"before: got {key} of {name}, which is not known to scale with gradients; expected Adam's "
                         "state, or momentum with new='zero', or an optimizer that starts anew")
    return value * factor**DEGREES[key]


def _move_buffers(rename: Callable[[str], str], model: Model, deeper: Model, origins: Mapping[str, str]) -> None:
    """Give buffers, such as running means, the values of those of the layer that theirs comes from."""
    old = {rename(name): value for name, value in model.named_buffers()}
    modules: dict[str, str] = {}
    for names in origins.items():
        name, origin = (one.split(".") for one in names)
        modules.update((".".join(name[:k]), ".".join(origin[:k])) for k in range(1, len(name)))
    for name, value in deeper.named_buffers():
        module, own = name, list[str]()
        while module and module not in modules:  # that of the parameters next to it
            module, _, last = module.rpartition(".")
            own.insert(0, last)
        found = old.get(".".join([modules[module], *own] if module else own))
        if found is not None and found.shape == value.shape:
            value.copy_(found)


def _difference(one: Model, other: Model, batch: object) -> float:
    """How far outputs on a batch differ, over their size; without dropout."""
    outputs = []
    for model in (one, other):
        was = {module: module.training for module in model.modules()}
        model.eval()
        with torch.no_grad():
            outputs.append(output_of(run_on(model, batch)).double())
        for module, training in was.items():
            module.training = training
    return float((outputs[0] - outputs[1]).norm() / outputs[0].norm().clamp_min(1e-30))
