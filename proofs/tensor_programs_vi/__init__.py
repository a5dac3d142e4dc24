"""Statements of Tensor Programs VI: Feature Learning in Infinite-Depth Neural Networks."""
