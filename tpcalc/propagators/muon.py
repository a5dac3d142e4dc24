"""Muon in a propagator: orthogonal factors of layers, from Gram matrices of the rows that a propagator learned."""

from __future__ import annotations

from typing import Callable

import numpy as np

from ..action.densities import KAPPA, Derivative
from ..errors import NotCovered
from ..optimizers.polar import orthogonal_weights
from ..optimizers import SGD, Muon
from ..models import ResNet
from ..models.network import Network
from ..data import Task
from ..data.losses import derivative
from ..optimizers.sgd import kept
from .blocks import BlockKernels, Pairs
from .propagator import Gradients

Slopes = Callable[[np.ndarray, np.ndarray], np.ndarray]
NOTHING = 1e-8  # of the largest: such loss derivatives are 0 at infinite width
CERTAIN = 4.0   # errors that a loss derivative must differ from 0 by


class MuonUpdates:
    """What Muon's updates are made of: (places, m, m) weights of gradients and inputs, for any propagator.

    rho: (steps,), shares of the initial matrix; slopes: (C0, rho rho) -> E phi'(u) phi'(u) of a block phi(W x), None
    for linear ones. ``spreads``: by step, the smallest over the largest singular value of what an update is
    the factor of, in the middle of the network. Source: [tpcalc/muon_on_gram_matrices].
    """

    def __init__(self, opt: Muon, steps: int, slopes: Slopes | None = None) -> None:
        self.opt, self.slopes = opt, slopes
        self.rho, _ = opt.memory(steps)
        self.rates = opt.schedule(steps)
        self.spreads: dict[int, float] = {}
        self._propagator: Gradients | None = None
        self._done, self._known = 0, np.zeros((0, 0, 0))

    def weights(self, propagator: Gradients, step: int) -> np.ndarray:
        if self._propagator is not propagator or self._done > step:
            self._propagator, self._done, self._known = propagator, 0, np.zeros((len(propagator.C0), 0, 0))
        while self._done < step:
            factors = self._factors(propagator, self._done)
            before = kept(self.opt, self.rates[self._done], self.opt.weight_decay) * self._known
            self._known = self.rates[self._done] * factors
            self._known[:, :before.shape[1], :before.shape[2]] += before
            self._done += 1
        return self._known

    def _factors(self, propagator: Gradients, step: int) -> np.ndarray:
        """M of the update of ``step``, at every place: (places, m, m), m rows up to that step."""
        b, first = propagator.rows, 0 if self.opt.momentum else step
        here = slice(first * b, (step + 1) * b)
        inputs, gradients = propagator.C0[:, here, here], propagator.C1[:, here, here]
        if self.slopes is not None:
            shares = np.repeat(self.rho[first:step + 1], b)
            gradients = self.slopes(inputs, np.outer(shares, shares)) * gradients
        weights = np.repeat(self.opt.weights(step + 1)[first:], b)
        found = np.zeros((len(inputs), (step + 1) * b, (step + 1) * b))
        for location, (c0, c1) in enumerate(zip(inputs, gradients * np.outer(weights, weights))):
            mixed, spread = orthogonal_weights(c0, c1, self.opt.newton_schulz_steps or 0)
            found[location, here, here] = weights[:, None] * mixed
            if location == len(inputs) // 2:
                self.spreads[step] = spread
        return found

    def note(self) -> str:
        """The smallest ratio of singular values, and where."""
        if not self.spreads:
            return "no update acts on a later step"
        step = min(self.spreads, key=lambda s: self.spreads[s])
        said = (f"singular values that Muon sets to 1 are at least {self.spreads[step]:.2g} of the largest (step "
                f"{step}, the middle of the network)")
        narrow = self.spreads[step] < 1 / 2
        return said + (f"; widths must be well above {self.spreads[step]**-2:.2g} to see them apart" if narrow else "")


def slopes_of(block: BlockKernels) -> Slopes:
    """E phi'(u) phi'(u) of a block phi(W x): what kappa moves by with C0, less the decay that it carries."""
    def slopes(c0: np.ndarray, decay: np.ndarray) -> np.ndarray:
        variances = np.diagonal(c0, axis1=-2, axis2=-1)
        squares = np.diagonal(decay)
        pairs = Pairs(c0, variances, variances, decay, squares[:, None], squares)
        found, = block.derivatives(pairs, (Derivative(KAPPA, 1),))
        return np.asarray(found / decay)
    return slopes


def mixes(net: Network) -> bool:
    """Is it known, at infinite depth, what rows that Muon mixes do in blocks of this network?"""
    return net.is_plain or (isinstance(net, ResNet) and net.block == "post_nonlin" and net.norm is None
                            and net.reads_stream)


def require_mixing_block(net: ResNet, opt: SGD | Muon) -> None:
    """Raise ``ValueError`` for blocks of which it is not known, at infinite depth, what rows that Muon mixes do."""
    if isinstance(opt, Muon) and not mixes(net):
        raise NotCovered(f"net: got {net!r} with {opt!r}; at infinite depth its updates are known in linear blocks "
                         "and in phi(W x) without a norm; expected these, or 'particles' at finite depth")


def muon_updates(opt: SGD | Muon, net: ResNet, steps: int, block: BlockKernels | None = None) -> MuonUpdates | None:
    """What Muon's updates of a network's blocks are made of, None for optimizers that weigh rows one by one.

    block: kernels of blocks that are not linear.
    """
    if isinstance(opt, SGD):
        return None
    return MuonUpdates(opt, steps, None if net.is_plain or block is None else slopes_of(block))


def require_limit_directions(net: ResNet, task: Task, opt: Muon, outputs: np.ndarray,
                             error: np.ndarray | float = 0.0) -> None:
    """Raise ``ValueError`` where a direction of a gradient vanishes at infinite width alone, naming the step.

    There a network of width n has a fluctuation, which Muon blows up to order one: what the limit says is of no width.
    outputs: (steps, batch, d_out), known to ``error``, one or of their shape. Directions of a step are counted in the
    loss derivatives: of a linear network sum_i chi_i xi_i, whose rank is that of min(d_out, rank of the inputs) unless
    something vanishes; of others every input that is not repeated has its own.
    """
    found = [derivative(task.loss, f, y) for f, y in zip(outputs, task.targets)][:-1]
    largest = max((float(np.max(np.abs(chi), initial=0.0)) for chi in found), default=0.0)
    errors, rates = np.broadcast_to(error, outputs.shape), opt.schedule(task.steps)
    for step, (chi, xi) in enumerate(zip(found, task.inputs)):
        if not rates[step]:  # nothing moves
            continue
        known = float(np.max(errors[step]))
        if net.is_plain:
            left, sizes, _ = np.linalg.svd(xi, full_matrices=False)
            spanned = sizes > NOTHING * sizes[0]
            singular = np.linalg.svd(chi.T @ left[:, spanned], compute_uv=False)
            smallest = singular[-1] if len(singular) else 0.0
        else:
            _, which = np.unique(xi, axis=0, return_inverse=True)
            together = np.array([np.sum(chi[which.ravel() == k], axis=0) for k in range(np.max(which) + 1)])
            smallest = np.min(np.linalg.norm(together, axis=1))
        if not smallest > max(NOTHING * largest, CERTAIN * known):
            raise NotCovered(f"opt: got {opt!r}; at step {step} a direction of the gradient vanishes at infinite "
                             f"width (a singular value of {smallest:.1e}, of all steps {largest:.1e}, known to "
                             f"{known:.1e}), where networks move along a fluctuation; expected loss derivatives that "
                             "differ from 0 in every direction")
