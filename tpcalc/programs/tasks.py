"""Ready-made tasks on real data."""

from __future__ import annotations

import numpy as np

from .._checks import positive_integer, whole_number
from ..errors import MissingExtra
from .task import Task


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
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingExtra("scikit-learn", "report", "tp.tasks.digits") from None
    images, labels = load_digits(return_X_y=True)
    if steps * batch > len(images):
        raise ValueError(f"steps = {steps}, batch = {batch} given; there are {len(images)} images")
    images = images / np.sqrt(np.mean(np.sum(images**2, axis=1)))
    chosen = np.random.default_rng(seed).permutation(len(images))[: steps * batch]
    return Task(images[chosen].reshape(steps, batch, -1), np.eye(10)[labels[chosen]].reshape(steps, batch, -1))
