"""``solve``: the exponents that are asked for, as exact regions, with one parametrization of them and with reasons."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import Any, Callable, Iterable, Mapping, Sequence

import sympy as sp

from ..._checks import short
from ..._shown import Short
from ..._text import Aligned
from ..counted import WIDE, Judged, by_gates, require_untied
from ..counting import Counting, optimizer_or_default, symbols_of
from ..visits import program_of_visits, visited_once
from ...derivations.printing import latex
from ...errors import NotCovered
from ...orders import Affine, Region
from ...orders.polytope import Polytope
from ...scaling import DepthScaling, Parametrization
from ...scaling.parametrization import as_power
from ...models import ResNet
from ...models.network import Network
from ...training.builders import require_vectors_taken
from ...optimizers.clipped import Clipped
from ...width.layers import Perceptron
from .choosing import chosen, objective
from .pieces import Bounds, Piece, Pieces
from .settings import ALL, DECAYING, SETTINGS_RULES, TRAINING, DepthSettings, Key, PowerSettings, Recipe
from .sizes import DepthSizes, Reason
from .table import USUAL, WISHES, Wish, sizes_at_most, wishes
from .width_powers import WidthSettings, WidthSizes


class VisitSizes(DepthSizes):
    """The sizes of a training whose layers are visited N times, as ``classify_visits`` counts them."""

    grows, summed = "N", 1

    def _terms(self) -> Counting:
        return Counting.of(program_of_visits(self.net, Parametrization(depth=symbols_of(self.net))))


class VisitSettings(DepthSettings):
    """What an optimizer and a branch multiplier are set to, as powers of N."""

    def recipe(self, point: Sequence[Fraction]) -> None:
        """None: no scaling has powers of N, by which builders divide."""

    @property
    def assumed(self) -> list[str]:
        return [TRAINING, *[DECAYING] * self.has_decay]


@dataclass(frozen=True, repr=False)
class SolvedPowers(Short, Aligned):
    """What is left of the powers of L that one sets where wishes are met.

    region: polytopes in the free powers, in the order of ``powers``, {(parameter, setting): symbol}, empty where wishes
    exclude each other; exponents: the same polytopes in alpha and the gammas, in the order of ``symbols``. recipe: one
    parametrization of it, None where there is none; settings: the powers that it sets. reasons: by facet, and by
    equation, of the region, the term of the program that makes it and the rule by which it counts. conflict: the
    smallest set of wishes that are known to exclude each other, each with its reason, None where there is an answer.
    assumed: what the region takes for granted; grows: the variable, "L", "N" or "n".

    >>> import tpcalc as tp
    >>> found = tp.solve(tp.ResNet(), want=("stable", "nontrivial", "diverse"))
    >>> found.recipe.alpha, found.recipe.gamma, len(found.region)
    (1/2, 1/2, 1)
    """

    title: str
    want: tuple[str, ...]
    powers: Mapping[Key, sp.Symbol]
    symbols: tuple[sp.Symbol, ...]
    region: tuple[Region, ...]
    exponents: tuple[Region, ...]
    recipe: Recipe
    settings: Mapping[Key, sp.Expr]
    reasons: Mapping[sp.Basic, Reason] = field(compare=False)
    conflict: Mapping[str, str] | None = None
    assumed: tuple[str, ...] = ()
    grows: str = "L"

    def said(self, relations: Iterable[sp.Basic]) -> list[str]:
        """Relations in words, once where they are the same for all parameters."""
        names, written = {name for name, _ in self.settings} - {ALL}, [_relation(one) for one in relations]
        of = {one: re.findall(rf"_({'|'.join(map(re.escape, names)) or ' '})\b", one) for one in written}
        bare = {one: one.replace(f"_{of[one][0]}", "") for one in written if len(of[one]) and len(set(of[one])) == 1}
        common = {one for one in bare.values()
                  if {of[other][0] for other, same in bare.items() if same == one} == names}
        return list(dict.fromkeys(bare[one] if bare.get(one) in common else one for one in written))

    @property
    def excluded(self) -> str:
        """What is in the way, in words; "" where there is an answer."""
        names = tuple(self.conflict or ())
        return "" if not names else f"{' and '.join(names)} exclude each other" if len(names) > 1 else (
            f"nothing that may be set meets the wish {names[0]!r}")

    def __str__(self) -> str:
        lines = [f"{self.title}: {', '.join(self.want)}"]
        if self.conflict is not None:
            lines.append(f"no powers of {self.grows}: {self.excluded}")
            lines += [f"  {name}: {why}" for name, why in self.conflict.items()]
        for number, (one, same) in enumerate(zip(self.region, self.exponents)):
            here, there = (", ".join(self.said(region.expressions(symbols))) or "any"
                           for region, symbols in ((one, tuple(self.powers.values())), (same, self.symbols)))
            lines.append(f"{'or' if number else f'powers of {self.grows}'}: {here}")
            lines += [f"  which is {there}"] * (self.grows != "n")
        if self.settings:
            lines.append("one of these: " + ", ".join(f"{_called(key)} {as_power(power, self.grows)}"
                                                      for key, power in _joined(self.settings).items()))
        lines += [f"  {_relation(facet)}: {reason}" for facet, reason in self.reasons.items()
                  if reason.rule not in SETTINGS_RULES]
        return "\n".join([*lines, *(f"assumed: {one}" for one in self.assumed)])

    def latex(self) -> str:
        """The regions and the recipe as lines of an ``aligned`` environment."""
        symbols = tuple(self.powers.values())
        names = {s: sp.Symbol(rf"p_{{\text{{{s}}}}}".replace("_", r"\_").replace(r"p\_", "p_", 1)) for s in symbols}
        lines = [r"&" + r",\; ".join(latex(one.subs(names)) for one in region.expressions(symbols))
                 for region in self.region]
        lines = [lines[0], *(rf"\text{{or }} {line}" for line in lines[1:])] if lines else [
            rf"&\text{{{self.excluded}}}"]
        lines += [rf"\text{{{_called(key)}}} &\propto {self.grows}^{{{latex(power)}}}"
                  for key, power in _joined(self.settings).items()]
        return " \\\\\n".join(lines)


def solve(net: Any = None, opt: Any = None, want: Sequence[str] = USUAL, fixed: Mapping[Key, Any] | None = None,
          minimize: Key | None = None, maximize: Key | None = None, grows: str | None = None) -> SolvedPowers:
    """The powers of the depth L, of the number of visits N, or of the width n, with which a network trained by an
    optimizer does what is wished for.

    Parameters
    ----------
    net:
        a ``tp.ResNet`` or a ``tp.Transformer`` with frozen embedding and readout, for powers of L; default the linear
        residual network. A ``tp.width.Perceptron``, for powers of n; it is always to be stable and faithful.
    opt:
        an optimizer or its name, default plain SGD. Its weight decay is set too where it is not 0, its eps where it has
        one.
    want:
        names of wishes; ``print(tp.theory.wish_table())`` says what they are.
    fixed:
        powers that are given, {(parameter, setting): power}: "multiplier" of "*", the branches; "lr", "eps" and
        "decay" of a parameter's name or of "*", all of them; in width "init" and "lr"; the more special one wins.
    minimize, maximize:
        such a pair: its power (of "*", the sum over all parameters) is to be as small, or as large, as it can be in
        ``recipe``.
    grows:
        "L", the default of residual networks, or "N": every layer is visited N times, by the same matrices, and powers
        of N are asked for, as ``tp.theory.classify_visits`` counts them; "n" for a perceptron.

    Powers are exponents: lr L^-1 has the power -1. Sizes are maxima of affine forms, whose polytopes are found by
    evaluating the network's equations at their corners. ``recipe`` is complete if that can be, before it is diverse,
    before every matrix learns, before few of its powers are not zero, and then the smaller ones. Raises ``ValueError``
    for unknown wishes and settings, and for powers to minimize that nothing bounds, ``NotCovered`` for networks that
    no rule covers and where a size is no maximum of affine forms. Source: Tensor Programs VI, section 5 and appendix
    K.3 [tensor_programs_vi/definitions_5] [tensor_programs_vi/appendix_k]; arXiv:2505.01618 for "complete".

    >>> import tpcalc as tp
    >>> tp.solve().recipe
    DepthScaling(alpha=1/2, gamma=1/2, branch=1.0, base_depth=1)
    >>> found = tp.solve(tp.ResNet("linear", "mlp"), want=("stable", "diverse", "complete"))
    >>> found.region, list(found.conflict)
    ((), ['stable', 'diverse', 'complete'])
    >>> tp.solve(tp.ResNet("tanh", "mlp"), "adam", grows="N").settings["*", "multiplier"]
    -1
    """
    wished = wishes(want)
    bounds, settings, stands_in = _asked(ResNet() if net is None else net, opt, fixed, grows)
    sizes = bounds.sizes
    for wish in wished:
        if not wish.is_counted(sizes):
            raise NotCovered(f"want: got {wish.name!r}, which is counted in powers of {' and '.join(wish.counted_in)} "
                             f"alone; expected other wishes for powers of {sizes.grows}")
    wished = tuple(dict.fromkeys([*(WISHES[name] for name in sizes.required), *wished]))
    least = objective(settings, minimize, maximize)
    pieces = Pieces(bounds, settings)
    settings.require_gradients(pieces.bounded(()).part)
    found = pieces.of(wished)
    answer = chosen(pieces, wished, least)
    title = f"{type(sizes.net).__name__} of {', '.join(sizes.trained)} by {settings.name}"
    names, asked = tuple(wish.name for wish in wished), {wish.settings for wish in wished}
    conflict = None if found else _conflict(pieces, wished)
    region, reasons = [], dict[sp.Basic, Reason]()
    for piece in found:
        one, why = _in_settings(pieces, piece, asked)
        region.append(one)
        reasons.update(why)
    exponents = tuple(_region(pieces, piece.part) for piece in found)
    regimes = [piece.regime for piece in found] or settings.regimes
    assumed = dict.fromkeys([*settings.assumed, *(one for regime in regimes for one in regime.said), *stands_in])
    return SolvedPowers(title, names, settings.free, tuple(sizes.symbols), tuple(region), exponents,
                        None if answer is None else settings.recipe(answer[1]),
                        {} if answer is None else _set_to(settings, *answer), reasons, conflict, tuple(assumed),
                        sizes.grows)


def _asked(net: Any, opt: Any, fixed: Mapping[Key, Any] | None, grows: str | None
           ) -> tuple[Bounds, PowerSettings, tuple[str, ...]]:
    """What is solved for: where sizes are of order one, what is set, and what stands for a wide network."""
    if not isinstance(net, (Network, Perceptron)):
        raise ValueError(f"net: got {short(net)}; expected a tp.ResNet, a tp.Transformer, a tp.width.Perceptron or "
                         "None")
    known = ("n",) if isinstance(net, Perceptron) else ("L", "N")
    if grows is not None and not (isinstance(grows, str) and grows in known):
        raise ValueError(f"grows: got {short(grows)}; expected {' or '.join(map(repr, known))} for {short(net)}")
    optimizer = optimizer_or_default(opt)
    if isinstance(optimizer, Clipped):
        raise NotCovered(f"opt: got {optimizer!r}; what clipping divides by is not solved for; expected "
                         f"{optimizer.opt!r}, of which it is the same where gradients are of order one")
    if isinstance(net, Perceptron):
        widths = WidthSizes(net, optimizer)
        return Bounds(widths), WidthSettings(widths, optimizer, fixed), ()
    if grows == "N":
        net, optimizer, assumed = visited_once(net, optimizer)
        bounds, sizes = _bounds(VisitSizes, net)
        return bounds, VisitSettings(sizes, optimizer, fixed), assumed
    stands_in = (*by_gates(net), *([WIDE] if net.narrow is not net else ()))
    net = net.narrow
    require_untied(net)
    require_vectors_taken(net, optimizer, DepthScaling())
    bounds, sizes = _bounds(DepthSizes, net)
    return bounds, DepthSettings(sizes, optimizer, fixed), stands_in


@lru_cache(maxsize=4)
def _bounds(of: Callable[[Judged], DepthSizes], net: Judged) -> tuple[Bounds, DepthSizes]:
    """Found once for all optimizers and wishes."""
    sizes = of(net)
    return Bounds(sizes), sizes


def _set_to(settings: PowerSettings, piece: Piece, point: Sequence[Any]) -> dict[Key, sp.Expr]:
    values = [*map(sp.Rational, point)]
    return {key: settings.fixed.get(key, piece.regime.powers[key].expression(values)) for key in settings.keys}


def _region(pieces: Pieces, part: Polytope) -> Region:
    """A piece in alpha and the gammas, as few of them in every relation as it may be."""
    equal, facets = part.described
    solved = _solved(equal)
    found = Region(pieces.sizes.size)
    for form in solved:
        found = found.where(form, "=")
    for form in facets:
        if not pieces.is_far(form):
            found = found.where(_without(form, solved).scaled(), ">=")
    return found


def _solved(equal: Sequence[Affine]) -> list[Affine]:
    """Equations, each solved for a parameter that no other has."""
    found: list[Affine] = []
    for form in equal:
        form = _without(form, found)
        form = form * (1 / form.slopes[_lead(form)])
        found = [_without(other, [form]) for other in found] + [form]
    return found


def _without(form: Affine, solved: Sequence[Affine]) -> Affine:
    for other in solved:
        form = form - other * form.slopes[_lead(other)]
    return form


def _lead(form: Affine) -> int:
    return next(i for i, slope in enumerate(form.slopes) if slope)


def _in_settings(pieces: Pieces, piece: Piece, asked: set[str]) -> tuple[Region, dict[sp.Basic, Reason]]:
    """A piece in the powers that are free, with the reasons of its facets and equations."""
    settings, symbols = pieces.settings, tuple(pieces.settings.free.values())
    equal, facets = piece.part.described
    rows: list[tuple[sp.Expr, bool, Reason]] = [
        (settings.in_settings(form, piece.regime), True, pieces.reason(form)) for form in equal]
    rows += [(settings.in_settings(form, piece.regime), False, pieces.reason(form)) for form in facets
             if not pieces.is_far(form)]
    rows += settings.beyond(asked, piece.regime)
    region, reasons = Region(len(symbols)), dict[sp.Basic, Reason]()
    for value, is_equal, reason in rows:
        form = Affine.of(value, symbols).scaled()
        if form.is_constant:
            continue
        region = region.where(form, "=" if is_equal else ">=")
        facet, = Region(len(symbols)).where(form, "=" if is_equal else ">=").expressions(symbols)
        reasons[facet] = reason
    return region, reasons


# Why there is nothing.

def _conflict(pieces: Pieces, wished: Sequence[Wish]) -> dict[str, str]:
    """The smallest set of wishes that are known to exclude each other, the first of several, with reasons."""
    for size in range(1, len(wished) + 1):
        for some in combinations(wished, size):
            if _exclude(pieces, some):
                return {wish.name: _because(pieces, wish, [one for one in some if one is not wish]) for wish in some}
    return {"stable at initialization": _because(pieces, WISHES["stable at initialization"], [])}


def _exclude(pieces: Pieces, some: Sequence[Wish]) -> bool:
    """Are wishes known to exclude each other? Where training grows, much is known as an upper bound alone."""
    try:
        return not pieces.of(some)
    except NotCovered:
        return False


def _because(pieces: Pieces, wish: Wish, others: Sequence[Wish]) -> str:
    """What a wish asks for that the others exclude."""
    said = list[str]()
    found = pieces.bounded(sizes_at_most([wish]))
    if found.nowhere is not None:
        return f"{found.nowhere.name} grows with {pieces.sizes.grows} whatever is set: by {found.nowhere.reason.term}"
    rest = [piece.part for piece in pieces.of(others, sizes_at_most([wish, *others]))] if others else [pieces.far]
    if wish.at_most:
        cuts = [form for form in found.cuts if any(form.affine.at(c) > 0 for part in rest for c in part.corners)]
        for form in list(cuts):
            fewer = [one.affine * -1 for one in cuts if one is not form]
            if rest and all(part.where(fewer).is_empty for part in rest):
                cuts.remove(form)
        said += [_wall(pieces, form.affine * -1, form.reason) for form in cuts]
    for name, clause in zip(pieces.sizes.trained * 2, wish.at_least(pieces.sizes)):
        if not clause:
            said.append(f"the block is linear in the updates of {name}")
            continue
        ways = pieces.alternatives(clause, sizes_at_most([wish, *others]))
        written = dict.fromkeys(_wall(pieces, form, pieces.reason(form)) for form in ways)
        said.append(" or ".join(written) or f"there is no {' or '.join(clause)}")
    regimes = [pieces.settings.conditions(wish.settings, regime) for regime in pieces.settings.regimes
               ] if wish.settings else []
    for conditions in regimes:
        said += [f"{pieces.settings.name} has none here to set"] if conditions is None else [
            _as_relation(pieces, one.form, one.equal) + f": {one.reason.rule}" for one in conditions
            if not one.form.is_constant or one.form.constant]
    said += [f"{pieces.settings.symbol(key)} is fixed at {power}" for key, power in pieces.settings.fixed.items()
             if not others]
    return "; ".join(dict.fromkeys(said)) or "it is what the others exclude"


def _wall(pieces: Pieces, form: Affine, reason: Reason) -> str:
    written = _as_relation(pieces, form)
    return f"{written}, for the {reason}" if written else f"{reason}"


def _as_relation(pieces: Pieces, form: Affine, equal: bool = False) -> str:
    """That a form is at least 0, or is 0; "" of a constant."""
    here, symbols = pieces.settings.written(form)
    if here.is_constant:
        return ""
    relation, = Region(len(symbols)).where(here.scaled(), "=" if equal else ">=").expressions(symbols)
    return _relation(relation)


# Words.

def _relation(one: sp.Basic) -> str:
    signs = {sp.Eq: "=", sp.Ge: ">=", sp.Le: "<=", sp.Gt: ">", sp.Lt: "<"}
    if one.func not in signs:
        return str(one)
    positive = sp.Add(*(term for term in sp.Add.make_args(one.lhs) if term.as_coeff_Mul()[0] > 0))
    factor, rest = positive.as_coeff_Mul()
    return f"{rest} {signs[one.func]} {sp.expand((one.rhs - one.lhs + positive) / factor)}"


def _joined(settings: Mapping[Key, sp.Expr]) -> dict[Key, sp.Expr]:
    """What is set, said once where it is the same for all parameters."""
    found: dict[Key, sp.Expr] = {}
    for (name, kind), power in settings.items():
        powers = {p for (_, other), p in settings.items() if other == kind}
        found[(ALL, kind) if len(powers) == 1 else (name, kind)] = power
    return found


def _called(key: Key) -> str:
    name, kind = key
    return kind if name == ALL else f"{kind} of {name}"
