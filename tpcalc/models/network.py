"""What a program of a training needs to know of a network whose layers add to a stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Mapping, Self

import sympy as sp

from ..errors import NotCovered
from ..programs.blocks import Branch, Change, vector
from ..programs.indices import p, t
from ..programs.language import Family, HeadSum, Matrix, Mean, Scalar, Vector
from ..programs.special import Mask
from ..programs.program import Assign
from .activations import is_linear, require_finite
from .attention import SoftmaxAttention
from .experts import MoE

NETWORKS = "a tp.ResNet or a tp.Transformer"


@dataclass(frozen=True)
class Layer:
    """The statements of a layer, the vectors among what they read that are trained, coordinatewise, what these start
    as, the softmax attention and the mixtures of experts in it, built in or in a user's block, and what it keeps from
    step to step. starts, routed, keeps, multiplied: as a ``Branch`` has them."""

    statements: tuple[Assign, ...]
    vectors: tuple[Vector, ...]
    attention: tuple[SoftmaxAttention, ...]
    starts: Mapping[str, sp.Expr | None]
    experts: tuple[MoE, ...]
    routed: Mapping[str, tuple[MoE, str]]
    keeps: Mapping[Vector | Scalar, Change | None]
    multiplied: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, branch: Branch) -> Layer:
        """What was written on a branch."""
        return cls(tuple(branch.statements), tuple(branch.vectors), tuple(branch.attention), dict(branch.starts),
                   tuple(branch.experts), dict(branch.routed), dict(branch.keeps), dict(branch.multiplied))


class Network(ABC):
    """What a program of a training needs to know of a network whose layers add to a stream.

    takes: the class of its tasks; positions: how many a sample has, None where it is no sequence; readout: the
    activation of the stream that the readout acts on; visits: how often the stream goes through every layer; order:
    of visits, "cycle" or "block"; inject: what every visit of all layers adds of x^0, times the number of visits;
    zero_readout: whether outputs are less those of the weights at first.
    """

    takes: ClassVar[type]
    phi: sp.Expr | str
    norm: str | None
    readout: sp.Expr | str = "linear"
    train_embedding_readout: bool
    positions: int | None
    visits: Any = 1  # a whole number, or oo
    order: str = "cycle"
    inject: sp.Expr = sp.Integer(0)
    zero_readout: bool = False

    @property
    def width(self) -> int | None:
        """The width of real networks where none is said, or None."""
        return None

    @abstractmethod
    def layer(self, sample: tuple[sp.Expr, ...], eps: sp.Expr) -> Layer:
        """A layer, from the streams x^(l-1) to x^l; eps: the branch multiplier."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The network in words."""

    @property
    @abstractmethod
    def is_linear(self) -> bool:
        """Is every vector of a layer a sum of vectors and of products of matrices with vectors, without a function, and
        is the stream read as it is?"""

    @property
    @abstractmethod
    def is_plain(self) -> bool:
        """Is a layer nothing but one matrix, on the stream as it is, added to it, visited once, and is the stream read
        as it is?"""

    @property
    def ties_embedding_readout(self) -> bool:
        """Is the readout the embedding, over n?"""
        return False

    @property
    def is_usual(self) -> bool:
        """Is a sublayer x + eps f(norm x), with nothing trained but matrices?"""
        return not self.vectors_of_block

    @property
    def reads_stream(self) -> bool:
        """Does the readout act on the stream itself, not on an activation of it?"""
        return is_linear(self.readout)

    def require_finite(self) -> None:
        """Raise ``NotCovered`` unless the activations and their derivatives are finite for all real arguments."""
        require_finite(self.phi)
        require_finite(self.readout, "readout")

    @property
    def readout_weights(self) -> tuple[sp.Expr, ...]:
        """What the readout weighs the streams with, one for each: x, x2, ..., all of which start as U xi."""
        return (sp.Integer(1),)

    @property
    def streams(self) -> tuple[Family, ...]:
        """The families of the streams."""
        return tuple(vector("x" if number == 1 else f"x{number}") for number in range(1, len(self.readout_weights) + 1))

    @property
    def branch_kinds(self) -> tuple[str, ...]:
        """The names of a layer's branches, in order, where it has several kinds."""
        return ()

    @property
    def carried(self) -> tuple[tuple[Family, ...], ...]:
        """The families of the streams after each sublayer of a layer."""
        return (self.streams,)

    def read(self, at: tuple[sp.Expr, ...]) -> sp.Expr:
        """What the readout reads, or an activation of it: the streams at these indices, weighed."""
        return sp.Add(*(weight * stream[at] for weight, stream in zip(self.readout_weights, self.streams)))

    @property
    def reads_one_stream(self) -> bool:
        """Is what the readout reads the stream x by itself, or an activation of it?"""
        return self.readout_weights[0] == 1 and not any(self.readout_weights[1:])

    @cached_property
    def _written(self) -> Layer:
        return self.layer((t,), sp.Integer(1))

    @property
    def statements(self) -> tuple[Assign, ...]:
        """Those of a layer, of one sample, with 1 for the branch multiplier."""
        return self._written.statements

    @cached_property
    def families_of_matrices(self) -> tuple[str, ...]:
        """The names of a layer's trained matrices as its program has them: of wide hidden layers the parts."""
        met = [sorted(s.value.atoms(Matrix), key=sp.default_sort_key) for s in self._written.statements]
        return tuple(dict.fromkeys(matrix.name for row in met for matrix in row))

    @property
    def matrices_of_block(self) -> tuple[str, ...]:
        """The names of a layer's trained matrices, in the order in which they are met."""
        return tuple(dict.fromkeys(map(self.whole, self.families_of_matrices)))

    def whole(self, name: str) -> str:
        """The name of the matrix of which one is a part in the program, its own where it is whole."""
        return name

    @cached_property
    def vectors_of_block(self) -> tuple[str, ...]:
        """The names of a layer's trained vectors: gains, and those of a learned skip."""
        return tuple(v.name for v in self._written.vectors)

    @cached_property
    def readouts_of_block(self) -> tuple[str, ...]:
        """The names of the trained vectors that numbers are read off with: that stand in averages over coordinates."""
        averages = [mean for s in self.statements for mean in s.value.atoms(Mean)]
        return tuple(v.name for v in self._written.vectors if any(mean.has(v) for mean in averages))

    @property
    def states_of_block(self) -> tuple[str, ...]:
        """The names of what goes from position to position in a layer."""
        return tuple(s.value.name for s in self.statements if p + 1 in s.target.indices)

    @property
    def chooses(self) -> tuple[SoftmaxAttention, ...]:
        """A layer's softmax attention, where there are several positions for it to choose between."""
        return self._written.attention if (self.positions or 1) > 1 else ()

    @property
    def trained_of_block(self) -> tuple[str, ...]:
        """The names of all that a layer trains: its matrices, then its vectors."""
        return self.matrices_of_block + self.vectors_of_block

    @property
    def experts(self) -> tuple[MoE, ...]:
        """A layer's mixtures of experts."""
        return self._written.experts

    @property
    def routed(self) -> Mapping[str, tuple[MoE, str]]:
        """By the names of a layer's weights of routers and of the experts that these choose between: their mixture, and
        which of the two they are of, ``ROUTER`` or ``EXPERT``."""
        return self._written.routed

    @property
    def acts_on_normed(self) -> bool:
        """Does a block act on a stream that is normalized first?"""
        return False

    def require_no_vectors(self, what: str) -> None:
        """Raise ``ValueError`` for a network with trained vectors, naming them."""
        if self.vectors_of_block:
            raise NotCovered(f"net: got {self!r}, with trained vectors {', '.join(self.vectors_of_block)}; {what} "
                             "takes networks without gains, biases, learned skips and routers that are vectors")

    def require_one_visit(self, what: str) -> None:
        """Raise ``NotCovered`` for layers that are visited more than once; what: is done where they are not."""
        if self.visits > 1:
            raise NotCovered(f"visits: got {self.visits}; {what} where every layer is visited once; expected 1")

    def require_counted(self) -> None:
        """Raise ``ValueError`` for options of which no rule counts powers of L: those of a program do not name them."""

    @property
    def narrow(self) -> Network:
        """The network with hidden layers as wide as the stream, of which the powers of L are this one's."""
        return self

    @abstractmethod
    def frozen(self) -> Network:
        """The network with ends that are not trained."""

    @property
    def at_infinite_width(self) -> Network:
        """The network whose limit is this one's: first outputs, which may be taken away, vanish there."""
        return self

    def require_first_outputs(self, what: str) -> None:
        """Raise ``NotCovered`` where first outputs are taken away; what: is known of those."""
        if self.zero_readout:
            raise NotCovered(f"zero_readout: got True; {what} with the outputs of first weights; expected False")

    def require_width(self, width: int) -> None:
        """Raise ``ValueError`` for a width that real networks of this kind cannot have."""
        for one in self.experts:
            one.require_width(width)

    def require_directions(self, opt: object) -> None:
        """Raise ``NotCovered`` for an optimizer that has no direction for some weight of this network."""
        values = [s.value for s in self.statements]
        unread = any(one.first_read for value in values for one in value.atoms(HeadSum))
        if getattr(opt, "eps", None) == 0 and (unread or any(value.has(Mask) for value in values)):
            raise NotCovered(f"opt: got {opt!r} for weights that are not chosen, or that nothing reads; they have no "
                             "gradient, and with eps=0 no direction either (0/0); expected an eps of more than 0")

    def require_sizes(self, depth: int | None) -> None:
        """Raise ``ValueError`` for a depth at which what is set as an expression in it has no value."""

    @property
    def visited_once(self) -> Self:
        """The network whose layers are visited once each."""
        if self.visits == 1:
            return self
        return replace(self, visits=1, order="cycle", inject=0)  # type: ignore[type-var]

    def require_plain(self, what: str, trained_embedding_readout: bool = False, visited: bool = False) -> None:
        """Raise ``ValueError`` unless this is the linear network with one matrix a block, an identity for its skip and,
        but for ``trained_embedding_readout``, frozen embedding and readout; visited: whether layers may be visited more
        than once."""
        if not visited:
            self.require_one_visit(f"{what} takes networks")
        if not self.visited_once.is_plain or (self.train_embedding_readout and not trained_embedding_readout):
            raise NotCovered(f"net: got {self!r}; {what} takes phi='linear', one matrix a block ('post_nonlin' or "
                             "'pre_nonlin'), skip=None, norm=None, readout='linear'"
                             + ("" if trained_embedding_readout else " and frozen embedding and readout"))
