"""Statements of Depthwise Hyperparameter Transfer in Residual Networks, by dynamical mean field theory."""
