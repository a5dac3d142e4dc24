"""Depth limits: powers of L in derived recursions, regions of the exponents, functional integrals, rates."""

from . import entrywise as entrywise
from .affine import Affine as Affine, point_of as point_of
from .exponent import EXPLODES as EXPLODES, Exponent as Exponent, join as join
from .ket_terms import KetTerms as KetTerms
from .collocation import CompiledLimit as CompiledLimit, LimitOutputs as LimitOutputs
from .depth_limit import (DepthLimit as DepthLimit, LimitRegion as LimitRegion, LimitTerm as LimitTerm,
                          depth_limit as depth_limit)
from .integral_equations import LimitEquation as LimitEquation
from .orders import (Cell as Cell, Orders as Orders, exact_part as exact_part, orders as orders,
                     settled_orders as settled_orders)
from .quantities import Base as Base, Label as Label, Quantity as Quantity, Sort as Sort
from .region import Condition as Condition, Region as Region
from .slow_streams import NormalForm as NormalForm, normal_form as normal_form
from .terms import Contribution as Contribution, Terms as Terms, Values as Values
