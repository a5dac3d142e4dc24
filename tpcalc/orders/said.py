"""Refusals in the names of the program that was asked about: what a derived recursion calls Gamma[t,s,0,3](l; l') is,
for who wrote the program, a coefficient of the vector x."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from ..calculus.coefficients import Bases
from ..calculus.setting import Setting
from ..errors import NotCovered
from .quantities import Sort

COEFFICIENT = re.compile(r"Gamma\[[^\]]*?(\d+),[^,\]]*\](\([^()]*\))?")
COVARIANCE = re.compile(r"\bC\[[^\]]*?(\d+)(-\d+)?\](\([^()]*\))?")
SORTS = {sort.value: {Sort.COEFFICIENT: "coefficient", Sort.COVARIANCE: "covariance"}.get(sort, sort.value)
         for sort in Sort}
QUANTITY = re.compile(rf"\b({'|'.join(SORTS)}) (\d+)\[(-?\d+)\](?: over (-?\d+)\[(-?\d+)\])?")


@contextmanager
def in_names_of(setting: Setting) -> Iterator[None]:
    """What is refused inside is refused in the program's names."""
    try:
        yield
    except NotCovered as refusal:
        said = in_program_names(str(refusal), setting)
        if said == str(refusal):
            raise
        raise type(refusal)(said) from refusal


def in_program_names(text: str, setting: Setting) -> str:
    """A sentence on a derived recursion or on ket equations as one on their program.

    >>> import tpcalc as tp
    >>> setting = tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling())).setting
    >>> in_program_names("Gamma[t,s,0,1](l; m)*rho_W[t]", setting), in_program_names("Gamma 0[1] over 1[0]", setting)
    ('coefficient(x)*memory(W)', 'coefficient of x at step 1 and of a product with W at step 0')
    """
    families = [v.name for v in setting.families]
    matrices = [p.matrix.name for p in setting.products]

    def of(names: list[str], number: str) -> str:
        return names[int(number)] if int(number) < len(names) else "an initial vector"

    def quantity(found: re.Match[str]) -> str:
        names = matrices if found[1] == Sort.COVARIANCE.value else families
        said = f"{SORTS[found[1]]} of {of(names, found[2])} at step {found[3]}"
        if found[4] is None:
            return said
        return f"{said} and of a product with {of(matrices, found[4])} at step {found[5]}" if int(found[5]) >= 0 else (
            f"{said} and of an initial vector")

    for matrix in sorted({m.name for m in setting.trained()}, key=len, reverse=True):
        text = re.sub(rf"\b(rho|w)_{re.escape(matrix)}\[[^\]]*\]", f"memory({matrix})", text)
    text = COEFFICIENT.sub(lambda found: f"coefficient({of(families, found[1])})", text)
    text = COVARIANCE.sub(lambda found: f"covariance({of(matrices, found[1])})", text)
    bases = Bases(setting)
    indices = {str(i) for i in (*bases.generic().free_symbols, *bases.below, *bases.above, setting.past)}
    primed = re.compile(rf"\b({'|'.join(map(re.escape, indices))})'+(?=\W|$)")
    return primed.sub(r"\1", QUANTITY.sub(quantity, text))
