"""Perceptrons of a branch, read as the network's: chains of matrices with one activation, and gated ones."""

from __future__ import annotations

from fractions import Fraction
from typing import Callable

import torch
from torch import Tensor

from .functions import Phi, activation_between
from .products import BlockInside, BranchProducts
from .segments import Segment, same
from ..reading.tape import Op

Pieces = Callable[[list[int], int], Segment]


def read_perceptron(products: BranchProducts, piece: Pieces, last: Op, width: int) -> BlockInside:
    """What a branch without attention computes. piece: makes a segment of what is between two tensors.

    Raises ``NotCovered`` for functions that no activation is, and for different ones.
    """
    hidden = products.behind(products.input(last))
    if products.sides(last)[1] != width:
        raise products.refused("a last matrix of another width than the stream", "one as wide")
    if not hidden:
        return BlockInside("mlp", {"matrices": 1, "phi": "linear"}, {"last": last})
    ratio, chain, phis = Fraction(products.sides(last)[0], width), [last], list[Phi]()
    if (sizes := [products.sides(op)[1] for op in hidden]) in ([products.sides(last)[0]] * 2,
                                                               [2 * products.sides(last)[0]]):
        phi, gated = _gate(products, piece, last, hidden, sizes)
        return BlockInside("glu", {"phi": phi, "ratio": ratio}, {**gated, "last": last})
    while hidden:
        if len(hidden) != 1:
            raise products.refused(f"{len(hidden)} products that one matrix reads", "one, or gate and value of a glu")
        between = piece([hidden[0].output], products.input(chain[-1]))
        values = [between.draw(hidden[0].output, tails=tails) for tails in (False, True)]
        phi = activation_between(*((h, between(h)) for h in values))
        if phi is None:
            raise products.refused(f"{between} between two matrices", "an activation that is known")
        phis.append(phi)
        chain.append(hidden[0])
        hidden = products.behind(products.input(chain[-1]))
    if len(set(map(str, phis))) != 1:
        raise products.refused("different functions between its matrices", "one activation")
    widths = {products.sides(op)[1] for op in chain[1:]}
    if len(chain) > 2 and widths != {width}:
        raise products.refused(f"{len(chain)} matrices of hidden widths {sorted(widths)}", "those of the stream")
    return BlockInside("mlp", {"matrices": len(chain), "phi": phis[0], "ratio": ratio},
                       {**{f"W{i}": op for i, op in enumerate(chain[:0:-1], 1)}, "last": last})


def _gate(products: BranchProducts, piece: Pieces, last: Op, hidden: list[Op],
          sizes: list[int]) -> tuple[Phi, dict[str, Op]]:
    """phi and the products of phi(h) v, W1 that of the gate; two products, or halves of one."""
    between, size = piece([op.output for op in hidden], products.input(last)), products.sides(last)[0]
    h, large = (between.draw(hidden[0].output, tails=tails).reshape(-1, sizes[0])[:, :size] for tails in (False, True))
    v = between.draw(hidden[-1].output, 1).reshape(-1, sizes[-1])[:, -size:]

    def glued(gate: Tensor, value: Tensor) -> Tensor:
        pair = (gate, value) if gate_first else (value, gate)
        return (between(*pair) if len(hidden) == 2 else between(torch.cat(pair, -1))).reshape(h.shape)

    for gate_first in (True, False):
        gate, gates = (glued(one, torch.ones_like(h)) for one in (h, large))
        phi = activation_between((h, gate), (large, gates))
        if phi is not None and same(glued(h, v), gate * v) and same(glued(h, v**5), gate * v**5):
            first, second = (hidden * 2)[:2] if gate_first else (hidden * 2)[:2][::-1]
            return phi, {"W1": first, "W2": second}
    raise products.refused(f"{between} of two products", "phi(h) v, with an activation phi that is known")
