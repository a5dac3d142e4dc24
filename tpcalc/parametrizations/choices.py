"""What people set when they scale a network in depth: powers of L, as data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

from .._checks import choice, exponent

OPTIMIZERS = ("sgd", "momentum", "signsgd", "lion", "adam", "adamw", "muon", "normalizedsgd")
DECAYS = ("decoupled", "coupled", "independent")


@dataclass(frozen=True)
class DepthChoices:
    """Powers of L: ``branch=-1`` means a branch multiplier that goes like L^-1.

    Parameters
    ----------
    branch, init:
        of the branch multiplier, and of the standard deviation of the matrix of a block.
    lr:
        of the learning rate of that matrix.
    optimizer:
        "sgd", "momentum", "signsgd", "lion", "adam", "adamw", "muon" or "normalizedsgd".
    eps:
        of Adam's eps: 0 a fixed one, None one that is negligible. Other optimizers have none.
    weight_decay, decay:
        of the weight decay, None where there is none, and what it does: "decoupled" W <- (1 - lr decay) W,
        "coupled" it adds decay W to the gradient, "independent" W <- (1 - decay) W.
    gradient:
        of the gradient of the matrix; None: that of the branch multiplier, which backpropagation brings in.

    Powers are numbers, floats being read as in tp.DepthScaling, or real symbols and affine forms in them, for
    ``tp.phase_diagram``. Raises ``ValueError`` for exponents that are not real, and for unknown optimizers and kinds of
    decay.
    """

    branch: sp.Expr
    lr: sp.Expr
    optimizer: str = "adam"
    eps: sp.Expr | None = sp.Integer(0)
    init: sp.Expr = sp.Integer(0)
    weight_decay: sp.Expr | None = None
    decay: str = "decoupled"
    gradient: sp.Expr | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "optimizer", choice("optimizer", self.optimizer, OPTIMIZERS))
        object.__setattr__(self, "decay", choice("decay", self.decay, DECAYS))
        for name in ("branch", "lr", "init", "eps", "weight_decay", "gradient"):
            value = getattr(self, name)
            if value is not None or name in ("branch", "lr", "init"):
                object.__setattr__(self, name, exponent(name, value))

    def require_numbers(self) -> None:
        """Raise ``ValueError`` for symbols among the powers."""
        for name in ("branch", "lr", "init", "eps", "weight_decay", "gradient"):
            value = getattr(self, name)
            if value is not None and not value.is_number:
                raise ValueError(f"{name}: got {value}; expected a real number, as a power of L")

    @property
    def gradient_power(self) -> sp.Expr:
        """The power of L of the gradient that enters the optimizer, in a stable network."""
        return self.branch if self.gradient is None else self.gradient

    @property
    def without_eps(self) -> DepthChoices:
        """The same with an eps that is negligible beside gradients."""
        return replace(self, eps=None)

    @property
    def powers(self) -> dict[str, sp.Expr]:
        """What there is to set, by name."""
        found = {"branch": self.branch, "init": self.init, "lr": self.lr}
        if self.optimizer in ("adam", "adamw") and self.eps is not None:
            found["eps"] = self.eps
        if self.weight_decay is not None:
            found["weight_decay"] = self.weight_decay
        return found
