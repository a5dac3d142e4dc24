"""Real networks, and any program, with dense matrices of finite width: seeded, lowered to arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Callable, Collection, Mapping

import numpy as np
from scipy.linalg import blas

from .._types import Array, DType, ProgramData, Sizes, Value
from ..data.losses import AnyLoss
from .. import _checks
from ..lowering.array_backends import Arrays
from ..programs.language import Matrix, Member
from ..programs.program import Program
from .lowered import ArrayExecution, LoweredRun, Location

Weights = Mapping[str, np.ndarray]


class DenseExecution(ArrayExecution):
    """Matrices are arrays of shape (width, width); what nothing reads again is updated in place."""

    entries = True

    def __init__(self, program: Program, sizes: Sizes, data: ProgramData, loss: AnyLoss, width: int,
                 seed: int, arrays: Arrays, keep: Collection[str], weights: Weights | None,
                 factors: Mapping[str, float] = {}) -> None:
        super().__init__(program, sizes, data, loss, width, arrays, keep)
        self.shapes = initial_shapes(self.program, [self.lowered.member(location, at) for location, ends in
                                                    self.plan.given.items() for at in _locations(ends)])
        self.require_memory()
        given = None if weights is None else checked(weights, self.shapes, width)
        self.start = InitialWeights(self.shapes, width, seed, given, dict(factors))

    def require_memory(self) -> None:
        """Raise ``MemoryError`` where matrices and vectors cannot fit."""
        given = sum(int(np.prod([b - a + 1 for a, b in ranges])) for kind, ranges, _ in self.shapes.values()
                    if kind is Matrix)
        count = max(given, self.plan.matrices)
        size = np.dtype(self.arrays.precision).itemsize
        _checks.memory(float(size) * self.width * (count * self.width + self.plan.rows),
                       f"program {self.program.name} with {count} matrices of width {self.width}",
                       "take a smaller width or depth")

    def run(self, progress: Callable[[int, int], None] | None = None) -> None:
        self.initial = self.start()
        super().run(progress)
        del self.initial

    def initial_vector(self, member: Member) -> np.ndarray:
        _, ranges, free = self.shapes[member.name]
        return self.initial[member.name][tuple(int(member.indices[p]) - a for p, (a, _) in zip(free, ranges))]

    def initial_matrix(self, matrix: Matrix) -> Value:
        return self.arrays.asarray(self.initial_vector(matrix))

    def matvec(self, matrix: Value, turned: bool, vectors: Value) -> Value:
        if vectors.ndim > 2:
            flat = self.arrays.reshaped(vectors, (-1, self.width))
            return self.arrays.reshaped(flat @ (matrix if turned else matrix.T), tuple(vectors.shape))
        return vectors @ (matrix if turned else matrix.T)

    def combine(self, members: list, outers: list, functions: list, ended: tuple[Location, ...]) -> Value:
        total = self._start(members, ended)
        for c, u, v in outers:
            total = self._with_outer(total, c / self.width, u, v)
        for c, parts in functions:
            for rows, entries in parts:
                if len(parts) == 1:  # not all namespaces write into arrays
                    total += (c / self.width) * entries
                else:
                    total[rows] += (c / self.width) * entries
        return total

    def _start(self, members: list, ended: tuple[Location, ...]) -> Value:
        """The sum of given or trained matrices: the first that nothing reads again is written over."""
        spare = [self.F[number].get(key) for number, key in ended]
        if not members:
            return self.arrays.asarray(np.zeros((self.width, self.width)))
        alone = len({id(m) for _, m, _ in members}) == len(members)
        order = sorted(members, key=lambda one: not (not one[2] and any(one[1] is s for s in spare)))
        (c, first, turned), *rest = order
        if alone and not turned and any(first is s for s in spare):
            total = first
            if c != 1.0:
                total *= c
        else:
            total = c * (first.T if turned else first)
        for c, matrix, turned in rest:
            total += c * (matrix.T if turned else matrix)
        return total

    def _with_outer(self, total: Value, c: float, u: Value, v: Value) -> Value:
        """total + c sum_k u_k v_k^T, in place where arrays allow it."""
        if not self.arrays.is_numpy or not total.flags.c_contiguous:
            total += c * (u[:, None] * v if u.ndim == 1 else u.T @ v)
            return total
        u, v = np.atleast_2d(u), np.atleast_2d(v)
        gemm = blas.sgemm if total.dtype == np.float32 else blas.dgemm
        return gemm(c, v.T, u.T, 1.0, total.T, trans_b=1, overwrite_c=1).T

    def norm_ratio(self, above: list[Value], below: list[Value]) -> float:
        """Not a number where a norm is 0 or infinite: there is no sphere to come back to."""
        before, after = (sum(float(self.arrays.dot(flat, flat)) for one in part
                             for flat in [self.arrays.reshaped(one, (-1,))]) for part in (above, below))
        return float(np.sqrt(before / after)) if 0 < before < np.inf and 0 < after < np.inf else np.nan

    def entry_product(self, function: Value, vectors: Value) -> Value:
        return self.matvec(function, False, vectors) / self.width


Shapes = Mapping[str, tuple[type, tuple[tuple[int, int], ...], tuple[int, ...]]]


def _locations(ends: tuple[tuple[int, int], ...]) -> Value:
    return product(*({a, b} for a, b in ends))


def initial_shapes(program: Program, members: Collection[Member]) -> Shapes:
    """By name of a family that is given: its kind, the ends of its free indices, and where these stand. In the order
    of the program, vectors first; members: what is read, which says where indices end."""
    found: dict[str, tuple[type, tuple[tuple[int, int], ...], tuple[int, ...]]] = {}
    for given in (*program.vectors, *program.matrices):
        free = tuple(p for p, i in enumerate(given.indices) if not i.is_number)
        read = [tuple(int(m.indices[p]) for p in free) for m in members if m.same_family(given)]
        if read or not free:
            ranges = tuple((min(at), max(at)) for at in zip(*read))
            if given.name in found:
                raise ValueError(f"program {program.name}: {given.name} is given twice; weights go by name; expected "
                                 "one family of initial vectors or matrices for each")
            found[given.name] = (type(given), ranges, free)
    return found


def drawn(shapes: Shapes, width: int, seed: int, factors: Mapping[str, float] = {}) -> dict[str, np.ndarray]:
    """N(0, 1) for vectors, N(0, 1/width) for matrices, from one generator in the order of the families, times factors
    by name."""
    generator, found = np.random.default_rng(seed), {}
    for name, (kind, ranges, _) in shapes.items():
        sizes = [b - a + 1 for a, b in ranges]
        found[name] = generator.standard_normal((*sizes, *([width] * (2 if kind is Matrix else 1))))
        if kind is Matrix:
            found[name] /= np.sqrt(width)
        if name in factors:
            found[name] *= factors[name]
    return found


def checked(weights: Weights, shapes: Shapes, width: int) -> dict[str, np.ndarray]:
    """Given weights; raises ``ValueError`` for names and shapes that are not the program's."""
    if set(weights) != set(shapes):
        raise ValueError(f"weights: got {sorted(weights)}; expected {sorted(shapes)}, all of them")
    found = {}
    for name, (kind, ranges, _) in shapes.items():
        shape = (*(b - a + 1 for a, b in ranges), *([width] * (2 if kind is Matrix else 1)))
        found[name] = _checks.finite_array(f"weights[{name!r}]", weights[name])
        if found[name].shape != shape:
            raise ValueError(f"weights[{name!r}]: got shape {found[name].shape}; expected {shape}")
    return found


