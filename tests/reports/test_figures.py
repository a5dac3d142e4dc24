"""Texts of a report's figures do not touch each other."""

from __future__ import annotations

import pytest

from support.labels import boxes, faults

from .conftest import Written


def test_labels_do_not_overlap(written: Written) -> None:
    pytest.importorskip("matplotlib")
    pictures = sorted((written.folder / "figures").glob("*.svg"))
    assert len(pictures) == 6
    for path in pictures:
        assert len(boxes(path)) > 5 and not faults(path), path.name
