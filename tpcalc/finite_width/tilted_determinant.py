"""The bias of finite width: the determinant of fluctuations, by elimination of layers.

log <exp(n j . f)> is n E(j) - log det M(j) / 2 + O(1/n), M(j) the linearized equations of the tilted law, so that n
<f> = n f + b with b = -(1/2) d/dj log det M. A change of the law at a node is a pair (p of Pi, q of R) of symmetric
matrices, here vectors of their entries in causal order, in which M is triangular; a layer scatters (p_(l-1), q_l)
into (p_l, q_(l-1)), so that M is eliminated layer by layer: all that lies to the left of a node answers q by p = rho
q, all that lies to its right p by q = sigma p. The derivative of log det M is then a sum over layers of that of log
det N_l, N_l the layer's own equations closed by the reflections of what lies to both sides, which are held fixed.

Source: [tpcalc/finite_width].
"""

from __future__ import annotations

from typing import Callable, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from .._types import Value
from .. import _checks
from ..kernels import tilted as kernel
from .causal_pairs import CausalPairs, causal_pairs
from .tilted import TiltedNetwork, TiltedSolution

Sparse = Value  # scipy's
Tangent = Callable[[TiltedSolution], np.ndarray]
STEP = 1e-20  # of complex differentiation, which has no difference to lose digits in


def pairs_of(network: TiltedNetwork) -> CausalPairs:
    return causal_pairs(network.rows, network.per_step)


def conjugation(pairs: CausalPairs, K: np.ndarray, to: str, of: str) -> np.ndarray:
    """X -> K X K^T from changes ``of`` one side to changes ``to`` one, "p" or "q"."""
    found: np.ndarray = kernel.packed_conjugation(K, *getattr(pairs, to), *getattr(pairs, of))
    return found


def conjugation_gradient(pairs: CausalPairs, weights: np.ndarray, K: np.ndarray, to: str, of: str) -> np.ndarray:
    """The gradient in K of tr(weights . conjugation)."""
    found: np.ndarray = kernel.packed_conjugation_gradient(weights, K, *getattr(pairs, to), *getattr(pairs, of))
    return found


def density_map(network: TiltedNetwork, side: str) -> np.ndarray:
    """``layer_density`` as a matrix (p, p), from overlaps to densities; entries are in the order of changes of
    ``side``, "p" or "q"."""
    n = 2 * network.rows
    i, j = getattr(pairs_of(network), side)
    result, unit, out = np.zeros((len(i), len(i))), np.zeros((n, n)), np.zeros((n, n))
    for c, (a, b) in enumerate(zip(i, j)):
        unit[a, b] = unit[b, a] = 1.0
        kernel.added_density(unit, network.noise, network.drift, 0 if side == "p" else network.rows, out)
        result[:, c] = out[i, j]
        unit[a, b] = unit[b, a] = 0.0
    return result


class Facing(NamedTuple):
    """One direction of a layer, met by what lies on its side: p_(l-1) = rho q_(l-1).

    answer X: what overlaps make of q_(l-1); inner Y: q_(l-1) of what comes through and of what the layer sends back; Z:
    p_l of these.
    """

    X: np.ndarray
    Y: np.ndarray
    Z: np.ndarray


# of the matrices of a layer: the side of what a conjugation by them makes, and of what it makes it of
DIRECTIONS_OF = {"node p": ("p", "p"), "C p": ("p", "q"), "through p": ("p", "p"), "F p": ("p", "q"),
                 "node q": ("q", "q"), "C q": ("q", "p"), "through q": ("q", "q"), "F q": ("q", "p")}


