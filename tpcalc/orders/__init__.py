"""Powers of the depth: what is counted, affine exponents on exact regions, max-plus elimination."""

from .affine import Affine as Affine, NotAffine as NotAffine, point_of as point_of
from .counting import Cell as Cell, Orders as Orders, settled_orders as settled_orders
from .exponent import EXPLODES as EXPLODES, Exponent as Exponent, join as join
from .quantities import BaseQuantity as BaseQuantity, Quantity as Quantity, Sort as Sort
from .region import Condition as Condition, Region as Region
from .growing_variable import Values as Values
from .terms import Contribution as Contribution, Terms as Terms
