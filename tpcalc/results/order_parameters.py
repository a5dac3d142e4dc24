"""Order parameters of dynamical mean field theory, as values: kernels and responses indexed (t, i, s, j), or (t, i, p,
s, j, q) where samples have positions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping, TypeVar

import numpy as np

from ..errors import NotCovered
from .run import Run

OF_NETWORK = ("f", "Delta", "H", "Phi", "G", "K")
OF_MATRIX = ("Phi", "G", "A", "B")
Number = tuple[str, str]  # the matrix, "" for what is of the network, and a name of these
Numbers = dict[Number, np.ndarray]
Part = TypeVar("Part")


@dataclass(frozen=True, eq=False, repr=False)
class MatrixFields:
    """What one matrix of every block makes of single sites, as samples: (L, t, i, samples) each.

    chi = W(0) z, of what the matrix reads, and its Gaussian part u; xi = W(0)^T g, of the gradient in what it gives,
    and its Gaussian part r.
    """

    chi: np.ndarray
    u: np.ndarray
    xi: np.ndarray
    r: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Fields:
    """The fields of single sites, as samples: (nodes or layers, t, i, samples) each.

    h, g: of the stream, at the L + 1 nodes; matrices: by name what a matrix of the L blocks makes of them. chi, u, xi,
    r: those of the one matrix; ``NotCovered`` where blocks have several.
    """

    h: np.ndarray
    g: np.ndarray
    matrices: Mapping[str, MatrixFields]

    @property
    def chi(self) -> np.ndarray:
        return only(self.matrices, "fields.chi").chi

    @property
    def u(self) -> np.ndarray:
        return only(self.matrices, "fields.u").u

    @property
    def xi(self) -> np.ndarray:
        return only(self.matrices, "fields.xi").xi

    @property
    def r(self) -> np.ndarray:
        return only(self.matrices, "fields.r").r


@dataclass(frozen=True, eq=False, repr=False)
class MatrixParameters:
    """The order parameters of one matrix of every block, (L, t, i, s, j) each, and (nodes, ...) in the limit.

    Phi: of what the matrix reads; G: of the gradient in what it gives, n df / d(W z) over the branch multiplier; A, B:
    its responses over eta0 mu0, so that eps W(t) z is eps u + (eta0 mu0 / L) sum over earlier (s, j) of (Phi Delta
    branch^2 / batch + A) g, by plain gradient descent. standard_errors, bias_bounds: as in ``OrderParameters``.
    """

    Phi: np.ndarray
    G: np.ndarray
    A: np.ndarray
    B: np.ndarray
    standard_errors: Mapping[str, np.ndarray] = field(default_factory=dict)
    bias_bounds: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class OrderParameters:
    """The order parameters of a residual network's DMFT, with its letters, indices (t, i, s, j) and units.

    layer_times: (nodes,), of all nodes l / L at finite depth; f, Delta: (t, i), outputs and -dloss/df; H, Phi, G:
    (nodes, t, i, s, j), <h h'>, <z z'> of what a block's first matrix reads of the stream at that node, phi(h) in
    W phi(h), and <g g'>; K: (t, i, s, j), the tangent kernel; matrices: by name, in the order in which the stream meets
    them, the ``MatrixParameters`` of every matrix of a block; fields: samples, or None where the run has none.

    A, B: responses of the one matrix over eta0 mu0, (L, t, i, s, j) at finite depth, A[l - 1] and B[l - 1] of block l
    with G of the node after it and Phi of the node before it where the block is W phi(h), and (nodes, ...) in the
    limit; ``NotCovered`` where blocks have several matrices.

    Where samples have positions every index of an input has one of a position beside it, (t, i, p, s, j, q). Losses of
    all positions reach the stream at one of them, so that g, G, A and B are of the gradient of the loss, n dloss/dh, in
    which Delta is contained; K is None, since it takes gradients of single outputs.

    standard_errors: by name, of what is a mean over batches of samples, else empty; bias_bounds: by name, where depths
    were extrapolated.

    A block W phi(h) adds eps u + (eta0 mu0 / L) sum over earlier (s, j) of (Phi Delta branch^2 / batch + A) g to h.
    Where some g are combinations of others, as at the end of the network, only these sums mean anything, not A itself;
    so B.

    >>> import tpcalc as tp
    >>> raw = tp.theory.raw_problem(tp.theory.DepthwiseScaling(mu0=0.5), tp.ResNet(), tp.Task([1, 1], [1, 0]), depth=4)
    >>> found = tp.theory.dmft(raw)
    >>> found.layer_times.tolist(), found.G[:, 0, 0, 0, 0].round(4).tolist()
    ([0.0, 0.25, 0.5, 0.75, 1.0], [2.4414, 1.9531, 1.5625, 1.25, 1.0])
    >>> list(found.matrices), found.matrices["W"].A is found.A
    (['W'], True)
    """

    run: Run
    layer_times: np.ndarray
    f: np.ndarray
    Delta: np.ndarray
    H: np.ndarray
    Phi: np.ndarray
    G: np.ndarray
    matrices: Mapping[str, MatrixParameters]
    K: np.ndarray | None = None
    fields: Fields | None = None
    standard_errors: Mapping[str, np.ndarray] = field(default_factory=dict)
    bias_bounds: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def A(self) -> np.ndarray:
        return only(self.matrices, "A").A

    @property
    def B(self) -> np.ndarray:
        return only(self.matrices, "B").B

    def __repr__(self) -> str:
        return (f"OrderParameters(method={self.run.method!r}, nodes={len(self.layer_times)}, steps={self.f.shape[0]}, "
                f"batch={self.f.shape[1]})")


def only(matrices: Mapping[str, Part], what: str) -> Part:
    """The value of the one matrix; raises ``NotCovered`` where blocks have several."""
    if len(matrices) > 1:
        *path, name = what.split(".")
        where = ".".join((*path, f"matrices[{next(iter(matrices))!r}]", name))
        raise NotCovered(f"{what}: blocks have the matrices {', '.join(matrices)}, each with its own; expected "
                         f"{where} and so on")
    return next(iter(matrices.values()))


def of_numbers(run: Run, layer_times: np.ndarray, numbers: Numbers, errors: Numbers = {}, bounds: Numbers = {},
               fields: Fields | None = None) -> OrderParameters:
    """The value of numbers by matrix and name, each with rows (step, input) or indexed already."""
    names = [name for name, what in numbers if name and what == "A"]

    def split(known: Numbers, name: str) -> dict[str, np.ndarray]:
        return {what: value for (of, what), value in known.items() if of == name}

    matrices = {name: MatrixParameters(**split(numbers, name), standard_errors=split(errors, name),
                                       bias_bounds=split(bounds, name)) for name in names}
    spreads = [split(known, "") for known in (errors, bounds)]
    if len(names) == 1:
        for spread, known in zip(spreads, (errors, bounds)):
            spread.update({what: known[names[0], what] for what in "AB" if known})
    return OrderParameters(run, layer_times, **split(numbers, ""), matrices=matrices, fields=fields,
                           standard_errors=spreads[0], bias_bounds=spreads[1])


def indexed(numbers: Numbers, rows: tuple[int, ...]) -> Numbers:
    """Kernels of rows (step, input[, position]) as (..., t, i, s, j); f and Delta are (t, i) already."""
    return {(of, what): value if what in ("f", "Delta") else value.reshape(*value.shape[:-2], *rows * 2)
            for (of, what), value in numbers.items()}
