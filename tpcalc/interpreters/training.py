"""Training a residual network as a program with its sizes and data, and as one real network."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from typing import Callable, Mapping

import numpy as np
import sympy as sp

from .._types import Array, Value
from ..errors import Divergence
from ..scaling import Scaling
from ..scaling.depth import EMBEDDING_READOUT_FAMILIES
from ..scaling.parametrization import ParametrizationAtWidth
from ..optimizers import Clipped
from ..data import Sequences, Task
from ..models.activations import activation
from ..training.builders import followed_program
from ..models.skips import Way
from ..training.initial_products import block_products, first_product, with_initial_products
from ..programs.indices import BATCH, L, POSITIONS, T, VISITS, i, l, p
from ..programs.language import Family, Mean, Scalar, Vector
from ..models.networks import Network
from ..optimizers.updates import BY_NAME, Optimizer
from ..optimizers.normalized import normalizing_matrix
from ..programs.program import Assign, Loop, Program, Statement
from .dense import DenseRun, Weights, run_dense
from .execution import ProgramDivergence
from .lowered import LoweredRun

Progress = Callable[[int, int], None]
OWN = frozenset(map(type, BY_NAME.values()))
SQUARE = Family(Scalar, "square")  # of the features of the first step at the readout


class Keep(Enum):
    """What a reading keeps of its vectors: nothing, the stream x and its gradients, or what matrices act on as well,
    with the products of the initial matrices."""

    NOTHING = 0
    STREAM = 1
    BLOCKS = 2


@dataclass(frozen=True)
class Training:
    """A training as a program with its sizes and data; keep: which of its vectors a run keeps."""

    net: Network
    task: Task | Sequences
    opt: Optimizer | Clipped
    scale: Scaling
    depth: int
    keep: Keep = Keep.NOTHING

    def __post_init__(self) -> None:
        self.net.require_finite()

    @property
    def probes(self) -> int:
        return 0 if self.task.probes is None else len(self.task.probes)

    @property
    def batched(self) -> bool:
        return self.task.batch > 1 or self.probes > 0

    def program(self) -> Program:
        """The program of the training, with one scalar more, for the scale of fluctuations."""
        opt = self.opt
        if isinstance(opt.lr, tuple) and type(opt) in OWN:  # rates by step are data; others may read their lr elsewhere
            opt = replace(opt, lr=(1.0,))  # type: ignore[type-var, arg-type]
        return _program(self.net, opt, self.scale, self.batched, self.task.d_in, self.task.d_out, self.probes,
                        self.keep is Keep.BLOCKS)

    @property
    def kept(self) -> tuple[str, ...]:
        """The names of the families of vectors that a run keeps."""
        stream = () if self.keep is Keep.NOTHING else ("x", "dx")
        if self.keep is not Keep.BLOCKS:
            return stream
        blocks = (family.name for one in block_products(self.net) for family in one.families)
        return tuple(dict.fromkeys((*stream, str(first_product(self.net).features.name), *blocks)))

    def sizes(self) -> dict[sp.Symbol, int]:
        return {T: self.task.steps, L: self.depth, **({BATCH: self.task.batch} if self.batched else {}),
                **({POSITIONS: self.net.positions} if self.net.positions else {}),
                **({VISITS: self.net.visits} if self.net.visits > 1 else {})}

    def data(self) -> dict[str, np.ndarray]:
        """Probes are the last samples of every step."""
        task, inputs = self.task, self.task.inputs
        if task.probes is not None:
            again = np.broadcast_to(task.probes, (task.steps, *task.probes.shape))
            inputs = np.concatenate([inputs, again], axis=1)
        rates = {"eta": self.opt.schedule(task.steps)} if isinstance(self.opt.lr, tuple) else {}
        return {"xi": self._without_ones(inputs), "y": self._without_ones(task.targets), **rates}

    def factors(self) -> dict[str, float]:
        """Factors of initial weights by family, for scalings with powers of the width of their own."""
        if not isinstance(self.scale, ParametrizationAtWidth):
            return {}
        return {name: self.scale.initial_factor(name) for name in (*EMBEDDING_READOUT_FAMILIES,
                                                                   *self.net.families_of_matrices)}

    def _without_ones(self, values: np.ndarray) -> np.ndarray:
        """Inputs of shape (steps, samples, [positions,] dimension), as the program reads it."""
        values = values[..., 0] if values.shape[-1] == 1 else values
        return values if self.batched else values[:, 0]

    def vectors(self, run: LoweredRun, name: str, nodes: np.ndarray) -> np.ndarray:
        """A family of vectors at the nodes or layers, shape (nodes, steps * batch [* positions], n)."""
        steps, rows = self.task.steps, self.task.batch * (self.net.positions or 1)
        return np.array([[run.stack(name, t, node).reshape(-1, run.width)[:rows] for t in range(steps)]
                         for node in map(int, nodes)]).reshape(len(nodes), steps * rows, run.width)

    def outputs(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """f as outputs of the batch and of the probes, shapes (steps, batch or probes, [positions,] d_out)."""
        every = values.reshape(self.task.steps, self.task.batch + self.probes, *self.task.targets.shape[2:])
        return every[:, :self.task.batch], every[:, self.task.batch:] if self.probes else None


@lru_cache(maxsize=32)
def _program(net: Network, opt: Optimizer | Clipped, scale: Scaling, batched: bool, d_in: int, d_out: int,
             probes: int, initial_products: bool) -> Program:
    """Written once, so that it is lowered once."""
    first = (sp.Integer(0), *([i] if batched else []), *([p] if net.positions else []))
    twice = 2 if net.ties_embedding_readout else 1  # U . U has twice the variance of U . nV
    features = activation(net.readout)(net.read((*first, *Way.of(net).last)))
    square: Statement = Assign(SQUARE[first], twice * Mean(features ** 2))
    if net.positions:
        square = Loop(p, sp.Integer(0), POSITIONS - 1, (square,))
    if batched:
        square = Loop(i, sp.Integer(0), BATCH - 1, (square,))
    written = followed_program(net, opt, scale, batched, d_in, d_out, probes, square)
    return with_initial_products(written, net) if initial_products else written


def placed(work: Callable[[], Value], depth: int | None = None) -> Value:
    """Name the training step, and the layer, of ``depth`` of them, where a program diverges."""
    try:
        return work()
    except ProgramDivergence as problem:
        step, *inner = map(int, problem.target.indices)
        layered = isinstance(problem.target, (Vector, Scalar)) and bool(int(problem.target.args[2]))
        layer = inner[-1] if layered and inner else None
        location = "" if layer is None else f", layer {layer}" + (f" of {depth}" if depth else "")
        moved = normalizing_matrix(problem.target)
        if moved:
            raise Divergence(f"training stops at step {step}{location}: what {moved} moves along is 0, or within "
                             "rounding, and cannot be divided by its norm", step, layer) from None
        where = f"training diverges at step {step}{location}"
        raise Divergence(f"{where}: {problem.target} is not finite", step, layer) from None


@dataclass(frozen=True)
class DenseRecord:
    """A trained network's record.

    outputs: (steps, batch, d_out); probe_outputs: (steps, m, d_out) or None; x, delta: the kept nodes' vectors (nodes,
    steps * batch, n), delta normalized (n times the gradient), or None where not kept; fluctuation: the standard
    deviation of an output at initialization, |x^L| / n, the scale of what distinguishes one seed from another.
    """

    outputs: np.ndarray
    probe_outputs: np.ndarray | None
    x: np.ndarray | None
    delta: np.ndarray | None
    fluctuation: float


@dataclass(frozen=True)
class MatrixRecord:
    """What one matrix of every block met, (L, steps * batch, n) each: features z that it read, normalized gradients d
    in what it gave, chi = W_0 z and xi = W_0^T d."""

    features: np.ndarray
    gradients: np.ndarray
    chi: np.ndarray
    xi: np.ndarray


@dataclass(frozen=True)
class BlockRecord:
    """A trained network's record at all nodes, with what every matrix of a block met, by name, and what the first one
    of a further block would read, (steps * batch, n)."""

    stream: DenseRecord
    matrices: Mapping[str, MatrixRecord] = field(repr=False)
    last_features: np.ndarray = field(repr=False)


def dense_run(training: Training, width: int, seed: int, progress: Progress | None = None,
              weights: Weights | None = None, namespace: Array = "numpy", dtype: str = "float64", device: Array = None
              ) -> DenseRun:
    """A dense run of a training, from weights that are drawn or given.

    namespace, dtype, device: as in ``run_dense``.
    """
    return placed(lambda: run_dense(training.program(), training.sizes(), training.data(), width, seed,
                                    training.task.loss, weights, training.kept, namespace, dtype,
                                    device, progress, training.factors()), training.depth)


def dense_record(training: Training, run: LoweredRun, nodes: np.ndarray | None) -> DenseRecord:
    """What a run recorded, its vectors at the nodes if any are given."""
    x, delta = (None if nodes is None else training.vectors(run, name, nodes) for name in ("x", "dx"))
    return DenseRecord(*training.outputs(run.series("f")), x, delta,
                       float(np.sqrt(np.max(run.series("square")) / run.width)))


def block_record(training: Training, run: LoweredRun) -> BlockRecord:
    """What a run that kept its blocks recorded."""
    layers = np.arange(1, training.depth + 1)

    def met(member: Vector) -> np.ndarray:
        offset = 0 if member.indices[-1] == l else 1  # of the stream before the block, x[t, l - 1]
        return training.vectors(run, member.name, layers - offset)

    found = {one.name: MatrixRecord(met(one.features), met(one.gradient), *(
        training.vectors(run, family.name, layers) for family in one.initial)) for one in block_products(training.net)}
    last = first_product(training.net).features
    node = training.depth + (1 if last.indices[-1] == l else 0)
    return BlockRecord(dense_record(training, run, np.arange(training.depth + 1)), found,
                       training.vectors(run, last.name, np.array([node]))[0])
