"""What type checkers see of ``tpcalc``; ``__init__.py`` imports the same at first use."""

from .errors import Divergence as Divergence, MissingExtra as MissingExtra, NotCovered as NotCovered
from sympy import oo as oo
from . import calculus as calculus, classification as classification, groups as groups, interpreters as interpreters
from . import kernels as kernels, ledger as ledger, limits as limits, lowering as lowering, methods as methods
from . import parametrizations as parametrizations, programs as programs, propagators as propagators, recipes as recipes
from . import results as results, studies as studies, theory as theory, width as width
from . import wishes as wishes
from .calculus import kets as kets
from .classification import audit as audit, classify as classify, named_recipes as named_recipes
from .classification import phase_diagram as phase_diagram
from .interpreters import check_steps as check_steps
from .limits import depth_limit as depth_limit
from .lowering.recursions import recursion as recursion
from .methods.train import train as train
from .parametrizations import DepthScaling as DepthScaling, Parametrization as Parametrization, Powers as Powers
from .parametrizations import WidthScaling as WidthScaling
from .programs import Adam as Adam, AdamW as AdamW, Clipped as Clipped, HyperConnections as HyperConnections
from .programs import Lion as Lion, Muon as Muon, NormalizedSGD as NormalizedSGD, ResNet as ResNet, SGD as SGD
from .programs import Sequences as Sequences, SignSGD as SignSGD, Skip as Skip, Task as Task, Transformer as Transformer
from .programs import schedule as schedule, tasks as tasks
from .programs.blocks import Branch as Branch
from .programs.builders import program as program
from .programs.problem import Problem as Problem
from .programs.program import Program as Program
from .recipes import recipe as recipe
from .results import Run as Run
from .studies import convergence as convergence, kernel_fn as kernel_fn, transfer as transfer
from .width import meta_principled as meta_principled, ntk_exponent as ntk_exponent, web as web
from .wishes import solve as solve

__version__: str
__all__: list[str]
