"""``Run`` and what can be asked of one: covariances, two-point functions, tangent kernels, fluctuations."""

from .run import Run as Run
from .short_pieces import ShortPieces as ShortPieces, short_pieces as short_pieces
from .tangent import tangent_kernel as tangent_kernel
