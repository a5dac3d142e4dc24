"""Training data: tasks, sequences, text, and the losses that compare outputs with targets."""

from .losses import Loss as Loss
from .task import Task as Task
from .sequences import Sequences as Sequences
from . import tasks as tasks
