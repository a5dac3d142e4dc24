"""Exponents as data: how multipliers and learning rates scale with depth."""

from .depth import DepthScaling as DepthScaling
