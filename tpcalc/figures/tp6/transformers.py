"""Tensor Programs VI, Figures 15 to 17: transformers trained on text by Adam."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ... import Adam, DepthScaling, Transformer, schedule
from ..curve import Curve, draw_curve, numbers, panels_of
from ..estimates import Estimate, best_loss, over_seeds, shift
from ..figure import Asked, Conclusion, Drawing, Sizes, draws
from ..grids import EPS, slices
from ..images import Characters
from ..panels import COLORS, curves, legend, picture_of_panels
from ..trainings import RealTraining

TEXT = "text that ships with Python"
INSTEAD = ("a causal transformer with LayerNorm of width 32 on help texts of Python for Megatron on Common Crawl, "
           "depths 2 to 16, 80 steps of 8 sequences of 8 characters for 3900 of 256 of 4096 tokens")
WARMUP, FULL_STEPS = 0.125, 3900  # a share of the steps, in which rates grow; then they fall as a cosine
OCTAVES = (-4, 2)


@dataclass(frozen=True)
class Language:
    """Transformers of several depths, trained with a warmup and a cosine, branches with 1/sqrt(L)."""

    sizes: Sizes

    @property
    def depths(self) -> tuple[int, ...]:
        return self.sizes.of((1, 2), (2, 4, 8, 16), (2, 4, 8, 16, 32, 64))

    @property
    def rates(self) -> np.ndarray:
        return np.asarray(2.0 ** np.linspace(*OCTAVES, self.sizes.of(3, 7, 7)))

    def trainings(self, gamma: float, values: np.ndarray, rate: float | None = None) -> np.ndarray:
        """(depths, values, seeds): values of the rate, or of the block multiplier at a given rate."""
        heads, head_dim = self.sizes.of((2, 4), (4, 8), (16, 64))
        data = Characters(self.sizes.of(4, 80, FULL_STEPS), self.sizes.of(2, 8, 256), self.sizes.of(2, 8, 128))
        net = Transformer(heads, head_dim, data.positions, norm="layer", phi="gelu")

        def one(depth: int, value: float, seed: int) -> RealTraining:
            lr, branch = (value, 1.0) if rate is None else (rate, value)
            steps = schedule(lr, data.steps, max(1, int(WARMUP * data.steps)), "cosine")
            opt = Adam(tuple(float(r) for r in steps), eps=EPS)
            return RealTraining(net, opt, DepthScaling(0.5, gamma, branch), depth, heads * head_dim, data, seed)

        return np.array([[[one(depth, float(value), seed) for seed in range(self.sizes.of(2, 4, 4))]
                          for value in values] for depth in self.depths], dtype=object)

    def per_character(self, losses: np.ndarray) -> list[np.ndarray]:
        """Losses of parts of the training, of a character."""
        return [part / self.sizes.of(2, 8, 128) for part in slices(losses)]


@draws("tp6/15", "loss against the block multiplier and against the learning rate: transformers of growing depth",
       INSTEAD, TEXT)
def _(sizes: Sizes) -> Asked:
    language = Language(sizes)
    multipliers = 2.0 ** np.linspace(-2, 2, sizes.of(3, 5, 5))
    by_rate = language.per_character((yield language.trainings(0.5, language.rates)))[-1]
    rate = float(language.rates[int(np.argmin(by_rate.mean(axis=(0, 2))))])
    by_branch = language.per_character((yield language.trainings(0.5, multipliers, rate)))[-1]
    found = {"multiplier": Curve(language.depths, multipliers, by_branch, "block multiplier"),
             "rate": Curve(language.depths, language.rates, by_rate)}
    picture, axes = picture_of_panels(2)
    for axis, curve in zip(axes, found.values()):
        draw_curve(axis, curve, "")
    axes[0].set_ylabel("training loss of a character")
    legend(axes[1])
    off = [costs_off_best(one) for one in (by_branch, by_rate)]
    (branch, learning), less = map(over_seeds, off), over_seeds(off[1] - off[0])  # seed by seed: the same data
    return Drawing(picture, numbers(found), (
        Conclusion("losses depend less on the block multiplier than on the learning rate",
                   f"a factor of 4 off the best costs {branch} and {learning}", less.above(0)),))


def costs_off_best(losses: np.ndarray) -> np.ndarray:
    """By how much losses, (depths, values, seeds), two octaves off their best are above it, on the better side, a mean
    over depths, of every seed; NaN where no such losses are known."""
    off = []
    for one in losses:
        k = int(np.argmin(one.mean(axis=1)))
        sides = [one[j] for j in (k - 2, k + 2) if 0 <= j < len(one) and np.isfinite(one[j]).all()]
        off.append(np.min(sides, axis=0) - one[k] if sides else np.full(one.shape[1], np.nan))
    return np.mean(off, axis=0)


@draws("tp6/16", "least loss of transformers against depth, early and late in training", INSTEAD, TEXT)
def _(sizes: Sizes) -> Asked:
    language = Language(sizes)
    parts = language.per_character((yield language.trainings(0.5, language.rates)))
    found = {name: np.array([best_loss(one) for one in part])
             for name, part in (("early", parts[0]), ("late", parts[-1]))}
    picture, axes = picture_of_panels(2)
    for axis, (name, least) in zip(axes, found.items()):
        curves(axis, language.depths, least[None], [], COLORS)
        axis.set(xlabel="depth L", ylabel="least training loss of a character", title=name)
    early, end = (over_seeds(least[-1] - least[0]) for least in found.values())
    return Drawing(picture, {"depths": language.depths, "least losses": found}, (
        Conclusion("early, deeper transformers are worse", f"the loss grows by {early}", early.above(0)),
        Conclusion("late, deeper transformers are better", f"the loss grows by {end}", end.below(0))))


@draws("tp6/17", "loss of transformers against a learning rate that no power of L divides, in the middle and at the "
       "end of training", INSTEAD, TEXT)
def _(sizes: Sizes) -> Asked:
    language = Language(sizes)
    parts = language.per_character((yield language.trainings(0, language.rates / 2)))
    found = {"middle": Curve(language.depths, language.rates / 2, parts[1]),
             "late": Curve(language.depths, language.rates / 2, parts[-1])}
    middle, end = (power_of_depth(curve) for curve in found.values())
    return Drawing(panels_of(found, label="training loss of a character"), numbers(found), (
        Conclusion("in the middle of training the best rate does not depend on depth", f"it goes like L^({middle})",
                   middle.within(-0.25, 0.25)),
        Conclusion("late it goes like 1/sqrt(L)", f"like L^({end})", end.within(-0.75, -0.25))))


def power_of_depth(curve: Curve) -> Estimate:
    """The power of L of the best rate, from the least to the largest depth."""
    octaves = math.log2(curve.sizes[-1] / curve.sizes[0])
    moved = shift(curve.values, curve.losses[0], curve.losses[-1])
    return replace(moved, **{name: getattr(moved, name) / octaves for name in ("value", "error", "grid")})
