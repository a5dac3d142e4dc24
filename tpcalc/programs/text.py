"""Text as tokens: characters, and those that follow them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .sequences import Sequences


@dataclass(frozen=True, eq=False)
class Text:
    """Characters and those that follow them, for models that embed tokens: a tp.Transformer; a tp.ResNet takes vectors.

    inputs, targets: (steps, batch, positions), integers; alphabet: the character of every integer.
    """

    inputs: np.ndarray
    targets: np.ndarray
    alphabet: str

    def sequences(self) -> Sequences:
        """One-hot inputs and targets, with the cross-entropy of the next character at every position.

        Inputs have a dimension for every character that occurs among them: the embeddings of others, which nothing
        reads or trains, are left out. Targets have one for every character of the alphabet.

        >>> import tpcalc as tp
        >>> text = tp.tasks.text(steps=1, batch=2, positions=4)
        >>> task = text.sequences()
        >>> task.d_in == len(set(text.inputs.ravel())), task.d_out == len(text.alphabet)
        (True, True)
        """
        _, used = np.unique(self.inputs, return_inverse=True)
        used = used.reshape(self.inputs.shape)
        return Sequences(np.eye(used.max() + 1)[used], np.eye(len(self.alphabet))[self.targets], "softmax")
