"""A derived recursion -> a numba source file -> a compiled kernel."""

from .recursion import CompiledRecursion as CompiledRecursion, Recursion as Recursion, recursion as recursion
