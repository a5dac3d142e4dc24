"""What a live model and its optimizer do at one size: relative sizes of branches, gradients and first updates.

Everything is measured where a layer hands on the stream, so that neither the growth of a stream at finite depth nor a
factor that moves between a matrix and the forward pass is taken for an exponent.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import Module as Model

from .. import _checks
from ..errors import NotCovered
from ..groups.classes import begins_otherwise, name_of, name_of_group
from ..groups.names import plain_name
from ..tune.factors import SIGN
from .live_layers import ActsAt, LiveLayers, StreamLocations, live_layers, observed
from .reading.claims import rms_of
from .reading.constants import product_through
from .reading.network import RecordedNetwork
from .reading.stream import Kind
from .streams import MAKE, Loss, build, drawn_batch, drawn_loss

Make = Callable[..., Model]
MakeOptimizer = Callable[[Model], torch.optim.Optimizer | Sequence[torch.optim.Optimizer]]
GROWTH = 1.5  # layers are late behind which the stream is longer than that, beside where it began
EARLY = 1.1   # layers are measured where it is at most that much longer in front of them
STRONGER = 4.0  # factor of gradients, to see of which degree an optimizer's direction is
LOUDEST = 1e8   # factor of gradients
TINY = 1e-30
Sizes = dict[tuple[str, str], float]  # (quantity, pattern) -> its size
AS_HEAD = " as the head"  # behind the name of an embedding that is also the readout
EVERYWHERE = "stream"  # the pattern of what is no parameter's but of the main stream; others have a number besides
SETTINGS = (("lr", "lr"), ("eps", "eps"), ("decay", "weight_decay"))


OPTIMIZER = "a function of the model that returns a torch.optim.Optimizer, or a list of some"


@dataclass(frozen=True)
class LiveOptimizers:
    """The optimizers of a script, which step together; names: id of a parameter -> as which optimizer of plans its own
    moves weights, None for one that is not known; groups: id of a parameter -> its group."""

    parts: tuple[torch.optim.Optimizer, ...]
    names: Mapping[int, str | None]
    groups: Mapping[int, Mapping[str, object]]

    @classmethod
    def of(cls, given: object, model: Model) -> LiveOptimizers:
        """What a function of the model returned, as one trainer; raises ``ValueError`` for what is no optimizer of the
        model's parameters, nor a list of such that share none."""
        parts = tuple(given) if isinstance(given, (list, tuple)) else (given,)
        if not parts or not all(isinstance(part, torch.optim.Optimizer) for part in parts):
            raise ValueError(f"optimizer: it returned {_checks.short(given)}; expected {OPTIMIZER}")
        names: dict[int, str | None] = {}
        groups: dict[int, Mapping[str, object]] = {}
        for part in parts:
            for group in part.param_groups:
                for p in group["params"]:
                    if id(p) in names:
                        there = next((name for name, one in model.named_parameters() if one is p), "a parameter")
                        raise ValueError(f"optimizer: got {plain_name(there)} in two of {len(parts)} optimizers, which "
                                         "both move it; expected every parameter in one")
                    names[id(p)], groups[id(p)] = name_of_group(part, group), group
        if not any(id(p) in names for p in model.parameters()):
            raise ValueError("optimizer: got one without parameters of the model; expected one that trains them")
        return cls(parts, names, groups)

    @property
    def name(self) -> str | None:
        """As which optimizer of plans all of these move weights, None for several."""
        found = {name_of(part) for part in self.parts}
        return found.pop() if len(found) == 1 else None

    def zero_grad(self) -> None:
        """Clear the gradients of all parameters."""
        for part in self.parts:
            part.zero_grad()

    def step(self) -> None:
        """Take a step of all optimizers, in order."""
        for part in self.parts:
            part.step()


