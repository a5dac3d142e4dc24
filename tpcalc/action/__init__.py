"""A residual block as its kernels and its action: what enters the limit of infinite depth, derived from statements."""

from .block_kernels import DerivedKernels as DerivedKernels, derive_block_kernels as derive_block_kernels
from .densities import (Densities as Densities, derive_densities as derive_densities,
                        derive_densities_of_kernels as derive_densities_of_kernels)
