"""Powers of the depth: what is counted, affine exponents on exact regions, max-plus elimination."""

from .affine import (EXPLODES as EXPLODES, Affine as Affine, Condition as Condition, Contribution as Contribution,
                     Exponent as Exponent, NotAffine as NotAffine, Region as Region, join as join, point_of as point_of)
from .counting import Cell as Cell, Orders as Orders, settled_orders as settled_orders
from .quantities import BaseQuantity as BaseQuantity, Quantity as Quantity, Sort as Sort, Values as Values
from .terms import Terms as Terms
