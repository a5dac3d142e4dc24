"""Depth limits: powers of L in derived recursions."""

from .orders import Contribution as Contribution, Orders as Orders, orders as orders
