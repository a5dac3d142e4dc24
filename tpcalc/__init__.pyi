"""What type checkers see of ``tpcalc``; ``__init__.py`` imports the same at first use."""

from .errors import Divergence as Divergence, NotCovered as NotCovered, MissingExtra as MissingExtra
from . import calculus as calculus, data as data, finite_width as finite_width, groups as groups, horizon as horizon
from . import interpreters as interpreters, kernels as kernels, ledger as ledger, limits as limits, lowering as lowering
from . import methods as methods, models as models, optimizers as optimizers, programs as programs
from . import propagators as propagators, results as results, scaling as scaling, studies as studies, theory as theory
from . import training as training, tune as tune, verdicts as verdicts, width as width
from sympy import oo as oo
from .calculus import kets as kets
from .data import Sequences as Sequences, Task as Task, tasks as tasks
from .horizon import Stream as Stream, long_horizon as long_horizon, timescale as timescale
from .horizon import transfer_rule as transfer_rule
from .interpreters import check_steps as check_steps
from .limits import depth_limit as depth_limit
from .lowering.recursions import recursion as recursion
from .methods.train import train as train
from .models import HyperConnections as HyperConnections, MoE as MoE, ResNet as ResNet, Skip as Skip
from .models import Transformer as Transformer
from .optimizers import Adam as Adam, AdamW as AdamW, Clipped as Clipped, Lion as Lion, Muon as Muon
from .optimizers import NormalizedSGD as NormalizedSGD, SGD as SGD, SOAP as SOAP, Shampoo as Shampoo, SignSGD as SignSGD
from .optimizers import schedule as schedule
from .programs.blocks import Branch as Branch
from .programs.program import Program as Program
from .results import Run as Run
from .scaling import DepthScaling as DepthScaling, Parametrization as Parametrization, Powers as Powers
from .scaling import WidthScaling as WidthScaling
from .studies import convergence as convergence, kernel_fn as kernel_fn, transfer as transfer
from .training.builders import program as program
from .training.problem import Problem as Problem
from .tune.audit import audit as audit
from .tune.visited_recipe import recipe as recipe
from .tune.table import named_recipes as named_recipes
from .verdicts import classify as classify
from .verdicts.phases import phase_diagram as phase_diagram
from .verdicts.wishes import solve as solve
from .width import meta_principled as meta_principled, ntk_exponent as ntk_exponent, web as web

__version__: str
__all__: list[str]