@dataclass(frozen=True)
class InitialWeights:
    """What a dense run started from: called, it draws the weights again from the seed, or copies those given."""

    shapes: Shapes = field(repr=False)
    width: int
    seed: int
    given: Weights | None = field(default=None, repr=False)
    factors: Mapping[str, float] = field(default_factory=dict)

    def __call__(self) -> dict[str, np.ndarray]:
        if self.given is None:
            return drawn(self.shapes, self.width, self.seed, self.factors)
        return {name: np.array(values) for name, values in self.given.items()}


@dataclass(frozen=True)
class DenseRun(LoweredRun):
    """A dense run, with what it started from."""

    start: InitialWeights = field(repr=False)

    def initial_weights(self) -> dict[str, np.ndarray]:
        """{family: array}: initial vectors (indices..., width), N(0, 1), and matrices (indices..., width, width),
        N(0, 1/width), drawn again from the seed, or those that were given; ``weights`` of another run takes them."""
        return self.start()


def run_dense(program: Program, sizes: Sizes, data: ProgramData = {}, width: int = 1024,
              seed: int = 0, loss: AnyLoss = "mse", weights: Weights | None = None, keep: Collection[str] = (),
              namespace: Array = "numpy", dtype: DType = "float64", device: Array = None,
              progress: Callable[[int, int], None] | None = None, factors: Mapping[str, float] = {}) -> DenseRun:
    """Run any program with vectors of length ``width`` n and n x n matrices, as loops over arrays.

    The program is lowered once (``tpcalc.lowering``): samples and outputs are array axes, trained matrices are updated
    in place, and moving averages of gradients are carried from step to step. Initial vectors have entries N(0, 1),
    initial matrices N(0, 1/n), drawn from ``seed`` in the order of the program, each family as one array; or they are
    ``weights``, {family: array}. ``run_program`` is the same execution statement by statement, with draws of its own.

    sizes, data, loss: as in ``read_program_coefficients``; keep: names of families of vectors that are wanted;
    namespace, dtype, device: as in ``tpcalc.lowering.Arrays``; losses are evaluated in NumPy. progress: called with
    (steps done, steps). factors: by family, what drawn weights are multiplied by, where their standard deviation is
    another.

    Raises ``NotLowered`` naming a statement, ``ValueError`` for data or weights that do not fit, ``MemoryError`` before
    the work, ``Divergence`` naming the first value that is not finite, ``MissingExtra`` for a namespace that is not
    installed. Source: Tensor Programs VI, appendix E.

    >>> import tpcalc as tp
    >>> program = tp.program(tp.ResNet("tanh"), tp.Adam(0.1), tp.DepthScaling())
    >>> run = run_dense(program, {"T": 2, "L": 3}, dict(xi=[1, 0.5], y=[1, -1]), width=16, keep=("x",))
    >>> run.series("f").shape, run.stack("x", 0, 3).shape, run.initial_weights()["W"].shape
    ((2,), (16,), (3, 16, 16))
    """
    n = _checks.positive_integer("width", width)
    if isinstance(keep, str):
        raise ValueError(f"keep: got {keep!r}; expected names of families of vectors, in a tuple")
    run = DenseExecution(program, sizes, data, loss, n, seed, Arrays(namespace, dtype, device), keep, weights, factors)
    run.run(progress)
    found = run.result()
    return DenseRun(found.program, found.width, found.values, found.families, found.spectra, run.start)
