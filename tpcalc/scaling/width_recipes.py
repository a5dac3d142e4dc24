"""Named width scalings as data: the abc-exponents that their sources print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import sympy as sp

from .._checks import choice, whole_number
from .width import WidthScaling

HALF = sp.Rational(1, 2)
Exponents = tuple[tuple[sp.Expr, ...], tuple[sp.Expr, ...], sp.Expr]


@dataclass(frozen=True)
class WidthRecipe:
    """A recipe from a source: its exponents (a, b, c) for L >= 2 layers."""

    name: str
    title: str
    source: str
    exponents: Callable[[int], Exponents]


def _first_hidden_last(first: object, hidden: object, last: object, layers: int) -> tuple[sp.Expr, ...]:
    return (sp.Rational(first), *(sp.Rational(hidden),) * (layers - 2), sp.Rational(last))


TENSOR_PROGRAMS_IV = "Tensor Programs IV, table 1, arXiv:2011.14522"
MEAN_FIELD = TENSOR_PROGRAMS_IV + " for one hidden layer; deeper as Meta-Principled Family, (3.15) at s = 1"
META_PRINCIPLED = "Meta-Principled Family, (3.15) at s = 1, in the gauge q_1 = 0, arXiv:2210.04909"


def _means(layers: int) -> Exponents:
    """Outputs are means and weights of order one; of one hidden layer it is the mean field of Tensor Programs IV."""
    return _first_hidden_last(0, HALF, 1, layers), _first_hidden_last(0, 0, 0, layers), sp.Integer(-1)


NAMED_WIDTHS = (
    WidthRecipe("SP", "standard parametrization, learning rate of order one", TENSOR_PROGRAMS_IV,
                lambda n: (_first_hidden_last(0, 0, 0, n), _first_hidden_last(0, HALF, HALF, n), sp.Integer(0))),
    WidthRecipe("SP, rate 1/n", "standard parametrization, the largest learning rate that is stable",
                TENSOR_PROGRAMS_IV,
                lambda n: (_first_hidden_last(0, 0, 0, n), _first_hidden_last(0, HALF, HALF, n), sp.Integer(1))),
    WidthRecipe("NTP", "neural-tangent parametrization", TENSOR_PROGRAMS_IV,
                lambda n: (_first_hidden_last(0, HALF, HALF, n), _first_hidden_last(0, 0, 0, n), sp.Integer(0))),
    WidthRecipe("muP", "maximal-update parametrization", TENSOR_PROGRAMS_IV,
                lambda n: (_first_hidden_last(-HALF, 0, HALF, n), _first_hidden_last(HALF, HALF, HALF, n),
                           sp.Integer(0))),
    WidthRecipe("mean field", "mean-field parametrization, of one hidden layer or carried to any depth", MEAN_FIELD,
                _means),
    WidthRecipe("MFP", "mean-field parametrization of any depth: outputs are means, weights of order one",
                META_PRINCIPLED, _means),
)


def width_recipe(name: str, layers: int) -> WidthScaling:
    """The named width scaling of a perceptron of ``layers`` layers, the output layer counted.

    name: "SP", "SP, rate 1/n", "NTP", "muP" or "mean field", as Tensor Programs IV prints them, the last one for one
    hidden layer. Of deeper networks "mean field" is "MFP", the member s = 1 of the Meta-Principled Family: the mean
    field carried to any depth, which is muP in another gauge; other generalizations go by other names. Raises
    ``ValueError`` for other names and for fewer than two layers.

    >>> width_recipe("muP", layers=3).canonical()
    WidthScaling(p=(0, 0, 1), q=(0, 0, 1), r=1)
    """
    found = {recipe.name: recipe for recipe in NAMED_WIDTHS}[choice("name", name, (r.name for r in NAMED_WIDTHS))]
    count = whole_number("layers", layers, 2)
    return WidthScaling.from_abc(*found.exponents(count))
