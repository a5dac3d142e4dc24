"""``phase_diagram``: the plane of two exponents, (alpha, gamma) or others, divided exactly by what verdicts say."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Sequence

import sympy as sp

from ..._types import Number, PlotAxes
from ..._checks import axes, exponent, instance, short, symbolic
from ..._shown import Short
from ...derivations.printing import latex
from ...orders import Region, point_of
from ...limits import LimitRegion
from ...scaling import DepthScaling, Parametrization, WidthScaling
from ...models import ResNet
from ...models.network import Network
from ...optimizers.updates import optimizer_name
from ...width.regimes import WidthRegime
from .drawing import plot_phase_diagram
from .html import html
from .picture import PhasePicture, picture
from .plane import COORDINATES, ExponentPlane
from .regions import Point, area, corners, crossing, dimension, faces, joined_faces, lines_of, needed
from ..verdict import Verdict
from ..visits import VisitVerdict
from .visit_plane import JointVerdict, VisitPlane
from .width_plane import WidthPlane

MARGIN = Fraction(3, 4)  # of the box around the corners
ANSWERS = {True: "yes", False: "no", None: "-"}


@dataclass(frozen=True, repr=False)
class PhaseRegion(Short):
    """A polyhedron of the plane, perhaps a segment or a point, on which all verdicts have the same name and flags.

    verdict: at a point inside it; vertices: (k, 2) exact, of its closure's part in the diagram's box, in order around
    it; dimension: 2, 1 or 0; symbols: the plane's.

    >>> import tpcalc as tp
    >>> region = tp.phase_diagram().at(1, 0)
    >>> region.name, region.dimension
    ('ODE limit', 0)
    """

    region: Region
    verdict: Verdict | WidthRegime | VisitVerdict | JointVerdict
    vertices: tuple[Point, ...]
    dimension: int
    symbols: tuple[sp.Symbol, ...] = COORDINATES

    @cached_property
    def conditions(self) -> tuple[sp.Expr, ...]:
        """Equations and inequalities in the plane's symbols, none of which follows from the others."""
        return self.region.expressions(self.symbols)

    @property
    def name(self) -> str:
        return self.verdict.name

    @property
    def flags(self) -> dict[str, bool | None]:
        return {name: value for name, value in self.verdict.said.items() if name != "diversity_exponent"}

    @property
    def row(self) -> dict[str, str]:
        """What a table says of it, as text."""
        where = ", ".join(f"{c.lhs} = {c.rhs}" if isinstance(c, sp.Eq) else str(c) for c in self.conditions)
        return {"name": self.name, "where": where or "everywhere", "dimension": str(self.dimension),
                **{name: _answer(value) for name, value in self.verdict.said.items()}}


