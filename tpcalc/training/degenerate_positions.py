"""Steps at which all positions are alike: attention has no choice there, and its queries and keys have no gradient."""

from __future__ import annotations

import numpy as np

from .._checks import short
from ..errors import NotCovered
from ..optimizers.normalized import NormalizedSGD
from ..data.sequences import Sequences
from ..optimizers.sign_ambiguity import first_undecided
from ..models.network import Network
from ..optimizers.updates import Optimizer

INDISTINCT = 1e-6  # positions that differ by less have gradients of queries and keys that rounding may pass for
ROUNDED = 1e-15  # a gradient that is rounding and nothing else
SHARE = 1e-6  # of an update of order one: by less the sign of rounding decides nothing


def require_choices(net: Network, task: Sequences, opt: Optimizer) -> None:
    """Raise ``ValueError`` for a step at which positions of every sequence are alike, with an optimizer that makes an
    update of order one of rounding.

    Softmax attends to alike positions alike, and gradients of its queries and keys vanish: of a single position
    exactly, in every reading, of several within rounding. The last update is read by nobody.
    """
    if not net.chooses:
        return
    normed = net.acts_on_normed or all(one.qk_norm for one in net.chooses)
    apart = [_apart(xi, normed) for xi in np.asarray(task.inputs)[:-1]]
    if isinstance(opt, NormalizedSGD):  # refuses such gradients itself
        return
    step = first_undecided(opt, [one < INDISTINCT for one in apart], ROUNDED, SHARE)
    if step is not None:
        raise NotCovered(f"task: got at step {step} all positions of every sequence are alike"
                         f"{' after the norm' if normed else ''}, differing by {apart[step]:.1e} at most, with "
                         f"{short(opt)}; attention has no choice, and its queries and keys no gradient to take a "
                         f"direction from; expected at least {INDISTINCT:.0e}")


def _apart(xi: np.ndarray, normed: bool) -> float:
    """The largest distance of positions from the first one, (batch, positions, d_in), as attention meets them."""
    sizes = np.linalg.norm(xi, axis=-1, keepdims=True)
    tokens = xi / (sizes if normed else np.max(sizes, initial=np.finfo(float).tiny))
    return float(np.max(np.abs(tokens - tokens[:, :1])))
