"""Questions that take more than one training: convergence in depth, learning rates that transfer, gradient flow."""

from .cauchy import CauchyDifferences as CauchyDifferences, Suprema as Suprema, cauchy_differences as cauchy_differences
from .convergence import Convergence as Convergence, convergence as convergence
from .gradient_flow import GradientFlow as GradientFlow, gradient_flow as gradient_flow
from .horizon_sweep import HorizonFit as HorizonFit, HorizonSweep as HorizonSweep
from .kernel_fn import KernelFunction as KernelFunction, kernel_fn as kernel_fn
from .transfer import Transfer as Transfer, transfer as transfer
from .depth_transfer import DepthTransfer as DepthTransfer
from .width_transfer import WidthTransfer as WidthTransfer
from .width_or_depth import WidthOrDepth as WidthOrDepth, width_or_depth as width_or_depth
