"""Products of kets taken apart into what the order calculus has rules for."""

from __future__ import annotations

from typing import Callable, Iterable, Iterator

import sympy as sp

from ..calculus.kets import Bracket, Hat, Ket, random_parts
from ..errors import NotCovered
from ..gaussian import Expectation
from ..gaussian.scalar_functions import scalar_function
from ..programs.language import Vector


def factors_of(expression: sp.Expr) -> list[sp.Expr]:
    """Factors of a product; functions of the same kets, and powers of such a ket beside them, together."""
    powers: dict[sp.Expr, int] = {}
    plain: list[sp.Expr] = []
    functions: dict[frozenset[sp.Expr], sp.Expr] = {}
    for factor in sp.Mul.make_args(expression):
        base, power = factor.as_base_exp()
        if isinstance(base, (Ket, Hat)) and power.is_Integer and power > 0:
            powers[base] = powers.get(base, 0) + int(power)
        elif random_parts(factor):
            parts = frozenset(random_parts(factor))
            functions[parts] = functions.get(parts, sp.Integer(1)) * factor
        else:
            plain.append(factor)
    for base, power in powers.items():
        if frozenset((base,)) in functions:
            functions[frozenset((base,))] *= base**power
        else:
            plain += [base] * power
    return [*plain, *functions.values()]


def parity(product: sp.Expr, sign: Callable[[Vector], int]) -> int:
    """1 where a product keeps its sign when all base kets change theirs, -1 where it changes it too, 0 for neither.

    sign: the same of a vector.
    """
    found = 1
    for factor in factors_of(product):
        if isinstance(factor, Ket):
            found *= sign(factor.vector)
        elif isinstance(factor, Hat):
            found = -found
        elif random_parts(factor):
            argument, form = argument_of(factor)
            inside = {parity(term, sign) for term in sp.Add.make_args(sp.expand(argument)) if random_parts(term)}
            constant = any(not random_parts(term) for term in sp.Add.make_args(sp.expand(argument)))
            found *= scalar_function(form).parity if inside == {-1} and not constant else 0
    return found


def gathered(terms: Iterable[sp.Expr]) -> list[sp.Expr]:
    """Terms, where those with one ket and equal other factors are one term: a product of these factors and the sum. x
    and -x tanh(h)^2 become x (1 - tanh(h)^2), whose size is smaller than that of x where tanh(h) is near 1 or -1."""
    found: list[sp.Expr] = []
    groups: dict[tuple[sp.Expr, sp.Expr], sp.Expr] = {}
    single = [term for term in terms if not isinstance(term, sp.Sum) and random_parts(term)]
    inside = {argument_of(factor)[0] for term in single for factor in factors_of(term)
              if random_parts(factor) and not isinstance(factor, (Ket, Hat))}
    for term in terms:
        of = [ket for ket in random_parts(term) if ket in inside] if term in single else []
        if len(of) > 1 or term not in single or not of and len(inside) != 1:
            found.append(term)
            continue
        ket = (of or list(inside))[0]
        function = sp.Mul(*(f for f in sp.Mul.make_args(term) if f.is_Number or random_parts(f) == {ket}))
        rest = sp.Mul(*(f for f in sp.Mul.make_args(term) if not (f.is_Number or random_parts(f) == {ket})))
        groups[ket, rest] = groups.get((ket, rest), sp.Integer(0)) + function
    return [*found, *(rest * function if function.is_Number else sp.Mul(rest, function, evaluate=False)
                      for (_, rest), function in groups.items() if function != 0)]


def squares(base: sp.Expr) -> list[sp.Expr]:
    """What a sum of squares, positive numbers among them, is made of; nothing where it is no such sum."""
    found: list[sp.Expr] = []
    for term in sp.Add.make_args(base):
        number, rest = term.as_coeff_Mul()
        if number.is_positive and isinstance(rest, Bracket) and rest.args[0] == rest.args[1]:
            found.append(Ket(rest.args[0]))
        elif number.is_positive and isinstance(rest, Expectation) and rest.args[0].is_Pow and rest.args[0].exp == 2:
            found.append(rest.args[0].base)
        elif not (rest.is_number and (number * rest).is_positive):
            return []
    return found


def normalized(factors: list[sp.Expr], within: Callable[[Ket, Ket], bool]) -> list[tuple[Ket, Ket, sp.Expr]]:
    """The kets of a product that are divided by a root mean square, of what is divided by and with this factor.

    within: is the first ket the second, or a term of it? Nothing cancels, so that it is then no larger.
    """
    found = []
    for factor in factors:
        base, power = factor.as_base_exp()
        if power == -sp.Rational(1, 2):
            found += [(ket, whole, factor) for whole in squares(base) if isinstance(whole, Ket)
                      for ket in [f for f in factors if isinstance(f, Ket) and within(f, whole)][:1]]
    return found


def argument_of(function: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """What an entrywise function acts on, a ket or a sum of several, and the function of a symbol."""
    if function.has(Expectation, Bracket):
        raise NotCovered(f"{function}: no rule for the order of a function of a ket and of averages; name its argument")
    kets = random_parts(function)
    if len(kets) == 1:
        ket, = kets
        return ket, scalar_function(function, ket).expression
    for argument in sorted(_arguments(function), key=lambda e: (-len(random_parts(e)), str(e))):
        form = scalar_function(function, argument).expression
        if not random_parts(form):
            return argument, form
    raise NotCovered(f"{function}: no rule for the order of a function of several kets that is no function of their "
                     "sum; write it as sums and products of functions of one")


def _arguments(function: sp.Expr) -> set[sp.Expr]:
    """What the functions in an expression act on."""
    nodes = [e for e in sp.preorder_traversal(function) if isinstance(e, (sp.Function, sp.Max, sp.Min, sp.Pow))]
    return {a for e in nodes for a in e.args if isinstance(a, sp.Expr) and random_parts(a)}


def centered_pairs(terms: list[sp.Expr]) -> Iterator[tuple[sp.Expr, bool]]:
    """Terms; True for those from which the program takes the mean away, which is left out."""
    means = {term for term in terms if term.has(Expectation) and not random_parts(term)}
    for term in [term for term in terms if term not in means]:
        if not means:
            yield term, False
            continue
        factors = sp.Mul.make_args(term)
        number = sp.Mul(*(f for f in factors if not random_parts(f)))
        opposite = set() if isinstance(term, sp.Sum) else {
            -number * Expectation(sp.Mul(*(f for f in factors if random_parts(f)))),
            *(-term.xreplace({k: Expectation(k)}) for k in random_parts(term))}
        centered = bool(opposite & means)
        means -= opposite
        yield term, centered
    for term in means:
        yield term, False