@dataclass(frozen=True)
class Script:
    """What a training script builds, trains with, on what; live: the layers of its models; optimizer_name: as which
    optimizer of plans its own moves weights, None for one that is not known; names: the same by pattern, where one
    moves all parameters of it."""

    make: Make
    optimizer: MakeOptimizer
    loss: Loss
    batch: object
    live: LiveLayers
    optimizer_name: str | None
    names: Mapping[str, str | None]

    @classmethod
    def of(cls, make: Make, optimizer: MakeOptimizer, loss: Loss | None, batch: object, small: Mapping[str, object],
           large: Mapping[str, object], depth_key: str) -> Script:
        """With ``drawn_loss`` and a drawn batch where None is given; small, large: configurations between
        which layers are found."""
        _checks.function("make", make, MAKE, optional=False)
        _checks.function("optimizer", optimizer, OPTIMIZER, optional=False)
        _checks.function("loss", loss, "a function of model and batch")
        model = build(make, small, seed=0)
        batch, loss = drawn_batch(model) if batch is None else batch, drawn_loss if loss is None else loss
        live = live_layers(make, small, large, loss, batch, depth_key)
        trainer = LiveOptimizers.of(optimizer(model), model)
        for part in trainer.parts:
            if begins_otherwise(part):
                raise NotCovered(f"optimizer: got {type(part).__name__}, whose first updates are those of gradient "
                                 "descent; expected one whose first updates are as the later ones")
        groups, names = live.groups_of(live.small), defaultdict(set)
        for name, p in model.named_parameters():
            if id(p) in trainer.names and plain_name(name) in groups:
                names[groups[plain_name(name)].pattern].add(trainer.names[id(p)])
        return cls(make, optimizer, loss, batch, live, trainer.name, {
            pattern: found.pop() if len(found) == 1 else None for pattern, found in names.items()})

    def trainer(self, model: Model) -> LiveOptimizers:
        """The optimizers of a model."""
        return LiveOptimizers.of(self.optimizer(model), model)


@dataclass(frozen=True)
class FirstStep:
    """One parameter's first step. before: its values; push: the loss's gradient; change: what the step added; group:
    what the optimizer's group says."""

    before: Tensor
    push: Tensor
    change: Tensor
    group: Mapping[str, object]


def first_update(script: Script, config: Mapping[str, object], seed: int) -> Sizes:
    """``sizes_of_update`` of a model built from ``seed``; of what no gradient reaches, for something else is zero, at
    the first update that does.

    entry: not known of these; freed: 1 for what of these is in a branch that adds nothing at the start: its gradient
    and update are then those per size of what the branch adds once it does.
    """
    start = sizes_of_update(script, config, seed)
    sizes = dict(start)
    for updates in itertools.count(1):
        still = {p for quantity, p in sizes if quantity == "entry" and ("update", p) not in sizes}
        later = sizes_of_update(script, config, seed, updates) if still else {}
        now = {p for p in still if ("update", p) in later}
        if not now:
            break
        for p in now:
            sizes.update({(q, p): later[q, p] for q in ("update", "degree", "gradient")})
            sizes["entry", p] = math.nan
            if start["gradient", p] <= TINY < later["added", p]:
                size = later["branch", p] if later["branch", p] > TINY else later["added", p]
                sizes.update({("freed", p): 1.0, ("gradient", p): later["gradient", p] / size,
                              ("update", p): later["update", p] / size**(1 + later["degree", p])})
    return {key: size for key, size in sizes.items() if key[0] != "added"}


def begun(script: Script, config: Mapping[str, object], seed: int, updates: int) -> Model:
    """A model built from ``seed``, of which all that is zero has been updated so often, and nothing else."""
    model = build(script.make, config, seed)
    trainer, start = script.trainer(model), {name: p.detach().clone() for name, p in model.named_parameters()}
    for _ in range(updates):
        model.zero_grad()
        script.loss(model, script.batch).backward()
        _stepped(model, trainer, pushes_of(model))
        for name, p in model.named_parameters():
            p.detach().copy_(torch.where(start[name] == 0, p, start[name]))
    model.zero_grad()
    return model


def pushes_of(model: Model) -> dict[str, Tensor]:
    """The loss's gradient in every parameter that has one."""
    return {plain_name(name): p.grad.detach().clone() for name, p in model.named_parameters() if p.grad is not None}


def louder(pushes: Mapping[str, Tensor]) -> float:
    """A factor with which gradients are of order one at least: eps, which is judged apart, is then not felt in updates
    behind what has just left zero."""
    return min(LOUDEST, 1 / min((rms_of(push) for push in pushes.values() if push.any()), default=1.0))


