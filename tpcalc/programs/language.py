"""The Tensor Program language: what may stand in a program, as sympy expressions.

A vector expression is read entrywise: sums, products, scalar factors and functions of vectors act on every coordinate.
Only five things are not entrywise: a matrix times a vector (``MatVec``), the average over coordinates (``Mean``), the
sum over the few coordinates of a head (``HeadSum``), a matrix made of two vectors (``Outer``, u v^T / n), and
transposition. Indices (training step, layer) are integer sympy expressions; families are written ``x[t, l]``.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable
from typing import Self, TypeVar

import sympy as sp
from sympy.core.symbol import Str
from sympy.printing.precedence import PRECEDENCE, precedence
from sympy.printing.printer import Printer

from .._checks import symbolic, whole_number
from .._text import OuterText
from ..derivations.printing import with_upright_words
from .algebra import multiplied_out
from .expression import Expression


class Real(Expression):
    """A real number or a vector of real numbers, made of parts that sympy knows or can read."""

    is_commutative = True
    is_real = True

    def __new__(cls, *args: sp.Basic) -> sp.Expr:
        return super().__new__(cls, *map(symbolic, args))


class Member(Expression):
    """One member of an indexed family; args: name, LaTeX name, number of superscripts, indices."""

    is_commutative = True
    is_real = True

    @property
    def name(self) -> str:
        return str(self.args[0])

    @property
    def indices(self) -> tuple[sp.Expr, ...]:
        return self.args[3:]

    def at(self, *indices: sp.Basic) -> Self:
        """The member of the same family at other indices."""
        member: Self = self.func(*self.args[:3], *map(symbolic, indices))
        return member

    @property
    def family_key(self) -> tuple[type, sp.Basic, sp.Basic, sp.Basic]:
        """What members of one family have in common, and no others."""
        return (type(self), *self.args[:3])

    def same_family(self, other: sp.Basic) -> bool:
        return isinstance(other, type(self)) and self.args[:3] == other.args[:3]

    def _sympystr(self, printer: Printer) -> str:
        inside = ", ".join(printer.doprint(i) for i in self.indices)
        return f"{self.name}[{inside}]" if inside else self.name

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        cut = len(self.indices) - int(self.args[2])
        below, above = self.indices[:cut], self.indices[cut:]
        text = with_upright_words(str(self.args[1]))
        indices = [printer.doprint(i) for i in below]
        if indexed := INDEXED.fullmatch(text):  # an index of the name's own is the first of all
            text, indices = indexed[1] + indexed[2], [indexed[3].strip("{}"), *indices]
        if indices:
            text += "_{%s}" % ",".join(indices)
        if above:
            text += "^{%s}" % ",".join(printer.doprint(i) for i in above)
        return text if exp is None else r"\left(%s\right)^{%s}" % (text, exp)


INDEXED = re.compile(r"(.*)\{(\w)_(\w+|\{[\w,]+\})\}")  # W_1 or W_{1,2}, with what stands before it
OfFamily = TypeVar("OfFamily", bound=Member)  # a vector stays a vector, a matrix a matrix


class Vector(Member):
    """A vector of width n in a program, a member of a family of vectors.

    >>> from tpcalc.theory import Family, Vector
    >>> x = Family(Vector, "x")
    >>> x[1, 2], x[1, 2].indices
    (x[1, 2], (1, 2))
    """

    own_kind = "vector"


class Matrix(Member):
    """An n x n matrix in a program, a member of a family of matrices.

    >>> from tpcalc.theory import Family, Matrix
    >>> Family(Matrix, "W")[0]
    W[0]
    """

    own_kind = "matrix"
    turned = False
    member = property(lambda self: self)


class Scalar(Member):
    """A scalar in a program, a member of a family: data, an output or a learning rate.

    >>> from tpcalc.theory import Family, Scalar
    >>> Family(Scalar, "xi")[3]
    xi[3]
    """

    own_kind = "scalar"


class Family:
    """A family of vectors, matrices or scalars; ``family[t, l]`` is its member at step t, layer l.

    kind: ``Vector``, ``Matrix`` or ``Scalar``; latex: its name in LaTeX; layered: the last index is a superscript.
    Raises ``ValueError`` for a name that is no identifier.

    >>> from tpcalc.theory import Family, Vector
    >>> x, u = Family(Vector, "x", layered=True), Family(Vector, "u")
    >>> x[1, 2], u()
    (x[1, 2], u)
    """

    def __init__(self, kind: type[Member], name: str, latex: str | None = None, layered: bool = False) -> None:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"name: got {name!r}; expected an identifier, as names go into generated source")
        self.kind, self.name, self.latex, self.layered = kind, name, latex or name, layered

    @classmethod
    def made(cls, kind: type[Member], name: str, latex: str) -> Family:
        """A family that no program wrote, by any name."""
        family = cls.__new__(cls)
        family.kind, family.name, family.latex, family.layered = kind, name, latex, False
        return family

    def __getitem__(self, indices: sp.Basic) -> sp.Expr:
        indices = indices if isinstance(indices, tuple) else (indices,)
        return self.kind(Str(self.name), Str(self.latex), sp.Integer(int(self.layered)), *map(symbolic, indices))

    def __call__(self) -> sp.Expr:
        """The only member of a family without indices."""
        return self.kind(Str(self.name), Str(self.latex), sp.Integer(0))


class Transpose(Expression):
    """The transpose of a matrix; of a transpose, the matrix itself.

    >>> from tpcalc.theory import Family, Matrix, Transpose
    >>> W = Family(Matrix, "W")()
    >>> Transpose(W), Transpose(Transpose(W))
    (W.T, W)
    """

    is_commutative = True
    turned = True
    member = property(lambda self: self.args[0])

    def __new__(cls, matrix: sp.Basic) -> sp.Expr:
        if isinstance(matrix, Transpose):
            return matrix.args[0]
        matrix = symbolic(matrix)
        return matrix if matrix == 0 else super().__new__(cls, matrix)  # what is left of operators that cancel

    @property
    def own_kind(self) -> str:
        if kind(self.args[0]) != "matrix":
            raise TypeError(f"{self}: only a matrix has a transpose")
        return "matrix"

    def _sympystr(self, printer: Printer) -> str:
        text = printer.doprint(self.args[0])
        return f"{text}.T" if isinstance(self.args[0], Matrix) else f"({text}).T"

    def _latex(self, printer: Printer) -> str:
        matrix = self.args[0]
        text = str(printer.doprint(matrix))
        if isinstance(matrix, Matrix) and int(matrix.args[2]):
            return text[:-1] + r"\top}"
        return rf"{text}^{{\top}}" if isinstance(matrix, Matrix) else rf"\left({text}\right)^{{\top}}"


class MatVec(Real):
    """A matrix times a vector.

    Operators add: of a sum of multiples of matrices, transposes and outer products it is the sum of what each makes;
    ``evaluate=False`` leaves the product as it is written, for statements about such products.

    >>> from tpcalc.programs.language import Family, Matrix, Vector
    >>> W, u, v, x = Family(Matrix, "W")(), *(Family(Vector, name)() for name in "uvx")
    >>> print(MatVec(2 * W - Transpose(W), x), "|", MatVec(Transpose(W + 3 * Outer(u, v)), x))
    2*(W @ x) - (W.T @ x) | W.T @ x + 3*mean(u*x)*v
    """

    precedence, latex_precedence = PRECEDENCE["Add"], PRECEDENCE["Mul"]  # sympy takes a negative product for a sum

    def __new__(cls, matrix: sp.Basic, vector: sp.Basic, evaluate: bool = True) -> sp.Expr:
        matrix, vector = symbolic(matrix), symbolic(vector)
        if not evaluate:
            return super().__new__(cls, matrix, vector)
        if matrix == 0:
            return matrix
        alone = isinstance(matrix, Transpose) and isinstance(matrix.args[0], Member)
        if alone or not isinstance(matrix, (Transpose, Outer, sp.Add, sp.Mul, sp.Sum)) or (
                kind(matrix), kind(vector)) != ("matrix", "vector"):
            return super().__new__(cls, matrix, vector)
        return _terms_times(matrix, vector, False)

    matrix = property(lambda self: self.args[0])
    vector = property(lambda self: self.args[1])

    @property
    def own_kind(self) -> str:
        given = kind(self.matrix), kind(self.vector)
        if given != ("matrix", "vector"):
            raise TypeError(f"{self}: a product needs a matrix and a vector, got {given}")
        return "vector"

    def _sympystr(self, printer: Printer) -> str:
        return f"{_sum_apart(printer, self.matrix)} @ {_factor(printer, self.vector)}"

    def _latex(self, printer: Printer) -> str:
        return f"{_factor_latex(printer, self.matrix)} {_factor_latex(printer, self.vector)}"


def _term_times(term: sp.Expr, vector: sp.Expr, turned: bool) -> sp.Expr:
    """A multiple of one matrix, or of its transpose where ``turned``, times a vector."""
    numbers = [f for f in sp.Mul.make_args(term) if kind(f) == "scalar"]
    one = sp.Mul(*(f for f in sp.Mul.make_args(term) if f not in numbers))
    rules: dict[object, Callable[..., sp.Expr]] = {Transpose: _transpose_times, sp.Sum: _sum_times, Outer: _outer_times}
    acting: Callable[..., sp.Expr] = rules.get(one.func, _matrix_times)
    return sp.Mul(*numbers, acting(one, vector, turned))


def _terms_times(matrix: sp.Expr, vector: sp.Expr, turned: bool) -> sp.Expr:
    return sp.Add(*(_term_times(term, vector, turned) for term in sp.Add.make_args(multiplied_out(matrix))))


def _matrix_times(matrix: sp.Expr, vector: sp.Expr, turned: bool) -> sp.Expr:
    return Real.__new__(MatVec, transposed(matrix) if turned else matrix, vector)


def _transpose_times(matrix: Transpose, vector: sp.Expr, turned: bool) -> sp.Expr:
    member = matrix.args[0]
    return (_terms_times if not isinstance(member, Member) else _matrix_times)(member, vector, not turned)


def _sum_times(total: sp.Sum, vector: sp.Expr, turned: bool) -> sp.Expr:
    """The sum's indices must not capture those of the vector."""
    fresh = {i: sp.Dummy(str(i), integer=True) for i, *_ in total.limits if i in vector.free_symbols}
    return sp.Sum(_terms_times(total.function.subs(fresh), vector, turned),
                  *((fresh.get(i, i), *ends) for i, *ends in total.limits))


