"""Fast exact readings of residual networks, and ``train``, which chooses among all readings."""

from .cauchy import CauchyDifferences as CauchyDifferences, Suprema as Suprema, cauchy_differences as cauchy_differences
from .convergence import Convergence as Convergence, convergence as convergence
from .run import Run as Run
from .train import train as train
