"""Exponents that are solved for: what is wished of a network's training, and the powers of L that are left."""

from .solve import SolvedPowers as SolvedPowers, solve as solve
from .table import WISHES as WISHES, wish_table as wish_table
