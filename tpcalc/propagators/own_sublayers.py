"""Sublayers of a user's own that meet the stream as built-in ones do: whether they do is read off what they wrote."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import singledispatchmethod

import sympy as sp

from ..errors import NotCovered
from ..models import Transformer
from ..models.activations import activation, is_linear
from ..models.gates import constant_gate
from ..programs.blocks import Block, Branch, block_name, vector
from ..programs.indices import POSITIONS, l, m, p, t
from ..programs.by_position import HeadTurn
from ..programs.language import HeadSum, Matrix, MatVec, Member, Vector

SLOW = (sp.tanh, sp.erf, sp.sin, sp.cos, sp.Abs, sp.Max, sp.Min)  # that grow no faster than what they act on
STREAM = vector("x")[t, p, l - 1]


def require_kernels(net: Transformer) -> None:
    """Raise ``ValueError`` unless each sublayer that a user wrote enters a limit through kernels of all positions.

    It does where every matrix multiplies one vector, the stream or what such products were made into by functions that
    grow like powers, and where it ends with a matrix: what it adds is then Gaussian with mean zero, and its covariance
    and tangent kernels are finite functions of the stream's overlaps at all positions, as those of built-in sublayers
    are. Source: [tpcalc/action_principle].

    >>> import tpcalc as tp
    >>> from tpcalc.programs.language import MatVec
    >>> def exponential(b):
    ...     v = b.let("v", MatVec(b.weights("Wv"), b.x))
    ...     return MatVec(b.weights("Wo"), b.let_total("mixed", sp.exp(v) * b.other(v)))
    >>> require_kernels(tp.Transformer(positions=2, attention=exponential, mlp=None))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    tpcalc.errors.NotCovered: net: got the sublayer exponential, with exp(v[t, p, l]), for which ...
    """
    if net.is_built_in:
        return
    used: dict[str, str] = {}
    for block, own in zip(net.sublayers, (callable(net.attention), callable(net.mlp))):
        reading = _SublayerStatements(block_name(block))
        written = reading.read(block, net) if own else _written(block, net)[0]
        for name in {one.name for e in [*(s.value for s in written.statements),
                                        *reading.ends] for one in e.atoms(Matrix)}:
            if name in used:
                raise reading.refusal(f"the matrix {name}, which {used[name]} has, too, so that its products are not "
                                      "independent")
            used[name] = reading.name


def _written(block: Block, net: Transformer) -> tuple[Branch, sp.Expr]:
    """Softmax, whose shares lie between 0 and 1, is a bounded function of scores, as tanh is; gates of experts are
    bounded numbers."""
    branch = Branch(STREAM, activation(net.phi), is_linear(net.phi), (t, p), attend=_bounded, weigh=constant_gate)
    return branch, block(branch)


def _bounded(_: object, b: Branch) -> sp.Expr:
    q, k, v = (b.let(name, MatVec(b.weights(matrix), b.x))
               for name, matrix in (("q", "Wq"), ("k", "Wk"), ("value", "Wv")))
    share = b.let("share", sp.tanh(b.let("score", q * b.other(k))))
    return MatVec(b.weights("Wo"), b.let_total("mixed", share * b.other(v)))


def _is_above_a_number(value: sp.Expr) -> bool:
    """Is it a number above 0, and exponentials of vectors besides?"""
    number, rest = value.as_independent(Member, as_Add=True)
    terms = [term.as_independent(Member, as_Add=False) for term in sp.Add.make_args(rest)]
    return bool(number.is_positive) and all(factor.is_positive and isinstance(one, sp.exp) for factor, one in terms)


@dataclass
class _SublayerStatements:
    """name: of the sublayer; made: names of vectors that were made of products, ends: what it adds to the stream;
    multiplied: what every matrix multiplies."""

    name: str
    made: dict[str, sp.Expr] = field(default_factory=dict)
    ends: list[sp.Expr] = field(default_factory=list)
    multiplied: dict[str, str] = field(default_factory=dict)

    def refusal(self, what: str) -> NotCovered:
        return NotCovered(f"net: got the sublayer {self.name}, with {what}; expected at depth=tp.oo are sublayers "
                          "that begin and end with matrices, each times one vector, and have between "
                          "them sums, products, whole powers, sums over heads and positions, 1/(1 + exp(x)), "
                          f"and {', '.join(f.__name__ for f in SLOW)}")

    def read(self, block: Block, net: Transformer) -> Branch:
        """Read all that the sublayer writes; raises ``ValueError`` naming what has no rule."""
        branch, value = _written(block, net)
        if branch.vectors:
            raise self.refusal(f"the trained vector {branch.vectors[0].name}")
        for statement in branch.statements:
            self.grows_slowly(statement.value)
            self.made[statement.target.name] = statement.value
        for term in sp.Add.make_args(sp.expand(value)):
            number, end = term.as_independent(Member, as_Add=False)
            end = self.made.get(end.name, end) if isinstance(end, Vector) else end
            if not (isinstance(end, MatVec) and number.is_number):
                raise self.refusal(f"{end} added to the stream, which is no product with a matrix")
            self.grows_slowly(end)
            self.ends.append(end)
        return branch

    def grows_slowly(self, value: sp.Expr) -> None:
        """Raise ``NotCovered`` unless the value is made of products by functions that grow like powers."""
        if not value.has(Member):
            if value.free_symbols - {p, m, POSITIONS}:
                raise self.refusal(f"{value}, which is not alike in all layers and steps")
            return
        self._grows_slowly(value)

    @singledispatchmethod
    def _grows_slowly(self, value: sp.Expr) -> None:
        if not isinstance(value, SLOW):
            raise self.refusal(f"{value}, for which no rule says that its means are finite")
        for one in value.args:
            self.grows_slowly(one)

    @_grows_slowly.register(sp.Add)
    @_grows_slowly.register(sp.Mul)
    def _all(self, value: sp.Expr) -> None:
        for one in value.args:
            self.grows_slowly(one)

    @_grows_slowly.register(HeadSum)
    @_grows_slowly.register(HeadTurn)
    @_grows_slowly.register(sp.Sum)
    def _inside(self, value: sp.Expr) -> None:
        self.grows_slowly(value.args[0])

    @_grows_slowly.register(sp.Pow)
    def _power(self, value: sp.Pow) -> None:
        if value.exp.is_Integer and value.exp < 0 and _is_above_a_number(value.base):
            return  # bounded, as logistic functions are
        if not (value.exp.is_Integer and value.exp > 0):
            raise self.refusal(f"{value}, for which no rule says that its means are finite")
        self.grows_slowly(value.base)

    @_grows_slowly.register(sp.Piecewise)
    def _pieces(self, value: sp.Piecewise) -> None:
        for one, condition in value.args:
            if condition.has(Member):
                raise self.refusal(f"{value}, which chooses by a vector")
            self.grows_slowly(one)

    @_grows_slowly.register(Vector)
    def _vector(self, value: Vector) -> None:
        if value.name not in self.made:
            raise self.refusal(f"{value} where no matrix has multiplied it")

    @_grows_slowly.register(MatVec)
    def _product(self, value: MatVec) -> None:
        matrix, acted = value.matrix, value.vector
        if not (isinstance(matrix, Matrix) and matrix.indices == (t, l)):
            raise self.refusal(f"{matrix}, which is no matrix of its own layer")
        known = self.multiplied.setdefault(matrix.name, acted.name if isinstance(acted, Vector) else str(acted))
        if known != (acted.name if isinstance(acted, Vector) else str(acted)):
            raise self.refusal(f"{matrix}, which multiplies {known} and {acted}")
        if not (isinstance(acted, Vector) and acted.same_family(STREAM)):
            self.grows_slowly(acted)
