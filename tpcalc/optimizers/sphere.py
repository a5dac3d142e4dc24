"""Weights on spheres: after every update a matrix has the Frobenius norm that it started with."""

from __future__ import annotations

from typing import Sequence

from ..programs.language import Family, Matrix, Scalar
from ..programs.special import NormRatio
from ..programs.program import Assign
from ..programs.backprop import Trainable


def free_of(family: Family) -> Family:
    """A matrix after its update, before its norm is restored."""
    return Family(Matrix, f"free{family.name}", rf"\mathrm{{free}}\,{family.latex}", layered=family.layered)


def ratio_of(family: Family) -> Family:
    """What restores the norm of a matrix: rho of the next step over that of this one."""
    return Family(Scalar, f"shrink{family.name}", rf"\mathrm{{shrink}}_{{{family.latex}}}", layered=family.layered)


def projected(updates: Sequence[Assign], layer: Sequence[Trainable]) -> list[Assign]:
    """The updates of a layer, every matrix on its sphere: parts of one matrix as a whole."""
    families = {one.family.name: one for one in layer if one.family.kind is Matrix}
    found, restored = list[Assign](), dict[tuple[str, ...], list[Assign]]()
    for update in updates:
        one = families.get(update.target.name)
        if one is None:
            found.append(update)
            continue
        found.append(Assign(free_of(one.family)[update.target.indices], update.value))
        names = (one.family.name,) if one.blocks is None else one.blocks.names
        restored.setdefault(names, []).append(update)
    for names, parts in restored.items():
        first = families[names[0]].family
        after = [free_of(families[part.target.name].family)[part.target.indices] for part in parts]
        before = [next(m for m in part.value.atoms(Matrix) if m.same_family(part.target)) for part in parts]
        ratio = ratio_of(first)[before[0].indices]
        found.append(Assign(ratio, NormRatio(tuple(before), tuple(after))))
        found += [Assign(part.target, ratio * free) for part, free in zip(parts, after)]
    return found
