"""What the updates of each matrix do by themselves: counted in the network's own terms, the others' left out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Iterator, Mapping

import sympy as sp

from .._shown import Short, or_why
from ..scaling import Scaling
from .counted import BranchesApart, Judged, apart_of
from .counting import training_terms
from .layer_jet import layer_jet
from .second_order import block_jet, second_order
from .sizes import Exponents

LEARNS, DRIFTS, LAZY, UNSTABLE, UNDECIDED = "learns", "drifts", "lazy", "unstable", "undecided"
HAPPENS = {
    LEARNS: "its updates change what it acts on in its own layer, and the network",
    DRIFTS: "its updates vanish in a layer, and add up over layers to order one",
    LAZY: "its updates have no effect on the network",
    UNSTABLE: "its updates alone make the network grow",
    UNDECIDED: "of which upper bounds alone are known"}


@dataclass(frozen=True, repr=False)
class MatrixVerdict(Short):
    """What the updates of one matrix of a block do, where no other matrix is trained.

    gamma: its update exponent; update: the power of L of what an update makes of what the matrix acts on, in a layer;
    effect, output: of what one step's updates of all layers change in the stream and in f. name: "learns" where update
    and effect are of order one, "drifts" where the effect alone is, "lazy" where it vanishes, "unstable" where it
    grows, "undecided" where what decides is known to be an upper bound only. second_order: the power of L of the ratio
    of the second-order to the first-order part of what the update does to the block, together with those of other
    matrices, -oo where there is none; partners: the matrices with whose
    updates it interacts so. complete: that ratio does not vanish.

    Source: Tensor Programs VI, K.2 and K.3; the ratio is what arXiv:2505.01618 asks a network to keep. That inner
    matrices drift as the last one does was contested [contested/inner_matrices].

    >>> import tpcalc as tp
    >>> found = tp.classify(1, 0, tp.ResNet("linear", "mlp")).matrices["W1"]
    >>> found.name, found.second_order, found.partners
    ('learns', 0, ('W2',))
    """

    matrix: str
    gamma: sp.Expr
    name: str
    update: sp.Expr
    effect: sp.Expr
    output: sp.Expr
    second_order: sp.Expr
    partners: tuple[str, ...]

    @property
    def complete(self) -> bool:
        return bool(self.second_order >= 0)

    @property
    def reason(self) -> str:
        """The verdict in a sentence, with the powers that decide."""
        sizes = {"a layer": self.update, "the stream": self.effect, "f": self.output}
        said = ", ".join(f"L^({power}) in {where}" for where, power in sizes.items())
        return f"{self.matrix}, gamma = {self.gamma}: {self.name}, {HAPPENS[self.name]} ({said})"

    def __str__(self) -> str:
        if not self.partners:
            return f"{self.reason}; the block is linear in it"
        return (f"{self.reason}; second over first order L^({self.second_order}), with "
                f"{', '.join(self.partners)}")


class MatrixVerdicts(Mapping[str, MatrixVerdict]):
    """The verdicts on all matrices of a network's blocks at a scaling, by name, counted when one is asked for."""

    def __init__(self, net: Judged, scale: Scaling, updates: int = 1) -> None:
        self.net, self.scale, self.updates = net, scale, updates

    def __iter__(self) -> Iterator[str]:
        return iter(self.net.trained_of_block)

    def __len__(self) -> int:
        return len(self.net.trained_of_block)

    def __getitem__(self, name: str) -> MatrixVerdict:
        return dict(_verdicts(self.net, self.scale, self.updates))[name]

    def __repr__(self) -> str:
        return f"MatrixVerdicts({', '.join(self)})"

    def __str__(self) -> str:
        return "\n".join(or_why(lambda: self[name]) for name in self)


def gammas_of(matrices: Mapping[str, MatrixVerdict]) -> dict[str, sp.Expr]:
    """The update exponents, without counting anything."""
    assert isinstance(matrices, MatrixVerdicts)
    apart = apart_of(matrices.net)
    return {name: matrices.scale.update_exponent(name) + apart.get(name, 0) for name in matrices}


def alphas_of(matrices: Mapping[str, MatrixVerdict], alpha: sp.Expr) -> dict[str, sp.Expr]:
    """alpha by kinds of branches, where these differ."""
    net = getattr(matrices, "net", None)
    return {kind: alpha + power for kind, power in zip(net.branch_kinds, net.apart)} if isinstance(
        net, BranchesApart) else {}


@lru_cache(maxsize=128)
def _verdicts(net: Judged, scale: Scaling, updates: int) -> tuple[tuple[str, MatrixVerdict], ...]:
    terms = training_terms(net, scale)
    found = {name: terms.alone(name, updates) for name in net.trained_of_block}
    jet = layer_jet(terms.source) if terms.values else block_jet(net)  # in symbols it is the same everywhere
    together = second_order(jet, {name: e.update.at(()) for name, e in found.items()})
    apart = apart_of(net)
    return tuple((name, _verdict(name, scale.update_exponent(name) + apart.get(name, 0), e, *together[name]))
                 for name, e in found.items())


def _verdict(name: str, gamma: sp.Expr, e: Exponents, ratio: sp.Expr, partners: tuple[str, ...]) -> MatrixVerdict:
    sizes = {"update": e.update.at(()), **{key: sp.oo if e.explosions else getattr(e, key).at(())
                                           for key in ("dx", "df")}}
    largest = max(("dx", "df"), key=lambda key: sizes[key])
    effect = sizes[largest]
    kind = UNSTABLE if effect > 0 else LAZY if effect < 0 else LEARNS if sizes["update"] >= 0 else DRIFTS
    decides = {UNSTABLE: {largest}, LAZY: set(), LEARNS: {largest, "update"}, DRIFTS: {largest}}[kind]
    if not e.exact and (e.bounds & decides or e.explosions):
        kind = UNDECIDED
    return MatrixVerdict(name, gamma, kind, sizes["update"], sizes["dx"], sizes["df"], ratio,
                         partners)
