"""Labels of parts, against sets of sources written out one by one; parts as functions on these sets."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings, strategies as st

from tpcalc.asymptotics.parts import (
    MEAN, STREAM, Parts, in_stream, label_of, on_subsets, possible, product as times, product_label, pruned, random_in,
    subsets, union)

SOURCES = range(8)  # three bits
labels = st.tuples(st.integers(0, 7), st.integers(0, 7)).map(lambda pair: label_of(*pair))
some_parts = st.dictionaries(labels, st.integers(-3, 3).map(lambda value: 2 * value), max_size=5)


def test_parts_that_may_be_averaged_are_all_their_parts() -> None:
    """Every product of two parts, against sets written out."""
    every = [label_of(sure, maybe) for sure in (0, 2, 4, 1, 3) for maybe in (0, 2, 12, 7)]
    for one, two in product(every, every):
        products = {a ^ b | kept for a in subsets(one) for b in subsets(two) for kept in subsets(label_of(0, a & b))}
        assert set(subsets(product_label(one, two))) == products
    for label in every:
        random = [sources for part in random_in(label, -1) for sources in subsets(part)]
        assert sorted(random) == sorted(sources for sources in subsets(label) if sources)


def test_only_what_two_factors_share_can_be_averaged() -> None:
    slow, fresh, both = STREAM, label_of(2), label_of(3)
    assert times({slow: 0}, {fresh: 0}) == {both: 0}
    assert times({fresh: 0}, {fresh: 0}) == {label_of(0, 2): 0}


@settings(max_examples=200, deadline=None)
@given(a=some_parts, b=some_parts)
def test_sums_and_products_of_parts_are_those_of_functions_on_subsets(a: Parts, b: Parts) -> None:
    """What is dropped because another part contains it changes nothing."""
    there, here = on_subsets(a), on_subsets(b)
    joined = {one: max(there.get(one, -99), here.get(one, -99)) for one in {*there, *here}}
    assert on_subsets(union([a, b])) == joined and on_subsets(pruned(a)) == there
    found: dict[int, int] = {}
    for (one, value), (other, more) in product(there.items(), here.items()):
        for kept in subsets(label_of(0, one & other)):
            found[one ^ other | kept] = max(found.get(one ^ other | kept, -99), value + more)
    assert on_subsets(times(a, b)) == found


@given(label=labels)
def test_layers_add_up_what_they_share_coherently_and_the_rest_like_a_root(label: int) -> None:
    """Against all sets of sources that the label stands for: bit 0 is the stream, others are of the layer alone."""
    expected = {(sources & 1, 4 if sources < 2 else 2) for sources in subsets(label)}
    expected = {(1 if gain == 2 else sources, gain) for sources, gain in expected}
    found = {(sources, gain) for to, gain in in_stream(label, 4) for sources in subsets(to)}
    assert found == expected and (possible(label) > 1) == any(gain == 2 for _, gain in found)
    assert in_stream(MEAN, 4) == [(MEAN, 4)]
