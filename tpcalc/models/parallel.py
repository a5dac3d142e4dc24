"""Attention beside a perceptron: both read what the layer reads, and are added to the stream together."""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

from .._checks import choice, positive_integer, short
from ..programs.blocks import BLOCKS, HIDDEN, Block, Branch, in_parts


@dataclass(frozen=True)
class ParallelBlock:
    """The block of a parallel transformer, in place of attention: the sum of attention and of a perceptron.

    attention: as ``softmax_attention`` returns it; mlp, mlp_ratio: as in ``tp.Transformer``, "mlp" or "glu", and its
    hidden width over that of the stream. Raises ``ValueError`` for others.

    >>> import sympy as sp
    >>> import tpcalc as tp
    >>> from tpcalc.theory import ParallelBlock, softmax_attention
    >>> block = ParallelBlock(softmax_attention(2, sp.Rational(1, 2)), "mlp")
    >>> net = tp.Transformer(head_dim=2, positions=4, attention=block, mlp=None, phi="tanh")
    >>> net.matrices_of_block
    ('Wq', 'Wk', 'Wv', 'W1', 'W2', 'Wo')
    """

    attention: Block
    mlp: str = "mlp"
    mlp_ratio: int = 1

    def __post_init__(self) -> None:
        if not callable(self.attention):
            raise ValueError(f"attention: got {short(self.attention)}; expected a block, as softmax_attention returns "
                             "it")
        choice("mlp", self.mlp, HIDDEN)
        positive_integer("mlp_ratio", self.mlp_ratio)

    @property
    def narrow(self) -> ParallelBlock:
        """With a hidden layer as wide as the stream."""
        return self if self.mlp_ratio == 1 else replace(self, mlp_ratio=1)

    def __call__(self, b: Branch) -> sp.Expr:
        return self.attention(b) + in_parts(BLOCKS[self.mlp], self.mlp_ratio)(b)

    @property
    def __name__(self) -> str:
        return f"{self.mlp} beside softmax"