def _outer_times(one: "Outer", vector: sp.Expr, turned: bool) -> sp.Expr:
    left, right = (one.right, one.left) if turned else one.args
    return left * Mean(right * vector)


def transposed(matrix: sp.Expr) -> sp.Expr:
    """The transpose of a matrix, for outer products and functions of them another one."""
    own: Callable[[], sp.Expr] | None = getattr(matrix, "transposed", None)
    return Transpose(matrix) if own is None else own()


class Outer(Expression):
    """The matrix u v^T / n, whose product with y is u times the average of v y; not the entrywise product of u and v.

    Source: Tensor Programs VI, appendix E.1.2 [tensor_programs_vi/outer_product] and remark E.1
    [tensor_programs_vi/remark_e1].

    >>> from tpcalc.theory import Family, MatVec, Outer, Vector
    >>> u, v, y = (Family(Vector, name)() for name in "uvy")
    >>> MatVec(Outer(u, v), y)
    mean(v*y)*u
    """

    is_commutative = True
    latex_precedence = PRECEDENCE["Mul"]

    def __new__(cls, left: sp.Basic, right: sp.Basic) -> sp.Expr:
        return super().__new__(cls, symbolic(left), symbolic(right))

    turned = False
    member = property(lambda self: self)
    left = property(lambda self: self.args[0])
    right = property(lambda self: self.args[1])

    @property
    def own_kind(self) -> str:
        if {kind(self.left), kind(self.right)} != {"vector"}:
            raise TypeError(f"{self}: an outer product needs two vectors")
        return "matrix"

    def transposed(self) -> sp.Expr:
        return Outer(self.right, self.left)

    def _sympystr(self, printer: Printer) -> str:
        return f"outer({printer.doprint(self.left)}, {printer.doprint(self.right)})/n"

    def _latex(self, printer: Printer) -> str:
        return rf"\tfrac{{1}}{{n}}\,{_factor_latex(printer, self.left)} \otimes {_factor_latex(printer, self.right)}"


