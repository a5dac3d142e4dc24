"""Small trainings in which every number is a symbol: kets by definition C.1 beside the reflection form.

What a layer adds (A, B) and the covariances of its hats (C0, C1) stay symbols, too: in these, kets and reflections are
polynomials, and that A, B, C0, C1 are the same functions of them in both readings is the claim.
"""

from __future__ import annotations

from itertools import product
from typing import Iterator

import sympy as sp

EPS = sp.Symbol("epsilon", positive=True)


class Symbols:
    """``steps`` steps of one input through ``depth`` layers with frozen embedding and readout; kets are rows over
    ``bases``."""

    def __init__(self, steps: int, depth: int) -> None:
        self.steps, self.depth = steps, depth
        self.rho = sp.diag(*sp.symbols(f"rho:{steps}"))
        self.xi, self.chi = (sp.Matrix(sp.symbols(f"{name}:{steps}")) for name in ("xi", "chi"))
        pairs = list(product(range(steps), repeat=2))
        entries = {(name, l): {(t, s): sp.Symbol(f"{name}{l}_{t}{s}") for t, s in pairs}
                   for name in "ABCD" for l in range(1, depth + 1)}
        self.A, self.B = ([None, *(sp.Matrix(steps, steps, lambda t, s: entries[name, l][t, s] if s < t else 0)
                                   for l in range(1, depth + 1))] for name in "AB")
        self.C0, self.C1 = ([None, *(sp.Matrix(steps, steps, lambda t, s: entries[name, l][max(t, s), min(t, s)])
                                     for l in range(1, depth + 1))] for name in "CD")
        self.bases = ["U", "nV", *(f"{hat}{t} {l}" for l in range(1, depth + 1) for hat in "FB" for t in range(steps))]
        self.covariance = sp.diag(1, 1, *(c for l in range(1, depth + 1) for c in (self.C0[l], self.C1[l])))

    def base(self, name: str) -> sp.Matrix:
        row = sp.zeros(1, len(self.bases))
        row[self.bases.index(name)] = 1
        return row

    def kets(self) -> tuple[list[sp.Matrix], list[sp.Matrix]]:
        """x and delta at nodes 0..depth, (steps, bases): the ket equations, in the order of training."""
        x, delta = ([sp.zeros(self.steps, len(self.bases)) for _ in range(self.depth + 1)] for _ in range(2))
        for t in range(self.steps):
            x[0][t, :] = self.xi[t] * self.base("U")
            for l in range(1, self.depth + 1):
                x[l][t, :] = (x[l - 1][t, :] + EPS * self.rho[t, t] * self.base(f"F{t} {l}")
                              + self.A[l][t, :] * delta[l]).expand()
            delta[-1][t, :] = self.chi[t] * self.base("nV")
            for l in range(self.depth, 0, -1):
                delta[l - 1][t, :] = (delta[l][t, :] + EPS * self.rho[t, t] * self.base(f"B{t} {l}")
                                      + self.B[l][t, :] * x[l - 1]).expand()
        return x, delta

    def responses(self, kets: sp.Matrix, hat: str, layer: int) -> sp.Matrix:
        """The coefficients on the hats of a layer, (steps, steps)."""
        first = self.bases.index(f"{hat}0 {layer}")
        return kets[:, first:first + self.steps]

    def reflections(self) -> tuple[list[sp.Matrix], ...]:
        """P, S, Q, R at nodes 0..depth."""
        forward = self._through(range(1, self.depth + 1), self.A, self.B, self.C0, self.C1, self.xi)
        backward = self._through(range(self.depth, 0, -1), self.B, self.A, self.C1, self.C0, self.chi)
        return (*forward, *(side[::-1] for side in backward))

    def _through(self, layers: range, A: list, B: list, C: list, D: list, features: sp.Matrix
                 ) -> tuple[list[sp.Matrix], list[sp.Matrix]]:
        P, S = [sp.zeros(self.steps)], [features * features.T]
        for l in layers:
            H = self.inverse(P[-1] * B[l])
            inner = EPS**2 * P[-1] * self.rho * D[l] * self.rho * P[-1].T + S[-1]
            S.append((EPS**2 * self.rho * C[l] * self.rho + H * inner * H.T).expand())
            P.append((A[l] + H * P[-1]).expand())
        return P, S

    def inverse(self, matrix: sp.Matrix) -> sp.Matrix:
        """The inverse of 1 - matrix is a finite sum, as the matrix is strictly lower triangular."""
        return sum((matrix**k for k in range(1, self.steps)), sp.eye(self.steps)).expand()

    def differences(self) -> Iterator[sp.Expr]:
        """Kets less reflections: of outputs, responses and covariances, everywhere."""
        (x, delta), (P, S, Q, R) = self.kets(), self.reflections()
        yield from x[-1] * self.covariance * self.base("nV").T - P[-1] * self.chi
        for l in range(self.depth + 1):
            G, back = self.inverse(P[l] * Q[l]), self.inverse(Q[l] * P[l])
            yield from x[l] * self.covariance * x[l].T - G * (S[l] + P[l] * R[l] * P[l].T) * G.T
            yield from delta[l] * self.covariance * delta[l].T - back * (R[l] + Q[l] * S[l] * Q[l].T) * back.T
            if l < self.depth:
                yield from self.responses(x[l], "B", l + 1) - EPS * G * P[l] * self.rho
            if l > 0:
                yield from self.responses(delta[l], "F", l) - EPS * back * Q[l] * self.rho


def same_polynomials(steps: int, depth: int) -> bool:
    """Is the reflection form an identity of polynomials in a training of this size?"""
    return all(sp.expand(difference) == 0 for difference in Symbols(steps, depth).differences())