def sizes_of_update(script: Script, config: Mapping[str, object], seed: int, updates: int = 0) -> Sizes:
    """Sizes at the first step, by quantity and pattern, of a model that has ``begun``.

    gradient: of one layer's output in its parameters, along a direction that is drawn, over the stream in front of it;
    branch: that times the parameter's own size, which is what a branch adds to the stream, relative to it, whatever
    normalizes it; update: that times how far the first update goes along its gradient, which is by how much it changes
    the layer's output; where directions of the optimizer grow with gradients, the loss's own size is taken out.
    invariance: the share of the gradient along the parameter, zero where a norm is after it; degree: of the direction
    in gradients; entry: root mean square of the loss's gradient; init, lr, eps, decay: root mean square at the start,
    and what groups say; signal: of what a product after the stream becomes; unmoved: 1 for what has no first step,
    left out: 1 for what has none because no optimizer has it;
    grown: by how much the stream has grown in front of a layer; skip: what is left of a stream after a layer; growth:
    of the stream; layers: how many of them a parameter's stream has; added: of what a layer adds, how strongly it
    depends on the stream, after updates; loss.
    """
    model = begun(script, config, seed, updates)
    trainer = script.trainer(model)
    network, value = observed(model, script.loss, script.batch)
    local = LocalGradients(network, script.live, seed)
    trained = {plain_name(name): p for name, p in model.named_parameters() if p.requires_grad}
    slopes = local.slopes(trained)
    added = {name: local.added(name) for name in slopes} if updates else {}
    slopes.update(local.of_heads(trained))
    value.backward()
    pushes = pushes_of(model)
    times = louder(pushes) if updates else 1.0
    steps = _stepped(model, trainer, {name: times * push for name, push in pushes.items()})
    for name, p in model.named_parameters():  # as it was, for another first step
        if (own := plain_name(name)) in steps:
            p.detach().copy_(steps[own].before)
    louder_still = {name: STRONGER * times * push for name, push in pushes.items()}
    stronger = _stepped(model, script.trainer(model), louder_still)
    sums: dict[tuple[str, str], list[float]] = defaultdict(list)
    for name, (gradient, scale) in slopes.items():
        if (own := name.removesuffix(AS_HEAD)) in steps:
            found = _sizes(steps[own], gradient, scale)
            found["push"] /= local.visits.get(name, 1)  # over which it is a sum
            found["moved more"] = float(stronger[own].change.norm())
            found["grown"] = local.grown.get(name, 1.0)
            found["added"], found["layers"] = added.get(name, 0.0), local.layers_beside(own)
            if name in local.signals:
                found["signal"] = local.signals[name]
            for quantity, one in found.items():
                if own == name or quantity not in dict(SETTINGS):  # which are those of the same matrix
                    sums[quantity, local.patterns[own] + name[len(own):]].append(one)
    sizes = {key: sum(values) / len(values) for key, values in sums.items()}
    sizes.update((("unmoved", local.patterns[name]), 1.0) for name in local.unmoved(model, steps))
    sizes.update((("left out", local.patterns[name]), 1.0) for name, push in pushes.items()
                 if name not in steps and push.any())
    sizes.update(local.of_streams())
    sizes["loss", EVERYWHERE] = float(value.detach())
    for pattern in dict.fromkeys(p for q, p in sums if q == "moved"):
        moved, more, along, push = (sizes.pop((q, pattern)) for q in ("moved", "moved more", "along", "push"))
        if moved > TINY and more > TINY:
            degree = math.log(more / moved) / math.log(STRONGER)
            degree = sizes["degree", pattern] = min(1.0, max(0.0, degree))
            slope = sizes["gradient", pattern]
            sizes["update", pattern] = along * slope * (slope / push)**degree
    return sizes


def _stepped(model: Model, trainer: LiveOptimizers, pushes: Mapping[str, Tensor]) -> dict[str, FirstStep]:
    """What gradients alone do at the first step, without decay, to every parameter that is trained and has one."""
    settings = {key: {name: value for name, value in group.items() if name != "eps" or trainer.names[key] != SIGN}
                for key, group in trainer.groups.items()}  # Muon's eps is beside the norm of a matrix
    for part in trainer.parts:
        for group in part.param_groups:
            if "weight_decay" in group:
                group["weight_decay"] = 0.0
    moved = {plain_name(name): p for name, p in model.named_parameters()
             if plain_name(name) in pushes and id(p) in settings}
    before = {name: p.detach().clone() for name, p in moved.items()}
    for part in trainer.parts:
        within = {id(p) for group in part.param_groups for p in group["params"]}
        own = {name: p for name, p in moved.items() if id(p) in within}
        for _ in range(2):
            for name, p in own.items():
                p.grad = pushes[name].clone()
            part.step()
            if not all(torch.equal(p, before[name]) for name, p in own.items()):  # SOAP's first step fills its state
                break
    return {name: FirstStep(before[name], pushes[name], p.detach() - before[name], settings[id(p)])
            for name, p in moved.items()}


