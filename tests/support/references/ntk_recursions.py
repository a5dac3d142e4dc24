"""The layerwise recursions of the meta-principled paper, (3.7), (4.2), (4.5) and (4.8), typed as printed, for one tanh
perceptron and one input: a second way to tangent kernels and their differentials. Nothing of tpcalc is used."""

from __future__ import annotations

from typing import Sequence

import numpy as np

Tensors = tuple[np.ndarray, ...]


def differentials(weights: Sequence[np.ndarray], biases: Sequence[np.ndarray], weight_rates: Sequence[float],
                  bias_rates: Sequence[float], x: np.ndarray) -> Tensors:
    """H (n, n), dH (n, n, n), and ddH (n, n, n, n) of both types, of the last layer; rates: those of single entries."""
    z = weights[0] @ x + biases[0]
    n = len(z)
    H = (bias_rates[0] + weight_rates[0] * x @ x) * np.eye(n)
    dH, ddH, second = np.zeros((n,) * 3), np.zeros((n,) * 4), np.zeros((n,) * 4)
    for W, b, rate, bias_rate in zip(weights[1:], biases[1:], weight_rates[1:], bias_rates[1:]):
        s = np.tanh(z)
        s1 = 1 - s**2
        s2, s3 = -2 * s * s1, -2 * s1**2 + 4 * s**2 * s1
        D = W * s1  # dz' / dz
        one = np.eye(len(W))
        newest = _type_one(W, D, s, s1, s2, s3, H, dH, ddH, rate, one)
        second = _type_two(W, D, s, s1, s2, H, dH, second, rate, one)
        inner = np.einsum("m,kj,m,j,mj->k", s1, W, s, s1, H)
        newer = rate * (np.einsum("ab,c->abc", one, inner) + np.einsum("ac,b->abc", one, inner))
        newer += np.einsum("ai,bj,ck,ijk->abc", D, D, D, dH)
        newer += np.einsum("ai,i,bj,ck,ij,ik->abc", W, s2, D, D, H, H, optimize=True)
        H = one * (bias_rate + rate * s @ s) + D @ H @ D.T
        dH, ddH, z = newer, newest, W @ s + b
    return H, dH, ddH, second


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


def _type_two(W: np.ndarray, D: np.ndarray, s: np.ndarray, s1: np.ndarray, s2: np.ndarray, H: np.ndarray,
              dH: np.ndarray, second: np.ndarray, rate: float, one: np.ndarray) -> np.ndarray:
    def product(subscripts: str, *parts: np.ndarray) -> np.ndarray:
        return np.einsum(subscripts, *parts, optimize=True)

    found = rate**2 * product("ac,bd,j,k,j,k,jk->abcd", one, one, s1, s1, s, s, H)
    found += rate * product("ab,cp,dq,j,j,jp,jq->abcd", one, D, D, s1, s1, H, H)
    found += rate * product("ac,bk,dq,j,j,k,kj,kq->abcd", one, W, D, s, s1, s2, H, H)
    found += rate * product("ac,bk,dq,j,j,k,kjq->abcd", one, W, D, s, s1, s1, dH)
    found += rate * product("bd,aj,cp,k,k,j,jk,jp->abcd", one, W, D, s, s1, s2, H, H)
    found += rate * product("bd,aj,cp,k,k,j,jkp->abcd", one, W, D, s, s1, s1, dH)
    found += product("aj,bk,cp,dq,j,k,jkpq->abcd", W, W, D, D, s1, s1, second)
    found += product("aj,bk,cp,dq,j,k,jk,jp,kq->abcd", W, W, D, D, s2, s2, H, H, H)
    found += product("aj,bk,cp,dq,j,k,kq,jkp->abcd", W, W, D, D, s1, s2, H, dH)
    return found + product("aj,bk,cp,dq,k,j,jp,kjq->abcd", W, W, D, D, s1, s2, H, dH)
