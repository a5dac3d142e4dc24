"""Images and text that networks of figures are trained on."""

from __future__ import annotations

import hashlib
import math
import platform
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from .. import Sequences, Task, tasks
from .._checks import short
from .._files import arrays_of
from ..data.losses import SoftmaxLoss
from ..errors import of_extra

DIGITS = "digits"
CIFAR_PIXELS, COLORS = 32, 3  # on a side, and of each
RECORD = 1 + COLORS * CIFAR_PIXELS**2  # bytes of an image in CIFAR-10's binary files: its label, and its colors' pixels
CLASSES = 10
POOLED = 8  # pixels on a side that an image of CIFAR-10 is averaged to, so that a training's images fit into memory
HELD = 4  # tasks that a process keeps


@dataclass(frozen=True)
class OfDivided:
    """The cross-entropy of outputs that are divided by a number: Depthwise Hyperparameter Transfer's mu_0, its feature
    learning rate, which learning rates of SGD go with as its square."""

    by: float

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return SoftmaxLoss().value(f / self.by, y)

    def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return SoftmaxLoss().derivative(f / self.by, y) / self.by


@dataclass(frozen=True)
class Images:
    """Batches of labeled images, as many epochs as ``steps`` go through, in an order drawn by ``seed``.

    source: "digits", scikit-learn's, or the path of a folder with CIFAR-10's binary files, or of a .npz file with
    arrays images (samples, pixels) and labels (samples,). Inputs are divided by one number, so that the mean of |xi|^2
    is 1; the loss is the cross-entropy of softmax(f / richness).
    """

    source: str = DIGITS
    steps: int = 100
    batch: int = 32
    richness: float = 1.0

    def task(self, seed: int) -> Task:
        """The task of a seed."""
        return _task(self, seed)

    def digest(self) -> str:
        """What tells the images from others under the same name."""
        return _digest(self.source)