class LinearizedLayer:
    """The linearized equations of one layer: (p_l, q_(l-1)) from themselves and from (p_(l-1), q_l).

    With P, Q for what the layer adds to p_l and q_(l-1), from changes of overlaps,

        P = forward (node_p p_(l-1) + C_p q_(l-1)),    p_l = P + through_p p_(l-1) + F_p Q,

    and the mirror image. forward, backward: ``density_map`` of both directions, sparse. Matrices are conjugations by
    those of the solution: at the node (of p or of q), by the overlaps C, through the layer, and by what it carries, F.
    """

    def __init__(self, solution: TiltedSolution, l: int, forward: Sparse, backward: Sparse) -> None:
        left, right = solution.left, solution.right
        self.pairs = pairs_of(solution.network)
        self.density = {"p": forward, "q": backward}
        self.matrices = {"node p": left.node.inverse[l], "C p": left.node.F[0, l], "node q": right.node.inverse[l],
                         "C q": right.node.F[0, l], "through p": left.through.inverse[l], "F p": left.through.F[0, l],
                         "through q": right.through.inverse[l], "F q": right.through.F[0, l]}
        self.maps = {name: conjugation(self.pairs, matrix, *DIRECTIONS_OF[name]) for name,
                     matrix in self.matrices.items()}

    def facing(self, beyond: np.ndarray, here: str, there: str) -> Facing:
        """``beyond``: rho of the side p, with ``here``, ``there`` p, q; or sigma of the side q, with q, p."""
        m, times = self.maps, self.pairs.product
        X = self.density[here] @ (times(m[f"node {here}"], beyond) + m[f"C {here}"])
        Y = self.pairs.resolvent(times(m[f"F {there}"], X))
        return Facing(X, Y, times(X + times(m[f"through {here}"], beyond), Y))

    def reflected(self, facing: Facing, here: str, there: str) -> np.ndarray:
        """rho_l from what ``facing`` makes of rho_(l-1), or sigma_(l-1) of sigma_l."""
        m, density, times = self.maps, self.density[there], self.pairs.product
        through, back = times(facing.Z, m[f"through {there}"]), facing.Z + m[f"F {here}"]
        own = self.pairs.resolvent(density @ times(m[f"C {there}"], back))
        return through + times(back, own, density @ (m[f"node {there}"] + times(m[f"C {there}"], through)))

    def gradients(self, rho: np.ndarray, sigma: np.ndarray, left: Facing, right: Facing) -> dict[str, np.ndarray]:
        """Those of log det N_l in the matrices, by their names; N_l closed by p_(l-1) = rho q_(l-1), q_l = sigma p_l:

            N = [[1 - F_p X', -(X + through_p rho)], [-(X' + through_q sigma), 1 - F_q X]],  X, X' of both sides.
        """
        m, times = self.maps, self.pairs.product
        both = self.pairs.resolvent(times(left.Z, right.Z))
        pp = times(right.Y, both)                             # the inverse of N, in blocks
        pq = times(pp, left.Z)
        qq = left.Y + times(times(left.Y, right.Z), times(both, left.Z))
        qp = times(qq, right.Z)
        of_p, of_q = qp + times(qq, m["F q"]), pq + times(pp, m["F p"])
        transposed = {side: matrix.T for side, matrix in self.density.items()}
        weights = {"F p": times(right.X, pp), "F q": times(left.X, qq), "through p": times(rho, qp),
                   "through q": times(sigma, pq), "node p": (transposed["p"] @ times(rho, of_p).T).T,
                   "C p": (transposed["p"] @ of_p.T).T, "node q": (transposed["q"] @ times(sigma, of_q).T).T,
                   "C q": (transposed["q"] @ of_q.T).T}
        return {name: -conjugation_gradient(self.pairs, w, self.matrices[name], *DIRECTIONS_OF[name])
                for name, w in weights.items()}


# how the matrices of all layers change along a series, by their names
TANGENTS: dict[str, Tangent] = {
    "node p": lambda s: s.left.node.tangent(), "C p": lambda s: s.left.node.F[1],
    "node q": lambda s: s.right.node.tangent(), "C q": lambda s: s.right.node.F[1],
    "through p": lambda s: s.left.through.tangent(), "F p": lambda s: s.left.through.F[1],
    "through q": lambda s: s.right.through.tangent(), "F q": lambda s: s.right.through.F[1]}


