"""The laws of verdicts measure what they say, and see a wrong exponent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.verdicts.evidence import measure_exponents
from drawn import verdict_laws
from drawn.deep_blocks import drawn_block
from drawn.drawn_programs import Recipe
from drawn.verdict_laws import assert_verdict_agrees
from drawn.deep_blocks import block_of, block_recipe, drawn_net
from drawn.rewriting import with_named_products
from drawn.verdict_laws import depths_for, is_clear, measured_sizes, trained_program

HALF = sp.Rational(1, 2)
DEPTHS = [8, 16, 32, 64]


def test_sizes_are_those_of_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact reading of the program, against covariances and coefficients of the reflection solver."""
    monkeypatch.setattr(verdict_laws, "TASK", {"xi": [1.0, 1.0], "y": [-1.0, -1.0]})  # what measure_exponents trains on
    program = with_named_products(trained_program(tp.ResNet(), HALF, HALF))
    ours = [measured_sizes(program, depth, exact=True) for depth in DEPTHS]
    theirs = {one.name: one.values for one in measure_exponents(HALF, HALF, DEPTHS)}
    for name in ("change of f", "change of x", "change of h"):
        assert np.abs(np.array([row[name] for row in ours]) / theirs[name] - 1).max() < 1e-10


def test_sampled_sizes_are_the_exact_ones() -> None:
    program = with_named_products(trained_program(tp.ResNet(block=drawn_block(0)), 1, 0))
    exact, sampled = (measured_sizes(program, 16, exact) for exact in (True, False))
    for name, size in exact.items():
        assert abs(sampled[name] / size - 1) < 0.05


def test_depths_are_the_deeper_half() -> None:
    one = with_named_products(trained_program(tp.ResNet(), HALF, HALF))
    assert depths_for(one, exact=True) == [128, 192, 256, 384, 512, 768, 1024]
    assert depths_for(one, exact=False) == [32, 48, 64, 96, 128, 192, 256]


def test_a_program_is_taken_at_a_point() -> None:
    """The general program at numbers is the program of these numbers."""
    alpha, gamma = sp.symbols("alpha gamma", real=True)
    general = tp.program(tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(alpha, gamma))
    assert trained_program(general, HALF, sp.Rational(1, 4)) == trained_program(tp.ResNet(), HALF, sp.Rational(1, 4))


def test_points_keep_away_from_walls() -> None:
    wall = (((sp.Integer(1), sp.Integer(1)), sp.Integer(-1)),)
    assert is_clear((HALF, HALF), wall) and is_clear((HALF, sp.Rational(3, 4)), wall)
    assert not is_clear((HALF, sp.Rational(9, 16)), wall)


@pytest.mark.parametrize("change, broken", [({}, False), ({"change of h": HALF}, True), ({"change of x": -HALF}, True),
                                            ({"change of f": sp.oo}, True), ({"x at initialization": -sp.oo}, True)])
def test_a_wrong_exponent_is_seen(monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], broken: bool) -> None:
    verdict = tp.classify(HALF, HALF)
    other = replace(verdict, exponents={**verdict.exponents, **change})
    monkeypatch.setattr(verdict_laws, "classify", lambda *arguments: other)
    if broken:
        with pytest.raises(AssertionError, match=f"{next(iter(change))}: derived"):
            assert_verdict_agrees(tp.ResNet(), (HALF, HALF), True, deepest=128)
    else:
        found = assert_verdict_agrees(tp.ResNet(), (HALF, HALF), True, deepest=128)
        assert max(abs(slope - float(derived)) for derived, slope, _ in found.values()) < 0.01


def test_drawn_blocks_are_blocks() -> None:
    """What a recipe says is what the block writes, and names change nothing that is computed."""
    assert drawn_block(3).__name__.startswith("drawn_")
    net = tp.ResNet(block=block_of(Recipe("with its transpose", named=True, drift=-HALF)))
    text = str(tp.program(net, tp.SGD(), tp.DepthScaling()))
    assert "u[t, l] := W[t, l] @ x[t, l - 1]" in text and "p0[t, l] := W[t, l].T @ u[t, l]" in text
    assert "- x[t, l - 1]/(2*sqrt(L))" in text
    recipe = next(r for r in map(block_recipe, range(50)) if r.branch == "sequence" and not r.phi and not r.multiplier)
    sizes = [measured_sizes(with_named_products(trained_program(one, 1, 0)), 8, True)["change of f"]
             for one in (drawn_net(recipe), drawn_net(recipe, "q"), drawn_net(recipe, named=not recipe.named))]
    assert max(sizes) - min(sizes) <= 1e-12 * max(sizes)
