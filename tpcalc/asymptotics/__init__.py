"""Powers of L of everything in ket equations, evaluated at points: one evaluator of exponents."""

from .counted import Counted as Counted
from .graph import TermEntry as TermEntry
from .parts import CHANGE as CHANGE, DERIVATIVE as DERIVATIVE, KET as KET, SCALAR as SCALAR, Unknown as Unknown
from .solution import CountedPower as CountedPower, SizeSolution as SizeSolution, Term as Term
