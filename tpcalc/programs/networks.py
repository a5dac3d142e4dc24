"""Networks as data: what is computed, without saying how it is scaled or trained."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import sympy as sp

from .._checks import choice, positive_integer, short
from .activations import activation, is_linear
from .algebra import multiplied_out
from .blocks import BLOCKS, Block, Branch, block_name, is_linear_in_vectors, mlp, vector, written
from .indices import l, t
from .language import Mat, MatVec, Vec
from .norms import NORMS
from .program import Assign
from .task import Task

MOST = 256  # matrices of a block
STREAM = vector("x")[t, l - 1]  # what a block acts on


NETWORKS = "a tp.ResNet or a tp.Transformer"


class Network(ABC):
    """What a program of a training needs to know of a network whose layers add to a stream.

    takes: the class of its tasks; positions: how many a sample has, None where it is no sequence.
    """

    takes: ClassVar[type]
    phi: sp.Expr | str
    norm: str | None
    train_ends: bool
    positions: int | None

    @property
    def width(self) -> int | None:
        """The width of real networks where none is said, or None."""
        return None

    @abstractmethod
    def layer(self, sample: tuple[sp.Expr, ...], eps: sp.Expr) -> list[Assign]:
        """The statements of a layer, from the stream x^(l-1) to x^l; eps: the branch multiplier."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The network in words."""

    @property
    @abstractmethod
    def is_linear(self) -> bool:
        """Are all vectors linear in the matrices met last?"""

    @property
    @abstractmethod
    def is_plain(self) -> bool:
        """Is a block nothing but one matrix, on the stream as it is?"""

    @property
    def ties_ends(self) -> bool:
        """Is the read-out the read-in, over n?"""
        return False

    @cached_property
    def matrices_of_block(self) -> tuple[str, ...]:
        """The names of a layer's trained matrices, in the order in which they are met."""
        met = [sorted(s.value.atoms(Mat), key=sp.default_sort_key) for s in self.layer((t,), sp.Integer(1))]
        return tuple(dict.fromkeys(matrix.name for row in met for matrix in row))

    @abstractmethod
    def frozen(self) -> Network:
        """The network with ends that are not trained."""

    def require_width(self, width: int) -> None:
        """Raise ``ValueError`` for a width that real networks of this kind cannot have."""

    def require_directions(self, opt: object) -> None:
        """Raise ``ValueError`` for an optimizer that has no direction for some weight of this network."""

    def require_plain(self, what: str, trained_ends: bool = False) -> None:
        """Raise ``ValueError`` unless this is the linear network with one matrix a block and, but for
        ``trained_ends``, frozen ends."""
        if not self.is_plain or (self.train_ends and not trained_ends):
            raise ValueError(f"net: {self!r} given; {what} takes phi='linear', one matrix a block ('post' or 'pre'), "
                             + ("norm=None" if trained_ends else "norm=None and frozen ends"))


@dataclass(frozen=True)
class ResNet(Network):
    """A residual network x^l = x^(l-1) + eps block(x^(l-1)), x^0 = U xi, f = V^T x^L.

    Parameters
    ----------
    phi:
        the activation: "linear", "relu", "abs", "tanh", "erf", "gelu", "silu", in any case, or a sympy
        expression in one symbol.
    block:
        "post" phi(W x), "pre" W phi(x), "mlp" W2 phi(W1 x), "glu" W3 (phi(W1 x) * W2 x), or a function that is given
        a ``tpcalc.programs.blocks.Branch``, writes its statements on it and returns a vector. The mean over
        coordinates is subtracted from nonlinear "post" blocks.
    norm:
        None, "rms": the block's input is divided by its root mean square, or "layer": its mean over coordinates is
        subtracted before that, as LayerNorm does; neither has gains.
    train_ends:
        whether read-in and read-out are trained, by the same optimizer.
    matrices:
        of an "mlp" block: W_k phi(W_(k-1) ... phi(W_1 x)) for k of them, at least 1.

    Normalisation (muP): U has entries N(0, 1), matrices N(0, 1/n), n V N(0, 1); source: Tensor Programs VI,
    section 4.2 and Program 1 [tensor_programs_vi/program_1]. Symbolic work takes all of these; so does ``tp.train``,
    which samples what is not linear with one matrix a block and does not close at infinite depth.

    Raises ``ValueError`` for anything else, naming what is allowed.

    >>> import tpcalc as tp
    >>> tp.ResNet("relu", "mlp", norm="rms").is_linear, tp.ResNet().is_linear
    (False, True)
    """

    takes = Task
    positions = None

    phi: sp.Expr | str = "linear"
    block: str | Block = "post"
    norm: str | None = None
    train_ends: bool = False
    matrices: int = 2

    def __post_init__(self) -> None:
        activation(self.phi)
        if isinstance(self.phi, str):
            object.__setattr__(self, "phi", self.phi.lower())
        if not callable(self.block):
            object.__setattr__(self, "block", choice("block", self.block, BLOCKS))
        if not (self.norm is None or isinstance(self.norm, str) and self.norm in NORMS):
            raise ValueError(f"norm: {short(self.norm)} given; allowed are None and {', '.join(map(repr, NORMS))}")
        if not isinstance(self.train_ends, bool):
            raise ValueError(f"train_ends: {self.train_ends!r} given; allowed are False and True")
        positive_integer("matrices", self.matrices)
        if self.matrices > MOST:
            raise ValueError(f"matrices: {self.matrices} given; every one is a statement, allowed are at most {MOST}")
        if self.matrices != 2 and self.block != "mlp":
            raise ValueError(f"matrices: {self.matrices} given with block={self.block!r}; it belongs to block='mlp', "
                             "allowed is 2 elsewhere, which says nothing there")
        self.written()

    def branch(self, x: Vec, sample: tuple[sp.Expr, ...]) -> tuple[list[Assign], sp.Expr]:
        """The statements of the block that acts on ``x`` at (sample, l), and the vector it returns."""
        block = mlp(self.matrices) if self.block == "mlp" else BLOCKS[self.block] if isinstance(
            self.block, str) else self.block
        branch = Branch(x, activation(self.phi), is_linear(self.phi), sample)
        return branch.statements, written(block, branch, self.norm)

    def layer(self, sample: tuple[sp.Expr, ...], eps: sp.Expr) -> list[Assign]:
        x = vector("x")
        statements, value = self.branch(x[(*sample, l - 1)], sample)
        return [*statements, Assign(x[(*sample, l)], x[(*sample, l - 1)] + multiplied_out(eps * value))]

    def frozen(self) -> ResNet:
        return replace(self, train_ends=False)

    def written(self) -> tuple[list[Assign], sp.Expr]:
        """The statements of the block on the stream of one sample, and the vector it returns."""
        return self.branch(STREAM, (t,))

    @property
    def title(self) -> str:
        name = self.phi if isinstance(self.phi, str) else "nonlinear"
        depth = "" if self.block == "post" else f" with {block_name(self.block)} blocks"
        if self.matrices != 2:
            depth += f" of {self.matrices} {'matrices' if self.matrices > 1 else 'matrix'}"
        return f"{name} residual network{depth}"

    @cached_property
    def is_linear(self) -> bool:
        statements, value = self.written()
        return all(map(is_linear_in_vectors, (*(s.value for s in statements), value)))

    @cached_property
    def is_plain(self) -> bool:
        statements, value = self.written()
        return (not statements and isinstance(value, MatVec) and isinstance(value.matrix, Mat)
                and value.vector == STREAM)
