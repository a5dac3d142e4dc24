"""Names from before ``media``, ``methods``, ``results`` and ``studies``: they go with the next release."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

MOVED = {"Run": "results", "ShortPieces": "results", "short_pieces": "results", "tangent_kernel": "results",
         "train": "methods.train",
         "CauchyDifferences": "studies", "Convergence": "studies", "GradientCorrelation": "studies",
         "GradientFlow": "studies", "Suprema": "studies", "Transfer": "studies", "cauchy_differences": "studies",
         "convergence": "studies", "gradient_correlation": "studies", "gradient_flow": "studies",
         "transfer": "studies"}


def __getattr__(name: str) -> Any:
    if name not in MOVED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"tpcalc.solvers.{name} is tpcalc.{MOVED[name]}.{name} now", DeprecationWarning, stacklevel=2)
    return getattr(importlib.import_module(f"tpcalc.{MOVED[name]}"), name)
