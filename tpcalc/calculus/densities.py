"""Names from before ``tpcalc.action``: they go with the next release."""

from .._moved import moved

MOVED = dict.fromkeys(("Densities", "derive_densities", "derive_densities_of_kernels"), "action.densities")
__getattr__ = moved(__name__, MOVED)
