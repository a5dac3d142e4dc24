"""What a method of training is, and what methods share: where they apply, and what they refuse."""

from __future__ import annotations

from functools import lru_cache
from typing import Callable, Protocol

import numpy as np
import sympy as sp

from .._types import KeptNodes, Value
from .. import _checks
from ..errors import NotCovered
from ..propagators.muon import require_limit_directions
from ..scaling import DepthScaling, Parametrization, WidthScaling
from ..optimizers import SGD, Muon, NormalizedSGD
from ..training.problem import Problem
from ..results.details import nearest_nodes
from ..results.run import Run
from ..width.sizes.verdict import width_verdict
from .fluctuations import directions_are_sampled
from .normalized import require_gradients

Progress = Callable[[int, int], None]


class Method(Protocol):
    """A way to train a problem: a frozen value with its own options.

    name: what ``run.method`` says. A method that is written elsewhere needs these three and nothing more; it goes to
    ``tp.train(problem, method=...)`` and ``tp.methods.table(problem, methods=...)`` as it is.
    """

    @property
    def name(self) -> str:
        """What the method is called."""

    def refuses(self, problem: Problem) -> str | None:
        """A sentence that says why this method does not take the problem, or None where the method takes it."""

    def solve(self, problem: Problem, keep_nodes: KeptNodes = None, progress: Progress | None = None) -> Run:
        """Train; raises ``NotCovered`` with the reason where the method refuses the problem."""


class WrongSizes(str):
    """A refusal by depth and width alone, whatever the network."""


def misplaced(name: str, problem: Problem, *, real: bool = False, infinite_depth: bool = False,
              powers_of_n: bool = False) -> str | None:
    """Why a method is not for the problem's depth and width, or None.

    real: whether the method takes finite widths, and no other; infinite_depth: likewise; powers_of_n: whether it writes
    those of a parametrization that is not muP in width.
    """
    if real != (problem.neurons is not None):
        return WrongSizes(f"method: got {name!r} with width {problem.neurons or 'tp.oo'}; expected 'dense' and "
                          "'conditioned' at finite width, the others at width=tp.oo")
    if infinite_depth != (problem.layers is None):
        return WrongSizes(f"method: got {name!r} with depth {problem.layers or 'tp.oo'}; expected 'collocation' "
                          "and 'common_draws' at depth=tp.oo, the others at finite depth")
    if not problem.is_mup and not powers_of_n:
        return no_kets(name, problem)
    return None


def no_kets(name: str, problem: Problem) -> str:
    """Why a method that is written in kets does not take powers of n other than muP's: what becomes of a perceptron."""
    assert isinstance(problem.scale, Parametrization)
    found = ""
    if problem.neurons is None:
        found = f" A perceptron of these powers of n: {_fate(problem.scale.width_scaling, problem.net.phi)}."
    return (f"scale: got {_checks.short(problem.scale)}, not muP in width; method={name!r} takes vectors that have "
            f"kets, with entries that stay of order one and learn.{found} Allowed are width='muP', or 'dense' at "
            "finite width with tp.SGD")


@lru_cache(maxsize=64)
def _fate(scaling: WidthScaling, phi: sp.Expr | str) -> str:
    """What becomes of a perceptron with these powers of n, with the term that decides."""
    try:
        return str(width_verdict(scaling, phi))
    except NotCovered as error:
        return f"not known ({error})"


def one_exponent(name: str, problem: Problem) -> str | None:
    """Why a method that knows one size of updates does not take exponents matrix by matrix, or None."""
    if isinstance(problem.scale, DepthScaling):
        return None
    return (f"scale: got {_checks.short(problem.scale)}, with update exponents matrix by matrix; method={name!r} "
            "knows one for all; expected methods that read programs: 'dense' and 'conditioned' at finite width, "
            "'particles' at finite depth, 'common_draws' at infinite depth")


