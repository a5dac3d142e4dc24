"""What exponents are found of, by name."""

from __future__ import annotations

from typing import NamedTuple

from ..orders.quantities import BaseQuantity

KET, CHANGE, DERIVATIVE, SCALAR, SHRINK = "ket", "change", "derivative", "scalar", "shrink"
TURNED = "change of a derivative"


class Unknown(NamedTuple):
    """What exponents are found of: the parts of a ket of a family, of its change since the first step, of its
    derivative in a base ket, or of that one's change, at a step; a scalar by its name; or a negative power of a size,
    of order one at most."""

    sort: str
    step: int
    name: int | str
    base: BaseQuantity | None = None


class Bend(NamedTuple):
    """What a bounded function would add to its value on the leading part, if it went on as it starts."""

    step: int
    name: str
    sources: int
