"""Printed formulas as numbers: what they stand for, and readers of their LaTeX and text that share no code with it."""
