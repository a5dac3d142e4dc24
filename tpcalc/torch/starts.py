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
from torch.utils._pytree import tree_leaves

from .. import _checks
from .._files import code_digest, keep_json, kept_json
from .._types import Fields
from ..studies.written_code import code_of
from .training_runs import GENERATOR, TrainingRun, TrainingScript, law_of, plain_groups

RATE = 1e-3   # of optimizers that are made to be looked at
UNUSED = 0x5eed  # a seed that nobody else sets: torch's generator is then as it was where nothing was drawn from it
CLOSE = 1e-4  # relative, of starts of trainings that are the same on another machine


@dataclass(frozen=True)
class Starts:
    """What the starts of trainings are like, of seed 0. batch: what loss hands to the model, as ``plan`` takes it, None
    where it is no single one; law: the optimizer's name in plans; starts: depth -> size of the parameters and first
    loss; batches: a digest."""

    draws: bool
    batch: object
    law: str | None
    optimizer: str
    starts: Mapping[int, tuple[float, float]]
    batches: str


def starts_of(script: TrainingScript, depths: Sequence[int]) -> Starts:
    """Raises ``ValueError`` for functions that do not give the same twice, or nothing that can be trained."""
    starts, shapes, inputs = dict[int, tuple[float, float]](), list[object](), None
    with GENERATOR, torch.random.fork_rng(devices=[]):
        torch.manual_seed(UNUSED)
        before = torch.get_rng_state()
        first, batches = _batches(script)
        for depth in depths:
            model = script.model(depth, 0)
            shapes.append({name: tuple(p.shape) for name, p in model.named_parameters()})
            if len(shapes) > 1 and shapes[-1] == shapes[-2]:
                raise ValueError(f"make: the model of depth {depth} has the same parameters as the one before it; "
                                 "expected a function that reads the depth")
            if not any(p.requires_grad for p in model.parameters()):
                raise ValueError(f"make: the model of depth {depth} has no parameters that are trained; expected some")
            size = _size(model)
            if not starts:
                _require_new(model, script.model(depth, 0), depth)
            given = _digest([first])
            with _Input(model) as seen:
                start = float(script.value(model, first).detach())
            if _digest([first]) != given:
                raise ValueError("loss: it changes its batch; expected a function that leaves batches as they are")
            if not 0 < start < math.inf:
                raise ValueError(f"loss: it is {start:g} at the start of depth {depth}; expected a positive number, of "
                                 "which twice as much is a training that diverges")
            inputs = inputs if starts else seen.taken
            starts[depth] = size, start
        elsewhere = any(p.device.type != "cpu" for p in model.parameters())  # with a generator that is not looked at
        draws = elsewhere or not torch.equal(before, torch.get_rng_state())
        trainer = script.trainer(plain_groups(model, RATE, 0.0))
    return Starts(draws, inputs, law_of(trainer), type(trainer).__name__, starts, batches)


def _batches(script: TrainingScript) -> tuple[object, str]:
    """The first batch of seed 0, and a digest of all that a training takes; drawn twice, and held to be the same."""
    first, digests = None, []
    for _ in range(2):
        torch.manual_seed(UNUSED)
        batches = iter(script.batches(0))
        first = next(batches)
        digests.append(_digest(chain([first], batches)))
    if digests[0] != digests[1]:
        raise ValueError("data: its batches for seed 0 differ from one call to the next; expected the same for the "
                         "same seed")
    return first, digests[0]


def _require_new(one: Model, other: Model, depth: int) -> None:
    """Raise ``ValueError`` unless two models of one seed are equal and share nothing."""
    if {id(p) for p in one.parameters()} & {id(p) for p in other.parameters()}:
        raise ValueError(f"make: two models of depth {depth} have a parameter in common; expected a new model from "
                         "each call")
    if _size(one) != _size(other):
        raise ValueError(f"make: its parameters for depth {depth} differ from one call to the next; expected values "
                         "that are drawn from torch's generator")


def _size(model: Model) -> float:
    """The sum of squares of all parameters."""
    return math.fsum(float(p.detach().double().square().sum()) for p in model.parameters())


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
        self._same: Fields = {
            "steps": script.steps, "last": script.last, "weight_decay": script.weight_decay,
            "make": code_of(script.make.make), "loss": code_of(script.loss),
            "data": code_of(script.data) + looked.batches, "optimizer": code_of(script.optimizer)}
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
                    what = "another function" if isinstance(value, str) else f"{value} instead of {found['same'][name]}"
                    raise ValueError(f"{name}: got {what}, beside the trainings in {_checks.short(str(folder))}; "
                                     "expected what they were begun with, or another folder for resume")
            for depth in starts.keys() & self._starts.keys():
                for name, old, new in zip(("make", "loss"), starts[depth], self._starts[depth]):
                    if not math.isclose(old, new, rel_tol=CLOSE):
                        raise ValueError(f"{name}: got one with which training at depth {depth} starts otherwise than "
                                         f"the trainings in {_checks.short(str(folder))} did; expected what they were "
                                         "begun with, or another folder for resume")
        keep_json(path, "sweep", {"same": self._same, "starts": {**starts, **self._starts}})
