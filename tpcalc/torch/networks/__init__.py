"""The network of this package that a model is: what stands between its matrices, tested by numbers."""