class OfOuters(Expression):
    """A matrix made of outer products, with whatever else it is made by in its later args."""

    is_commutative = True
    own_kind = "matrix"
    turned = False
    member = property(lambda self: self)
    body = property(lambda self: self.args[0])

    def transposed(self) -> sp.Expr:
        """The transposed matrix, which is made of the outer products v u^T in the same way."""
        return self.func(self.body.xreplace({o: o.transposed() for o in self.body.atoms(Outer)}), *self.args[1:])


class NonlinearOuter(OfOuters):
    """The matrix phi(u_1 v_1^T, u_2 v_2^T, ...) / n, phi entrywise: SignSGD and Adam make it of gradients.

    arg: phi, with ``Outer(u, v)`` standing for u v^T. Where phi is linear this is the combination of the outer
    products itself, so that the linear case is not written twice. Source: Tensor Programs VI, appendix E.1.3
    [tensor_programs_vi/nonlinear_outer_product].

    >>> import sympy as sp
    >>> from tpcalc.theory import Family, NonlinearOuter, Outer, Vector
    >>> u, v = (Family(Vector, name)() for name in "uv")
    >>> NonlinearOuter(sp.tanh(Outer(u, v))), NonlinearOuter(2 * Outer(u, v))
    ((tanh(u (x) v))/n, 2*outer(u, v)/n)
    """

    latex_precedence = PRECEDENCE["Mul"]

    def __new__(cls, body: sp.Basic) -> sp.Expr:
        body = symbolic(body)
        if not body.atoms(Outer):
            raise TypeError(f"{body}: a nonlinear outer product needs an outer product")
        return body if is_linear_in_outers(body) else super().__new__(cls, body)

    def _sympystr(self, printer: Printer) -> str:
        body = self._named(lambda o: f"{_factor(printer, o.left)} (x) {_factor(printer, o.right)}")
        return f"({printer.doprint(body)})/n"

    def _latex(self, printer: Printer) -> str:
        body = self._named(lambda o: rf"{_factor_latex(printer, o.left)} \otimes {_factor_latex(printer, o.right)}")
        return rf"\tfrac{{1}}{{n}}\,{_factor_latex(printer, body)}"

    def _named(self, text: Callable[[Outer], str]) -> sp.Expr:
        """The body with the products, without 1 / n, by their text."""
        return self.body.xreplace({o: OuterText(text(o), real=True) for o in self.body.atoms(Outer)})


