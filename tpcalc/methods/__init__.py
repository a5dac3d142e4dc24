"""Methods of training, each a frozen value with its own options that says what it refuses, and ``train`` itself."""

from .attention import Attention as Attention
from .choice import MethodRow as MethodRow, MethodTable as MethodTable, table as table
from .coefficients import Coefficients as Coefficients
from .collocation import Collocation as Collocation
from .common_draws import CommonDraws as CommonDraws
from .conditioned import Conditioned as Conditioned
from .dense import Dense as Dense
from .long_collocation import LongCollocation as LongCollocation
from .linear_programs import Extrapolated as Extrapolated
from .loop_time import LoopTime as LoopTime
from .method import Method as Method, outputs_alone as outputs_alone
from .particles import Particles as Particles
from .reflection import Reflection as Reflection
from .takes import coverage as coverage
