"""Depth limits: what survives of a derived recursion, as equations that can be solved, and how fast it is reached."""

from .._moved import moved
from .collocation import CompiledLimit as CompiledLimit, LimitOutputs as LimitOutputs
from .depth_limit import (DepthLimit as DepthLimit, LimitRegion as LimitRegion, LimitTerm as LimitTerm,
                          depth_limit as depth_limit)
from .integral_equations import LimitEquation as LimitEquation
from .slow_streams import NormalForm as NormalForm, normal_form as normal_form

MOVED = dict.fromkeys((
    "EXPLODES", "Affine", "Base", "Cell", "Condition", "Contribution", "Exponent", "KetTerms", "Label", "Orders",
    "Quantity", "Region", "Sort", "Terms", "Values", "exact_part", "join", "orders", "point_of", "settled_orders"),
    "orders")
__getattr__ = moved(__name__, MOVED)
