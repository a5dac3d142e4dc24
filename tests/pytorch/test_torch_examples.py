"""The examples of the docstrings run."""

from __future__ import annotations

import doctest
import importlib

import pytest

pytest.importorskip("torch")


@pytest.mark.parametrize("name", ["planning", "auditing", "depth_check"])
def test_examples(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"tpcalc.torch.{name}"))
    assert found.attempted and not found.failed
