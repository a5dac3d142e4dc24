"""Finite width: covariances, biases and cumulants of outputs, from a tilted law."""
