"""Networks as data: residual networks, transformers, and the parts that they are made of."""

from .networks import ResNet as ResNet
from .transformer import Transformer as Transformer
from .experts import MoE as MoE
from .skips import HyperConnections as HyperConnections, Skip as Skip
