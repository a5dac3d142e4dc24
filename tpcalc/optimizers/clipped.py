"""Gradients that are clipped by the norm of all of them together, before an optimizer sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Sequence

import numpy as np
import sympy as sp

from .._checks import exact, positive_number, short
from .frobenius import square
from ..programs.indices import L, l, t
from ..programs.language import Family, Matrix, Scalar
from ..programs.program import Assign, Loop, Statement
from .updates import Optimizer, kind_of_updates, require_optimizer, unclipped
from ..programs.backprop import Trainable

SQUARES, SIZE, CLIP = Family(Scalar, "squares", layered=True), Family(Scalar, "gradnorm"), Family(Scalar, "clip")


@dataclass(frozen=True)
class Clipped:
    """An optimizer that sees gradients times min(1, norm / |G|); |G|^2 is the mean over layers of all
    matrices' squared gradients.

    Parameters
    ----------
    opt:
        what sees them, and remembers them where it does: a tp.SGD, tp.SignSGD, tp.Lion or tp.Adam.
    norm:
        the largest |G| that passes, positive. |G|^2 is the mean over layers of the sum over a layer's matrices of
        their gradients' squared Frobenius norms, gradients without the branch multiplier: at any width and depth of
        order one, and clipped at one norm. ``torch.nn.utils.clip_grad_norm_`` over the layers' matrices, with
        ``max_norm = norm * abs(branch) * (L / base_depth)**-alpha * L**(1/2)``, is the same: with alpha = 1/2 and
        the other two 1 it is ``norm`` itself.

    Embedding and readout, where they are trained, and gains are multiplied by the same number and do not count: of
    parameters of order one, as muP has them, the share in the squared norm falls like 1 / n. A step on a batch is
    clipped after the mean over it, as PyTorch does.

    It is its own kind of optimizer: real networks, particles and common draws take it, everything else refuses it by
    name; ``tp.kets`` reads its programs where updates are linear in gradients. Raises ``ValueError`` for other
    optimizers and norms.

    >>> import tpcalc as tp
    >>> task = tp.Task(inputs=[2, 1.5], targets=[3, -2])
    >>> def second(opt):
    ...     how = dict(depth=4, method=tp.methods.Particles(samples=1024))
    ...     return float(tp.train(tp.ResNet(), task, opt, tp.DepthScaling(1, 0), **how).outputs[1, 0, 0])
    >>> whole, clipped = second(tp.SGD(0.1)), second(tp.Clipped(tp.SGD(0.1), norm=1.5))
    >>> round(whole, 4), round(clipped, 4)  # |G| is 6 at the first step, and a little more by layers that are few
    (1.0802, 0.2465)
    """

    updates_are: ClassVar[str] = "clipped"
    opt: Optimizer
    norm: float

    def __post_init__(self) -> None:
        require_optimizer(unclipped(self.opt))
        if kind_of_updates(self.opt) not in ("linear", "entrywise"):
            raise ValueError(f"opt: got {short(self.opt)}; expected a tp.SGD, tp.SignSGD, tp.Lion or tp.Adam")
        object.__setattr__(self, "norm", positive_number("norm", self.norm))

    lr = property(lambda self: self.opt.lr)

    def schedule(self, steps: int) -> np.ndarray:
        """The learning rate of every step, shape (steps,)."""
        return self.opt.schedule(steps)

    def applied(self, layer: Sequence[Trainable], ends: Sequence[Trainable]
                ) -> tuple[list[Statement], list[Trainable], list[Trainable]]:
        """Statements that find the number at step t, and what is trained, in layers and at the ends, with gradients
        times it."""
        squares = sp.Add(*(one.root**2 * square(one.gradient) for one in layer if one.family.kind is Matrix))
        size = sp.sqrt(sp.Sum(SQUARES[t, l], (l, 1, L)) / L)
        limit, clip = exact("norm", self.norm), CLIP[t]
        found: list[Statement] = [Loop(l, sp.Integer(1), L, (Assign(SQUARES[t, l], squares),)),
                                  Assign(SIZE[t], size), Assign(clip, limit / sp.Max(limit, SIZE[t]))]
        return found, [one.scaled(clip) for one in layer], [one.scaled(clip) for one in ends]
