"""Powers of L of everything in ket equations, evaluated at points: one evaluator of exponents."""

from .counted import Counted as Counted
from .entries import Entry as Entry
from .unknowns import CHANGE as CHANGE, DERIVATIVE as DERIVATIVE, KET as KET, SCALAR as SCALAR, Unknown as Unknown
from .solution import Power as Power, Solution as Solution, Term as Term
