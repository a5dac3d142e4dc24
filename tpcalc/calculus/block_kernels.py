"""Names from before ``tpcalc.action``: they go with the next release."""

from .._moved import moved

MOVED = dict.fromkeys(("DerivedKernels", "derive_block_kernels"), "action.block_kernels")
__getattr__ = moved(__name__, MOVED)
