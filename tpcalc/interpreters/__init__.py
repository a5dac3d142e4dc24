"""General readings of a network: exact coefficients, and real networks of finite width."""

from .coefficients import Coefficients as Coefficients, read_coefficients as read_coefficients
from .dense import Dense as Dense, read_dense as read_dense
