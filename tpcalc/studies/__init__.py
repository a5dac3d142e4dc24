"""Questions that take more than one training: convergence in depth, learning rates that transfer, gradient flow."""

from .attention import AttentionKernel as AttentionKernel, AttentionLayer as AttentionLayer
from .attention import AttentionLimit as AttentionLimit
from .attention import attention_kernel as attention_kernel, attention_limit as attention_limit
from .between_layers import GradientCorrelation as GradientCorrelation
from .between_layers import gradient_correlation as gradient_correlation
from .cauchy import CauchyDifferences as CauchyDifferences, Suprema as Suprema, cauchy_differences as cauchy_differences
from .convergence import Convergence as Convergence, convergence as convergence
from .dmft import dmft as dmft
from .gradient_flow import GradientFlow as GradientFlow, gradient_flow as gradient_flow
from .kernel_fn import KernelFunction as KernelFunction, kernel_fn as kernel_fn
from .transfer import Transfer as Transfer, transfer as transfer
from .width_or_depth import WidthOrDepth as WidthOrDepth, width_or_depth as width_or_depth
