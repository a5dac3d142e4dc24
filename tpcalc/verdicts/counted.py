"""The programs whose powers of L are counted: a training as it is, and of a transformer one that has its powers."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Callable, Sequence

import sympy as sp

from .._checks import short
from ..errors import NotCovered
from ..scaling import Scaling
from ..optimizers import SGD
from ..models import Transformer
from ..programs.blocks import EARLIER, Block, Branch, block_name
from ..training.builders import counted_training
from ..training.carried import carried
from ..models.attention import SoftmaxAttention
from ..models.convolution import Convolution
from ..models.gates import LINEAR, linear_gates, with_gates
from ..models.network import Network
from ..models.networks import OF_NORMS, OF_OUTPUT
from ..models.skips import HyperConnections, Skip
from ..programs.from_zero import from_zero
from ..programs.indices import L, m, p
from ..programs.language import Mean
from ..programs.one_position import TWO, one_position, require_terms_that_stay
from ..programs.program import Program
from ..optimizers.updates import Optimizer

Judged = Network
# Vectors that stand-ins have, and networks do not: the sum of scores of a row, q and k over root mean squares, and what
# earlier positions leave behind.
ROW, OVER = "row", {"q": "over_q", "k": "over_k"}
STAND_IN = rf"({'|'.join((ROW, *OVER.values(), *(f'{which}_.*' for which in EARLIER)))})(_\d+)*"

ANY = sp.Integer(1)  # number of a table of scores

# What a verdict on a transformer takes for granted, in its own words.
ASSUMED = (f"heads of one coordinate and {TWO} positions stand for all head_dim, queries_per_key and positions that "
           "stay as L grows; scale_power is a constant there")

# And of a hidden layer that is wider than the stream.
WIDE = "hidden layers as wide as the stream stand for all mlp_ratio that stay as L grows"

# And without a norm: x' = x^2 blows up at a finite layer time, a later one for smaller inputs.
UNNORMED = ("there is no norm, and inputs and learning rates are so small that the stream does not blow up at a finite "
            "layer time where a sublayer grows faster than linearly in it, as products of vectors do")

# And with norms of q and k, which heads of one coordinate would make signs.
NORMED = ("tanh of a coordinate of q, and of k, over the root mean square of all heads' stands for q over that of its "
          "own head; both are odd, bounded, and the same where q is multiplied by a number")


# And with what knows positions.
TURNED = "rotations of queries and keys by position keep their sizes, and turn nothing of heads of one coordinate"
TABLED = "one number that is not 0 stands for a table of scores"
BY_TABLE = "as its table of scores makes it"

# And with states that go from position to position.
STATES = "states are those of a position behind one or two that are as it is; they stay of order one at all positions"

# And of mixtures of experts.
DRIVEN = ("routers are driven by what experts have learned, like L^(-gamma), as where the width grows before the "
          "depth; noise, like n^(-1/2), drives them where it is larger, as where L^(2 gamma) outgrows n")
GROUPS = "experts of one coordinate stand for all expert_dim that stay as L grows"


@dataclass(frozen=True, repr=False)
class FromZero(Transformer):
    """A transformer some of whose matrices, ``zero``, start at 0."""

    zero: tuple[str, ...] = ()

    @classmethod
    def of(cls, net: Transformer, names: Sequence[str]) -> FromZero:
        """Raises ``ValueError`` for names that are not those of its matrices, and where norms would divide 0 by 0."""
        known = net.matrices_of_block
        if not isinstance(names, (tuple, list)) or not all(isinstance(name, str) and name in known for name in names):
            raise ValueError(f"from_zero: got {short(names)}; expected a tuple of some of "
                             f"{', '.join(map(repr, known))}")
        found = cls(**{f.name: getattr(net, f.name) for f in fields(net)}, zero=tuple(sorted(set(names))))
        if net.norm is not None and net.norm_position in OF_OUTPUT and (still := set(names) - {"Wq", "Wk"}):
            raise NotCovered(f"from_zero: got {', '.join(sorted(still))} with norm_position={net.norm_position!r}, "
                             "which divides what a branch adds by its size, 0 by 0 there; expected Wq and Wk, or "
                             "'pre' and 'post'")
        if net.qk_norm and found.is_uniform:
            raise NotCovered(f"from_zero: got {short(names)} with qk_norm=True, which divides 0 by 0 there; expected "
                             "qk_norm=False")
        return found

    @property
    def is_uniform(self) -> bool:
        """Does softmax attention begin with scores that are 0?"""
        return self.attention == "softmax" and not {"Wq", "Wk"}.isdisjoint(self.zero)


@dataclass(frozen=True, repr=False)
class BranchesApart(Transformer):
    """A transformer whose kinds of branches are multiplied by L^-apart besides, powers in the order of its branches."""

    apart: tuple[sp.Expr, ...] = ()

    @classmethod
    def of(cls, net: Transformer, alphas: Sequence[sp.Expr]) -> BranchesApart:
        """That of a network whose branches have these alphas, beside the least of them."""
        return cls(**{f.name: getattr(net, f.name) for f in fields(Transformer)},
                   apart=tuple(alpha - min(alphas) for alpha in alphas))

    @property
    def sublayers(self) -> tuple[Block, ...]:
        def multiplied(block: Block, power: sp.Expr) -> Block:
            return lambda b: L**-power * block(b)

        return tuple(map(multiplied, super().sublayers, self.apart))


def apart_of(net: Judged) -> dict[str, sp.Expr]:
    """The power L^-(this) of what multiplies the branch of each parameter, beside the branch multiplier."""
    if not isinstance(net, BranchesApart):
        return {}
    return {name: net.apart[home] for name, home in carried(net).homes.items() if name in net.trained_of_block}


def require_frozen_embedding_readout(net: Judged | Program) -> None:
    """Raise ``ValueError`` for trained embedding and readout: no depth scaling touches their updates, f moves
    whatever it is."""
    trained = [v for v in net.vectors if any(v.same_family(p.statement.target) for p in net.locations())] if isinstance(
        net, Program) else net.train_embedding_readout
    if trained:
        raise NotCovered(f"net: got {net!r}; embedding and readout that are trained move f whatever the depth scaling "
                         "is, which says nothing of their updates; expected a net with frozen embedding and readout")
    if not isinstance(net, Program):
        net.require_counted()


def require_untied(net: Network) -> None:
    """Raise ``NotCovered`` for a readout that is the embedding."""
    if net.ties_embedding_readout:
        raise NotCovered("tied: got True; the first output is of order one then, and what an update changes of it is "
                         "not told from it; expected False")


def counted_program(net: Judged, opt: Optimizer, scale: Scaling) -> Program:
    """The training whose powers of L are those of ``net``'s, each matrix under its own name.

    A transformer's is that of two positions and of heads of one coordinate, softmax being a logistic function of the
    difference of two scores, and all positions joined into one. Raises ``ValueError`` for what has no such form.
    """
    if net.positions:
        return one_position(two_positions(net, opt, scale))
    return counted_training(with_gates(net) if net.experts else net, opt, scale)


def is_stand_in(net: Judged, name: str) -> bool:
    """Is it a vector of the program that is counted which the network has not? One in each part of a hidden layer."""
    return bool(net.positions) and re.fullmatch(STAND_IN, name) is not None and name not in {
        one.target.name for one in net._written.statements}


def written_out(net: Judged, scale: Scaling) -> Program:
    """The training by plain SGD in which positions, where there are any, are still two."""
    return two_positions(net, SGD(), scale) if net.positions else counted_training(net, SGD(), scale)


def two_positions(net: Network, opt: Optimizer, scale: Scaling) -> Program:
    """The training of two positions and heads of one coordinate, of symbolic P, without exponentials in softmax."""
    if not isinstance(net, Transformer):
        raise NotCovered(f"net: got {net!r}; of networks of several positions a tp.Transformer is counted")
    if net.positions < TWO:
        raise NotCovered(f"positions: got {net.positions}; alone, a position reads itself whatever its scores, "
                         f"expected for a verdict is at least {TWO}")
    if net.states_of_block:
        require_terms_that_stay(f"net: got {short(net)}", net.statements)
    if isinstance(net.attention, Convolution) and net.mlp is not None:
        raise NotCovered(f"mlp: got {block_name(net.mlp)} with a convolution; expected for a verdict is None")
    if net.at_one_position is not None:
        raise NotCovered(f"attention: got {net.attention!r}; its powers of L are those of the block on one position; "
                         f"expected {net.at_one_position!r}")
    attend = partial(softmax_of_two, isinstance(net, FromZero) and net.is_uniform)
    alike = replace(uncentered(with_gates(net.at_infinite_width)), heads=None, head_dim=1, queries_per_key=1,
                    positions=TWO, qk_norm=False, rotation=None, score_table=None,
                    attention=Attending(net.first_sublayer, attend))
    if alike.states_of_block:
        raise NotCovered(f"mlp: got {block_name(net.mlp)}, in which {', '.join(alike.states_of_block)} go from "
                         "position to position; expected for a verdict states in the place of attention alone")
    written = counted_training(alike, opt, scale)
    return from_zero(written, *net.zero) if isinstance(net, FromZero) else written


def uncentered(net: Transformer) -> Transformer:
    """The network with RMSNorm for LayerNorm where its sublayers begin and end with matrices: the signs of a stream's
    coordinates, and with them those of rows and columns of matrices, change nothing in law, so that means over
    coordinates are 0."""
    if net.norm != "layer" or not net.is_built_in or not (net.skip is None or isinstance(
            net.skip, (Skip, HyperConnections))):
        return net
    biases = (*net.matrices_of_block, *[OF_NORMS] * net.shifts_normed) if net.biases is True else net.biases
    return replace(net, norm="rms", biases=biases)


@dataclass(frozen=True)
class Attending:
    """A block whose softmax attention is written by something else; its name is the block's."""

    block: Block
    attend: Callable[[SoftmaxAttention, Branch], sp.Expr]

    @property
    def __name__(self) -> str:
        return block_name(self.block)

    def __call__(self, b: Branch) -> sp.Expr:
        return self.block(replace(b, attend=self.attend, weigh=linear_gates, unrolled=True))


