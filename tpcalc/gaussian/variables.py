"""Centered jointly Gaussian variables, their covariances, and the expectation of an expression as a sympy node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp
from sympy.printing.printer import Printer

from .._checks import exact, symbolic
from .._types import Number
from ..errors import NotCovered
from .scalar_functions import H, KINKS, DerivativeAt

END = 12.0  # the Gaussian is 2e-32 there
PANEL = 0.5  # tanh and its like are analytic on an ellipse around a panel that is large enough for 1e-13
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
Function = Callable[..., np.ndarray]


def hermite(function: Function, dimension: int, nodes: int = 64) -> float:
    """E f(w) by Gauss-Hermite, w standard Gaussian with ``dimension`` coordinates: polynomials, exponentials."""
    x, weight = np.polynomial.hermite_e.hermegauss(nodes)
    weight = weight / np.sqrt(2 * np.pi)
    if dimension == 1:
        return float(np.sum(weight * function(x)))
    return float(np.sum(weight[:, None] * weight * function(x[:, None], x)))


def panels(function: Function, kinks: np.ndarray, dimension: int) -> float:
    """E f(w) by Gauss-Legendre on panels that end where f has a kink: 1e-12 for piecewise analytic f.

    kinks: (number, dimension + 1), rows (g, h) of the lines g . w + h = 0 where f is not smooth. In two dimensions the
    last coordinate is integrated first; the result has sharp transitions, of any width, at the abscissas where lines
    cross or are nearly parallel to the last axis: panels shrink geometrically toward these. Raises ``ValueError`` for
    functions that grow so fast that the range of ``END`` standard deviations is too short.
    """
    uniform = np.arange(-END, END + PANEL / 2, PANEL)
    if dimension == 1:
        x, weight = _nodes(np.append(uniform, _roots(kinks[:, 0], kinks[:, 1])))
        mass = weight * function(x)
        _refuse_tails(mass, np.abs(x))
        return float(np.sum(mass))
    steps = END * 0.5 ** np.arange(44.0)
    sharp = [p + side * steps for p in _abscissas(kinks) for side in (-1, 0, 1)]
    x, outer = _nodes(np.concatenate([uniform, *sharp]))
    roots = np.stack([_roots(g2, g1 * x + h) for g1, g2, h in kinks] + [np.zeros(len(x))], axis=1)
    y, inner = _nodes(np.concatenate([np.broadcast_to(uniform, (len(x), len(uniform))), roots], axis=1))
    mass = outer[:, None] * inner * function(x[:, None], y)
    _refuse_tails(mass, np.maximum(np.abs(x)[:, None], np.abs(y)))
    return float(np.sum(mass))


def _refuse_tails(mass: np.ndarray, distance: np.ndarray) -> None:
    """Raise where a visible part of the integral lies at the end of the range, hence beyond it too."""
    size = np.abs(mass)
    if np.sum(size[distance > END - 1]) > 1e-12 * np.sum(size):
        raise NotCovered(f"the function grows too fast for quadrature on {END:g} standard deviations; move its mean "
                         "first (the rule Shift)")


def _roots(slope: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """The points w where slope * w + offset = 0; the end of the range for those without one inside."""
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.nan_to_num(-np.asarray(offset) / slope, nan=END, posinf=END, neginf=-END)
    return np.clip(roots, -END, END)


def _abscissas(kinks: np.ndarray) -> np.ndarray:
    """First coordinates of the points where two lines cross, and where a line meets the first axis."""
    g1, g2, h = kinks.T
    cross = _roots(g1[:, None] * g2 - g1 * g2[:, None], h[:, None] * g2 - h * g2[:, None])
    return np.unique(np.concatenate([cross[np.triu_indices(len(kinks), 1)], _roots(g1, h)]).round(14))


def _nodes(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights, Gaussian density included, of the panels between edges; along the last axis."""
    edges = np.sort(np.clip(edges, -END, END), axis=-1)
    half, middle = np.diff(edges) / 2, (edges[..., 1:] + edges[..., :-1]) / 2
    x = (middle[..., None] + half[..., None] * NODES).reshape(*edges.shape[:-1], -1)
    weight = (half[..., None] * WEIGHTS).reshape(x.shape)
    return x, weight * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


@lru_cache(maxsize=4096)
def tidy(expression: sp.Expr) -> sp.Expr:
    """One fraction, factored: zero if it is zero, and square roots of it split."""
    return sp.factor(expression)


