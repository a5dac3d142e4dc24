"""A real linear network, trained and recorded in one call."""

from __future__ import annotations

import numpy as np

from tpcalc.interpreters.training import DenseRecord, Keep, Progress, Training, dense_record, dense_run
from tpcalc.scaling import DepthScaling
from tpcalc.optimizers import SGD
from tpcalc.models import ResNet
from tpcalc.data import Task


def read_dense(task: Task, optimizer: SGD, scale: DepthScaling, depth: int, width: int, seed: int = 0,
               nodes: np.ndarray | None = None, progress: Progress | None = None,
               train_embedding_readout: bool = False) -> DenseRecord:
    """Train one linear network of ``width`` n and ``depth`` L in float64; ``nodes``: which l = 0..L to keep.

    Read-in U ~ N(0, 1) and read-out V = nV / n, nV ~ N(0, 1), frozen unless ``train_embedding_readout``: then updated
    by the optimizer on mean_i delta_i^0 xi_i^T and mean_i x_i^L chi_i^T. W^l ~ N(0, 1/n), updated by it on
    g mean_i delta_i x_i^T / n. It is ``run_dense`` of the training's program. Raises ``MemoryError`` before the work,
    ``Divergence`` on overflow.
    """
    training = Training(ResNet("linear", train_embedding_readout=train_embedding_readout), task, optimizer, scale,
                        depth, Keep.NOTHING if nodes is None else Keep.STREAM)
    return dense_record(training, dense_run(training, width, seed, progress), nodes)
