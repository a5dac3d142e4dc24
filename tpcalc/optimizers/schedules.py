"""Learning rates that rise first and fall later, as the numbers that optimizers take."""

from __future__ import annotations

import math
from typing import Callable

from .._checks import choice, nonnegative_number, positive_number, short, whole_number

FALLS: dict[str, Callable[[float], float]] = {  # what is left of the way from peak to floor
    "constant": lambda share: 1.0,
    "linear": lambda share: 1.0 - share,
    "cosine": lambda share: (1.0 + math.cos(math.pi * share)) / 2,
}


def schedule(peak: float, steps: int, warmup: int = 0, fall: str = "constant", floor: float = 0.0) -> tuple[float, ...]:
    """The learning rate of every step: a linear rise to ``peak``, and what follows.

    Parameters
    ----------
    peak:
        the largest rate, in the units of the optimizer that it is given to: rates of the limit, which do not depend
        on width and depth, and so are shared by networks of all sizes.
    steps, warmup:
        of the training, and of the rise: rates peak / warmup, 2 peak / warmup, ..., peak.
    fall, floor:
        "constant", "linear" or "cosine", from the peak at the first step after the rise to ``floor``, which would be
        the rate of the step after the last.

    Raises ``ValueError`` for a peak that is not positive, a floor above it, and a rise longer than the training.

    >>> import tpcalc as tp
    >>> tp.schedule(0.4, steps=6, warmup=2, fall="linear")
    (0.2, 0.4, 0.4, 0.30000000000000004, 0.2, 0.1)
    >>> opt = tp.AdamW(tp.schedule(0.4, steps=6, warmup=2, fall="cosine"), eps=1e-8)
    """
    peak, floor = positive_number("peak", peak), nonnegative_number("floor", floor)
    steps, warmup = whole_number("steps", steps, 1), whole_number("warmup", warmup, 0)
    left = FALLS[choice("fall", fall, FALLS)]
    if floor > peak:
        raise ValueError(f"floor: got {short(floor)} with a peak of {short(peak)}; expected at most the peak")
    if warmup > steps:
        raise ValueError(f"warmup: got {warmup} for {steps} steps; expected at most as many")
    rising = [peak * (step + 1) / warmup for step in range(warmup)]
    shares = [left(step / (steps - warmup)) for step in range(steps - warmup)]
    return (*rising, *(share * peak + (1 - share) * floor for share in shares))
