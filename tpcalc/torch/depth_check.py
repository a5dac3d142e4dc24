"""``depth_check``: sizes in training against the depth, with fitted slopes beside the derived ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Mapping, Sequence

import numpy as np
from torch import Tensor

from .. import _checks
from .._shown import Tabled, text_table
from .._types import Fields, Value
from ..groups.factors import require_same_for_all
from ..errors import MissingExtra
from ..groups.names import LayerCount, find_layers
from ..parametrizations import Scaling
from ..results import Run
from .findings import Power, branch_cause, fitted, update_cause
from .judging import NAMES, choices_of, effect_power
from .measuring import Make, MakeOptimizer, settings_of
from .streams import MAKE, Loss, build, drawn_batch, layer_modules, mean_square, output_of, recorded

QUANTITIES = ("stream", "change of the stream", "branch", "update", "effect", "output", "gradient")
MEANING = {"stream": "root mean square of what enters the last layer",
           "change of the stream": "of what training has changed in it",
           "branch": "of what one layer adds to the stream",
           "update": "of one step of a layer's parameters, relative to their start",
           "effect": "of what one step changes in what a layer adds, relative to the stream, to first order",
           "output": "of the outputs", "gradient": "of the loss's gradient in the last stream"}
TOLERANCE = 0.25
LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class DepthCheck(Tabled):
    """Sizes of a training at several depths.

    sizes: quantity -> array (seeds, depths, steps) of root mean squares; slopes: quantity -> a power a step; derived:
    quantity -> the power that stable and nontrivial training, or the recipe, has, None where there is none; limit: the
    exact size of the stream at infinite width and depth, an array (steps,), where it was given.
    """

    depths: tuple[int, ...]
    sizes: Mapping[str, np.ndarray]
    slopes: Mapping[str, tuple[Power, ...]]
    derived: Mapping[str, float | None]
    width: int
    recipe: str | None
    limit: np.ndarray | None = None

    @property
    def rows(self) -> list[Fields]:
        """One dictionary a quantity: slopes at the first and last step, the derived one beside them."""
        return list({"quantity": q, "first_step": _first(s).value, "last_step": s[-1].value, "error": s[-1].error,
                     "derived": self.derived[q]} for q, s in self.slopes.items())

    @property
    def verdict(self) -> str:
        """Which quantity departs from its derived power, from which step on, and what usually causes it, in words."""
        for quantity in ("branch", "effect", "update", "stream", "change of the stream", "output", "gradient"):
            expected = self.derived[quantity]
            off = [i for i, power in enumerate(self.slopes[quantity]) if expected is not None and power.is_known
                   and power.differs(expected, TOLERANCE)]
            if off:
                power = self.slopes[quantity][off[0]]
                assert expected is not None
                return (f"{quantity} departs from step {off[0]} on: L^({power.value:.2f} +- {power.error:.2f}) and not "
                        f"L^({expected:g}); {_cause(quantity, power.value, expected)}")
        return "no quantity departs from its derived power of the depth"

    def __str__(self) -> str:
        return "\n".join([self.verdict, text_table(self.rows)])

    def plot(self, axes: Value = None) -> Value:
        """Sizes against log2 of the depth, one panel a quantity and one color a step; returns the axes, (7,).

        Bands are means over seeds, of relative width n^-1/2 for a width n; a dashed line has the derived slope. Raises
        ``MissingExtra`` without matplotlib, ``ValueError`` for another number of axes.
        """
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise MissingExtra("matplotlib", "report", "DepthCheck.plot") from None
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
                band = means[:, step] * self.width**-0.5
                axis.fill_between(x, means[:, step] - band, means[:, step] + band, color=color, alpha=0.15, lw=0)
            last, expected = means[:, -1], self.derived[quantity]
            if expected is not None and (last > LEAST).all():
                line = last[-1] * 2.0**(expected * (x - x[-1]))
                axis.plot(x, line, "k--", label=f"derived L^{expected:g}, fitted {self.slopes[quantity][-1].value:.2f}")
                axis.legend(frameon=False, fontsize=7)
            if quantity == "stream" and self.limit is not None:
                axis.axhline(self.limit[-1], color="k", linestyle=":")
            axis.set(yscale="log", xlabel="log2 of the depth", title=quantity)
        return axes


def depth_check(make: Make, optimizer: MakeOptimizer, depths: Sequence[int] = (2, 4, 8, 16, 32),
                loss: Loss | None = None, batch: object = None, steps: int = 10, seeds: int = 3,
                depth_key: str = "n_layer", recipe: str | Scaling | None = None,
                limit: Run | None = None) -> DepthCheck:
    """Train at several depths, a few steps each on one batch, and fit how sizes go with the depth, step by step.

    Parameters
    ----------
    make, optimizer, depths, loss, batch, depth_key:
        as in ``audit``.
    steps, seeds:
        how many updates, and from how many initializations.
    recipe:
        as in ``plan``, a name of ``tp.named_recipes()`` or a scaling, whose powers are then the derived ones; None asks
        for what is stable and
        nontrivial: a stream, its change, outputs and gradients of order one, effects of a layer of order 1/L.
    limit:
        of a residual MLP: the same training at infinite width and depth, as ``tp.train(..., depth=tp.oo)`` returns it;
        the exact size of its stream is drawn. None draws none.

    Raises ``ValueError`` as ``audit`` does. Source: Tensor Programs VI, section 5
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
    _checks.function("make", make, MAKE, optional=False)
    _checks.function("optimizer", optimizer, "a function of the model", optional=False)
    if limit is not None:
        _checks.instance("limit", limit, Run)
    title = None if recipe is None else require_same_for_all(recipe).name
    sizes = _checks.sizes("depths", depths, least=2, growing=True)
    count, starts = _checks.whole_number("steps", steps, 1), _checks.whole_number("seeds", seeds, 1)
    small, large = (build(make, {depth_key: depth}, seed=0) for depth in (sizes[0], sizes[-1]))
    layers = find_layers(*({name: tuple(p.shape) for name, p in model.named_parameters()} for model in (small, large)))
    if layers.base == layers.target:
        raise ValueError(f"depth_key: got {depth_key!r}, with which no list of layers grows; expected the argument "
                         "of make that is the depth")
    layer_modules(large, layers)
    taken = drawn_batch(small) if batch is None else batch
    asked = mean_square if loss is None else loss
    runs = [[measured_training(make, {depth_key: depth}, optimizer, asked, taken, layers, count,
                               seed) for depth in sizes]
            for seed in range(starts)]
    found = {q: np.array([[run[q] for run in row] for row in runs]) for q in QUANTITIES}
    slopes = {q: tuple(fitted(sizes, values[:, :, i].tolist()) for i in range(values.shape[2]))
              for q, values in found.items()}
    derived = _derived(recipe, type(optimizer(small)).__name__)
    width = max(p.shape[-1] for name, p in small.named_parameters() if layers.index(name) >= 0 and p.dim() > 1)
    curve = None if limit is None else stream_of(limit)
    return DepthCheck(tuple(sizes), found, slopes, derived, int(width), title, curve)


