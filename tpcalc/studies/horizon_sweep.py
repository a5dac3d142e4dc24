"""How the best rate or decay moves with batch size and steps in a sweep, and what the sweep says of x and u."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Iterable

import numpy as np
from numpy.typing import ArrayLike

from .. import _checks
from .._shown import Short, Tabled, text_table
from .._types import Fields
from ..errors import NotCovered
from .optimum import Optimum, grid_optimum

WIDEST = 0.125  # standard error beyond which a power is not taken for known: 1/2 is then not told from 1/4
SETTINGS = ("rate", "decay")


@dataclass(frozen=True, repr=False)
class HorizonFit(Short):
    """Powers that a sweep has, each with its standard error, None where the sweep says nothing of it.

    x: best rates go like D^-x at a fixed batch size; u: the share of weights that decay takes like D^-u; batch: the
    power of B of the setting at fixed data, over the batches that were fitted.
    """

    x: float | None
    x_error: float | None
    u: float | None
    u_error: float | None
    batch: float | None
    batch_error: float | None

    def __str__(self) -> str:
        return ", ".join(f"{name} = {value:.3f} +- {error:.3f}" for name, value, error in (
            ("x", self.x, self.x_error), ("u", self.u, self.u_error), ("batch", self.batch, self.batch_error))
            if value is not None)


@dataclass(frozen=True, repr=False)
class HorizonSweep(Tabled, Short):
    """Losses over a grid of rates, or decays, at several batch sizes and numbers of steps.

    batch_sizes, steps: (k,); values: (r,), growing positive rates or decays; losses: (k, r, seeds), or (k, r) of one
    seed, infinite where training diverged, of all steps of one schedule that is stretched to their number. setting:
    "rate" or "decay". ``tp.transfer`` of several tasks returns one, and trainings of your own make one.

    Raises ``ValueError`` for arrays that do not fit each other.

    >>> import numpy as np
    >>> rates, steps = 2.0 ** np.arange(-8, 0), np.array([100, 400, 1600])
    >>> rng = np.random.default_rng(0)
    >>> best = np.log2(0.5 * steps ** -0.3)[:, None, None] + 0.05 * rng.normal(size=(3, 1, 4))
    >>> sweep = HorizonSweep([32, 32, 32], steps, rates, (np.log2(rates)[:, None] - best) ** 2)
    >>> print(sweep.fit())
    x = 0.310 +- 0.011
    """

    batch_sizes: np.ndarray
    steps: np.ndarray
    values: np.ndarray
    losses: np.ndarray
    setting: str = "rate"

    def __init__(self, batch_sizes: ArrayLike, steps: ArrayLike, values: ArrayLike, losses: ArrayLike,
                 setting: str = "rate") -> None:
        sizes = [np.array([_checks.positive_integer(name, int(one) if one.is_integer() else one)
                           for one in _checks.finite_array(name, given).ravel().tolist()])
                 for name, given in (("batch_sizes", batch_sizes), ("steps", steps))]
        if np.iscomplexobj(losses):
            raise ValueError(f"losses: got {_checks.short(losses)}; expected real numbers")
        grid, found = _checks.growing_numbers("values", values), np.asarray(losses, dtype=float)
        found = found[..., None] if found.ndim == 2 else found
        shape = (len(sizes[0]), len(grid))
        if len(sizes[1]) != len(sizes[0]) or found.ndim != 3 or found.shape[:2] != shape or not found.shape[2]:
            raise ValueError(f"losses: got shape {np.shape(losses)} for {len(sizes[0])} batch sizes, {len(sizes[1])} "
                             f"numbers of steps and {len(grid)} values; expected (k, r) or (k, r, seeds)")
        wrong = found[np.isnan(found) | (found == -np.inf)]
        if len(wrong):
            raise ValueError(f"losses: got {wrong[0]}; expected numbers, or infinity where training diverged")
        for name, value in (("batch_sizes", sizes[0]), ("steps", sizes[1]), ("values", grid), ("losses", found),
                            ("setting", _checks.choice("setting", setting, SETTINGS))):
            object.__setattr__(self, name, value)

    @cached_property
    def _found(self) -> np.ndarray:
        """(k, seeds) of ``Optimum``."""
        return np.vectorize(lambda curve: grid_optimum(self.values, curve), otypes=[Optimum], signature="(r)->()")(
            np.swapaxes(self.losses, 1, 2))

    @cached_property
    def _optima(self) -> np.ndarray:
        """(k, seeds): logarithms of the best values, NaN where there is none inside of the grid."""
        return np.array([[np.log(one.value) if one.bracketed else np.nan for one in row] for row in self._found])

    @cached_property
    def optimum(self) -> np.ndarray:
        """(k,): the best value, the geometric mean over seeds; NaN where it is not inside of the grid for all."""
        return np.exp(self._optima.mean(1))

    @cached_property
    def error(self) -> np.ndarray:
        """(k,): the standard error of its logarithm over seeds, NaN of one."""
        seeds = self.losses.shape[2]
        if seeds == 1:
            return np.full(len(self.steps), np.nan)
        return self._optima.std(1, ddof=1) / seeds**0.5

    @property
    def rows(self) -> list[Fields]:  # type: ignore[override]
        """One dictionary a batch size and number of steps: the best value, its error, and the least mean loss."""
        return [{"batch_size": int(b), "steps": int(t), f"best {self.setting}": f"{best:.4g}", "error": f"{error:.2g}",
                 "loss": f"{loss:.4g}"} for b, t, best, error, loss in zip(
                     self.batch_sizes, self.steps, self.optimum, self.error, self.losses.mean(2).min(1))]

    def __str__(self) -> str:
        return text_table(self.rows)

    def fit(self, x: float | HorizonFit | None = None, batches: tuple[int, int] | None = None) -> HorizonFit:
        """x, or of a sweep over decays u, from best values at several numbers of steps, a constant for each batch size.

        Errors are those of seeds, taken together, and larger by as much as best values are further from powers than
        they allow; with one seed they are of that distance alone. Besides they have what the grid leaves open: how far
        the next points on both sides of the least loss would move the power, and a step over the root of 12 where
        there are none, or a training next to the best one diverged. Losses are taken for smooth at their least value:
        of ones with a kink there errors on a grid of factor 2 hold less often than they say.

        Parameters
        ----------
        x:
            of a sweep over decays, whose power of the steps is x - u: a number, or what the sweep over rates was fitted
            to. None of rates.
        batches:
            the least and the largest batch size to use, as for Muon's two regions; None for all.

        Raises ``NotCovered`` where the sweep does not decide: a best value at the end of the grid, fewer than two
        numbers of steps at every batch size, no error to be had, or one of more than 1/8.
        """
        if (x is None) != (self.setting == "rate"):
            raise ValueError(f"x: got {_checks.short(x)} for a sweep over the {self.setting}; expected " + (
                "None" if self.setting == "rate" else "a number, or a fit of the sweep over rates"))
        low, high = (1, int(self.batch_sizes.max())) if batches is None else _range(batches)
        used = (self.batch_sizes >= low) & (self.batch_sizes <= high)
        if not used.any():
            raise ValueError(f"batches: got {_checks.short(batches)}, with no batch in it; expected a range with "
                             f"some of {_listed(self.batch_sizes)}")
        outside = np.flatnonzero(used & np.isnan(self.optimum))
        if len(outside):
            k = outside[0]
            where = f"{self.setting}: at batch size {self.batch_sizes[k]} and {self.steps[k]} steps"
            if any(np.isnan(one.value) for one in self._found[k]):
                raise NotCovered(f"{where} a seed has no least loss: all trainings diverged, or have one loss; "
                                 "expected other values")
            raise NotCovered(f"{where} the least loss of a seed is at the end of the grid, {self.values[0]:g} to "
                             f"{self.values[-1]:g}; expected a wider grid")
        steps = self._slope(used, self.batch_sizes, self.steps)
        batch = self._slope(used, self.batch_sizes * self.steps, self.batch_sizes)
        if steps is None:
            raise NotCovered(f"x: the sweep has one number of steps at each of the batch sizes "
                             f"{_listed(self.batch_sizes[used])}; expected several at one of them")
        slope, error = steps
        if not error <= WIDEST:
            raise NotCovered(f"x: the sweep does not decide: the best {self.setting} goes like T^{slope:.2f} +- "
                             f"{error:.2f}, a standard error; expected at most {WIDEST}, from more seeds or steps")
        found = (None, None) if batch is None or not batch[1] <= WIDEST else batch
        if self.setting == "rate":
            return HorizonFit(-slope, error, None, None, *found)
        falls, uncertain = (x.x, x.x_error) if isinstance(x, HorizonFit) else (_checks.real_number("x", x), 0.0)
        if falls is None or uncertain is None:
            raise ValueError(f"x: got {_checks.short(x)}, which has none; expected a fit of a sweep over rates")
        return HorizonFit(falls, uncertain, falls - slope, float(np.hypot(error, uncertain)), *found)

    def _slope(self, used: np.ndarray, fixed: np.ndarray, moves: np.ndarray) -> tuple[float, float] | None:
        """The power of ``moves`` in best values where ``fixed`` is one number, and its standard error."""
        keys = [key for key in np.unique(fixed[used]) if len(np.unique(moves[used & (fixed == key)])) > 1]
        rows = used & np.isin(fixed, keys)
        if not keys:
            return None
        design = np.column_stack([np.log(moves[rows]), *(fixed[rows] == key for key in keys)])
        y, seeds = self._optima[rows].mean(1), self.losses.shape[2]
        found, *_ = np.linalg.lstsq(design, y, rcond=None)
        left = np.sum((y - design @ found) ** 2)
        free = len(y) - design.shape[1]
        variance = [left / free] if free else []
        if seeds > 1:
            variance.append(self._optima[used].var(1, ddof=1).mean() / seeds)
        if not variance:
            return float(found[0]), float("inf")
        weights = np.linalg.pinv(design)[0]  # of best values in the slope
        skew = np.vectorize(lambda one: one.skew, otypes=[float])(self._found[rows])
        blind = np.isnan(skew)
        moved = np.where(blind, 0.0, skew).mean(1)
        rounded = blind.mean(1) * np.diff(np.log(self.values)).max() / 12**0.5  # uniform within a step of the grid
        return float(found[0]), float(np.sqrt(max(variance) * np.sum(weights**2) + (weights @ moved) ** 2
                                              + np.sum((weights * rounded) ** 2)))


def _range(batches: object) -> tuple[int, int]:
    if not isinstance(batches, (tuple, list)) or len(batches) != 2:
        raise ValueError(f"batches: got {_checks.short(batches)}; expected the least and the largest batch size")
    low, high = (_checks.positive_integer("batches", one) for one in batches)
    return low, high


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(str(int(one)) for one in np.unique(np.array(list(numbers))))
