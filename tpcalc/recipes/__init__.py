"""Recipes: what sources set for the layers of a network, as powers of L, and what to set for a depth scaling."""

from .recipe import MatrixRecipe as MatrixRecipe, matrix_recipe as matrix_recipe
from .recipe import Recipe as Recipe, recipe as recipe