@dataclass(frozen=True, repr=False)
class PhaseDiagram(Short):
    """A plane of a network's exponents, divided into the fewest polyhedra found on which verdicts agree.

    net: None for powers of the width, which are a perceptron's. regions: they share no point and cover the plane; the
    largest first. box: lowest and highest (alpha, gamma) of a drawing, around all corners. plane: the scaling that was
    given, with its two symbols; (alpha, gamma) by default.

    Source: Tensor Programs VI, section 5 and Figure 1, here from the exponents of the network at hand.

    >>> import tpcalc as tp
    >>> diagram = tp.phase_diagram()
    >>> diagram.at(0.5, 0.5).name, len(diagram.regions)
    ('Depth-muP', 11)
    """

    net: Network | None
    regions: tuple[PhaseRegion, ...]
    box: tuple[Point, Point]
    plane: ExponentPlane | WidthPlane | VisitPlane

    @property
    def symbols(self) -> tuple[sp.Symbol, ...]:
        """What the plane is of: the one to the right, and the one upwards."""
        return self.plane.symbols

    def at(self, alpha: Number, gamma: Number) -> PhaseRegion:
        """The region of a point; numbers, 0.1 meaning 1/10, of the first and of the second symbol.

        Raises ``ValueError`` for what is not a real number.
        """
        point = self._point(alpha, gamma)
        return next(one for one in self.regions if one.region.contains(point))

    @property
    def limits(self) -> tuple[LimitRegion, ...]:
        """The limits of infinite depth by regions; () for networks whose training is no recursion of numbers."""
        return self.plane.limits

    def rate(self, alpha: Number, gamma: Number) -> sp.Expr | None:
        """r with |outputs at depth L - limit| ~ L^-r, exact; None where there is no limit or none is derived."""
        point = self._point(alpha, gamma)
        one = next((one for one in self.limits if one.has_limit and one.region.contains(point)), None)
        return None if one is None else one.rate.subs(dict(zip(COORDINATES, map(symbolic, point))))

    def rates(self, phase: PhaseRegion) -> tuple[tuple[tuple[sp.Expr, ...], sp.Expr], ...]:
        """The rate on a region of the diagram, as pairs of conditions and expression."""
        instance("phase", phase, PhaseRegion, "one of the diagram's regions, a tp.verdicts.phases.PhaseRegion")
        found = []
        for one in self.limits:
            common = Region(2, (*phase.region.conditions, *one.region.conditions))
            if one.has_limit and not common.is_empty:
                rate = one.rate.xreplace(dict(zip(COORDINATES, self.symbols)))
                found.append((common.expressions(self.symbols), rate))
        return tuple(found)

    def _point(self, *given: Number) -> tuple[sp.Expr, ...]:
        numbers = {s: exponent(s.name, value) for s, value in zip(self.symbols, given)}
        for s, number in numbers.items():
            if not number.is_number:
                raise ValueError(f"{s}: got {number}; expected a real number")
        return point_of(numbers, self.symbols)

    def table(self) -> str:
        """A line a region: name, where it is, flags, diversity exponent."""
        rows = [{key: key.replace("_", " ") for key in self.regions[0].row}, *(one.row for one in self.regions)]
        widths = {key: max(len(row[key]) for row in rows) for key in rows[0]}
        return "\n".join("  ".join(row[key].ljust(widths[key]) for key in widths).rstrip() for row in rows)

    def __str__(self) -> str:
        return self.table()

    def latex(self) -> str:
        """A ``tabular`` with the same lines."""
        names = list(self.regions[0].verdict.said)
        lines = [" & ".join(["region", "where", *(name.replace("_", " ") for name in names)])]
        for one in self.regions:
            where = ",\\; ".join(map(latex, one.conditions))
            said = (f"${latex(value)}$" if isinstance(value, sp.Expr) else _answer(value).replace("-", "--")
                    for value in one.verdict.said.values())
            lines.append(" & ".join([one.name, f"${where}$", *said]))
        body = " \\\\\n".join(lines)
        return f"\\begin{{tabular}}{{ll{'l' * len(names)}}}\n{body}\n\\end{{tabular}}"

    def _repr_html_(self) -> str:
        return self.html()

    @cached_property
    def picture(self) -> PhasePicture:
        """What drawings show, as plain data."""
        return picture(self)

    def plot(self, ax: PlotAxes = None) -> PlotAxes:
        """Regions, and the rate towards the limit along lines with a nontrivial one; returns the matplotlib axes.

        ax: where to draw; default a new figure. Raises ``MissingExtra`` without matplotlib.
        """
        axes("ax", ax)
        return plot_phase_diagram(self.picture, ax)

    def html(self) -> str:
        """A piece of HTML that needs nothing but itself: the picture, with what is known of a region as its tooltip."""
        return html(self.picture)


