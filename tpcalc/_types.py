"""Types that several rooms share."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence, Union

import sympy as sp

Number = Union[sp.Expr, float, str]  # exact where it is an expression or a text such as "1/3"
Name = Union[sp.Symbol, str]
Sizes = Mapping[Name, int]           # of a program, by symbol or name
ProgramData = Mapping[Name, object]  # a program's inputs, as arrays or nested sequences
Json = dict[str, Any]                # what JSON holds
Fields = dict[str, Any]              # values of any kind by name, such as a dataclass's or options
Activation = Union[str, sp.Expr]     # by name, or of one symbol
Count = Union[int, sp.Expr]          # of factors, which may be a symbol
DType = Union[str, type]
KeptNodes = Union[str, Sequence[float], None]  # "all", places, or none
LossRule = Callable[[float, float], float]  # chi, of an output and its target

# what a library of arrays or an interpreter chooses, and nothing here knows more of than that it adds and scales
PlotAxes = Any  # matplotlib's, which is imported where something is drawn
Array = Any   # an array of any array-API namespace
Value = Any   # a vector, matrix or scalar as an interpreter represents it: an array, a fraction, a combination of kets
