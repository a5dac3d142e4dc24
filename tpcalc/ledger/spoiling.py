"""Spoiled statements: what is printed is made wrong, one thing at a time, and the checks of the entry have to notice.

An equation that no check notices is not read: whatever holds, it does not hold because of that equation.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, singledispatch
from typing import Any, Callable, ContextManager, Iterator, Sequence

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational

from .._shown import Short
from ..errors import NotCovered
from .catalogue import PACKAGE
from .checking import check_entry
from .entry import Entry
from .errata import Erratum

ATTRIBUTES = ("value", "power", "condition", "exactly")  # the side of a statement's equation that is spoiled
Spoil = tuple[str, Any]  # what is done, and the spoiled side


@dataclass(frozen=True, repr=False)
class ReadEquation(Short):
    """Whether an equation of a statement is read, by the spoils of it.

    spoils: what was done, and whether a check noticed; equal: what was done and left it equal, which says nothing.
    """

    key: str
    number: int
    text: str
    spoils: tuple[tuple[str, bool], ...]
    equal: tuple[str, ...] = ()

    @property
    def is_read(self) -> bool:
        """Does a check notice whatever was done to it?"""
        return bool(self.spoils) and all(noticed for _, noticed in self.spoils)

    @property
    def missed(self) -> tuple[str, ...]:
        return tuple(what for what, noticed in self.spoils if not noticed)

    def __str__(self) -> str:
        said = "read" if self.is_read else f"not read: {', '.join(self.missed) or 'nothing to spoil'}"
        return f"{self.key} ({self.number}) {said}: {self.text}"


def read_equations(entry: Entry, seed: int = 0) -> tuple[ReadEquation, ...]:
    """Every equation of an entry's statement, spoiled in every way that changes it, against all checks of the entry.

    The object that is printed is spoiled where the entry has one object, and what ``entry.statement`` gives where that
    is made anew. Raises ``NotCovered`` for an entry whose checks fail as it is.
    """
    if check_entry(entry, seed).failures:
        raise NotCovered(f"{entry.key}: its checks fail as it is; expected an entry that holds")
    found = []
    for number, one in enumerate(getattr(entry.statement(), "equations", ()), 1):
        found.append(_read(entry, number, _text(one), one, partial(spoiled, entry, number - 1), seed))
    return tuple(found)


def _read(entry: Entry, number: int, text: str, one: Any, while_wrong: Callable[[str, Any], ContextManager[None]],
          seed: int) -> ReadEquation:
    """One equation in every way that changes it; while_wrong: given an attribute and what is wrong, has it so."""
    attribute, side = _attribute_of(one)
    noticed, equal = [], []
    for what, wrong in spoils(side, np.random.default_rng([seed, number, *entry.key.encode()])):
        if _are_equal(side, wrong, getattr(one, "relation", "=")):
            equal.append(what)
            continue
        _forget()
        with while_wrong(attribute, wrong):
            noticed.append((what, bool(check_entry(entry, seed).failures)))
    return ReadEquation(entry.key, number, text, tuple(noticed), tuple(equal))


def read_corrections(entry: Entry, seed: int = 0) -> tuple[ReadEquation, ...]:
    """The corrected forms of an entry's errata, spoiled as equations are.

    One that is an equation of its own is spoiled itself; one that reads an equation of the statement, with that one;
    any other has no object that could be spoiled, and is not read.
    """
    found = []
    for number, erratum in enumerate(entry.errata, 1):
        own = getattr(erratum.corrected, "__self__", None)
        equations = getattr(entry.statement(), "equations", ())
        text = f"corrected, {erratum.where}: {' '.join(erratum.corrected().split())}"
        if own is None or any(own is one for one in equations):
            found.append(ReadEquation(entry.key, number, text, tuple(_by_the_statement(entry, erratum, seed))))
        else:
            found.append(_read(entry, number, text, own, partial(_set, own), seed))
    return tuple(found)


def _by_the_statement(entry: Entry, erratum: Erratum, seed: int) -> list[tuple[str, bool]]:
    """Was it noticed that the first equation of the statement is spoiled, which a corrected form is read off?"""
    right = erratum.corrected()
    for number, one in enumerate(getattr(entry.statement(), "equations", ())):
        attribute, side = _attribute_of(one)
        for what, wrong in spoils(side, np.random.default_rng([seed, number, *entry.key.encode()])):
            if _are_equal(side, wrong, getattr(one, "relation", "=")):
                continue
            with spoiled(entry, number, attribute, wrong):
                if erratum.corrected() != right:
                    return [(f"{what} in equation {number + 1}", bool(check_entry(entry, seed).failures))]
    return []


# Ways to spoil.

@singledispatch
def spoils(side: Any, rng: np.random.Generator) -> list[Spoil]:
    """One way of each kind that there is: a sign, a factor of 2, an exponent, an index shifted, two names swapped.

    >>> x, y = sp.symbols("x y")
    >>> [what for what, _ in spoils(x + y**2, np.random.default_rng(0))]
    ['a sign', 'a factor of 2', 'an exponent', 'two names swapped']
    """
    return []


@spoils.register
def _(side: bool, rng: np.random.Generator) -> list[Spoil]:
    return [("turned round", not side)]


@spoils.register
def _(side: sp.Expr, rng: np.random.Generator) -> list[Spoil]:
    ways = {"a sign": _sign, "a factor of 2": _factor, "an exponent": _exponent, "an index shifted": _index,
            "two names swapped": _names}
    made = ((what, _attempted(way, side, rng)) for what, way in ways.items())
    return [(what, wrong) for what, wrong in made if wrong is not None]


@spoils.register
def _spoiled_matrix(side: sp.MatrixBase, rng: np.random.Generator) -> list[Spoil]:
    """Its entries spoiled, one at a time, each in every way."""
    found = []
    for row, column in np.ndindex(*side.shape):
        for what, wrong in spoils(side[row, column], rng):
            whole = sp.Matrix(side)
            whole[row, column] = wrong
            found.append((f"{what} in entry ({row + 1}, {column + 1})", sp.ImmutableMatrix(whole)))
    return found


def _attempted(way: Callable[[sp.Expr, np.random.Generator], sp.Expr | None], side: sp.Expr,
               rng: np.random.Generator) -> sp.Expr | None:
    """None where a node of the equation does not take what it would be spoiled to."""
    try:
        return way(side, rng)
    except (TypeError, ValueError):
        return None


def _sign(side: sp.Expr, rng: np.random.Generator) -> sp.Expr:
    return _term_times(side, rng, sp.Integer(-1))


def _factor(side: sp.Expr, rng: np.random.Generator) -> sp.Expr:
    return _term_times(side, rng, sp.Integer(2))


def _term_times(side: sp.Expr, rng: np.random.Generator, number: sp.Integer) -> sp.Expr:
    """A term of it multiplied by a number; where it is one term, all of it; a 0 becomes the number."""
    if side == 0:
        return number
    terms = sp.Add.make_args(side)
    drawn = _drawn(terms, rng)
    return sp.Add(*(number * term if term is drawn else term for term in terms))


def _exponent(side: sp.Expr, rng: np.random.Generator) -> sp.Expr | None:
    """One more in a power, or else a symbol or function squared."""
    powers = sorted((p for p in side.atoms(sp.Pow) if p.exp.is_number), key=str)
    if powers:
        drawn = _drawn(powers, rng)
        return side.xreplace({drawn: sp.Pow(drawn.base, drawn.exp + 1)})
    letters = sorted(side.atoms(AppliedUndef) or side.free_symbols, key=str)
    if not letters:
        return None
    drawn = _drawn(letters, rng)
    return side.xreplace({drawn: drawn**2})


def _index(side: sp.Expr, rng: np.random.Generator) -> sp.Expr | None:
    """An index of a function one further."""
    indexed = sorted((f for f in side.atoms(AppliedUndef) if any(a.is_Symbol for a in f.args)), key=str)
    if not indexed:
        return None
    drawn = _drawn(indexed, rng)
    place = _drawn([k for k, a in enumerate(drawn.args) if a.is_Symbol], rng)
    return side.xreplace({drawn: drawn.func(*(a + 1 if k == place else a for k, a in enumerate(drawn.args)))})


def _names(side: sp.Expr, rng: np.random.Generator) -> sp.Expr | None:
    """Two functions of as many arguments, or two symbols, in each other's places."""
    functions = sorted({f.func for f in side.atoms(AppliedUndef)}, key=str)
    pairs = [(f, g) for i, f in enumerate(functions) for g in functions[i + 1:] if f.nargs == g.nargs]
    if pairs:
        first, second = _drawn(pairs, rng)
        return side.replace(lambda e: isinstance(e, AppliedUndef) and e.func in (first, second),
                            lambda e: (second if e.func == first else first)(*e.args))
    symbols = sorted(side.free_symbols, key=str)
    if len(symbols) < 2:
        return None
    first, second = (symbols[k] for k in rng.choice(len(symbols), 2, replace=False))
    return side.xreplace({first: second, second: first})


