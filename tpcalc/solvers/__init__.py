"""Fast exact readings of residual networks, and ``train``, which chooses among all readings."""

from .convergence import Convergence as Convergence, convergence as convergence
from .run import Run as Run
from .train import train as train
from .transfer import Transfer as Transfer, transfer as transfer
