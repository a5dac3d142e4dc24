"""What a sweep found: losses, optima with errors from seeds, and whether optima move with the depth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Mapping

import numpy as np

from .._shown import Short, Tabled, cell, pyplot, text_table
from .._types import Fields, Value
from ..studies.optimum import grid_optimum
from .findings import COVERED, student_error

SURE = 0.95                  # of "yes" and of "no", each
YES, NO, OPEN = "yes", "no", "not resolved"


@dataclass(frozen=True, eq=False, repr=False)
class TransferSweep(Short, Tabled):
    """Loss against learning rate at several depths, by recipe, over seeds.

    recipes: (r,); depths: (d,), growing; learning_rates: (k,), growing; losses: (r, d, k, s), the mean over the last
    steps of a training, infinite where it diverged; diverged: {(r, d, k, s): the step at which it did};
    notes: what plans take for granted, or do not know.

    Optima are those of single seeds, by a parabola through the least loss and its neighbors over the logarithm of the
    rate; their mean over seeds is the estimate. Its error covers the mean of many seeds in 68% of sweeps, by Student's
    law for as many seeds, and besides what the grid leaves open: how far the next points on both sides would move the
    optimum, half a step where a training next to the best one diverged.
    """

    recipes: tuple[str, ...]
    depths: tuple[int, ...]
    learning_rates: np.ndarray
    losses: np.ndarray
    diverged: Mapping[tuple[int, int, int, int], int]
    notes: tuple[str, ...] = ()

    @cached_property
    def _by_seed(self) -> np.ndarray:
        """(r, d, s) of ``Optimum``."""
        curves = np.moveaxis(self.losses, 2, 3)
        found = np.empty(curves.shape[:3], dtype=object)
        for at in np.ndindex(found.shape):
            found[at] = grid_optimum(self.learning_rates, curves[at])
        return found

    def _each(self, read: Value) -> np.ndarray:
        return np.asarray(np.vectorize(read, otypes=[float])(self._by_seed))

    @cached_property
    def _octaves(self) -> np.ndarray:
        """(r, d, s): log2 of the best rate of a seed; NaN without one."""
        return np.asarray(np.log2(self._each(lambda one: one.value)))

    @cached_property
    def _grid(self) -> np.ndarray:
        """(r, d): how many octaves optima may be off since the grid is coarse. Half a step where there is nothing to
        interpolate between or to judge it by: a training next to the best one diverged, or there are no more points;
        elsewhere what the points that are next to those of the parabola would change, on average."""
        skew = self._each(lambda one: one.skew) / math.log(2)
        blind = np.isnan(skew)
        return np.asarray(np.abs(np.where(blind, 0.0, skew).mean(axis=2)) + blind.mean(axis=2) * self._step / 2)

    @property
    def _step(self) -> float:
        """The widest step of the grid, in octaves."""
        return float(np.diff(np.log2(self.learning_rates)).max(initial=0.0))

    @cached_property
    def _alike(self) -> np.ndarray:
        """(r, d): do two seeds have the same losses, so that seeds say nothing of an error?"""
        curves = np.moveaxis(self.losses, 2, 3)
        one, other = curves[:, :, :, None], curves[:, :, None]
        same = ((one == other) & np.isfinite(one)).any(axis=4) & ((one == other).all(axis=4))
        return np.asarray(same.sum(axis=(2, 3)) > np.isfinite(curves).any(axis=3).sum(axis=2))

    @cached_property
    def bracketed(self) -> np.ndarray:
        """(r, d): are there losses on both sides of the optimum, for every seed?"""
        return np.asarray(self._each(lambda one: one.bracketed).all(axis=2))

    @property
    def optima(self) -> np.ndarray:
        """(r, d): the best learning rate, the geometric mean over seeds; NaN where a seed has none."""
        return np.asarray(np.exp2(self._octaves.mean(axis=2)))

    @property
    def errors(self) -> np.ndarray:
        """(r, d): of the optima, in octaves: 1 is a factor of two. NaN for one seed, and where the grid ends at the
        optimum of one."""
        found = np.hypot(student_error(self._octaves, (1 + COVERED) / 2), COVERED * self._grid)
        return np.where(self.bracketed & ~self._alike, found, np.nan)

    @cached_property
    def best_losses(self) -> np.ndarray:
        """(r, d): the least loss on the grid of the mean over seeds; infinite where every rate has diverged."""
        return np.asarray(self.losses.mean(axis=3).min(axis=2))

    @property
    def best_loss_errors(self) -> np.ndarray:
        """(r, d): of ``best_losses``, over seeds at that rate, as ``errors``; NaN for one seed."""
        best = self.losses.mean(axis=3).argmin(axis=2)
        at = np.take_along_axis(self.losses, best[:, :, None, None], axis=2)[:, :, 0]
        return np.where(self._alike, np.nan, student_error(np.where(np.isfinite(at), at, np.nan), (1 + COVERED) / 2))

    @property
    def shifts(self) -> np.ndarray:
        """(r, d): octaves by which the optimum has moved from the least depth, the mean over seeds."""
        return np.asarray((self._octaves - self._octaves[:, :1]).mean(axis=2))

    @property
    def moves(self) -> dict[str, str]:
        """Recipe -> "yes", "no" or "not resolved".

        yes: at some depth the optimum is further from that of the least depth than half a step of the grid, with 95%
        confidence over seeds; no: at all depths it is nearer, each with 95% confidence. Seeds are compared with
        themselves. Not resolved: neither, or an optimum at an end of the grid.
        """
        return {recipe: self._verdict(i)[0] for i, recipe in enumerate(self.recipes)}

    @property
    def reasons(self) -> dict[str, str]:
        """Recipe -> what ``moves`` rests on, a sentence."""
        return {recipe: self._verdict(i)[1] for i, recipe in enumerate(self.recipes)}

    def _verdict(self, i: int) -> tuple[str, str]:
        if len(self.depths) < 2:
            return OPEN, "there is one depth"
        for j, depth in enumerate(self.depths):
            if not np.isfinite(self._octaves[i, j]).all():
                return OPEN, f"no rate is best at depth {depth}: all losses are equal, or all trainings diverge"
            if not self.bracketed[i, j]:
                return OPEN, f"the grid ends at the optimum of depth {depth}"
        if self.losses.shape[3] < 2:
            return OPEN, "one seed has no error"
        if self._alike[i].any():
            return OPEN, f"two seeds have the same losses at depth {self.depths[int(np.argmax(self._alike[i]))]}"
        paired = self._octaves[i] - self._octaves[i, :1]
        among = 1 - (1 - SURE) / (len(self.depths) - 1)  # one of so many depths is enough for yes
        at_all, at_one = ((student_error(paired, level) + self._grid[i] + self._grid[i, 0])[1:]
                          for level in (SURE, among))
        moved, half = self.shifts[i, 1:], self._step / 2
        least, most = np.abs(moved) - at_one, np.abs(moved) + at_all
        answer = YES if (least > half).any() else NO if (most <= half).all() else OPEN
        j = int(np.argmax(least if answer == YES else most))
        limit = (at_one if answer == YES else at_all)[j]
        return answer, (f"from depth {self.depths[0]} to {self.depths[1 + j]} it moves by {moved[j]:+.2f} octaves, "
                        f"known to {limit:.2f} with {SURE:.0%} confidence on either side; half a step of the grid "
                        f"is {half:.2f}")

    @property
    def rows(self) -> list[Fields]:
        """One dictionary a recipe and depth: best rate, its error in octaves, loss there and its error, whether the
        grid brackets the optimum, and how many trainings diverged."""
        count = np.isinf(self.losses).sum(axis=(2, 3))
        return list({"recipe": recipe, "depth": depth, "best_rate": float(self.optima[i, j]),
                     "octaves": float(self.errors[i, j]), "loss": float(self.best_losses[i, j]),
                     "loss_error": float(self.best_loss_errors[i, j]), "bracketed": bool(self.bracketed[i, j]),
                     "diverged": int(count[i, j])}
                    for i, recipe in enumerate(self.recipes) for j, depth in enumerate(self.depths))

    def __str__(self) -> str:
        trained = self.losses[0, 0].size
        shown = [{"recipe": row["recipe"], "depth": row["depth"],
                  "best rate": self._end(row) + cell(row["best_rate"]),
                  "+- octaves": f"{row['octaves']:.2f}", "loss": f"{row['loss']:.4f}",
                  "+-": f"{row['loss_error']:.4f}", "diverged": f"{row['diverged']} of {trained}"} for row in self.rows]
        ends = [] if self.bracketed.all() else ["< > the grid ends there"]
        moves = [f"  {recipe}: {answer}; {self.reasons[recipe]}" for recipe, answer in self.moves.items()]
        return "\n".join([text_table(shown), *ends, "does the optimum move?", *moves,
                          *(f"note: {note}" for note in self.notes)])

    def _end(self, row: Fields) -> str:
        """On which side the optimum is, where the grid does not bracket it."""
        if row["bracketed"] or math.isnan(row["best_rate"]):
            return ""
        return "<" if row["best_rate"]**2 < self.learning_rates[0] * self.learning_rates[-1] else ">"

    def plot(self, axes: Value = None) -> Value:
        """Loss against learning rate, an axes a recipe and a curve a depth, means over seeds with their errors; crosses
        with bars are the optima. Returns the matplotlib axes, (r,).

        Raises ``MissingExtra`` without matplotlib, ``ValueError`` for another number of axes.
        """
        plt = pyplot("TransferSweep.plot")
        if axes is None:
            axes = plt.subplots(1, len(self.recipes), figsize=(3.6 * len(self.recipes), 3.6), sharey=True,
                                squeeze=False, layout="constrained")[1][0]
        if np.size(axes) != len(self.recipes):
            raise ValueError(f"axes: got {np.size(axes)}; expected as many as recipes, {len(self.recipes)}, or None")
        for i, (recipe, axis) in enumerate(zip(self.recipes, np.ravel(axes))):
            for j, depth in enumerate(self.depths):
                color = plt.get_cmap("viridis")(j / max(1, len(self.depths) - 1))
                curves = np.where(np.isfinite(self.losses[i, j]), self.losses[i, j], np.nan)
                bars = np.nan_to_num(student_error(curves, (1 + COVERED) / 2))
                axis.errorbar(self.learning_rates, curves.mean(axis=1), bars, color=color, marker=".", linewidth=1,
                              label=f"L = {depth}")
                if self.bracketed[i, j]:
                    best, error = self.optima[i, j], float(np.nan_to_num(self.errors[i, j]))
                    axis.errorbar(best, self.best_losses[i, j], marker="x", color=color, capsize=2, xerr=[
                        [best * (1 - 2**-error)], [best * (2**error - 1)]])
            axis.set_xscale("log", base=2)
            axis.set(xlabel="learning rate", title=f"{recipe}: moves? {self.moves[recipe]}")
        np.ravel(axes)[0].set_ylabel("loss")
        np.ravel(axes)[0].legend(frameon=False, fontsize=8)
        return axes