def not_sums_of_outer_products(name: str, problem: Problem, muon: bool = False) -> str | None:
    """Why a method that knows updates as sums of outer products does not take the optimizer, or None.

    muon: whether the method takes weights of outer products that differ from layer to layer, which are tp.Muon's.
    """
    if isinstance(problem.opt, (SGD, Muon) if muon else SGD):
        return None
    if isinstance(problem.opt, Muon):
        return (f"opt: got {problem.opt!r}; method={name!r} takes a tp.SGD, whose outer products weigh the same in "
                "all layers; expected 'reflection', 'collocation' for linear blocks and phi(W x), 'particles', "
                "'common_draws', and 'conditioned' and 'dense' at finite width")
    taken = "a tp.SGD or a tp.Muon" if muon else "a tp.SGD"
    if isinstance(problem.opt, NormalizedSGD):
        return (f"opt: got {problem.opt!r}; method={name!r} takes {taken}, and no rates that depend on norms; "
                "expected 'particles' at finite depth, 'common_draws' at infinite depth, and 'conditioned' and "
                "'dense' at finite width")
    return (f"opt: got {problem.opt!r}; method={name!r} takes {taken}, whose updates sum outer products; "
            "expected for functions of their entries (tp.SignSGD, tp.Lion, tp.Adam): 'particles' at finite "
            "depth, 'common_draws' at infinite depth, 'conditioned' and 'dense' at finite width")


def not_linear(name: str, problem: Problem, muon: bool = False) -> str | None:
    """Why a method of the linear network with one matrix a block, at finite depth and infinite width, refuses."""
    return (misplaced(name, problem) or one_exponent(name, problem) or not_sums_of_outer_products(name, problem, muon)
            or reason_of(lambda: problem.net.require_plain(f"method={name!r}", trained_embedding_readout=True)))


def reason_of(check: Callable[[], Value]) -> str | None:
    """What a check says that raises ``NotCovered``, or None; all else that it raises is seen."""
    try:
        check()
    except NotCovered as error:
        return str(error)
    return None


def require_taken(method: Method, problem: Problem) -> None:
    """Raise ``NotCovered`` with the method's reason where it refuses the problem."""
    reason = method.refuses(problem)
    if reason is not None:
        raise NotCovered(reason)


def wanted_times(keep_nodes: KeptNodes, problem: Problem) -> np.ndarray | None:
    """The layer times of ``keep_nodes``, those of the nearest nodes at finite depth; None stands for all nodes.

    Raises ``ValueError`` for what is neither None, "all" nor layer times in [0, 1].
    """
    if keep_nodes is None or (isinstance(keep_nodes, str) and keep_nodes == "all"):
        return None
    if isinstance(keep_nodes, (bool, np.bool_, str)):
        raise ValueError(f"keep_nodes: got {keep_nodes!r}; expected None, 'all' or layer times in [0, 1]")
    times = np.atleast_1d(_checks.finite_array("keep_nodes", keep_nodes))
    if times.ndim != 1 or not len(times) or times.min() < 0 or times.max() > 1:
        raise ValueError(f"keep_nodes: got {keep_nodes!r}; expected None, 'all' or layer times in [0, 1]")
    return times if problem.layers is None else nearest_nodes(times, problem.layers) / problem.layers


def each_step(progress: Progress | None, problem: Problem) -> Callable[[int], None]:
    """Tell (steps done, steps) after step t."""
    return (lambda t: None) if progress is None else (lambda t: progress(t + 1, problem.task.steps))


def require_known_directions(problem: Problem, outputs: np.ndarray, error: np.ndarray | float = 0.0) -> None:
    """Raise ``ValueError`` where Muon moves along a direction that vanishes at infinite width, ``Divergence`` where a
    gradient does whose size an update does not follow.

    outputs: (steps, batch, d_out), known to ``error``.
    """
    if not isinstance(problem.opt, Muon):
        require_gradients(problem, outputs, error)
    elif not directions_are_sampled(problem):
        require_limit_directions(problem.resnet, problem.of_vectors, problem.opt, outputs, error)
