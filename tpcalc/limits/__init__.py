"""Depth limits: what survives of a derived recursion, as equations that can be solved, and how fast it is reached."""

from .collocation import CompiledLimit as CompiledLimit, LimitOutputs as LimitOutputs
from .depth_limit import (DepthLimit as DepthLimit, LimitRegion as LimitRegion, LimitTerm as LimitTerm,
                          depth_limit as depth_limit)
from .integral_equations import LimitEquation as LimitEquation
from .slow_streams import normal_form as normal_form
