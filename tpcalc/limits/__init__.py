"""Depth limits: powers of L in derived recursions, regions of the exponents, functional integrals, rates."""

from .affine import Affine as Affine
from .exponent import Exponent as Exponent
from .orders import Cell as Cell, Orders as Orders, orders as orders, settled_orders as settled_orders
from .region import Condition as Condition, Region as Region
from .terms import Contribution as Contribution, Terms as Terms
