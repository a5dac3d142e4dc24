"""What letters and products are in a real network, and both sides of recorded steps there."""

from __future__ import annotations

from typing import Any, Iterable

import numpy as np
import sympy as sp

from tpcalc._types import Value
from tpcalc.derivations.derivation import Step
from tpcalc.ledger import Equation, Witness

from ..._letters import Letters
from ..._line import relative
from ._finite_network import D, L, N, Trained
from ._network_rules import depth, inputs, width

PRODUCTS: dict[str, Value] = {
    "Acts": lambda matrix, vector: matrix @ vector, "Turned": lambda matrix: matrix.T, "Outer": np.outer,
    "Dot": lambda first, second: np.sum(first * second)}


def letters_of_network(net: Trained, at: dict[sp.Symbol, Any]) -> Letters:
    """Letters of a network of one input, nodes and blocks from 1; slopes are those of its forward pass."""
    def slope(of: str, name: str) -> Value:
        return lambda step, _, node=0: np.squeeze(net.slope(step, of, name, node)[0])

    def kernel(of: np.ndarray) -> Value:
        return lambda a, b, node: net.kernel(of, a, node - 1, b)[0, 0]
    tables: dict[str, Value] = {
        "h": lambda a, node: net.h[a, node - 1, :, 0], "g": lambda a, node: net.g[a, node - 1, :, 0],
        "phi": lambda a, node: net.phi[a, node - 1, :, 0],
        "dphi": lambda a, node: np.cosh(net.h[a, node - 1, :, 0])**-2.0,
        "chi": lambda a, node: net.W[0, node - 2] @ net.phi[a, node - 2, :, 0] / np.sqrt(N),
        "r": lambda a, node: net.W[0, node - 1].T @ net.g[a, node, :, 0] / np.sqrt(N),
        "Phi": kernel(net.phi), "G": kernel(net.g), "Kx": lambda *_: (net.x.T @ net.x / D)[0, 0],
        "W": lambda a, block: net.W[a, block - 1], "W0": lambda a: net.W0[a], "w": lambda a: net.w[a],
        "V": lambda a, block: net.V[a, block - 1] if a >= 0 else np.zeros((N, N)), "x": lambda _: net.x[:, 0],
        r"\Delta": lambda a: net.Delta[a, 0],
        **{f"{of}/{name}": slope(of, name) for of in ("f", "loss") for name in ("h", "W", "W0", "w")}}
    return Letters({**PRODUCTS, **tables}, {depth: L, width: N, inputs: D, **at})


def residual(equation: Equation, here: Letters) -> float:
    """Left less right, the largest over neurons."""
    return float(np.max(np.abs(here.of(equation.target) - here.of(equation.value))))


def worst(steps: Iterable[Step], here: Letters) -> float:
    """The largest relative difference between what stood before a step, what stands after it, and its left side."""
    found = 0.0
    for step in steps:
        left, before, after = map(here.of, (step.left, step.before, step.after))
        found = max(found, relative(before, after), relative(left, after))
    return found


def of_a_neuron(what: str, equation: Equation, printed: Equation, net: Trained, at: dict[sp.Symbol, Any]) -> Witness:
    """An equation of fields, as printed and as it is, at the first neuron after the last step."""
    here = letters_of_network(net, at)
    truth, right, wrong = (float(here.of(one)[0]) for one in (equation.target, equation.value, printed.value))
    return Witness(what, truth, 1e-12, wrong, right)
