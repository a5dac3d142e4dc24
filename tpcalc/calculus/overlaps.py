"""Names from before ``tpcalc.gaussian``: they go with the next release."""

from .._moved import moved

MOVED = dict.fromkeys(("Overlap", "Mean"), "gaussian.overlaps")
__getattr__ = moved(__name__, MOVED)