def root(variance: sp.Expr) -> sp.Expr:
    """The square root of a positive fraction, as the quotient of two, so that it cancels against others."""
    above, below = sp.fraction(tidy(variance))
    return sp.sqrt(above) / sp.sqrt(below)


def slopes(form: sp.Expr, variables: Iterable[sp.Expr]) -> sp.Matrix | None:
    """Coefficients of the variables in an affine form, as a column; ``None`` if it is not affine."""
    variables = tuple(variables)
    column = [form.diff(u) for u in variables]
    return None if any(slope.has(*variables) for slope in column) else sp.Matrix(column)


def tidy_form(form: sp.Expr, variables: Iterable[sp.Expr]) -> sp.Expr:
    """An affine form with each coefficient in one fraction; other expressions as they are."""
    variables = tuple(variables)
    column = slopes(form, variables)
    if column is None:
        return form
    offset = tidy(form.xreplace(dict.fromkeys(variables, sp.Integer(0))))
    return sp.Add(offset, *(tidy(slope) * u for slope, u in zip(column, variables)))


def has_full_rank(matrix: sp.ImmutableMatrix) -> bool:
    """Is it of full rank where numbers of no meaning stand for its symbols (and what is no sum, product or power)?

    Then no combination of rows vanishes identically. ``False``: it may be singular.
    """
    numbers: dict[sp.Expr, sp.Expr] = {}

    def number(e: sp.Expr) -> sp.Expr:
        if e.is_number:
            return e
        if e.is_Add or e.is_Mul or e.is_Pow and e.exp.is_number:
            return e.func(*map(number, e.args))
        return numbers.setdefault(e, sp.Rational(1 + 382 * (len(numbers) + 1) % 619, 619))  # spread over (0, 1]

    values = np.linalg.svd(np.array(matrix.applyfunc(number).evalf(), dtype=np.complex128), compute_uv=False)
    return bool(values[-1] > 1e-9 * values[0])


ROUNDING = sp.Rational(1, 10**12)  # a residual variance below zero by less than this is a rounded zero


@dataclass(frozen=True)
class Conditional:
    """The law of Gaussian variables given the values of some of them.

    mean: of every variable, a linear form in the given ones (``v`` itself for a given one).
    residual: covariance matrix of what is left, in the order of the variables (zero for the given ones).
    """

    mean: Mapping[sp.Expr, sp.Expr]
    residual: sp.ImmutableMatrix


class Gaussians:
    """Centered jointly Gaussian variables.

    covariance: pairs of variables to numbers or expressions; one order of each pair is enough, floats are read as
    decimals. Variables are real symbols or kets, in order of appearance. Raises ``ValueError`` naming the pair for
    one that is missing or differs between its two orders, a negative variance, or numbers that are no covariance.
    """

    def __init__(self, covariance: Mapping[tuple[sp.Expr, sp.Expr], Number]) -> None:
        entries = {(u, v): exact(f"covariance of {u} and {v}", value) for (u, v), value in covariance.items()}
        self.variables: tuple[sp.Expr, ...] = tuple(dict.fromkeys(u for pair in entries for u in pair))
        for u in self.variables:
            if not isinstance(u, sp.Expr) or not u.is_real or u.is_number:
                raise ValueError(f"{u}: a Gaussian variable is a real symbol, Symbol('{u}', real=True), or a ket")
        for (u, v), value in entries.items():
            if entries.get((v, u), value) != value and tidy(entries[v, u] - value) != 0:
                raise ValueError(f"covariance of {u} and {v}: not symmetric, {value} and {entries[v, u]}")
            if value.has(*self.variables):
                raise ValueError(f"covariance of {u} and {v}: {value} depends on a Gaussian variable")
        for i, u in enumerate(self.variables):
            for v in self.variables[i:]:
                if (u, v) not in entries and (v, u) not in entries:
                    raise ValueError(f"covariance of {u} and {v}: missing")
            if entries[u, u].is_negative:
                raise ValueError(f"variance of {u}: {entries[u, u]} is negative")
        self.matrix = sp.ImmutableMatrix([[entries.get((u, v), entries.get((v, u))) for v in self.variables]
                                          for u in self.variables])
        if not self.matrix.free_symbols:
            self.given(*self.variables)  # raises where the numbers are no covariance

    @classmethod
    def from_matrix(cls, variables: Iterable[sp.Expr], matrix: sp.Matrix) -> Gaussians:
        """Gaussians with this covariance, a square matrix with rows and columns in the order of ``variables``."""
        entries = matrix.tolist() if hasattr(matrix, "tolist") else matrix  # text among them must not reach sympy
        variables, rows = tuple(variables), sp.Matrix([[symbolic(entry) for entry in row] for row in entries])
        if rows.shape != (len(variables), len(variables)):
            raise ValueError(f"covariance of {len(variables)} variables: a matrix of shape {rows.shape}")
        return cls({(u, v): rows[i, j] for i, u in enumerate(variables) for j, v in enumerate(variables)})

    def covariance(self, u: sp.Expr, v: sp.Expr) -> sp.Expr:
        """The covariance of two variables."""
        return self.matrix[self.variables.index(u), self.variables.index(v)]

    def given(self, *past: sp.Expr) -> Conditional:
        """E[u | past] = Cov(u, past) Cov(past, past)^-1 past, and the residual covariance; degenerate ``past`` too.

        One variable at a time: of each only what the former ones do not say counts. Raises ``ValueError`` for one
        that is no variable. Source: [gaussian/conditioning].
        """
        for v in past:
            if v not in self.variables:
                raise ValueError(f"{v}: not among the Gaussians {', '.join(map(str, self.variables))}")
        return condition(self.variables, self.matrix, past)

    def __repr__(self) -> str:
        pairs = ((u, v) for i, u in enumerate(self.variables) for v in self.variables[i:])
        return "Gaussians(" + ", ".join(f"<{u} {v}> = {self.covariance(u, v)}" for u, v in pairs) + ")"


