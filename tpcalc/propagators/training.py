"""The loop over training steps, at infinite width: forward rows, outputs, loss derivative, backward rows.

Two indexings close the equations of a linear network. *Plain*: a row for every (step, input). *Effective*:
the batch enters an update only through xbar_k = mean_i chi_ik x_i, one row for every (step, output),
whose backward signal starts as nV_k; the inputs of the batch are passengers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import numpy as np

from ..errors import Divergence
from ..data import Task
from ..data.losses import derivative
from .propagator import EmbeddingOrReadout, EmbeddingReadoutMemory, Propagator

UNKNOWN = 0.1  # an estimate of this part of the outputs: not one digit is known, nothing was found


@dataclass(frozen=True)
class Trace:
    """Outputs (steps, batch, d_out), those of the probes (steps, m, d_out) or None, and ``mismatch``:
    the largest difference between the outputs and what the backward sweep says they are, in units of outputs: it says
    <delta | x> for signals delta of a step, and is divided by the largest of them."""

    outputs: np.ndarray
    probe_outputs: np.ndarray | None
    mismatch: float
    scale: float = 0.0   # of f: the largest output; at least what an update moves outputs by, where that is below 1


def fewer_rows(task: Task) -> str:
    """The indexing with fewer rows."""
    return "effective" if task.d_out < task.batch else "plain"


def embedding_readout_memory(train_embedding_readout: bool, rho: np.ndarray,
                             w: np.ndarray) -> EmbeddingReadoutMemory | None:
    """The memory of ends that the optimizer of the body trains, whose rho and w are given; None for frozen ones."""
    return EmbeddingReadoutMemory(rho, w) if train_embedding_readout else None


def train_rows(task: Task, propagator: Propagator, samples: str, after_step: Callable[[int], None],
               ends: EmbeddingReadoutMemory | None = None, unit: float = 0.0) -> Trace:
    """Train a linear network through ``propagator``, in the plain or the effective indexing.

    ends: frozen where None; unit: how much an update moves outputs by, for a loss derivative of 1.
    """
    plain = samples == "plain"
    outputs = np.zeros_like(task.targets)
    probes = None if task.probes is None else np.zeros((task.steps, len(task.probes), task.d_out))
    # row a starts as its input times embedding weights; its backward signal as its loss derivative times readout ones
    read_in, read_out = EmbeddingOrReadout(task.d_in, ends), EmbeddingOrReadout(task.d_out, ends)
    mismatch = largest = 0.0
    for t in range(task.steps):
        xi, y = task.inputs[t], task.targets[t]
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is reported below
            if plain:
                arrived = propagator.forward(t, read_in.emits(xi))
            else:
                arrived = propagator.probe(t, read_in.emits(xi, passengers=True))
            outputs[t] = read_out.reads(arrived)
            if probes is not None and task.probes is not None:
                probes[t] = read_out.reads(propagator.probe(t, read_in.emits(task.probes, passengers=True)))
            chi = derivative(task.loss, outputs[t], y)
        if not np.all(np.isfinite(chi)):
            raise Divergence(f"training step {t}: the loss derivative is not finite", step=t)
        largest = max(largest, float(np.max(np.abs(chi))))
        if plain:
            new_rows, new_signal = xi, chi
        else:
            new_rows, new_signal = chi.T @ xi / task.batch, np.eye(task.d_out)
            arrived = propagator.forward(t, read_in.emits(new_rows))
        returned = propagator.backward(t, read_out.emits(new_signal))
        # <x^0 | delta^0> = <x^L | delta^L>: what the embedding reads of the backward rows is f again
        mirrored = read_in.reads(returned) @ xi.T
        strength = float(np.max(np.linalg.norm(new_signal, axis=1), initial=0.0))
        if strength > 0:
            differences = np.abs(mirrored - new_signal @ outputs[t].T) / strength
            mismatch = max(mismatch, float(np.max(differences, initial=0.0)))
        read_out.append(arrived, new_signal)
        read_in.append(returned, new_rows)
        after_step(t)
    found = [outputs] if probes is None else [outputs, probes]
    return Trace(outputs, probes, mismatch, max(min(1.0, unit * largest), *(float(np.max(np.abs(f))) for f in found)))


def moved_by_update(task: Task, w: np.ndarray, drift: float, train_embedding_readout: bool) -> float:
    """How much an update moves outputs by, for a loss derivative of 1: the step's weight times |xi|^2.

    w: of the optimizer between steps; drift: L |eps| g, what updates of blocks add up to.
    """
    squares = float(np.max(np.sum(task.inputs**2, axis=2)))
    return float(np.max(np.abs(w), initial=0.0)) * max(drift, float(train_embedding_readout)) * squares


def require_known(error: float, scale: float, what: str, advice: str) -> None:
    """Raise ``Divergence`` where not one digit is known: the rule of all exact readings, relative to the scale of f."""
    if not error <= UNKNOWN * scale:
        raise Divergence(f"{what}: outputs of size {scale:.2g} are known to {error:.1e} only, which is more than "
                         f"{UNKNOWN:g} of the scale of f; {advice}")
