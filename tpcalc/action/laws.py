"""The derived densities as solvers evaluate them: sums of what training brings times derivatives of a block's kernels.

Training brings r, e, C^1 and w. A kernel maps the Gram matrices of two groups of rows to one of their outputs, and each
term is one use of a linear map that its derivatives are: r is what Gram matrices are moved along, e or C^1 weighs what
comes out, and one more derivative asks for the gradient of that in the Gram matrix between the groups or in that of the
first. For groups of one row these maps are multiplications by the derivatives themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import sympy as sp
from sympy.utilities.iterables import sift

from ..errors import NotCovered
from .action import Kernel, a, at, b
from .densities import derive_densities_of_kernels

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