def phase_diagram(net: Network | None = None, scale: DepthScaling | Parametrization | WidthScaling | None = None,
                  optimizer: object = None, visits: Sequence[Any] | None = None) -> PhaseDiagram:
    """Divide a plane of exponents by verdicts: faces of all lines on which an exponent changes, joined again.

    net: default the linear residual network. scale: default the plane of (alpha, gamma); else a scaling with two
    symbols, which it is the plane of: alpha and the update exponents of matrices are numbers or affine forms in them.
    Powers by parameter, of a ``tp.Parametrization``, may have the symbols, too, beside the optimizer: a matrix's init
    against its learning rate; eps is negligible then.
    A ``tp.WidthScaling`` with two symbols is a plane of powers of n, of a perceptron of its layers and without a net;
    its regions are named as ``tpcalc.width.width_regime`` names them.
    visits: a pair (branch, lr) of powers of 1/N, numbers or affine forms in symbols, for layers that are visited N
    times: verdicts are those of ``tp.theory.classify_visits``. Its symbols, and those of a ``tp.DepthScaling`` beside
    it, are two together; a region then has both verdicts.
    Nothing is sampled: every face is judged at a point inside it, and between its lines no flag can change. The
    verdict at a point is that of ``tp.classify`` for the scaling there. The two symbols stand for any real numbers,
    whatever is supposed of them. Raises ``ValueError`` for anything but a ``tp.ResNet``, or None with a
    ``tp.WidthScaling``, for a network with a statement that no rule covers, naming it, for scalings with other
    numbers of symbols, and for a ``tp.Parametrization`` that is not muP in width. Source: Tensor Programs VI,
    section 5, Definitions 5.1 to 5.6 and G.1, for planes of other exponents K.3, and for powers of n Tensor
    Programs IV, section 3.

    >>> import sympy as sp, tpcalc as tp
    >>> diagram = tp.phase_diagram()
    >>> diagram.at(1, 0).name
    'ODE limit'
    >>> p, q = sp.symbols("p q", real=True)
    >>> found = tp.phase_diagram(scale=tp.DepthScaling(p, q - p))
    >>> found.symbols, found.at(1, 1).name, found.at(1, 2).name
    ((p, q), 'ODE limit', 'trivial')
    >>> s, r = sp.symbols("s r", real=True)
    >>> wide = tp.phase_diagram(scale=tp.WidthScaling([0, 0, s], [0, 0, s], r))
    >>> [wide.at(*point).name for point in ((0, 0), (1, 1), (1, 0), (0, 1))]
    ['kernel regime', 'feature learning', 'trivial', 'unstable']
    >>> loops = tp.phase_diagram(optimizer="adam", visits=(p, q))
    >>> print(loops.at(1, 0).name, *loops.at(1, 0).conditions, sep=", ")
    does not depend on the number of visits, Eq(p, 1), Eq(q, 0)
    """
    if visits is not None:
        return _diagram(net, VisitPlane.of(ResNet() if net is None else net, scale, optimizer, visits))
    if not isinstance(net, (ResNet, type(None))):
        raise ValueError(f"net: got {net!r}; expected a tp.ResNet or None")
    if not isinstance(scale, (DepthScaling, Parametrization, WidthScaling, type(None))):
        raise ValueError(f"scale: got {short(scale)}; expected a tp.DepthScaling, a tp.Parametrization, "
                         "a tp.WidthScaling or None")
    rule = optimizer_name("sgd" if optimizer is None else optimizer)
    if not isinstance(scale, WidthScaling):
        net = ResNet() if net is None else net
        plane: ExponentPlane | WidthPlane = ExponentPlane.of(net, scale, rule)
    elif net is None:
        plane = WidthPlane.of(scale)
    else:
        raise ValueError(f"net: got {net!r} with a tp.WidthScaling, which is of a perceptron; expected None")
    return _diagram(net, plane)


def _diagram(net: Network | None, plane: ExponentPlane | WidthPlane | VisitPlane) -> PhaseDiagram:
    lines = lines_of(plane.decisive())
    verdicts = {signs: plane.judged(face) for signs, face in faces(lines).items()}
    kinds = {signs: (verdict.name, *verdict.said.values()) for signs, verdict in verdicts.items()}
    parts = [region for region, _ in joined_faces(*needed(lines, kinds))]
    box = _box(parts)
    found = [PhaseRegion(region, plane.judged(region), corners(region, box), dimension(region), plane.symbols)
             for region in parts]
    return PhaseDiagram(net, tuple(sorted(found, key=_location)), box, plane)


def _location(one: PhaseRegion) -> tuple:
    """Large regions first, of points those to the right."""
    return -one.dimension, -area(one.vertices), [-x for x, _ in one.vertices if not one.dimension]


def _answer(value: bool | sp.Expr | None) -> str:
    return str(value) if isinstance(value, sp.Expr) else ANSWERS[value]


def _box(parts: list[Region]) -> tuple[Point, Point]:
    """Around all points where walls of regions meet, and around one of each region that lies outside of these."""
    points = [point for part in parts for i, c in enumerate(part.conditions) for d in part.conditions[:i]
              for point in crossing(c.form, d.form) if all(one.form.at(point) >= 0 for one in part.conditions)]
    box = _around(points or [(Fraction(0), Fraction(0))])
    outside = [point for part in parts if not corners(part, box) and (point := part.point()) is not None]
    return _around([*points, *outside]) if outside else box


def _around(points: Sequence[tuple[Fraction, ...]]) -> tuple[Point, Point]:
    alphas, gammas = zip(*points)
    return (min(alphas) - MARGIN, min(gammas) - MARGIN), (max(alphas) + MARGIN, max(gammas) + MARGIN)
