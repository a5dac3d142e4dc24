"""Products with a leading square, by loops for few rows and by BLAS for many."""

from __future__ import annotations

import numpy as np
import pytest

from support.closeness import assert_close
from tpcalc.kernels.products import FEW, gram, times, times_transposed

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("rows", [1, FEW, FEW + 1])
@pytest.mark.parametrize("m", [0, 1, 9])
def test_products_are_those_of_numpy(rows: int, m: int) -> None:
    """The matrix is larger than the square that is used; ``gram`` adds to what is there."""
    a, c, matrix = RNG.normal(size=(rows, m)), RNG.normal(size=(rows, m)), RNG.normal(size=(12, 12))
    out = np.empty((rows, m))
    times(a, matrix, m, out)
    assert_close(out, a @ matrix[:m, :m], 1e-15, m)
    times_transposed(a, matrix, m, out)
    assert_close(out, a @ matrix[:m, :m].T, 1e-15, m)
    square = RNG.normal(size=(rows, rows))
    total = square.copy()
    gram(a, c, total)
    assert_close(total, square + a @ c.T, 1e-15, m)
