"""``depth_check``: sizes in training against the depth, with fitted slopes beside the derived ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import takewhile
from typing import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from .. import _checks
from .._shown import Short, Tabled, pyplot, text_table
from .._types import Fields, Value
from ..errors import NotCovered
from ..finite_width.loss_bands import band_of, gaussian_outputs
from ..groups.names import plain_name
from ..scaling import Scaling
from ..results import Run
from ..tune.factors import require_same_for_all
from .families import depth_key_of, of_family
from .findings import Finding, Power, fitted
from .judging import Measure, expected_of
from .live_layers import AXES, StreamLocations, observed
from .measuring import Make, MakeOptimizer, Script
from .reading.claims import rms_of
from .streams import Loss, build

QUANTITIES = ("stream", "change of the stream", "branch", "update", "effect", "output", "gradient")
WHOLE = ("stream", "change of the stream", "output", "gradient")  # what all layers add up to
MEANING = {"stream": "root mean square of what enters the last layer",
           "change of the stream": "of what training has changed in it",
           "branch": "of what one layer adds to the stream",
           "update": "of one step of a layer's parameters, relative to their start",
           "effect": "of what one step changes in what a layer adds, relative to the stream, to first order",
           "output": "of the outputs", "gradient": "of the loss's gradient in the last stream"}
TOLERANCE = 0.25
LEAST = 1e-12
MEANS = 4000  # of draws, as many as there are seeds in each


@dataclass(frozen=True, eq=False, repr=False)
class DepthCheck(Short, Tabled):
    """Sizes of a training at several depths.

    sizes: quantity -> array (seeds, depths, steps) of root mean squares; slopes: quantity -> a power a step; derived:
    quantity -> the power that stable and nontrivial training, or the recipe, has, None where there is none; limit: the
    exact size of the stream at infinite width and depth, an array (steps,), where it was given; findings: those of an
    audit of the first step at these depths; grows: "L", or "N" where depths are numbers of visits; outputs: between
    which sizes of outputs 95 of 100 such means over the seeds are at infinite depth and the model's width, (2, steps),
    where the limit's fluctuations are known; outputs_note: what ``at_width`` warns of, or why they are not known.
    """

    depths: tuple[int, ...]
    sizes: Mapping[str, np.ndarray]
    slopes: Mapping[str, tuple[Power, ...]]
    derived: Mapping[str, float | None]
    width: int
    recipe: str | None
    limit: np.ndarray | None = None
    findings: tuple[Finding, ...] = ()
    grows: str = "L"
    outputs: np.ndarray | None = None
    outputs_note: str = ""

    @property
    def rows(self) -> list[Fields]:
        """One dictionary a quantity: slopes at the first and last step, the derived one beside them."""
        return list({"quantity": q, "first_step": _first(s).value, "last_step": s[-1].value, "error": s[-1].error,
                     "derived": self.derived[q]} for q, s in self.slopes.items())

    @property
    def verdict(self) -> str:
        """What an audit finds, else the ``departure`` in training, in words. Branches and effects of layers are an
        audit's."""
        if self.findings:
            return "\n".join(map(str, self.findings))
        return self.departure or f"no quantity departs from its derived power of {AXES[self.grows]}"

    @property
    def departure(self) -> str | None:
        """Which size in training departs from its derived power, from which step on, and what usually causes it."""
        for quantity in WHOLE:
            expected = self.derived[quantity]
            assert expected is not None
            steps = self.slopes[quantity]
            off = list(takewhile(lambda i: steps[i].is_known and steps[i].differs(expected, TOLERANCE),
                                 reversed(range(len(steps)))))
            if off:
                power = steps[off[-1]]
                way = "grows" if power.value > expected else "dies out"
                return (f"{quantity} departs from step {off[-1]} on: {self.grows}^({power.value:.2f} +- "
                        f"{power.error:.2f}) and not {self.grows}^({expected:g}); what layers add up to {way} with "
                        f"{AXES[self.grows]}: branches or learning rates of layers")
        return None

    @property
    def ok(self) -> bool:
        """Does no quantity depart?"""
        return not self.findings and self.departure is None

    def __str__(self) -> str:
        return "\n".join([self.verdict, text_table(self.rows), *([self.beside_limit] if self.beside_limit else [])])

    @property
    def beside_limit(self) -> str:
        """The outputs of the deepest model before the last update, and what real widths do to those of infinite depth,
        in words; empty without a limit."""
        if self.limit is None:
            return ""
        if self.outputs is None:
            return f"what width {self.width} does to the limit is not known: {self.outputs_note}"
        seen, (low, high) = self.sizes["output"][:, -1, -1].mean(), self.outputs[:, -1]
        return (f"outputs at depth {self.depths[-1]}, step {self.outputs.shape[1] - 1}: {seen:.3g}, "
                f"{'within' if low <= seen <= high else 'outside of'} what 95 of 100 of width {self.width} have at "
                f"infinite depth, {low:.3g} to {high:.3g}" + (f"; {self.outputs_note}" if self.outputs_note else ""))

    def plot(self, axes: Value = None) -> Value:
        """Sizes against log2 of the depth, one panel a quantity and one color a step; returns the axes, (7,).

        Bands are one standard deviation over seeds to both directions, of two seeds or more; a dashed line has the
        derived slope. With a limit a dotted line is the exact size of the stream, and bands across the panel what real
        networks of this width make of its outputs (``outputs``). Raises ``MissingExtra`` without matplotlib,
        ``ValueError`` for another number of axes.
        """
        plt = pyplot("DepthCheck.plot")
        if axes is None:
            axes = plt.subplots(2, 4, figsize=(13, 6), layout="constrained")[1].ravel()
            axes[-1].axis("off")
        if np.size(axes) < len(QUANTITIES):
            raise ValueError(f"axes: got {np.size(axes)}; expected {len(QUANTITIES)} or more, or None")
        x = np.log2(np.array(self.depths))
        for quantity, axis in zip(QUANTITIES, np.ravel(axes)):
            means = self.sizes[quantity].mean(axis=0)
            steps = means.shape[1]
            for step in range(steps):
                if not (means[:, step] > LEAST).all():
                    continue
                color = plt.get_cmap("viridis")(step / max(1, steps - 1))
                axis.plot(x, means[:, step], ".-", color=color)
                band = self.sizes[quantity][:, :, step].std(axis=0)
                axis.fill_between(x, np.maximum(means[:, step] - band, LEAST), means[:, step] + band, color=color,
                                  alpha=0.15, lw=0)
                if quantity == "output" and self.outputs is not None:
                    axis.axhspan(*self.outputs[:, step], color=color, alpha=0.25, lw=0)
            last, expected = means[:, -1], self.derived[quantity]
            if expected is not None and (last > LEAST).all():
                line = last[-1] * 2.0**(expected * (x - x[-1]))
                fit = self.slopes[quantity][-1].value
                axis.plot(x, line, "k--", label=f"derived {self.grows}^{expected:g}, fitted {fit:.2f}")
                axis.legend(frameon=False, fontsize=7)
            if quantity == "stream" and self.limit is not None:
                axis.axhline(self.limit[-1], color="k", linestyle=":")
            axis.set(yscale="log", xlabel=f"log2 of {AXES[self.grows]}", title=quantity)
        return axes


