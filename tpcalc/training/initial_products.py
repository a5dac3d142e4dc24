"""Products with the initial matrices of blocks, beside those of training: a program that keeps W_0 z and W_0^T d.

Every matrix of a block makes one product W_t z forward and one W_t^T d backward, z being the vector that it reads and d
the gradient in what it gives. What the matrix was at the start makes of the same vectors says what it has learned, and
how fields respond to it, whatever the optimizer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import sympy as sp

from ..errors import NotCovered
from ..models.network import Network
from ..models.positions import at_positions
from ..programs.backprop import backpropagate
from ..programs.blocks import vector
from ..programs.indices import BATCH, L, i, l, p, t
from ..programs.language import Family, Matrix, MatVec, Outer, Transpose, Vector
from ..programs.program import Assign, Loop, Program, Statement
from .builders import UNIT, gradient_name


@dataclass(frozen=True)
class BlockProduct:
    """The product of a block's matrix: the vector that it reads, and the gradient in what it gives, without the branch
    multiplier, both of step t and layer l."""

    matrix: Matrix
    features: Vector
    gradient: Vector

    @property
    def name(self) -> str:
        """The name of the matrix's family."""
        return str(self.matrix.name)

    @property
    def families(self) -> tuple[Family, ...]:
        """The families of the four vectors: what is read and the gradient, and what W_0 makes of them."""
        return vector(str(self.features.name)), vector(str(self.gradient.name)), *self.initial

    @property
    def initial(self) -> tuple[Family, Family]:
        """The families of W_0 z and W_0^T d; names with d are of gradients, and nothing has a name with 0 first."""
        return vector(f"d0{self.name}_chi"), vector(f"d0{self.name}_xi")


@lru_cache(maxsize=32)
def block_products(net: Network, sample: tuple[sp.Expr, ...] = (t,)) -> tuple[BlockProduct, ...]:
    """The products of a block's matrices, in the order in which the stream meets them; of a network with positions
    those at every position.

    Raises ``NotCovered`` for blocks whose matrices do not each make one product, of a vector that has a name, that
    enters the stream times the branch multiplier and no other number.
    """
    sample = at_position(net, sample)
    before, after = (vector("x")[(*sample, at)] for at in (l - 1, l))
    layer = net.layer(sample, UNIT)
    back = backpropagate(layer.statements, {after: gradient_name(after)}, [before], gradient_name, UNIT, layer.vectors,
                         layer.keeps)
    found: dict[str, BlockProduct] = {}
    for one in reversed(back.gradients):
        plain = isinstance(one.of, Matrix) and isinstance(one.value, Outer) and one.factor == UNIT
        if not plain or one.of.name in found:
            raise NotCovered(f"net: got {net!r}, whose gradient in {one.of.name} is {one.factor * one.value}; the "
                             "responses are known of matrices that make one product a block, times the branch "
                             "multiplier alone; expected such blocks")
        gradient, features = one.value.args
        found[one.of.name] = BlockProduct(one.of, features, gradient)
    return tuple(found.values())


def at_position(net: Network, sample: tuple[sp.Expr, ...]) -> tuple[sp.Expr, ...]:
    """The indices of a sample's vector, at a position of it where it has any."""
    return (*sample, p) if net.positions and p not in sample else sample


def first_product(net: Network, sample: tuple[sp.Expr, ...] = (t,)) -> BlockProduct:
    """The product of the first matrix that reads the stream at its own position, as the middle of a filter does."""
    products = block_products(net, sample)
    sums = {one.target for one in net.layer(at_position(net, sample), UNIT).statements if one.value.atoms(sp.Sum)}
    return next((one for one in products if one.features not in sums), products[0])


def with_initial_products(program: Program, net: Network) -> Program:
    """The program of a training of ``net``, with W_0 z and W_0^T d of every layer and step, and with what the first
    matrix of a block would read behind the last block.

    >>> import tpcalc as tp
    >>> net = tp.ResNet("tanh", "pre_nonlin")
    >>> text = str(with_initial_products(tp.program(net, tp.SGD(), tp.DepthScaling()), net))
    >>> print(*(line.strip() for line in text.splitlines() if "d0W" in line or "L + 1" in line), sep=chr(10))
    d0W_chi[t, l] := W[0, l] @ z[t, l]
    d0W_xi[t, l] := W[0, l].T @ dx[t, l]
    z[t, L + 1] := tanh(x[t, L])
    """
    clock = program.clock()
    assert clock is not None
    batched = BATCH in program.sizes
    sample = at_position(net, (t, i) if batched else (t,))
    products = block_products(net, sample)
    kept: list[Assign] = []
    for one in products:
        start = Matrix(*one.matrix.args[:3], sp.Integer(0), l)
        chi, xi = (family[(*sample, l)] for family in one.initial)
        kept += [Assign(chi, MatVec(start, one.features)), Assign(xi, MatVec(Transpose(start), one.gradient))]
    last = _after_last_block(net, sample, first_product(net, sample).features)
    looped = at_positions if net.positions else tuple
    more: tuple[Statement, ...] = (Loop(l, sp.Integer(1), L, tuple(looped(kept))), *looped(last))
    if batched:
        more = (Loop(i, sp.Integer(0), BATCH - 1, more),)
    body = tuple(replace(one, body=(*one.body, *more)) if one == clock else one for one in program.body)
    return replace(program, body=body)


def _after_last_block(net: Network, sample: tuple[sp.Expr, ...], features: Vector) -> tuple[Assign, ...]:
    """The statements that make the features of the stream, at layer L + 1."""
    wanted, found = {features}, list[Assign]()
    for statement in reversed(net.layer(sample, UNIT).statements):
        if statement.target in wanted:
            found.append(statement)
            wanted |= statement.value.atoms(Vector)
    return tuple(one.at({l: L + 1}) for one in reversed(found))
