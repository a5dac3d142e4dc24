"""How a residual sublayer is put together: where its norm stands, what is trained beside it, and what its skip does."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import sympy as sp

from .._checks import choice, flag, function, short, size, whole_number
from ..errors import NotCovered
from ..programs.algebra import multiplied_out
from ..programs.blocks import HIDDEN, Block, Branch, require_block
from ..programs.indices import L, l
from ..programs.language import Matrix, Vector, kind
from .network import Network
from .norms import NORMS, NORM_POSITIONS
from ..programs.program import Assign
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

    @cached_property
    def parts(self) -> dict[str, str]:
        """{part: matrix} of a wide hidden layer's matrices: those that the narrow network has, and this one has not."""
        if self.mlp_ratio == 1:
            return {}
        return {f"{name}_{k}": name for name in self.narrow.families_of_matrices
                if name not in self.families_of_matrices for k in range(1, self.mlp_ratio + 1)}

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
                and self.skip is None and self.visits == 1)

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
        for name, given, usual in (("skip", self.skip, None), ("gains", self.gains, False)):
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
        return branch.trained(f"g{letter}{number}") * branch.let(f"{letter}{number}", value) if self.gains else value
