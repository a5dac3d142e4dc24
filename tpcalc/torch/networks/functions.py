"""Functions that networks have, recognized by their values: activations and norms."""

from __future__ import annotations

from functools import lru_cache
from typing import Callable, TypeAlias

import sympy as sp
import torch
from torch import Tensor

from ...models.activations import H, NAMED
from .segments import same

Phi: TypeAlias = sp.Expr | str
OTHERS = (  # activations that networks have no name for
    sp.Max(H, 0)**2,                                                                                     # squared relu
    H * (1 + sp.tanh(sp.sqrt(2 / sp.pi) * (H + sp.Rational(44715, 10**6) * H**3))) / 2,                  # gelu by tanh
    H * (1 + sp.tanh(sp.Rational(851, 1000) * H)) / 2,                                                   # quick gelu
    (1 + sp.tanh(H / 2)) / 2)                                                                            # sigmoid


def activation_between(*pairs: tuple[Tensor, Tensor]) -> Phi | None:
    """The activation that takes h to z in every pair (h, z); None where it is none that is known."""
    return next((phi for phi in (*NAMED, *OTHERS) if all(
        same(torch.as_tensor(_function(phi)(h.double().numpy())), z) for h, z in pairs)), None)


@lru_cache(maxsize=None)
def _function(phi: Phi) -> Callable[..., object]:
    found: Callable[..., object] = sp.lambdify(H, NAMED[phi] if isinstance(phi, str) else phi, ["scipy", "numpy"])
    return found


def _rms(x: Tensor) -> Tensor:
    return x / x.square().mean(-1, keepdim=True).sqrt()


NORM_VALUES: dict[str | None, Callable[[Tensor], Tensor]] = {
    None: lambda x: x, "rms": _rms, "layer": lambda x: _rms(x - x.mean(-1, keepdim=True))}
