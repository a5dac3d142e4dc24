"""Densities in layer time: the coefficients of the action, of any block and with the kernels of a network's own.

As solvers evaluate them they are sums of what training brings times derivatives of a block's kernels.
Training brings r, e, C^1 and w. A kernel maps the Gram matrices of two groups of rows to one of their outputs, and each
term is one use of a linear map that its derivatives are: r is what Gram matrices are moved along, e or C^1 weighs what
comes out, and one more derivative asks for the gradient of that in the Gram matrix between the groups or in that of the
first. For groups of one row these maps are multiplications by the derivatives themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Mapping, NamedTuple

import sympy as sp
from sympy.utilities.iterables import sift

from .._text import Aligned
from ..derivations.derivation import Derivation, NodeRule
from ..derivations.printing import latex
from ..errors import NotCovered
from ..models import ResNet
from .action import (ChainRule, Field, Inner, Kernel, MultiplyOut, OverEarlier, OverlapCoefficient, ReadCoefficient,
                     Saddle, a, action, at, b, c, delta, dt, x, xt)
from .block_kernels import FIRST, DerivedKernels, derive_block_kernels
from .named_means import NamedMeans

TARGETS = {"A": at("A", a, b), "B": at("B", a, b), "B_diagonal": at("B", a, a), "N0": at("N^0", a, b),
           "N1": at("N^1", a, b), "N0_own": at("N^0", a, a), "N1_own": at("N^1", a, a)}
BROUGHT = ("r_", "e_", "C^", "w^")  # by training, as the names begin
PRINTED = ("A", "B", "B_diagonal", "N0", "N1")


@dataclass(frozen=True)
class Densities(Aligned):
    """What a block adds to dP/dtau and -dQ/dtau (A, B, and B_aa of a site with itself) and to covariances (N0, N1).

    Of sites b < a, in the symbols r_ab, e_ab, C_ab, C^1_ab, w^m_ab and rho_ab, and in kernels or Gaussian means;
    N0_own, N1_own: of b = a. B_diagonal is ``own`` and the sum of ``past`` over all b < a. zeros: what causality leaves
    nothing of, by what it would be. For 1/2 < alpha < 1 only terms with w survive.
    """

    A: sp.Expr
    B: sp.Expr
    B_diagonal: sp.Expr
    N0: sp.Expr
    N1: sp.Expr
    N0_own: sp.Expr
    N1_own: sp.Expr
    zeros: Mapping[str, sp.Expr]
    derivation: Derivation

    @property
    def past(self) -> sp.Expr:
        return sp.Add(*(e.args[0] for e in self.B_diagonal.atoms(OverEarlier)))

    @property
    def own(self) -> sp.Expr:
        return self.B_diagonal - OverEarlier(self.past)

    def __str__(self) -> str:
        return "\n".join(f"{TARGETS[name]} = {getattr(self, name)}" for name in PRINTED)

    def latex(self) -> str:
        """Lines of an ``aligned`` environment: the densities, and what their functions and Gaussian variables are."""
        means = NamedMeans(getattr(self, name) for name in PRINTED)
        lines = []
        for name in PRINTED:
            value = getattr(self, name)
            parts = [_grouped(value, means)] if name != "B_diagonal" else [_grouped(self.own, means)]
            if name == "B_diagonal" and self.past != 0:
                parts.append(rf"\sum_{{b<a}} \left[{_grouped(self.past, means)}\right]")
            text = " + ".join(part for part in parts if part != "0") or "0"
            lines.append(rf"{latex(TARGETS[name])} &= {text}")
        return " \\\\\n".join(lines + means.legend())


@lru_cache(maxsize=None)
def derive_densities_of_kernels(matrices: tuple[str, ...] = ("m",)) -> Densities:
    """The densities of any block, in derivatives of its kernels kappa and theta^m, m in ``matrices``.

    Source: [tpcalc/block_densities], from the action principle, which simulations support [tpcalc/action_principle].
    """
    derivation = Derivation()

    def psi(one: sp.Symbol, two: sp.Symbol) -> sp.Expr:
        return derivation.through((MultiplyOut(), ChainRule()), at("Psi", one, two), action(one, two, matrices))

    def read(left: sp.Expr, value: sp.Expr) -> sp.Expr:
        return derivation.through((ReadCoefficient(), Saddle()), left, value)

    def of(value: sp.Expr, f: sp.Symbol, i: sp.Symbol, g: sp.Symbol, j: sp.Symbol, double: int = 1) -> sp.Expr:
        return OverlapCoefficient(value, Inner(Field(f, i), Field(g, j)), sp.Integer(double))

    pair, alone, peers = psi(a, b), psi(a, a), psi(a, c)
    asked = {"A": of(pair, xt, a, delta, b), "B": of(pair, dt, a, x, b),
             "B_diagonal": of(alone, dt, a, x, a) + OverEarlier(of(pair, dt, a, x, a)),
             "N0": of(pair, xt, a, xt, b), "N1": of(pair, dt, a, dt, b),
             "N0_own": of(alone, xt, a, xt, a, 2), "N1_own": of(alone, dt, a, dt, a, 2)}
    zeros = {"x answers a later step": (at("A", b, a), of(pair, xt, b, delta, a)),
             "x answers its own gradient": (at("A", a, a), of(alone, xt, a, delta, a)),
             "x answers another sample of its step": (at("A", a, c), of(peers, xt, a, delta, c)),
             "a gradient answers a later step": (at("B", b, a), of(pair, dt, b, x, a)),
             "a gradient answers another sample of its step": (at("B", a, c), of(peers, dt, a, x, c)),
             "a gradient answers itself by a later step": (at("B", b, b), of(pair, dt, b, x, b)),
             "a gradient answers itself by another sample of its step": (at("B", a, a), of(peers, dt, a, x, a))}
    found = {name: read(TARGETS[name], value) for name, value in asked.items()}
    return Densities(**found, zeros={name: read(*one) for name, one in zeros.items()}, derivation=derivation)


@dataclass(frozen=True)
class Insert(NodeRule):
    """Derivatives of kappa and theta become those of the block's own kernels."""

    kernels: DerivedKernels
    kind = Kernel
    name = "the block's kernels"
    reason = "derived from its statements; their derivatives are means of derivatives, by Price's theorem"
    source = "R. Price (1958) [gaussian/price]"

    def rewrite(self, kernel: sp.Expr) -> sp.Expr:
        name, i, j, k, _, p, q = kernel.args
        value = self.kernels.derivative(str(name), i, j, k)
        return value.xreplace(FIRST) if p == q else value


