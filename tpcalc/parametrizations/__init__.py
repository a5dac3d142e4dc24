"""Exponents as data: how multipliers and learning rates scale with depth."""

from .choices import DepthChoices as DepthChoices
from .depth import DepthScaling as DepthScaling
