"""A block's kernels at initialization, where the stream is Gaussian: of blocks that act on the stream first, too."""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

from ..errors import NotCovered
from ..models.activations import H
from ..models import ResNet
from ..programs.blocks import block_name
from .block_kernels import R, RP, RQ, X, DerivedKernels, Factors, FreshProduct, BlockInterpreter

UNTRAINED = {R: sp.S.One, RP: sp.S.One, RQ: sp.S.One}  # nothing has decayed


class AtInitialization(BlockInterpreter):
    """Then the stream is Gaussian and independent of its gradient, so that any function of it has known means, and of
    what is the stream but for a number, such as its norm."""

    powers_of_stream_only = False

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.roots: dict[sp.Symbol, sp.Symbol] = {}  # what a rescaled product is a multiple of

    def name_value(self, value: sp.Expr) -> sp.Expr:
        """A multiple of one product, by means, is a Gaussian of its own."""
        inside = value.free_symbols & self.products.keys()
        if len(inside) != 1 or not value.free_symbols & self.scalars.keys():
            return value
        product, = inside
        if sp.expand(value).diff(product, 2) != 0 or value.xreplace({product: sp.S.Zero}) != 0:
            return value
        rescaled = sp.Dummy("v", real=True)
        self.products[rescaled] = FreshProduct(self.overlap(value), self.tangents(value))
        self.roots[rescaled] = self.roots.get(product, product)
        return rescaled

    def _terms(self, value: sp.Expr, power: int) -> list[tuple[sp.Expr, Factors]]:
        inside = value.free_symbols & self.products.keys()
        if len({self.roots.get(product, product) for product in inside}) < len(inside):
            raise self.refusal("one of its functions mixes a vector and a multiple of it that means have rescaled")
        return super()._terms(value, power)


@lru_cache(maxsize=64)
def derive_initial_kernels(net: ResNet) -> tuple[DerivedKernels, bool]:
    """The kernels of a net's blocks at initialization, and whether what a block adds to the stream is Gaussian, so that
    the stream is at every depth and not only where layers are infinitely many.

    Raises ``ValueError`` as ``derive_block_kernels``, except for acting on the stream first.

    >>> kernels, is_gaussian = derive_initial_kernels(ResNet("relu", "pre_nonlin"))
    >>> kernels.theta == kernels.kappa, is_gaussian
    (True, True)
    """
    reading = AtInitialization(block_name(net.block))
    output = reading.read_block(net)
    terms = [factors for _, factors in reading._terms(output, power=1)]
    is_gaussian = all(len(factors) == 1 and f.diff(H).is_number and f.xreplace({H: sp.S.Zero}) == 0
                      for factors in terms for f in factors.values())
    if any(reading.roots.get(product) == X for factors in terms for product in factors):
        raise reading.refusal("its output contains the stream itself; what it adds must have gone through a matrix")
    return DerivedKernels(reading.overlap(output).xreplace(UNTRAINED), {
        name: tangent.xreplace(UNTRAINED) for name, tangent in reading.tangents(output).items()}), is_gaussian


@lru_cache(maxsize=64)
def acts_on_stream_first(net: ResNet) -> bool:
    """Does the block need means of functions of the stream, which are known where it is Gaussian?"""
    try:
        BlockInterpreter(block_name(net.block)).read_block(net)
    except NotCovered:
        return True
    return False
