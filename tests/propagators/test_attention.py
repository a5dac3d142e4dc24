"""Kernels of softmax attention: against many random heads and their gradients, and against their own slopes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tpcalc.propagators.laws.attention import AttentionKernels, AttentionMaps
from tpcalc.propagators.blocks import Grams

Arrays = dict[str, np.ndarray]
DECAYS = (0.8, 0.6)


def slots(positions: int, seed: int = 0, width: int = 5) -> tuple[np.ndarray, ...]:
    """Gram matrices of one slot's rows, between both, and of the other's: (S, S) each, of rows of any length."""
    rows = np.random.default_rng(seed).normal(size=(2 * positions, width))
    gram = rows @ rows.T
    return gram[:positions, :positions], gram[:positions, positions:], gram[positions:, positions:]


def maps(kernels: AttentionKernels, left: np.ndarray, between: np.ndarray, right: np.ndarray,
         decays: tuple[float, float] = DECAYS) -> AttentionMaps:
    one, other = (np.array([decay]) for decay in decays)
    return kernels.at(Grams(between[None, None], left[None], right[None], one[:, None] * other, one**2, other**2))


def heads(kernels: AttentionKernels, grams: tuple[np.ndarray, ...], count: int, rng: np.random.Generator) -> Any:
    """Per head and slot: weights, queries' and keys' parts of gradients by hand, in decayed matrices."""
    left, between, right = grams
    S, d = kernels.positions, kernels.head_dim
    gram = np.block([[left, between], [between.T, right]])
    norms = np.sqrt(np.diag(gram))
    unit = gram / np.outer(norms, norms)
    root = np.linalg.cholesky(unit + 1e-12 * np.eye(2 * S))
    q, k = (rng.normal(size=(count, d, 2 * S)) @ root.T for _ in range(2))
    found = []
    for slot, decay in enumerate(DECAYS):
        here = slice(slot * S, (slot + 1) * S)
        Q, K = decay * q[:, :, here], decay * k[:, :, here]
        logits = np.einsum("hai,haj->hij", Q, K) / d**kernels.power
        if kernels.causal:
            logits = np.where(np.tril(np.ones((S, S), dtype=bool)), logits, -np.inf)
        A = np.exp(logits - logits.max(-1, keepdims=True))
        found.append((A / A.sum(-1, keepdims=True), Q, K))
    return unit[:S, S:], found


def sampled(kernels: AttentionKernels, grams: tuple[np.ndarray, ...], count: int, seed: int) -> tuple[Arrays, Arrays]:
    """Means over heads, and their standard errors, of kappa and of overlaps of gradients."""
    N, ((A, Q, K), (B, P, L)) = heads(kernels, grams, count, np.random.default_rng(seed))
    S, d = kernels.positions, kernels.head_dim
    shared, scale = DECAYS[0] * DECAYS[1], d**(-2 * kernels.power)
    J = A[..., None] * np.eye(S) - A[..., :, None] * A[..., None, :]  # head, query, key, key
    H = B[..., None] * np.eye(S) - B[..., :, None] * B[..., None, :]
    mixed = np.einsum("hijm,jl,hklp->hikmp", J, N, H)
    kappa = np.einsum("hij,jl,hkl->hik", A, N, B)
    of_query = scale * np.einsum("hikmp,ham,hap->hik", mixed, K, L) * N
    of_key = scale * np.einsum("hikmp,hai,hak,mp->hik", mixed, Q, P, N)
    draws = {"kappa": shared**2 * kappa, "v": shared * kappa, "o": shared * kappa, "q": shared**2 * of_query,
             "k": shared**2 * of_key}
    return ({name: x.mean(0) for name, x in draws.items()},
            {name: x.std(0) / np.sqrt(count) for name, x in draws.items()})


CASES = [AttentionKernels(2, 1), AttentionKernels(3, 2, True), AttentionKernels(2, 3, False, 1.0)]


@pytest.mark.parametrize("kernels", CASES)
def test_kernels_are_those_of_many_heads(kernels: AttentionKernels) -> None:
    """With decay; gradients in queries and keys are written out with softmax's derivative."""
    grams = slots(kernels.positions)
    at = maps(kernels, *grams)
    found = {"kappa": at.value("kappa"), **at.tangents()}
    means, errors = sampled(kernels, grams, 20_000, 1)
    for name, mean in means.items():
        z = (found[name][0, 0] - mean) / (errors[name] + 1e-3 * np.max(np.abs(mean)))
        assert np.max(np.abs(z)) < 4.5, (name, z)
    np.testing.assert_allclose(at.value("theta"), sum(at.tangents().values()), rtol=1e-12)


