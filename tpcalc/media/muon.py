"""Muon in a medium: the orthogonal factors of layers, from the Gram matrices of the rows that a medium has learned."""

from __future__ import annotations

from typing import Callable

import numpy as np

from ..kernels.polar_factor import orthogonal_weights
from ..programs import Muon
from .medium import Gradients

Slopes = Callable[[np.ndarray, np.ndarray], np.ndarray]
MIDDLE = "the middle of the network"


class MuonUpdates:
    """What Muon's updates are made of: (places, m, m) weights of gradients and inputs, for any medium.

    rho: (steps,), shares of the initial matrix; slopes: (C0, rho rho) -> E phi'(u) phi'(u) of a block phi(W x), None for
    linear ones. ``spreads``: by step, the smallest over the largest singular value of what an update is the factor of,
    in the middle of the network. Source: [tpcalc/muon_on_gram_matrices].
    """

    def __init__(self, opt: Muon, steps: int, slopes: Slopes | None = None) -> None:
        self.opt, self.slopes = opt, slopes
        self.rho, _ = opt.memory(steps)
        self.rates = opt.schedule(steps)
        self.spreads: dict[int, float] = {}
        self._medium: Gradients | None = None

    def weights(self, medium: Gradients, step: int) -> np.ndarray:
        b = medium.rows
        if self._medium is not medium or self._done > step:
            self._medium, self._done, self._known = medium, 0, np.zeros((len(medium.C0), 0, 0))
        while self._done < step:
            factors = self._factors(medium, self._done)
            before = (1 - self.rates[self._done] * self.opt.weight_decay) * self._known
            self._known = self.rates[self._done] * factors
            self._known[:, :before.shape[1], :before.shape[2]] += before
            self._done += 1
        return self._known

    def _factors(self, medium: Gradients, step: int) -> np.ndarray:
        """M of the update of ``step``, at every place: (places, m, m), m rows up to that step."""
        b, first = medium.rows, 0 if self.opt.momentum else step
        here = slice(first * b, (step + 1) * b)
        inputs, gradients = medium.C0[:, here, here], medium.C1[:, here, here]
        if self.slopes is not None:
            shares = np.repeat(self.rho[first:step + 1], b)
            gradients = self.slopes(inputs, np.outer(shares, shares)) * gradients
        weights = np.repeat(self.opt.weights(step + 1)[first:], b)
        found = np.zeros((len(inputs), (step + 1) * b, (step + 1) * b))
        for place, (c0, c1) in enumerate(zip(inputs, gradients * np.outer(weights, weights))):
            mixed, spread = orthogonal_weights(c0, c1, self.opt.steps or 0)
            found[place, here, here] = weights[:, None] * mixed
            if place == len(inputs) // 2:
                self.spreads[step] = spread
        return found

    def note(self) -> str:
        """The smallest ratio of singular values, and where."""
        if not self.spreads:
            return "no update acts on a later step"
        step = min(self.spreads, key=lambda s: self.spreads[s])
        return (f"singular values that Muon sets to 1 are at least {self.spreads[step]:.2g} of the largest (step {step}, "
                f"{MIDDLE}); a real network needs a width of more than one over the square of that")
