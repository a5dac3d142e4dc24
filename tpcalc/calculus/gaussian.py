"""Names from before ``tpcalc.gaussian``: they go with the next release."""

from .._moved import moved

MOVED = dict.fromkeys((
    "Blur", "Condition", "Conditional", "Degenerate", "Expectation", "Gaussians", "GivenPast", "Independence",
    "Linearity", "Moments", "Open", "Parity", "Phases", "Price", "Shift", "Square", "Stein", "Values",
    "derive_expectation", "expectation"), "gaussian")
__getattr__ = moved(__name__, MOVED)