def _sizes(step: FirstStep, gradient: Tensor, scale: float) -> dict[str, float]:
    """Sizes of one parameter by quantity; scale: that of the direction in which the gradient is, and of the stream."""
    weight, push = step.before, step.push
    size, slope = float(weight.norm()), float(gradient.norm())
    return {"gradient": slope / scale, "init": size / weight.numel()**0.5,
            "branch": slope * size / (min(weight.shape) if weight.dim() > 1 else 1)**0.5 / scale,
            "invariance": abs(float((weight * gradient).sum())) / max(size * slope, TINY),
            "along": abs(float((step.change * push).sum())) / max(float(push.norm()), TINY),
            "dimensions": weight.dim(), "push": float(push.norm()), "moved": float(step.change.norm()),
            "entry": float(push.norm()) / weight.numel()**0.5,
            **{key: float(step.group[there]) for key, there in SETTINGS  # type: ignore[arg-type]
               if isinstance(step.group.get(there), (int, float))}}


class LocalGradients:
    """Gradients of what layers hand on, in their own parameters. draw: a seed for the directions; any_growth: whether
    layers count however the stream in front of them has grown; patterns: parameter -> the group's; signals: parameter
    behind the stream -> root mean square of what its product becomes, 1 where that is zero; measured: numbers of the
    tensors in front of a parameter's layer and behind it; unlike: of ``unlike_matrices``, which have none;
    visits: how often those of layers are visited, of which the first visit is measured; late: parameters of layers
    behind which the stream has grown by more than ``GROWTH``; grown: by how much in front of them."""

    def __init__(self, network: RecordedNetwork, live: LiveLayers, draw: int = 0,
                 any_growth: bool = False) -> None:
        self.network, self.live, self.at = network, live, StreamLocations(network, live)
        self.draw, self.any_growth = draw, any_growth
        self.late: set[str] = set()
        self.grown: dict[str, float] = {}
        self.keys = live.keys(network)
        self.groups = live.groups_of(network)
        self.patterns = {name: group.pattern for name, group in self.groups.items()}
        self.signals: dict[str, float] = {}
        self.measured: dict[str, tuple[int, int]] = {}
        self.unlike = live.unlike_matrices(network)
        self.visits = live.visits_of(network)

    def slopes(self, parameters: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, float]]:
        """name -> (gradient along a drawn direction, the direction's size times that of a signal).

        In layers that are early: after the layer, and the stream in front of it. Outside: where the stream begins, and
        after the stream what the parameter's own product becomes, twice.
        """
        known = self.at.acts_at(name for name in parameters if name not in self.unlike)
        early, wanted = self.early(known), defaultdict(list)
        for name, where in known.items():
            if name in early or not self.groups[name].in_layers:
                wanted[early.get(name, where.front), where.after].append(name)
        found = {}
        for (front, after), names in wanted.items():
            found.update(self._pulled(front, after, {name: parameters[name] for name in names}))
            self.measured.update(dict.fromkeys(names, (front, after)))
        for name in set(parameters) - set(found):  # what acts elsewhere than at the stream's beginning
            product = self.at.product(name)
            if product >= 0 and not self.groups[name].in_layers:
                found.update(self._pulled(product, product, {name: parameters[name]}))
        self.signals = {name: rms_of(self.value(where.after)) or 1.0 for name, where in known.items()
                        if where.is_output and name in found}
        return found

    def early(self, known: Mapping[str, ActsAt]) -> dict[str, int]:
        """Parameters of layers that end where one of the shallowest model does too, while the stream has hardly grown,
        and the number of the stream's tensor in front; in a group without any, the first one, and where the stream
        begins."""
        began: dict[tuple[int, int], int] = {}
        starts: dict[Kind, int] = {}
        for stream, branch in self.network.branches:
            began[stream.index, branch.index] = starts.setdefault(branch.kind[:2], self.at.front(stream, branch))
        members: dict[tuple[Kind, str], list[tuple[tuple[int, int], str]]] = defaultdict(list)
        for name, where in known.items():
            if self.groups[name].in_layers:
                members[self.keys[name]].append((where.of, name))
        found: dict[str, int] = {}
        for key, layers in members.items():
            self.grown.update((name, rms_of(self.value(known[name].front)) / max(TINY, rms_of(self.value(began[of]))))
                              for of, name in layers)
            stride = max(1, round(len(layers) / max(1, self.live.counts[key])))
            ends = [(of, name) for i, (of, name) in enumerate(sorted(layers)) if (i + 1) % stride == 0]
            self.late.update(name for of, name in layers if self._has_grown(began[of], known[name].after))
            some = {name: known[name].front for of, name in ends
                    if self.any_growth or not self._has_grown(began[of], known[name].front, EARLY)}
            of, name = min(layers)
            found.update(some or {name: began[of]})
            self.grown.update({} if some else {name: 1.0})
        return found

    def unmoved(self, model: Model, steps: Mapping[str, FirstStep]) -> Iterator[str]:
        """Parameters that have no first step; raises ``NotCovered`` for those that have one and are not seen to act."""
        for name, p in model.named_parameters():
            name = plain_name(name)
            if p.requires_grad and name not in steps:
                yield name
            if name in steps and not self.network.uses_of(name) and bool(steps[name].push.any()):
                raise NotCovered(f"{name}: got a gradient, and no operation of the model's forward pass that uses it, "
                                 "as where a loss does or a kernel that torch does not record; expected models of "
                                 "torch's operations")

    def layers_beside(self, name: str) -> int:
        """How many layers the stream has that a parameter is in, of which deeper models have more; else the first that
        is so."""
        counts = Counter(stream for stream, _ in self.at.inside)
        own = self.network.place(self.network.acting(name)[0]).stream if self.groups[name].in_layers else -1
        return counts[own if own in counts else min(counts)]

    def of_streams(self) -> Iterator[tuple[tuple[str, str], float]]:
        """For every stream of layers: <x', x> / <x, x> of what successive layers read, on average, and its growth."""
        for stream, entries in zip(self.network.streams, self.at.entries):
            if stream.index not in self.live.growing and stream.index > 0:
                continue
            values = [self.value(number).double() for number in entries]
            pairs = [(x, y) for x, y in zip(values, values[1:]) if x.shape == y.shape]
            shares = [float((x * y).sum()) / max(float(x.norm())**2, TINY) for x, y in pairs]
            name = EVERYWHERE if stream.index == 0 else f"{EVERYWHERE} {stream.index}"
            yield ("skip", name), abs(sum(shares) / len(shares)) if shares else math.nan
            if stream.index in self.live.growing:
                yield ("layers", name), sum(i == stream.index for i, _ in self.at.inside)
            yield ("growth", name), rms_of(values[-1]) / max(rms_of(values[0]), TINY)

    def value(self, number: int) -> Tensor:
        return self.network.tape.values[number].detach()

    def of_heads(self, parameters: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, float]]:
        """As within layers, of what acts in front of a stream, or on it, and behind it once more: of the product there,
        without what goes through the stream. Names say so."""
        found = {}
        for name, p in parameters.items():
            places = [(use, self.network.place(use)) for use in self.network.acting(name)]
            behind = [(use, place) for use, place in places if place.part == "out"]
            if behind and len(behind) < len(places):
                use, place = behind[0]
                product, last = product_through(self.network, use), self.at.entries[place.stream][-1]
                target, source = (self.network.tape.differentiable(number) for number in (product, last))
                if target is not None and source is not None:
                    drawn = self._drawn(self.value(product))
                    whole, there = torch.autograd.grad([target], [p, source], [drawn], retain_graph=True)
                    within, = torch.autograd.grad([source], [p], [there], retain_graph=True, allow_unused=True)
                    size = rms_of(self.value(product)) or 1.0
                    self.signals[name + AS_HEAD] = size
                    found[name + AS_HEAD] = (whole if within is None else whole - within,
                                             float(drawn.norm()) * size * drawn.numel()**0.5)
        return found

    def added(self, name: str) -> float:
        """How strongly what a parameter's layer adds depends on the stream in front, by its gradient along a drawn
        direction."""
        front, after = self.measured.get(name, (-1, -1))
        tape = self.network.tape
        source, target = (tape.differentiable(number) if number >= 0 else None for number in (front, after))
        if source is None or target is None or self.value(front).shape != self.value(after).shape:
            return 0.0
        drawn = self._drawn(self.value(after))
        slope, = torch.autograd.grad([target], [source], [drawn], retain_graph=True, allow_unused=True)
        return 0.0 if slope is None else rms_of(slope - drawn) / rms_of(drawn)

    def _drawn(self, value: Tensor) -> Tensor:
        return torch.randn(value.shape, generator=torch.Generator().manual_seed(self.draw)).to(value)

    def _has_grown(self, start: int, number: int, by: float = GROWTH) -> bool:
        return rms_of(self.value(number)) > by * rms_of(self.value(start))

    def _pulled(self, front: int, after: int, parameters: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, float]]:
        """name -> (gradient of a tensor along a direction that is drawn, that direction's size times that of the one
        in front)."""
        source = self.network.tape.differentiable(after)
        if source is None:
            return {}
        drawn = self._drawn(self.value(after))
        slopes = torch.autograd.grad([source], list(parameters.values()), [drawn], retain_graph=True, allow_unused=True)
        scale = float(drawn.norm()) * (rms_of(self.value(front)) or 1.0) * self.value(front).numel()**0.5
        return {name: (slope, scale) for name, slope in zip(parameters, slopes) if slope is not None}
