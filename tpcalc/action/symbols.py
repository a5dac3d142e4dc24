"""What the symbols of kernels and densities stand for, read off them."""

from __future__ import annotations

from typing import Iterable

import sympy as sp

from ..derivations.printing import latex

Meaning = tuple[tuple[str, ...], str]
BY_NAME = {  # the name without its sites
    "kappa": r"the covariance of what the block adds at two sites; $\langle \cdot \rangle$: the mean over Gaussian "
             "variables of mean 0, of sites $a$ and $b$, whose covariances stand last",
    "theta": "the tangent kernel of a matrix: the overlap of the block's gradients in it",
    "A": "what a layer adds, per layer time, to what $x$ answers",
    "B": "to what gradients answer, backwards",
    "N^0": "to the covariance of $x$",
    "N^1": "to that of gradients, backwards",
    "C": "the mean over coordinates of $x_a x_b$, of the streams at sites $a$ and $b$, a sample of a step each",
    "C^1": r"that of $\delta x_a \delta x_b$, of their gradients",
    "r": r"what $x_a$ answers to a push along $\delta x_b$, of an earlier step $b$",
    "e": r"what $\delta x_a$ answers to a push along $x_b$, of an earlier step $b$ or of $b = a$",
    "w": "the weight in step $a$ of the update that site $b$ made of the matrix",
    "rho": "the share of the initial matrices that weight decay leaves, of steps $a$ and $b$ together"}
OF_A_MATRIX = ("w", "theta")


def action_symbols(values: Iterable[sp.Expr]) -> list[Meaning]:
    """(LaTeX, words) of the overlaps, answers and weights in expressions, in the order of the table.

    >>> from tpcalc.action.block_kernels import C, P
    >>> [several for several, _ in action_symbols([2 * C * P])]
    [('C_{aa}', 'C_{ab}')]
    """
    met = sorted(set().union(*(value.free_symbols for value in values)), key=str)
    found = []
    for name, words in BY_NAME.items():
        heads = {s: str(s).partition("_")[0] for s in met}
        fits = [s for s, head in heads.items()
                if head == name or name in OF_A_MATRIX and head.startswith(f"{name}^")]
        if fits:
            found.append((tuple(latex(s).replace("theta^", r"\theta^") for s in fits), words))
    return found