@spoils.register
def _spoiled_condition(side: sp.logic.boolalg.Boolean, rng: np.random.Generator) -> list[Spoil]:
    relations = sorted(side.atoms(Relational), key=str)
    if not relations:
        return []
    drawn = _drawn(relations, rng)
    return [("a relation turned round", side.xreplace({drawn: drawn.negated})),
            ("a relation moved", side.xreplace({drawn: drawn.func(drawn.lhs + sp.Rational(1, 2), drawn.rhs)}))]


def _drawn(several: Sequence[Any], rng: np.random.Generator) -> Any:
    return several[int(rng.integers(len(several)))]


def _are_equal(side: Any, wrong: Any, relation: str) -> bool:
    """Does a spoil leave what the equation says? Orders are up to a number."""
    if _ordered(side) == _ordered(wrong) or relation == r"\sim" and bool(sp.cancel(side / wrong).is_number):
        return True
    return isinstance(side, sp.Expr) and not side.has(sp.Order, sp.Limit) and bool(sp.expand(side - wrong) == 0)


def _ordered(side: Any) -> Any:
    """With the arguments of nodes that do not tell them apart, which say so by ``commutes``, in one order."""
    if not isinstance(side, sp.Basic):
        return side
    return side.replace(lambda node: getattr(node, "commutes", False),
                        lambda node: Unordered(*sorted(node.args, key=sp.default_sort_key)))


