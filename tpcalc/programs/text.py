"""Text as tokens: characters, and those that follow them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Text:
    """Characters and those that follow them, for models that embed tokens; a tp.ResNet takes vectors.

    inputs, targets: (steps, batch, positions), integers; alphabet: the character of every integer.
    """

    inputs: np.ndarray
    targets: np.ndarray
    alphabet: str