@lru_cache(maxsize=16)
def derive_densities(net: ResNet) -> Densities:
    """The densities of the blocks of ``net``, in ``Expectation`` nodes of Gaussian variables.

    Constants of the initial matrices (L eps^2) and of the updates (L eps g) are 1: they multiply what stands without w,
    and with it. Source: [tpcalc/block_densities]. Raises ``ValueError`` as ``derive_block_kernels``.
    """
    kernels = derive_block_kernels(net)
    general = derive_densities_of_kernels(tuple(kernels.thetas))
    insert, derivation = Insert(kernels), Derivation(general.derivation.steps)
    found = {name: derivation.apply(insert, left, getattr(general, name)) for name, left in TARGETS.items()}
    return replace(general, **found, derivation=derivation)


def _grouped(value: sp.Expr, means: NamedMeans) -> str:
    """A sum over products of what training brings, each times what the block makes of it."""
    groups: dict[sp.Expr, sp.Expr] = {}
    for term in sp.Add.make_args(sp.expand(value)):
        letters = sp.Mul(*(f for f in sp.Mul.make_args(term) if str(f.as_base_exp()[0])[:2] in BROUGHT))
        groups[letters] = groups.get(letters, sp.Integer(0)) + term / letters
    text = ""
    for letters in sorted(groups, key=lambda m: (any(str(s)[0] == "w" for s in m.free_symbols), len(str(m)), str(m))):
        number, factor = sp.factor_terms(groups[letters]).as_coeff_Mul()
        if number < 0 or factor.could_extract_minus_sign():
            number, factor = (-number, factor) if number < 0 else (number, -factor)
            text += " - "
        elif text:
            text += " + "
        inside = means.latex(factor)
        if factor.is_Add and number * letters != 1:
            inside = rf"\left({inside}\right)"
        front = "" if number * letters == 1 else latex(number * letters)
        text += f"{front} {inside}" if front and factor != 1 else front or inside
    return text.strip()


