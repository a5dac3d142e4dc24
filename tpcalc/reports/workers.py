"""Processes of a command that shares its work."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from typing import Any


def workers(number: int) -> Any:
    """Processes that share the work; one is this process."""
    return nullcontext() if number == 1 else ProcessPoolExecutor(number, multiprocessing.get_context("spawn"))
