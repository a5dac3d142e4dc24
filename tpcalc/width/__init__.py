"""Width: principles that fix how a perceptron scales with its width n, and what is learned at which n and L."""

from ..scaling import width_recipe as width_recipe
from .depth_to_width import DepthToWidthRatio as DepthToWidthRatio, depth_to_width_ratio as depth_to_width_ratio
from .principle_audit import Breach as Breach, WidthAudit as WidthAudit, broken_principles as broken_principles
from .differentials import (DifferentialTerm as DifferentialTerm, differential_exponent as differential_exponent,
                            terms as terms)
from .family import AnyDepth as AnyDepth, meta_principled as meta_principled, solve_any_depth as solve_any_depth
from .regimes import (WidthRegime as WidthRegime, counted_powers as counted_powers,
                      feature_exponent as feature_exponent, width_regime as width_regime)
from .forward_equations import Differentials as Differentials, forward_equations as forward_equations
from .hidden_width import BlockLimit as BlockLimit, block_limit as block_limit
from .hierarchy import ntk_exponent as ntk_exponent
from .layers import Perceptron as Perceptron
from .measured import (MeasuredDifferential as MeasuredDifferential, measure_differentials as measure_differentials,
                       measure_type_two as measure_type_two)
from .principles import Principles as Principles, Requirement as Requirement, principles as principles
from .web import EffectiveTheory as EffectiveTheory, Web as Web, web as web
