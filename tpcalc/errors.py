"""The errors tpcalc raises on purpose."""

from __future__ import annotations


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


class MissingExtra(ImportError):
    """An optional package is needed; the message names the extra that brings it.

    >>> import tpcalc as tp
    >>> str(tp.MissingExtra("matplotlib", "report", "plots"))
    "plots needs matplotlib; install it with: pip install 'tpcalc[report]'"
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}; install it with: pip install 'tpcalc[{extra}]'")