def depth_check(make: Make, optimizer: MakeOptimizer | None = None, depths: Sequence[int] = (2, 4, 8, 16, 32),
                loss: Loss | None = None, batch: object = None, steps: int = 10, seeds: int = 3,
                depth_key: str | None = None, recipe: str | Scaling | None = None,
                limit: Run | None = None) -> DepthCheck:
    """Train at several depths, a few steps each on one batch, and fit how sizes go with the depth, step by step.

    Parameters
    ----------
    make, optimizer, depths, loss, batch, depth_key:
        as in ``audit``.
    steps, seeds:
        how many updates, and from how many initializations.
    recipe:
        as in ``plan``, a name of ``tp.named_recipes()`` or a scaling, whose powers are then the derived ones; None is
        that of a family, and else asks for what is stable and nontrivial: a stream, its change, outputs and gradients
        of order one, effects of a layer of order 1/L.
    limit:
        of a residual MLP: the same training at infinite width and depth, as ``tp.train(..., depth=tp.oo)`` returns it;
        the exact size of its stream is drawn, and what networks of the model's width make of its outputs. It has as
        many steps, or one for every update and one more. None draws none.

    Fits of sizes have a correction of the order 1/L, of order one at the least depth, so that what is not seen of it is
    in errors. Raises ``ValueError`` as ``audit`` does. Source: Tensor Programs VI, section 5
    [tensor_programs_vi/definitions_5].

    >>> import torch
    >>> from torch import nn
    >>> class Net(nn.Module):
    ...     def __init__(self, n_layer, n=32):
    ...         super().__init__()
    ...         self.emb, self.head, self.m = nn.Linear(3, n), nn.Linear(n, 1), n_layer**-0.5
    ...         self.h = nn.ModuleList(nn.Linear(n, n) for _ in range(n_layer))
    ...     def forward(self, x):
    ...         x = self.emb(x)
    ...         for layer in self.h:
    ...             x = x + self.m * torch.tanh(layer(x))
    ...         return self.head(x)
    >>> found = depth_check(Net, lambda model: torch.optim.SGD(model.parameters(), lr=0.1), depths=(4, 8, 16), steps=2)
    >>> found.verdict
    'no quantity departs from its derived power of the depth'
    """
    optimizer, recipe = of_family(make, optimizer, recipe)
    depth_key = depth_key_of(make, depth_key)
    title = None if recipe is None else require_same_for_all(recipe).name
    sizes = _checks.sizes("depths", depths, least=2, growing=True)
    count, starts = _checks.whole_number("steps", steps, 1), _checks.whole_number("seeds", seeds, 1)
    if limit is not None:
        _checks.instance("limit", limit, Run)
        if limit.depth is not None or limit.width is not None or limit.task.steps < count:
            raise ValueError(f"limit: got {_checks.short(limit)} of {limit.task.steps} steps; expected a run of "
                             f"width=tp.oo and depth=tp.oo, of {count} steps or more, before which sizes are measured")
    script = Script.of(make, optimizer, loss, batch, {depth_key: sizes[0]}, {depth_key: sizes[-1]}, depth_key)
    runs = [[measured_training(script, {depth_key: depth}, count, seed) for depth in sizes] for seed in range(starts)]
    found = {q: np.array([[run[q] for run in row] for row in runs]) for q in QUANTITIES}
    grown = [round(run["layers"][0]) for run in runs[0]]
    if script.live.grows == "N" or grown != sorted(set(grown)):
        grown = list(sizes)
    slopes = {q: tuple(fitted(grown, values[:, :, i].tolist(), corrected=True) for i in range(values.shape[2]))
              for q, values in found.items()}
    live = script.live
    derived = _derived(recipe, script.optimizer_name, live.grows)
    inside = live.of_layers(live.small)
    width = max(shape[-1] for name, shape in live.small.tape.shapes.items() if name in inside and len(shape) > 1)
    curve, outputs, note = None, None, ""
    if limit is not None:
        curve = stream_of(limit)[:count]
        try:
            outputs, note = outputs_between(limit, int(width), starts)
            outputs = outputs[:, :count]
        except NotCovered as error:
            note = str(error)
    first = Measure(script).of_depth(sizes, [{depth_key: depth} for depth in sizes], recipe)[0]
    return DepthCheck(tuple(sizes), found, slopes, derived, int(width), title, curve, tuple(first), live.grows,
                      outputs, note)


