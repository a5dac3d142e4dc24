"""How trainings of a sweep start, looked at before any is made, and a record of it in the folder of the sweep."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module as Model
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_leaves

from .. import _checks
from .._files import code_digest, keep_json, kept_json
from .._types import Fields
from .begun import CLOSE, GENERATOR, UNUSED, codes, first_of, otherwise, sum_of_squares
from .training_runs import TrainingRun, TrainingScript, law_of, plain_groups

RATE = 1e-3   # of optimizers that are made to be looked at
SAME = 1e-9   # relative, of losses of models that do the same


@dataclass(frozen=True)
class Starts:
    """What the starts of trainings are like, of seed 0. batch: what loss hands to the model, as ``plan`` takes it, None
    where it is no single one; law: the optimizer's name in plans; eps: its own, None where it has none; starts:
    depth -> size of the parameters and first loss; batches: a digest."""

    draws: bool
    batch: object
    law: str | None
    optimizer: str
    eps: float | None
    starts: Mapping[int, tuple[float, float]]
    batches: str


def starts_of(script: TrainingScript, depths: Sequence[int], seeds: int) -> Starts:
    """Raises ``ValueError`` for functions that do not give the same twice, or nothing that can be trained, and for
    seeds that change nothing."""
    starts, shapes, inputs = dict[int, tuple[float, float]](), list[object](), None
    with GENERATOR, torch.random.fork_rng(devices=[]):
        torch.manual_seed(UNUSED)
        before = torch.get_rng_state()
        first, batches = _batches(script, 0)
        draws = not torch.equal(before, torch.get_rng_state())
        for depth in depths:
            model = script.model(depth, 0)
            _require_trainable(model, depth)
            shapes.append({name: tuple(p.shape) for name, p in model.named_parameters()})
            began = sum_of_squares(model)
            if not starts:
                _require_new(model, script.model(depth, 0), depth)
            given = _digest([first])
            torch.manual_seed(UNUSED)
            with _Input(model) as seen:
                start = float(script.value(model, first).detach())
            draws = draws or not torch.equal(before, torch.get_rng_state())
            if _digest([first]) != given:
                raise ValueError("loss: it changes its batch; expected a function that leaves batches as they are")
            if not 0 < start < math.inf:
                raise ValueError(f"loss: it is {start:g} at the start of depth {depth}; expected a positive number, of "
                                 "which twice as much is a training that diverges")
            if not starts:
                inputs = seen.taken
                again = first_of(script, depth, first)[1]
                if not math.isclose(again, start, rel_tol=CLOSE):
                    raise ValueError(f"loss: it is {start:g} and then {again:g} for the same model and batch; expected "
                                     "one that draws, if it does, from torch's generator")
            elif shapes[-1] == shapes[-2] and math.isclose(start, list(starts.values())[-1][1], rel_tol=SAME):
                raise ValueError(f"make: the model of depth {depth} has the same parameters and loss as the one before "
                                 "it; expected a function that reads the depth")
            starts[depth] = began, start
        elsewhere = any(p.device.type != "cpu" for p in model.parameters())  # with a generator that is not looked at
        trainer = script.trainer(plain_groups(model, RATE, 0.0))
        if (seeds > 1 and not draws and began == sum_of_squares(script.model(depth, 1))
                and batches == _batches(script, 1)[1]):
            raise ValueError(f"seeds: got {seeds}, and nothing that differs between seeds 0 and 1; expected a make "
                             "that draws values from torch's generator, without a seed of its own, data that differ "
                             "by seed, or seeds=1")
    eps = trainer.defaults.get("eps")
    eps = eps if isinstance(eps, float) else None  # Adafactor has a pair
    return Starts(draws or elsewhere, inputs, law_of(trainer), type(trainer).__name__, eps, starts, batches)


def _require_trainable(model: Model, depth: int) -> None:
    """Raise ``ValueError`` for a model without parameters that are trained, or with some that have no shape yet."""
    if lazy := [name for name, p in model.named_parameters() if is_lazy(p)]:
        raise ValueError(f"make: {lazy[0]} of the model of depth {depth} has no shape yet; expected models that have "
                         "all their parameters")
    if not any(p.requires_grad for p in model.parameters()):
        raise ValueError(f"make: the model of depth {depth} has no parameters that are trained; expected some")


def _batches(script: TrainingScript, seed: int) -> tuple[object, str]:
    """The first batch of a seed, and a digest of all that a training takes; drawn twice, and held to be the same."""
    first, digests = None, []
    for _ in range(2):
        torch.manual_seed(UNUSED)
        batches = iter(script.batches(seed))
        first = next(batches)
        digests.append(_digest(chain([first], batches)))
    if digests[0] != digests[1]:
        raise ValueError(f"data: its batches for seed {seed} differ from one call to the next; expected the same for "
                         "the same seed")
    return first, digests[0]


def _require_new(one: Model, other: Model, depth: int) -> None:
    """Raise ``ValueError`` unless two models of one seed are equal and share nothing."""
    if {id(p) for p in one.parameters()} & {id(p) for p in other.parameters()}:
        raise ValueError(f"make: two models of depth {depth} have a parameter in common; expected a new model from "
                         "each call")
    if sum_of_squares(one) != sum_of_squares(other):
        raise ValueError(f"make: its parameters for depth {depth} differ from one call to the next; expected values "
                         "that are drawn from torch's generator")


class _Input:
    """What a model is called with for the first time, as ``plan`` takes batches; None where that is no single value."""

    def __init__(self, model: Model) -> None:
        self.taken: object = None
        self._calls, self._hook = 0, model.register_forward_pre_hook(self._see, with_kwargs=True)

    def _see(self, model: Model, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        self._calls += 1
        if self._calls == 1:
            self.taken = args[0] if len(args) == 1 and not kwargs else kwargs if kwargs and not args else None

    def __enter__(self) -> _Input:
        return self

    def __exit__(self, *error: object) -> None:
        self._hook.remove()


def _digest(batches: Iterable[object]) -> str:
    """A digest of tensors, arrays and plain values; of anything else it has the class."""
    digest = hashlib.sha256()
    for leaf in (leaf for batch in batches for leaf in tree_leaves(batch)):
        array = leaf
        if isinstance(leaf, Tensor):
            array = leaf.detach().cpu()
            array = (array.float() if array.dtype == torch.bfloat16 else array).numpy()
        if isinstance(array, np.ndarray) and array.dtype != object:
            digest.update(f"{array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        else:
            plain = isinstance(leaf, (str, bytes, int, float, bool, type(None)))
            digest.update((repr(leaf) if plain else type(leaf).__name__).encode())
    return digest.hexdigest()


class Record:
    """Names of trainings by what decides them, and a record in the folder of what all of them share."""

    def __init__(self, script: TrainingScript, looked: Starts, roles: object, unknown: str) -> None:
        written = codes(script)
        self._same: Fields = {"steps": script.steps, "last": script.last, "weight_decay": script.weight_decay,
                              **written, "data": written["data"] + looked.batches}
        self._starts = {str(depth): list(start) for depth, start in looked.starts.items()}
        others = {**self._same, "code": code_digest(), "torch": torch.__version__, "plan": [str(roles), unknown]}
        self._common = hashlib.sha256(json.dumps(others).encode()).hexdigest()

    def key(self, run: TrainingRun, recipe: str, base: int) -> str:
        by = ["as made"] if run.plan is None else [recipe, base]
        said = [self._common, run.depth, run.rate, run.seed, *by]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()

    def require_same(self, folder: Path) -> None:
        """Raises ``ValueError`` naming what differs from the sweep in the folder; else what is new is written down."""
        path = folder / "sweep.json"
        found = kept_json(path, "sweep")
        starts = {} if found is None else dict(found["starts"])
        if found is not None:
            for name, value in self._same.items():
                if found["same"].get(name) != value:
                    what = ("one that is written otherwise, or reads other values" if isinstance(value, str) else
                            f"{value} instead of {found['same'][name]}")
                    raise ValueError(f"{name}: got {what}, beside the trainings in {_checks.short(str(folder))}; "
                                     "expected what they were begun with, or another folder for resume")
            for depth in starts.keys() & self._starts.keys():
                if differs := otherwise(starts[depth], self._starts[depth]):
                    raise ValueError(f"{differs}: got one with which training at depth {depth} starts otherwise than "
                                     f"the trainings in {_checks.short(str(folder))} did; expected what they were "
                                     "begun with, or another folder for resume")
        keep_json(path, "sweep", {"same": self._same, "starts": {**starts, **self._starts}})
