"""The sweep of one row through layer time against whole matrices with their inverses; compiled or as plain Python."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings, strategies as st

from tpcalc.kernels import collocation_row as kernel
from tpcalc.propagators.mesh import between, reference

RULES = (40, 10, 2e-14, 2e-13, 1e-2)  # iterations, before divergence is looked for; settled, stagnant, unresolved
NONE = np.zeros((0, 0))


class Known(NamedTuple):
    """What earlier steps left at the nodes, whole matrices (nodes, m, m), and the law of the step."""

    P: np.ndarray
    Q: np.ndarray
    S: np.ndarray
    R: np.ndarray
    A: np.ndarray
    B: np.ndarray
    noise: float
    rho: np.ndarray      # (m + 1,)
    drift: np.ndarray    # (m,)


def inverse(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.linalg.inv(np.eye(p.shape[-1]) - p @ q)


def covariance(p: np.ndarray, q: np.ndarray, s: np.ndarray, r: np.ndarray) -> np.ndarray:
    g = inverse(p, q)
    return g @ (s + p @ r @ p.T) @ g.T


def rates(p: np.ndarray, s: np.ndarray, q: np.ndarray, r: np.ndarray, a: np.ndarray, b: np.ndarray, known: Known
          ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """G P, C0, and P' and S' of the last row from whole matrices, (m + 1, m + 1) each; ``a`` lacks its last row."""
    rr = known.noise * np.outer(known.rho, known.rho)
    response, c0, c1 = inverse(p, q) @ p, covariance(p, q, s, r), covariance(q, p, r, s)
    a = a.copy()
    a[-1, :-1] = (rr * response)[-1, :-1] - known.drift * c0[-1, :-1]
    crossed = p @ b @ s
    return response, c0, a + p @ b @ p, rr * c0 + p @ (rr * c1) @ p.T + crossed + crossed.T


def bordered(matrix: np.ndarray, row: np.ndarray | None = None, own: float = 0.0, symmetric: bool = False
             ) -> np.ndarray:
    whole = np.zeros((len(matrix) + 1,) * 2)
    whole[:-1, :-1] = matrix
    if row is not None:
        whole[-1, :-1], whole[-1, -1] = row, own
        if symmetric:
            whole[:-1, -1] = row
    return whole


def draw_known(seed: int, m: int, nodes: int, noise: float) -> Known:
    """Smooth in layer time, but otherwise any: the sweep does not ask where they come from."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, nodes)[:, None, None]
    smooth = lambda: (rng.normal(size=(m, m)) + t * rng.normal(size=(m, m))) / 2
    strict = lambda: np.tril(smooth(), -1)
    cov = lambda: (lambda x: x @ x.transpose(0, 2, 1))(smooth())
    return Known(strict(), strict(), cov(), cov(), strict(), strict(), noise, rng.uniform(0.5, 1, m + 1),
                 rng.normal(size=m))


