"""Claims about the plane, derived from definitions and counted sizes."""

from __future__ import annotations

from tpcalc.ledger import Equation, Proof

from ..._claims import FACES, FORMS, prove
from .appendix_h import KNOWN
from .definitions_5 import SAID, UNFOLDED

RULES = (UNFOLDED, KNOWN, FORMS, FACES)


def derived(*claims: Equation) -> Proof:
    """By definitions, powers of L, and the faces of the plane."""
    return prove(claims, RULES, SAID)
