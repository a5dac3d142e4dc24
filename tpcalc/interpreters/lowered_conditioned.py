"""Lowered programs at any finite width, whose matrices are known by their products with blocks of vectors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Callable, Collection, Mapping

import numpy as np
import sympy as sp

from .._types import Array, DType, ProgramData, Sizes, Value
from ..data.losses import AnyLoss
from .. import _checks
from ..lowering.array_backends import Arrays
from ..programs.language import Matrix, Member, Vector
from ..programs.program import Program
from .conditioned_blocks import Block, BlockMatrix, BlockProducts, OrthonormalBlock
from .lowered import ArrayExecution, LoweredRun, Location
from .vectors import numpy_function

ADVICE = "take a smaller width or depth, fewer steps, float32, or keep fewer vectors"
BLOCK = 2**16  # entries at a time: they stay in a processor's cache

Outers = dict[tuple, tuple[float, Array, Array]]
Backend = tuple[Array, Array, Array]  # namespace, dtype and device, as ``Arrays`` takes them
FLOAT64: Backend = ("numpy", "float64", None)
AT_ONCE = 2**24  # entries at a time where arrays are not NumPy's: many processors want large arrays


@dataclass(frozen=True)
class BlockFunction:
    """The matrix phi(A_1, A_2, ...) / n, phi entrywise, where A_k is sum_j u_j v_j^T over the rows of two blocks.

    phi: of ``names``, first those of ``numbers`` and then one for every A_k. A product takes time O(n^2).
    """

    arrays: Arrays
    phi: sp.Expr
    names: tuple[sp.Symbol, ...]
    numbers: tuple[float, ...]
    left: tuple[Array, ...]
    right: tuple[Array, ...]

    def transposed(self) -> "BlockFunction":
        return replace(self, left=self.right, right=self.left)

    def products(self, rows: Array) -> Array:
        """The matrix times every row: entries are made once for all of them, some rows of the matrix at a time."""
        n, columns = rows.shape[1], rows.T
        if self.arrays.is_numpy:
            columns, function, most = np.ascontiguousarray(columns), numpy_function(self.phi, self.names), BLOCK
        else:
            function, most = self.arrays.compiled(self.phi, self.names), AT_ONCE
        step, found = max(most // n, 1), []
        for start in range(0, n, step):
            part = slice(start, min(start + step, n))
            entries = function(*self.numbers, *(u[:, part].T @ v for u, v in zip(self.left, self.right)))
            found.append((entries @ columns / n).T)
        return self.arrays.joined(found, 1)


@dataclass(frozen=True)
class BlockOperator:
    """A matrix as sum of c W or c W^T over initial matrices, of c sum_k u_k v_k^T / n over pairs of blocks, and of c
    phi / n over functions of entries.

    initial: (W, transposed) -> c; outers: by what tells pairs apart, so that momentum, which repeats them, has one term
    for each; functions: pairs (c, phi).
    """

    initial: Mapping[tuple[Matrix, bool], float] = field(default_factory=dict)
    outers: Outers = field(default_factory=dict)
    functions: tuple[tuple[float, BlockFunction], ...] = ()

    def plus(self, c: float, other: "BlockOperator", turned: bool) -> "BlockOperator":
        initial, outers = dict(self.initial), dict(self.outers)
        for (matrix, flipped), d in other.initial.items():
            key = (matrix, flipped != turned)
            initial[key] = initial.get(key, 0.0) + c * d
        for d, u, v in other.outers.values():
            _add(outers, c * d, *((v, u) if turned else (u, v)))
        functions = tuple((c * d, phi.transposed() if turned else phi) for d, phi in other.functions)
        return BlockOperator(initial, outers, self.functions + functions)


def _add(outers: Outers, c: float, u: Array, v: Array) -> None:
    """The arrays are held by the term, so that their places in memory, or they themselves, tell them apart."""
    key = tuple((a.__array_interface__["data"][0], a.shape, a.strides) if isinstance(a, np.ndarray) else id(a)
                for a in (u, v))
    outers[key] = ((outers[key][0] if key in outers else 0.0) + c, u, v)


def _as_rows(vectors: Array) -> Array:
    """Vectors as rows, also where there is one."""
    return vectors if vectors.ndim == 2 else vectors[None, :]


class ConditionedExecution(ArrayExecution):
    """Vectors are arrays of length n; of a matrix only products are known. Draws are those statement by statement for
    the program in the order in which it runs lowered (``tpcalc.lowering.lowered_order``)."""

    entries = False
    rows_per_product = 2  # a basis vector and its image
    unit, advice = "width {}", ADVICE  # what coordinates are in messages

    def __init__(self, program: Program, sizes: Sizes, data: ProgramData, loss: AnyLoss, width: int,
                 seed: int, backend: Backend, keep: Collection[str]) -> None:
        super().__init__(program, sizes, data, loss, width, Arrays(*backend), keep)
        self.seed, self.dtype = seed, self.arrays.precision
        self.matrices: dict[Matrix, BlockMatrix] = {}
        self.met = {self.lowered.member(location, ()): times for location, times in self.plan.products.items()}
        self.require_memory()

    def require_memory(self) -> None:
        """Raise ``MemoryError`` where products and vectors cannot fit."""
        made = sum(self.met.values())
        row = float(np.dtype(self.dtype).itemsize) * self.width
        self.needed = row * (self.rows_per_product * made + self.plan.rows)
        self.what = f"program {self.program.name} with {made} products of {self.unit.format(self.width)}"
        _checks.memory(self.needed, self.what, self.advice)

    def generator(self, member: Member) -> np.random.Generator:
        return np.random.default_rng([self.seed, *str(member).encode()])

    def initial_vector(self, vector: Vector) -> Array:
        return self.generator(vector).standard_normal(self.width).astype(self.dtype)

    def initial_matrix(self, matrix: Matrix) -> BlockOperator:
        if matrix not in self.matrices:
            self.matrices[matrix] = self.unmet(matrix)
        return BlockOperator({(matrix, False): 1.0})

    def unmet(self, matrix: Matrix) -> BlockMatrix:
        """A matrix before its first product."""
        generator = self.generator(matrix)

        def draw(shunned: OrthonormalBlock, number: int) -> Array:
            drawn = generator.standard_normal((number, self.width), dtype=self.dtype)
            return self.cleared(shunned, self.arrays.asarray(drawn))

        bases, images = self._rooms(matrix)
        one, two = (BlockProducts(basis, image, basis) for basis, image in zip(bases, images))
        return BlockMatrix(draw, (one, two))

    def cleared(self, shunned: OrthonormalBlock, rows: Array) -> Array:
        """Draws without their projections on an orthonormal family."""
        return shunned.split(rows)[1]

    def _rooms(self, matrix: Matrix) -> tuple[list[OrthonormalBlock], list[Block]]:
        room = self.width, self.arrays, self.met.get(matrix, 1)
        return [OrthonormalBlock(*room) for _ in (0, 1)], [Block(*room) for _ in (0, 1)]

    def matvec(self, matrix: BlockOperator, turned: bool, vectors: Array) -> Array:
        rows = self.arrays.reshaped(vectors, (-1, self.width))
        found: Array = None
        for (initial, flipped), c in matrix.initial.items():
            value = self.matrices[initial].product(flipped != turned, rows)
            if c != 1.0:
                value *= c
            found = value if found is None else found + value
        if found is None:
            found = self.arrays.asarray(np.zeros(rows.shape))
        for c, u, v in matrix.outers.values():
            u, v = map(_as_rows, (v, u) if turned else (u, v))
            found += ((c / self.width) * (rows @ v.T)) @ u
        for c, phi in matrix.functions:
            found += c * (phi.transposed() if turned else phi).products(rows)
        return self.arrays.reshaped(found, tuple(vectors.shape))

    def combine(self, members: list, outers: list, functions: list, ended: tuple[Location, ...]) -> BlockOperator:
        found = BlockOperator({}, {}, tuple(functions))
        for c, matrix, turned in members:
            found = found.plus(c, matrix, turned)
        for c, u, v in outers:
            _add(found.outers, c, u, v)
        return found

    def entry_product(self, function: Value, vectors: np.ndarray) -> np.ndarray:
        return self.matvec(function, False, vectors)

    def entry_function(self, terms: tuple[list, list, list], c: float, number: int, at: tuple[int, ...]) -> None:
        """Add c times a function of entries to a matrix's terms: outer products where it is of rank one."""
        found = self.lowered.entry_terms(number, at, self.sizes)
        self._meet()
        values, blocks = found.evaluate(self, at)
        if found.phi is None:
            terms[1].extend((c, u, v) for pairs in blocks for u, v in pairs)
            return
        left, right = ([self.arrays.joined([_as_rows(pair[side]) for pair in pairs], 0) for pairs in blocks]
                       for side in (0, 1))
        phi = BlockFunction(self.arrays, found.phi, found.names, tuple(values), tuple(left), tuple(right))
        terms[2].append((c, phi))


