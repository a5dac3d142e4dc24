"""The errors tpcalc raises on purpose."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Divergence(ArithmeticError):
    """A solution that blows up, or a limit that does not exist: an answer, not a failure.

    Attributes
    ----------
    step, layer:
        where the first value that is not finite appeared (training step, and layer or layer
        time); ``None`` where the divergence is that of a limit and not of one run.

    >>> import tpcalc as tp
    >>> error = tp.Divergence("the outputs are not finite", step=3)
    >>> error.step, str(error)
    (3, 'the outputs are not finite')
    """

    def __init__(self, message: str, step: int | None = None, layer: float | None = None) -> None:
        super().__init__(message)
        self.step = step
        self.layer = layer


class NotCovered(ValueError):
    """A refusal: what was asked for is well formed, and a reading, a rule or a method does not take it; the message
    says why.

    tpcalc catches nothing else where a reading that refuses makes room for another, or for the reason in its place, as
    in ``tp.methods.table``. An error of any other kind is a fault, and is seen. Blocks, optimizers and methods of your
    own raise it for what they do not take. Bad values are plain ``ValueError``.

    >>> import tpcalc as tp
    >>> problem = tp.Problem(tp.ResNet("tanh"), tp.Task([1], [1]), tp.SGD(0.5), tp.DepthScaling(), depth=4)
    >>> try:
    ...     tp.train(problem, method="reflection")
    ... except tp.NotCovered as refusal:
    ...     print(str(refusal) == tp.methods.Reflection().refuses(problem), isinstance(refusal, ValueError))
    True True
    """


class MissingExtra(ImportError):
    """The error that an optional package is missing; the message names the extra that brings it.

    >>> import tpcalc as tp
    >>> str(tp.MissingExtra("matplotlib", "report", "plots"))
    "plots needs matplotlib; install it with: pip install 'tpcalc[report]'"
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(package, extra, purpose)  # what pickle makes it of again

    def __str__(self) -> str:
        package, extra, purpose = self.args
        return f"{purpose} needs {package}; install it with: pip install 'tpcalc[{extra}]'"


def of_extra(module: str, extra: str, purpose: str, package: str = "") -> Any:
    """A module of an optional package; raises ``MissingExtra`` without it. package: its name where it is not the
    module's."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra(package or module.partition(".")[0], extra, purpose) from None