def moved(grams: tuple[np.ndarray, ...], which: int, j: int, l: int, by: float) -> list[np.ndarray]:
    """Gram matrices with one entry moved, of a slot's own with its mirror image."""
    found = [gram.copy() for gram in grams]
    found[which][j, l] += by
    if which == 0 and j != l:
        found[which][l, j] += by
    return found


@pytest.mark.parametrize("kernels", [AttentionKernels(2, 1, log2_points=12), AttentionKernels(3, 3, True, 0.5, 12)])
def test_slopes_are_those_of_values(kernels: AttentionKernels) -> None:
    """Push and pull of kappa, of push, and of theta, in the Gram matrix between slots and in that of the first."""
    S, rng, step = kernels.positions, np.random.default_rng(3), 1e-3
    grams = slots(S, 2)
    weights, r = rng.normal(size=(2, 1, 1, S, S))
    scalars = {
        "kappa": (lambda at: at.value("kappa"), ("kappa", weights, None)),
        "theta": (lambda at: at.value("theta"), ("theta", weights, None)),
        "push": (lambda at: at.push("kappa", r), ("kappa", weights, r))}
    here = maps(kernels, *grams)
    slope = {name: here.pull(*arguments) for name, (_, arguments) in scalars.items()}
    for which in (0, 1):
        for j in range(S):
            for l in range(j + 1 if which == 0 else S):
                up, down = (maps(kernels, *moved(grams, which, j, l, by)) for by in (step, -step))
                for name, (scalar, _) in scalars.items():
                    measured = np.sum(weights * (scalar(up) - scalar(down))) / (2 * step)
                    gradient = slope[name][0][0, 0] if which else slope[name][1][0] * (2 - np.eye(S))
                    error = abs(measured - gradient[j, l]) / np.max(np.abs(gradient))
                    assert error < 0.06, (name, which, j, l, error)
    along = np.sum(weights * here.push("kappa", r))
    assert abs(along - np.sum(slope["kappa"][0] * r)) < 1e-12 * abs(along)


def test_slots_that_coincide() -> None:
    """Nothing is divided by what vanishes there, and kernels do not say which slot came first."""
    kernels = AttentionKernels(3, 2)
    gram, _, _ = slots(3, 4)
    own = kernels.at(Grams(gram[None, None], gram[None], gram[None], np.ones((1, 1)), np.ones(1), np.ones(1)))
    near, between = 1e-6, gram.copy()
    between[:] *= 1 - near
    beside = maps(kernels, gram, between, gram, (1.0, 1.0))
    weights = np.random.default_rng(5).normal(size=(1, 1, 3, 3))
    for one, other in zip(own.pull("theta", weights, None), beside.pull("theta", weights, None)):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-3 * np.max(np.abs(one)))
    for kernel in ("kappa", "theta"):
        value = own.value(kernel)[0, 0]
        np.testing.assert_allclose(value, value.T, rtol=1e-12)


@settings(deadline=None, max_examples=5)
@given(st.integers(2, 4), st.integers(1, 4), st.booleans(), st.sampled_from([0.5, 1.0]), st.integers(0, 99))
def test_groups_of_the_same_step_are_symmetric(positions: int, head_dim: int, causal: bool, power: float,
                                               seed: int) -> None:
    """Covariances of a step's sequences are those of any two, the other way round; repeated rows are no exception."""
    kernels = AttentionKernels(positions, head_dim, causal, power, 6)
    rows = np.random.default_rng(seed).normal(size=(2, positions, 3))
    rows[1, 0] = rows[0, -1]
    between = np.einsum("gid,kjd->gkij", rows, rows)
    left = np.einsum("gid,gjd->gij", rows, rows)
    own = kernels.at(Grams(between, left, left, np.ones((2, 2)), np.ones(2), np.ones(2)))
    weights = np.random.default_rng(seed).normal(size=between.shape)
    weights = weights + np.transpose(weights, (1, 0, 3, 2))
    for found in (own.value("kappa"), own.pull("kappa", weights, None)[0]):
        assert np.all(np.isfinite(found))
        np.testing.assert_allclose(found, np.transpose(found, (1, 0, 3, 2)), rtol=0, atol=1e-12 * np.max(np.abs(found)))
    if causal:
        np.testing.assert_allclose(own.value("kappa")[..., 0, 0] * np.ones((2, 2)),
                                   (between / np.sqrt(np.einsum("gi,kj->gkij", *2 * (np.einsum("gii->gi", left),))))
                                   [..., 0, 0], rtol=1e-12)


def test_refused() -> None:
    with pytest.raises(ValueError, match="positions: got 1; softmax over one position is 1"):
        AttentionKernels(1)
    with pytest.raises(ValueError, match="head_dim: got 0"):
        AttentionKernels(2, 0)
    with pytest.raises(ValueError, match="positions: got rows that are 0"):
        maps(CASES[0], np.zeros((2, 2)), np.zeros((2, 2)), np.eye(2))