@dataclass(frozen=True)
class Patches:
    """Batches of images that are cut into ``grid`` x ``grid`` squares: positions, each of which predicts the label.

    Inputs are a square's pixels and, so that positions are told apart, which of them it is, one-hot; both have a mean
    square of 1/2.
    """

    source: str = DIGITS
    steps: int = 100
    batch: int = 32
    grid: int = 4

    @property
    def positions(self) -> int:
        return self.grid**2

    def digest(self) -> str:
        """What tells the images from others under the same name."""
        return _digest(self.source)

    def task(self, seed: int) -> Sequences:
        """The task of a seed; ``ValueError`` for images that are no squares of as many pixels for every patch."""
        whole = Images(self.source, self.steps, self.batch).task(seed)
        pixels = whole.inputs.shape[-1]
        colors = COLORS if pixels % COLORS == 0 else 1
        side = math.isqrt(pixels // colors)
        if colors * side**2 != pixels or side % self.grid:
            raise ValueError(f"data: images of {self.source} have {pixels} pixels; expected squares, of one color or "
                             f"{COLORS}, whose sides are divisible by {self.grid}")
        cut = side // self.grid
        squares = whole.inputs.reshape(self.steps, self.batch, colors, self.grid, cut, self.grid, cut)
        inputs = np.moveaxis(squares, (3, 5), (2, 3)).reshape(self.steps, self.batch, self.positions, -1)
        targets = np.repeat(whole.targets[:, :, None], self.positions, axis=2)
        where = np.broadcast_to(np.eye(self.positions), (*inputs.shape[:2], self.positions, self.positions))
        return Sequences(np.concatenate([self.grid * inputs, where], axis=-1) / math.sqrt(2), targets, "softmax")


@dataclass(frozen=True)
class Characters:
    """Sequences of characters of English text, whose next ones are predicted: batches of them."""

    steps: int = 100
    batch: int = 8
    positions: int = 8

    def task(self, seed: int) -> Sequences:
        """The task of a seed."""
        return tasks.text(self.steps, self.batch, self.positions, seed).sequences()

    def digest(self) -> str:
        """What tells the text, which ships with Python, from that of another version."""
        return platform.python_version()


@lru_cache(maxsize=HELD)
def _task(images: Images, seed: int) -> Task:
    pixels, labels = labeled_images(images.source)
    if images.batch > len(pixels):
        raise ValueError(f"batch: got {images.batch}; expected at most the {len(pixels)} images of {images.source}")
    rng = np.random.default_rng([seed, len(pixels)])
    an_epoch = len(pixels) // images.batch
    epochs = -(-images.steps // an_epoch)
    order = np.concatenate([rng.permutation(len(pixels))[:an_epoch * images.batch] for _ in range(epochs)])
    chosen = order[:images.steps * images.batch].reshape(images.steps, images.batch)
    return Task(pixels[chosen], np.eye(int(labels.max()) + 1)[labels[chosen]], loss=OfDivided(images.richness))


@lru_cache(maxsize=1)
def labeled_images(source: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (samples, pixels), of mean square 1, and labels (samples,).

    Raises ``ValueError`` for a path where nothing of the kind is, and ``MissingExtra`` without scikit-learn for digits.
    """
    pixels, labels = _digits() if source == DIGITS else _cifar(Path(source)) if Path(source).is_dir() else _own(source)
    pixels = pixels / np.max(np.abs(pixels))  # so that no square is too large or small
    return pixels / np.sqrt(np.mean(np.sum(pixels**2, axis=1))), labels


@lru_cache(maxsize=1)
def _digest(source: str) -> str:
    found = hashlib.sha256()
    for array in labeled_images(source):
        found.update(repr((array.shape, array.dtype)).encode() + array.tobytes())
    return found.hexdigest()


def _digits() -> tuple[np.ndarray, np.ndarray]:
    datasets = of_extra("sklearn.datasets", "report", "a figure on digits", "scikit-learn")
    pixels, labels = datasets.load_digits(return_X_y=True)
    return pixels, labels


def _cifar(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """CIFAR-10's images, averaged to 8 x 8 pixels of a color less that color's mean, and labels."""
    files = [folder / f"data_batch_{k}.bin" for k in range(1, 6)]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise ValueError(f"data: {folder} has no {', '.join(missing)}; expected a folder with CIFAR-10's "
                         "data_batch_1.bin to data_batch_5.bin")
    raw = [np.fromfile(file, dtype=np.uint8) for file in files]
    for file, one in zip(files, raw):
        if not len(one) or len(one) % RECORD:
            raise ValueError(f"data: {file} holds {len(one)} bytes; expected whole images of {RECORD}")
    records = np.concatenate(raw).reshape(-1, RECORD)
    if records[:, 0].max() >= CLASSES:
        raise ValueError(f"data: {folder} has a label of {records[:, 0].max()}; expected 0 to {CLASSES - 1}")
    cut = CIFAR_PIXELS // POOLED
    pooled = records[:, 1:].reshape(-1, COLORS, POOLED, cut, POOLED, cut).mean(axis=(3, 5), dtype=np.float32)
    centered = pooled - pooled.mean(axis=(0, 2, 3), keepdims=True)
    return centered.reshape(len(records), -1).astype(float), records[:, 0].astype(int)


def _own(source: str) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of a user's own file."""
    if Path(source).suffix != ".npz" or not Path(source).is_file():
        raise ValueError(f"data: got {short(source)}; expected digits, a folder with CIFAR-10's data_batch_1.bin to "
                         "data_batch_5.bin, or a .npz file with arrays images and labels")
    try:
        arrays = arrays_of(Path(source))
    except ValueError as error:
        raise ValueError(f"data: {source}: {error}") from None
    if not {"images", "labels"} <= set(arrays):
        raise ValueError(f"data: {source} holds {', '.join(arrays)}; expected images and labels")
    images, labels = np.asarray(arrays["images"]), np.asarray(arrays["labels"])
    for name, good, found, expected in (
            ("images", images.dtype.kind in "uif", f"of type {images.dtype}", "numbers"),
            ("images", images.ndim > 1 and images.size > 0, f"of shape {images.shape}", "one image a line, and pixels"),
            ("labels", labels.dtype.kind in "ui", f"of type {labels.dtype}", "whole numbers"),
            ("labels", labels.shape == images.shape[:1], f"of shape {labels.shape}", f"those of {len(images)} images")):
        if not good:
            raise ValueError(f"data: {source} has {name} {found}; expected {expected}")
    images = images.reshape(len(images), -1).astype(float)
    if not np.isfinite(images).all() or not images.any():
        raise ValueError(f"data: {source} has images that are not finite, or 0 alone; expected others")
    if labels.min() < 0 or labels.max() >= len(labels) or labels.min() == labels.max():
        raise ValueError(f"data: {source} has labels from {labels.min()} to {labels.max()}; expected two classes or "
                         f"more, numbered from 0 on, fewer than the {len(labels)} images")
    return images, labels
