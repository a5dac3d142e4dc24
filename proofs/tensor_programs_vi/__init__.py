"""Tensor Programs VI: Feature Learning in Infinite-Depth Neural Networks (paper B in the docstrings of tpcalc)."""