def is_linear_in_outers(body: sp.Expr) -> bool:
    """A sum of outer products with scalar factors?"""
    for term in sp.Add.make_args(multiplied_out(body)):
        _, one = term.as_independent(Outer, as_Add=False)
        if not (isinstance(one, Outer) or isinstance(one, sp.Sum) and is_linear_in_outers(one.function)):
            return False
    return True


class Mean(Real):
    """The average over coordinates, a scalar; of a product of two vectors, their inner product over n.

    >>> from tpcalc.theory import Family, Mean, Vector
    >>> u, v = (Family(Vector, name)() for name in "uv")
    >>> Mean(2 * u * v)
    2*mean(u*v)
    """

    latex_precedence = PRECEDENCE["Mul"]
    own_kind = "scalar"

    def __new__(cls, body: sp.Basic) -> sp.Expr:
        body = symbolic(body)
        if kind(body) == "matrix":
            raise TypeError(f"mean({body}): the average of a matrix has no limit of its own")
        factors = sp.Mul.make_args(body)
        numbers = [f for f in factors if kind(f) == "scalar"]
        vectors = [f for f in factors if f not in numbers]
        if not vectors:
            return body  # the average of a number is itself
        return sp.Mul(*numbers, super().__new__(cls, sp.Mul(*vectors)))

    def adjoint(self, signal: sp.Expr) -> sp.Expr:
        """What a gradient of the average sends to what it averages."""
        return Mean(signal)

    def _sympystr(self, printer: Printer) -> str:
        return f"mean({printer.doprint(self.args[0])})"

    def _latex(self, printer: Printer) -> str:
        body = self.args[0]
        if isinstance(body, sp.Mul) and len(body.args) == 2:
            u, v = body.args
            return rf"\tfrac{{1}}{{n}}\, {_factor_latex(printer, u)} \cdot {_factor_latex(printer, v)}"
        return rf"\tfrac{{1}}{{n}}\textstyle\sum_i \left({printer.doprint(body)}\right)_i"


