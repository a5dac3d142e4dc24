"""Nodes beside the language's own, masks, quantiles and ratios of norms, and what is refused of them at infinite width.

A mask is a number 0 or 1 that chooses, through which no gradient goes. A ratio of Frobenius norms is a number of real
networks, and 1 at infinite width where updates made the difference.

Averages over coordinates of exponentials of what has no bound have no limit that is known: a few coordinates make them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Iterable, Mapping, Sequence

import numpy as np
import sympy as sp
from sympy.core.relational import Relational
from sympy.printing.printer import Printer

from .._checks import symbolic
from ..errors import NotCovered
from .by_position import HeadTable, HeadTurn
from .language import HeadSum, LossDerivative, MatVec, Matrix, Mean, Member, Real, Scalar, Vector, kind
from .program import Assign, Location, Program, made_of, mapped


class Mask(sp.Function):  # type: ignore[misc]
    """1 of what is positive, else 0, with the derivative 0: what a choice is multiplied by, as training has it.

    Automatic differentiation gives choices this derivative: it is that of the step wherever the step has one.

    >>> import sympy as sp
    >>> x = sp.Symbol("x", real=True)
    >>> Mask(3), Mask(0), Mask(x), sp.diff(x * Mask(x), x)
    (1, 0, mask(x), mask(x))
    """

    is_real = True

    @classmethod
    def eval(cls, x: sp.Expr) -> sp.Expr | None:
        """Its value, where the sign of ``x`` is known."""
        if x.is_positive:
            return sp.Integer(1)
        return sp.Integer(0) if x.is_nonpositive else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        """0, which is what a choice gives on."""
        return sp.Integer(0)

    def _sympystr(self, printer: Printer) -> str:
        return f"mask({printer.doprint(self.args[0])})"

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        text = rf"\mathbb{{1}}\left[{printer.doprint(self.args[0])} > 0\right]"
        return text if exp is None else rf"{text}^{{{exp}}}"

    def _numpycode(self, printer: Printer) -> str:
        return f"{printer._module_format('numpy.heaviside')}({printer.doprint(self.args[0])}, 0.0)"


def among_largest(values: Sequence[sp.Expr], count: int) -> list[sp.Expr]:
    """For each of some numbers 1 where it is among the ``count`` largest, else 0; of equal ones the first is larger.

    >>> import sympy as sp
    >>> among_largest([sp.Integer(k) for k in (3, 5, 3, 1)], 2)
    [1, 1, 0, 0]
    >>> a, b = sp.symbols("a b", real=True)
    >>> among_largest([a, b], 1), among_largest([a, b], 2)
    ([mask(1/2 - mask(-a + b)), mask(mask(-a + b) - 1/2)], [1, 1])
    """
    if count >= len(values):
        return [sp.Integer(1)] * len(values)

    def before(number: int) -> sp.Expr:
        """How many come before it."""
        own = values[number]
        found = [*(1 - Mask(own - one) for one in values[:number]), *(Mask(one - own) for one in values[number + 1:])]
        return sp.Add(*found)

    return [Mask(count - sp.Rational(1, 2) - before(number)) for number in range(len(values))]


class Quantile(Real):
    """The number that a share of a vector's coordinates is above, midway to the next one: what the largest exceed.

    Of n coordinates floor(share n) are above it, or fewer where some are equal. It is compared with and has no
    derivative of its own: a mask has none in it. Raises ``ValueError`` for a share that is no number between 0 and 1,
    ``TypeError`` for what is no vector.

    >>> import sympy as sp
    >>> from tpcalc.programs.language import Family, Vector
    >>> s = Family(Vector, "s")()
    >>> Mask(s - Quantile(s, sp.Rational(1, 4)))
    mask(-quantile_1/4(s) + s)
    """

    own_kind = "scalar"
    body = property(lambda self: self.args[0])
    share = property(lambda self: self.args[1])

    def __new__(cls, body: sp.Basic, share: sp.Basic) -> sp.Expr:
        body, share = symbolic(body), symbolic(share)
        if not share.is_number or not 0 < share < 1:
            raise ValueError(f"share: got {share}; expected a number between 0 and 1")
        if kind(body) != "vector":
            raise TypeError(f"quantile({body}): a {kind(body)} has no coordinates; expected a vector")
        return super().__new__(cls, body, share)

    def _eval_derivative(self, symbol: sp.Symbol) -> sp.Expr:
        raise NotCovered(f"{self}: a quantile has no derivative here; expected it in a mask, by a name of its own")

    def _sympystr(self, printer: Printer) -> str:
        return f"quantile_{self.share}({printer.doprint(self.body)})"

    def _latex(self, printer: Printer) -> str:
        return rf"\mathrm{{quantile}}_{{{self.share}}}\left({printer.doprint(self.body)}\right)"


JUMPS = (sp.sign, sp.Heaviside)
KINKS = (sp.Abs, sp.Max, sp.Min)
TIES = ("what is compared may tie at infinite width, as logits do that have not learned, and fluctuations of real "
        "networks decide; expected a finite width, or nothing chosen")


def require_no_choice(what: str, statements: Iterable[Assign], of_vectors: bool = False) -> None:
    """Raise ``NotCovered`` for a statement with a mask of numbers, which have no sizes of their own at infinite width
    where they tie, and, where ``of_vectors``, with any mask; what: given the statement, what it is in."""
    for statement in statements:
        for mask in sorted(statement.value.atoms(Mask), key=sp.default_sort_key):
            if kind(mask) == "scalar":
                raise NotCovered(f"{what}; {statement.target} has a choice in it, {mask}; {TIES}")
            if of_vectors:
                raise NotCovered(f"{what}; {statement.target} has a choice in it, {mask}; kets are expanded by "
                                 "derivatives, and a step has another one than training gives a mask; expected "
                                 "particles, or nothing chosen")


def require_no_ties(what: str, statements: Iterable[Assign], readouts: Iterable[str]) -> None:
    """Raise ``NotCovered`` for a statement of a block that chooses by numbers without a mask: by pieces, by signs and
    steps, and, of numbers that the trained vectors ``readouts`` read off others, by what has a kink where they tie."""
    learned = set(readouts)
    for statement in statements:
        value = statement.value
        if kind(statement.target) == "scalar" and learned & _names(value):
            learned.add(statement.target.name)
        for node in sorted(value.atoms(sp.Piecewise, *JUMPS, *KINKS), key=sp.default_sort_key):
            compared = [condition for _, condition in node.args] if isinstance(node, sp.Piecewise) else [node]
            numbers = [one for piece in compared for one in _numbers(piece)]
            if any(not isinstance(node, KINKS) or learned & _names(one) for one in numbers):
                raise NotCovered(f"{what}; {statement.target} has a choice in it, {node}; {TIES}")


def _names(expression: sp.Basic) -> set[str]:
    return {one.name for one in expression.atoms(Member)}


def _numbers(compared: sp.Basic) -> list[sp.Expr]:
    """What is compared, in relations and in arguments, where it is numbers that a network makes."""
    nodes = [compared] if isinstance(compared, sp.Expr) else compared.atoms(Relational)
    return [one for node in nodes if all(kind(one) == "scalar" for one in node.args)
            for one in node.args if one.has(Member, Mean)]


class NormRatio(Real):
    """|A| / |B|, Frobenius norms of two matrices, or of several parts of one.

    above, below: members, in tuples. An update of finitely many outer products, or of a function of their entries, has
    a norm of order one and an initial matrix one of sqrt(n): the ratio before and after an update is 1 + O(1 / n).

    >>> from tpcalc.programs.language import Family
    >>> A, B = (Family(Matrix, name)() for name in "AB")
    >>> print(NormRatio((A,), (B,)))
    norm(A)/norm(B)
    """

    own_kind = "scalar"
    above = property(lambda self: tuple(self.args[0]))
    below = property(lambda self: tuple(self.args[1]))

    def __new__(cls, above: tuple[Matrix, ...], below: tuple[Matrix, ...]) -> sp.Expr:
        parts = isinstance(above, (tuple, sp.Tuple)) and isinstance(below, (tuple, sp.Tuple))
        if not (parts and above and len(above) == len(below)
                and all(isinstance(one, Matrix) for one in (*above, *below))):
            raise TypeError(f"NormRatio({above}, {below}): a ratio of norms is of two tuples of members of families of "
                            "matrices, as many above as below")
        return super().__new__(cls, sp.Tuple(*above), sp.Tuple(*below))

    def _sympystr(self, printer: Printer) -> str:
        return "/".join(f"norm({', '.join(map(printer.doprint, part))})" for part in (self.above, self.below))

    def _latex(self, printer: Printer) -> str:
        norms = (rf"\lVert {', '.join(map(printer.doprint, part))} \rVert_F" for part in (self.above, self.below))
        return r"\frac{%s}{%s}" % tuple(norms)


@lru_cache(maxsize=64)  # what is lowered is known by its program
def at_infinite_width(program: Program) -> Program:
    """The program whose ratios of norms are 1, which they are at infinite width; itself where it has none.

    Matrices that only ratios read are written out. Raises ``NotCovered`` where the matrix above has no initial one in
    it, and where that below is not the one above and what an update adds to it, outer products and buffers of them.

    >>> import tpcalc as tp
    >>> net, scale, task = tp.ResNet(), tp.DepthScaling(), tp.Task([1, 0.8], [1, -0.7])
    >>> on_sphere, free = (tp.program(net, tp.Muon(0.3, sphere=sphere), scale) for sphere in (True, False))
    >>> at_infinite_width(on_sphere).body == free.body
    True
    """
    ratios = {one.target: one.value for one in (location.statement for location in program.locations())
              if one.value.has(NormRatio)}
    if not ratios:
        return program
    values = {location.statement.target: location.statement.value for location in program.locations()}
    large = _with_initial_matrices(program)
    ones, inside = dict[sp.Expr, sp.Expr](), dict[sp.Expr, sp.Expr]()
    for target, ratio in ratios.items():
        if not (isinstance(ratio, NormRatio) and isinstance(target, Scalar)):
            raise NotCovered(f"program {program.name}: {target} := {ratio}; a ratio of norms stands alone in its "
                             "statement at infinite width")
        ones[target] = sp.Integer(1)
        for above, below in zip(ratio.above, ratio.below):
            if below != above and above.name not in large:
                raise NotCovered(f"program {program.name}: {target} := {ratio}, and {above} is made of outer products "
                                 "alone, whose norm is no larger than that of an update, so that the ratio is not 1 at "
                                 "infinite width")
            update = values.get(below, below) - above
            if large & {matrix.name for matrix in update.atoms(Matrix)}:
                raise NotCovered(f"program {program.name}: {target} := {ratio}, and {below} is not {above} and what an "
                                 "update adds to it, so that the ratio is not known to be 1 at infinite width")
            if below != above:
                inside[below] = values[below]

    def change(one: Assign) -> list[Assign]:
        if one.target in ratios or one.target in inside:
            return []
        return [Assign(one.target, one.value.xreplace(ones).xreplace(inside))]

    found = replace(program, body=mapped(program.body, change))
    left = {m for location in found.locations() for m in location.statement.value.atoms(Scalar, Matrix)}
    for one in (*ones, *inside):
        if any(one.same_family(other) for other in left):
            raise NotCovered(f"program {program.name}: {one} is read at other indices than it is made at; expected "
                             "a ratio of norms, and the matrix below, in the statements beside it")
    return found


def _with_initial_matrices(program: Program) -> set[str]:
    """The names of families that initial matrices are in; others are made of outer products alone, as buffers are."""
    statements = [location.statement for location in program.locations()]
    return made_of({matrix.name for matrix in program.matrices}, (
        (one.target.name, {matrix.name for matrix in one.value.atoms(Matrix)}) for one in statements
        if isinstance(one.target, Matrix)))


def normed_products(program: Program) -> tuple[str, ...]:
    """The names of vectors that a layer makes with a matrix and divides by a power of a mean of their coordinates.

    The stream, read from the layer before, is none of them: what it is divided by grows as it does.
    """
    made: set[str] = set()
    found: dict[str, None] = {}
    for location in program.locations():
        if location.statement.value.has(LossDerivative):  # the way back divides by the same means
            break
        if location.statement.value.has(MatVec) or any(v.name in made for v in _of_own_layer(location)):
            made.add(location.statement.target.name)
        for power in location.statement.value.atoms(sp.Pow):
            if power.base.has(Mean) and power.exp.is_negative:
                inside = {v for v in power.base.atoms(Vector) if v.name in made and v in _of_own_layer(location)}
                found.update(dict.fromkeys(sorted(v.name for v in inside)))
    return tuple(found)


def require_no_explosion(program: Program, explodes: bool) -> None:
    """Raise ``ValueError`` where a program that divides what a matrix makes by its own size is said to explode."""
    normed = normed_products(program)
    if normed and explodes:
        raise NotCovered(f"program {program.name}: {', '.join(normed)}, made by a matrix, is divided by its own size, "
                         "and what is counted of the two apart explodes; whether they do together no rule says; "
                         "expected norms of the stream (norm_position='pre'), or other exponents")


def _of_own_layer(location: Location) -> set[Vector]:
    """The vectors that a statement reads with the indices of its target."""
    return {v for v in location.statement.value.atoms(Vector) if v.indices == location.statement.target.indices}


EXPONENTIALS = (sp.exp, sp.sinh, sp.cosh)
MADE = (MatVec, HeadSum, HeadTurn, HeadTable)  # what is not entrywise
ONE = sp.Rational(13, 11)
FAR, POINTS, OF_POWERS = 1000, 16, 40  # twice as far out no power is larger by more than 2^40


def require_light_tails(what: str, statements: Iterable[Assign]) -> None:
    """Raise ``NotCovered`` for an average over coordinates of what grows exponentially with vectors that matrices make,
    as a softmax over a population divides by; what: given the statement, what it is in.

    Such vectors are Gaussian at first, and products of Gaussians from the first step on, of whose exponentials no mean
    exists: particles give the few largest.
    """
    made: dict[str, sp.Expr] = {}
    for statement in statements:
        for mean in sorted(statement.value.atoms(Mean), key=sp.default_sort_key):
            body = _written_out(mean.args[0], made)
            if body.has(*EXPONENTIALS) and _grows_exponentially(body):
                raise NotCovered(f"{what}; {statement.target} has {mean} in it, an average of exponentials of vectors "
                                 "without a bound, whose tails are so heavy that a few coordinates make it; expected "
                                 "a finite width, or functions that grow like powers, as sigmoids")
        if isinstance(statement.target, Vector):
            made.setdefault(statement.target.name, _written_out(statement.value, made))


def _written_out(value: sp.Expr, made: Mapping[str, sp.Expr]) -> sp.Expr:
    """An expression in what matrices and heads make, and in vectors that come from elsewhere; numbers are of order one,
    and a number stands for them."""
    value = value.xreplace({one: ONE for one in value.atoms(Mean, Scalar)})
    value = value.replace(lambda e: isinstance(e, MADE), lambda e: sp.Dummy(real=True))
    return value.xreplace({one: made.get(one.name, one) for one in value.atoms(Vector)})


def _grows_exponentially(value: sp.Expr) -> bool:
    """On some way outwards, of several drawn ones, twice as far by more than powers do."""
    free = sorted(value.atoms(Vector) | value.free_symbols, key=sp.default_sort_key)
    names = {one: sp.Symbol(f"x{k}", real=True) for k, one in enumerate(free)}
    plain = value.xreplace(names)
    draw = np.random.default_rng(0)
    for way in draw.standard_normal((POINTS, len(free))):
        near, far = (abs(sp.N(plain.xreplace({symbol: sp.Float(scale * step) for symbol, step in zip(
            names.values(), way)}))) for scale in (FAR, 2 * FAR))
        if near.is_number and far.is_number and near > 0 and far / near > 2**OF_POWERS:
            return True
    return False
