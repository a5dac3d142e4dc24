"""``Run`` and what can be asked of one: covariances, two-point functions, tangent kernels, fluctuations."""

from .order_parameters import Fields as Fields, MatrixFields as MatrixFields
from .order_parameters import MatrixParameters as MatrixParameters, OrderParameters as OrderParameters
from .read_order_parameters import order_parameters as order_parameters
from .run import Run as Run
from .short_pieces import ShortPieces as ShortPieces, short_pieces as short_pieces
from .tangent import tangent_kernel as tangent_kernel
