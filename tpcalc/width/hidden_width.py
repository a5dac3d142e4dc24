"""Blocks of hidden width M in a stream of width N and depth L: an ODE or an SDE in layer time, by powers of a variable.

A block adds c V phi(U h) to the stream h, where U h is of order one and c stands for the multiplier times the size of
entries of V. What it adds at the start is a sum over M units and L layers of centered independent terms; what the
units' movement adds is a sum of terms of one sign.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from .._checks import exponent
from .._types import Number

RANDOM, ALIGNED = sp.Rational(1, 2), sp.Integer(1)  # the power of its number of terms with which a sum grows
C = sp.Symbol("c", real=True)


@dataclass(frozen=True)
class BlockLimit:
    """What blocks do to the stream, as powers of the growing variable.

    branch: of c. noise: of what all blocks add at the start, entry by entry. response: of what they add where training
    moves units' preactivations by order one.
    """

    branch: sp.Expr
    noise: sp.Expr
    response: sp.Expr

    @property
    def name(self) -> str:
        """"ODE" where the noise vanishes, "SDE" where it stays, "unstable" where it grows."""
        return "unstable" if self.noise > 0 else "SDE" if self.noise == 0 else "ODE"

    @property
    def units(self) -> sp.Expr:
        """The power by which units' preactivations may move in a step, so that the stream moves by order one at most.

        0: they learn features. Below it blocks are linear in what is learned. Where ``response`` is negative, the
        stream does not see what moves of order one do.
        """
        return sp.Min(0, -self.response)

    def __str__(self) -> str:
        seen = "" if self.response >= 0 else ", which the stream does not see"
        return f"{self.name}: noise of power {self.noise}, units move by power {self.units}{seen}"


def block_limit(branch: Number | str, depth: Number = 1, hidden: Number = 0, width: Number = 0) -> BlockLimit:
    """Find what residual blocks of hidden width M become, as one variable x grows.

    Parameters
    ----------
    branch:
        the power of x in c; or "1/(L M)", the c at which units and stream both move by order one, sqrt(N) / (L M),
        which is a multiplier 1 / (L M) where entries of V are of size sqrt(N); or "1/sqrt(L)", the c of noise of order
        one, 1 / sqrt(L M), which is a multiplier 1 / sqrt(L) where entries of V have variance 1 / M.
    depth, hidden, width:
        powers of x in L, M and N; depth at least 0, and the others too. 0 is a fixed one.

    With "1/(L M)" the noise has variance N / (L M): an ODE where that vanishes, an SDE where it stays. With "1/sqrt(L)"
    it is an SDE always, in which units may move by sqrt(N / (L M)); both are one where N / (L M) is fixed. The count is
    that of the first steps from a random start, for inputs and signals that are not of one sign. Raises
    ``ValueError`` for other words, and for what is no number. Source: measured, and counted as here; arXiv:2509.10167
    has the scale sqrt(N) / (L M), beside entries of V of order one, and an error of the size of this noise; outputs see
    its square [contested/hidden_width].

    >>> print(block_limit("1/(L M)", depth=1, hidden=1, width=1))
    ODE: noise of power -1/2, units move by power 0
    >>> print(block_limit("1/(L M)", depth="1/2", hidden="1/2", width=1))
    SDE: noise of power 0, units move by power 0
    >>> print(block_limit("1/sqrt(L)", depth=1, hidden=1, width=1))
    SDE: noise of power 0, units move by power -1/2
    """
    powers = {name: exponent(name, value) for name, value in (("depth", depth), ("hidden", hidden), ("width", width))}
    for name, value in powers.items():
        if not value.is_number or value < 0:
            raise ValueError(f"{name}: got {value}; expected a number of at least 0, for no size shrinks")
    L, M, N = powers.values()
    noise = C + RANDOM * M + RANDOM * L
    signal = RANDOM * N              # of a unit, over an entry of V: it sums V_i g_i over N entries of the gradient
    response = C + ALIGNED * M + ALIGNED * L - signal  # one of these N terms has the sign of the entry it comes back by
    required = {"1/(L M)": response, "1/sqrt(L)": noise}
    if isinstance(branch, str) and branch in required:
        power, = sp.solve(required[branch], C)
    else:
        if isinstance(branch, str) and "/" in branch and "L" in branch:
            raise ValueError(f"branch: got {branch!r}; expected a number, '1/(L M)' and '1/sqrt(L)'")
        power = exponent("branch", branch)
    if not power.is_number:
        raise ValueError(f"branch: got {power}; expected a number, '1/(L M)' and '1/sqrt(L)'")
    return BlockLimit(power, *(sp.expand(one.subs(C, power)) for one in (noise, response)))
