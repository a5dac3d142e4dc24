"""``cite``: where a statement or a result comes from, and how well it stands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from .._checks import short
from .._shown import Short
from ..calculus import KetEquations, RecursionEquations
from ..action.densities import Densities
from ..programs.program import Program
from ..results import Run
from ..studies import CauchyDifferences, Convergence
from . import catalogue
from .checking import check
from .entry import Entry
from .graph import unknown_key
from .status import Status

INTERPRETERS = {"coefficients": "tensor_programs_vi/lemma_d1", "reflection": "tpcalc/reflection_form",
                "collocation": "tensor_programs_vi/proposition_d2", "dense": "tensor_programs_vi/program_1",
                "particles": "tensor_programs_vi/definition_c1", "conditioned": "gaussian/conditioning"}
NONLINEAR = {**INTERPRETERS, "collocation": "tpcalc/action_principle"}
RESULTS = ((Program, "tensor_programs_vi/program_1"), (KetEquations, "tensor_programs_vi/ket_equations"),
           (RecursionEquations, "tensor_programs_vi/recursion_h3"), (Convergence, "tensor_programs_vi/proposition_d2"),
           (CauchyDifferences, "tensor_programs_vi/theorem_d3"), (Densities, "tpcalc/block_densities"))


@dataclass(frozen=True, repr=False)
class Citation(Short):
    """An entry of the ledger, to be cited. The status is computed when it is asked for, which takes seconds.

    >>> import tpcalc as tp
    >>> tp.theory.cite("tensor_programs_vi/lemma_d1").source
    'Tensor Programs VI, lemma D.1'
    """

    entry: Entry

    key = property(lambda self: self.entry.key)
    source = property(lambda self: self.entry.source)

    @cached_property
    def status(self) -> Status:
        """The entry's proof, evidence and witnesses, and those of all it uses, are run once a process."""
        return _status(self.entry.key)

    def __str__(self) -> str:
        return f"{self.source} [{self.key}]: {self.entry.title}\n{self.status}"


@lru_cache(maxsize=None)
def _status(key: str) -> Status:
    return check(catalogue.entries(), [key]).statuses[key]


def cite(what: object) -> Citation:
    """Source and status of a key of the ledger, or of the statement that a result rests on.

    what: a key such as ``"tensor_programs_vi/lemma_d1"``, or a result: a program, ket equations, a recursion, a run,
    a convergence, Cauchy differences, densities. Printing the citation gives two lines, source and status. Raises
    ``ValueError`` for a key that the ledger does not have, naming the nearest, and for results it says nothing about.

    >>> import tpcalc as tp
    >>> tp.theory.cite("tensor_programs_vi/lemma_d1").source
    'Tensor Programs VI, lemma D.1'
    """
    if isinstance(what, str):
        if what not in catalogue.keys():
            raise unknown_key(what, catalogue.keys(), "what")
        return Citation(catalogue.entry(what))
    if isinstance(what, Run):
        key = (INTERPRETERS if what.linear else NONLINEAR).get(what.method)
    else:
        key = next((key for kind, key in RESULTS if isinstance(what, kind)), None)
    if key is None:
        raise ValueError(f"what: got {short(what)}; expected a key ({', '.join(catalogue.keys())}), or a program, ket "
                         "equations, a recursion, a run, a convergence, Cauchy differences or densities")
    return Citation(catalogue.entry(key))