MATRIX = "m"  # one stands for all: they learn with the same w, so that their tangent kernels are added
KAPPA, THETA = "kappa", "theta"
TANGENT, WEIGHT = at("r", a, b), at(f"w^{MATRIX}", a, b)
COTANGENTS = {at("e", a, b): "e", at("e", a, a): "e", at("C^1", a, b): "C1", at("C^1", a, a): "C1"}


class Derivative(NamedTuple):
    """A derivative of ``KAPPA`` or ``THETA``, by its orders in C_ab, C_aa and C_bb."""

    kernel: str
    cross: int = 0
    left: int = 0
    right: int = 0


@dataclass(frozen=True)
class ActionTerm:
    """One term of a density, as data: number * derivative, times w if ``weighed``, r if ``tangent``, and the letter
    ``cotangent``."""

    number: int
    derivative: Derivative
    tangent: bool = False
    weighed: bool = False
    cotangent: str = ""

    def __str__(self) -> str:
        letters = [name for name, there in (("w", self.weighed), ("r", self.tangent)) if there] + [self.cotangent]
        kernel, *orders = self.derivative
        return " ".join(filter(None, (str(self.number), *letters, f"{kernel}{orders}")))

    def raised(self) -> "ActionTerm":
        """The derivative in C_ab, of which a kernel that is linear in C_ab is C_ab times."""
        return replace(self, derivative=self.derivative._replace(cross=self.derivative.cross + 1))


Terms = tuple[ActionTerm, ...]


@dataclass(frozen=True)
class Laws:
    """The terms of A, N0, B and N1 of a site with an earlier one (N0 and N1 of any two), and of B_aa. Those of
    ``past`` are summed over earlier sites, those of ``present`` are of the site with itself."""

    A: Terms
    N0: Terms
    B: Terms
    N1: Terms
    past: Terms
    present: Terms


@lru_cache(maxsize=None)
def derive_laws() -> Laws:
    """Read off the densities that the action derives.

    >>> print(*derive_laws().B, sep=", ")
    -1 w C1 theta[1, 0, 0], 1 e kappa[1, 0, 0], 1 r C1 kappa[2, 0, 0]

    Raises ``ValueError`` for a density that is not of this form. Source: [tpcalc/block_densities].
    """
    found = derive_densities_of_kernels((MATRIX,))
    laws = Laws(*(density_terms(e) for e in (found.A, found.N0, found.B, found.N1, found.past, found.own)))
    if (density_terms(found.N0_own), density_terms(found.N1_own)) != (laws.N0, laws.N1):
        raise NotCovered("action: covariances of a site with itself differ from those of two sites")
    return laws


def density_terms(density: sp.Expr) -> Terms:
    """The terms of a density, in an order that depends on nothing else."""
    return tuple(sorted(map(_term, sp.Add.make_args(sp.expand(density))), key=str))


def _term(product: sp.Expr) -> ActionTerm:
    number, factors = product.as_coeff_mul()
    kernels, letters = sift(factors, lambda f: f.func == Kernel, binary=True)
    cotangents = [COTANGENTS[f] for f in letters if f in COTANGENTS]
    known = {TANGENT, WEIGHT, *COTANGENTS}
    if len(kernels) != 1 or not number.is_Integer or len(cotangents) > 1 or not known.issuperset(letters):
        raise NotCovered(f"density: got {product}; expected whole numbers times r, w, e or C^1 and one kernel")
    name, *orders = kernels[0].args[:4]
    return ActionTerm(int(number), Derivative(str(name).split("^")[0], *map(int, orders)), TANGENT in letters,
                      WEIGHT in letters, cotangents[0] if cotangents else "")
