"""Updates that are functions of whole gradients, on n x n arrays as anyone would write them: by singular vectors."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

import tpcalc as tp

Gradients = Sequence[np.ndarray]
NOTHING = 1e-11  # of the largest: singular values and entries below are rounding


def shares(beta: float, steps: int) -> np.ndarray:
    found = beta ** np.arange(steps - 1.0, -1.0, -1.0)
    return found if beta == 1 else found / found.sum()


def averaged(opt: Any, seen: Gradients) -> np.ndarray:
    return sum(w * g for w, g in zip(shares(float(opt.beta1), len(seen)), seen)) if opt.beta1 else seen[-1]


def buffer(opt: Any, seen: Gradients) -> np.ndarray:
    found = sum(opt.momentum ** (len(seen) - 1 - k) * g for k, g in enumerate(seen))
    return seen[-1] + opt.momentum * found if opt.nesterov else found


def muon(opt: Any, seen: Gradients) -> np.ndarray:
    left, s, right = np.linalg.svd(buffer(opt, seen), full_matrices=False)
    kept = s > NOTHING * s[0]
    return left[:, kept] @ right[kept]


def normalized(opt: Any, seen: Gradients) -> np.ndarray:
    found = buffer(opt, seen)
    return found / np.linalg.norm(found)


def shampoo(opt: Any, seen: Gradients) -> np.ndarray:
    def root(columns: list) -> np.ndarray:
        left, s, _ = np.linalg.svd(np.concatenate(columns, axis=1))
        s = np.pad(s, (0, len(left) - len(s)))
        kept = s >= 0 if opt.eps else s > NOTHING * s[0]
        return (left[:, kept] * (s[kept] ** 2 + float(opt.eps) ** 2) ** -.25) @ left[:, kept].T
    w = np.sqrt(shares(float(opt.beta2), len(seen)))
    return root([a * g for a, g in zip(w, seen)]) @ averaged(opt, seen) @ root([a * g.T for a, g in zip(w, seen)])


def soap(opt: Any, seen: Gradients) -> np.ndarray:
    squares = 0.0
    for step, share in enumerate(shares(float(opt.beta2), len(seen))):
        w = np.sqrt(shares(float(opt.beta2), step + 1))
        left, right = (np.linalg.svd(np.concatenate([a * (g if side else g.T) for a, g in zip(w, seen)], axis=1))[0]
                       for side in (True, False))
        squares = squares + share * (left.T @ seen[step] @ right) ** 2
    sizes, turned = np.sqrt(squares), left.T @ averaged(opt, seen) @ right
    kept = sizes >= 0 if opt.eps else sizes > NOTHING * sizes.max()
    return left @ np.divide(turned, sizes + float(opt.eps), out=np.zeros_like(turned), where=kept) @ right.T


DIRECTIONS = {tp.Muon: muon, tp.NormalizedSGD: normalized, tp.Shampoo: shampoo, tp.SOAP: soap}


def step_of(opt: Any, unit: float, share: float, steps: int) -> Any:
    """A step of one matrix; unit: of gradients in the optimizer's units; share: what the rate is multiplied by."""
    rates = opt.schedule(steps)

    def move(step: int, w: np.ndarray, seen: Gradients) -> np.ndarray:
        moved = DIRECTIONS[type(opt)](opt, [unit * g for g in seen])
        return (1 - rates[step] * float(opt.weight_decay)) * w - rates[step] * share * moved
    return move
