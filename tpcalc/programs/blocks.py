"""Residual blocks: functions that write their forward statements in the language.

A block is given a ``Branch`` to write on, and returns the vector that is added to the stream, times the branch
multiplier. Everything else, the backward pass and the updates, follows from what it wrote. The built-in blocks use
the same door as a user's own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from keyword import iskeyword
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence

import sympy as sp

from .._checks import choice, short, whole_number
from ..errors import NotCovered
from .algebra import multiplied_out
from .indices import POSITIONS, at_other, l, m, p, t
from .language import Family, Matrix, MatVec, Member, Mean, Scalar, Vector, kind
from .program import Assign

TAKEN = ("x", "U", "nV")  # what the program around the block calls its own
STARTS: dict[str, sp.Expr | None] = {"one": sp.Integer(1), "zero": sp.Integer(0), "normal": None}
EARLIER = ("first", "second")  # positions that are written before one, where it stands for all
TAKEN_SCALARS = ("xi", "f", "chi", "eta", "y", "clip", "gradnorm", "squares", "extent", "mextent")


class Change(NamedTuple):
    """What a step adds to what is kept: ``by`` of the total of ``of``."""

    of: sp.Expr
    by: Callable[[sp.Expr], sp.Expr]


def _nothing(product: sp.Expr) -> sp.Expr:
    return sp.Integer(0)


@dataclass
class Branch:
    """A residual branch at step t and layer l while it is being written: the argument of a block of the user's own.

    x: the vector it acts on: the stream, or the stream normalized; phi: the activation, a function of expressions;
    is_linear: is phi the identity?; sample: the indices (t) or (t, i) of its vectors, with p where a sample is a
    sequence of positions; statements: what was written; vectors: what is trained, coordinatewise; starts: what all
    coordinates of these are at first, by name, None where they are drawn. suffix: what names of matrices and vectors
    end with, in one of the parts of a hidden layer. attend: what writes softmax attention, given it and the branch,
    where it is not written as it stands; attention: what softmax attention was written. weigh, experts: likewise what
    writes the gates of mixtures of experts, and what mixtures were written; routed: by the names of weights that they
    choose with, and choose between, a mixture and which of the two. keeps: what is moved otherwise than along
    gradients, and how, where it moves. unrolled: are states those of a position behind others that are as it is?
    biases: the products to which ``product`` adds a trained vector, by matrix, or True for all; parts: of a hidden
    layer, of which this is one; multiplied: {matrix: the name that ``product`` was given}.

    >>> import tpcalc as tp
    >>> from tpcalc.theory import MatVec
    >>> def block(branch: tp.Branch):
    ...     return MatVec(branch.weights(), branch.let("a", branch.phi(branch.x)))
    >>> net, task = tp.ResNet("tanh", block=block), tp.Task([1], [1])
    >>> tp.train(net, task, tp.SGD(), tp.DepthScaling(), 4, width=8).outputs.shape
    (1, 1, 1)
    """

    x: Vector
    phi: Callable[[sp.Expr], sp.Expr]
    is_linear: bool
    sample: tuple[sp.Expr, ...]
    statements: list[Assign] = field(default_factory=list)
    vectors: list[Vector] = field(default_factory=list)
    starts: dict[str, sp.Expr | None] = field(default_factory=dict)
    suffix: str = ""
    attend: Callable[..., sp.Expr] | None = None
    attention: list[Any] = field(default_factory=list)
    weigh: Callable[..., list[sp.Expr]] | None = None
    experts: list[Any] = field(default_factory=list)
    routed: dict[str, tuple[Any, str]] = field(default_factory=dict)
    keeps: dict[Vector | Scalar, Change | None] = field(default_factory=dict)
    unrolled: bool = False
    biases: bool | Sequence[str] = False
    parts: int = 1
    multiplied: dict[str, str] = field(default_factory=dict)

    def weights(self, name: str = "W") -> Matrix:
        """A trained matrix of this layer, N(0, 1/n) at first; the same name is the same matrix."""
        weights: Matrix = matrix(_checked(name) + self.suffix)[t, l]
        return weights

    def trained(self, name: str, start: str = "one") -> Vector:
        """A trained vector of this layer that multiplies vectors coordinate by coordinate; the same name is the same
        vector, and starts as it did. start: "one", all coordinates 1; "zero"; or "normal", entries N(0, 1).

        It is trained by the network's optimizer, entry by entry, along the mean over the batch of its gradient, with
        the same learning rate. On a branch its updates are of the size g of those of matrices: both move what a layer
        adds to the stream by eps g, in the same direction in all layers. What multiplies the stream itself, without
        eps, moves by eps g. So what the vectors of all layers do is of the order of what the matrices do, at every
        (alpha, gamma) and width. Weight decay acts on it as on matrices, towards 0. In a ``Mean`` it reads numbers off
        vectors: ``Mean(b.trained("r", "normal") * b.x)`` is r . x / n, of a weight r / n with entries N(0, 1/n^2).
        Raises ``ValueError`` for a name that is taken, and for another start.

        >>> import tpcalc as tp
        >>> from tpcalc.programs.language import MatVec
        >>> def scaled(b):
        ...     return b.trained("s") * b.let("h", MatVec(b.weights(), b.x))
        >>> text = str(tp.program(tp.ResNet(block=scaled), tp.SGD(), tp.DepthScaling(1, 0)))
        >>> print(*(line.strip() for line in text.splitlines() if line.strip().startswith("s[")), sep=chr(10))
        s[0, l] := 1
        s[t + 1, l] := -dx[t, l]*h[t, l] + s[t, l]
        """
        own = self._free(_checked(name) + self.suffix, {
            one.name for one in (*(s.target for s in self.statements), *self.keeps)})
        value = STARTS[choice("start", start, STARTS)]
        if self.starts.setdefault(own, value) != value:
            raise ValueError(f"start: got {start!r} for {own!r}, which starts otherwise; expected one start of a name")
        member: Vector = named_family(Vector, own)[t, l]
        if member not in self.vectors:
            self.vectors.append(member)
        return member

    def product(self, name: str, z: sp.Expr, at_end: bool = False, forgets: bool = False) -> sp.Expr:
        """The product of z with the matrix ``name``, and where the network has ``biases`` of it one besides: a trained
        vector that starts at 0, b1 of W1.

        at_end: is it what a block returns, in which the parts of a hidden layer are summed? forgets: is what follows
        the same whatever is added, so that a bias would be without a gradient?

        >>> import tpcalc as tp
        >>> def block(b):
        ...     return b.product("W2", b.let("z", b.phi(b.let("h", b.product("W1", b.x)))), at_end=True)
        >>> text = str(tp.program(tp.ResNet("tanh", block, biases=True), tp.SGD(), tp.DepthScaling(1, 0)))
        >>> print(*(line.strip() for line in text.splitlines() if "b1" in line), sep=chr(10))
        b1[0, l] := 0
        h[t, l] := W1[t, l] @ x[t, l - 1] + b1[t, l]
        b1[t + 1, l] := b1[t, l] - dh[t, l]
        """
        value = MatVec(self.weights(name), z)
        self.multiplied[name + self.suffix] = name
        if forgets or not (self.biases if isinstance(self.biases, bool) else name in self.biases):
            return value
        own = replace(self, suffix="") if at_end else self  # of a sum of parts it is one
        return value + own.trained(bias_name(name), "zero") / (sp.sqrt(self.parts) if at_end else 1)

    def let(self, name: str, value: sp.Expr) -> Vector:
        """Write ``name := value`` and give the vector back; a vector that has a name keeps it.

        A product with a matrix needs a name before a function acts on it, and what is not a vector by itself before a
        matrix does. Raises ``ValueError`` for a name that is taken or starts with d, which marks gradients.
        """
        if isinstance(value, Vector):
            return value
        vector: Vector = self._write(Vector, name, value)
        return vector

    def other(self, value: sp.Expr) -> sp.Expr:
        """What ``value`` is at another position m of the sequence: vectors of p, and numbers such as masks.

        Raises ``ValueError`` in networks whose samples have no positions.
        """
        if p not in self.sample:
            raise ValueError(f"other: got {value} in a network without positions; expected in a tp.Transformer alone")
        return at_other(value)

    def let_total(self, name: str, value: sp.Expr) -> Vector:
        """Write ``name :=`` the sum of ``value`` over all positions m, p among them, and give the vector of p back.

        >>> import tpcalc as tp
        >>> from tpcalc.programs.language import MatVec
        >>> def smoothed(b):
        ...     v = b.let("v", MatVec(b.weights("V"), b.x))
        ...     return b.let_total("total", b.other(v))
        >>> net = tp.Transformer(head_dim=1, positions=3, attention=smoothed, mlp=None, norm=None)
        >>> text = str(tp.program(net, tp.SGD(), tp.DepthScaling()))
        >>> sums = [line.strip() for line in text.splitlines() if "Sum" in line and "outer" not in line]
        >>> print(*(line for line in sums if "v[" in line), sep=chr(10))
        total[t, p, l] := Sum(v[t, m, l], (m, 0, P - 1))
        dv[t, p, l] := Sum(dx[t, m, l], (m, 0, P - 1))
        """
        self.other(value)
        total: Vector = self._write(Vector, name, sp.Sum(value, (m, 0, POSITIONS - 1)))
        return total

    def let_recurrent(self, name: str | Sequence[str], step: Callable[..., Any]) -> Any:
        """A state that goes from position to position, a vector: what ``step(before)`` makes of what it was before a
        position is what it is at that position; 0 before the first. With several names, states that are made of each
        other: step is given all of them, and returns as many.

        The backward pass goes through it, from the last position to the first. step may name vectors by ``let``, which
        are made at every position in turn, and have matrices act on them. Positions are gone through one after the
        other, once a pass: time O(P). Raises ``ValueError`` in networks without positions, for names that are taken,
        for values that are no expressions, and for another number of values than of names.

        >>> import tpcalc as tp
        >>> from tpcalc.programs.language import MatVec
        >>> def gated(b):
        ...     k, v, a = (b.let(name, MatVec(b.weights(f"W{name}"), b.x)) for name in ("k", "v", "a"))
        ...     s = b.let_recurrent("s", lambda before: b.phi(a) * before + k * v)
        ...     return MatVec(b.weights("Wo"), b.let("o", b.phi(k) * s))
        >>> net = tp.Transformer(head_dim=1, positions=3, attention=gated, mlp=None, norm=None, phi="tanh")
        >>> text = str(tp.program(net, tp.SGD(), tp.DepthScaling()))
        >>> lines = [line.strip() for line in text.splitlines()]
        >>> print(*(line for line in lines if line.startswith(("s[", "before_s", "ds[", "dbefore_s"))), sep=chr(10))
        before_s[t, 0, l] := 0
        s[t, p, l] := tanh(a[t, p, l])*before_s[t, p, l] + k[t, p, l]*v[t, p, l]
        before_s[t, p + 1, l] := s[t, p, l]
        dbefore_s[t, P, l] := 0
        ds[t, p, l] := tanh(k[t, p, l])*do[t, p, l] + dbefore_s[t, p + 1, l]
        dbefore_s[t, p, l] := tanh(a[t, p, l])*ds[t, p, l]
        """
        names = tuple(name) if isinstance(name, Sequence) and not isinstance(name, str) else (name,)
        if p not in self.sample:
            raise ValueError(f"let_recurrent: got {name!r} in a network without positions; expected in a "
                             "tp.Transformer alone")
        if not names:
            raise ValueError("let_recurrent: got no names; expected one a state")
        before = [named_family(Vector, f"before_{self._unused(one, Vector)}")[(*self.sample, l)] for one in names]
        if not self.unrolled:
            self.statements += [Assign(one.xreplace({p: sp.Integer(0)}), sp.Integer(0)) for one in before]
        first = len(self.statements)
        made = step(*before)
        values = tuple(made) if isinstance(made, Iterable) and not isinstance(name, str) else (made,)
        if len(values) != len(names):
            raise ValueError(f"let_recurrent: got {len(values)} values for {', '.join(names)}; expected one a state")
        states = [self._write(Vector, one, value) for one, value in zip(names, values)]
        for one in self.statements[first:]:
            if one.value.has(m) or one.target.has(m) or any(i.is_Integer for i in one.target.indices):
                raise NotCovered(f"let_recurrent: got {one} in {name!r}; states are made of the own position and of "
                                 "what they were before it; expected no other position, and no state within a state")
        if self.unrolled:
            written = self.statements[first:]
            self.statements[first:] = [*self._earlier(before, states, written), *written]
        else:
            self.statements += [Assign(one.xreplace({p: p + 1}), state) for one, state in zip(before, states)]
        return states[0] if isinstance(name, str) else tuple(states)

    def _earlier(self, before: list[Vector], states: list[Vector], written: list[Assign]) -> Iterator[Assign]:
        """The statements of a position with nothing before it, under names of their own, and what it leaves behind;
        and of a second one where matrices act on states, since what they make is read a position later."""
        left: list[sp.Expr] = [sp.Integer(0)] * len(before)
        used = {one.target.name for one in self.statements}
        for which in EARLIER[:1 + any(one.value.has(Matrix) for one in written)]:
            known: dict[sp.Expr, sp.Expr] = dict(zip(before, left))
            for one in written:
                value = one.value.xreplace(known).replace(lambda e: isinstance(e, MatVec) and e.vector == 0, _nothing)
                own = one.target.func
                name = self._free(f"{which}_{one.target.name}", used, own)
                known[one.target] = sp.Integer(0) if value == 0 else named_family(own, name)[one.target.indices]
                if value != 0:
                    yield Assign(known[one.target], value)
            left = [known[state] for state in states]
        yield from map(Assign, before, left)

    def let_scalar(self, name: str, value: sp.Expr) -> Scalar:
        """Write ``name := value``, a number of this sample and layer such as ``Mean(h**2)``, and give it back.

        The backward pass goes through it, to the vectors that it averages over. A product with a matrix needs a name
        before a named scalar multiplies it. Raises ``ValueError`` for a name that is taken or starts with d, and for a
        value that is no scalar.

        >>> import tpcalc as tp
        >>> from tpcalc.programs.language import MatVec, Mean
        >>> def scaled(b):
        ...     h = b.let("h", MatVec(b.weights(), b.x))
        ...     return b.let_scalar("size", Mean(h**2)) * h
        >>> text = str(tp.program(tp.ResNet(block=scaled), tp.SGD(), tp.DepthScaling(1, 0)))
        >>> print(*(line.strip() for line in text.splitlines() if "size" in line), sep=chr(10))
        size[t, l] := mean(h[t, l]**2)
        x[t, l] := x[t, l - 1] + size[t, l]*h[t, l]/L
        dsize[t, l] := mean(dx[t, l]*h[t, l])
        dh[t, l] := 2*dsize[t, l]*h[t, l] + size[t, l]*dx[t, l]
        """
        if not isinstance(value, sp.Expr) or kind(value) != "scalar":
            raise ValueError(f"value: got {value!r} for {name!r}; expected a scalar of the language, such as an "
                             "average Mean(h**2)")
        scalar: Scalar = self._write(Scalar, name, value)
        return scalar

    def kept(self, name: str, kind_of: type[Vector] | type[Scalar]) -> Vector | Scalar:
        """A vector or a number of this layer, the same for all samples and positions, that no gradient moves, 0 at
        first; ``moves`` says what a step does to it, which is nothing where it says nothing. Raises ``ValueError`` for
        a name that is taken or starts with d.

        >>> import sympy as sp
        >>> import tpcalc as tp
        >>> from tpcalc.programs.language import MatVec, Mean, Scalar
        >>> from tpcalc.programs.special import Mask
        >>> def opened(b):
        ...     h, bar = b.let("h", MatVec(b.weights(), b.x)), b.kept("bar", Scalar)
        ...     is_open = Mask(Mean(h**2) - bar)
        ...     b.moves(bar, is_open, lambda share: share / 10 - sp.Rational(1, 20))
        ...     return is_open * h
        >>> text = str(tp.program(tp.ResNet(block=opened), tp.SGD(), tp.DepthScaling(1, 0)))
        >>> print(*(line.strip() for line in text.splitlines() if line.strip().startswith("bar")), sep=chr(10))
        bar[0, l] := 0
        bar[t + 1, l] := mask(mean(h[t, l]**2) - bar[t, l])/10 + bar[t, l] - 1/20
        """
        member: Vector | Scalar = named_family(kind_of, self._unused(name, kind_of))[t, l]
        self.keeps[member] = None
        return member

    def moves(self, member: Vector | Scalar, of: sp.Expr, by: Callable[[sp.Expr], sp.Expr]) -> None:
        """Say that every step adds ``by(total)`` to what is kept, total being ``of``, an expression of a sample, summed
        over positions and averaged over the batch and over visits."""
        if member not in self.keeps or self.keeps[member] is not None:
            raise ValueError(f"member: got {member}; expected what is kept, and has not been moved")
        self.keeps[member] = Change(of, by)

    def _unused(self, name: str, kind_of: type[Member]) -> str:
        """A name that something new has in this part of a hidden layer."""
        used = (*(one.target for one in self.statements), *self.vectors, *self.keeps)
        return self._free(_checked(name) + self.suffix, {member.name for member in used}, kind_of)

    def _write(self, kind_of: type[Member], name: str, value: sp.Expr) -> sp.Expr:
        made = sp.sympify(value, strict=True) if isinstance(value, (int, float)) else value
        if not isinstance(made, sp.Expr):
            raise ValueError(f"value: got {short(value)} for {name!r}; expected an expression of vectors and numbers")
        looks = (m,) if p in self.sample and m in made.free_symbols else ()
        member = named_family(kind_of, self._unused(name, kind_of))[(*self.sample, *looks, l)]
        self.statements.append(Assign(member, made))
        return member

    @staticmethod
    def _free(name: object, used: set[str], kind_of: type[Member] = Vector) -> str:
        """A name that something new may have."""
        found, is_scalar = _checked(name), kind_of is Scalar
        if found in used or found.startswith("d") or is_scalar and (found in TAKEN_SCALARS or iskeyword(found)):
            raise ValueError(f"name: got {name!r}; expected one that the block has not used, and that does not "
                             "start with d, which marks gradients" + (
                                 f", nor is one of {', '.join(TAKEN_SCALARS)}" if is_scalar else ""))
        return found


Block = Callable[[Branch], sp.Expr]


def post(branch: Branch) -> sp.Expr:
    """phi(W x), less its mean over coordinates where phi is not the identity."""
    product = branch.product("W", branch.x, at_end=branch.is_linear)
    if branch.is_linear:
        return product
    z = branch.let("z", branch.phi(branch.let("h", product)))
    return z - Mean(z)


def pre(branch: Branch) -> sp.Expr:
    """W phi(x)."""
    return branch.product("W", branch.let("z", branch.phi(branch.x)), at_end=True)


def mlp(matrices: int) -> Block:
    """W_k phi(W_(k-1) ... phi(W_1 x)): k matrices."""
    def block(branch: Branch) -> sp.Expr:
        z = branch.x
        for k in range(1, matrices):
            number = str(k) if matrices > 2 else ""
            product = branch.product(f"W{k}", z)
            z = branch.let("z" + number, product if branch.is_linear else branch.phi(branch.let("h" + number, product)))
        return branch.product(f"W{matrices}" if matrices > 1 else "W", z, at_end=True)
    return block


def preactivated(matrices: int) -> Block:
    """W_k phi(W_(k-1) ... phi(W_1 phi(x))): a block of k matrices after an activation.

    Source: Depthwise Hyperparameter Transfer, (120) and (122) [depthwise_transfer/blocks_of_several_matrices], (121),
    (123) and (124) on what happens within [depthwise_transfer/within_blocks].

    >>> import tpcalc as tp
    >>> from tpcalc.programs.blocks import preactivated
    >>> program = tp.program(tp.ResNet("tanh", preactivated(2)), tp.SGD(), tp.DepthScaling())
    >>> print(*(line.strip() for line in str(program).splitlines() if "@" in line and ".T" not in line), sep=chr(10))
    h1[t, l] := W1[t, l] @ z0[t, l]
    x[t, l] := x[t, l - 1] + (W2[t, l] @ z1[t, l])/sqrt(L)
    """
    count = whole_number("matrices", matrices, 1)

    def block(branch: Branch) -> sp.Expr:
        z = branch.x if branch.is_linear else branch.let("z0", branch.phi(branch.x))
        for k in range(1, count):
            product = branch.product(f"W{k}", z)
            z = branch.let(f"z{k}", product if branch.is_linear else branch.phi(branch.let(f"h{k}", product)))
        return branch.product(f"W{count}", z, at_end=True)
    return block


def glu(branch: Branch) -> sp.Expr:
    """W3 (phi(W1 x) * W2 x)."""
    h, v = (branch.let(name, branch.product(matrix, branch.x)) for name, matrix in (("h", "W1"), ("v", "W2")))
    return branch.product("W3", branch.let("z", branch.phi(h) * v), at_end=True)


def in_parts(block: Block, parts: int) -> Block:
    """A block with a hidden layer that is so many times as wide as the stream, from the block whose hidden layer is as
    wide: the sum of as many of it, with matrices W1_1, W1_2, ... of their own, over the square root of their number.

    It is the block with one matrix W1 whose rows are those of all parts, and one, last in the block, that has their
    columns next to each other, over that square root: with entries N(0, 1 / fan-in) both.

    >>> import tpcalc as tp
    >>> program = tp.program(tp.ResNet("tanh", in_parts(BLOCKS["mlp"], 2)), tp.SGD(), tp.DepthScaling(1, 0))
    >>> print(*(line.strip() for line in str(program).splitlines() if "@" in line and ".T" not in line), sep=chr(10))
    h_1[t, l] := W1_1[t, l] @ x[t, l - 1]
    h_2[t, l] := W1_2[t, l] @ x[t, l - 1]
    x[t, l] := x[t, l - 1] + sqrt(2)*(W2_1[t, l] @ z_1[t, l])/(2*L) + sqrt(2)*(W2_2[t, l] @ z_2[t, l])/(2*L)
    """
    count = whole_number("parts", parts, 1)

    def whole(branch: Branch) -> sp.Expr:
        each = [block(replace(branch, suffix=f"{branch.suffix}_{k}", parts=count)) for k in range(1, count + 1)]
        return sp.Add(*each) / sp.sqrt(count)
    whole.__name__ = block_name(block)
    return block if count == 1 else whole


BLOCKS: dict[str, Block] = {"post_nonlin": post, "pre_nonlin": pre, "mlp": mlp(2), "glu": glu}
HIDDEN = ("mlp", "glu")  # the blocks with a hidden layer
GATES = {"swiglu": "silu", "geglu": "gelu", "reglu": "relu"}  # "glu" by other names, each with its activation


def after_gate(block: object, phi: sp.Expr | str, usual: str) -> tuple[object, sp.Expr | str]:
    """A block and an activation: "glu" and that of its gate where a block is named after this one, or else as given.

    Raises ``ValueError`` for a phi beside such a name that is neither the gate's nor ``usual``, what it is where
    nothing is said.
    """
    gate = GATES.get(block.lower()) if isinstance(block, str) else None
    if gate is None:
        return block, phi.lower() if isinstance(phi, str) else phi
    if not (isinstance(phi, str) and phi.lower() in (gate, usual)):
        raise ValueError(f"phi: got {short(phi)} with {block!r}, a glu whose gate is {gate}; expected {gate!r}, or "
                         "'glu' with another phi")
    return "glu", gate


def require_block(block: Block, value: object, branch: Branch) -> None:
    """Raise ``ValueError`` unless what a block returned is a vector with a matrix in it, or in what it is made of."""
    values = [value, *(statement.value for statement in branch.statements)]
    if not isinstance(value, sp.Expr) or kind(value) != "vector" or not any(v.has(Matrix) for v in values):
        raise ValueError(f"block: {block_name(block)} wrote {value}; expected a vector of the language, with a "
                         "trained matrix in it or in what it is made of")


def is_linear_in_vectors(value: sp.Expr) -> bool:
    """A sum of vectors and products of matrices with such sums, times numbers?"""
    for term in sp.Add.make_args(multiplied_out(value)):
        _, vector = term.as_independent(Vector, as_Add=False)
        if not isinstance(vector, Vector) and not (isinstance(vector, MatVec) and is_linear_in_vectors(vector.vector)):
            return False
    return True


def block_name(block: object) -> str:
    return block if isinstance(block, str) else str(getattr(block, "__name__", type(block).__name__))


def vector(name: str) -> Family:
    """A family of vectors over steps and layers; gradients are written with a delta."""
    return named_family(Vector, name)


def matrix(name: str) -> Family:
    """The family of a trained matrix over steps and layers."""
    return Family(Matrix, name, latex_name(name), layered=True)


def named_family(kind_of: type[Member], name: str) -> Family:
    """A family over steps and layers; gradients are written with a delta."""
    latex = rf"\delta {latex_name(name[1:])}" if name.startswith("d") else latex_name(name)
    return Family(kind_of, name, latex, layered=True)


def bias_name(matrix_name: str) -> str:
    """b1 of W1, b of W."""
    return "b" + matrix_name[1:]


def latex_name(name: str) -> str:
    """W1 as W with the index 1, W1_2 with the indices 1 and 2."""
    letters, *numbers = re.fullmatch(r"(.*?)(\d*)(?:_(\d+))?", name).groups()  # type: ignore[union-attr]
    index = ",".join(filter(None, numbers))
    return "{%s_%s}" % (letters, index if len(index) == 1 else "{%s}" % index) if index else letters


def _checked(name: object) -> str:
    if not isinstance(name, str) or not name.isidentifier() or name in TAKEN:
        raise ValueError(f"name: got {name!r}; expected identifiers but {', '.join(TAKEN)}")
    return name
