"""Infinite width, infinite depth: the reflection form as differential equations in layer time, by collocation.

To the left of layer time tau x = P delta + x_left, to its right delta = Q x + delta_right; S and R are the
covariances of x_left and delta_right. With the densities A, B, N0, N1 that the block adds to them,

    P' = A + P B P,        S' = N0 + P N1 P^T + P B S + (P B S)^T,
    -Q' = B + Q A Q,       -R' = N1 + Q N0 Q^T + Q A R + (Q A R)^T.

The rows of one step are an initial-value problem, forward from 0 and then backward from 1, in which
everything of earlier steps is known. Reversing layer time swaps (P, S, A, N0, C0) and (Q, R, B, N1, C1):
one sweep serves both directions. It marches through the elements of a mesh; in each, nodal values of the
rows give densities, densities give right-hand sides, their integrals the next nodal values, to round-off.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Callable, NamedTuple, Union, cast

import numpy as np

from .. import _checks
from ..errors import Divergence, NotCovered
from ..optimizers import SGD, Muon
from ..data import Task
from ..optimizers.sgd import rows_per_step, update_kernel
from .laws.pair_laws import BackwardLaw, ForwardLaw, MixingBackwardLaw, MixingForwardLaw, linear_block
from .blocks import AnyKernels, BlockKernels, GroupKernels, Law, Linear
from .collocation_row import Near, PackedDirectionSolution, carry, spanned
from .laws.group_laws import GroupBackwardLaw, GroupForwardLaw, grouped, within_groups
from .element import LARGEST, Element, DirectionSolution, Solved
from .propagator import Propagator, Rows, UpdateKernels
from .mesh import Mesh, halving, reference
from .training import Trace, embedding_readout_memory, moved_by_update, require_known, train_rows

ROUND_OFF = 4 * np.finfo(np.float64).eps
COARSE, FINE = 18, 20  # nodes of an element in the two resolutions that are compared
MOST_ELEMENTS = 1024
SAMPLED_ELEMENTS = 32   # of kernels that are sampled, where one costs seconds
SMOOTH = 1e-8          # tails so small that an error which shorter elements leave is round-off
SHORTEST = 2.0**-40    # a piece of layer time that is not worth halving
AnyDirectionSolution = Union[DirectionSolution, PackedDirectionSolution]


class TooCoarse(ArithmeticError):
    """Elements are too long for the rows of a step. Attributes: cuts, layer times that resolve them; step, layer."""

    def __init__(self, cuts: list[float], step: int, layer: float, largest: float | None = None) -> None:
        reached = "" if largest is None else f", which rows reach with values up to {largest:.2g}"
        super().__init__(f"no resolution at step {step}, layer time {layer:.4g}{reached}")
        self.cuts, self.step, self.layer = cuts, step, layer


def most_elements(block: AnyKernels) -> int:
    """The most elements of layer time that are tried."""
    return SAMPLED_ELEMENTS if getattr(block, "resolution", 0.0) else MOST_ELEMENTS


def cut(mesh: Mesh, coarser: TooCoarse, block: AnyKernels) -> Mesh:
    """Elements that resolve the rows of a step; raises ``Divergence`` where these are too many, or too short."""
    finer, most = mesh.cut(coarser.cuts), most_elements(block)
    if finer.elements > most or np.min(finer.lengths) < SHORTEST:
        raise Divergence(f"the infinite-depth limit is not resolved by {most} elements of layer time ({coarser}); a "
                         "smaller learning rate may help", step=coarser.step, layer=coarser.layer)
    return finer


@dataclass
class CollocationPropagator(Propagator):
    """The body of a residual network of infinite depth on a mesh of layer time; ``rho.size`` rows at most.

    noise: constant of everything the initial matrices add (L eps^2 at alpha = 1/2, else 0); drift: constant
    of the updates (L eps g at alpha + gamma = 1, 0 where updates die). The block enters through its kernels
    alone. Nodal arrays P, Q, S, R, A, B, C0, C1 have shape (nodes, N, N), at layer times ``mesh.times``.
    packed: hold triangles, and carry rows by a compiled kernel; one row a step of a linear block. Nodal arrays are then
    unpacked when they are first asked for, which should be after training.
    updates: where updates mix rows, of linear blocks and phi(W x); None for those that ``w`` weighs.

    ``forward``, ``backward`` and ``probe`` raise ``TooCoarse`` where the mesh is too coarse.

    Source: Tensor Programs VI, Proposition C.4 [tensor_programs_vi/proposition_c4], whose integral equations these
    solve.
    """

    mesh: Mesh
    rows: int            # of one step
    noise: float
    drift: float
    rho: np.ndarray      # (N,)
    w: np.ndarray        # (N, N)
    block: AnyKernels = field(default_factory=linear_block)
    guess: CollocationPropagator | None = None  # the same on fewer nodes an element: where iterations start
    packed: bool = False
    updates: UpdateKernels | None = None

    def __post_init__(self) -> None:
        if self.packed and (self.rows > 1 or not self.block.is_linear or self.updates is not None):
            raise NotCovered(f"packed: got True with {self.rows} rows a step of {self.block}; expected one row a "
                             "step of a linear block, with updates that w weighs")
        if self.rows % self.block.size:
            raise NotCovered(f"rows: got {self.rows} a step with {self.block!r}; expected whole groups of "
                             f"{self.block.size}")
        self._moved: tuple[int, np.ndarray] = (-1, np.zeros(0))
        nodes, n = len(self.mesh.times), len(self.rho)
        self.halves = tuple(PackedDirectionSolution.empty(nodes, self.noise,
                                                          self.rho) if self.packed else DirectionSolution.empty(nodes,
                                                                                                                n)
                            for _ in range(2))

    left = cached_property(lambda self: self.halves[0].whole())
    right = cached_property(lambda self: self.halves[1].whole())
    layer_times = property(lambda self: self.mesh.times)
    P = property(lambda self: self.left.P)
    S = property(lambda self: self.left.S)
    A = property(lambda self: self.left.A)
    C0 = property(lambda self: self.left.C)
    Q = property(lambda self: self.right.P)
    R = property(lambda self: self.right.S)
    B = property(lambda self: self.right.A)
    C1 = property(lambda self: self.right.C)

    def probe(self, step: int, start: Rows) -> Rows:
        if step == 0:
            return start
        if self.block.size > 1:
            raise NotCovered(f"probes: got some with {self.block!r}, whose rows meet in groups of {self.block.size}; "
                             "expected the groups of training alone")
        return self._sweep(True, step, start._replace(own=None) if self.block.is_linear else start, store=False)

    def _sweep(self, forward: bool, step: int, start: Rows, store: bool = True) -> Rows:
        """Carry the rows of a step through all elements; those that are not stored leave no trace."""
        if self.packed and len(start.s) > 1:
            return self._passengers(step, start)
        mine, other = self.halves if forward else self.halves[::-1]
        own = start.own
        b, m = start.s.shape
        # where the block gives Q a diagonal, backward rows respond to the forward rows of their own step
        wide = m + b if self.block.has_diagonal and not forward else m
        state = np.zeros((b, wide + m + (0 if own is None else own.shape[1])))
        state[:, :m] = start.p
        state[:, wide:wide + m] = start.s
        if own is not None:
            state[:, wide + m:] = own
        elements = self.mesh.elements
        cuts: list[float] = []
        drift = self._drift(step, m)
        passed = self._carried(forward, m, state, 0)
        while passed < elements:
            e = passed if forward else elements - 1 - passed
            nodes, ends = self.mesh.element(e), self.mesh.ends[e:e + 2]
            sides = tuple(side.on(nodes, m + b) for side in (mine, other))
            near = None
            if store and self.guess is not None and not self.packed:
                near = self.guess.near(forward, e, m, b, wide, self.mesh.nodes)
            here = drift if drift.ndim == 1 else drift[nodes]
            solved = self._solved(forward, sides, ends, m, wide, state, here, near)
            if solved is None:
                state = self._halved(forward, sides, ends, m, wide, state, here, cuts, step)
            else:
                if store and not cuts:
                    mine.store(nodes, solved, m, wide)
                state = solved.state[-1 if forward else 0]
            passed = self._carried(forward, m, state, passed + 1)
        if cuts:
            raise TooCoarse(cuts, step, min(cuts))
        return Rows(state[:, :m], state[:, wide:wide + m], None if own is None else state[:, wide + m:])

    def _passengers(self, step: int, start: Rows) -> Rows:
        """Passengers of a packed propagator, by a basis: what they end as is linear in their at most d_in dimensions.
        """
        weights, basis = spanned(np.concatenate([start.p, start.s], axis=1))
        ended = [self._sweep(True, step, Rows(*np.split(row[None], 2, axis=1)), store=False) for row in basis]
        return Rows(weights @ np.concatenate([rows.p for rows in ended]),
                    weights @ np.concatenate([rows.s for rows in ended]))

    def _carried(self, forward: bool, m: int, state: np.ndarray, passed: int) -> int:
        """Carry the state of a packed propagator, in place, from element to element; how many it has passed."""
        if not self.packed or passed == self.mesh.elements:
            return passed
        mine, other = cast(tuple[PackedDirectionSolution, ...], self.halves if forward else self.halves[::-1])
        near = None
        if self.guess is not None and self.guess.packed and state.shape[1] > 2 * m:
            near = Near(cast(PackedDirectionSolution, self.guess.halves[0 if forward else 1]), self.guess.mesh.nodes)
        return carry(forward, self.mesh.lengths, self.mesh.nodes, mine, other, self._linear(m), state[0], near, passed)

    def _linear(self, m: int) -> Linear | None:
        """``Law.linear`` of a step, the same in both directions, whatever the variances."""
        return self._forward_law(np.zeros(m), m, self.drift * self.w[m, :m]).linear

    def _drift(self, step: int, m: int) -> np.ndarray:
        """What updates before a step are made of, times their constant: (m,) or (nodes, m, m)."""
        if self.updates is None:
            return self.drift * self.w[m, :m]
        if self._moved[0] != step:
            self._moved = step, self.drift * self.updates.weights(self, step)
        return self._moved[1]

    def _solved(self, forward: bool, sides: tuple[AnyDirectionSolution, ...], ends: tuple[float, ...], m: int,
                wide: int, state: np.ndarray, drift: np.ndarray, near: np.ndarray | None) -> Solved | None:
        """The rows of a step on an element from their values where they enter; None where it is too long for them."""
        if self.packed and self.mesh.nodes * (wide + m) > LARGEST:
            return None  # the kernel's iteration has failed, which contracts where Picard's does
        mine, other = (side.whole() for side in sides)
        left = mine if forward else other
        integral = (ends[1] - ends[0]) / 2 * reference(self.mesh.nodes)[2]
        law = self._law(forward, left, m, drift)
        element = Element(mine, other, integral if forward else integral[::-1, ::-1], law, m, wide,
                          state.shape[1] > wide + m)
        return element.solve(state, near)

    def _piece(self, forward: bool, sides: tuple[AnyDirectionSolution, ...], ends: tuple[float, ...], m: int, wide: int,
               state: np.ndarray, drift: np.ndarray) -> np.ndarray | None:
        """The state at the other end of a piece of an element; None where the piece is too long for it."""
        (mine, other), end = sides, state.copy()
        if self.packed and carry(forward, np.diff(ends), self.mesh.nodes, cast(PackedDirectionSolution, mine),
                                 cast(PackedDirectionSolution, other), self._linear(m), end[0], None):
            return end
        solved = self._solved(forward, sides, ends, m, wide, state, drift, None)
        return None if solved is None else solved.state[-1 if forward else 0]

    def _halved(self, forward: bool, sides: tuple[AnyDirectionSolution, ...], ends: tuple[float, ...], m: int,
                wide: int, state: np.ndarray, drift: np.ndarray, cuts: list[float], step: int) -> np.ndarray:
        """Carry a state through an element that is too long for it, in pieces; adds where they meet to ``cuts``."""
        middle = sum(ends) / 2
        cuts.append(middle)
        if ends[1] - ends[0] < SHORTEST or len(cuts) + self.mesh.elements > most_elements(self.block):
            raise TooCoarse(cuts, step, middle, float(np.max(np.abs(state))))
        for first in (True, False) if forward else (False, True):
            piece = (ends[0], middle) if first else (middle, ends[1])
            weights = halving(self.mesh.nodes, first)
            inside = tuple(side.at(weights) for side in sides)
            here = drift if drift.ndim == 1 else np.tensordot(weights, drift, 1)
            end = self._piece(forward, inside, piece, m, wide, state, here)
            state = self._halved(forward, inside, piece, m, wide, state, here, cuts, step) if end is None else end
        return state

    def near(self, forward: bool, e: int, m: int, b: int, wide: int, nodes: int) -> np.ndarray:
        """The stored rows m..m+b on an element, as states [p | s | S_tt] at the points of ``nodes`` nodes."""
        side, here = self.left if forward else self.right, slice(m, m + b)
        known = np.concatenate([side.P[:, here, :wide], side.S[:, here, :m + b]], axis=-1)
        return self.mesh.refined(e, known, nodes)

    def forget(self) -> None:
        """Keep what the rows of another mesh can start from, P, Q, S and R."""
        for side in self.halves:
            side.forget()

    def tails(self) -> np.ndarray:
        """(elements,), how far they are from resolving P, Q, S and R: the sum over these."""
        return np.sum([self.mesh.tails(a) for side in self.halves for a in (side.P, side.S)], axis=0)

    def _forward_law(self, variances: np.ndarray, m: int, drift: np.ndarray) -> ForwardLaw:
        return ForwardLaw(cast(BlockKernels, self.block), *self._constants(variances, m, drift))

    def _constants(self, variances: np.ndarray, m: int, drift: np.ndarray
                   ) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, float]:
        """What a law is given besides the block."""
        return self.noise, drift, variances, self.rho[m] * self.rho[:m], float(self.rho[m]**2)

    def _law(self, forward: bool, left: DirectionSolution, m: int, drift: np.ndarray) -> Law:
        r, c, own = left.r[:, m:, :m], left.C[:, m:, :m], left.C[:, m:, m:]
        if self.block.size > 1:
            size = self.block.size
            together = GroupForwardLaw(cast(GroupKernels, self.block), self.noise, drift,
                                       within_groups(grouped(left.C[:, :m, :m], size)), self.rho[m] * self.rho[:m:size],
                                       float(self.rho[m]**2))
            return together if forward else GroupBackwardLaw(together, r, c, own)
        variances = np.diagonal(left.C[:, :m, :m], axis1=1, axis2=2)
        if drift.ndim > 1 and not self.block.is_linear:
            mixing = MixingForwardLaw(cast(BlockKernels, self.block), *self._constants(variances, m, drift))
            return mixing if forward else MixingBackwardLaw(mixing, r, c, own)
        law = self._forward_law(variances, m, drift)
        return law if forward else BackwardLaw(law, r, c, own)


class TrainedLimit(NamedTuple):
    """A trained network of infinite depth; ``error`` bounds how far its outputs are off, absolutely."""

    trace: Trace
    propagator: CollocationPropagator
    error: float


def solve_limit(task: Task, optimizer: SGD | Muon, noise: float, drift: float, samples: str, tolerance: float = 1e-12,
                after_step: Callable[[int], None] = lambda t: None, block: AnyKernels | None = None,
                train_embedding_readout: bool = False, learnt: int | None = None, updates: UpdateKernels | None = None,
                ends: tuple[float, ...] = (0.0, 1.0), nodes: tuple[int, int] = (COARSE, FINE)) -> TrainedLimit:
    """Train at infinite width and depth until the outputs are known to ``tolerance`` times the scale of f.

    noise, drift: the constants of ``CollocationPropagator``; samples: "plain" or "effective"; after_step is called
    after every training step of every attempt; learnt: as in ``train_on``; updates: those of
    ``CollocationPropagator``, in place of the optimizer's w; ends: of the elements that are tried first; nodes: of an
    element. Two resolutions of one mesh are compared; twice their difference and the mismatch between outputs and
    backward sweep, with the round-off of sums, is the error estimate of the finer. It exceeds the tolerance only where
    round-off forbids better. Elements are cut where the rows of a step are not resolved: at large learning rates toward
    the ends of the network, where layers are thin.

    Raises ``MemoryError`` where a mesh cannot fit, and ``Divergence``, naming step and layer time, where values
    are not finite or ``most_elements`` do not resolve the solution, and where the estimate is more than a tenth of
    the scale of f, which is ``Trace.scale``.
    """
    b, fewer = rows_per_step(task, samples), "fewer steps, a smaller batch or a smaller learning rate fit"
    body = linear_block() if block is None else block
    mesh = Mesh(ends, nodes[0])
    _checks.memory(8 * 12.0 * len(mesh.times) * (b * task.steps)**2, "one element of layer time", fewer)

    def attempt(mesh: Mesh, guess: CollocationPropagator | None) -> tuple[Trace, CollocationPropagator]:
        return train_on(mesh, task, optimizer, noise, drift, samples, after_step, body, train_embedding_readout, learnt,
                        guess, updates)

    best = np.inf
    while True:
        try:
            coarse, guess = attempt(mesh, None)
            guess.forget()
            trace, propagator = attempt(mesh.with_nodes(nodes[1]), guess)
            propagator.guess = None
        except TooCoarse as coarser:
            mesh = cut(mesh, coarser, body)
        else:
            size, error, round_off = _compare(coarse, trace, conserved=body.is_linear)
            tails = propagator.tails()
            # shorter elements help by a large factor, unless what is left is round-off
            settled = np.max(tails) < SMOOTH and error > best / 2
            if error <= max(tolerance * size, 2 * round_off):
                return TrainedLimit(trace, propagator, error)
            if np.max(tails) <= ROUND_OFF or settled:
                require_known(error, size, "the infinite-depth limit is lost in round-off",
                              "shorter elements do not help, a smaller learning rate may")
                return TrainedLimit(trace, propagator, error)
            best = min(best, error)
            longer, mesh = mesh, mesh.bisect(tails >= 0.01 * np.max(tails))
            if mesh.elements > most_elements(body) or np.min(mesh.lengths) < SHORTEST:
                require_known(error, size, f"the infinite-depth limit is not resolved by {longer.elements} elements of "
                              "layer time", "a smaller learning rate may help")
                return TrainedLimit(trace, propagator, error)


def train_on(mesh: Mesh, task: Task, optimizer: SGD | Muon, noise: float, drift: float, samples: str,
             after_step: Callable[[int], None], block: AnyKernels, train_embedding_readout: bool,
             learnt: int | None = None,
             guess: CollocationPropagator | None = None, updates: UpdateKernels | None = None
             ) -> tuple[Trace, CollocationPropagator]:
    """Train on one mesh, as ``solve_limit`` does; raises ``TooCoarse`` where it does not resolve the rows of a step.

    learnt: how many of the samples of every step, its first, are learnt from, where not all of them (plain rows only).
    """
    b = rows_per_step(task, samples)
    rho, w = optimizer.memory(task.steps)
    unit = moved_by_update(task, w, drift, train_embedding_readout)
    w, rho = update_kernel(w, task, samples), np.repeat(rho, b)
    if learnt is not None:
        w = w * np.tile(np.arange(b) < learnt, task.steps) * (b / learnt)
    packed = b == 1 and block.is_linear and updates is None
    kept = 12.0 * len(mesh.times) + (0 if guess is None else 4.0 * len(guess.mesh.times))
    kept *= 5 / 12 if packed else 1  # halves of five matrices a side instead of six whole ones
    _checks.memory(8 * kept * len(rho)**2, f"{mesh.elements} elements of layer time",
                   "fewer steps, a smaller batch or a smaller learning rate fit")
    propagator = CollocationPropagator(mesh, b, noise, drift, rho, w, block, guess, packed, updates)
    with np.errstate(over="ignore", invalid="ignore"):
        return train_rows(task, propagator, samples, after_step,
                          embedding_readout_memory(train_embedding_readout, rho, w), unit), propagator


def _compare(coarse: Trace, fine: Trace, conserved: bool) -> tuple[float, float, float]:
    """(the scale of f, error of the finer outputs, what of it is the round-off of sums).

    conserved: whether <x delta> is the same at every layer time, as for linear blocks, (I + W) x . delta = x . (I +
    W^T) delta; other blocks are not their Jacobian times x."""
    pairs = [(coarse.outputs, fine.outputs)]
    if coarse.probe_outputs is not None and fine.probe_outputs is not None:
        pairs.append((coarse.probe_outputs, fine.probe_outputs))
    size = fine.scale
    difference = max(float(np.max(np.abs(a - b), initial=0.0)) for a, b in pairs)
    round_off = 16 * np.finfo(np.float64).eps * size * len(fine.outputs)
    return size, 2 * (difference + (fine.mismatch if conserved else 0.0)) + round_off, round_off