def condition(variables: tuple[sp.Expr, ...], matrix: sp.ImmutableMatrix, past: Iterable[sp.Expr]) -> Conditional:
    """``Gaussians.given`` for variables and matrix."""
    size, residual = len(variables), matrix.as_mutable()
    weights = sp.zeros(size, size)  # of the past variables in the means
    for v in past:
        i = variables.index(v)
        variance = tidy(residual[i, i])
        if variance.is_negative and variance < -ROUNDING * matrix[i, i]:
            raise ValueError(f"variance of {v} given the variables before it: {sp.N(variance, 5)} is negative; "
                             "the numbers are no covariance")
        if variance == 0 or variance.is_negative:
            for j, u in enumerate(variables):
                if (residual[i, j]**2 - ROUNDING * matrix[i, i] * matrix[j, j]).is_positive:
                    raise ValueError(f"covariance of {v} and {u} given the variables before them: "
                                     f"{sp.N(residual[i, j], 5)}, though {v} has no variance left")
            residual[i, :], residual[:, i] = sp.zeros(1, size), sp.zeros(size, 1)  # zero, but for rounding
            continue
        gain = (residual[:, i] / variance).applyfunc(tidy)
        news = -weights[i, :]  # v less its mean
        news[i] += 1
        weights = (weights + gain * news).applyfunc(tidy)
        residual = (residual - gain * residual[i, :]).applyfunc(tidy)
    mean = {u: sum((weights[i, j] * v for j, v in enumerate(variables)), sp.Integer(0))
            for i, u in enumerate(variables)}
    return Conditional(mean, residual.as_immutable())