class HeadSum(Real):
    """The sum over the d coordinates of a head, given back to each of them, a vector; for d = 1 the vector itself.

    Coordinates 0 ... d - 1 are the first head, and so on: d stays as the width grows, the number of heads n / d grows
    with it. It is a constant matrix of d x d blocks of ones.

    With ``apart`` what is summed are ``size`` coordinates so far apart, which are those of ``size`` neighboring heads
    of ``apart`` coordinates each. first_read: the first of them is taken in the place of their sum, so that heads share
    what one of them has; first_written: what is found goes to the first alone, the others get 0. The two are each
    other's adjoint. Raises ``ValueError`` for sizes that are no whole numbers of at least 1, ``TypeError`` for a
    matrix.

    >>> from tpcalc.programs.language import Family, Vector
    >>> q, k = (Family(Vector, name)() for name in "qk")
    >>> HeadSum(q * k, 4), HeadSum(q * k, 1), HeadSum(k, 2, apart=4, first_read=True)
    (headsum_4(k*q), k*q, shared_2x4(k))
    """

    own_kind = "vector"
    latex_precedence = PRECEDENCE["Mul"]

    def __new__(cls, body: sp.Basic, size: int, apart: int = 1, first_read: bool = False,
                first_written: bool = False) -> sp.Expr:
        body, size, apart = symbolic(body), whole_number("size", size, 1), whole_number("apart", apart, 1)
        if kind(body) == "matrix":
            raise TypeError(f"headsum({body}): a matrix has no heads")
        if size == 1 or body == 0:
            return body
        if kind(body) == "scalar" and not first_written:
            return body if first_read else size * body
        return super().__new__(cls, body, *map(sp.Integer, (size, apart, bool(first_read), bool(first_written))))

    body = property(lambda self: self.args[0])
    size = property(lambda self: int(self.args[1]))
    apart = property(lambda self: int(self.args[2]))
    first_read = property(lambda self: bool(self.args[3]))
    first_written = property(lambda self: bool(self.args[4]))
    coordinates = property(lambda self: self.size * self.apart)  # that it mixes

    def adjoint(self, signal: sp.Expr) -> sp.Expr:
        """What a gradient of the sums sends to what they sum: the transposed matrix times it."""
        return HeadSum(signal, self.size, self.apart, self.first_written, self.first_read)

    @property
    def _said(self) -> tuple[str, str]:
        """What it does and to how many coordinates, for printers."""
        words = {(False, False): "headsum", (True, False): "shared", (False, True): "gathered", (True, True): "first"}
        return words[self.first_read, self.first_written], f"{self.size}" + f"x{self.apart}" * (self.apart > 1)

    def _sympystr(self, printer: Printer) -> str:
        word, size = self._said
        return f"{word}_{size}({printer.doprint(self.body)})"

    def _latex(self, printer: Printer) -> str:
        word, size = self._said
        body = rf"\left({printer.doprint(self.body)}\right)"
        if word == "headsum":
            return rf"\textstyle\sum_{{\mathrm{{head}}\,({size})}} {body}"
        return rf"\mathrm{{{word}}}_{{{size.replace('x', chr(92) + 'times ')}}} {body}"