def stream_of(run: Run) -> np.ndarray:
    """The root mean square of the last stream before every step, (steps,), of a training at infinite width."""
    squares = np.diagonal(np.asarray(run.forward_covariance)[-1]).reshape(run.task.steps, -1)
    return np.sqrt(squares.mean(axis=1))


def measured_training(make: Make, config: Mapping[str, object], optimizer: MakeOptimizer, loss: Loss, batch: object,
                      layers: LayerCount, steps: int, seed: int) -> dict[str, list[float]]:
    """quantity -> its size before every update, of one training."""
    model = build(make, config, seed)
    trainer = optimizer(model)
    settings_of(trainer, model)
    inside = [(name, p) for name, p in model.named_parameters() if layers.index(name) >= 0]
    began = {name: max(_rms(p.detach()), LEAST) for name, p in inside if p.dim() > 1}
    found: dict[str, list[float]] = {q: [] for q in QUANTITIES}
    first: Tensor | None = None
    for _ in range(steps):
        outputs: list[Tensor] = []
        handle = model.register_forward_hook(lambda _m, _a, out: outputs.append(output_of(out).detach()))
        with recorded(model, layers) as stream:
            value = loss(model, batch)
            trainer.zero_grad()
            value.backward()
        handle.remove()
        before = {name: p.detach().clone() for name, p in inside}
        trainer.step()
        order = sorted(stream)
        last, x = stream[order[-1]], stream[order[-1]].detach()
        first = x if first is None else first
        changes = [_rms(stream[j].detach() - stream[i].detach()) for i, j in zip(order, order[1:])
                   if stream[i].shape == stream[j].shape]
        found["stream"].append(_rms(x))
        found["change of the stream"].append(_rms(x - first))
        found["branch"].append(_mean(changes))
        moved = [(name, p.detach() - before[name]) for name, p in inside]
        found["update"].append(_mean([_rms(change) / began[name] for name, change in moved if name in began]))
        found["effect"].append(_mean([_effect(change, dict(inside)[name].grad, stream.get(layers.index(name)))
                                      for name, change in moved if name in began]))
        found["output"].append(_rms(outputs[0]) if outputs else math.nan)
        found["gradient"].append(math.nan if last.grad is None else _rms(last.grad))
    return found


def _effect(change: Tensor, gradient: Tensor | None, x: Tensor | None) -> float:
    """The first-order change of the loss by one matrix's step, over the gradient in the stream times the stream."""
    if gradient is None or x is None or x.grad is None:
        return math.nan
    scale = float(x.grad.norm() * x.detach().norm())
    return abs(float((change * gradient).sum())) / max(scale, LEAST)


def _derived(recipe: str | Scaling | None, optimizer: str) -> dict[str, float | None]:
    """Powers of the depth: those of stable, nontrivial training; of branches and updates those of the recipe."""
    stable: dict[str, float | None] = {**{q: 0.0 for q in QUANTITIES}, "branch": None, "update": None, "effect": -1.0}
    if recipe is None:
        return stable
    choices = choices_of(recipe, NAMES.get(optimizer, "signsgd"), optimizer in NAMES)
    return {**stable, "branch": float(choices.branch + choices.init), "effect": effect_power(choices)}


def _cause(quantity: str, measured: float, expected: float) -> str:
    if quantity == "branch":
        return branch_cause(measured, expected, False, False)
    if quantity in ("update", "effect"):
        return update_cause(True, measured, expected, True)
    way = "grows" if measured > expected else "dies out"
    return f"what layers add up to {way} with the depth: branches or learning rates of layers"


def _first(powers: Sequence[Power]) -> Power:
    return next((power for power in powers if power.is_known), powers[0])


def _rms(values: Tensor) -> float:
    return float(values.double().square().mean().sqrt())


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan
