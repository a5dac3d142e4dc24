"""Drawn deep programs are what they say: gradients are gradients, features are frequent, readings agree."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import add, mul
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings

import tpcalc as tp
from tpcalc.interpreters.program_coefficients import read_program_coefficients
from tpcalc.programs.language import Family, LossDerivative, MatVec, Member, Mean, Outer, Transpose, Vector
from drawn import drawn_programs as dp
from drawn.drawn_programs import deep_program
from drawn.rolled import read_rolled
from drawn.rewriting import renamed, with_named_products
from drawn.extrapolation import converges, explodes, extrapolate, falls, slope, vanishes
from drawn.layer_sweep import LayerSweep, Line, Term
from drawn.refusals import Refused, refused_or

WIDTH, DEPTH = 3, 4
SHAPES = [dict(), dict(sublayers=2), dict(stream="slow"), dict(stream="fast"), dict(lag="mean"), dict(lag="leap"),
          dict(lag="delayed branch"), dict(lag="mean", stream="slow", sublayers=2), dict(branch="sequence"),
          dict(branch="parallel", named=True), dict(branch="twice", lag="delayed branch"), dict(drift=-dp.HALF),
          dict(branch="with its transpose", multiplier=True, stream="slow"), dict(tied=True),
          dict(tied=True, lag="delayed branch", multiplier=True), dict(phi="tanh"), dict(phi="tanh", pre=True),
          dict(phi="gelu", branch="sequence", lag="delayed branch", pre=True), dict(phi="square", branch="parallel"),
          dict(phi="tanh", stream="fast", named=True, sublayers=2, lag="mean", drift=dp.HALF)]


class Dense:
    """A program's forward and backward pass on given arrays: a few lines that know nothing of tpcalc's readings."""

    def __init__(self, program: tp.Program, members: dict[Any, Any]) -> None:
        self.members = dict(members)
        for statement in program.unroll({s: {"T": 1, "L": DEPTH}[s.name] for s in program.sizes}):
            self.members[statement.target] = self.value(statement.value)

    def value(self, e: sp.Basic) -> Any:
        if isinstance(e, Member):
            return self.members[e]
        if isinstance(e, (sp.Add, sp.Mul)):
            return reduce(add if isinstance(e, sp.Add) else mul, map(self.value, e.args))
        if isinstance(e, MatVec):
            return self.value(e.matrix) @ self.value(e.vector)
        if isinstance(e, Transpose):
            return self.value(e.args[0]).T
        if isinstance(e, Outer):
            return np.outer(self.value(e.left), self.value(e.right)) / WIDTH
        if isinstance(e, Mean):
            return np.mean(self.value(e.args[0]))
        if isinstance(e, LossDerivative):
            return 1.0  # so that what is propagated is the gradient of f
        if e.is_number:
            return float(e)
        names = {m: sp.Symbol(f"s{n}", real=True) for n, m in enumerate(sorted(e.atoms(Member), key=str))}
        return sp.lambdify(list(names.values()), e.xreplace(names), ["scipy", "numpy"])(*map(self.value, names))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_updates_are_gradients(shape: dict[str, Any]) -> None:
    """Where powers of eps are 1, W_1 - W_0 = -rate grad f times n, entry by entry, against finite differences."""
    example = dp.DeepProgram(dp.Recipe(**shape), steps=1)
    program = dp.with_numbers(example.program, {dp.ALPHA: sp.Integer(0), dp.GAMMA: sp.Integer(0)})
    rng, given_values = np.random.default_rng(5), {}
    for name in ("U", "nV"):
        given_values[Family(Vector, name)()] = rng.normal(size=WIDTH)
    given_values[program.data[0].at(0)] = 1.3
    sweep = example.recipe.sweep
    matrices = [sweep.weights(name, sp.Integer(0), sp.Integer(layer)) for name in sweep.matrices
                for layer in ([1] if name in sweep.tied else range(sweep.first, DEPTH + 1))]
    for matrix in matrices:
        given_values[matrix] = rng.normal(size=(WIDTH, WIDTH)) / np.sqrt(WIDTH)
    f = program.locations()
    output = next(p.statement.target for p in f if p.statement.target.name == "f").at(0)
    trained = Dense(program, given_values).members
    step = 1e-6
    for matrix in matrices:
        slopes = np.zeros((WIDTH, WIDTH))
        for location in np.ndindex(WIDTH, WIDTH):
            ends = []
            for sign in (1, -1):
                moved = given_values[matrix].copy()
                moved[location] += sign * step
                ends.append(Dense(program, {**given_values, matrix: moved}).members[output])
            slopes[location] = (ends[0] - ends[1]) / (2 * step)
        after = trained[matrix.at(1, *matrix.indices[1:])]
        share = DEPTH if matrix.name in sweep.tied else 1  # a tied matrix gets the mean over layers
        expected = given_values[matrix] - 0.5 * slopes / share  # f is a mean, and an outer product is divided by n
        assert np.abs(after - expected).max() < 1e-7 * max(1.0, np.abs(slopes).max())
        assert np.abs(slopes).max() > 1e-3


def test_every_feature_is_drawn_often() -> None:
    draws = 1000
    recipes = [dp.drawn_recipe(np.random.default_rng([2026, seed])) for seed in range(draws)]
    counts = Counter(feature for recipe in recipes for feature in recipe.features)
    assert set(counts) == set(dp.FEATURES)
    assert {name: count for name, count in counts.items() if count < draws / 5} == {}
    activations = Counter(recipe.phi for recipe in recipes if recipe.phi)
    assert set(activations) == set(dp.ACTIVATIONS) and min(activations.values()) > 20


def test_recipes_are_drawn_by_seed() -> None:
    one, other = deep_program(3), deep_program(3)
    assert one == other and one.program == other.program and "seed 3" in str(one)
    assert len({deep_program(seed).recipe for seed in range(100)}) > 60


def test_recipes_shrink_to_what_matters() -> None:
    recipe = dp.Recipe("sequence", 2, "slow", "mean", named=True, phi="tanh", pre=True, decay=True, others=True)
    assert dp.smallest(recipe, lambda r: bool(r.lag) and r.decay) == dp.Recipe(lag="mean", decay=True)


@settings(max_examples=15)
@given(example=dp.deep_programs())
def test_drawn_programs_are_programs_and_linear_ones_have_two_readings(example: dp.DeepProgram) -> None:
    sizes, data = example.sizes(3), example.data
    if not example.is_linear:
        with pytest.raises((ValueError, TypeError)):
            read_rolled(example.program, sizes, data)
        return
    theirs = read_program_coefficients(example.program, sizes, data)
    ours = read_rolled(example.program, sizes, data)
    expected = theirs.series("f")
    assert np.abs(ours.series("f") - expected).max() <= 1e-12 * np.abs(expected).max()
    x = Family(Vector, "x", layered=True)[1, 3]
    size = np.sqrt(theirs.bracket(x, x))
    assert abs(ours.size(ours.vector("x", 1, 3)) - size) <= 1e-12 * size


@settings(max_examples=10)
@given(example=dp.deep_programs())
def test_other_words_say_the_same(example: dp.DeepProgram) -> None:
    """By the exact reading, which knows no names, on linear programs; other programs keep their statements' count."""
    base = example.at_point()
    named, other = with_named_products(base), renamed(base)
    assert len(other.locations()) == len(base.locations()) <= len(named.locations())
    assert not {m.name for m in other.matrices} & {m.name for m in base.matrices}
    bare = [p for p in named.locations() if p.statement.value.has(MatVec) and not p.statement.value.has(sp.Add)]
    assert all(isinstance(p.statement.value, (MatVec, sp.Mul, Outer)) for p in bare)
    if example.is_linear:
        values = {name: example.data[name] for name in ("xi", "y")}
        expected = read_rolled(base, example.sizes(3), values).series("f")
        for program, name in ((named, "f"), (other, renamed_output(base, other))):
            found = read_rolled(program, example.sizes(3), values).series(name)
            assert np.abs(found - expected).max() <= 1e-12 * np.abs(expected).max()


