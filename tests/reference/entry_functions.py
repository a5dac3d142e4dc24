"""Functions of the entries of outer products, met by their products alone: no n x n array is ever whole.

(phi(u v^T) / n) z is, in coordinate i, the average over j of phi(u_i v_j) z_j: an average over coordinates at finite
width, and over a second, independent copy of the kets at infinite width
[tensor_programs_vi/nonlinear_outer_product]. Particles are coordinates, so that both are one sum over pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import sympy as sp

from tpcalc.interpreters.given import Number
from tpcalc.interpreters.lowered_conditioned import BLOCK
from tpcalc.interpreters.vectors import numpy_function

Terms = tuple[tuple[Number, np.ndarray, np.ndarray], ...]


@dataclass(frozen=True)
class EntryFunction:
    """The matrix phi(A_1, A_2, ...) / n, phi entrywise, where A_k is the sum of its terms c u v^T.

    phi: of ``names``, first those of ``numbers`` and then one for every A_k; sums: the terms of A_k. A product takes
    time O(n^2), and memory O(n) a term. It can be sent between processes.
    """

    phi: sp.Expr
    names: tuple[sp.Symbol, ...]
    numbers: tuple[Number, ...]
    sums: tuple[Terms, ...]

    @property
    def T(self) -> "EntryFunction":  # noqa: N802, as NumPy's
        return replace(self, sums=tuple(tuple((c, v, u) for c, u, v in terms) for terms in self.sums))

    def __matmul__(self, vector: np.ndarray) -> np.ndarray:
        n, product = len(vector), np.empty_like(vector)
        function = numpy_function(self.phi, self.names)
        left = [np.array([u for _, u, _ in terms]) for terms in self.sums]
        right = [np.array([c * v for c, _, v in terms]) for terms in self.sums]
        for start in range(0, n, max(BLOCK // n, 1)):
            rows = slice(start, start + max(BLOCK // n, 1))
            entries = function(*self.numbers, *(u[:, rows].T @ v for u, v in zip(left, right)))
            product[rows] = entries @ vector / n
        return product