class Expectation(sp.Expr):
    """E[body] over centered Gaussian variables with a covariance; the variables are bound.

    args: body, the variables that occur in it, their covariance matrix. Without any it is the body. Its derivative
    in a parameter is by Price's theorem, which covers the parameters of the covariance.

    With the body alone it is a mean over all that is random in it, such as kets, which need not be Gaussian: no rule
    rewrites it, and it has no number before its law is known.
    """

    is_commutative = True

    def __new__(cls, body: sp.Expr, variables: Iterable[sp.Expr] | None = None,
                covariance: sp.ImmutableMatrix | None = None) -> sp.Expr:
        body = symbolic(body)
        if variables is None:
            return body if body.is_number else super().__new__(cls, body)
        variables = tuple(variables)
        used = [i for i, u in enumerate(variables) if body.has(u)]
        if not used:
            return body
        return super().__new__(cls, body, sp.Tuple(*(variables[i] for i in used)),
                               sp.ImmutableMatrix(covariance).extract(used, used))

    body = property(lambda self: self.args[0])
    variables = property(lambda self: self.args[1] if self.has_law else sp.Tuple())
    matrix = property(lambda self: self.args[2] if self.has_law else sp.ImmutableMatrix())
    has_law = property(lambda self: len(self.args) > 1)

    @classmethod
    def class_key(cls) -> tuple[int, int, str]:
        """The order of terms: means are written after kets, as sympy orders nodes by the names of their classes."""
        return 5, 0, "Mean"

    @property
    def free_symbols(self) -> set:
        hidden = {u: sp.Dummy() for u in self.variables}  # kets have symbols of their own inside
        return (self.body.xreplace(hidden).free_symbols - set(hidden.values())) | self.matrix.free_symbols

    @property
    def bound_symbols(self) -> list:
        return list(self.variables)

    def over(self, body: sp.Expr) -> sp.Expr:
        """The expectation of another body over the same variables."""
        return Expectation(body, self.variables, self.matrix)

    def renamed(self, *names: sp.Expr) -> sp.Expr:
        """The expectation with the first of ``names`` for its variables."""
        return Expectation(self.body.xreplace(dict(zip(self.variables, names))), names[:len(self.variables)],
                           self.matrix)

    def joined_by(self, variable: sp.Symbol, variance: sp.Expr, body: sp.Expr) -> sp.Expr:
        """The expectation of another body, with one more variable, independent of the others."""
        return Expectation(body, (*self.variables, variable), sp.diag(self.matrix, variance))

    def slopes(self, form: sp.Expr) -> sp.Matrix | None:
        """Coefficients of the variables in an affine form, as a column; ``None`` if it is not affine."""
        return slopes(form, self.variables)

    def offset(self, form: sp.Expr) -> sp.Expr:
        """What an affine form is where all variables are zero."""
        return tidy(form.xreplace(dict.fromkeys(self.variables, sp.Integer(0))))

    def covariances(self, form: sp.Expr) -> dict[sp.Expr, sp.Expr]:
        """The covariance of every variable with an affine form."""
        return dict(zip(self.variables, (self.matrix * sp.Matrix(self.slopes(form))).applyfunc(tidy)))

    def covariance(self, f: sp.Expr, g: sp.Expr) -> sp.Expr:
        """The covariance of two affine forms."""
        return tidy((sp.Matrix(self.slopes(f)).T * self.matrix * sp.Matrix(self.slopes(g)))[0])

    def price(self, parameter: sp.Expr) -> sp.Expr:
        """d E[F] / d parameter = E[dF / d parameter] + sum_ij (1/2) dC_ij / d parameter E[d_i d_j F]."""
        change = self.matrix.diff(parameter)
        return self.over(self.body.diff(parameter)) + sp.Add(*(
            change[i, j] / 2 * self.over(self.body.diff(u).diff(v))
            for i, u in enumerate(self.variables) for j, v in enumerate(self.variables) if change[i, j] != 0))

    @property
    def functions(self) -> tuple[tuple[sp.Expr, int], ...]:
        """(f, order) for every variable u of a body that is a product of f^(order)(u), f in the symbol ``H``. Raises
        ``ValueError`` for a body that is no such product."""
        found = {u: sp.Integer(1) for u in self.variables}
        for factor in sp.Mul.make_args(self.body):
            of = [u for u in self.variables if factor.has(u)]
            if len(of) != 1 and not factor.is_number:
                raise NotCovered(f"{self}: expected products of functions of one variable each")
            found[(of or self.variables)[0]] *= factor
        return tuple((f.args[0], int(f.args[1])) if f.func == DerivativeAt and f.args[2] == u
                     else (f.doit().xreplace({u: H}), 0) for u, f in found.items())

    @property
    def entries(self) -> tuple[sp.Expr, ...]:
        """Covariances, then variances: what tabulated means of ``functions`` are functions of."""
        size = len(self.variables)
        return (*(self.matrix[i, j] for i in range(size) for j in range(i + 1, size)), *self.matrix.diagonal())

    def on_symbols(self, rewrite: Callable[[Expectation], sp.Expr]) -> sp.Expr:
        """``rewrite`` with symbols in place of variables that are kets, which sympy does not differentiate by."""
        stand_ins = {u: sp.Dummy(str(u), real=True) for u in self.variables if not u.is_Symbol}
        if not stand_ins:
            return rewrite(self)
        node = Expectation(self.body.xreplace(stand_ins), [stand_ins.get(u, u) for u in self.variables], self.matrix)
        return rewrite(node).xreplace({symbol: u for u, symbol in stand_ins.items()})

    def evaluate(self, values: Mapping[sp.Symbol, Number] | None = None) -> float:
        """The number, by quadrature, at values of the parameters (symbols to numbers).

        Gauss-Hermite for polynomials times exp, sin, cos of affine forms; else Gauss-Legendre on [-12, 12] standard
        deviations, on panels that end at the kinks of Abs, Max, Heaviside, sign of affine forms: about 1e-12 for
        functions whose scale is not far below a standard deviation. Raises ``ValueError`` for a parameter without
        value, a covariance that is none, more than two dimensions, delta functions (see ``Condition``), and
        functions that outgrow the density within this range.
        """
        if not self.has_law:
            raise ValueError(f"{self}: has no law; expected expectations over Gaussian variables")
        return float(self.on_symbols(lambda node: sp.Float(_quadrature(node, values or {}))))

    def _eval_evalf(self, prec: int) -> sp.Expr | None:
        return None if self.free_symbols or not self.has_law else sp.Float(self.evaluate())

    def _eval_derivative(self, symbol: sp.Expr) -> sp.Expr:
        if not self.has_law:
            raise ValueError(f"{self}: has no law; expected derivatives of expectations over Gaussian "
                             "variables")
        return sp.Integer(0) if symbol in self.variables else self.on_symbols(lambda node: node.price(symbol))

    def _eval_subs(self, old: sp.Expr, new: sp.Expr) -> sp.Expr | None:
        return self if old in self.variables else None

    def _eval_is_real(self) -> bool | None:
        return self.body.is_real if self.has_law else True

    def _sympystr(self, printer: Printer) -> str:
        return f"E[{printer.doprint(self.body)}]"

    def _latex(self, printer: Printer) -> str:
        return rf"\mathbb{{E}}\left[{printer.doprint(self.body)}\right]"


