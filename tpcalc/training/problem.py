"""A training as one value: network, task, optimizer, scaling, depth and width, checked once.

Refused are steps at which all positions are alike, where queries and keys of attention have no gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sympy as sp

from .. import _checks
from .._checks import short
from .._types import Number
from ..data.sequences import Sequences
from ..data.task import Task
from ..data.text import Text
from ..errors import NotCovered
from ..models.networks import NETWORKS, Network, ResNet
from ..optimizers.clipped import Clipped
from ..optimizers.normalized import NormalizedSGD
from ..optimizers.sgd import SGD
from ..optimizers.sign_ambiguity import first_undecided
from ..optimizers.updates import Optimizer, require_optimizer, unclipped
from ..scaling import DepthScaling, Parametrization, Scaling
from .builders import require_embedding_readout, require_vectors_taken
from .by_parameter import with_exponents

INDISTINCT = 1e-6  # positions that differ by less have gradients of queries and keys that rounding may pass for
ROUNDED = 1e-15  # a gradient that is rounding and nothing else
SHARE = 1e-6  # of an update of order one: by less the sign of rounding decides nothing


def require_choices(net: Network, task: Sequences, opt: Optimizer) -> None:
    """Raise ``ValueError`` for a step at which positions of every sequence are alike, with an optimizer that makes an
    update of order one of rounding.

    Softmax attends to alike positions alike, and gradients of its queries and keys vanish: of a single position
    exactly, in every reading, of several within rounding. The last update is read by nobody.
    """
    if not net.chooses:
        return
    normed = net.acts_on_normed or all(one.qk_norm for one in net.chooses)
    apart = [_apart(xi, normed) for xi in np.asarray(task.inputs)[:-1]]
    if isinstance(opt, NormalizedSGD):  # refuses such gradients itself
        return
    step = first_undecided(opt, [one < INDISTINCT for one in apart], ROUNDED, SHARE)
    if step is not None:
        raise NotCovered(f"task: got at step {step} all positions of every sequence are alike"
                         f"{' after the norm' if normed else ''}, differing by {apart[step]:.1e} at most, with "
                         f"{short(opt)}; attention has no choice, and its queries and keys no gradient to take a "
                         f"direction from; expected at least {INDISTINCT:.0e}")


def _apart(xi: np.ndarray, normed: bool) -> float:
    """The largest distance of positions from the first one, (batch, positions, d_in), as attention meets them."""
    sizes = np.linalg.norm(xi, axis=-1, keepdims=True)
    tokens = xi / (sizes if normed else np.max(sizes, initial=np.finfo(float).tiny))
    return float(np.max(np.abs(tokens - tokens[:, :1])))


@dataclass(frozen=True)
class Problem:
    """A network, what it is trained on and how, and its size: all that decides what training does.

    Parameters
    ----------
    net, task, opt, scale:
        a tp.ResNet with a tp.Task, or a tp.Transformer with a tp.Sequences or text of ``tp.tasks.text``; an
        optimizer (a tp.SGD, tp.SignSGD, tp.Lion, tp.Adam, tp.Muon or tp.NormalizedSGD, one written elsewhere, or one of
        them in a tp.Clipped), and a tp.DepthScaling or tp.Parametrization, all of them with numbers. A parametrization
        that is a tp.DepthScaling for this network, one gamma for all its matrices and muP in width, is kept as that.
    depth, width:
        whole numbers or ``tp.oo``; kept as an int or as ``tp.oo``.

    Problems are values: ``dataclasses.replace(problem, depth=128)`` is checked again; two are equal where their parts
    are, tasks where they are the same object. What a method cannot do is no matter of the problem: ``tp.methods``.

    Raises ``ValueError`` for parts of other types, symbols, schedules of another length than the task, depths and
    widths that are neither whole numbers nor tp.oo, and inputs of norm 0, or a width of 1, in networks with norms that
    these leave nothing of.

    >>> import tpcalc as tp
    >>> problem = tp.Problem(tp.ResNet(), tp.Task([1, 0.5], [1, -1]), tp.SGD(0.5), tp.DepthScaling(), depth=64)
    >>> problem.depth, problem.width, problem.is_linear
    (64, oo, True)
    """

    net: Network
    task: Task | Sequences
    opt: Optimizer | Clipped
    scale: Scaling
    depth: Number
    width: Number = sp.oo

    def __post_init__(self) -> None:
        _checks.instance("net", self.net, Network, NETWORKS)
        if isinstance(self.task, Text) and self.net.positions:
            object.__setattr__(self, "task", self.task.sequences(self.net.ties_embedding_readout))
        _checks.instance("task", self.task, self.net.takes)
        if isinstance(self.task, Sequences) and self.task.positions != self.net.positions:
            raise ValueError(f"task: got {self.task} for {self.net.positions} positions; expected as many of them")
        inner = unclipped(self.opt)
        require_optimizer(inner)
        self.net.require_directions(inner)
        if isinstance(self.scale, Parametrization):
            if self.scale.parameters is not None:
                object.__setattr__(self, "scale", with_exponents(self.scale, self.net, inner))
            linear, ends = isinstance(self.opt, SGD), self.net.train_embedding_readout
            object.__setattr__(self, "scale", self.scale.over(self.net.trained_of_block, linear, ends))
        else:
            _checks.instance("scale", self.scale, DepthScaling, "a tp.DepthScaling or a tp.Parametrization")
        for name in ("depth", "width"):
            size = _checks.size(name, getattr(self, name))
            object.__setattr__(self, name, sp.oo if size is None else size)
        if self.neurons is not None:
            self.net.require_width(self.neurons)
        self.opt.schedule(self.task.steps)
        options = getattr(inner, "__dict__", {}).values()
        symbols = [str(value) for value in options if isinstance(value, sp.Expr) and value.free_symbols]
        if symbols:
            raise ValueError(f"opt: got {self.opt!r}; expected numbers for {', '.join(symbols)}")
        self.scale.require_numbers()
        require_embedding_readout(self.net, self.opt, self.scale, self.task.d_in, self.task.d_out)
        require_vectors_taken(self.net, inner, self.scale)
        self.net.require_sizes(self.layers)
        if self.net.norm is not None:
            _require_directions(self.task, self.net.norm)
        if isinstance(self.task, Sequences):
            require_choices(self.net, self.task, inner)
        if self.net.norm == "layer" and self.width == 1:
            raise ValueError("width: got 1 with norm='layer', which subtracts the mean of the only coordinate; "
                             "expected at least 2")

    @property
    def layers(self) -> int | None:
        """The depth; None stands for infinity."""
        return None if self.depth is sp.oo else int(self.depth)

    @property
    def neurons(self) -> int | None:
        """The width; None stands for infinity."""
        return None if self.width is sp.oo else int(self.width)

    @property
    def of_vectors(self) -> Task:
        """The task, where samples are no sequences; raises ``ValueError`` where they are."""
        if not isinstance(self.task, Task):
            raise NotCovered(f"task: got {self.task}; expected a tp.Task, for a tp.ResNet")
        return self.task

    @property
    def resnet(self) -> ResNet:
        """The network, where it is a tp.ResNet; raises ``ValueError`` where it is not."""
        if not isinstance(self.net, ResNet):
            raise NotCovered(f"net: got {_checks.short(self.net)}; expected a tp.ResNet")
        return self.net

    @property
    def depth_scaling(self) -> DepthScaling:
        """The scaling, where it is the same for all matrices; raises ``ValueError`` where it is not."""
        if not isinstance(self.scale, DepthScaling):
            raise NotCovered(f"scale: got {_checks.short(self.scale)}; expected one update exponent for all "
                             "matrices, and muP in width")
        return self.scale

    @property
    def is_mup(self) -> bool:
        """Are the powers of n those in which ket equations are written?"""
        return isinstance(self.scale, DepthScaling) or self.scale.is_mup(isinstance(self.opt, SGD),
                                                                         self.net.train_embedding_readout)

    @property
    def is_linear(self) -> bool:
        """Are blocks one matrix and nothing else, trained by an optimizer that is linear in gradients?"""
        return self.net.is_plain and isinstance(self.opt, SGD)


def _require_directions(task: Task | Sequences, norm: str) -> None:
    """Raise ``ValueError`` for an input of norm 0, which has no direction to be normalized to."""
    for name, values in (("inputs", task.inputs), ("probes", task.probes)):
        if values is not None and not np.all(np.any(values, axis=-1)):
            location = tuple(int(i) for i in np.argwhere(~np.any(values, axis=-1))[0])
            raise ValueError(f"{name}: got an input of norm 0, at {location}, with norm={norm!r}, which divides by "
                             "the root mean square of the stream; expected inputs other than 0")
