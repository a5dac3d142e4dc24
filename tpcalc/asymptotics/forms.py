"""Parts as maxima of linear forms in the parts of unknowns, at values of a round: what loops are found in."""

from __future__ import annotations

from typing import Iterable, Mapping

from .parts import LEAST, Label, Unknown, product_label, sum_of_values

Part = tuple[Unknown, Label]
Form = dict[Part | None, int]  # weights of parts, under None of what is known
Forms = dict[Label, Form]
Values = dict[Part, int]


def value_of(form: Form, current: Mapping[Part, int]) -> int | None:
    """The value of a form where its parts have values."""
    found = [weight if source is None else sum_of_values(weight, current[source]) for source, weight in form.items()
             if source is None or source in current]
    return max(found, default=None)


def joined(pairs: Iterable[tuple[Label, Form]]) -> Forms:
    """The forms of a sum."""
    found: Forms = {}
    for label, form in pairs:
        out = found.setdefault(label, {})
        for source, weight in form.items():
            if weight > out.get(source, LEAST):
                out[source] = weight
    return found


def product_of_forms(a: Forms, b: Forms, current: Mapping[Part, int]) -> Forms:
    """The forms of a product: linear in each factor, the other at the values of the round before."""
    found: Forms = {}
    now_a, now_b = ({label: value_of(form, current) for label, form in side.items()} for side in (a, b))
    for one, form in a.items():
        for other, more in b.items():
            out = found.setdefault(product_label(one, other), {})
            if None in form and None in more:
                out[None] = max(out.get(None, LEAST), sum_of_values(form[None], more[None]))
            for side, value in ((form, now_b[other]), (more, now_a[one])):
                for source, weight in side.items():
                    if source is not None and value is not None:
                        out[source] = max(out.get(source, LEAST), sum_of_values(weight, value))
    return {label: form for label, form in found.items() if form}


def raised(form: Form, powers: Iterable[int], current: Mapping[Part, int]) -> Form:
    """The form of the largest of some powers."""
    found: Form = {}
    value = value_of(form, current)
    for power in powers:
        if power == 0:
            found[None] = max(found.get(None, LEAST), 0)
        elif power == 1 or value is not None:
            more = to_power(value or 0, power - 1)
            for source, weight in form.items():
                found[source] = max(found.get(source, LEAST), sum_of_values(weight, more))
    return found


def to_power(value: int, power: int) -> int:
    found = 0
    for _ in range(power):
        found = sum_of_values(found, value)
    return found
