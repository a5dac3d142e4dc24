"""The depth scaling (alpha, gamma): branch multipliers and update sizes as powers of the depth."""

from __future__ import annotations

import math
from dataclasses import dataclass

import sympy as sp

from .._checks import exact


@dataclass(frozen=True)
class DepthScaling:
    """Branch multiplier ``branch (L / base_depth)^-alpha``, weight updates of size ``(L / base_depth)^-gamma``.

    Parameters
    ----------
    alpha, gamma:
        real numbers (floats are read as the decimals they print as: 0.1 is 1/10) or real sympy
        expressions, for symbolic work.
    branch:
        the constant in front of the branch multiplier (paper B's ``a``).
    base_depth:
        the depth at which the multipliers are ``branch`` and 1.

    Raises
    ------
    ValueError
        for exponents that are not real and finite, a branch constant that is not finite, a base
        depth that is not positive.

    Source: paper B, section 4 and Definition 4.1; plain SGD realises the update size with the
    learning rate ``eta L^(alpha - gamma)``, because its gradient already carries the multiplier.
    """

    alpha: sp.Expr = sp.Rational(1, 2)
    gamma: sp.Expr = sp.Rational(1, 2)
    branch: float = 1.0
    base_depth: float = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", exact("alpha", self.alpha))
        object.__setattr__(self, "gamma", exact("gamma", self.gamma))
        for name in ("branch", "base_depth"):
            if not math.isfinite(float(getattr(self, name))):
                raise ValueError(f"{name}: {getattr(self, name)!r} given; allowed is a finite number")
        if float(self.base_depth) <= 0:
            raise ValueError(f"base_depth: {self.base_depth!r} given; allowed is a positive number")

    @property
    def is_numeric(self) -> bool:
        return bool(self.alpha.is_number and self.gamma.is_number)

    def _require_numbers(self) -> None:
        if not self.is_numeric:
            raise ValueError(f"alpha = {self.alpha}, gamma = {self.gamma} given; numbers are needed to evaluate")

    def multiplier(self, depth: int) -> float:
        """eps, the factor of a branch at this depth."""
        self._require_numbers()
        return float(self.branch) * (depth / float(self.base_depth)) ** -float(self.alpha)

    def update_size(self, depth: int) -> float:
        """g, the size of one weight update at this depth (times the optimizer's learning rate)."""
        self._require_numbers()
        return (depth / float(self.base_depth)) ** -float(self.gamma)

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
        return (float(self.branch) * float(self.base_depth) ** float(self.alpha)) ** 2

    @property
    def drift_constant(self) -> float:
        """L eps g without its power of L."""
        return float(self.branch) * float(self.base_depth) ** float(self.alpha + self.gamma)
