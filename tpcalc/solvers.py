"""Names from before ``media``, ``methods``, ``results`` and ``studies``: they go with the next release."""

from ._moved import moved

MOVED = {"Run": "results", "ShortPieces": "results", "short_pieces": "results", "tangent_kernel": "results",
         "train": "methods.train",
         "CauchyDifferences": "studies", "Convergence": "studies", "GradientCorrelation": "studies",
         "GradientFlow": "studies", "Suprema": "studies", "Transfer": "studies", "cauchy_differences": "studies",
         "convergence": "studies", "gradient_correlation": "studies", "gradient_flow": "studies",
         "transfer": "studies"}
__getattr__ = moved(__name__, MOVED)