class AtReadOut(NamedTuple):
    """What the readout's equations are made of: inverse and overlaps C at the last node, (2 N, 2 N); read_out, what is
    made of C; entering (2 N, d_out), z over chi; slope (N, k, m), d chi_k / d f_m; bend (N, m, l), d z_m / d f_l."""

    inverse: np.ndarray
    C: np.ndarray
    read_out: np.ndarray
    entering: np.ndarray
    slope: np.ndarray
    bend: np.ndarray


def at_read_out(base: TiltedSolution, series: TiltedSolution | None = None) -> AtReadOut:
    """The values at the readout without a tilt, or what they change by along a series."""
    order, solution = (0, base) if series is None else (1, series)
    inverse, bend = base.end.inverse[0], np.zeros((*base.f.shape[1:], base.network.d_out))
    if series is not None:
        inverse = inverse @ series.end.product[1, 0] @ inverse
        # z = slope v, and v vanishes without a tilt
        bend = np.einsum("akml,ak->aml", base.network.loss.curvature(base.chi[0]), series.v[1])
        bend[~base.network.learnt] = 0.0
    entering = np.concatenate([solution.z[order] + solution.tilt[order], solution.chi[order]])
    return AtReadOut(inverse, solution.end.F[order, 0], solution.read_out[order], entering, solution.slope[order], bend)


class ReadOut:
    """The linearized equations of the readout: changes (df, dz) of outputs and their partners, from those of p_L.

    ``sent``: (p, 2 N d_out), q_L of (df, dz).
    """

    def __init__(self, network: TiltedNetwork, at: AtReadOut) -> None:
        self.network, self.at, self.pairs = network, at, pairs_of(network)
        i, j = self.pairs.q
        half = network.rows * network.d_out
        sent, direct = [], []
        for column in range(2 * half):
            df, dz = np.zeros((2, network.rows, network.d_out))
            (df if column < half else dz).reshape(-1)[column % half] = 1.0
            changes = np.concatenate([dz, np.einsum("akm,am->ak", at.slope, df)])
            pairs = at.entering @ changes.T
            sent.append(_end_density(pairs + pairs.T, network, network.rows)[i, j])
            direct.append(self._answer(at.read_out @ changes) + np.concatenate(
                [np.zeros(half), np.einsum("aml,al->am", at.bend, df).ravel()]))
        self.sent, self.direct = np.array(sent).T, np.array(direct).T

    def _answer(self, leaving: np.ndarray) -> np.ndarray:
        """(df, dz), flat, of changes of f and v, (2 N, d_out)."""
        df, dv = leaving[:self.network.rows], leaving[self.network.rows:]
        return np.concatenate([df.ravel(), np.einsum("akm,ak->am", self.at.slope, dv).ravel()])

    def _of_overlaps(self, changes: np.ndarray) -> np.ndarray:
        """(df, dz) for every column of changes of C, (p, columns)."""
        i, j = self.pairs.p
        C, found = np.zeros(self.at.C.shape, dtype=changes.dtype), []
        for change in changes.T:
            C[i, j] = C[j, i] = change
            found.append(self._answer(_end_density(C, self.network, 0) @ self.at.entering))
        return np.array(found).T

    def closed(self, rho: np.ndarray) -> np.ndarray:
        """The equations for (df, dz), with p_L = rho q_L."""
        overlaps = (self._conjugation("inverse") @ rho + self._conjugation("C")) @ self.sent
        return np.eye(len(self.direct)) - self.direct - self._of_overlaps(overlaps)

    def sigma(self) -> np.ndarray:
        """q_L = sigma p_L."""
        own = np.eye(len(self.direct)) - self.direct - self._of_overlaps(self._conjugation("C") @ self.sent)
        return self.sent @ np.linalg.solve(own, self._of_overlaps(self._conjugation("inverse")))

    def _conjugation(self, name: str) -> np.ndarray:
        """By the inverse, of changes of p_L, or by C, of those of q_L."""
        return conjugation(self.pairs, getattr(self.at, name), "p", "p" if name == "inverse" else "q")


