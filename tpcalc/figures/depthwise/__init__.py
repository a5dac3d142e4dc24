"""Figures of Depthwise Hyperparameter Transfer."""
