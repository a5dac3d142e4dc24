"""Infinite width and depth: the stochastic integral equations, and the limit of layers to layer time."""
