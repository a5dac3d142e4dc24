"""The reflection kernels against whole matrices with their inverses, with any rho and any update kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.closeness import assert_close
from support.slow import Reflections, reflections
from tpcalc.kernels import reflection, reflection_block, reflection_row
from tpcalc.kernels.products import FEW

# round-off of order-one numbers through at most 5 layers and 21 rows; one is triangular, the other inverts
TOLERANCE = 1e-12


class Problem:
    """Random Gram matrices, decay factors and an update kernel as momentum would have."""

    def __init__(self, depth: int, steps: int, rows: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        n = steps * rows
        self.depth, self.steps, self.rows, self.n = depth, steps, rows, n
        self.eps, self.g = 0.6 * depth**-0.5, 0.8 * depth**-0.5
        self.rho = np.repeat(rng.uniform(0.7, 1.1, size=steps), rows)
        step = np.arange(n) // rows
        self.w = rng.uniform(-0.3, 1.0, size=(n, n)) * (step[None, :] < step[:, None]) / rows
        x, chi = rng.normal(size=(n, 3)) / 2, rng.normal(size=(n, 2)) / 2
        self.xi, self.chi = x @ x.T, chi @ chi.T
        passenger = rng.normal(size=(4, 3)) / 2
        self.passengers = passenger @ x.T

    @property
    def physics(self) -> tuple[float, float, np.ndarray]:
        return self.eps, self.g, self.rho

    def slow(self) -> Reflections:
        return reflections(self.depth, self.steps, self.eps, self.g, self.rho, self.w, self.xi, self.chi)

    def slow_with_passengers(self, t: int) -> np.ndarray:
        """P^L of the passengers if they were the rows of step t: found by putting them there."""
        m = t * self.rows
        xi = self.xi[:m + self.rows, :m + self.rows].copy()
        ends = []
        for row in self.passengers:
            xi[m:, :m], xi[:m, m:] = row[:m], row[:m, None]
            known = slice(0, m + self.rows)
            ends.append(reflections(self.depth, t + 1, self.eps, self.g, self.rho[known], self.w[known, known], xi,
                                    self.chi[known, known]).P[-1, m, :m])
        return np.array(ends)


@pytest.mark.parametrize("kernel", [reflection, reflection_block])
@pytest.mark.parametrize("depth, steps, rows", [(1, 3, 1), (4, 4, 1), (3, 3, 2), (5, 1, 3), (3, 4, FEW + 1)])
def test_block_kernels_are_the_matrix_recursion(depth: int, steps: int, rows: int, kernel: Any,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflection_block, "TILE", 4)
    problem = Problem(depth, steps, rows, seed=depth + 10 * rows)
    n = problem.n
    P, S, G, Q, R, GT = (np.zeros((depth + 1, n, n)) for _ in range(6))
    A, B, C0, C1 = (np.zeros((depth, n, n)) for _ in range(4))
    for t in range(steps):
        m, here = t * rows, slice(t * rows, (t + 1) * rows)
        w, rho_row = problem.w[m, :m].copy(), problem.rho[m]
        problem.w[here, :m] = w  # the rows of a step share their update kernel
        aside = problem.passengers[:, :m].copy()
        ends = np.zeros_like(aside)
        assert kernel.sweep(True, m, *problem.physics, rho_row, w, ends, aside, np.zeros((4, 4)), False,
                            P, S, G, A, C0, Q, R, B, C1) == 0
        assert_close(ends, problem.slow_with_passengers(t), TOLERANCE, 1.0)
        for forward, ends in ((True, problem.xi), (False, problem.chi)):
            mine, other = ((P, S, G, A, C0), (Q, R, B, C1)) if forward else ((Q, R, GT, B, C1), (P, S, A, C0))
            passed = kernel.sweep(forward, m, *problem.physics, rho_row, w, np.zeros((rows, m)),
                                  ends[here, :m].copy(), ends[here, here].copy(), True, *mine, *other)
            assert passed == 0
    slow = problem.slow()
    for name, fast in (("P", P), ("S", S), ("Q", Q), ("R", R), ("A", A), ("B", B), ("C0", C0), ("C1", C1)):
        assert_close(fast, getattr(slow, name), TOLERANCE, 1e-3)
    assert_close(G[:-1], slow.G[:-1], TOLERANCE)  # a forward sweep stops at node L, a backward one at node 0
    assert_close(GT[1:], slow.GT[1:], TOLERANCE)


@pytest.mark.parametrize("depth, steps", [(1, 3), (4, 5), (5, 2)])
def test_packed_kernel_is_the_matrix_recursion(depth: int, steps: int) -> None:
    problem = Problem(depth, steps, 1, seed=depth)
    n, triangle = steps, steps * (steps - 1) // 2
    P, G, Q, GT = (np.zeros((depth + 1, triangle)) for _ in range(4))
    S, R = (np.zeros((depth + 1, triangle + n)) for _ in range(2))
    A, B = (np.zeros((depth, triangle)) for _ in range(2))
    C0, C1 = (np.zeros((depth, triangle + n)) for _ in range(2))
    for t in range(steps):
        w, rho_row = problem.w[t, :t].copy(), problem.rho[t]
        for row, expected in zip(problem.passengers, problem.slow_with_passengers(t)):
            end = np.zeros(t)
            assert reflection_row.sweep(True, t, *problem.physics, rho_row, w, end, row[:t].copy(), 0.0, False,
                                        P, S, G, A, C0, Q, R, B, C1) == 0
            assert_close(end, expected, TOLERANCE, 1.0)
        for forward, ends in ((True, problem.xi), (False, problem.chi)):
            mine, other = ((P, S, G, A, C0), (Q, R, B, C1)) if forward else ((Q, R, GT, B, C1), (P, S, A, C0))
            passed = reflection_row.sweep(forward, t, *problem.physics, rho_row, w, np.zeros(t), ends[t, :t].copy(),
                                          ends[t, t], True, *mine, *other)
            assert passed == 0
    slow = problem.slow()
    rows, columns = np.tril_indices(n, -1)
    for name, fast in (("P", P), ("Q", Q), ("A", A), ("B", B)):
        assert_close(fast, getattr(slow, name)[:, rows, columns], TOLERANCE, 1e-3)
    assert_close(G[:-1], slow.G[:-1, rows, columns], TOLERANCE, 1e-3)
    assert_close(GT[1:], slow.GT[1:, rows, columns], TOLERANCE, 1e-3)
    weight = problem.eps**2 * np.outer(problem.rho, problem.rho)
    rows, columns = np.tril_indices(n)
    for name, fast, factor in (("S", S, 1), ("R", R, 1), ("C0", C0, weight), ("C1", C1, weight)):
        assert_close(fast, (factor * getattr(slow, name))[:, rows, columns], TOLERANCE)


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("kernel", [reflection, reflection_block, reflection_row])
def test_a_sweep_stops_where_values_cease_to_be_finite(kernel: Any, forward: bool) -> None:
    """It returns the layers passed: here the third from where it starts adds what is not finite."""
    depth, bad = 5, 3 if forward else 2
    packed = kernel is reflection_row
    square = (lambda k: np.zeros((k, 2, 2))) if not packed else (lambda k: np.zeros((k, 1)))
    full = (lambda k: np.zeros((k, 2, 2))) if not packed else (lambda k: np.zeros((k, 3)))
    own = [square(depth + 1), full(depth + 1), square(depth + 1), square(depth), full(depth)]
    other = [square(depth + 1), full(depth + 1), square(depth), full(depth)]
    first = (slice(None), 0) if packed else (slice(None), 0, 0)
    own[1][first] = 1.0
    own[1][(bad, *first[1:])] = np.inf  # S of the earlier row, where the sweep arrives
    p, s, diagonal = (np.ones(1), np.ones(1), 1.0) if packed else (np.ones((1, 1)), np.ones((1, 1)), np.ones((1, 1)))
    other[2][...] = 1.0 if not packed else 0.0  # B, through which p reads S
    with np.errstate(all="ignore"):
        passed = kernel.sweep(forward, 1, 0.5, 0.5, np.ones(2), 1.0, np.ones(1), p, s, diagonal, True, *own, *other)
    assert passed == 3
