"""``train``: one call for any width and depth, infinity included."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace
from functools import partial

import sympy as sp

from .._types import KeptNodes, Number
from .. import _checks
from ..errors import Divergence
from ..gaussian.scalar_functions import H, scalar_function
from ..models.activations import activation
from ..scaling import DepthScaling
from ..optimizers import Clipped
from ..data import Sequences, Task
from ..models.networks import Network
from ..training.problem import Problem
from ..data.text import Text
from ..optimizers.updates import Optimizer
from ..results.run import Run
from .choice import chosen_method
from .conditioned import Conditioned
from .dense import Dense
from .method import Method, Progress, wanted_times


class _Infinite:
    """The default width: infinite, and told from one that was given."""

    def __repr__(self) -> str:
        return "tp.oo"


INFINITE = _Infinite()
REAL = (Dense.name, Conditioned.name)


def train(net: Network | Problem, task: Task | Sequences | Text | None = None, opt: Optimizer | Clipped | None = None,
          scale: DepthScaling | None = None, depth: Number | None = None, width: Number = INFINITE,
          method: str | Method = "auto", seed: int | None = None, keep_nodes: KeptNodes = None,
          executor: Executor | None = None, progress: Progress | None = None, samples: int | None = None,
          batches: int | None = None, dtype: str | None = None) -> Run:
    """Train a ``tp.Problem``, or ``net`` on ``task`` at any width and depth.

    Parameters
    ----------
    net:
        a ``tp.Problem``, which has the next five in it, or a network.
    opt:
        a tp.SGD; or a tp.SignSGD, tp.Lion or tp.Adam, by ``"particles"``, ``"common_draws"``, ``"conditioned"`` and
        ``"dense"``: the blocks' weights then move by ``lr L^-gamma`` times a direction of order one, over n.
    depth, width:
        whole numbers or ``tp.oo``. Where no width is said, ``"dense"`` and ``"conditioned"`` take that of a
        tp.Transformer with a number of heads.
    method:
        a method with its options, such as ``tp.methods.Particles(samples=1024)``, its name, or ``"auto"``: the first
        that does not refuse, which is exact where an exact one takes the problem. ``tp.methods.table`` prints all of
        them, and why.
        ``"reflection"`` is exact at finite depth, for linear blocks; ``"coefficients"`` is its slow oracle.
        At infinite depth ``"collocation"`` takes nonlinear blocks too, and blocks of several matrices, as far as they
        close on kernels (``tpcalc.action.block_kernels``); others that have a limit, and other optimizers, are
        sampled at growing depths, by ``"common_draws"``. At finite depth all of these are sampled: ``"particles"`` at
        infinite width, ``"conditioned"`` at finite width, which is equal in law to a dense network and needs no n x n
        matrix. At finite width ``"dense"`` runs any network too, with its n x n matrices.
    keep_nodes:
        layer times in [0, 1] at which covariances are wanted, or ``"all"`` (every node l / L, or every
        collocation node): the solution is then held in memory with the run. ``None`` holds nothing;
        asking for a covariance or a coefficient then trains once more, with all nodes.
    progress:
        called with (steps done, steps) after every training step; with (batches done, batches) of particles.
    seed, samples, batches, dtype, executor:
        options of the method that is named or found, passed on to it: ``tp.methods`` says what they are. An option that
        the method does not have is refused, also where "auto" chose the method.

    Returns
    -------
    Run
        its docstring gives the shapes.

    Raises
    ------
    ValueError
        for input that is not allowed, before any work.
    Divergence
        where the solution blows up (naming the step and layer), or where depth=tp.oo has no limit.
    MemoryError
        before the work, where it cannot fit.

    >>> import tpcalc as tp
    >>> problem = tp.Problem(tp.ResNet(), tp.Task([1, 0.8], [1, -0.7]), tp.SGD(0.5), tp.DepthScaling(), depth=64)
    >>> run = tp.train(problem)
    >>> again = tp.train(tp.ResNet(), problem.task, tp.SGD(0.5), tp.DepthScaling(), 64, method="reflection")
    >>> run.method, bool((run.outputs == again.outputs).all())
    ('reflection', True)
    """
    if isinstance(net, Problem):
        problem = net
        absent = {"task": None, "opt": None, "scale": None, "depth": None, "width": INFINITE}
        for name, value in (("task", task), ("opt", opt), ("scale", scale), ("depth", depth), ("width", width)):
            if value is not absent[name]:
                raise ValueError(f"{name}: got {_checks.short(value)} beside a tp.Problem, which has its own; "
                                 f"expected dataclasses.replace(problem, {name}=...)")
    else:
        real = isinstance(method, (Dense, Conditioned)) or isinstance(method, str) and method.lower() in REAL
        own = getattr(net, "width", None) if real and width is INFINITE else None
        problem = Problem(net, task, opt, scale, depth,  # type: ignore[arg-type]  # None is refused by name
                          *(() if width is INFINITE and own is None else (own or width,)))
    options = {"seed": seed, "executor": executor, "samples": samples, "batches": batches, "dtype": dtype}
    _checks.with_methods("progress", progress, ("__call__",), "a function")
    wanted_times(keep_nodes, problem)
    found = chosen_method(problem, method, options)
    try:
        return replace(found.solve(problem, keep_nodes, progress), limit=partial(limit_by, found))
    except Divergence as error:
        if error.step and getattr(problem.opt, "eps", None) == 0 and _has_dead_neurons(problem.net):
            raise Divergence(f"{error}; {problem.opt!r} has eps=0 and so no direction, 0/0, for entries whose gradients"
                             " have all been 0, as of neurons that were never active; an eps above 0 has one",
                             error.step, error.layer) from None
        raise


def _has_dead_neurons(net: Network) -> bool:
    """Is the slope of the activation exactly 0 far out, as relu's is?"""
    slope = scalar_function(activation(net.phi)(H)).derivative.expression
    return any(slope.xreplace({H: far}) == 0 for far in (sp.Integer(-1000), sp.Integer(1000)))


def limit_by(method: Method, problem: Problem) -> Run:
    """A problem of infinite width trained by a method, or, where that refuses it, by the first that does not."""
    taken = method if method.refuses(problem) is None else chosen_method(problem, "auto", {})
    return taken.solve(problem)
