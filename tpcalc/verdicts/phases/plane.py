"""The plane of two exponents of a scaling: which symbols they are, and the network's exponents of L on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Iterator, Mapping

import sympy as sp

from ..._checks import short, symbolic
from ...calculus import kets
from ...errors import NotCovered
from ...limits.depth_limit import LimitRegion, depth_limit
from ...lowering.recursions.recursion import recursion
from ...orders import Affine, Exponent, NotAffine, Region
from ...scaling import DepthScaling, Parametrization, Scaling
from ...optimizers import SGD
from ...models import ResNet
from ...training.builders import counted_training
from ...training.by_parameter import exponents_of_powers
from ..counting import ALPHA, GAMMA
from ..counted import require_frozen_embedding_readout
from ..exponents import exponents_of
from ..network_sizes import MatrixVerdicts
from .regions import Point, faces, lines_of
from ..verdict import Verdict, judge_exponents
from ..ket_exponents import Exponents

COORDINATES = (ALPHA, GAMMA)
Cells = tuple[tuple[Region, Exponents], ...]


@dataclass(frozen=True)
class ExponentPlane:
    """A network, and a scaling that has two symbols, which stand here as ``COORDINATES``.

    symbols: theirs, in the order in which the scaling names them. Raises ``ValueError`` for scalings of other numbers
    of symbols, which are not affine in them, or which have no powers of L that could be counted.
    """

    net: ResNet
    scale: Scaling
    symbols: tuple[sp.Symbol, ...] = COORDINATES

    @classmethod
    def of(cls, net: ResNet, scale: Scaling | None, optimizer: str = "sgd") -> ExponentPlane:
        net = net.narrow
        net.require_no_vectors("a phase diagram")
        if scale is None:
            return cls(net, DepthScaling(ALPHA, GAMMA))
        require_frozen_embedding_readout(net)
        names = net.matrices_of_block
        whole = scale
        if isinstance(scale, Parametrization):
            if scale.parameters is not None:
                scale = exponents_of_powers(scale, net, optimizer)
            scale.require_mup(ends=False)
            scale = scale.over(names, ends=False)
        found = tuple(dict.fromkeys(s for e in plane_exponents(scale, names) for s in sorted(e.free_symbols, key=str)))
        if len(found) != 2:
            raise ValueError(f"scale: got {short(whole)}, with {len(found)} symbols ({', '.join(map(str, found))}) "
                             f"in the exponents of a block with frozen embedding and readout, alpha and those of "
                             f"{', '.join(names)}; expected two, of which the plane is")
        plane = cls(net, substituted(scale, dict(zip(found, COORDINATES)), names), plain(found))
        try:
            plane.pieces
        except NotAffine:
            raise NotCovered(f"scale: got {short(whole)}; expected exponents that are affine forms in "
                             f"{', '.join(map(str, found))} with rational coefficients") from None
        return plane

    @property
    def of_depth_scalings(self) -> bool:
        """Is it the plane of (alpha, gamma)?"""
        return self.scale == DepthScaling(ALPHA, GAMMA)

    def at(self, point: tuple[sp.Expr, ...]) -> Scaling:
        """The scaling at a point, with numbers."""
        names = self.net.matrices_of_block
        there = substituted(self.scale, dict(zip(COORDINATES, point)), names)
        return there if isinstance(there, DepthScaling) else there.over(names, ends=False)

    @cached_property
    def pieces(self) -> tuple[tuple[Region, Scaling], ...]:
        """Parts of the plane on which the scaling's exponents are affine forms, with these."""
        names = self.net.matrices_of_block
        extrema = sorted({e for one in plane_exponents(self.scale, names) for e in one.atoms(sp.Max, sp.Min)}, key=str)
        lines = lines_of(Affine.of(a - b, COORDINATES) for e in extrema for a in e.args for b in e.args if a != b)
        found = tuple((face, substituted(self.scale, dict(_chosen(extrema, face)), names))
                      for face in faces(lines).values())
        for e in (e for _, scale in found for e in plane_exponents(scale, names)):
            Affine.of(e, COORDINATES)  # refused where it is not
        return found

    @cached_property
    def cells(self) -> Cells:
        """Exponents of L on regions that cover the plane."""
        if self.of_depth_scalings:
            return exponents_of(self.net)
        found = []
        for piece, scale in self.pieces:
            for region, sizes in exponents_of(counted_training(self.net, SGD(), scale)):
                if region.size != 2:
                    raise NotCovered(f"scale: got {short(scale)}, of whose exponents one enters nothing that is "
                                     "counted; expected two that do")
                common = Region(2, tuple(dict.fromkeys((*piece.conditions, *region.conditions))))
                if not common.is_empty:
                    found.append((common, sizes))
        return tuple(found)

    @cached_property
    def limits(self) -> tuple[LimitRegion, ...]:
        """The limits of infinite depth by regions; () for networks whose training is no recursion of numbers."""
        if not self.net.is_linear:
            return ()
        return tuple(replace(one, region=Region(2, (*piece.conditions, *one.region.conditions)))
                     for piece, scale in self.pieces
                     for one in depth_limit(recursion(kets(counted_training(self.net, SGD(), scale)))).regions)

    def decisive(self) -> Iterator[Affine]:
        """Forms whose signs say where a point lies and what its verdict is."""
        for region, found in self.cells:
            yield from decisive(region, found)

    def judged(self, face: Region) -> Verdict:
        """The verdict at a point inside a face."""
        point = face.point()
        assert point is not None
        return self.judged_at(point)

    def judged_at(self, point: tuple[sp.Expr, ...]) -> Verdict:
        """The verdict at a point."""
        region, found = next((region, found) for region, found in self.cells if region.contains(point))
        scale = self.at(tuple(map(symbolic, point)))
        gamma = scale.gamma if isinstance(scale, DepthScaling) else None
        return judge_exponents(scale.alpha, gamma, region, found, MatrixVerdicts(self.net, scale), point)


