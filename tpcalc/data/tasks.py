"""Ready-made tasks on real data."""

from __future__ import annotations

import numpy as np

from .._checks import positive_integer, whole_number
from ..errors import of_extra
from .task import Task
from .text import Text


def digits(steps: int = 10, batch: int = 64, seed: int = 0) -> Task:
    """Scikit-learn's handwritten digits: 1797 images of 8 x 8 pixels, one-hot targets of 10 classes.

    Images are drawn without replacement, in an order fixed by ``seed``; all are divided by one number,
    so that the mean of |xi|^2 over the data set is 1.

    Raises ``ValueError`` where steps * batch exceeds the 1797 images, and ``MissingExtra`` without
    scikit-learn (``pip install 'tpcalc[report]'``).
    """
    positive_integer("steps", steps)
    positive_integer("batch", batch)
    seed = whole_number("seed", seed)
    datasets = of_extra("sklearn.datasets", "report", "tp.tasks.digits", "scikit-learn")
    images, labels = datasets.load_digits(return_X_y=True)
    if steps * batch > len(images):
        raise ValueError(f"steps, batch: got {steps}, {batch}; expected at most {len(images)} images in all")
    images = images / np.sqrt(np.mean(np.sum(images**2, axis=1)))
    chosen = np.random.default_rng(seed).permutation(len(images))[: steps * batch]
    return Task(images[chosen].reshape(steps, batch, -1), np.eye(10)[labels[chosen]].reshape(steps, batch, -1))


def text(steps: int = 10, batch: int = 16, positions: int = 32, seed: int = 0) -> Text:
    """English that ships with Python, cut at places drawn by ``seed``: the help texts of ``pydoc_data.topics``.

    Targets are inputs one character later. Raises ``ValueError`` for sizes that are no whole numbers of at least 1, and
    for more positions than there is text.

    >>> found = text(steps=3, batch=2, positions=4)
    >>> found.inputs.shape, bool((found.inputs[..., 1:] == found.targets[..., :-1]).all())
    ((3, 2, 4), True)
    """
    from pydoc_data.topics import topics

    positive_integer("steps", steps)
    positive_integer("batch", batch)
    positive_integer("positions", positions)
    seed = whole_number("seed", seed)
    written = "".join(topics[name] for name in sorted(topics))
    if positions >= len(written):
        raise ValueError(f"positions: got {positions}; expected fewer than the {len(written)} characters of the text")
    alphabet = "".join(sorted(set(written)))
    numbers = {character: number for number, character in enumerate(alphabet)}
    data = np.array([numbers[character] for character in written])
    starts = np.random.default_rng(seed).integers(0, len(data) - positions, (steps, batch))
    cut = data[starts[..., None] + np.arange(positions + 1)]
    return Text(cut[..., :-1], cut[..., 1:], alphabet)