def stream_of(run: Run) -> np.ndarray:
    """The root mean square of the last stream before every step, (steps,), of a training at infinite width."""
    squares = np.diagonal(np.asarray(run.forward_covariance)[-1]).reshape(run.task.steps, -1)
    return np.asarray(np.sqrt(squares.mean(axis=1)))


def outputs_between(run: Run, width: int, seeds: int) -> tuple[np.ndarray, str]:
    """(2, steps): between which means over seeds of the root mean square output 95 of 100 are, of networks of a width;
    and what ``at_width`` warns of. Raises ``NotCovered`` where the run's fluctuations are not known."""
    at = run.at_width(width)
    drawn = gaussian_outputs(at.mean, run.fluctuations.covariance / width).reshape(-1, len(at.mean), at.mean[0].size)
    each = np.sqrt(np.mean(drawn**2, axis=-1))
    means = each[np.random.default_rng(0).integers(len(each), size=(MEANS, seeds))].mean(axis=1)
    return band_of(means), at.warning or ""


def measured_training(script: Script, config: Mapping[str, object], steps: int, seed: int) -> dict[str, list[float]]:
    """quantity -> its size before every update, of one training; "layers": how many it has."""
    live, model = script.live, build(script.make, config, seed)
    trainer = script.trainer(model)
    parameters = {plain_name(name): p for name, p in model.named_parameters()}
    began = {name: max(rms_of(p.detach()), LEAST) for name, p in parameters.items() if p.dim() > 1}
    found: dict[str, list[float]] = {q: [] for q in (*QUANTITIES, "layers")}
    first: Tensor | None = None
    for _ in range(steps):
        network, value = observed(model, script.loss, script.batch)
        where, tape, inside = StreamLocations(network, live), network.tape, live.of_layers(network)
        stream = next(one for one in network.streams if one.index in live.growing)
        entries = where.entries_of_layers(stream)
        known = {name: at for name, at in where.acts_at(inside).items() if name in began}
        gradients = _gradients(value, {number: tape.differentiable(number) for number in {
            entries[-1], *(at.front for at in known.values())}})
        trainer.zero_grad()
        value.backward()
        before = {name: p.detach().clone() for name, p in parameters.items()}
        trainer.step()
        values = [tape.values[number].detach() for number in entries]
        first = values[-1] if first is None else first
        found["stream"].append(rms_of(values[-1]))
        found["change of the stream"].append(rms_of(values[-1] - first))
        found["branch"].append(_mean([rms_of(y - x) for x, y in zip(values, values[1:]) if x.shape == y.shape]))
        moved = {name: parameters[name].detach() - before[name] for name in known}
        found["update"].append(_mean([rms_of(change) / began[name] for name, change in moved.items()]))
        found["effect"].append(_mean([_effect(change, parameters[name].grad, tape.values[known[name].front].detach(),
                                              gradients.get(known[name].front)) for name, change in moved.items()]))
        found["layers"].append(len(where.inside))
        found["output"].append(rms_of(tape.values[tape.output].detach()))
        found["gradient"].append(rms_of(gradients[entries[-1]]) if entries[-1] in gradients else math.nan)
    return found