def decisive(region: Region, found: Exponents) -> Iterator[Affine]:
    """Forms whose signs tell the parts of a region apart on which verdicts differ."""
    yield from (condition.form for condition in region.conditions)
    for field in Exponents.sizes():
        exponent: Exponent = getattr(found, field.name)
        least = 1 if field.name == "linearization" else 0  # an error of order 1/L a layer adds up to one of order one
        yield from (form + Affine.number(least, region.size) for form in exponent.forms)
    yield from (*found.at_first.forms, *found.f_at_first.forms)


def plain(symbols: tuple[sp.Symbol, ...]) -> tuple[sp.Symbol, ...]:
    """Real symbols of these names, of which nothing else is supposed: a plane has both signs of either."""
    names = [symbol.name for symbol in symbols]
    if len(set(names)) < len(names):
        raise ValueError(f"scale: got two symbols of the name {names[0]!r}; expected two names")
    return tuple(sp.Symbol(name, real=True) for name in names)


def plane_exponents(scale: Scaling, names: tuple[str, ...]) -> list[sp.Expr]:
    """alpha, and the update exponents of a block's matrices."""
    return [scale.alpha, *(scale.update_exponent(name) for name in names)]


def substituted(scale: Scaling, values: Mapping[sp.Expr, sp.Expr], names: tuple[str, ...]) -> Scaling:
    """A scaling with other expressions in the places of these."""
    alpha, *gammas = (symbolic(e).xreplace(values) for e in plane_exponents(scale, names))
    if isinstance(scale, DepthScaling):
        return DepthScaling(alpha, gammas[0], scale.branch, scale.base_depth)
    return scale.with_exponents(alpha, dict(zip(names, gammas)))


def _chosen(extrema: list[sp.Expr], face: Region) -> Iterator[tuple[sp.Expr, sp.Expr]]:
    """Minima and maxima, each with the argument that it is all over a face."""
    point: Point | None = face.point()  # type: ignore[assignment]
    assert point is not None
    values = dict(zip(COORDINATES, map(sp.Rational, point)))
    for e in extrema:
        yield e, next(arg for arg in e.args if arg.xreplace(values) == e.xreplace(values))