def packed(stack: np.ndarray, symmetric: bool, rows: int) -> np.ndarray:
    """Triangles of a stack of matrices, with room for ``rows`` rows."""
    row, column = np.tril_indices(stack.shape[-1], 0 if symmetric else -1)
    result = np.zeros((len(stack), rows * (rows + (1 if symmetric else -1)) // 2))
    result[:, :len(row)] = stack[:, row, column]
    return result


def arrays(known: Known) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """P, S, A, C, r with room for one row more, and Q, R, B, D."""
    n, nodes = known.P.shape[-1] + 1, range(len(known.P))
    P, Q, S, R, A, B = known[:6]
    C, D = (np.array([covariance(p[k], q[k], s[k], r[k]) for k in nodes])
            for p, q, s, r in ((P, Q, S, R), (Q, P, R, S)))
    response = np.array([inverse(P[k], Q[k]) @ P[k] for k in nodes])
    mine = [packed(a, a is S or a is C, n) for a in (P, S, A, C, response)]
    return mine, [packed(a, a is R or a is D, n) for a in (Q, R, B, D)]


def law(known: Known) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, float]:
    noise, rho, m = known.noise, known.rho, len(known.drift)
    return noise, rho, noise * rho[m] * rho[:m], -known.drift, noise * rho[m]**2


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 6), st.sampled_from([0.0, 0.7]))
def test_a_slope_is_the_last_row_of_the_matrix_equations(seed: int, m: int, noise: float) -> None:
    known = draw_known(seed, m, 1, noise)
    (P, S, _, C, r), (Q, R, B, D) = arrays(known)
    y = np.random.default_rng(seed + 1).normal(size=2 * m + 1)
    p, s, own = y[:m], y[m:2 * m], y[2 * m]
    out, row_r, row_c = np.empty(2 * m + 1), np.empty(m), np.empty(m)
    crossed = kernel.row_slope(m, *law(known), y, P[0], S[0], C[0], r[0], Q[0], R[0], B[0], D[0], out, row_r, row_c,
                               np.empty((9, m)))
    q, right, a, b = (bordered(x[0]) for x in (known.Q, known.R, known.A, known.B))
    response, c0, slope_p, slope_s = rates(bordered(known.P[0], p), bordered(known.S[0], s, own, True), q, right, a, b,
                                           known)
    size = 1 + max(np.max(np.abs(x)) for x in (c0, slope_p, slope_s))
    for value, expected in ((row_r, response[-1, :-1]), (row_c, c0[-1, :-1]), (own + crossed, c0[-1, -1]),
                            (out[:m], slope_p[-1, :-1]), (out[m:], slope_s[-1])):
        np.testing.assert_allclose(value, expected, rtol=0, atol=1e-12 * size)


def swept(known: Known, forward: bool, row: np.ndarray, halves: np.ndarray, nodes: int, rules: Any = RULES,
          near: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None, passed: int = 0
          ) -> tuple[int, np.ndarray, list[np.ndarray]]:
    """How many elements were passed, the row where it ends, and P, S, A, C, r after it."""
    mine, other = arrays(known)
    points, coefficients, integral = reference(nodes)
    row = row.copy()
    between_, near_P, near_S = (np.zeros((nodes, 0)), NONE, NONE) if near is None else near
    end = kernel.sweep(forward, len(known.drift), passed, halves, points, integral, coefficients[-2:], rules,
                       *law(known), row, *mine, *other, between_, near_P, near_S)
    return end, row, mine


HALVES, NODES = np.array([0.2, 0.1]), 8


def problem(seed: int, m: int, noise: float) -> tuple[Known, np.ndarray]:
    known = draw_known(seed, m, 2 * NODES - 1, noise)
    return known, np.random.default_rng(seed + 1).normal(size=2 * m + 1)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([0.0, 0.7]))
