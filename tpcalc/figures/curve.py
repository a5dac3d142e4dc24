"""Curves of losses against a hyperparameter, at growing depth or width, and what is said of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Sequence

import numpy as np

from .estimates import Estimate, best_loss, negation, over_seeds, shift
from .figure import Conclusion
from .panels import curves, legend, picture_of_panels

OCTAVE = 1.0
BASE = 8  # the size that larger ones are compared with, where it is among them: smaller ones are far from their limit


@dataclass(frozen=True)
class Curve:
    """Losses, (sizes, values, seeds), of networks of several sizes against a hyperparameter, in a part of the
    training; sizes are depths, or widths, by their letter.
    """

    sizes: tuple[int, ...]
    values: np.ndarray
    losses: np.ndarray
    what: str = "learning rate"
    letter: str = "L"

    @property
    def shift(self) -> Estimate:
        """Octaves by which the best value moves from size 8, or the least one, to the largest."""
        first = self.sizes.index(BASE) if BASE in self.sizes[:-1] else 0
        return shift(self.values, self.losses[first], self.losses[-1])

    @property
    def gain(self) -> Estimate:
        """By how much the best loss of the largest network is below that of the smallest."""
        return over_seeds(best_loss(self.losses[0]) - best_loss(self.losses[-1]))

    @property
    def degrades(self) -> Estimate:
        """By how much the best loss of the largest network is above the least one of smaller sizes."""
        least = min(range(len(self.losses) - 1), key=lambda k: float(np.mean(best_loss(self.losses[k]))))
        return over_seeds(best_loss(self.losses[-1]) - best_loss(self.losses[least]))

    def stays(self, name: str) -> Conclusion:
        """The best value keeps to an octave."""
        return Conclusion(f"under {name} the best {self.what} keeps to an octave",
                          f"it moves by {self.shift} octaves", self.shift.within(-OCTAVE, OCTAVE))

    def moves(self, name: str) -> Conclusion:
        """It does not."""
        return Conclusion(f"under {name} the best {self.what} moves by more than an octave",
                          f"it moves by {self.shift} octaves", negation(self.shift.within(-OCTAVE, OCTAVE)))

    def improves(self, name: str) -> Conclusion:
        """Deeper is better."""
        return Conclusion(f"under {name} deeper is better", f"the best loss falls by {self.gain}", self.gain.above(0))

    def worsens(self, name: str) -> Conclusion:
        """The deepest is not the best."""
        return Conclusion(f"under {name} the deepest network is worse than one that is less deep",
                          f"by {self.degrades}", self.degrades.above(0))


def draw_curve(axis: Any, curve: Curve, title: str) -> None:
    """A panel: loss against the hyperparameter, a shade a size."""
    curves(axis, curve.values, curve.losses, [f"{curve.letter} = {size}" for size in curve.sizes])
    top = float(np.median(curve.losses[np.isfinite(curve.losses)]))
    axis.set(title=title, xlabel=curve.what, ylim=(0, 2 * top))


def panels_of(found: Mapping[str, Curve], said: Sequence[int] = (-1,), rows: int = 1, label: str = "training loss"
              ) -> Any:
    """A picture of as many rows, with a panel a curve; said: the panels that have a legend."""
    columns = len(found) // rows
    picture, axes = picture_of_panels(columns, rows)
    for axis, (title, curve) in zip(axes, found.items()):
        draw_curve(axis, curve, title)
    for axis in axes[::columns]:
        axis.set_ylabel(label)
    for panel in said:
        legend(axes[panel])
    return picture


def numbers(found: Mapping[str, Curve]) -> dict[str, object]:
    """What was drawn: sizes, values and losses by name."""
    return {"sizes": {name: list(one.sizes) for name, one in found.items()},
            "values": {name: one.values.tolist() for name, one in found.items()},
            "losses": {name: one.losses.tolist() for name, one in found.items()}}
