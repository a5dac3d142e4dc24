"""The depth scaling (alpha, gamma): branch multipliers and update sizes as powers of the depth."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import sympy as sp

from .._checks import exact, exponent, positive_number, real_number, short, whole_number

EMBEDDING_READOUT_FAMILIES = ("U", "nV")  # families of embedding and readout, names that no matrix of a block can have


@dataclass(frozen=True)
class DepthScaling:
    """Depth scaling: branch multiplier ``branch (L / base_depth)^-alpha``, updates of size ``(L / base_depth)^-gamma``.

    Parameters
    ----------
    alpha, gamma:
        real numbers, or real sympy expressions for symbolic work. A float is read as the fraction of least denominator
        within 2^-52, so that 2/3 and 1 - 2/3 add up to 1; text as ``fractions.Fraction`` reads it, so that "1/2" is
        1/2 and "0.6667" is not 2/3. ``repr`` shows what was read.
    branch:
        the constant in front of the branch multiplier (Tensor Programs VI's ``a``), of either sign, not 0: updates are
        those of the gradient divided by the multiplier's size, and keep its sign, so that a step goes downhill.
    base_depth:
        the depth at which the multipliers are ``branch`` and 1.

    Raises
    ------
    ValueError
        for exponents that are not real and finite, a branch constant that is 0 or not finite, a base depth that is not
        positive.

    Source: Tensor Programs VI, section 4 and Definition 4.1 [tensor_programs_vi/definition_41]; plain SGD realizes the
    update size with the learning rate ``eta L^(alpha - gamma)``, because its gradient already carries the multiplier.

    >>> DepthScaling(2 / 3, "1/3")
    DepthScaling(alpha=2/3, gamma=1/3, branch=1.0, base_depth=1)
    """

    alpha: sp.Expr = sp.Rational(1, 2)
    gamma: sp.Expr = sp.Rational(1, 2)
    branch: float = 1.0
    base_depth: float = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", exponent("alpha", self.alpha))
        object.__setattr__(self, "gamma", exponent("gamma", self.gamma))
        if real_number("branch", self.branch) == 0:
            raise ValueError(f"branch: got {self.branch!r}; expected a finite number other than 0: a branch that "
                             "is multiplied by 0 has no gradient, and the network nothing to train")
        positive_number("base_depth", self.base_depth)
        for name in ("branch", "base_depth"):
            object.__setattr__(self, name, _number(name, getattr(self, name)))

    @property
    def is_numeric(self) -> bool:
        return bool(self.alpha.is_number and self.gamma.is_number)

    def require_numbers(self) -> None:
        if not self.is_numeric:
            raise ValueError(f"alpha, gamma: got {self.alpha}, {self.gamma}; expected numbers, to evaluate")

    def update_exponent(self, matrix: str) -> sp.Expr:
        """The gamma of a matrix: of the ends, which no depth scaling touches, 0."""
        return sp.Integer(0) if matrix in EMBEDDING_READOUT_FAMILIES else self.gamma

    def step_size(self, matrix: str, depth: sp.Expr) -> sp.Expr:
        """The size of one update of a matrix, (depth / base_depth)^-gamma, exactly, of a depth that may be a symbol."""
        return (depth / exact("base_depth", self.base_depth)) ** -self.update_exponent(matrix)

    @property
    def sign(self) -> int:
        """That of the branch multiplier, 1 or -1, which gradients carry."""
        return 1 if float(self.branch) > 0 else -1

    def multiplier(self, depth: int) -> float:
        """eps, the factor of a branch at this depth."""
        return float(self.branch) * self._power("alpha", depth)

    def update_size(self, depth: int) -> float:
        """g, the size of one weight update at this depth (times the optimizer's learning rate)."""
        return self._power("gamma", depth)

    def update_factor(self, depth: int) -> float:
        """g with the sign of eps: what the gradient in a block's output, times the learning rate, moves weights by."""
        return self.sign * self.update_size(depth)

    def _power(self, name: str, depth: int) -> float:
        """(L / base_depth)^-(alpha or gamma), which must be a float with all its digits."""
        self.require_numbers()
        depth = whole_number("depth", depth, 1)
        power = -float(getattr(self, name)) * math.log(depth / float(self.base_depth))
        if not abs(power) < -math.log(sys.float_info.min):
            raise ValueError(f"{name}: got {short(getattr(self, name))} at depth {depth}; (L / base_depth)^-{name} "
                             "is beyond what floats hold; expected exponents with which it is not")
        return float((depth / float(self.base_depth)) ** -float(getattr(self, name)))

    @property
    def noise_exponent(self) -> sp.Expr:
        """Power of L in L eps^2, what the initial matrices add up to: d = 1 - 2 alpha."""
        return 1 - 2 * self.alpha

    @property
    def drift_exponent(self) -> sp.Expr:
        """Power of L in L eps g, what the updates add up to: kappa = 1 - alpha - gamma."""
        return 1 - self.alpha - self.gamma

    @property
    def noise_constant(self) -> float:
        """L eps^2 without its power of L."""
        return self._constant(2, 2 * self.alpha)

    @property
    def drift_constant(self) -> float:
        """L |eps| g without its power of L: eps and the gradient have one sign."""
        return self._constant(1, self.alpha + self.gamma)

    def _constant(self, factors: int, power: sp.Expr) -> float:
        value = _power(abs(float(self.branch)), factors) * _power(float(self.base_depth), float(power))
        if not (math.isfinite(value) and value >= sys.float_info.min):
            raise ValueError(f"branch, base_depth: got {self.branch!r}, {self.base_depth!r}; expected "
                             f"numbers with which branch^{factors} base_depth^({short(power)}) is what floats hold")
        return value


def _power(base: float, power: float) -> float:
    """base to a power; infinite where floats end."""
    try:
        return float(base**power)
    except OverflowError:
        return math.inf


def _number(name: str, value: object) -> sp.Expr:
    """Text as the exact number it spells, anything else as it is."""
    return exact(name, value) if isinstance(value, str) else value
