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

    def sequences(self, whole: bool = False) -> Sequences:
        """One-hot inputs and targets, with the cross-entropy of the next character at every position.

        The vocabulary is that of the task: characters that occur in it, in the order of the alphabet. Inputs have a
        dimension for those that are read: nothing reads or trains the embeddings of others; or, with ``whole``, for all
        of the vocabulary, as where the readout is the embedding.

        >>> import tpcalc as tp
        >>> text = tp.tasks.text(steps=1, batch=2, positions=4)
        >>> task = text.sequences()
        >>> task.d_in == len(set(text.inputs.ravel())), task.d_out == len(set(text.inputs.ravel()) | set(
        ...     text.targets.ravel()))
        (True, True)
        """
        read = np.unique(self.inputs)
        vocabulary = np.union1d(read, self.targets)
        embedded = vocabulary if whole else read
        return Sequences(np.equal.outer(self.inputs, embedded), np.equal.outer(self.targets, vocabulary), "softmax")
