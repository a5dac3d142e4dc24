"""The kernels of a residual block, derived from the statements it writes.

A block whose first operation is a fresh random matrix enters the infinite-depth limit through the covariance kappa of
its outputs over the initial weights, and one tangent kernel theta a matrix, the overlap of its gradients in that
matrix, as functions of the overlaps of its inputs. A product W v is a fresh Gaussian, with the overlap of v as
covariance; functions of it map covariances, and multiply tangents by the overlap of their derivatives. What the limit
makes of them: [tpcalc/action_principle].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, singledispatchmethod
from typing import NamedTuple, Sequence

import sympy as sp

from ..errors import NotCovered
from ..models import ResNet
from ..programs.blocks import block_name
from ..programs.indices import L, T, l, t
from ..programs.by_position import HeadTable, HeadTurn
from ..programs.language import HeadSum, Matrix, MatVec, Member, Mean, Outer, Transpose, Vector
from ..programs.special import Quantile
from ..gaussian.rules import gaussian_mean, overlap
from ..models.activations import H

C = sp.Symbol("C_ab", real=True)
P, Q = sp.symbols("C_aa C_bb", positive=True)
R = sp.Symbol("rho_ab", real=True)          # rho_a rho_b, what weight decay leaves of an initial matrix, twice
RP, RQ = sp.symbols("rho_aa rho_bb", positive=True)
X = sp.Dummy("x", real=True)                # the stream, among fresh products
FIRST, SECOND = {C: P, Q: P, R: RP, RQ: RP}, {C: Q, P: Q, R: RQ, RP: RQ}  # both slots the first, the second

Factors = dict[sp.Symbol, sp.Expr]          # fresh product -> function of it, in the symbol H


@dataclass(frozen=True)
class DerivedKernels:
    """kappa, and theta by the name of the matrix, of slots a and b, in the symbols ``C``, ``P``, ``Q`` for the
    overlaps C_ab, C_aa, C_bb of the stream, and ``R``, ``RP``, ``RQ`` for rho_a rho_b, rho_a^2, rho_b^2.

    ``forward``, ``backward``, ``diagonal``: what the densities ask for [tpcalc/block_densities].
    """

    kappa: sp.Expr
    thetas: dict[str, sp.Expr]

    @cached_property
    def theta(self) -> sp.Expr:
        """The tangent kernel summed over matrices."""
        return sp.Add(*self.thetas.values())

    def derivative(self, kernel: str, *orders: int) -> sp.Expr:
        """A derivative of "kappa", "theta" or the theta^m of a matrix m, by its orders in C_ab, C_aa and C_bb.

        >>> derive_block_kernels(ResNet("tanh", "mlp")).derivative("kappa", 1).diff(C) == derive_block_kernels(
        ...     ResNet("tanh", "mlp")).derivative("kappa", 2)
        True
        """
        head, _, matrix = kernel.partition("^")
        value = self.thetas[matrix] if matrix else {"kappa": self.kappa, "theta": self.theta}[head]
        for variable, order in zip((C, P, Q), orders):
            value = value.diff(variable, order) if order else value
        return value

    @cached_property
    def forward(self) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
        """kappa, kappa_12, theta; index 12 is the derivative in C_ab."""
        return self.kappa, self.kappa.diff(C), self.theta

    @cached_property
    def backward(self) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
        """kappa_12, kappa_12,12, theta_12: what the backward pass reads; index 12 is the derivative in C_ab."""
        return self.kappa.diff(C), self.kappa.diff(C, 2), self.theta.diff(C)

    @cached_property
    def diagonal(self) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
        """d_1 kappa, d_1 kappa_12, d_1 theta; d_1 is twice the derivative in C_aa, the first slot's only."""
        return 2 * self.kappa.diff(P), 2 * self.kappa.diff(C, P), 2 * self.theta.diff(P)


def derive_block_kernels(net: ResNet) -> DerivedKernels:
    """The kernels of the blocks of ``net``.

    Raises ``ValueError`` with the reason for blocks that do not close on kernels: those that act on the stream before
    a matrix does, use a matrix twice or share it between layers, mix products in one function, or have outputs
    whose mean is not zero.
    """
    reading = BlockInterpreter(block_name(net.block))
    output = reading.read_block(net)
    return DerivedKernels(reading.overlap(output), reading.tangents(output))


class FreshProduct(NamedTuple):
    """What is known of W v at slots a and b: covariance and tangent kernels."""

    covariance: sp.Expr
    tangents: dict[str, sp.Expr]


