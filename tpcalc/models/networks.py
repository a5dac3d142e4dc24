"""Residual networks as data: what a sublayer is, and the network made of them, without scaling or training.

Of a sublayer: where its norm stands, what is trained beside it, and what its skip does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any, Self, Sequence

import numpy as np
import sympy as sp

from .._checks import choice, flag, function, positive_integer, short, size, whole_number
from ..data.task import Task
from ..errors import NotCovered
from ..programs.algebra import multiplied_out
from ..programs.blocks import (BLOCKS, GATES, HIDDEN, Block, Branch, after_gate, block_name, in_parts,
                               is_linear_in_vectors, mlp, require_block, vector)
from ..programs.language import MatVec, Matrix, Vector, kind
from ..programs.indices import L, l, t
from ..programs.program import Assign
from .activations import NORMS, NORM_POSITIONS, activation, is_linear
from .network import NETWORKS, Layer, Network
from .skips import HyperConnections, Junction, Skip, SkipConnection, by_name, of_depth

ORDERS = ("cycle", "block")  # 1, ..., L, 1, ..., L, or every layer as often as it is visited, one after the other
# places of the norm of a block's input, and of its output
OF_INPUT, OF_OUTPUT = ("pre", "sandwich"), ("output", "sandwich")
CARRIED = 8  # streams, at most: every one is a vector of its own in every layer
WIDEST = 32  # parts of a hidden layer


@dataclass(frozen=True, kw_only=True, repr=False)
class Residual(Network):
    """A network of residual sublayers, with what is set for all of them; ``tp.ResNet`` says what the options are."""

    norm_position: str = "pre"
    norm_scale: Any = sp.Integer(1)
    gains: bool = False
    biases: bool | Sequence[str] = False
    skip: SkipConnection | None = None
    mlp_ratio: int = 1
    visits: Any = 1
    order: str = "cycle"
    inject: Any = sp.Integer(0)
    zero_readout: bool = False

    def require_options(self) -> None:
        """Check norm, skip and hidden width; raise ``ValueError`` for what they cannot be, and for what says nothing
        without a norm, or without a hidden layer."""
        if not (self.norm is None or isinstance(self.norm, str) and self.norm in NORMS):
            raise ValueError(f"norm: got {short(self.norm)}; expected None and {', '.join(map(repr, NORMS))}")
        object.__setattr__(self, "norm_position", choice("norm_position", self.norm_position, NORM_POSITIONS))
        for name in ("gains", "zero_readout"):
            object.__setattr__(self, name, flag(name, getattr(self, name)))
        given, scale = self.norm_scale, of_depth("norm_scale", self.norm_scale, l)
        for name, usual in (("norm_position", "pre"), ("gains", False), ("norm_scale", 1)):
            if self.norm is None and (scale if name == "norm_scale" else getattr(self, name)) != usual:
                raise ValueError(f"{name}: got {short(getattr(self, name))} with norm=None; expected {usual!r}, "
                                 "which says nothing there")
        object.__setattr__(self, "norm_scale", scale)
        if self.norm_scale != 1 and self.norm_position not in OF_INPUT:
            raise ValueError(f"norm_scale: got {short(given)} with norm_position={self.norm_position!r}; it "
                             "multiplies the normed input of a block; expected 1")
        if self.norm_scale == 0:
            raise ValueError(f"norm_scale: got {short(given)}; expected a number other than 0, or an expression in "
                             "l and L")
        self._require_names_of_biases()
        function("skip", self.skip, "a tp.Skip, tp.HyperConnections or a function of a Junction")
        if isinstance(self.skip, type):
            raise ValueError(f"skip: got {short(self.skip)}; expected an object of it, {self.skip.__name__}()")
        if self.skip == Skip():
            object.__setattr__(self, "skip", None)
        if not 1 <= len(self.readout_weights) <= CARRIED or not any(self.readout_weights):
            raise ValueError(f"skip: got {short(self.skip)}, with {len(self.readout_weights)} streams; expected 1 to "
                             f"{CARRIED}, of which the readout reads one at least")
        object.__setattr__(self, "mlp_ratio", whole_number("mlp_ratio", self.mlp_ratio, 1))
        if self.mlp_ratio > WIDEST:
            raise ValueError(f"mlp_ratio: got {self.mlp_ratio}; every part of a hidden layer is a matrix of its own; "
                             f"expected at most {WIDEST}")
        self._require_visits()

    def _require_names_of_biases(self) -> None:
        if not isinstance(self.biases, bool) and (isinstance(self.biases, str) or not isinstance(
                self.biases, Sequence) or not all(isinstance(one, str) for one in self.biases)):
            raise ValueError(f"biases: got {short(self.biases)}; expected True for all, False, or names of matrices "
                             f"whose products have one, and {OF_NORMS!r}")
        names = self.biases if isinstance(self.biases, bool) else tuple(dict.fromkeys(self.biases)) or False
        object.__setattr__(self, "biases", names)
        if isinstance(names, tuple) and OF_NORMS in names and self.norm is None:
            raise ValueError(f"biases: got {OF_NORMS!r} with norm=None; expected names of matrices")

    def require_biases(self) -> None:
        """Write a layer once; raise ``ValueError`` for biases of products that blocks do not write with
        ``tpcalc.Branch.product``."""
        multiplied = self._written.multiplied
        if not self.biases:
            return
        names = dict.fromkeys(multiplied.values())
        asked, known = (self.matrices_of_block, map(self.whole, multiplied)) if self.biases is True else (
            self.biases, (*names, OF_NORMS))
        if missing := set(asked) - set(known):
            raise ValueError(f"biases: got {short(self.biases)}; {', '.join(sorted(missing))}: expected matrices that "
                             f"a block gives to Branch.product, {', '.join(names) or 'of which there are none'}")

    def _require_visits(self) -> None:
        object.__setattr__(self, "visits", size("visits", self.visits) or sp.oo)
        object.__setattr__(self, "order", choice("order", self.order, ORDERS))
        given = self.inject
        object.__setattr__(self, "inject", of_depth("inject", given))
        if self.inject.free_symbols:
            raise ValueError(f"inject: got {short(self.inject)}; expected a number: what all visits bring is divided "
                             "by how many they are")
        if self.visits == 1 and (self.order, self.inject) != ("cycle", 0):
            raise ValueError(f"visits: got 1 with order={self.order!r} and inject={short(given)}, which say nothing "
                             "there; expected at least 2 visits")
        if self.order == "block" and self.inject != 0:
            raise ValueError(f"inject: got {self.inject} with order='block', whose layers all come after each other; "
                             "expected order='cycle'")

    @property
    def at_infinite_width(self) -> Self:
        return replace(self, zero_readout=False) if self.zero_readout else self

    @property
    def narrow(self) -> Self:
        return self if self.mlp_ratio == 1 else replace(self, mlp_ratio=1)

    @property
    def hidden_ratio(self) -> int:
        """The hidden width over that of the stream."""
        return self.mlp_ratio

    @cached_property
    def parts(self) -> dict[str, str]:
        """{part: matrix} of a wide hidden layer's matrices: those that the narrow network has, and this one has not."""
        if self.hidden_ratio == 1:
            return {}
        return {f"{name}_{k}": name for name in self.narrow.families_of_matrices
                if name not in self.families_of_matrices for k in range(1, self.hidden_ratio + 1)}

    def whole(self, name: str) -> str:
        return self.parts.get(name, name)

    def require_hidden(self, block: object) -> None:
        """Raise ``ValueError`` for a ``mlp_ratio`` above 1 with a block that has no hidden layer."""
        if self.mlp_ratio > 1 and block not in HIDDEN:
            raise ValueError(f"mlp_ratio: got {self.mlp_ratio} with {short(block)}; it belongs to blocks with one "
                             f"hidden layer, {', '.join(map(repr, HIDDEN))}; expected 1 elsewhere, which says "
                             "nothing there")

    @property
    def readout_weights(self) -> tuple[sp.Expr, ...]:
        """What the skip says, or else that the first stream alone is read."""
        said = getattr(self.skip, "readout", None)
        if said is not None:
            return tuple(of_depth("readout", weight) for weight in said)
        count = getattr(self.skip, "streams", 1)
        if isinstance(count, bool) or not isinstance(count, int):
            raise ValueError(f"skip: got {short(self.skip)}, with streams {short(count)}; expected a whole number")
        return tuple(sp.Integer(int(number == 0)) for number in range(count))

    @property
    def is_usual(self) -> bool:
        return (super().is_usual and self.norm_position == "pre" and self.norm_scale == 1 and not self.gains
                and not self.biases and self.skip is None and self.visits == 1)

    @property
    def shifts_normed(self) -> bool:
        """Is a bias added behind norms? Where all have one, behind LayerNorm with gains, as PyTorch has it."""
        if isinstance(self.biases, bool):
            return self.biases and self.gains and self.norm == "layer"
        return OF_NORMS in self.biases

    @property
    def acts_on_normed(self) -> bool:
        return self.norm is not None and self.norm_position in OF_INPUT

    def __repr__(self) -> str:
        """As dataclasses are shown, without options of sublayers and the readout that are as usual."""
        own = {f.name: f.default for f in fields(self) if f.kw_only}
        shown = [f.name for f in fields(self) if f.name not in own] + [
            name for name, usual in own.items() if getattr(self, name) != usual]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def require_added(self) -> None:
        """Raise ``ValueError`` unless a sublayer adds its block to the stream as that is, alike in all layers."""
        for name, given, usual in (("skip", self.skip, None), ("gains", self.gains, False),
                                   ("biases", self.biases, False)):
            if given is not usual:
                raise NotCovered(f"{name}: got {short(given)}; blocks by themselves are read where a layer is x + "
                                 f"eps block(x); expected {name}={usual}")
        self.require_one_visit("blocks by themselves are read")
        if self.norm_position == "post":
            raise NotCovered("norm_position: got 'post'; blocks by themselves are read where a layer is x + eps "
                             "block(x); expected 'pre', 'output' and 'sandwich'")

        if self.norm_scale.free_symbols:
            raise NotCovered(f"norm_scale: got {self.norm_scale}; blocks by themselves are read where they are alike "
                             "at all layers and depths; expected a number")

    @property
    def is_added(self) -> bool:
        """Does a sublayer add its block to the stream as that is, alike in all layers?"""
        try:
            self.require_added()
        except NotCovered:
            return False
        return True

    def require_counted(self) -> None:
        if self.norm_scale.free_symbols:  # of functions of what shrinks bounds alone are counted
            raise NotCovered(f"norm_scale: got {self.norm_scale}; powers of L are counted where it is a number")

    def require_known_skip(self) -> None:
        """Raise ``NotCovered`` for a skip of a user's own, which may differ from layer to layer."""
        if not (self.skip is None or isinstance(self.skip, (Skip, HyperConnections))):
            raise NotCovered(f"skip: got {short(self.skip)}; expected None, a tp.Skip and tp.HyperConnections")

    def require_sizes(self, depth: int | None) -> None:
        """Every number that is an expression in the depth must have a value at it."""
        skip = {f.name: getattr(self.skip, f.name) for f in fields(self.skip)} if isinstance(
            self.skip, (Skip, HyperConnections)) else {}
        for name, given in {"norm_scale": self.norm_scale, **skip}.items():
            for value in sp.flatten([given]):
                if depth is None or not getattr(value, "free_symbols", ()):
                    continue
                with np.errstate(all="ignore"):
                    numbers = sp.lambdify((l, L), value, "numpy")(np.arange(1.0, depth + 1), np.float64(depth))
                if not np.all(np.isfinite(numbers)):
                    raise ValueError(f"{name}: got {value} at depth {depth}; expected what has a finite real value "
                                     "there, at every layer")

    def sublayer(self, block: Block, branch: Branch, streams: tuple[Vector, ...], targets: tuple[Vector, ...],
                 eps: sp.Expr, number: str = "") -> None:
        """Write a sublayer on ``branch``, whose x is nothing yet, from streams to targets."""
        def let(name: str, value: sp.Expr) -> Vector:
            return branch.let(name + number, by_name(value))

        junction = Junction(streams, number, partial(self.entered, block, branch, eps, number), let,
                            lambda name: branch.trained(name + number))
        values = ((streams[0] + junction.branch(streams[0]),) if self.skip is None else
                  tuple(map(by_name, self.skip(junction))))
        if len(values) != len(streams) or not all(isinstance(v, sp.Expr) and kind(v) == "vector" for v in values):
            raise ValueError(f"skip: {short(self.skip)} wrote {short(values)}; expected as many vectors of the "
                             f"language as there are streams, {len(streams)}")
        for stream, target, value in zip(streams, targets, values):
            if target.name in {v.name for v in (*(one.target for one in branch.statements), *branch.vectors)}:
                raise ValueError(f"name: got {target.name!r}, a stream of the network; expected another")
            if self.norm_position == "post" and value != stream:
                suffix = target.name.lstrip("xy") if len(streams) > 1 else ""
                value = self._normed(branch, let("s" + suffix, value), "e" + suffix, number)
            branch.statements.append(Assign(target, value))
        matrices = {one.name for statement in branch.statements for one in statement.value.atoms(Matrix)}
        if not matrices:
            raise ValueError(f"skip: {short(self.skip)} wrote {short(values)}; expected what has junction.branch(x) "
                             "in it, and with it a trained matrix")
        for one in branch.vectors:
            if one.name in matrices:
                raise ValueError(f"name: got {one.name!r} for a trained vector, a matrix of the layer; expected "
                                 "another")

    def entered(self, block: Block, branch: Branch, eps: sp.Expr, number: str, x: Vector, named: bool = False
                ) -> sp.Expr:
        """The block on x, with the norms around it, times eps."""
        if self.acts_on_normed:
            normed = self._normed(branch, x, "n", number, self.norm_scale)
            x = branch.let(f"{'ng' if self.gains else 'n'}{number}", normed)
        value = block(replace(branch, x=x))
        require_block(block, value, branch)
        if self.norm is not None and self.norm_position in OF_OUTPUT:
            value = self._normed(branch, branch.let(f"r{number}", value), "o", number)
        elif named:
            value = branch.let(f"r{number}", value)
        return multiplied_out(eps * value)

    def _normed(self, branch: Branch, x: Vector, letter: str, number: str, scale: sp.Expr = sp.Integer(1)) -> sp.Expr:
        """The vector after its norm, times ``scale``, and times gains where there are."""
        assert self.norm is not None
        *first, last = NORMS[self.norm]
        for step in first:
            x = branch.let(f"c{letter}{number}", step(x))
        value = scale * last(x)
        if self.gains:
            value = branch.trained(f"g{letter}{number}") * branch.let(f"{letter}{number}", value)
        return value + branch.trained(f"b{letter}{number}", "zero") if self.shifts_normed else value


OF_NORMS = "norm"  # biases that are added behind norms
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
    biases:
        which products with matrices have a trained vector added to them, which starts at 0 and moves as gains do: True
        for all, and behind norms "layer" with gains, too; or names of matrices, and "norm" for all norms, as ("Wq",
        "Wk", "Wv"). Keys that are neither normed nor turned have none, because softmax forgets it. Blocks of your own
        have those of products that they write by ``tpcalc.Branch.product``.
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
        self.require_biases()

    @property
    def block_function(self) -> Block:
        block = mlp(self.matrices) if self.block == "mlp" else BLOCKS[self.block] if isinstance(
            self.block, str) else self.block
        return in_parts(block, self.mlp_ratio)

    def _branch(self, sample: tuple[sp.Expr, ...]) -> Branch:
        return Branch(vector("x")[(*sample, l - 1)], activation(self.phi), is_linear(self.phi), sample,
                      biases=self.biases)

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
        if self.skip is not None or self.visits > 1 or not self.is_usual or not self.reads_stream or len(
                self._written.statements) > 1:
            return False
        statements, value = self.written()
        return (not statements and isinstance(value, MatVec) and isinstance(value.matrix, Matrix)
                and value.vector == STREAM)
