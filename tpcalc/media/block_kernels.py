"""The kernels of a block for the infinite-depth solver, compiled from those derived from its statements."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Callable

import sympy as sp

from ..action.block_kernels import C, P, Q, R, RP, RQ, derive_block_kernels
from ..gaussian.overlaps import Mean, Overlap
from ..programs import ResNet
from .blocks import BlockKernels, Kernel, LinearBlock, Pairs
from ..gaussian.overlap_functions import mean_function, overlap_function

Three = tuple[Kernel, Kernel, Kernel]


class DerivedBlock:
    """The protocol ``BlockKernels`` for any block that closes on kernels.

    Raises ``ValueError`` with the reason for blocks and activations that do not. Source: the action
    principle [tpcalc/action_principle], of which the linear block's densities are paper B's Proposition C.4.
    """

    is_linear = False

    def __init__(self, net: ResNet) -> None:
        self.net, kernels = net, derive_block_kernels(net)
        self.has_diagonal = any(expression != 0 for expression in kernels.diagonal)
        self._forward = compiled(kernels.forward)
        self._backward = compiled(kernels.backward)
        self._diagonal = compiled(kernels.diagonal)

    def __reduce__(self) -> tuple[Callable[[ResNet], BlockKernels], tuple[ResNet]]:
        """Pickled as the network: compiled functions are compiled again."""
        return kernels_of, (self.net,)

    def forward(self, pairs: Pairs) -> Three:
        return _evaluated(self._forward, pairs)

    def backward(self, pairs: Pairs) -> Three:
        return _evaluated(self._backward, pairs)

    def diagonal(self, pairs: Pairs) -> Three:
        return _evaluated(self._diagonal, pairs)


@lru_cache(maxsize=16)
def kernels_of(net: ResNet) -> BlockKernels:
    """Of the network's blocks; raises ``ValueError`` with the reason where there are none."""
    return LinearBlock() if net.is_plain else DerivedBlock(net)


def compiled(expressions: tuple[sp.Expr, ...]) -> Callable[..., Any]:
    functions: dict[str, Callable[..., Any]] = {}
    names: dict[tuple[Any, ...], Any] = {}

    def named(head: tuple[Any, ...], make: Callable[[], Callable[..., Any]]) -> Any:
        if head not in names:
            names[head] = sp.Function(f"overlap_{len(names)}")
            functions[f"overlap_{len(names) - 1}"] = make()
        return names[head]

    def plain(e: sp.Expr) -> sp.Expr:
        """With a name for every function that quadrature or a formula evaluates."""
        if not e.has(Overlap, Mean):
            return e
        args = [plain(a) for a in e.args]
        if isinstance(e, Overlap):
            f, g, j, k = args[:4]
            function = named((f, g, j, k), lambda: overlap_function(f, g, int(j), int(k)))
            return function(*args[4:])
        if isinstance(e, Mean):
            f, j, _ = args
            return named((f, j), lambda: mean_function(f, int(j)))(args[2])
        return e.func(*args)

    return sp.lambdify((C, P, Q, R, RP, RQ), [plain(e) for e in expressions], modules=[functions, "scipy", "numpy"],
                       cse=True)


def _evaluated(function: Callable[..., Any], pairs: Pairs) -> Three:
    assert pairs.left is not None and pairs.right is not None
    left, right = pairs.left[..., :, None], pairs.right[..., None, :]
    kappa, slope, theta = function(pairs.c, left, right, pairs.decay, pairs.left_decay, pairs.right_decay)
    return kappa, slope, theta
