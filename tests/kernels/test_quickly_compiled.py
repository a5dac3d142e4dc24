"""Kernels assign no slices from arrays: numba would compile the text of errors about their shapes, for seconds."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Iterator

import numpy as np
import pytest

import tpcalc.kernels
from tpcalc.kernels.products import put

KERNELS = sorted(Path(str(tpcalc.kernels.__file__)).parent.glob("*.py"))


def compiled(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any("njit" in ast.unparse(one) for one in node.decorator_list):
            yield node


def slices(function: ast.FunctionDef) -> list[str]:
    """Assignments of something else than a number to a slice."""
    return [ast.unparse(node) for node in ast.walk(function) if isinstance(node, (ast.Assign, ast.AugAssign))
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Subscript) and any(isinstance(one, ast.Slice) for one in ast.walk(target.slice))
            and not isinstance(node.value, ast.Constant)]


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_no_slice_is_assigned(path: Path) -> None:
    assert not [found for function in compiled(ast.parse(path.read_text())) for found in slices(function)]


def test_slices_are_found() -> None:
    tree = ast.parse("@njit\ndef f(a, b):\n    a[1:, 0] = b\n    a[0] = 1.0\n    a[:] = 0.0\n    b[2:] += a")
    assert [slices(function) for function in compiled(tree)] == [["a[1:, 0] = b", "b[2:] += a"]]
    assert sum(1 for path in KERNELS for _ in compiled(ast.parse(path.read_text()))) > 15


def test_blocks_are_put_where_they_belong() -> None:
    block, out = np.arange(6.0).reshape(2, 3), np.full((5, 5), -1.0)
    expected = out.copy()
    expected[1:3, 2:5] = block
    put(block, out, 1, 2)
    assert np.array_equal(out, expected)
    out, expected = np.full((5, 5), -1.0), np.full((5, 5), -1.0)
    expected[1:4, 3:5] = block.T
    put(block.T, out, 1, 3)
    assert np.array_equal(out, expected)