class Unordered(sp.Expr):
    """Arguments whose order says nothing."""


# The object that is printed.

def _attribute_of(equation: Any) -> tuple[str, Any]:
    """The attribute of an equation that is spoiled, and what it is; ("", None) where there is none."""
    for name in ATTRIBUTES:
        value = getattr(equation, name, None)
        if value is not None and not (name == "condition" and value == ""):
            return name, value
    return "", None


def _text(equation: Any) -> str:
    return " ".join(str(equation.latex() if hasattr(equation, "latex") else equation).split())


@contextmanager
def _set(one: Any, attribute: str, wrong: Any) -> Iterator[None]:
    """An object while it is wrong; nothing remembers what was wrong. Who remembers the object has to go on doing so."""
    right = getattr(one, attribute)
    object.__setattr__(one, attribute, wrong)
    try:
        yield
    finally:
        object.__setattr__(one, attribute, right)
        _forget()


@contextmanager
def spoiled(entry: Entry, number: int, attribute: str, wrong: Any) -> Iterator[None]:
    """The entry while an equation of its statement is wrong, for all that reads it; nothing remembers what was right
    or wrong."""
    _forget()
    make = entry.statement
    one = make().equations[number]  # type: ignore[attr-defined]
    if make().equations[number] is one:  # type: ignore[attr-defined]
        with _set(one, attribute, wrong):
            yield
        return

    def statement() -> Any:
        found = make()
        object.__setattr__(found.equations[number], attribute, wrong)  # type: ignore[attr-defined]
        return found

    homes = [(module, name) for module in _modules() for name, value in vars(module).items() if value is make]
    object.__setattr__(entry, "statement", statement)
    for module, name in homes:
        setattr(module, name, statement)
    try:
        yield
    finally:
        object.__setattr__(entry, "statement", make)
        for module, name in homes:
            setattr(module, name, make)
        _forget()


def _modules() -> list[Any]:
    return [module for name, module in list(sys.modules.items()) if name.startswith(f"{PACKAGE}.")]


def _forget() -> None:
    """Empty what functions of the proofs remember."""
    for module in _modules():
        for value in list(vars(module).values()):
            clear = getattr(value, "cache_clear", None)
            if callable(clear):
                clear()