class LossDerivative(Real):
    """The derivative l'_t(f) of the loss of step t in the output; args: f, t, the sample if there is one.

    With several outputs f is the ``Tuple`` of all, and the last argument the one in which the derivative is.

    >>> import sympy as sp
    >>> from tpcalc.theory import Family, LossDerivative, Scalar
    >>> t = sp.Symbol("t", integer=True)
    >>> LossDerivative(Family(Scalar, "f")[t], t)
    loss'[t](f[t])
    """

    several = property(lambda self: isinstance(self.args[0], sp.Tuple))
    outputs = property(lambda self: tuple(self.args[0]) if self.several else self.args[:1])
    indices = property(lambda self: self.args[1:])

    def _sympystr(self, printer: Printer) -> str:
        return "loss'[%s](%s)" % (", ".join(map(printer.doprint, self.indices)), self._outputs(printer, "..."))

    def _latex(self, printer: Printer) -> str:
        below = ",".join(map(printer.doprint, self.indices))
        return rf"\ell_{{{below}}}'({self._outputs(printer, chr(92) + 'ldots')})"

    def _outputs(self, printer: Printer, dots: str) -> str:
        shown = list(map(printer.doprint, self.outputs))
        return ", ".join(shown if len(shown) < 4 else [shown[0], dots, shown[-1]])


def _sum_apart(printer: Printer, expression: sp.Expr) -> str:
    text = printer.doprint(expression)
    return f"({text})" if isinstance(expression, sp.Add) else text


def _factor(printer: Printer, expression: sp.Expr) -> str:
    """Text beside an @: in parentheses where that would take a part of it."""
    below = expression.is_Pow and expression.exp.could_extract_minus_sign()
    apart = below or precedence(expression) <= PRECEDENCE["Mul"] and not isinstance(expression, MatVec)
    return f"({printer.doprint(expression)})" if apart else str(printer.doprint(expression))


def _factor_latex(printer: Printer, expression: sp.Expr) -> str:
    """LaTeX beside another factor: in brackets where that would take a part of it."""
    apart = isinstance(expression, (sp.Add, sp.Mul, sp.Sum)) or hasattr(expression, "latex_precedence")
    text = str(printer.doprint(expression))
    apart = apart and not isinstance(expression, MatVec) or text.startswith("-")
    return rf"\left({text}\right)" if apart else text


def kind(expression: sp.Expr) -> str:
    """``"scalar"``, ``"vector"`` or ``"matrix"``; raises ``TypeError`` for what is none of them."""
    own: str | None = getattr(expression, "own_kind", None)
    if own is not None:
        return own
    kinds = [kind(part) for part in expression.args if isinstance(part, sp.Expr)]
    if "matrix" not in kinds:
        return "vector" if "vector" in kinds else "scalar"
    linear = (isinstance(expression, (sp.Add, sp.Sum)) and set(kinds) == {"matrix"}
              or isinstance(expression, sp.Mul) and kinds.count("matrix") == 1 and "vector" not in kinds)
    if not linear:
        raise TypeError(f"{expression}: matrices may be added and scaled by scalars, nothing else")
    return "matrix"