def test_stored_rows_solve_the_collocation_equations(seed: int, m: int, noise: float) -> None:
    """Nodal values are what enters plus integrals of the slopes of whole matrices; A, C and r belong to them."""
    known, start = problem(seed, m, noise)
    passed, end, mine = swept(known, True, start, HALVES, NODES)
    assert passed == 2
    strict, lower = slice(m * (m - 1) // 2, None), slice(m * (m + 1) // 2, None)
    P, A, r = (mine[k][:, strict] for k in (0, 2, 4))
    S, C = (mine[k][:, lower] for k in (1, 3))
    slopes = np.zeros((2 * NODES - 1, 2 * m + 1))
    for k in range(2 * NODES - 1):
        q, right, a, b = (bordered(x[k]) for x in (known.Q, known.R, known.A, known.B))
        p, s = bordered(known.P[k], P[k]), bordered(known.S[k], S[k, :-1], S[k, -1], True)
        response, c0, slope_p, slope_s = rates(p, s, q, right, a, b, known)
        slopes[k] = np.concatenate([slope_p[-1, :-1], slope_s[-1]])
        np.testing.assert_allclose(r[k], response[-1, :-1], rtol=0, atol=1e-11 * (1 + np.max(np.abs(response))))
        np.testing.assert_allclose(C[k], c0[-1], rtol=0, atol=1e-11 * (1 + np.max(np.abs(c0))))
        added = noise * known.rho[m] * known.rho[:m] * response[-1, :-1] - known.drift * c0[-1, :-1]
        np.testing.assert_allclose(A[k], added, rtol=0, atol=1e-11 * (1 + np.max(np.abs(added))))
    rows, entered = np.concatenate([P, S], axis=-1), start
    for e, half in enumerate(HALVES):
        inside = slice(e * (NODES - 1), (e + 1) * (NODES - 1) + 1)
        expected = entered + half * reference(NODES)[2] @ slopes[inside]
        np.testing.assert_allclose(rows[inside], expected, rtol=0, atol=1e-11 * (1 + np.max(np.abs(expected))))
        entered = rows[inside][-1]
    np.testing.assert_array_equal(end, entered)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_backward_is_forward_in_mirrored_layers(seed: int, m: int) -> None:
    known, start = problem(seed, m, 0.7)
    passed, end, mine = swept(known, True, start, HALVES, NODES)
    mirrored = Known(*(a[::-1].copy() for a in known[:6]), *known[6:])
    again, other_end, other = swept(mirrored, False, start, HALVES[::-1].copy(), NODES)
    assert passed == again == 2
    np.testing.assert_array_equal(end, other_end)
    for one, two in zip(mine, other):
        np.testing.assert_array_equal(one, two[::-1])


def test_passengers_end_where_rows_do_and_leave_no_trace() -> None:
    known, start = problem(5, 3, 0.7)
    before, _ = arrays(known)
    _, end, kept = swept(known, True, start, HALVES, NODES)
    _, passenger, after = swept(known, True, start[:-1], HALVES, NODES)
    np.testing.assert_allclose(passenger, end[:-1], rtol=0, atol=1e-13 * np.max(np.abs(end)))
    assert all(np.array_equal(one, two) for one, two in zip(before, after))
    assert not any(np.array_equal(one, two) for one, two in zip(before, kept))


def test_rows_of_a_coarser_mesh_are_a_start_and_no_more() -> None:
    """A good one is enough for few iterations, a wrong one does not change the answer."""
    known, start = problem(6, 3, 0.7)
    _, end, mine = swept(known, True, start, HALVES, NODES)
    few = (4,) + RULES[1:]
    assert swept(known, True, start, HALVES, NODES, few)[0] == 0
    passed, good, _ = swept(known, True, start, HALVES, NODES, few, (between(NODES, NODES), mine[0], mine[1]))
    assert passed == 2
    _, wrong, _ = swept(known, True, start, HALVES, NODES, RULES, (between(NODES, NODES), -mine[0], mine[1] + 1))
    for other in (good, wrong):
        np.testing.assert_allclose(other, end, rtol=0, atol=1e-12 * np.max(np.abs(end)))


def test_it_stops_before_the_element_that_is_too_long() -> None:
    """Where iterations diverge, where the row is not resolved, where it is not finite; and goes on from there."""
    known, start = problem(7, 3, 0.7)
    _, between_elements, _ = swept(known, True, start, HALVES[:1], NODES)
    for long, rules in ((300.0, RULES), (1e200, RULES), (0.1, RULES[:4] + (1e-30,))):
        halves = np.array([0.2, long])
        with np.errstate(over="ignore", invalid="ignore"):
            passed, row, _ = swept(known, True, start, halves, NODES, rules)
        assert passed == (1 if rules == RULES else 0)
        np.testing.assert_array_equal(row, between_elements if passed else start)
    _, end, mine = swept(known, True, start, HALVES, NODES)
    passed, again, _ = swept(known, True, between_elements, HALVES, NODES, passed=1)
    assert passed == 2
    np.testing.assert_array_equal(again, end)


def test_as_many_iterations_are_made_as_are_allowed() -> None:
    """Where slopes are 0 the first makes the row what has entered, and the second finds nothing to change."""
    known = draw_known(0, 2, 2 * NODES - 1, 0.0)
    known = Known(*(np.zeros_like(a) for a in known[:6]), 0.0, known.rho, 0 * known.drift)
    row = np.array([0.3, -0.2, 0.5, 0.7, 1.1])
    for most, passed in ((1, 0), (2, len(HALVES))):
        end, carried, _ = swept(known, True, row, HALVES, NODES, (most, *RULES[1:]))
        assert end == passed and np.array_equal(carried, row)
