"""What type checkers see of ``tpcalc``; ``__init__.py`` imports the same at first use."""

from .errors import Divergence as Divergence, MissingExtra as MissingExtra, NotCovered as NotCovered
from sympy import oo as oo
from .calculus import KetEquations as KetEquations, kets as kets
from .classification import Diversity as Diversity, Verdict as Verdict, classify as classify
from .classification import Interaction as Interaction, interactions as interactions
from .classification import measure_diversity as measure_diversity, measure_exponents as measure_exponents
from .classification import Audit as Audit, NamedRecipes as NamedRecipes, Recipe as Recipe
from .classification import PhaseDiagram as PhaseDiagram, PhaseRegion as PhaseRegion, phase_diagram as phase_diagram
from .classification import audit as audit, named_recipes as named_recipes, recipe as recipe
from .lowering.recursions import Recursion as Recursion, recursion as recursion
from .interpreters import StepCheck as StepCheck, check_steps as check_steps
from .ledger import Citation as Citation, cite as cite
from .limits import DepthLimit as DepthLimit, LimitRegion as LimitRegion, depth_limit as depth_limit
from . import methods as methods
from .methods.train import train as train
from .parametrizations import DepthScaling as DepthScaling, Parametrization as Parametrization
from .parametrizations import DepthwiseScaling as DepthwiseScaling, depthwise_recipe as depthwise_recipe
from .parametrizations import WidthScaling as WidthScaling
from .parametrizations import width_recipe as width_recipe
from .programs import Adam as Adam, AdamW as AdamW, Clipped as Clipped, Lion as Lion
from .programs import Muon as Muon, NormalizedSGD as NormalizedSGD, SGD as SGD, SignSGD as SignSGD, ResNet as ResNet, Sequences as Sequences, Skip as Skip, HyperConnections as HyperConnections, Task as Task, Transformer as Transformer, tasks as tasks
from .programs import schedule as schedule
from .programs.builders import program as program
from .programs.problem import Problem as Problem
from .programs.raw_problem import RawProblem as RawProblem, raw_problem as raw_problem
from .programs.program import Program as Program
from .results import OrderParameters as OrderParameters, order_parameters as order_parameters
from .results import Run as Run, tangent_kernel as tangent_kernel
from .studies import CauchyDifferences as CauchyDifferences, cauchy_differences as cauchy_differences
from .studies import Convergence as Convergence, convergence as convergence
from .studies import dmft as dmft
from .studies import GradientCorrelation as GradientCorrelation, gradient_correlation as gradient_correlation
from .studies import GradientFlow as GradientFlow, gradient_flow as gradient_flow
from .studies import AttentionKernel as AttentionKernel, AttentionLayer as AttentionLayer
from .studies import AttentionLimit as AttentionLimit
from .studies import attention_kernel as attention_kernel, attention_limit as attention_limit
from .studies import KernelFunction as KernelFunction, kernel_fn as kernel_fn
from .studies import Transfer as Transfer, transfer as transfer
from .studies import WidthOrDepth as WidthOrDepth, width_or_depth as width_or_depth
from .width import meta_principled as meta_principled, ntk_exponent as ntk_exponent, web as web

__version__: str
__all__: list[str]
