"""The claims of a plan: with its settings, one update at two sizes agrees, and so does what enters the layers."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import lru_cache
from typing import Callable, Iterator

import sympy as sp
import torch
from torch import Tensor
from torch.nn import Module as Model

from ..tune.factors import SIGN
from ..groups.names import plain_name
from ..groups.plan import PlanEntry
from ..optimizers.faithful import direction_power
from .findings import Power
from .live_layers import LiveLayers, observed
from .measuring import TINY, LocalGradients
from .reading.building import batch_for
from .reading.claims import DEGREE, Claim, rms_of
from .reading.kinds_of_ops import ATTENTIONS, BOUNDED
from .reading.network import RecordedNetwork
from .reading.tape import in_evaluation
from .reading.uses import Use
from .streams import mean_square

DRAWS = 4    # of initial weights, before two sizes are said to differ
SAME = 1.25  # what is off by no more than that is the same; a factor that lacks is 2^(1/2) or more where sizes double
BETWEEN = 3 / 8  # the power of what grows that is still taken for 0, in small models, and not for 1/2
ONE_FACTOR = 1.1  # factors of growth that differ by no more than that are one
CLAIMED = ("matrix", "gather")  # uses of parameters, whatever they are said to be
UPDATE = "one update changes the stream in base and target as the plan says"
ENTRY = "what enters the layers is as large in the target as in the base"


class UpdateClaims:
    """Claims on base and target. pair: seed -> the two models, with the plan's initial sizes; entry: name of a
    parameter -> what the plan sets; expected: entry -> the power of the depth of what one update changes, None where
    the recipe says none; widens: whether the width grows; optimizer: the plan's."""

    def __init__(self, pair: Callable[[int], tuple[Model, Model]], entry: Callable[[str], PlanEntry],
                 expected: Callable[[PlanEntry], float | None], widens: bool, optimizer: str) -> None:
        self.pair, self.entry, self.expected, self.widens = pair, entry, expected, widens
        self.optimizer = optimizer
        self.entries: dict[str, PlanEntry] = {}
        self.about: dict[str, str] = {}

    def claims(self, batch: object) -> list[Claim]:
        """One a stream and one a group of parameters, from as many draws as it takes, ``DRAWS`` at most; batch: None
        draws one."""
        logs: dict[str, list[float]] = defaultdict(list)
        live: LiveLayers | None = None
        for seed in range(DRAWS):
            models = [in_evaluation(one) for one in self.pair(seed)]
            batch = batch_for(models[0]) if batch is None else batch
            runs = [observed(one, mean_square, batch) for one in models]
            live = live or LiveLayers(*(network for network, _ in runs))
            small, large = (self._sizes(model, *run, live, seed, run is runs[1]) for model, run in zip(models, runs))
            for key in small.keys() & large.keys():
                if min(*small[key], *large[key]) > TINY:
                    off = [math.log(b / a) - self._power(key) for a, b in zip(small[key], large[key])]
                    logs[key].append(0.0 if min(off) < 0 < max(off) else min(off, key=abs))
            found = [self._claim(key, values) for key, values in logs.items()]
            if all(claim.holds for claim in found):
                break
        return found

    def _is_claimed(self, entry: PlanEntry, use: Use) -> bool:
        """Do plan and recipe say what an update of it does, and do small models show it? Of vectors there are few
        entries; parameters of a fixed size sum over a width's entries, whose sum along a drawn direction tells nothing
        of their sum along a gradient; the rank of gradients, which orthogonal updates go by, is at most the width; and
        one expert acts on few vectors, and in each layer on others.
        """
        grows = (all if entry.parameter.in_layers else any)(entry.parameter.grows) and entry.optimizer != SIGN
        return (use.how in CLAIMED and len(entry.parameter.shape) == 2 and entry.parameter.role != "expert"
                and bool(entry.growth) and self.expected(entry) is not None and (grows or not self.widens))

    def _of_other_shapes(self, network: RecordedNetwork) -> Iterator[str]:
        """Parameters of branches whose matrices grow by factors that differ, as with heads whose keys are shared."""
        for _, branch in network.branches:
            fans = [grown for use in branch.uses for size, grown in self.entry(use.parameter).growth.items()
                    if size in ("fan_in", "fan_out")]
            if fans and max(fans) > ONE_FACTOR * min(fans):
                yield from (use.parameter for use in branch.uses)

    def _claim(self, key: str, logs: list[float]) -> Claim:
        mean = sum(logs) / len(logs)
        spread = math.sqrt(sum((one - mean)**2 for one in logs) / max(1, len(logs) - 1) / len(logs))
        grown = max([abs(math.log(one)) for one in self.entries[key].growth.values()] if key in self.entries else [0.0])
        differs = Power(mean, spread).differs(0, max(math.log(SAME), BETWEEN * grown))
        return Claim(UPDATE if key in self.entries else ENTRY, self.about[key], math.exp(mean), not differs)

    def _power(self, key: str) -> float:
        """The logarithm of what the target's size over the base's should be."""
        if key not in self.entries:
            return 0.0
        entry = self.entries[key]
        power = self.expected(entry)
        assert power is not None
        return power * math.log(entry.growth["L"])

    def _sizes(self, model: Model, network: RecordedNetwork, value: Tensor, live: LiveLayers, seed: int,
               is_target: bool) -> dict[str, tuple[float, float]]:
        """Group of parameters -> by how much one update of a layer's changes the stream, beside that in front of it and
        beside where it begins, between which a limit in depth does not tell; stream -> what enters it. Not of layers of
        the base that the stream outgrows: no limit in depth is near."""
        parameters = {plain_name(name): p for name, p in model.named_parameters() if p.requires_grad}
        local = LocalGradients(network, live, seed, any_growth=True)
        found: dict[str, list[tuple[float, float]]] = defaultdict(list)
        slopes = local.slopes(parameters)
        value.backward()
        shared = {name for name, visits in local.visits.items() if visits > 1}
        unknown = {*shared, *_where_eps_rules(network), *_in_front_of_softmax(network), *self._of_other_shapes(network),
                   *(() if is_target else local.late)}
        for name, (slope, scale) in slopes.items():
            entry, push = self.entry(name), parameters[name].grad
            if push is None or name in unknown or not self._is_claimed(entry, network.uses_of(name)[0]):
                continue
            pattern = local.patterns[name]
            size, degree = float(slope.norm()) / scale * _of_output(local, name), _degree(entry.optimizer)
            rate = entry.moved(self.optimizer) if is_target else 1.0
            size = rate * size * (size if degree else _aligned(push, entry.optimizer == SIGN))
            found[pattern].append((size, size * local.grown.get(name, 1.0)**(1 + degree)))
            self.entries[pattern] = entry
            self.about.setdefault(pattern, f"{name}; {network.uses_of(name)[0].op.place}")
        for stream, entries in zip(network.streams, local.at.entries):
            for number in entries[:1] if stream.branches else ():
                key, maker = f"stream {stream.index}", network.tape.maker(number)
                self.about[key] = key if maker is None else f"{key}; {maker.place}"
                found[key] = [(rms_of(local.value(number)),) * 2]
        return {key: (sum(a for a, _ in sizes) / len(sizes), sum(b for _, b in sizes) / len(sizes))
                for key, sizes in found.items()}