def _gradients(value: Tensor, sources: Mapping[int, object]) -> dict[int, Tensor]:
    """Number of a tensor -> the loss's gradient in it, where there is one."""
    known = {number: one for number, one in sources.items() if one is not None}
    slopes = torch.autograd.grad(value, list(known.values()), retain_graph=True, allow_unused=True) if known else ()
    return {number: slope for number, slope in zip(known, slopes) if slope is not None}


def _effect(change: Tensor, gradient: Tensor | None, x: Tensor, slope: Tensor | None) -> float:
    """The first-order change of the loss by one matrix's step, over the gradient in the stream times the stream."""
    if gradient is None or slope is None:
        return math.nan
    return abs(float((change * gradient).sum())) / max(float(slope.norm() * x.norm()), LEAST)


def _derived(recipe: str | Scaling | None, optimizer: str | None, grows: str) -> dict[str, float | None]:
    """Powers: those of stable, nontrivial training; of branches and updates those of the recipe. Effects of a matrix
    are those of all visits together."""
    visited = float(grows == "N")
    stable: dict[str, float | None] = {**{q: 0.0 for q in QUANTITIES}, "branch": None, "update": None,
                                       "effect": visited - 1}
    if recipe is None:
        return stable
    given = expected_of(recipe, optimizer or "signsgd", optimizer is not None, grows)[True]
    return {**stable, "branch": given.branch, "effect": visited + given.update}


def _first(powers: Sequence[Power]) -> Power:
    return next((power for power in powers if power.is_known), powers[0])


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan
