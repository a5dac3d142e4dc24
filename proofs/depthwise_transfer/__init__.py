"""Statements of the paper on depthwise hyperparameter transfer by dynamical mean field theory (paper A)."""
