"""Fluctuations of a trained network of finite width by brute force, from nothing but its statements.

Statements of the training are vectors that are sums of number * vector, number * (vector . vector / n) * vector and
number * matrix * vector. Averaging over the matrices gives exp(n Psi), Psi quadratic in the overlaps of all vectors
and their response fields; the fluctuations of overlaps are Gaussian, with the inverse of Psi's curvature, and the
first correction to their means is one loop. Whole matrices over all overlaps of all layers; nothing of tpcalc's
solvers is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

Pair = tuple[int, int]


@dataclass
class OverlapAction:
    """Fields by their names, and Psi: ``quadratic`` in the fields of one coordinate, ``quartic`` in overlaps."""

    names: dict[str, int] = field(default_factory=dict)
    quadratic: dict[Pair, float] = field(default_factory=dict)
    quartic: dict[tuple[Pair, Pair], float] = field(default_factory=dict)
    products: dict[str, list[tuple[float, int, int]]] = field(default_factory=dict)

    def gaussian(self, name: str) -> None:
        """A vector of independent standard normals."""
        i = self._index(name)
        self._add_quadratic((i, i), -0.5)

    def vector(self, name: str, linear: list[tuple[float, str]], overlaps: list[tuple[float, str, str, str]] = [],
               products: list[tuple[float, str, str, bool]] = []) -> None:
        """name := sum c v + sum c (a . b / n) v + sum c W v, W transposed where the last is True."""
        i, hat = self._index(name), self._index("hat " + name)
        self._add_quadratic((i, hat), -1.0)
        for c, v in linear:
            self._add_quadratic((hat, self.names[v]), c)
        for c, a, b, v in overlaps:
            key = (_pair(self.names[a], self.names[b]), _pair(hat, self.names[v]))
            self.quartic[key] = self.quartic.get(key, 0.0) + c
        for c, matrix, v, transposed in products:
            ends = (self.names[v], hat) if transposed else (hat, self.names[v])
            self.products.setdefault(matrix, []).append((c, *ends))

    def _index(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def _add_quadratic(self, pair: Pair, c: float) -> None:
        pair = _pair(*pair)
        self.quadratic[pair] = self.quadratic.get(pair, 0.0) + c

    def averaged(self) -> dict[tuple[Pair, Pair], float]:
        """Psi's quartic part with the matrices averaged over: entries N(0, 1/n)."""
        total = dict(self.quartic)
        for terms in self.products.values():
            for c, left, right in terms:
                for d, also_left, also_right in terms:
                    key = (_pair(left, also_left), _pair(right, also_right))
                    total[key] = total.get(key, 0.0) + c * d / 2
        return total

    def fluctuations(self, wanted: list[tuple[str, str]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means at infinite width, n Cov and n (mean - limit) of the overlaps of the wanted pairs of vectors."""
        mean, G, A, i, j, here = self._saddle(wanted, np.zeros(len(wanted)))
        size = len(self.names)
        B = G[np.ix_(i, i)] * G[np.ix_(j, j)] + G[np.ix_(i, j)] * G[np.ix_(j, i)]
        inverse = np.linalg.inv(np.eye(len(i)) - B @ A)
        covariance = inverse @ B
        V = A + A @ covariance @ A
        loop = np.zeros((size, size))  # sum_ab V_ab M_a G M_b
        for a, (p, q) in enumerate(zip(i, j)):
            inner = self._coupling(V[a], i, j, size)
            loop[p] += G[q] @ inner
            loop[q] += G[p] @ inner
        tadpole = (G @ loop @ G)[i, j]
        return mean[here], covariance[np.ix_(here, here)], (inverse @ tadpole)[here]

    def tilted_means(self, wanted: list[tuple[str, str]], tilt: np.ndarray) -> np.ndarray:
        """The wanted overlaps at infinite width, under the weight exp(n tilt . overlaps); the tilt is small."""
        mean, *_, here = self._saddle(wanted, tilt)
        return mean[here]

    def _saddle(self, wanted: list[tuple[str, str]], tilt: np.ndarray) -> tuple:
        """Overlaps, propagators, Psi'', the pairs' two members, and where the wanted pairs stand among them."""
        quartic = self.averaged()
        observed = [_pair(self.names[a], self.names[b]) for a, b in wanted]
        pairs = sorted({p for key in quartic for p in key} | set(observed))
        location = {p: k for k, p in enumerate(pairs)}
        i, j = np.array(pairs).T
        A = np.zeros((len(pairs), len(pairs)))
        for (p, q), c in quartic.items():
            A[location[p], location[q]] += c
            A[location[q], location[p]] += c
        size = len(self.names)
        bare = np.zeros((size, size))
        for (p, q), c in self.quadratic.items():
            bare[p, q] += c
            bare[q, p] += c
        here = [location[p] for p in observed]
        source = np.zeros(len(pairs))
        source[here] = tilt
        mean, G = np.zeros(len(pairs)), np.zeros((size, size))
        for _ in range(2000):  # without a tilt causality ends this after finitely many steps
            G = -np.linalg.inv(bare + self._coupling(A @ mean + source, i, j, size))
            before, mean = mean, G[i, j]
            if np.max(np.abs(mean - before)) < 1e-13 * np.max(np.abs(mean)):
                return mean, G, A, i, j, here
        raise ArithmeticError("no fixed point")

    @staticmethod
    def _coupling(strength: np.ndarray, i: np.ndarray, j: np.ndarray, size: int) -> np.ndarray:
        matrix = np.zeros((size, size))
        np.add.at(matrix, (i, j), strength)
        np.add.at(matrix, (j, i), strength)
        return matrix


def _pair(i: int, j: int) -> Pair:
    return (i, j) if i <= j else (j, i)


def training(xi: np.ndarray, y: np.ndarray, depth: int, eps: float, g: float, rho: np.ndarray, w: np.ndarray,
             train_embedding_readout: bool = False, probes: np.ndarray = np.zeros((0, 1)), loss_square: float = 0.0
             ) -> tuple[OverlapAction, list[tuple[str, str]]]:
    """Statements of the training on the squared loss of a linear residual network, and the outputs as overlaps.

    xi: (T, B, d_in), y: (T, B, d_out); W_t = rho_t W_0 - g sum w_ts mean_i delta_si (x) x_si / n; trained ends
    likewise, without g. probes: (m, d_in), inputs that every step has, too, and learns nothing from.
    loss_square: c of loss derivatives f - y + c f^2.
    """
    steps, batch, d_in = xi.shape
    d_out = y.shape[2]
    action = OverlapAction()
    for j in range(d_in):
        action.gaussian(f"U {j}")
    for k in range(d_out):
        action.gaussian(f"V {k}")
    samples = [(t, i) for t in range(steps) for i in range(batch)]
    wanted = []

    def earlier(t: int) -> list[tuple[float, tuple[int, int]]]:
        return [(w[t, s] / batch, (s, i)) for s, i in samples if s < t]

    for t in range(steps):
        for k in range(d_out):  # V_tk = rho V_k - sum w (f_sk - y_sk) x_s
            linear, overlaps = [(rho[t] if train_embedding_readout else 1.0, f"V {k}")], []
            for c, b in earlier(t) if train_embedding_readout else []:
                linear.append((c * y[b][k], f"x {b} {depth}"))
                overlaps.append((-c, f"V {b[0]} {k}", f"x {b} {depth}", f"x {b} {depth}"))
            action.vector(f"V {t} {k}", linear, overlaps)
        rows = [(t, i) for i in range(batch)]
        features = {**{a: xi[a] for a in rows}, **{(t, batch + i): probe for i, probe in enumerate(probes)}}
        for a, feature in features.items():
            linear = [((rho[t] if train_embedding_readout else 1.0) * feature[j], f"U {j}") for j in range(d_in)]
            if train_embedding_readout:
                linear += [(-c * feature @ xi[b], f"delta {b} 0") for c, b in earlier(t)]
            action.vector(f"x {a} 0", linear)
            for l in range(1, depth + 1):
                before = f"x {a} {l - 1}"
                action.vector(f"x {a} {l}", [(1.0, before)],
                              [(-eps * g * c, f"x {b} {l - 1}", before, f"delta {b} {l}") for c, b in earlier(t)],
                              [(eps * rho[t], f"W {l}", before, False)])
            wanted += [(f"V {t} {k}", f"x {a} {depth}") for k in range(d_out)]
        for a in rows:
            answers = [(1.0, f"V {t} {k}", f"x {a} {depth}", f"V {t} {k}") for k in range(d_out)]
            if loss_square:
                for k in range(d_out):  # f V
                    action.vector(f"u {a} {k}", [], [(1.0, f"V {t} {k}", f"x {a} {depth}", f"V {t} {k}")])
                answers += [(loss_square, f"V {t} {k}", f"x {a} {depth}", f"u {a} {k}") for k in range(d_out)]
            action.vector(f"delta {a} {depth}", [(-y[a][k], f"V {t} {k}") for k in range(d_out)], answers)
            for l in range(depth, 0, -1):
                after = f"delta {a} {l}"
                action.vector(f"delta {a} {l - 1}", [(1.0, after)],
                              [(-eps * g * c, f"delta {b} {l}", after, f"x {b} {l - 1}") for c, b in earlier(t)],
                              [(eps * rho[t], f"W {l}", after, True)])
    return action, wanted
