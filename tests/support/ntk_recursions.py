"""The layerwise recursions of the meta-principled paper, (3.7), (4.2) and (4.5), typed as printed, for one tanh
perceptron and one input: a second way to tangent kernels and their differentials of type I. Nothing of tpcalc is
used."""

from __future__ import annotations

from typing import Sequence

import numpy as np

Tensors = tuple[np.ndarray, np.ndarray, np.ndarray]


def differentials(weights: Sequence[np.ndarray], biases: Sequence[np.ndarray], weight_rates: Sequence[float],
                  bias_rates: Sequence[float], x: np.ndarray) -> Tensors:
    """H (n, n), dH (n, n, n) and type-I ddH (n, n, n, n) of the last layer; rates: those of single entries."""
    z = weights[0] @ x + biases[0]
    n = len(z)
    H = (bias_rates[0] + weight_rates[0] * x @ x) * np.eye(n)
    dH, ddH = np.zeros((n,) * 3), np.zeros((n,) * 4)
    for W, b, rate, bias_rate in zip(weights[1:], biases[1:], weight_rates[1:], bias_rates[1:]):
        s = np.tanh(z)
        s1 = 1 - s**2
        s2, s3 = -2 * s * s1, -2 * s1**2 + 4 * s**2 * s1
        D = W * s1  # dz' / dz
        one = np.eye(len(W))
        newest = _type_one(W, D, s, s1, s2, s3, H, dH, ddH, rate, one)
        inner = np.einsum("m,kj,m,j,mj->k", s1, W, s, s1, H)
        newer = rate * (np.einsum("ab,c->abc", one, inner) + np.einsum("ac,b->abc", one, inner))
        newer += np.einsum("ai,bj,ck,ijk->abc", D, D, D, dH)
        newer += np.einsum("ai,i,bj,ck,ij,ik->abc", W, s2, D, D, H, H, optimize=True)
        H = one * (bias_rate + rate * s @ s) + D @ H @ D.T
        dH, ddH, z = newer, newest, W @ s + b
    return H, dH, ddH


def _type_one(W: np.ndarray, D: np.ndarray, s: np.ndarray, s1: np.ndarray, s2: np.ndarray, s3: np.ndarray,
              H: np.ndarray, dH: np.ndarray, ddH: np.ndarray, rate: float, one: np.ndarray) -> np.ndarray:
    seen = np.einsum("m,m,mj,mk->mjk", s, s2, H, H) + np.einsum("m,m,mjk->mjk", s, s1, dH)
    pair = np.einsum("cj,dk,mjk->cd", D, D, seen, optimize=True)
    other = rate * (np.einsum("ab,cd->abcd", one, pair) + np.einsum("ac,db->abcd", one, pair)
                    + np.einsum("ad,bc->abcd", one, pair))
    body = np.einsum("i,ijkl->ijkl", s1, ddH) + np.einsum("i,ijk,il->ijkl", s2, dH, H)
    body += np.einsum("i,ikl,ij->ijkl", s2, dH, H) + np.einsum("i,ilj,ik->ijkl", s2, dH, H)
    body += np.einsum("i,ij,ik,il->ijkl", s3, H, H, H)
    return other + np.einsum("ai,bj,ck,dl,ijkl->abcd", W, D, D, D, body, optimize=True)
