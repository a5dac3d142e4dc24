"""``transfer``: do learning rates found at one depth serve at another, for the model and the data you have?"""

from __future__ import annotations

import math
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from types import FunctionType
from typing import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike
from torch.nn import Module as Model

from .. import _checks
from .._spread import require_executor
from .._types import Value
from ..errors import NotCovered
from ..groups.plan import CLIPPING
from ..scaling import Scaling
from ..studies.fingerprints import content
from ..studies.jobs import FinishedJobs, Progress, run_jobs
from ..tune.recipe import named_recipe
from .begun import Begun
from .families import PlanFamily, made_by_depth
from .model_plan import ModelPlan
from .planning import plan
from .reading.building import NotRun
from .reading.reading import read
from .starts import Record, Starts, starts_of
from .streams import Loss
from .sweep import TransferSweep
from .training_runs import GROUPS, OPTIMIZERS, Data, OfDepth, Optimize, TrainingRun, TrainingScript, is_outcome


def transfer(make: Callable[[int], Model] | PlanFamily, loss: Loss, data: Data, depths: Sequence[int],
             learning_rates: ArrayLike, steps: int, recipes: Sequence[str | Scaling] | None = None,
             optimizer: str | Optimize | None = None, seeds: int = 3, base: int | None = None, last: int | None = None,
             weight_decay: float = 0.0, executor: Value = None, resume: Value = None,
             progress: Progress | None = None, roles: Mapping[str, str] | None = None,
             unknown: str = "refuse", depth_key: str | None = None) -> TransferSweep:
    """Train at every depth, learning rate and seed by each recipe, and find whether the best rate moves with depth.

    Parameters
    ----------
    make:
        depth -> a ``torch.nn.Module``, its values drawn from torch's generator, which is seeded. Or a ``PlanFamily``:
        its models as they are made, its base, roles and what is unknown to it.
    loss:
        (model, batch) -> a tensor of one number, positive at the start.
    data:
        seed -> an iterator of batches, the same for the same seed, at least one a step.
    depths, learning_rates:
        growing; rates are those of the base, which a recipe carries to each depth.
    steps:
        updates of a training.
    recipes:
        names of ``tp.named_recipes()`` or scalings, each carried out by ``plan`` from the base to the depth. "sp"
        leaves the model as it is made, all parameters at one rate. None is "sp", "depth-mup" and "completep", or "sp"
        and a family's.
    optimizer:
        "adamw", "adam", "sgd", or a function of parameter groups that returns one of ``torch.optim``. Groups say rate
        and weight decay; eps is the function's at the base, and what a recipe makes of it elsewhere. None is that of a
        family, and "adamw" else.
    seeds:
        how many; a seed draws initial values and data.
    base:
        the depth at which models train as they are made, whatever the recipe; None is the least depth, or that of a
        family's base.
    last:
        the loss of a training is the mean over so many last steps, each before its update; None is a tenth of them.
    weight_decay:
        of matrices, at the base.
    executor:
        any ``concurrent.futures`` executor, or a Dask client; processes need functions of a module, which have to read
        the same values there, and start from the same. Threads take turns where loss or data draw from torch's
        generator, and off the CPU.
    resume:
        a folder where the result of every finished training is kept: the same call, or one for more depths, rates,
        recipes or seeds, goes on from there. Other functions, steps or settings are refused there, and so are functions
        that read other values: numbers, text, containers and namespaces of them, arrays, tensors.
    progress:
        called with (trainings done, trainings).
    roles, unknown:
        as in ``plan``.
    depth_key:
        the argument of a family that is the depth; None finds it, as ``audit`` does.

    Returns
    -------
    TransferSweep
        ``print`` it, ``plot`` it, or read its fields. A training diverges where its loss is not finite, or above twice
        its first and twice that of the model as it began, on the same batch; it is stopped there, a point at infinity.

    Raises ``ValueError`` for input that is not allowed, before any training where it can be seen then, and
    ``NotCovered`` for models that ``plan`` refuses. Source: Tensor Programs VI, section 6, Figures 11 to 13.

    >>> import numpy as np, torch
    >>> from torch import nn
    >>> class Net(nn.Module):
    ...     def __init__(self, depth, n=16):
    ...         super().__init__()
    ...         self.emb, self.head = nn.Linear(2, n), nn.Linear(n, 1)
    ...         self.layers = nn.ModuleList(nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))
    ...                                     for _ in range(depth))
    ...     def forward(self, x):
    ...         x = self.emb(x)
    ...         for layer in self.layers:
    ...             x = x + layer(x)
    ...         return self.head(x)
    >>> def loss(model, batch):
    ...     return ((model(batch) - batch.prod(dim=1, keepdim=True))**2).mean()
    >>> def data(seed):
    ...     draw = torch.Generator().manual_seed(seed)
    ...     while True:
    ...         yield torch.randn(32, 2, generator=draw)
    >>> sweep = transfer(Net, loss, data, depths=[2, 4], learning_rates=2.0**np.arange(-10, -3, 2), steps=5, seeds=2,
    ...                  recipes=["sp", "depth-mup"])
    >>> sweep.losses.shape, sorted(sweep.moves)
    ((2, 2, 4, 2), ['depth-mup', 'sp'])
    """
    if isinstance(make, PlanFamily):
        roles = make.told("roles") if roles is None else roles
        unknown = make.told("unknown") if unknown == "refuse" else unknown
        recipes = ("sp", make.recipe) if recipes is None else recipes
        optimizer = make.optimizer if optimizer is None else optimizer
        make, base = made_by_depth(make, depth_key, base)
    recipes = ("sp", "depth-mup", "completep") if recipes is None else recipes
    for name, value, what in (("make", make, "a function of the depth that returns a torch.nn.Module"),
                              ("loss", loss, "a function of model and batch"),
                              ("data", data, "a function of the seed that returns an iterator of batches")):
        _checks.function(name, value, what, optional=False)
    sizes = _checks.sizes("depths", depths, growing=True)
    rates = _checks.growing_numbers("learning_rates", learning_rates)
    count, starts = _checks.whole_number("steps", steps, 1), _checks.whole_number("seeds", seeds, 1)
    averaged = max(1, count // 10) if last is None else _checks.whole_number("last", last, 1)
    if averaged > count:
        raise ValueError(f"last: got {last}; expected at most the number of steps, {count}")
    least = sizes[0] if base is None else _checks.whole_number("base", base, 1)
    names = _recipe_names(recipes)
    require_executor(executor)
    if progress is not None:
        _checks.progress(progress)
    optimizer = "adamw" if optimizer is None else optimizer
    if not callable(optimizer):
        optimizer = OPTIMIZERS[_checks.choice("optimizer", optimizer, OPTIMIZERS)]
    decay = _checks.nonnegative_number("weight_decay", weight_decay)
    if roles is not None:
        _checks.instance("roles", roles, Mapping, "a dictionary of patterns and roles")
    folder = None if resume is None else _checks.folder("resume", resume)
    script = TrainingScript(OfDepth(make), loss, data, optimizer, count, averaged, decay)
    _require_named(script, executor)
    looked = starts_of(script, sizes, starts)
    script = replace(script, draws=looked.draws, eps=looked.eps, begun=Begun.here(script, looked.starts))
    record = Record(script, looked, roles, unknown)
    if folder is not None:
        record.require_same(folder)
    plans = _plans(script, names, sizes, least, looked, roles, unknown)
    for (_, j), one in plans.items():
        script.trainer(TrainingRun(script, sizes[j], float(rates[0]), 0, one).start()[1])
    locations, jobs = [], []
    for i, j, k, s in np.ndindex(len(names), len(sizes), len(rates), starts):
        run = TrainingRun(script, sizes[j], float(rates[k]), s, plans.get((i, j)))
        locations.append((i, j, k, s))
        jobs.append((record.key(run, list(names)[i], least), float(sizes[j]), run))
    done = run_jobs(TrainingRun.result, jobs, FinishedJobs(folder, is_outcome), executor, progress)
    losses, diverged = np.empty((len(names), len(sizes), len(rates), starts)), {}
    for at, (value, step) in zip(locations, done):
        losses[at] = math.inf if value is None else value
        if value is None:
            diverged[at] = step
    notes = [f"{one.recipe}: {note}" for one in plans.values() for note in one.notes if note != CLIPPING]
    return TransferSweep(tuple(names), tuple(sizes), rates, losses, diverged, tuple(dict.fromkeys(notes)))


def _recipe_names(recipes: object) -> dict[str, str | Scaling]:
    """Recipes by what they are called; raises ``ValueError`` for what is none, or twice the same."""
    given: Sequence[Value] = recipes if isinstance(recipes, (list, tuple)) else [recipes]
    if not given or not all(isinstance(one, (str, Scaling)) for one in given):
        raise ValueError(f"recipes: got {_checks.short(recipes)}; expected names of tp.named_recipes(), scalings, or a "
                         "list of them")
    found = {named_recipe(one).name if isinstance(one, str) else str(one): one for one in given}
    if len(found) < len(given):
        raise ValueError(f"recipes: got {_checks.short(recipes)}; expected each once")
    return found


def _require_named(script: TrainingScript, executor: object) -> None:
    """Raise ``ValueError`` for functions that other processes cannot find by their names, where they would have to."""
    if not isinstance(executor, ProcessPoolExecutor):
        return
    for name, value in (("make", script.make.make), ("loss", script.loss), ("data", script.data),
                        ("optimizer", script.optimizer)):
        try:
            content(value if isinstance(value, FunctionType) else type(value))
        except NotCovered:
            raise ValueError(f"{name}: got {_checks.short(value)}, which other processes cannot find by its name; "
                             "expected a function of a module, or another executor") from None


def _plans(script: TrainingScript, names: Mapping[str, str | Scaling], depths: Sequence[int], base: int,
           looked: Starts, roles: Mapping[str, str] | None, unknown: str) -> dict[tuple[int, int], ModelPlan]:
    """(recipe, depth) -> its plan, where one differs from what is made; what it rests on is left behind."""
    found: dict[tuple[int, int], ModelPlan] = {}
    scaled = {i: recipe for i, (name, recipe) in enumerate(names.items()) if name != "sp"}
    if scaled and looked.law is None:
        raise ValueError(f"optimizer: got one that returns {looked.optimizer}, of whose updates no power of the depth "
                         f"is known; expected {GROUPS}, of SGD, Adam or AdamW, or recipes=['sp']")
    for j, depth in enumerate(depths):
        if depth == base or not scaled:
            continue
        small, large = {"depth": base}, {"depth": depth}
        try:
            reading = read(script.make, small, large, looked.batch, roles)
        except NotRun:
            reading = None
        for i, recipe in scaled.items():
            one = plan(script.make, small, large, recipe, looked.law or "", batch=looked.batch, roles=roles,
                       reading=reading, unknown=unknown)
            found[i, j] = replace(one, reading=None)
    return found
