"""The transformer: attention, and what acts on positions one by one, in every layer."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from math import lcm
from typing import Any

import numpy as np
import sympy as sp

from .._checks import choice, exponent, flag, positive_integer, short
from ..errors import NotCovered
from .activations import activation, is_linear
from .attention import LEAST_NORMED, angles_of, require_normed, softmax_attention, table_of
from ..programs.blocks import BLOCKS, GATES, HIDDEN, Block, Branch, after_gate, block_name, in_parts, named_family
from .convolution import Convolution
from ..optimizers.entrywise import Adam
from ..programs.indices import l, p
from ..programs.language import Family, Vector
from .network import Layer
from .networks import ResNet, Residual
from .parallel import ParallelBlock
from ..data.sequences import Sequences

SCALES = (sp.Rational(1, 2), sp.Integer(1))


@dataclass(frozen=True, repr=False)
class Transformer(Residual):
    """A transformer: x^l = y + eps mlp(norm(y)), y = x + eps attention(norm(x)) with x = x^(l-1), at P positions.

    Every position has a stream, which starts as U xi, and an output f = V^T x^L; matrices are shared by positions.

    Parameters
    ----------
    heads:
        how many real networks have: their width is heads * head_dim where none is said. None leaves it to the width.
        Infinite width is infinitely many heads of the same ``head_dim``, whatever ``heads`` is.
    head_dim:
        coordinates of a head, d; where none are given 1, or with ``qk_norm`` as many as it needs, 3.
    positions:
        tokens of a sequence, P.
    norm:
        "rms" divides what a sublayer acts on by its root mean square, "layer" subtracts its mean over coordinates
        before. None does nothing.
    mlp:
        the second sublayer: "mlp" W2 phi(W1 x), "glu" W3 (phi(W1 x) * W2 x), None, or a function of a Branch;
        "swiglu", "geglu" and "reglu" stand for "glu" with "silu", "gelu" and "relu" as phi, which is then left out.
    causal:
        whether a position reads itself and earlier ones alone.
    scale_power:
        q . k is divided by d to this power: 1/2 or 1.
    qk_norm:
        whether q and k are divided by their root mean squares over the head, for heads of at least 3 coordinates.
    phi:
        the activation, as in ``tp.ResNet``.
    train_embedding_readout:
        whether embedding and readout are trained.
    attention:
        "softmax", or a function of a Branch that is put in its place.
    queries_per_key:
        query heads that share one key and value head, G: 1 is attention of many heads. Of W_k and W_v the rows of every
        G-th head alone are read; the limit has infinitely many groups of G heads.
    rotation:
        queries and keys are turned by their position, within the head: coordinates j and j + d/2 at position p by p
        times the j-th of d/2 angles. A number b, the base of rotary embeddings, stands for b^(-2j/d); None turns none.
    score_table:
        what is added to scores before softmax, an array of shape (positions, positions), entry (p, m) where p reads m,
        or one for every head, (heads, positions, positions); heads beyond these go through them again, so that infinite
        width is infinitely many heads of each. ``tpcalc.theory.alibi`` makes one. It is not trained.
    tied:
        whether the readout is the embedding, f = U^T x^L / n, for as many outputs as inputs; trained by the sum of the
        gradients of both. The first output is then not 0 at infinite width: x^0 overlaps U, so that it is the input
        itself, plus what sublayers bring.
    norm_position, norm_scale, gains, biases, skip:
        how every sublayer is put together, as in ``tp.ResNet``.
    mlp_ratio:
        the hidden width of the second sublayer over that of the stream, a whole number, 4 in many models;
        ``tp.ResNet`` says what its matrices are and how they move.
    visits, order, inject:
        how often the stream goes through every layer, and in which order, as in ``tp.ResNet``.
    zero_readout:
        whether outputs are less those of the weights at first, as in ``tp.ResNet``; not where the readout is ``tied``,
        whose first outputs are no fluctuation.

    Normalization (muP) as in ``tp.ResNet``: q, k, v and what is mixed have coordinates of order one.

    Raises ``ValueError`` for anything else, naming what is allowed.

    >>> import tpcalc as tp
    >>> net = tp.Transformer(heads=4, head_dim=2, positions=4)
    >>> net.width, net.matrices_of_block
    (8, ('Wq', 'Wk', 'Wv', 'Wo', 'W1', 'W2'))
    """

    takes = Sequences

    heads: int | None = None
    head_dim: int = None  # type: ignore[assignment]
    positions: int = 2
    norm: str | None = "rms"
    mlp: str | Block | None = "mlp"
    causal: bool = True
    scale_power: sp.Expr | float = SCALES[0]
    qk_norm: bool = False
    phi: sp.Expr | str = "gelu"
    train_embedding_readout: bool = False
    attention: str | Block = "softmax"
    queries_per_key: int = 1
    tied: bool = False
    rotation: Any = field(default=None, kw_only=True)
    score_table: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        activation(self.phi)
        for name, value in zip(("mlp", "phi"), after_gate(self.mlp, self.phi, "gelu")):
            object.__setattr__(self, name, value)
        if self.head_dim is None:
            object.__setattr__(self, "head_dim", LEAST_NORMED if self.qk_norm is True else 1)
        for name in ("heads", "head_dim", "positions", "queries_per_key"):
            if name != "heads" or self.heads is not None:
                object.__setattr__(self, name, positive_integer(name, getattr(self, name)))
        self.require_options()
        for name in ("causal", "qk_norm", "train_embedding_readout", "tied"):
            object.__setattr__(self, name, flag(name, getattr(self, name)))
        power = exponent("scale_power", self.scale_power)
        if power not in SCALES:
            raise ValueError(f"scale_power: got {short(self.scale_power)}; expected 1/2 and 1")
        object.__setattr__(self, "scale_power", power)
        require_normed(self.qk_norm, self.head_dim)
        self._require_positions()
        shared = self.queries_per_key
        if self.heads is not None and self.heads % shared:
            raise ValueError(f"queries_per_key: got {shared} for {self.heads} heads; expected divisors of them")
        if shared > 1 and callable(self.attention):
            raise ValueError(f"queries_per_key: got {shared} with an attention of your own, which says itself what "
                             "heads share; expected 1")
        if not callable(self.attention):
            object.__setattr__(self, "attention", choice("attention", self.attention, ("softmax",)))
        if isinstance(self.attention, Convolution) and self.attention.positions != self.positions:
            raise ValueError(f"positions: got {self.positions} with {self.attention!r}; expected those of its "
                             f"grid, {self.attention.positions}")
        if not (self.mlp is None or callable(self.mlp)):
            object.__setattr__(self, "mlp", choice("mlp", self.mlp, (*HIDDEN, *GATES)))
        self.require_hidden(self.mlp)
        if self.tied and self.zero_readout:
            raise ValueError("zero_readout: got True with tied=True, whose first outputs are the inputs and not a "
                             "fluctuation; expected False")
        self.require_biases()
        own = not isinstance(self.attention, (str, ParallelBlock))  # which says itself which positions a table knows
        for table in (one.table for one in self._written.attention):
            if table is not None and table.values.shape[1] != self.positions and not own:
                raise ValueError(f"score_table: got one for {table.values.shape[1]} positions in a network of "
                                 f"{self.positions}; expected as many")

    def _require_positions(self) -> None:
        """Check what knows positions, and write it as it is kept."""
        angles, table = angles_of(self.rotation, self.head_dim), table_of(self.score_table)
        for name, given in (("rotation", self.rotation), ("score_table", self.score_table)):
            if given is not None and callable(self.attention):
                raise ValueError(f"{name}: got {short(given)} with an attention of your own, which says itself what it "
                                 "does with positions; expected None")
        if self.rotation is not None:
            object.__setattr__(self, "rotation", angles if np.ndim(self.rotation) else float(self.rotation))
        object.__setattr__(self, "score_table", table)
        if table is not None and self.heads is not None and self.heads % len(table.values):
            raise ValueError(f"score_table: got one for {len(table.values)} heads with {self.heads} heads; expected "
                             "as many, or a divisor of them")

    @property
    def width(self) -> int | None:
        return None if self.heads is None else self.heads * self.head_dim

    @property
    def narrow(self) -> Transformer:
        one = super().narrow
        if not isinstance(one.attention, ParallelBlock) or one.attention.narrow is one.attention:
            return one
        return replace(one, attention=one.attention.narrow)

    @property
    def hidden_ratio(self) -> int:
        return self.attention.mlp_ratio if isinstance(self.attention, ParallelBlock) else self.mlp_ratio

    def require_width(self, width: int) -> None:
        super().require_width(width)
        if self.heads is not None and width != self.width:
            raise ValueError(f"width: got {width} for {self.heads} heads of {self.head_dim} coordinates; expected "
                             f"{self.width}, or heads=None with any multiple of {self.head_dim}")
        tables = 1 if self.score_table is None else len(self.score_table.values)
        group = self.head_dim * lcm(self.queries_per_key, tables)
        if width % group:
            shared = ("" if self.queries_per_key == 1 else f", {self.queries_per_key} to a key") + (
                "" if tables == 1 else f", {tables} tables of scores")
            raise ValueError(f"width: got {width} for heads of {self.head_dim} coordinates{shared}; expected "
                             f"multiples of {group}")

    def require_directions(self, opt: object) -> None:
        if isinstance(opt, Adam) and opt.eps == 0 and any(one.queries_per_key > 1 for one in self._written.attention):
            raise NotCovered(f"opt: got {opt!r} for heads that share keys; rows of the others' have no gradient, and "
                             "with eps=0 no direction either (0/0); expected an eps of more than 0")
        super().require_directions(opt)

    @property
    def is_built_in(self) -> bool:
        """Are its sublayers those of the package?"""
        return isinstance(self.attention, str) and not callable(self.mlp)

    @property
    def at_one_position(self) -> ResNet | None:
        """The residual network that a convolutional one is on a grid of one position, or None."""
        if not isinstance(self.attention, Convolution) or self.mlp is not None:
            return None
        options = {f.name: getattr(self, f.name) for f in fields(Residual)}
        return ResNet(self.phi, f"{self.attention.order}_nonlin", self.norm, **options)

    @property
    def sublayers(self) -> tuple[Block, ...]:
        """The blocks of a layer, in order."""
        second = BLOCKS[self.mlp] if isinstance(self.mlp, str) else self.mlp
        return (self.first_sublayer, *([] if second is None else [in_parts(second, self.mlp_ratio)]))

    @property
    def first_sublayer(self) -> Block:
        """Attention, or what is in its place."""
        return self.attention if callable(self.attention) else softmax_attention(
            self.head_dim, self.scale_power, self.causal, self.qk_norm, self.queries_per_key, self.rotation,
            self.score_table)

    @property
    def branch_kinds(self) -> tuple[str, ...]:
        return ("attention", "mlp")[:len(self.sublayers)]

    @property
    def carried(self) -> tuple[tuple[Family, ...], ...]:
        """The families of the streams after each sublayer; after the last, those of the network."""
        within = tuple(named_family(Vector, one.name.replace("x", "y")) for one in self.streams)
        return (*(within,) * (len(self.sublayers) - 1), self.streams)

    def layer(self, sample: tuple[sp.Expr, ...], eps: sp.Expr) -> Layer:
        sample = sample if p in sample else (*sample, p)
        streams = tuple(stream[(*sample, l - 1)] for stream in self.streams)
        branch = Branch(streams[0], activation(self.phi), is_linear(self.phi), sample, biases=self.biases)
        for number, (block, families) in enumerate(zip(self.sublayers, self.carried), 1):
            targets = tuple(one[(*sample, l)] for one in families)
            self.sublayer(block, branch, streams, targets, eps, str(number))
            streams = targets
        return Layer.of(branch)

    @property
    def ties_embedding_readout(self) -> bool:
        return self.tied

    def frozen(self) -> Transformer:
        return replace(self, train_embedding_readout=False)

    @property
    def title(self) -> str:
        if isinstance(self.attention, Convolution):
            second = "" if self.mlp is None else f" and {block_name(self.mlp)}"
            return f"residual network of a {self.attention.title}{second}"
        kind = "causal transformer" if self.causal else "transformer"
        second = "" if self.mlp is None else f" and {block_name(self.mlp)}"
        return f"{kind} of {block_name(self.attention)} attention{second}"

    @property
    def is_linear(self) -> bool:
        return False

    @property
    def is_plain(self) -> bool:
        return False
