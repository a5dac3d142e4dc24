"""The examples of the docstrings run."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["roles", "plan"])
def test_examples(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"tpcalc.groups.{name}"))
    assert found.attempted and not found.failed
