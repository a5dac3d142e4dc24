"""Names from before ``lowering.recursions``: they go with the next release."""

from ._moved import moved

MOVED = dict.fromkeys(("CompiledRecursion", "Recursion", "recursion"), "lowering.recursions")
__getattr__ = moved(__name__, MOVED)
