"""Beyond ``tp``, for proofs: parts of the language, what derivations return, and quantities of the three papers.

>>> from tpcalc.theory import Assign, Family, MatVec, Matrix, Vector
>>> W, u, h = Family(Matrix, "W")(), Family(Vector, "u")(), Family(Vector, "h")()
>>> print(Assign(h, MatVec(W, u)))
h := W @ u
"""

from .calculus import Derivation as Derivation, KetEquations as KetEquations, Step as Step
from .verdicts.diversity import Diversity as Diversity, measure_diversity as measure_diversity
from .tune.own_block import audit_matrices as audit_matrices
from .tune.network_recipe import NetworkRecipe as NetworkRecipe
from .tune.recipe import MatrixRecipe as MatrixRecipe, matrix_recipe as matrix_recipe
from .tune.role_table import RoleTable as RoleTable, recipe_table as recipe_table
from .verdicts import Interaction as Interaction, interactions as interactions
from .verdicts.evidence import measure_exponents as measure_exponents
from .interpreters import StepCheck as StepCheck
from .ledger import Citation as Citation, cite as cite
from .limits import (CompiledLimit as CompiledLimit, CompiledStreams as CompiledStreams, DepthLimit as DepthLimit,
                     KetLimit as KetLimit, KetLimitRegion as KetLimitRegion, KetTerm as KetTerm,
                     LimitEquation as LimitEquation, LimitOutputs as LimitOutputs, LimitRegion as LimitRegion,
                     LimitTerm as LimitTerm)
from .lowering.recursions import Recursion as Recursion
from .scaling import DepthwiseScaling as DepthwiseScaling, depthwise_recipe as depthwise_recipe
from .optimizers.frobenius import factored_square as factored_square
from .optimizers.spectral import Spectral as Spectral
from .programs.apart import gradients_so_far as gradients_so_far
from .models.attention import alibi as alibi, softmax_attention as softmax_attention
from .models.convolution import Convolution as Convolution
from .models.parallel import ParallelBlock as ParallelBlock
from .training.by_parameter import powers_by_parameter as powers_by_parameter, with_exponents as with_exponents
from .programs.language import (Family as Family, HeadSum as HeadSum, LossDerivative as LossDerivative,
                                MatVec as MatVec, Matrix as Matrix, Mean as Mean, NonlinearOuter as NonlinearOuter,
                                Outer as Outer, Scalar as Scalar, Transpose as Transpose, Vector as Vector)
from .programs.by_position import HeadTable as HeadTable, HeadTurn as HeadTurn
from .models.skips import visits_apart as visits_apart
from .programs.special import NormRatio as NormRatio
from .programs.program import Assign as Assign, Loop as Loop
from .training.raw_problem import RawProblem as RawProblem, raw_problem as raw_problem
from .results import (OrderParameters as OrderParameters, order_parameters as order_parameters,
                      tangent_kernel as tangent_kernel)
from .studies.attention import (AttentionKernel as AttentionKernel, AttentionLayer as AttentionLayer,
                                AttentionLimit as AttentionLimit, attention_kernel as attention_kernel,
                                attention_limit as attention_limit)
from .studies.between_layers import (GradientCorrelation as GradientCorrelation,
                                     gradient_correlation as gradient_correlation)
from .studies.dmft import dmft as dmft
from .verdicts.visits import classify_visits as classify_visits
from .verdicts.wishes import wish_table as wish_table