def _end_density(C: np.ndarray, network: TiltedNetwork, first: int) -> np.ndarray:
    """``kernel.density`` of the ends, linear in C, which may be complex."""
    if np.iscomplexobj(C):
        return _end_density(C.real, network, first) + 1j * _end_density(C.imag, network, first)
    out = np.zeros(C.shape)
    kernel.added_density(np.ascontiguousarray(C), network.noise_end, network.drift_end, first, out)
    return out


class TiltResponse(NamedTuple):
    """How a solution answers a tilt, as far as covariances and biases read it: f (2, N, d_out), and the changes along
    the tilt of the determinant's matrices, by their names, and of the readout's."""

    f: np.ndarray
    tangents: dict[str, np.ndarray]
    read_out: AtReadOut


def response(base: TiltedSolution, series: TiltedSolution, tangents: dict[str, Tangent]) -> TiltResponse:
    """What a series of order 1 at least says to first order."""
    return TiltResponse(series.f[:2].copy(), {name: tangent(series) for name, tangent in tangents.items()},
                        at_read_out(base, series))


class BiasGradient:
    """b as a linear function of how the solution changes along a tilt.

    gradients: of log det M in matrices at layers or nodes, by their names; tangents: how these matrices change along a
    series; rho: what lies to the left of the readout.
    """

    tangents: dict[str, Tangent]

    def __init__(self, base: TiltedSolution, rho: np.ndarray, gradients: dict[str, np.ndarray]) -> None:
        self.base, self.rho, self.gradients = base, rho, gradients

    def along(self, answer: TiltResponse | TiltedSolution) -> float:
        """b of the output along which a solution is tilted; a series has order 1 at least."""
        if isinstance(answer, TiltedSolution):
            answer = response(self.base, answer, self.tangents)
        total = sum(float(np.sum(self.gradients[name] * tangent)) for name, tangent in answer.tangents.items())
        moved = AtReadOut(*(a + 1j * STEP * b for a, b in zip(at_read_out(self.base), answer.read_out)))
        sign, _ = np.linalg.slogdet(ReadOut(self.base.network, moved).closed(self.rho))
        return -(total + float(np.angle(sign)) / STEP) / 2


class LayersGradient(BiasGradient):
    """The determinant at finite depth: layers are eliminated one by one.

    Time O(L N^6) and memory O(L N^4), for N rows. Raises ``MemoryError`` where the reflections cannot fit.
    """

    tangents = TANGENTS

    def __init__(self, base: TiltedSolution) -> None:
        network = base.network
        n, depth = 2 * network.rows, network.depth
        size = pairs_of(network).size
        _checks.memory(8.0 * size**2 * (depth + 40), f"the bias of a finite width at depth {depth}",
                       "fewer steps, a smaller batch or a smaller depth fit")
        maps = csr_matrix(density_map(network, "p")), csr_matrix(density_map(network, "q"))
        sigma = [np.zeros((0, 0))] * depth + [ReadOut(network, at_read_out(base)).sigma()]
        for l in reversed(range(depth)):
            layer = LinearizedLayer(base, l, *maps)
            sigma[l] = layer.reflected(layer.facing(sigma[l + 1], "q", "p"), "q", "p")
        gradients = {name: np.zeros((depth, n, n)) for name in TANGENTS}
        rho = np.zeros((size, size))  # nothing comes back from the embedding's fixed overlaps
        for l in range(depth):
            layer = LinearizedLayer(base, l, *maps)
            left, right = layer.facing(rho, "p", "q"), layer.facing(sigma[l + 1], "q", "p")
            for name, gradient in layer.gradients(rho, sigma[l + 1], left, right).items():
                gradients[name][l] = gradient
            sigma[l + 1] = np.zeros((0, 0))
            rho = layer.reflected(left, "p", "q")
        super().__init__(base, rho, gradients)
