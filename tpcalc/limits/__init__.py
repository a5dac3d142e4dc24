"""Depth limits: what survives of recursions and kets, as equations that can be solved, and how fast it is reached."""

from .collocation import CompiledLimit as CompiledLimit, LimitOutputs as LimitOutputs
from .depth_limit import (DepthLimit as DepthLimit, LimitRegion as LimitRegion, LimitTerm as LimitTerm,
                          depth_limit as depth_limit)
from .integral_equations import LimitEquation as LimitEquation
from .kets.ket_limit import KetLimit as KetLimit, KetLimitRegion as KetLimitRegion, KetTerm as KetTerm
from .kets.compiled_streams import CompiledStreams as CompiledStreams
from .slow_streams import normal_form as normal_form
