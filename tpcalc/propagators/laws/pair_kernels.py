"""The kernels of a block for the infinite-depth solver, compiled from those derived from its statements."""

from __future__ import annotations

from functools import lru_cache
from typing import Callable

import numpy as np
import sympy as sp

from ...action.block_kernels import C, P, Q, R, RP, RQ, derive_block_kernels
from ...action.laws import Derivative, derive_laws
from ...gaussian import Expectation
from ...gaussian.overlap_functions import tabulated
from ...models import ResNet
from ..blocks import BlockKernels, Kernel, Pairs


class DerivedBlock:
    """The protocol ``BlockKernels`` for any block that closes on kernels.

    Raises ``ValueError`` with the reason for blocks and activations that do not. Source: the action
    principle [tpcalc/action_principle], of which the linear block's densities are Tensor Programs VI's Proposition C.4.
    """

    size = 1

    def __init__(self, net: ResNet) -> None:
        self.net, self.kernels = net, derive_block_kernels(net)
        self.is_linear = net.is_plain
        laws = derive_laws()
        self.has_diagonal = any(self.kernels.derivative(*term.derivative) != 0 for term in laws.past)
        self._functions: dict[tuple[Derivative, ...], Callable[..., tuple[Kernel, ...]]] = {}
        for terms in (laws.A + laws.N0, laws.N0, laws.B + laws.N1 + (laws.past if self.has_diagonal else ())):
            self._function(tuple(dict.fromkeys(term.derivative for term in terms)))

    def __reduce__(self) -> tuple[Callable[[ResNet], BlockKernels], tuple[ResNet]]:
        """Pickled as the network: compiled functions are compiled again."""
        return kernels_of, (self.net,)

    def __repr__(self) -> str:
        return f"the block of {self.net!r}"

    def derivatives(self, pairs: Pairs, asked: tuple[Derivative, ...]) -> tuple[Kernel, ...]:
        left = np.nan if pairs.left is None else pairs.left[..., :, None]
        return tuple(self._function(asked)(pairs.c, left, pairs.right[..., None, :] if np.ndim(pairs.right) else np.nan,
                                           pairs.decay, pairs.left_decay, pairs.right_decay))

    def _function(self, asked: tuple[Derivative, ...]) -> Callable[..., tuple[Kernel, ...]]:
        if asked not in self._functions:
            self._functions[asked] = compiled_pair_function(tuple(self.kernels.derivative(*one) for one in asked))
        return self._functions[asked]


@lru_cache(maxsize=16)
def kernels_of(net: ResNet) -> BlockKernels:
    """The kernels of the network's blocks; raises ``ValueError`` with the reason where there are none."""
    return DerivedBlock(net)


def linear_block() -> BlockKernels:
    """The kernels of x + eps W x: kappa = rho_a rho_b C0, theta = C0."""
    return kernels_of(ResNet())


def compiled_pair_function(expressions: tuple[sp.Expr, ...]) -> Callable[..., tuple[Kernel, ...]]:
    functions: dict[str, Callable[..., np.ndarray]] = {}
    names: dict[object, sp.Expr] = {}

    def plain(e: sp.Expr) -> sp.Expr:
        """With a name for every function that quadrature or a formula evaluates."""
        if not e.has(Expectation):
            return e
        if not isinstance(e, Expectation):
            return e.func(*map(plain, e.args))
        if e.functions not in names:
            name = f"mean_{len(names)}"
            names[e.functions], functions[name] = sp.Function(name), tabulated(e.functions)
        return names[e.functions](*map(plain, e.entries))

    return sp.lambdify((C, P, Q, R, RP, RQ), [plain(e) for e in expressions], modules=[functions, "scipy", "numpy"],
                       cse=True)
