"""Values of the exact methods as balls of 25 digits, by python-flint: run by hand, prints JSON.

Nothing of tpcalc is used. At finite depth kets are dictionaries over base kets, as in definition C.1 of Tensor Programs
VI, with balls for coefficients. At infinite depth the row of a step is a linear system in layer time, solved by its
power series; the residual and Gronwall's inequality bound what the series leaves out, so that a ball holds the limit
itself. Kernels of networks that are not trained are iterated layer by layer. Cases whose balls determine fewer digits
are drawn again.

    pip install python-flint==0.9.0
    python tests/references/reference_balls.py > tests/references/reference_balls.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Callable, Hashable, Iterable

import numpy as np
from flint import arb, arb_poly, ctx

ctx.prec = 1200  # bits; balls that are wider than 25 digits in the end are an error
DIGITS = 25
EACH = 50   # cases of a method

Matrix = list[list[Any]]


# ---- finite depth: kets are dictionaries -----------------------------------------------------------------------------

Ket = dict[Hashable, arb]


def add(ket: Ket, factor: arb, other: Ket) -> Ket:
    total = dict(ket)
    for base, coefficient in other.items():
        total[base] = total.get(base, arb(0)) + factor * coefficient
    return total


class Kets:
    """Training of a linear residual network, one input a step: every vector as its ket."""

    def __init__(self, depth: int, eps: arb, g: arb, rho: list[arb], w: Matrix) -> None:
        self.depth, self.eps, self.g, self.rho, self.w = depth, eps, g, rho, w
        self.x: dict[tuple[int, int], Ket] = {}
        self.delta: dict[tuple[int, int], Ket] = {}

    def bracket(self, one: Ket, two: Ket) -> arb:
        return sum((c * d * self.overlap(a, b) for a, c in one.items() for b, d in two.items()), arb(0))

    def overlap(self, one: Any, two: Any) -> arb:
        if one[0] != two[0] or one[1] != two[1]:
            return arb(0)
        if one[0] == "F":
            return self.bracket(self.x[one[2], one[1] - 1], self.x[two[2], one[1] - 1])
        if one[0] == "B":
            return self.bracket(self.delta[one[2], one[1]], self.delta[two[2], one[1]])
        return arb(1)

    def product(self, kind: str, layer: int, step: int, ket: Ket) -> Ket:
        """W_t, or its transpose, times a vector: hat, dots, and what updates add."""
        result: Ket = {(kind, layer, step): self.rho[step]}
        for s in range(step):
            dot, partner, old = (("B", layer, s), self.delta[s, layer], self.x[s, layer - 1]) if kind == "F" else (
                ("F", layer, s), self.x[s, layer - 1], self.delta[s, layer])
            factor = self.rho[step] * ket.get(dot, arb(0)) - self.g * self.w[step][s] * self.bracket(old, ket)
            result = add(result, factor, partner)
        return result

    def train(self, inputs: list[arb], targets: list[arb]) -> list[arb]:
        outputs = []
        for t, (xi, y) in enumerate(zip(inputs, targets)):
            self.x[t, 0] = {("U", 0): xi}
            for layer in range(1, self.depth + 1):
                before = self.x[t, layer - 1]
                self.x[t, layer] = add(before, self.eps, self.product("F", layer, t, before))
            outputs.append(self.x[t, self.depth].get(("nV", 0), arb(0)))
            self.delta[t, self.depth] = {("nV", 0): outputs[-1] - y}
            for layer in range(self.depth, 0, -1):
                after = self.delta[t, layer]
                self.delta[t, layer - 1] = add(after, self.eps, self.product("B", layer, t, after))
        return outputs


# ---- infinite depth: power series in layer time, with what they leave out --------------------------------------------

TERMS = 240


class Series:
    """A function on 0 <= u <= 1: a polynomial of ``TERMS`` coefficients, and a bound of what it is off by."""

    def __init__(self, poly: arb_poly, left: arb = arb(0)) -> None:
        self.poly, self.left = poly, left

    def __add__(self, other: "Series") -> "Series":
        return Series(self.poly + other.poly, self.left + other.left)

    def __mul__(self, other: "Series") -> "Series":
        full = (self.poly * other.poly).coeffs()
        left = size(full[TERMS:]) + self.left * other.bound() + other.left * self.bound() + self.left * other.left
        return Series(arb_poly(full[:TERMS]), left)

    def times(self, factor: Any) -> "Series":
        return Series(self.poly * arb(factor), self.left * abs(arb(factor)))

    def bound(self) -> arb:
        """No value on [0, 1] is larger."""
        return size(self.poly.coeffs()) + self.left

    def at_end(self) -> arb:
        return self.poly(arb(1)) + arb(0, self.left.upper())

    def turned(self) -> "Series":
        """The function of 1 - u."""
        return Series(self.poly(arb_poly([1, -1])), self.left)


def size(coefficients: list[arb]) -> arb:
    return sum((abs(c) for c in coefficients), arb(0))


def constant(value: Any) -> Series:
    return Series(arb_poly([arb(value)]))


def product(*factors: Matrix) -> Matrix:
    found = factors[0]
    for other in factors[1:]:
        found = [[sum((row[m] * other[m][b] for m in range(len(other))), constant(0)) for b in range(len(other[0]))]
                 for row in found]
    return found


def plus(*terms: Matrix) -> Matrix:
    return [[sum((m[a][b] for m in terms), constant(0)) for b in range(len(terms[0][0]))] for a in range(len(terms[0]))]


def transposed(matrix: Matrix) -> Matrix:
    return [list(column) for column in zip(*matrix)]


def inverse_of_one_less(nilpotent: Matrix) -> Matrix:
    power = total = [[constant(int(a == b)) for b in range(len(nilpotent))] for a in range(len(nilpotent))]
    for _ in range(len(nilpotent) - 1):
        power = product(power, nilpotent)
        total = plus(total, power)
    return total


def solve(matrix: Matrix, drive: list[Series], start: list[arb]) -> list[Series]:
    """The row y with y' = y M + v and y(0) given: its power series, and Gronwall's bound of what that leaves out."""
    unknowns = range(len(start))
    inner = [[m.poly.coeffs() for m in row] for row in matrix]
    outer = [v.poly.coeffs() for v in drive]
    found = [[value] for value in start]
    for n in range(TERMS - 1):
        following = []
        for b in unknowns:
            total = outer[b][n] if n < len(outer[b]) else arb(0)
            for a in unknowns:
                c = inner[a][b]
                total += sum((found[a][n - k] * c[k] for k in range(min(n + 1, len(c)))), arb(0))
            following.append(total / (n + 1))
        for b in unknowns:
            found[b].append(following[b])
    rows = [Series(arb_poly(c)) for c in found]
    norm = max((sum((row[b].bound() for row in matrix), arb(0)) for b in unknowns), key=lambda c: float(c.upper()))
    wrong = arb(0)
    for b in unknowns:
        right = product([rows], matrix)[0][b] + drive[b] if rows else drive[b]
        wrong += (right + Series(rows[b].poly.derivative()).times(-1)).bound()
    return [Series(row.poly, wrong * norm.exp()) for row in rows]


def limit(inputs: list[arb], targets: list[arb], w: Matrix, rho: list[arb], noise: int) -> list[arb]:
    """Outputs at infinite depth; noise: 1 at alpha = gamma = 1/2, 0 where initial matrices add up to nothing.

    Of one step after the other: its rows of P and S, a linear system in layer time with what earlier steps left for
    coefficients; then its rows of Q and R, the same system seen from the other end.
    """
    P: Matrix = []
    S: Matrix = []
    Q: Matrix = []
    R: Matrix = []
    outputs: list[arb] = []
    signals: list[arb] = []
    for t, (xi, y) in enumerate(zip(inputs, targets)):
        P, S = with_row(P, S, Q, R, [xi * other for other in inputs[:t + 1]], w, rho, noise)
        outputs.append(sum((P[t][s].at_end() * signals[s] for s in range(t)), arb(0)))
        signals.append(outputs[-1] - y)
        Q, R = ([[e.turned() for e in row] for row in m] for m in (Q, R))
        turned = [[[e.turned() for e in row] for row in m] for m in (P, S)]
        Q, R = with_row(Q, R, *turned, [signals[t] * other for other in signals], w, rho, noise)
        Q, R = ([[e.turned() for e in row] for row in m] for m in (Q, R))
    return outputs


def with_row(P: Matrix, S: Matrix, Q: Matrix, R: Matrix, start: list[arb], w: Matrix, rho: list[arb], noise: int
             ) -> tuple[Matrix, Matrix]:
    """P and S with one more row; Q and R of the other direction may have it already, or not.

    A = rr o GP - w o C0, B = rr o G'Q - w o C1 in earlier columns; P' = A + P B P; S' = rr o C0 + P (rr o C1) P^T +
    P B S + (P B S)^T.
    """
    t = len(P)
    old = range(t)
    weight = [[arb(noise) * rho[a] * rho[b] for b in range(t + 1)] for a in range(t + 1)]
    Q0, R0 = [row[:t] for row in Q[:t]], [row[:t] for row in R[:t]]
    p: list[Series] = []
    s: list[Series] = []
    if t:
        G, F = inverse_of_one_less(product(P, Q0)), inverse_of_one_less(product(Q0, P))
        middle = plus(R0, product(Q0, S, transposed(Q0)))
        c1 = product(F, middle, transposed(F))
        back = product(F, Q0)
        B = [[back[a][b].times(weight[a][b]) + c1[a][b].times(-w[a][b]) if b < a else constant(0) for b in old]
             for a in old]
        N1 = [[c1[a][b].times(weight[a][b]) for b in old] for a in old]
        Z = product(F, plus(product(Q0, S), product(R0, transposed(P))), transposed(G))
        H = transposed(G)                                     # the row c = p Z + s H of C0
        BP, own = product(B, P), plus(product(N1, transposed(P)), product(B, S))
        PB = transposed(product(P, B))
        matrix = [[constant(0) for _ in range(2 * t)] for _ in range(2 * t)]
        for a in old:
            for b in old:
                matrix[a][b] = F[a][b].times(weight[t][b]) + Z[a][b].times(-w[t][b]) + BP[a][b]
                matrix[t + a][b] = H[a][b].times(-w[t][b])
                matrix[a][t + b] = Z[a][b].times(weight[t][b]) + own[a][b]
                matrix[t + a][t + b] = H[a][b].times(weight[t][b]) + PB[a][b]
        row = solve(matrix, [constant(0)] * (2 * t), [arb(0)] * t + start[:t])
        p, s = row[:t], row[t:]
        g = product([p], Q0, G)[0]                            # the row of G, but for its 1
        known = plus(S, product(P, R0, transposed(P)))
        mixed = plus([s], product([p], R0, transposed(P)))
        c = plus([mixed[0]], [mixed[0]])
        drive = (product(c, transposed([g])) + product([p], R0, transposed([p])) + product([g], known, transposed([g])))
        passing = product([p], N1, transposed([p]))[0][0] + product([p], B, transposed([s]))[0][0].times(2)
        whole = sum((line[0] for line in drive), constant(0)).times(weight[t][t]) + passing
    else:
        whole = constant(0)
    (last,) = solve([[constant(weight[t][t])]], [whole], [start[t]])
    wider = [[*line, constant(0)] for line in P] + [[*p, constant(0)]]
    return wider, [[*line, s[a]] for a, line in enumerate(S)] + [[*s, last]]


# ---- kernels of networks that are not trained ------------------------------------------------------------------------


def arc_cosine(a: arb, b: arb, c: arb) -> tuple[arb, arb]:
    """E relu(u) relu(v) and E relu'(u) relu'(v) for variances a, b and covariance c."""
    size = (a * b).sqrt()
    cosine = c / size
    angle = cosine.acos()
    rest = arb.pi() - angle
    return size * (angle.sin() + rest * cosine) / (2 * arb.pi()), rest / (2 * arb.pi())


def arc_sine(a: arb, b: arb, c: arb) -> tuple[arb, arb]:
    """E erf(u) erf(v) and E erf'(u) erf'(v)."""
    one, two = 1 + 2 * a, 1 + 2 * b
    return 2 / arb.pi() * (2 * c / (one * two).sqrt()).asin(), 4 / arb.pi() / (one * two - 4 * c * c).sqrt()


def kernels(pair: Callable[[arb, arb, arb], tuple[arb, arb]], a: arb, b: arb, c: arb, depth: int) -> tuple[arb, arb]:
    """NNGP and tangent kernel of x + L^(-1/2) W phi(x), read on the stream, ends frozen."""
    tangent, eps2 = arb(0), arb(1) / depth
    for _ in range(depth):
        value, slope = pair(a, b, c)
        tangent = tangent + eps2 * (slope * tangent + value)
        a, b, c = a + eps2 * square(pair, a), b + eps2 * square(pair, b), c + eps2 * value
    return c, tangent


def square(pair: Callable[[arb, arb, arb], tuple[arb, arb]], a: arb) -> arb:
    """E phi(u)^2; at equal arguments the angle is exactly 0."""
    return a / 2 if pair is arc_cosine else 2 / arb.pi() * (2 * a / (1 + 2 * a)).asin()


# ---- what is printed -------------------------------------------------------------------------------------------------


class TooWide(Exception):
    """A ball does not determine as many digits as are kept."""


def text(value: arb) -> str:
    if value.rad() * 10**DIGITS > max(abs(float(value.mid())), 1e-3):
        raise TooWide(str(value))
    return str(value.mid().str(DIGITS + 3, radius=False))


def balls(values: Iterable[float]) -> list[arb]:
    return [arb(float(v)) for v in values]


def drawn(rng: np.random.Generator, steps: int, rates: tuple[float, ...]) -> dict[str, Any]:
    xi, y = np.round(rng.uniform(-1.2, 1.2, (2, steps)), 6).tolist()
    momentum, decay = [(0.0, 0.0), (0.5, 0.0), (0.0, 0.125)][rng.integers(3)]
    return {"xi": xi, "y": y, "rate": float(rng.choice(rates)), "momentum": momentum, "decay": decay}


def memory(case: dict[str, Any]) -> tuple[list[arb], Matrix]:
    """rho_t and w_ts of W_t = shrink W_(t-1) - rate v_t, v_t = momentum v_(t-1) + gradient."""
    steps, rate, momentum = len(case["xi"]), arb(case["rate"]), arb(case["momentum"])
    shrink = 1 - rate * arb(case["decay"])
    w = [[arb(0)] * steps for _ in range(steps)]
    for s in range(steps):
        for t in range(s + 1, steps):
            w[t][s] = shrink * w[t - 1][s] + rate * momentum**(t - 1 - s)
    return [shrink**t for t in range(steps)], w


def finite_case(rng: np.random.Generator, number: int) -> dict[str, Any]:
    case = drawn(rng, 2 + number % 2, (0.25, 0.5, 1.0, 1.5))
    alpha, gamma = [(0.5, 0.5), (1.0, 0.0), (0.75, 0.25), (0.5, 0.75)][rng.integers(4)]
    case.update(depth=int(rng.integers(1, 7)), alpha=alpha, gamma=gamma)
    kets = Kets(case["depth"], arb(case["depth"])**arb(-alpha), arb(case["depth"])**arb(-gamma), *memory(case))
    return {**case, "f": [text(f) for f in kets.train(balls(case["xi"]), balls(case["y"]))]}


def limit_case(rng: np.random.Generator, number: int) -> dict[str, Any]:
    steps = (2, 3, 3, 3, 4)[number % 5]
    case = drawn(rng, steps, (0.25, 0.5) if steps == 4 else (0.25, 0.5, 1.0, 1.5))
    case["alpha"] = float(rng.choice([0.5, 0.75, 1.0]))
    rho, w = memory(case)
    found = limit(balls(case["xi"]), balls(case["y"]), w, rho, int(case["alpha"] == 0.5))
    return {**case, "f": [text(f) for f in found]}


def kernel_case(rng: np.random.Generator, number: int) -> dict[str, Any]:
    phi, depth = ("relu", "erf")[number % 2], int(rng.choice([1, 2, 5, 17, 64]))
    one, two = np.round(rng.uniform(-1.2, 1.2, (2, 2)), 6).tolist()
    (p, q), (r, s) = balls(one), balls(two)
    pair = arc_cosine if phi == "relu" else arc_sine
    nngp, ntk = kernels(pair, p * p + q * q, r * r + s * s, p * r + q * s, depth)
    return {"phi": phi, "x": [one, two], "depth": depth, "nngp": text(nngp), "ntk": text(ntk)}


def cases(draw: Callable[[np.random.Generator, int], dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """As many as are kept; what is drawn and has too wide a ball is drawn again."""
    rng, found = np.random.default_rng(seed), []
    while len(found) < EACH:
        try:
            found.append(draw(rng, len(found)))
        except TooWide:
            continue
    return found


if __name__ == "__main__":
    everything = {"finite": cases(finite_case, 1), "limit": cases(limit_case, 2), "kernels": cases(kernel_case, 3)}
    kept = Path(__file__).with_suffix(".json")
    if "--check" not in sys.argv:
        lines = [f'"{name}": [\n' + ",\n".join(map(json.dumps, found)) + "\n]" for name, found in everything.items()]
        print("{" + ",\n".join(lines) + "}")
    elif json.loads(kept.read_text()) != everything:
        raise SystemExit(f"{kept.name} is not what this script prints")
    else:
        print(f"{kept.name}: {3 * EACH} cases, as printed")
