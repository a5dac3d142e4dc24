"""Data of figures: epochs, CIFAR-10's files, files of users."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tpcalc.figures.images import RECORD, Characters, Images, Patches, labeled_images


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
    for k in range(5):
        raw[k:k + 1 + (k == 4)].tofile(tmp_path / f"data_batch_{k + 1}.bin")
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


FINE = {"images": np.arange(12.0).reshape(4, 3), "labels": np.array([0, 1, 1, 0])}


@pytest.mark.parametrize("change, words", [
    ({"labels": None}, "holds images; expected images and labels"),
    ({"labels": np.ones(2, dtype=int)}, r"labels of shape \(2,\); expected those of 4 images"),
    ({"labels": np.ones(4)}, "labels of type float64; expected whole numbers"),
    ({"images": np.ones((4, 3), dtype=bool)}, "images of type bool; expected numbers"),
    ({"images": np.ones(4)}, r"images of shape \(4,\); expected one image a line"),
    ({"images": np.zeros((0, 3)), "labels": np.zeros(0, dtype=int)}, r"images of shape \(0, 3\)"),
    ({"images": np.full((4, 3), np.nan)}, "not finite"), ({"images": np.zeros((4, 3))}, "0 alone"),
    ({"labels": np.array([-1, 0, 0, 1])}, "labels from -1 to 1"), ({"labels": np.ones(4, dtype=int)}, "two classes"),
    ({"labels": np.array([0, 99999, 1, 0])}, "labels from 0 to 99999; expected .* fewer than the 4 images")])
def test_other_arrays_are_refused(change: dict, words: str, tmp_path: Path) -> None:
    arrays = {name: array for name, array in {**FINE, **change}.items() if array is not None}
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=words):
        labeled_images(str(tmp_path / "a.npz"))


def test_other_files_are_refused(tmp_path: Path) -> None:
    for name, content, words in (("a.npz", b"text", "a.npz: "), ("b.txt", b"", "expected digits, a folder")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=words):
            labeled_images(str(tmp_path / name))


@pytest.mark.parametrize("file, content, words", [
    (5, None, "has no data_batch_5.bin"), (2, b"", "holds 0 bytes"), (1, b"12", "holds 2 bytes; expected whole images"),
    (3, bytes([77]) + bytes(RECORD - 1), "has a label of 77; expected 0 to 9")])
def test_other_folders_are_refused(file: int, content: bytes | None, words: str, tmp_path: Path) -> None:
    for k in range(1, 6):
        (tmp_path / f"data_batch_{k}.bin").write_bytes(bytes(RECORD))
    path = tmp_path / f"data_batch_{file}.bin"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(ValueError, match=words):
        labeled_images(str(tmp_path))


def test_sizes_of_pixels_do_not_matter(tmp_path: Path) -> None:
    for k, size in enumerate((1.0, 1e-200, 1e200)):
        np.savez(tmp_path / f"{k}.npz", images=size * FINE["images"], labels=FINE["labels"])
    found = [labeled_images(str(tmp_path / f"{k}.npz"))[0] for k in range(3)]
    assert np.allclose(found[0], found[1]) and np.allclose(found[0], found[2])


def test_the_content_tells_data_apart(tmp_path: Path) -> None:
    digests = []
    for k in range(3):
        np.savez(tmp_path / f"{k}.npz", images=FINE["images"] + (k == 2), labels=FINE["labels"])
        digests.append(Images(str(tmp_path / f"{k}.npz")).digest())
    assert digests[0] == digests[1] != digests[2] == Patches(str(tmp_path / "2.npz")).digest()


def test_batches_are_of_images_that_there_are(tmp_path: Path) -> None:
    np.savez(tmp_path / "few.npz", images=np.eye(3), labels=np.arange(3))
    with pytest.raises(ValueError, match="batch: got 4; expected at most the 3 images"):
        Images(str(tmp_path / "few.npz"), 2, 4).task(0)


def test_text_has_one_alphabet() -> None:
    task = Characters(steps=3, batch=2, positions=4).task(0)
    assert task.inputs.shape[:3] == (3, 2, 4) and np.all(task.targets.sum(axis=-1) == 1)