def _quadrature(node: Expectation, values: Mapping[sp.Symbol, Number]) -> float:
    values = {symbolic(key): symbolic(value) for key, value in values.items()}
    body, matrix = node.body.doit().subs(values), node.matrix.subs(values)
    missing = (body.free_symbols - set(node.variables)) | matrix.free_symbols
    if missing:
        raise ValueError(f"{node}: no value for {', '.join(sorted(map(str, missing)))}")
    if body.has(sp.DiracDelta):
        raise NotCovered(f"{node}: a delta function has no quadrature; condition on its argument first")
    covariance = np.array(matrix.evalf(), dtype=np.float64)
    variances, axes = np.linalg.eigh(covariance)  # ascending: the last axis, integrated first, is the widest
    scale = max(variances[-1], 0.0)
    if variances[0] < -1e-12 * scale or scale < -variances[0]:
        raise ValueError(f"{node}: {matrix.tolist()} is no covariance")
    keep = variances > 4e-16 * scale
    factor = axes[:, keep] * np.sqrt(variances[keep])
    dimension = factor.shape[1]
    if dimension > 2:
        raise NotCovered(f"{node}: {dimension} dimensions; quadrature goes up to two")
    if dimension == 0:
        return float(body.subs(dict.fromkeys(node.variables, 0)))
    plain = sp.lambdify(list(node.variables), body, modules=["scipy", "numpy"])

    def function(*w: np.ndarray) -> np.ndarray:
        shape = np.broadcast_shapes(*(i.shape for i in w))
        return np.broadcast_to(plain(*(sum(f * i for f, i in zip(row, w)) for row in factor)), shape)

    if _is_mild(node, body, covariance):
        return hermite(function, dimension)
    lines = [(*(np.array(column.T, dtype=np.float64) @ factor)[0], float(node.offset(form)))
             for form in _bends(body) if (column := node.slopes(form)) is not None]
    return panels(function, np.array(lines, dtype=np.float64).reshape(-1, dimension + 1), dimension)


def _is_mild(node: Expectation, body: sp.Expr, covariance: np.ndarray) -> bool:
    """Polynomials times exp, sin, cos of affine forms of at most 6 standard deviations: 64 nodes are exact then."""
    functions = body.atoms(sp.Function)
    for function in functions:
        column = node.slopes(function.args[0])
        if function.func not in (sp.exp, sp.sin, sp.cos, sp.sinh, sp.cosh) or column is None:
            return False
        slope = np.array(column, dtype=np.float64)[:, 0]
        if slope @ covariance @ slope > 36:
            return False
    return body.xreplace({f: sp.Dummy() for f in functions}).is_polynomial()


def _bends(body: sp.Expr) -> Iterable[sp.Expr]:
    """Expressions at whose zeros the body has a kink."""
    for function in body.atoms(*KINKS):
        args = function.args if function.func in (sp.Max, sp.Min) else (function.args[0], sp.Integer(0))
        yield from (f - g for i, f in enumerate(args) for g in args[i + 1:])