def softmax_of_two(uniform: bool, given: SoftmaxAttention, b: Branch) -> sp.Expr:
    """Softmax attention of heads of one coordinate at two positions, the second of which reads both.

    The share of one of two scores is (1 + tanh((score - other)/2))/2, and the difference of the scores of a row is
    twice one of them less their sum. qk_norm: q over its root mean square in a head is an odd function of the head's q,
    bounded, and unchanged where q is multiplied by a number; so is tanh of a coordinate of q over the root mean square
    of all of them. A table adds a number to the difference, of which 1 stands for any; a rotation turns nothing of one
    coordinate. uniform: scores begin at 0, and softmax is linear in them as long as they do not grow beyond order
    one, where all powers of a score are of the largest one's order.
    """
    q, k, v = given.products(b)
    if given.qk_norm:
        q, k = (b.let(f"n{name}", sp.tanh(b.let(OVER[name], one / sp.sqrt(Mean(one**2)))))
                for name, one in (("q", q), ("k", k)))
    score = b.let("score", q * b.other(k))
    differs = score - b.let_total(ROW, score) / 2
    if given.table is not None:
        differs += ANY
    share = (1 + (differs if uniform else sp.tanh(differs))) / 2
    if given.causal:
        share = sp.Piecewise((share, p >= 1), (1, m <= 0), (0, True))
    return b.product("Wo", b.let_total("mixed", b.let("share", share) * b.other(v)), at_end=True)


def by_gates(net: Judged) -> tuple[str, ...]:
    """What is assumed of gates: that they are linear, and learning drives them, where a fixed number of experts has
    them, and that a growing number has them coordinate by coordinate."""
    fixed, wide = (any(one.expert_dim is None for one in net.experts),
                   any((one.expert_dim or 1) > 1 for one in net.experts))
    return (*[LINEAR, DRIVEN] * fixed, *[GROUPS] * wide)