class BlockInterpreter:
    """Vectors of a block as functions of fresh products, scalars as functions of the slot's overlaps."""

    powers_of_stream_only = True  # of other functions of its coordinates means are not known

    def __init__(self, name: str) -> None:
        self.name = name
        self.named: dict[sp.Expr, sp.Expr] = {}
        self.products: dict[sp.Symbol, FreshProduct] = {X: FreshProduct(C, {})}
        self.scalars: dict[sp.Symbol, sp.Expr] = {}      # of slot a
        self.seen: dict[sp.Expr, tuple[sp.Expr, sp.Symbol]] = {}  # matrix -> what it multiplies, their product
        self.shared: dict[sp.Expr, tuple[HeadSum, sp.Symbol]] = {}  # product -> how heads share it, what each reads

    def refusal(self, why: str) -> NotCovered:
        return NotCovered(f"block: got {self.name}, and it does not close on kernels: {why}")

    def read_block(self, net: ResNet) -> sp.Expr:
        """What the block of ``net`` adds to the stream."""
        statements, value = net.written()
        for statement in statements:
            self.named[statement.target] = self.name_value(self.read(statement.value))
        output = self.read(value)
        self.require_shared_alone([*(vector for vector, _ in self.seen.values()), output])
        if X in output.free_symbols:
            raise self.refusal("its output contains the stream itself; what it adds must have gone through a matrix")
        if sp.simplify(self.mean(output)) != 0:
            raise self.refusal("its output has a mean that is not zero; expected blocks that end with a matrix or "
                               "subtract the mean over coordinates")
        return output

    def name_value(self, value: sp.Expr) -> sp.Expr:
        """What stands for a statement's value where it is read."""
        return value

    def read(self, value: sp.Expr) -> sp.Expr:
        """A statement's value, or a part of it."""
        return self.named[value] if value in self.named else self._read(value)

    @singledispatchmethod
    def _read(self, value: sp.Expr) -> sp.Expr:
        if value in (l, t, L, T):
            raise self.refusal(f"it depends on {value}; expected blocks that are alike at all layers and steps")
        return value.func(*map(self.read, value.args)) if value.args else value

    @_read.register(Member)
    @_read.register(Outer)
    @_read.register(Transpose)
    def _unread(self, value: sp.Expr) -> sp.Expr:
        raise self.refusal(f"{value} is read by no rule")

    @_read.register(Vector)
    def _stream(self, value: Vector) -> sp.Expr:
        if value.name == "x" and value.indices[-1] == l - 1:
            return X
        raise self.refusal(f"{value} is neither the stream nor written by the block")

    @_read.register(Mean)
    def _moment(self, value: Mean) -> sp.Expr:
        scalar = sp.Dummy("m", real=True)
        self.scalars[scalar] = self.mean(self.read(value.args[0]))
        return scalar

    @_read.register(Quantile)
    def _of_population(self, value: Quantile) -> sp.Expr:
        raise self.refusal(f"{value} is a quantile of all coordinates, and no function of overlaps that is known here; "
                           "expected nothing chosen by one")

    @_read.register(HeadTurn)
    @_read.register(HeadTable)
    def _of_positions(self, value: sp.Expr) -> sp.Expr:
        raise self.refusal(f"{value} knows coordinates of a head; expected coordinates that are alike")

    @_read.register(HeadSum)
    def _of_heads(self, value: HeadSum) -> sp.Expr:
        """What heads share of a product, one coordinate in several: as random as the product, where nothing else reads
        that."""
        body = self.read(value.body)
        if not value.first_read or value.first_written or body not in self.products or body == X:
            raise self.refusal(f"{value} mixes coordinates; expected what heads share of a product with a matrix")
        known, read = self.shared.setdefault(body, (value, sp.Dummy("u", real=True)))
        if known != value:
            raise self.refusal(f"{value} and {known} share one product in two ways")
        self.products[read] = self.products[body]
        return read

    def require_shared_alone(self, ends: Sequence[sp.Expr]) -> None:
        """Raise ``NotCovered`` where a product that heads share is read otherwise, too, and where what they share goes
        to the stream through no matrix. ends: what matrices multiply, and the output, which is last."""
        for product, (value, read) in self.shared.items():
            others = [one for one in self.named.values() if one != product]
            if any(product in one.free_symbols for one in (*others, *ends)) or read in ends[-1].free_symbols:
                raise self.refusal(f"{value} shares what is read otherwise, too, or what no matrix multiplies, so that "
                                   "coordinates of a head are not independent")

    @_read.register(MatVec)
    def _product(self, value: MatVec) -> sp.Symbol:
        matrix, vector = value.matrix, self.read(value.vector)
        if matrix.func != Matrix or matrix.indices != (t, l):
            raise self.refusal(f"{matrix} is not a matrix of its own layer; weights shared between layers carry memory "
                               "from one to the next")
        known, product = self.seen.get(matrix, (vector, sp.Dummy("u", real=True)))
        if known != vector:
            raise self.refusal(f"{matrix} multiplies two vectors, so that its products are not independent")
        if matrix not in self.seen:
            self.seen[matrix] = vector, product
            own = self.overlap(vector)
            tangents = {name: R * tangent for name, tangent in self.tangents(vector).items()}
            self.products[product] = FreshProduct(R * own, {**tangents, matrix.name: own})
        return product

    def mean(self, value: sp.Expr) -> sp.Expr:
        """E over coordinates at slot a."""
        return sp.Add(*(self._at(coefficient, {}) * sp.Mul(*(self._mean(u, f, FIRST) for u, f in factors.items()))
                        for coefficient, factors in self._terms(value, power=2)))

    def overlap(self, value: sp.Expr) -> sp.Expr:
        """E over coordinates of the values at slots a and b."""
        return self._paired(value, None)

    def tangents(self, value: sp.Expr) -> dict[str, sp.Expr]:
        """Overlaps of gradients, by matrix."""
        total: dict[str, sp.Expr] = {}
        for u in sorted(value.free_symbols & self.products.keys(), key=sp.default_sort_key):
            tangents = self.products[u].tangents
            slope = self._paired(value, u) if tangents else 0
            for name, tangent in tangents.items():
                total[name] = total.get(name, sp.Integer(0)) + slope * tangent
        return total

    def _paired(self, value: sp.Expr, differentiated: sp.Symbol | None) -> sp.Expr:
        """E of value_a value_b, or of their derivatives in one product."""
        terms, total = self._terms(value, power=1), []
        for first, f in terms:
            for second, g in terms:
                if differentiated is not None and not (differentiated in f and differentiated in g):
                    continue
                overlaps = (self._overlap(u, f.get(u), g.get(u), int(u == differentiated)) for u in {**f, **g})
                total.append(self._at(first, {}) * self._at(second, {P: Q, RP: RQ}) * sp.Mul(*overlaps))
        return sp.Add(*total)

    def _overlap(self, u: sp.Symbol, f: sp.Expr | None, g: sp.Expr | None, order: int) -> sp.Expr:
        if f is None or g is None:
            return self._mean(u, g, SECOND) if f is None else self._mean(u, f, FIRST)
        c = self.products[u].covariance
        return overlap(f, g, order, order, c, c.xreplace(FIRST), c.xreplace(SECOND))

    def _mean(self, u: sp.Symbol, f: sp.Expr, slot: dict[sp.Symbol, sp.Symbol]) -> sp.Expr:
        return gaussian_mean(f, 0, self.products[u].covariance.xreplace(slot))

    def _at(self, coefficient: sp.Expr, slot: dict[sp.Symbol, sp.Symbol]) -> sp.Expr:
        return coefficient.xreplace({m: value.xreplace(slot) for m, value in self.scalars.items()})

    def _terms(self, value: sp.Expr, power: int) -> list[tuple[sp.Expr, Factors]]:
        """The value as a sum of coefficients times functions of one product; of the stream, powers up to ``power``."""
        terms = self._separated(value) or self._separated(self._multiplied_out(value)) or self._separated(
            sp.expand(value))
        if terms is None:
            raise self.refusal("one of its functions mixes several products, or a product and a mean")
        for _, factors in terms:
            of_stream = factors.get(X, H)
            if self.powers_of_stream_only and (X in factors and len(factors) > 1 or not of_stream.is_polynomial(H)
                                               or sp.degree(of_stream, H) > power):
                raise self.refusal("it acts on the stream before a fresh random matrix does ('pre_nonlin'), and means "
                                   "over the stream's coordinates are no functions of overlaps")
        return terms

    def _multiplied_out(self, value: sp.Expr) -> sp.Expr:
        """The value multiplied out, but for functions of one product: these stay as they are written elsewhere, too."""
        whole: dict[sp.Expr, sp.Dummy] = {}

        def hidden(e: sp.Expr) -> sp.Expr:
            inside = e.free_symbols & self.products.keys()
            if len(inside) == 1 and not e.free_symbols & self.scalars.keys():
                return whole.setdefault(e, sp.Dummy())
            return e.func(*map(hidden, e.args)) if inside else e
        out: sp.Expr = sp.expand(hidden(value))
        return out.xreplace({dummy: e for e, dummy in whole.items()})

    def _separated(self, value: sp.Expr) -> list[tuple[sp.Expr, Factors]] | None:
        terms: dict[tuple[object, object], tuple[sp.Expr, Factors]] = {}
        for term in sp.Add.make_args(value):
            coefficient: sp.Expr = sp.Integer(1)
            factors: Factors = {}
            for factor in sp.Mul.make_args(term):
                inside = factor.free_symbols & self.products.keys()
                if not inside:
                    coefficient *= factor
                elif len(inside) == 1 and not factor.free_symbols & self.scalars.keys():
                    u, = inside
                    factors[u] = factors.get(u, sp.Integer(1)) * factor.xreplace({u: H})
                else:
                    return None
            if len(factors) == 1:  # a sum of functions of one product is one function of it
                (u, f), = factors.items()
                before = terms.get((u, coefficient if coefficient.free_symbols else 1))
                if coefficient.is_number:
                    coefficient, f = sp.Integer(1), coefficient * f
                else:  # the same functions as of terms with numbers alone
                    size = abs(coefficient.as_coeff_Mul()[0])
                    coefficient, f = coefficient / size, size * f
                terms[u, coefficient] = coefficient, {u: f + (before[1][u] if before else 0)}
            else:
                terms[len(terms), None] = coefficient, factors
        return list(terms.values())