def _of_output(local: LocalGradients, name: str) -> float:
    """The size of a product behind the stream, beside what a matrix reads; 1 elsewhere, where changes are relative."""
    if name not in local.signals:
        return 1.0
    use = local.network.uses_of(name)[0]
    read = local.network.graph.signals(use.op)[:1] if use.how == "matrix" else []
    return local.signals[name] / max([TINY, *(rms_of(local.value(number)) for number in read)]) if read else (
        local.signals[name])


@lru_cache(maxsize=None)
def _degree(optimizer: str) -> float:
    """The degree of an optimizer's direction in gradients, while eps is negligible."""
    return float(direction_power(optimizer, sp.Integer(1)))


def _aligned(push: Tensor, orthogonal: bool) -> float:
    """How far a direction of a fixed size goes along a gradient: signs of entries, or of singular values."""
    if orthogonal:
        along = torch.linalg.matrix_norm(push if push.dim() == 3 else push.flatten(1), "nuc").sum()
    else:
        along = push.abs().sum()
    return float(along) / max(float(push.norm()), TINY)


def _where_eps_rules(network: RecordedNetwork) -> Iterator[str]:
    """Parameters of branches with a norm that does not normalize, since its input is small beside eps."""
    for stream, branch in network.branches:
        norms = [network.norms[i] for i in branch.ops if i in network.norms]
        if any(norm.eps > DEGREE * rms_of(network.tape.values[norm.x].detach())**2 for norm in norms):
            yield from (use.parameter for use in branch.uses)


def _in_front_of_softmax(network: RecordedNetwork) -> Iterator[str]:
    """Parameters that what a softmax or a bounded function is of depends on: queries, keys, routers, gates."""
    on_stream = {number for stream in network.streams for number in stream.path.values}
    for op in network.tape.ops:
        inputs = op.inputs[:2] if op.name in ATTENTIONS else op.inputs if op.name in BOUNDED else ()
        for number in inputs:
            cone = network.graph.cone(number, on_stream)
            yield from (use.parameter for use in network.uses if use.op.index in cone)
