"""The place where ``train`` was, which is now ``tpcalc.methods.train``."""

from ..methods.train import train as train  # noqa: F401
