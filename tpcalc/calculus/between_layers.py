"""Names from before ``tpcalc.action``: they go with the next release."""

from .._moved import moved

MOVED = {"derive_gradient_correlation": "action.between_layers"}
__getattr__ = moved(__name__, MOVED)
