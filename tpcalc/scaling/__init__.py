"""Exponents as data: how multipliers, initial variances and learning rates scale with depth and width."""

from .depth import DepthScaling as DepthScaling
from .parametrization import Parametrization as Parametrization, Powers as Powers, Scaling as Scaling
from .depthwise import DepthwiseScaling as DepthwiseScaling, RawSizes as RawSizes, depthwise_recipe as depthwise_recipe
from .width import ParameterSizes as ParameterSizes, WidthScaling as WidthScaling
from .width_recipes import width_recipe as width_recipe
