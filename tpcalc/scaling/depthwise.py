"""Parametrizations of a residual network as Depthwise Hyperparameter Transfer writes them: its table 1, as data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import sympy as sp

from .._checks import choice, exponent, flag, positive_integer, positive_number, real_number, short, whole_number
from .depth import DepthScaling
from .width import WidthScaling

HALF = sp.Rational(1, 2)


class RawSizes(NamedTuple):
    """What a network of width N, D inputs and L layers is built from: numbers, as the source prints them.

    read_in, branch, read_out: the multipliers beta_0, beta_l and beta_L; output_scale: what the output is divided by;
    read_in_std, branch_std, read_out_std: of initial entries; learning_rate: of plain gradient descent, on all of them.
    """

    read_in: float
    branch: float
    read_out: float
    output_scale: float
    read_in_std: float
    branch_std: float
    read_out_std: float
    learning_rate: float


@dataclass(frozen=True)
class DepthwiseScaling:
    """A residual network h^(l+1) = h^l + beta_l W^l phi(h^l), h^1 = beta_0 W^0 x, f = beta_L w . h^L / output scale.

    Parameters
    ----------
    alpha:
        of the branch multiplier, which goes like ``branch L^-alpha``; read as in ``tp.DepthScaling``, at least 0.
    rate:
        the power of L of the learning rate; None is 2 alpha - 1 for alpha of at least 1/2, which keeps the motion of
        features and outputs at order one, and 0 below.
    output_power:
        the output is divided by ``mu0 N^output_power``: 1/2 for mean field and muP, 0 for outputs of order one before
        training.
    multipliers:
        whether fan-ins stand in multipliers, fan_in^(-1/2), with entries N(0, 1); else in the variances 1 / fan_in.
    mu0, eta0, branch:
        the richness of feature learning (the lazy limit is mu0 to 0), the constant of the learning rate, which is
        ``eta0 (output scale)^2 L^rate``, and that of the branch multiplier; mu0 and eta0 positive, branch not 0.

    Raises ``ValueError`` for numbers that are not allowed. Source: Depthwise Hyperparameter Transfer, table 1, (1) to
    (3), appendix C and (141) [depthwise_transfer/parametrization]; ``output_power`` decides how far features move
    [depthwise_transfer/width_scales].

    >>> import tpcalc as tp
    >>> tp.theory.depthwise_recipe("muP + 1/sqrt(L)", mu0=0.5).depth_scaling()
    DepthScaling(alpha=1/2, gamma=1/2, branch=1.0, base_depth=1)
    """

    alpha: sp.Expr = HALF
    rate: sp.Expr | None = None
    output_power: sp.Expr = HALF
    multipliers: bool = True
    mu0: float = 1.0
    eta0: float = 1.0
    branch: float = 1.0

    def __post_init__(self) -> None:
        alpha = exponent("alpha", self.alpha)
        if not alpha.is_number or alpha < 0:
            raise ValueError(f"alpha: got {short(self.alpha)}; expected a number of at least 0")
        rate = max(2 * alpha - 1, sp.Integer(0)) if self.rate is None else exponent("rate", self.rate)
        power = exponent("output_power", self.output_power)
        for name, found in (("rate", rate), ("output_power", power)):
            if not found.is_number:
                raise ValueError(f"{name}: got {short(found)}; expected a number")
        for name, value in (("alpha", alpha), ("rate", rate), ("output_power", power),
                            ("multipliers", flag("multipliers", self.multipliers)),
                            ("mu0", positive_number("mu0", self.mu0)), ("eta0", positive_number("eta0", self.eta0)),
                            ("branch", real_number("branch", self.branch))):
            object.__setattr__(self, name, value)
        if self.branch == 0:
            raise ValueError("branch: got 0; expected a number other than 0, without which nothing is trained")

    def depth_scaling(self) -> DepthScaling:
        """Powers of L of branches and updates in Tensor Programs VI's conventions, for hidden matrices.

        The branch multiplier is eps = branch L^-alpha; an update of learning rate eta0 |branch| has the size
        L^(rate - alpha).

        >>> DepthwiseScaling(alpha=1).depth_scaling()
        DepthScaling(alpha=1, gamma=0, branch=1.0, base_depth=1)
        """
        assert self.rate is not None
        return DepthScaling(self.alpha, self.alpha - self.rate, self.branch)

    def width_scaling(self, layers: int) -> WidthScaling:
        """Powers of N of all weights, as an abc-parametrization of ``layers`` layers of weights, both ends counted.

        >>> import tpcalc as tp
        >>> tp.theory.DepthwiseScaling().width_scaling(3).canonical() == tp.width.width_recipe("muP", 3).canonical()
        True
        """
        many = whole_number("layers", layers, 2)
        hidden = HALF if self.multipliers else sp.Integer(0)
        a = (sp.Integer(0), *(hidden,) * (many - 2), hidden + self.output_power)
        b = (sp.Integer(0), *(HALF - hidden,) * (many - 1))
        return WidthScaling.from_abc(a, b, -2 * self.output_power)

    def sizes(self, width: int, layers: int, d_in: int = 1) -> RawSizes:
        """All numbers of a network of N = width neurons, L = layers and D = d_in inputs.

        (1) of the source has L - 1 residual blocks, its appendix D has L. Raises ``ValueError`` for sizes that are no
        whole numbers of at least 1, and numbers that no float holds.

        >>> DepthwiseScaling(mu0=0.5).sizes(width=16, layers=4, d_in=2).branch
        0.125
        """
        neurons, inputs = (_size(name, value) for name, value in (("width", width), ("d_in", d_in)))
        many = _size("layers", layers)
        scale = self.mu0 * neurons ** float(self.output_power)
        rate = self.eta0 * scale**2 * many ** float(self.rate)  # type: ignore[arg-type]
        if not (math.isfinite(rate) and rate > 0 and math.isfinite(scale)):
            raise ValueError(f"width, layers: got {width}, {layers}; expected some with which sizes are what "
                             "floats hold")
        multiplier = [fan_in**-0.5 if self.multipliers else 1.0 for fan_in in (inputs, neurons)]
        spread = [1.0 if self.multipliers else fan_in**-0.5 for fan_in in (inputs, neurons)]
        return RawSizes(multiplier[0], self.branch * multiplier[1] * many ** -float(self.alpha), multiplier[1], scale,
                        spread[0], spread[1], spread[1], rate)


def _size(name: str, value: object) -> float:
    found = positive_integer(name, value)
    assert found is not None
    return float(found)


TABLE_1 = {
    "SP": DepthwiseScaling(0, output_power=sp.Integer(0), multipliers=False),  # type: ignore[arg-type]
    "NTP": DepthwiseScaling(0, output_power=sp.Integer(0)),  # type: ignore[arg-type]
    "muP": DepthwiseScaling(0),  # type: ignore[arg-type]
    "muP + 1/sqrt(L)": DepthwiseScaling(),
}


def depthwise_recipe(name: str, mu0: float = 1.0, eta0: float = 1.0) -> DepthwiseScaling:
    """The named parametrization: "SP", "NTP" (appendix C), "muP" or "muP + 1/sqrt(L)", with its constants.

    "SP" prints an output scale of 1, so that mu0 must be 1 there. Raises ``ValueError`` for other names and numbers.
    Source: Depthwise Hyperparameter Transfer, table 1 [depthwise_transfer/parametrization].

    >>> import tpcalc as tp
    >>> tp.theory.depthwise_recipe("SP").width_scaling(3) == tp.width.width_recipe("SP", 3)
    True
    """
    found = TABLE_1[choice("name", name, TABLE_1)]
    if name.lower() == "sp" and real_number("mu0", mu0) != 1:
        raise ValueError(f"mu0: got {short(mu0)}; expected 1 for 'SP', which has no output scale")
    return DepthwiseScaling(found.alpha, found.rate, found.output_power, found.multipliers, mu0, eta0)
