"""Data of figures: epochs, CIFAR-10's files, files of users."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tpcalc.figures.images import RECORD, Characters, Images, labeled_images


def test_every_image_is_seen_once_an_epoch() -> None:
    pytest.importorskip("sklearn")
    batch = 599  # a third of the digits
    task = Images(steps=6, batch=batch).task(3)
    first, second = task.inputs[:3].reshape(3 * batch, -1), task.inputs[3:].reshape(3 * batch, -1)
    assert len(np.unique(first, axis=0)) == len(np.unique(second, axis=0)) and not np.array_equal(first, second)
    assert np.array_equal(np.unique(first, axis=0), np.unique(second, axis=0))
    assert np.mean(np.sum(first**2, axis=1)) == pytest.approx(1) and task.targets.sum() == 6 * batch


def test_a_shorter_training_begins_as_a_longer_one() -> None:
    pytest.importorskip("sklearn")
    long, short = (Images(steps=steps, batch=600).task(1) for steps in (5, 3))
    assert np.array_equal(long.inputs[:3], short.inputs) and np.array_equal(long.targets[:3], short.targets)


def test_cifar_is_read_from_its_binary_files(tmp_path: Path) -> None:
    """Averages of 4 x 4 pixels of a color, less that color's mean."""
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 256, (6, RECORD), dtype=np.uint8)
    raw[:, 0] = [0, 1, 2, 3, 4, 9]
    for k in range(2):
        raw[3 * k:3 * k + 3].tofile(tmp_path / f"data_batch_{k + 1}.bin")
    images, labels = labeled_images(str(tmp_path))
    assert labels.tolist() == [0, 1, 2, 3, 4, 9] and images.shape == (6, 192)
    green = raw[:, 1:].reshape(6, 3, 32, 32)[:, 1].astype(float)
    corner = green[:, 4:8, 28:].mean(axis=(1, 2)) - green.mean()
    found = images.reshape(6, 3, 8, 8)[:, 1, 1, 7]
    assert np.allclose(found / found[0], corner / corner[0], rtol=1e-4)
    assert np.mean(np.sum(images**2, axis=1)) == pytest.approx(1)


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    images, labels = np.arange(24.0).reshape(4, 2, 3), np.array([0, 2, 1, 1])
    np.savez(tmp_path / "mine.npz", images=images, labels=labels)
    found, known = labeled_images(str(tmp_path / "mine.npz"))
    assert np.allclose(found / found[0, 1], images.reshape(4, 6)) and known.tolist() == labels.tolist()


@pytest.mark.parametrize("name, content, words", [
    ("a.npz", {"inputs": np.ones(3)}, "holds inputs; expected images and labels"),
    ("a.npz", {"images": np.ones((3, 2)), "labels": np.ones(2, dtype=int)}, "and as many labels"),
    ("a.npz", {"images": np.full((2, 2), np.nan), "labels": np.ones(2, dtype=int)}, "expected finite images"),
    ("a.npz", {"images": np.ones((2, 2)), "labels": np.array([-1, 0])}, "whole numbers of at least 0"),
    ("nothing", None, "a folder with CIFAR-10's data_batch_1.bin"), ("a.bin", b"12", "expected whole images of 3073")])
def test_other_files_are_refused(name: str, content: object, words: str, tmp_path: Path) -> None:
    source = tmp_path / name
    if isinstance(content, dict):
        np.savez(source, **content)
    elif isinstance(content, bytes):
        (tmp_path / "data_batch_1.bin").write_bytes(content)
        source = tmp_path
    with pytest.raises(ValueError, match=words):
        labeled_images(str(source))


def test_batches_are_of_images_that_there_are(tmp_path: Path) -> None:
    np.savez(tmp_path / "few.npz", images=np.eye(3), labels=np.arange(3))
    with pytest.raises(ValueError, match="batch: got 4; expected at most the 3 images"):
        Images(str(tmp_path / "few.npz"), 2, 4).task(0)


def test_text_has_one_alphabet() -> None:
    task = Characters(steps=3, batch=2, positions=4).task(0)
    assert task.inputs.shape[:3] == (3, 2, 4) and np.all(task.targets.sum(axis=-1) == 1)
