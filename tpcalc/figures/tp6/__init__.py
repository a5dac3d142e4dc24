"""Figures of Tensor Programs VI."""
