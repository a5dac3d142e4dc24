"""What a network's first update does, vector by vector, in n and L, and what each matrix's updates do by themselves.

The latter are counted in the network's own terms, with those of other matrices left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile
from typing import Iterable, Iterator, Mapping

import sympy as sp

from .._shown import Short, Tabled, or_why, text_table
from .._types import Fields
from ..asymptotics import CHANGE as MOVED, KET, SizeSolution, Unknown
from ..optimizers import SGD
from ..orders import Affine, Exponent
from ..programs.language import LossDerivative, Mean, Scalar, Vector
from ..programs.indices import POSITIONS, copied_from
from ..programs.one_position import TWO
from ..scaling import Scaling
from ..width.sizes.measure import measure
from .counted import BranchesApart, FromZero, Judged, apart_of, is_stand_in, written_out
from .counting import Counting, training_terms
from .ket_exponents import Exponents, exponent_of_value, larger
from .layer_jet import block_jet, layer_jet, second_order

STREAM, OUTPUT = "x", "f"
START, CHANGE, GRADIENT, UPDATE, DECAY = "at initialization", "change", "gradient", "update", "decay"
IN_LAYER, IN_STREAM, IN_OUTPUT = "in a layer", "in the stream", "in f"
# Matrices of a program start with entries N(0, 1/n), and what moves them stands over n.
START_OF_ENTRIES, ENTRIES = sp.Rational(-1, 2), sp.Integer(-1)


@dataclass(frozen=True, repr=False)
class NetworkSize(Short):
    """A size n^n L^L of root mean squares over coordinates, or of entries.

    n: None where it is not known. L: -oo where the quantity vanishes at infinite width, oo where it grows faster than
    every power. at_most: is the power of L an upper bound alone?

    >>> print(NetworkSize(sp.Rational(-1, 2), sp.Integer(1)), NetworkSize(sp.Integer(0), sp.Integer(0)))
    n^(-1/2) L^(1) 1
    """

    n: sp.Expr | None
    L: sp.Expr
    at_most: bool = False

    def __str__(self) -> str:
        if self.L == -sp.oo:
            return "0"
        width = "n^(not known)" if self.n is None else f"n^({self.n})" * (self.n != 0)
        depth = "exponential" if self.L == sp.oo else f"L^({self.L})" * (self.L != 0)
        return "at most " * self.at_most + (" ".join(filter(None, (width, depth))) or "1")


class NetworkSizes(Tabled, Mapping[str, Mapping[str, NetworkSize]]):
    """The sizes of vectors and matrices in a network's first update: by name, and then by what is looked at.

    Of the program's vectors (x is the stream) and of the output f: "at initialization" and "change"; of x besides
    "gradient", of the loss in a coordinate of it. Of matrices entries "at initialization", "gradient", of the loss in
    an entry, nothing taken out, and "update", of entries, then "in a layer", "in the stream" and "in f", what its
    update alone changes there; of trained vectors the last four; "decay" is what weight decay takes from entries.
    Counted when one is asked for; of a stream that grows before training there are sizes at initialization alone, and
    where a sweep explodes changes of x and f.

    Powers of n are those of muP: what has a limit at infinite width that does not vanish has power 0, times what the
    program writes in front; an output that vanishes there is read by the rules for finite width, in a network of one
    layer. Raises ``ValueError`` as ``tp.classify`` does, where exponents are not rational too, and ``Divergence`` for
    layers that explode, or forget, by themselves. Source: Tensor Programs VI, section 4 and appendix E.

    >>> import tpcalc as tp
    >>> print(tp.classify(tp.DepthScaling(1, 0.5), tp.ResNet("tanh")).sizes)
       at initialization    change  gradient
    x                  1  L^(-1/2)    n^(-1)
    h                  1  L^(-1/2)         -
    z                  1  L^(-1/2)         -
    f           n^(-1/2)  L^(-1/2)         -
    <BLANKLINE>
       at initialization       gradient           update  in a layer  in the stream      in f
    W           n^(-1/2)  n^(-1) L^(-1)  n^(-1) L^(-1/2)    L^(-1/2)       L^(-1/2)  L^(-1/2)
    """

    def __init__(self, net: Judged, scale: Scaling, trained: bool = True, opt: SGD = SGD(), updates: int = 1
                 ) -> None:
        self.asked = net, scale, trained, opt, updates

    def __getitem__(self, name: str) -> Mapping[str, NetworkSize]:
        return {**self._vectors, **self._matrices}[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*self._vectors, *self._matrices))

    def __len__(self) -> int:
        return len(self._vectors) + len(self._matrices)

    @property
    def _vectors(self) -> dict[str, dict[str, NetworkSize]]:
        return _sizes(*self.asked)[0]

    @property
    def _matrices(self) -> dict[str, dict[str, NetworkSize]]:
        return _sizes(*self.asked)[1]

    @property
    def rows(self) -> list[Fields]:  # type: ignore[override]
        """One a vector or matrix: its name, and its sizes as text."""
        return list({"": name, **{key: str(size) for key, size in one.items()}} for name, one in self.items())

    def __repr__(self) -> str:
        return f"NetworkSizes({', '.join(map(repr, self.asked[:2]))})"  # nothing is counted for it

    def _repr_html_(self) -> str:
        return or_why(super()._repr_html_)

    def __str__(self) -> str:
        return or_why(self._text)

    def _text(self) -> str:
        rows = self.rows
        parts = rows[:len(self._vectors)], rows[len(self._vectors):]
        return "\n\n".join(text_table(part) for part in parts if part)


@lru_cache(maxsize=32)
def _sizes(net: Judged, scale: Scaling, trained: bool, opt: SGD, updates: int
           ) -> tuple[dict[str, dict[str, NetworkSize]], dict[str, dict[str, NetworkSize]]]:
    terms = training_terms(net, scale, opt)
    solution, exponents = terms.together(updates)
    found = _Sizes(net, scale, terms, solution, exponents)
    return found.of_vectors(trained), found.of_matrices(bool(opt.weight_decay), updates) if trained else {}


@dataclass(frozen=True)
class _Sizes:
    """The sizes of a count."""

    net: Judged
    scale: Scaling
    terms: Counting
    solution: SizeSolution
    exponents: Exponents

    def of_vectors(self, trained: bool) -> dict[str, dict[str, NetworkSize]]:
        setting = self.terms.equations.setting
        locations = takewhile(lambda p: not p.statement.value.has(LossDerivative), setting.program.locations())
        streams = self.solution.counted.reading.accumulating
        forward: dict[str, list[int]] = {}
        for target in (p.statement.target for p in locations):
            name = copied_from(target.name)
            family = setting.family_number(target) if isinstance(target, Vector) else None
            if (family is not None and family not in streams and name != STREAM
                    and not is_stand_in(self.net, name)):
                forward.setdefault(name, []).append(family)
        found = {STREAM: {START: _in_limit(self.exponents.x_init, "x_init" in self.exponents.bounds)}}
        found.update({name: {START: self._of(KET, 0, families)} for name, families in forward.items()})
        found[OUTPUT] = {START: self._output()}
        if not trained:
            return found
        if not self.solution.explosions:
            for name, families in forward.items():
                found[name][CHANGE] = self._of(MOVED, self.exponents.after, families)
        for name, key in ((STREAM, "dx"), (OUTPUT, "df")):
            known = self.exponents.known_at(())
            found[name][CHANGE] = _in_limit(getattr(known, key), key in known.bounds)
        back = streams - self.solution.counted.reading.forward
        gradient = self._of(KET, 0, back)
        found[STREAM][GRADIENT] = gradient if gradient.n is None else replace(gradient, n=ENTRIES)
        return found

    def of_matrices(self, decays: bool, updates: int) -> dict[str, dict[str, NetworkSize]]:
        found: dict[str, dict[str, NetworkSize]] = {}
        moves = self.terms.gradients(0)
        for name, verdict in MatrixVerdicts(self.net, self.scale, updates).items():
            one = found.setdefault(name, {})
            n = sp.Integer(0)
            if name in self.net.matrices_of_block:
                n = ENTRIES
                zero = isinstance(self.net, FromZero) and name in self.net.zero
                one[START] = NetworkSize(None, -sp.oo) if zero else NetworkSize(START_OF_ENTRIES, sp.Integer(0))
                one.update({DECAY: one[START]} if decays else {})
                one[GRADIENT] = NetworkSize(n, moves[name] - self.terms.number_of(name) - self.scale.alpha)
            one[UPDATE] = NetworkSize(n, moves[name])
            for location, power in ((IN_LAYER, verdict.update), (IN_STREAM, verdict.effect),
                                    (IN_OUTPUT, verdict.output)):
                one[location] = NetworkSize(sp.Integer(0), power, verdict.name == UNDECIDED)
        return found

    def _of(self, sort: str, step: int, families: Iterable[int]) -> NetworkSize:
        return size_of(self.solution, self.exponents, sort, step, families)

    def _output(self) -> NetworkSize:
        """The output's size; where its limit vanishes, that of the average of independent vectors that it is."""
        if not self.exponents.f_init.vanishes:
            return _in_limit(self.exponents.f_init)
        of = next(p.statement for p in self.terms.source.locations() if isinstance(p.statement.target, Scalar)
                  and p.statement.target.name == OUTPUT)
        mean, = of.value.atoms(Mean)
        setting, power = self.terms.equations.setting, Exponent.single(Affine.number(0, 0))
        if any(setting.initial_number(one) is None for one in mean.atoms(Vector)):  # initial ones are of order one
            power = self.exponents.x_init
        return NetworkSize(output_in_width(self.net, self.scale), power.at(()))


def size_of(solution: SizeSolution, exponents: Exponents, sort: str, step: int, families: Iterable[int]) -> NetworkSize:
    """The largest vector's size, or that of its change, which is an upper bound where terms that are no such come to
    less."""
    value = larger(solution.value_of(Unknown(sort, step, family)) for family in families)
    held = sort == MOVED and Exponents.of_updates() <= exponents.bounds
    return _in_limit(exponent_of_value(solution, value), value is not None and (held or solution.power(value).bound))


def output_in_width(net: Judged, scale: Scaling) -> sp.Expr | None:
    """The power of n of the first output, in a network of one layer, by the rules for finite width; None where these do
    not tell."""
    one = written_out(net, scale)
    sizes = {size.name: TWO if size == POSITIONS else 1 for size in one.sizes}
    asked = [s.target for s in one.unroll(sizes) if s.target.name == OUTPUT][-1]
    found = measure(one, sizes, asked=[asked])
    return None if found.refused else found.power(asked)


def _in_limit(power: Exponent, at_most: bool = False) -> NetworkSize:
    """What has a limit at infinite width has no power of n; what vanishes there has one that no ket tells."""
    return NetworkSize(None if power.vanishes else sp.Integer(0), power.at(()), at_most)


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
