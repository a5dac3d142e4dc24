"""Tensor Programs as data: the language, and the networks, optimizers and tasks that build programs."""

from .clipped import Clipped as Clipped
from .entrywise import Adam as Adam, AdamW as AdamW, Lion as Lion, SignSGD as SignSGD
from .losses import Loss as Loss
from .muon import Muon as Muon
from .networks import ResNet as ResNet
from .normalized import NormalizedSGD as NormalizedSGD
from .optimizers import SGD as SGD
from . import tasks as tasks
from .schedules import schedule as schedule
from .skips import HyperConnections as HyperConnections, Skip as Skip
from .sequences import Sequences as Sequences
from .task import Task as Task
from .transformer import Transformer as Transformer
