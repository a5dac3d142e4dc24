"""The symbolic layer: kets, the rules that rewrite them, and the recursions they lead to."""

from ..derivations.derivation import Derivation as Derivation, Step as Step
from .equations import KetEquations as KetEquations, kets as kets
from .recursion import RecursionEquations as RecursionEquations