def renamed_output(base: tp.Program, other: tp.Program) -> str:
    number = next(n for n, p in enumerate(base.locations()) if p.statement.target.name == "f")
    return other.locations()[number].statement.target.name


def test_names_that_are_taken_are_refused() -> None:
    program = renamed(deep_program(0).at_point(), {"W": "W", "x": "h1"})
    with pytest.raises(ValueError, match="family h1"):
        with_named_products(program)


def test_x_of_its_own_layer_is_not_read() -> None:
    with pytest.raises(ValueError, match="lags of at least 1"):
        LayerSweep((Line("x", (Term("x", 1), Term("x"))),))


def test_extrapolation_and_slopes() -> None:
    depths = [2**k for k in range(4, 9)]
    size = np.array(depths, dtype=float)
    values = np.stack([2 + 3 * size**-0.5 - 1 / size, 1 - size**-1.5], axis=1)
    limit, error = extrapolate(depths, values, 0.5)
    assert np.abs(limit - [2, 1]).max() < 1e-12 and error < 0.1
    wrong, error = extrapolate(depths, values, 1.0)  # the wrong rate is seen
    assert abs(wrong[0] - 2) > 0.05
    assert converges(values) and not converges(size[:, None] ** 0.25) and not converges(np.full((5, 1), np.inf))
    found, error = slope(depths, 3 * size**0.25)
    assert abs(found - 0.25) < 1e-12 and error < 1e-12
    corrected = size**0.25 * np.sqrt(1 + 3 * size**-0.5)
    assert abs(slope(depths, corrected, [0.5])[0] - 0.25) < 1e-9 and abs(slope(depths, corrected)[0] - 0.25) > 0.05
    found, error = slope(depths, corrected * np.exp(-size**-1.0), [0.5, 1.0])  # a correction that is not among them
    assert 1e-6 < abs(found - 0.25) < 3 * error
    noisy = np.array([8.8876, 8.8107, 7.9783, 7.5692, 7.2331, 6.4892, 6.3144])  # L^(-1/4) with noise, corrected
    found, error = slope([32, 48, 64, 96, 128, 192, 256], noisy, [0.25, 0.5])  # by two, which are cut off at no error
    assert abs(found + 0.25) < error and error > 0.05


def test_what_is_faster_than_powers_is_seen() -> None:
    size = 2.0 ** np.arange(4, 9)
    assert falls(np.array([8, 4, 3, 2.7])) and not falls(np.array([8, 4, 3, 3])) and not falls(size)
    assert explodes(np.exp(size**0.25 / 2)) and explodes(np.array([1, np.inf])) and not explodes(size**2)
    assert vanishes(np.exp(-size**0.25 / 2)) and vanishes(np.zeros(3)) and not vanishes(size**-2.0)
    assert not explodes(np.exp(-size)) and not vanishes(np.exp(size)) and not vanishes(2 + size**-1.0)


def test_refusals_are_told_from_defects() -> None:
    with pytest.raises(Refused, match="takes phi='linear'"):
        refused_or(tp.ResNet("tanh").require_plain, "a reading")
    with pytest.raises(AssertionError, match="depth_limit.py:.* raised ValueError: recursion: got 3"):
        refused_or(tp.depth_limit, 3)
    with pytest.raises(AssertionError, match="unpack"):
        refused_or(_unpack)
    with pytest.raises(AssertionError, match="KeyError"):
        refused_or(lambda: {}["missing"])


def _unpack() -> None:
    (_,) = [1, 2]