def conditioned(program: Program, sizes: Sizes, data: ProgramData = {}, width: int = 1024,
                seed: int = 0, loss: AnyLoss = "mse", dtype: DType = "float64", keep: Collection[str] = (),
                progress: Callable[[int, int], None] | None = None,
                execution: Callable[..., ConditionedExecution] = ConditionedExecution, namespace: Array = "numpy",
                device: Array = None) -> LoweredRun:
    """Run any program at width n as ``run_program`` does, without n x n matrices: equal in law, not draw by draw.

    A Gaussian matrix is sampled as its products are made: W y is its projection on what W^T has met, and a Gaussian
    draw orthogonal to that. Blocks of samples meet a matrix at once. Time O(n K) a product and memory O(n) for each of
    the K products with a matrix; a function of an outer product's entries (a ``NonlinearOuter``) is evaluated again in
    every product, in time O(n^2).

    keep: names of the families of vectors that are kept to the end, or "all"; the others are forgotten after their
    last use. sizes, data, loss: as in ``read_program_coefficients``; progress: called with (steps done, steps);
    execution: what the program is run by; namespace, dtype, device: as in ``tpcalc.lowering.Arrays``. Draws are
    NumPy's, the same in all namespaces. Raises ``ValueError`` for data that does not fit, ``NotLowered`` naming a
    statement, ``MemoryError`` before the work, ``Divergence`` naming the first value that is not finite.
    Source: Tensor Programs VI, Definition C.1 [tensor_programs_vi/definition_c1].
    """
    n = _checks.positive_integer("width", width)
    run = execution(program, sizes, data, loss, n, seed, (namespace, dtype, device), keep)
    run.run(progress)
    return run.result()
