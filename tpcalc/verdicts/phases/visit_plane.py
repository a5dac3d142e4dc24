"""The plane of two exponents of which some are powers of the number of visits, and the others of the depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Iterator, Sequence

import sympy as sp

from ..._checks import exponent, short, symbolic
from ..._shown import Short
from ...errors import NotCovered
from ...models import ResNet
from ...models.network import Network
from ...optimizers.updates import Optimizer
from ...orders import Affine, NotAffine, Region, point_of
from ...scaling import DepthScaling
from ..exponents import exponents_of
from ..verdict import Verdict
from ..visits import VisitVerdict, judged_visits, program_of_visits, update_of_rate, visited_once
from .plane import COORDINATES, ExponentPlane, decisive, plain

EXPECTED = "expected a pair of powers of 1/N, of branches and of learning rates"


@dataclass(frozen=True, repr=False)
class JointVerdict(Short):
    """What powers of L do as the depth grows, and powers of N as the number of visits does, the other size staying."""

    grows: ClassVar[str] = "L, and of N,"

    depth: Verdict
    visits: VisitVerdict

    @property
    def name(self) -> str:
        return f"{self.depth.name}; {self.visits.name}"

    @property
    def said(self) -> dict[str, Any]:
        return {f"{name} in {one.grows}": flag for one in (self.depth, self.visits) for name, flag in one.said.items()}

    @property
    def exponents(self) -> dict[str, sp.Expr]:
        return {f"{name}, {one.grows}": power for one in (self.depth, self.visits)
                for name, power in one.exponents.items()}

    @property
    def where(self) -> str:
        return f"{self.depth.where}; {self.visits.where}"


@dataclass(frozen=True)
class VisitPlane:
    """A network whose layers are visited N times, and powers of two symbols.

    once, opt, assumed: of ``visited_once``; powers: of 1/N, of branches and rates; depth, scale: the plane of powers of
    1/L, and where in it one is; None without these. symbols: in the order in which scale and powers have them.
    """

    once: Network
    opt: Optimizer
    assumed: tuple[str, ...]
    powers: tuple[sp.Expr, ...]
    depth: ExponentPlane | None
    scale: tuple[sp.Expr, ...]
    symbols: tuple[sp.Symbol, ...]
    of_depth_scalings: ClassVar[bool] = False
    limits: ClassVar[tuple] = ()

    @classmethod
    def of(cls, net: Network, scale: Any, opt: object, visits: Sequence[Any]) -> VisitPlane:
        """Raises ``ValueError`` for other numbers of symbols and what is no pair, ``NotCovered`` where powers are not
        affine in them, and where those of N, or of L, are not counted."""
        if not isinstance(visits, (tuple, list)) or len(visits) != 2:
            raise ValueError(f"visits: got {short(visits)}; {EXPECTED}")
        if not isinstance(scale, (DepthScaling, type(None))):
            raise ValueError(f"scale: got {short(scale)} with visits; expected a tp.DepthScaling or None")
        if scale is not None and not isinstance(net, ResNet):
            raise ValueError(f"net: got {short(net)} with a scale and visits; expected a tp.ResNet")
        given = [exponent("visits", power) for power in visits]
        beside = "" if scale is None else f" with {short(scale)}"
        once, optimizer, assumed = visited_once(net, opt)
        exponents = [] if scale is None else [scale.alpha, scale.gamma]
        found = tuple(dict.fromkeys(s for e in (*exponents, *given) for s in sorted(e.free_symbols, key=str)))
        if len(found) != 2:
            raise ValueError(f"visits: got {short(visits)}{beside}, with {len(found)} symbols "
                             f"({', '.join(map(str, found))}); expected two, of which the plane is")
        symbols = plain(found)
        alone, powers = (tuple(e.xreplace(dict(zip(found, symbols))) for e in some) for some in (exponents, given))
        depth = None if scale is None else ExponentPlane.of(net, None)  # type: ignore[arg-type]
        plane = cls(once, optimizer, assumed, powers, depth, alone, symbols)
        try:
            for e in (*alone, *powers):
                Affine.of(e, symbols)
        except NotAffine:
            raise NotCovered(f"visits: got {short(visits)}{beside}; expected powers that are affine forms in "
                             f"{', '.join(map(str, found))} with rational coefficients") from None
        return plane

    def decisive(self) -> Iterator[Affine]:
        """Forms whose signs say where a point lies and what its verdicts are."""
        branch, lr = self.powers
        forms = {self._here(form, (branch, update_of_rate(self.opt, branch, lr)))
                 for region, found in exponents_of(program_of_visits(self.once, DepthScaling(*COORDINATES)))
                 for form in decisive(region, found)} | {Affine.of(branch, self.symbols)}
        if self.depth is not None:
            forms |= {self._here(form, self.scale) for form in self.depth.decisive()}
        yield from sorted(forms)

    def judged(self, face: Region) -> VisitVerdict | JointVerdict:
        """The verdict at a point inside a face."""
        point = face.point()
        assert point is not None
        at = dict(zip(self.symbols, map(symbolic, point)))
        visits = self._visits(*(power.subs(at) for power in self.powers))
        if self.depth is None:
            return visits
        exponents = dict(zip(COORDINATES, (e.subs(at) for e in self.scale)))
        return JointVerdict(self.depth.judged_at(point_of(exponents, COORDINATES)), visits)

    def _visits(self, branch: sp.Expr, lr: sp.Expr) -> VisitVerdict:
        try:
            return judged_visits(self.once, self.opt, branch, lr, self.assumed)
        except NotCovered as refusal:
            return VisitVerdict.not_counted(branch, lr, self.opt, str(refusal))

    def _here(self, form: Affine, exponents: Sequence[sp.Expr]) -> Affine:
        """A form in two exponents as one in the symbols that these are made of."""
        return Affine.of(form.expression(COORDINATES).subs(dict(zip(COORDINATES, exponents)), simultaneous=True),
                         self.symbols)
