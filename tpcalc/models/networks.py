"""Networks as data: what is computed, without saying how it is scaled or trained."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import sympy as sp

from .._checks import choice, flag, positive_integer, short
from ..errors import NotCovered
from .activations import activation, is_linear
from ..programs.blocks import BLOCKS, GATES, Block, Branch, after_gate, block_name, in_parts, is_linear_in_vectors, mlp
from ..programs.blocks import vector
from ..programs.indices import l, t
from ..programs.language import Matrix, MatVec
from .network import NETWORKS, Layer, Network
from ..programs.program import Assign
from .residual import Residual
from ..data.task import Task

MOST = 256  # matrices of a block
STREAM = vector("x")[t, l - 1]  # what a block acts on
__all__ = ["MOST", "NETWORKS", "STREAM", "Layer", "Network", "ResNet"]


@dataclass(frozen=True, repr=False)
class ResNet(Residual):
    """A residual network x^l = x^(l-1) + eps block(x^(l-1)), x^0 = U xi, f = V^T x^L.

    Parameters
    ----------
    phi:
        the activation: "linear", "relu", "abs", "tanh", "erf", "gelu", "silu", in any case, or a sympy
        expression in one symbol.
    block:
        "post_nonlin" phi(W x), "pre_nonlin" W phi(x), "mlp" W2 phi(W1 x), "glu" W3 (phi(W1 x) * W2 x), or a function
        that is given a ``tpcalc.programs.blocks.Branch``, writes its statements on it and returns a vector. The mean
        over coordinates is subtracted from nonlinear "post_nonlin" blocks. "swiglu", "geglu" and "reglu" stand for
        "glu" with "silu", "gelu" and "relu" as phi, which is then left out.
    norm:
        None, "rms": the block's input is divided by its root mean square, or "layer": its mean over coordinates is
        subtracted before that, as LayerNorm does.
    train_embedding_readout:
        whether embedding and readout are trained, by the same optimizer.
    matrices:
        of an "mlp" block: W_k phi(W_(k-1) ... phi(W_1 x)) for k of them, at least 1.
    norm_position:
        "pre": x + eps f(norm(x)); "output": x + eps norm(f(x)); "sandwich": x + eps norm(f(norm(x))); "post":
        norm(x + eps f(x)), the post-norm of the first transformers, which every stream goes through that changes.
    norm_scale:
        what the norm of a block's input is multiplied by, a number or an expression in the layer and the depth,
        ``sympy.symbols("l L")``: 1/sqrt(l) is LayerNorm scaling [Sun et al. 2025, arXiv:2502.05795].
    gains:
        whether each norm is followed by a coordinatewise product with a trained vector, which starts at 1:
        ``tpcalc.programs.blocks.Branch.trained`` says how it moves.
    skip:
        None, for the stream as it is; a ``tp.Skip`` or ``tp.HyperConnections``; or a function that is given a
        ``tpcalc.models.skips.Junction`` and returns what the stream is after the block.
    mlp_ratio:
        of "mlp" blocks of two matrices and of "glu": the width of the hidden layer over that of the stream, r, a whole
        number. The matrices are W1 of shape (r n, n), whose rows are those of W1_1, ..., W1_r, and the last one of
        shape (n, r n), whose columns are those of W2_1, ..., W2_r over sqrt(r); ``run.initial_weights()`` and programs
        have these parts, n x n each, with entries N(0, 1/n), so that entries of both are N(0, 1 / fan-in). Every part
        is trained as a matrix is. By SGD W1 then moves along its gradient with the learning rate and W2 with 1/r of
        it, and kernels, so limits by SGD, are those of r = 1, except where updates stand inside of functions, as at
        alpha = 1, gamma = 0. By Adam, SignSGD and Lion entries of W2 move by
        1/sqrt(r) of what those of W1 do, and what a step changes in the stream grows like sqrt(r). Those rates are
        one rate for both where W2 has entries N(0, 1/n) and 1/sqrt(r) stands in front of it as a multiplier.
        ``tp.Parametrization`` names W1 and W2. tp.Muon, tp.NormalizedSGD, tp.Shampoo and tp.SOAP see W1 and W2 as
        wholes, which move by lr times their directions, without a factor for their shapes.
    visits, order, inject:
        how often the stream goes through every layer, with the same matrices: N times, or ``tp.oo``. In "cycle" order
        layers 1 to L come again and again, in "block" order every layer is visited N times in a row. Branches are
        divided by N, and what a step changes in weights is a mean over visits, so that neither alpha, gamma nor
        learning rates depend on N. inject: in cycles, every visit of all layers begins by adding inject / N times x^0
        to every stream that is read out. Vectors then have a visit c, from 1 to N, before their layer. Source:
        [tpcalc/loops].
    readout:
        what the readout is applied to: "linear", the stream itself, or an activation of it, f = V^T phi(x^L), as
        ``phi``: (1) of Depthwise Hyperparameter Transfer [depthwise_transfer/parametrization]. Methods that know blocks
        alone take "linear".

    zero_readout:
        whether outputs are less those that the weights of step 0 give for the same inputs: 0 before training, in every
        network. The limit of infinite width is the same, where these vanish; at finite width their fluctuation, which
        updates of one size see (``run.crossover_width``), is gone. Real networks go forward twice.

    Normalization (muP): U has entries N(0, 1), matrices N(0, 1/n), n V N(0, 1); source: Tensor Programs VI,
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
    block: str | Block = "post_nonlin"
    norm: str | None = None
    train_embedding_readout: bool = False
    matrices: int = 2
    readout: sp.Expr | str = field(default="linear", kw_only=True)

    def __post_init__(self) -> None:
        activation(self.phi)
        activation(self.readout, "readout")
        if isinstance(self.readout, str):
            object.__setattr__(self, "readout", self.readout.lower())
        for name, value in zip(("block", "phi"), after_gate(self.block, self.phi, "linear")):
            object.__setattr__(self, name, value)
        if not callable(self.block):
            object.__setattr__(self, "block", choice("block", self.block, (*BLOCKS, *GATES)))
        self.require_options()
        object.__setattr__(self, "train_embedding_readout", flag("train_embedding_readout",
                                                                 self.train_embedding_readout))
        positive_integer("matrices", self.matrices)
        if self.matrices > MOST:
            raise ValueError(f"matrices: got {self.matrices}; every one is a statement; expected at most {MOST}")
        if self.matrices != 2 and self.block != "mlp":
            raise ValueError(f"matrices: got {self.matrices} with block={self.block!r}; it belongs to block='mlp'; "
                             "expected 2 elsewhere, which says nothing there")
        self.require_hidden(self.block if self.matrices == 2 else f"{self.matrices} matrices")
        self._written

    @property
    def block_function(self) -> Block:
        block = mlp(self.matrices) if self.block == "mlp" else BLOCKS[self.block] if isinstance(
            self.block, str) else self.block
        return in_parts(block, self.mlp_ratio)

    def _branch(self, sample: tuple[sp.Expr, ...]) -> Branch:
        return Branch(vector("x")[(*sample, l - 1)], activation(self.phi), is_linear(self.phi), sample)

    def layer(self, sample: tuple[sp.Expr, ...], eps: sp.Expr) -> Layer:
        branch = self._branch(sample)
        before, after = (tuple(stream[(*sample, at)] for stream in self.streams) for at in (l - 1, l))
        self.sublayer(self.block_function, branch, before, after, eps)
        return Layer.of(branch)

    def frozen(self) -> ResNet:
        return replace(self, train_embedding_readout=False)

    def written(self) -> tuple[list[Assign], sp.Expr]:
        """The statements of the block on the stream of one sample, norms included, and the vector that is added to it.

        Raises ``ValueError`` where a layer is not x + eps block(x), naming the option, and for a readout that does not
        act on the stream itself: what is known of blocks is told of such.
        """
        self.require_added()
        if not self.reads_stream:
            raise NotCovered(f"readout: got {short(self.readout)}; what blocks make by themselves is read where the "
                             "readout acts on the stream; expected 'linear'")
        branch = self._branch((t,))
        return branch.statements, self.entered(self.block_function, branch, sp.Integer(1), "", STREAM)

    @property
    def title(self) -> str:
        name = self.phi if isinstance(self.phi, str) else "nonlinear"
        depth = "" if self.block == "post_nonlin" else f" with {block_name(self.block)} blocks"
        if self.matrices != 2:
            depth += f" of {self.matrices} {'matrices' if self.matrices > 1 else 'matrix'}"
        read = "" if self.reads_stream else f" read through {self.readout}"
        return f"{name} residual network{depth}{read}"

    @cached_property
    def is_linear(self) -> bool:
        return self.reads_stream and all(is_linear_in_vectors(s.value) for s in self._written.statements)

    @cached_property
    def is_plain(self) -> bool:
        if self.skip is not None or self.visits > 1 or not self.reads_stream or len(self._written.statements) > 1:
            return False
        statements, value = self.written()
        return (not statements and isinstance(value, MatVec) and isinstance(value.matrix, Matrix)
                and value.vector == STREAM)
