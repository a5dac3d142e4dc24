"""Which method a problem is trained by: one asked for, by name or as a value, or the first that does not refuse."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Callable, Iterator, Sequence

import sympy as sp

from .. import _checks
from .._types import Fields, Value
from .._shown import Short, Tabled
from ..errors import NotCovered
from ..training.problem import Problem
from .attention import Attention
from .coefficients import Coefficients
from .collocation import Collocation
from .common_draws import CommonDraws
from .conditioned import Conditioned
from .dense import Dense
from .linear_programs import Extrapolated
from .loop_time import LoopTime
from .long_collocation import LongCollocation, prefers
from .method import Method, require_taken
from .particles import Particles
from .reflection import Reflection
from .takes import WrongSizes

ALIASES: Fields = {kind.name: kind for kind in (Coefficients, Extrapolated, LoopTime, Reflection, Collocation,
                                                LongCollocation, Attention, CommonDraws, Dense, Conditioned, Particles)}

QUICK = 16  # rows of which attention takes seconds; its time grows faster than their square, that of draws as they do


class MethodRow(dict[str, Any]):
    """A method's name and why the method refuses the problem, or None: a line of a table, as others are."""

    def __init__(self, name: str, refusal: str | None) -> None:
        super().__init__(name=name, refusal=refusal)

    @property
    def name(self) -> str:
        return str(self["name"])

    @property
    def refusal(self) -> str | None:
        found: str | None = self["refusal"]
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return MethodRow, (self.name, self.refusal)


@dataclass(frozen=True, repr=False)
class MethodTable(Tabled, Short):
    """Every method and, for each that refuses a problem, why; ``str`` prints it. rows: in the order of "auto"."""

    rows: list[MethodRow]

    @property
    def chosen(self) -> str | None:
        """The first that does not refuse, which "auto" takes, or None."""
        return next((row.name for row in self.rows if row.refusal is None), None)

    def __str__(self) -> str:
        width = max(len(row.name) for row in self.rows)
        said = {row.name: f"refuses: {row.refusal}" if row.refusal is not None else
                "takes it, the first to do so" if row.name == self.chosen else "takes it" for row in self.rows}
        return "\n".join(f"{name:<{width}}  {text}" for name, text in said.items())


def methods_by_preference(problem: Problem) -> Iterator[Method]:
    """All methods of the package with their own defaults, those first that "auto" prefers.

    Exact ones come before sampled ones and before the slow oracle. Real networks of linear blocks and tp.SGD are
    cheapest with their matrices, all others by conditioning. At infinite depth thousands of steps on one batch are for
    the method that keeps few of them.
    """
    real = (Dense, Conditioned) if problem.is_linear else (Conditioned, Dense)
    limit = (LongCollocation, Collocation) if prefers(problem) else (Collocation, LongCollocation)
    rows = math.prod(problem.task.inputs.shape[:-1])
    positions = (Attention, CommonDraws) if rows <= QUICK else (CommonDraws, Attention)
    kinds: tuple[Callable[[], Method], ...] = (Reflection, *limit, LoopTime, Extrapolated, *positions, *real,
                                               Coefficients, Particles)
    return (kind() for kind in kinds)  # one after the other, for those who ask until one takes it


def table(problem: Problem, methods: Sequence[Method] | None = None) -> MethodTable:
    """Ask every method whether it takes the problem; methods: those to ask, where it is not those of the package.

    Where there is no limit, collocation takes the problem and answers by ``Divergence``: that is no refusal. Raises
    ``ValueError`` for what is no tp.Problem and for objects that are no methods.

    >>> import tpcalc as tp
    >>> task = tp.Task([1, 0.5], [1, -1])
    >>> table = tp.methods.table(tp.Problem(tp.ResNet(), task, tp.SGD(0.5), tp.DepthScaling(), depth=64))
    >>> table.chosen, [row.name for row in table.rows if row.refusal is None]
    ('reflection', ['reflection', 'coefficients', 'particles'])
    """
    if not isinstance(problem, Problem):
        raise ValueError(f"problem: got {_checks.short(problem)}; expected a tp.Problem")
    given = methods_by_preference(problem) if methods is None else methods
    asked = () if methods is not None and not isinstance(methods, (list, tuple)) else tuple(given)
    if not asked or not all(map(is_method, asked)):
        raise ValueError(f"methods: got {_checks.short(methods)}; expected methods such as "
                         "tp.methods.Reflection(), one or more")
    return MethodTable([MethodRow(method.name, method.refuses(problem)) for method in asked])


def is_method(value: Value) -> bool:
    """Does a value, which is no class, have what ``Method`` asks for?"""
    return (not isinstance(value, type) and isinstance(getattr(value, "name", None), str)
            and all(callable(getattr(value, name, None)) for name in ("refuses", "solve")))


def chosen_method(problem: Problem, method: Value, options: Fields) -> Method:
    """The method that is asked for, with its options; options: by name, None where one is not given.

    Raises ``ValueError`` with the reason where the method refuses, for options that it does not have, and beside a
    method that is a value, which has its own.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if is_method(method):
        if given:
            name, value = next(iter(given.items()))
            raise ValueError(f"{name}: got {_checks.short(value)} with method={_checks.short(method)}; options "
                             "belong to the method; expected nothing beside it")
        require_taken(method, problem)
        found: Method = method
        return found
    asked = _checks.choice("method", method, ("auto", *ALIASES))
    if asked == "auto":
        kind: Value = type(_first(problem))
    else:
        kind = ALIASES[asked]
        require_taken(kind(), problem)
    for name, value in given.items():
        if name not in _options(kind):
            readers = ", ".join(repr(alias) for alias, other in ALIASES.items() if name in _options(other))
            raise ValueError(f"{name}: got {_checks.short(value)}; method={kind.name!r} does not read it; expected "
                             f"nothing, or a method that does: {readers}")
    found = kind(**given)
    return found


def _options(kind: Value) -> set[str]:
    return {option.name for option in fields(kind)}


def _first(problem: Problem) -> Method:
    """The first method that does not refuse; where all do, the reasons of those for this depth and width."""
    refusals = []
    for method in methods_by_preference(problem):
        reason = method.refuses(problem)
        if reason is None:
            return method
        refusals.append((method.name, reason))
    telling = [(name, reason) for name, reason in refusals if not isinstance(reason, WrongSizes)]
    if not telling and problem.net.visits == sp.oo:
        raise NotCovered(f"width: got {problem.neurons} with infinitely many visits, which are known at infinite "
                         "width; expected tp.oo, or a number of visits")
    if not telling:
        raise NotCovered(f"method: got 'auto' with depth {problem.layers or 'tp.oo'} and width "
                         f"{problem.neurons or 'tp.oo'}, which no method takes; expected any depth at "
                         "width=tp.oo, and finite depth at finite width, by 'dense' and 'conditioned'")
    if len(telling) == 1:
        raise NotCovered(telling[0][1])
    raise NotCovered("method: got 'auto', and all methods refuse; " + "; ".join(
        f"{name!r}: {reason}" for name, reason in telling))
