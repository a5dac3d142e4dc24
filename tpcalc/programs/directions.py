"""Directions in which optimizers move a weight, as functions of the gradients it has seen."""

from __future__ import annotations

from typing import Sequence

import sympy as sp


def average(beta: sp.Expr, values: Sequence[sp.Expr]) -> sp.Expr:
    """Adam's bias-corrected running average of values_0..values_t."""
    t = len(values) - 1
    weighted = sp.Add(*(beta ** (t - s) * value for s, value in enumerate(values)))
    return (1 - beta) / (1 - beta ** (t + 1)) * weighted


def adam_direction(gradients: Sequence[sp.Expr], beta1: sp.Expr, beta2: sp.Expr, eps: sp.Expr) -> sp.Expr:
    """m / (sqrt(v) + eps) after ``gradients``, m and v the averages of gradients and of their squares.

    PyTorch's conventions. Source: paper B, Definition 4.1.
    """
    return average(beta1, gradients) / (sp.sqrt(average(beta2, [g**2 for g in gradients])) + eps)
