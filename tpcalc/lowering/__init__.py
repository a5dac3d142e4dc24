"""Programs as loop nests over arrays: compiled once with symbolic indices, samples as array axes."""

from .array_backends import Arrays as Arrays
from .code_lines import NotLowered as NotLowered
from .nest import lowered_order as lowered_order
from .source import Lowered as Lowered, lower as lower
