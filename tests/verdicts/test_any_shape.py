"""Verdicts of blocks and programs beyond x + eps W x: no name changes one, loops have signs, layers are anything."""

from __future__ import annotations

from typing import Callable

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.verdicts.counting import ALPHA, GAMMA
from tpcalc.verdicts.exponents import exponents_of
from tpcalc.verdicts.ket_exponents import Exponents
from tpcalc.gaussian.scalar_functions import H as Z, scalar_function
from tpcalc.programs.blocks import Branch
from tpcalc.programs.indices import L
from tpcalc.programs.language import MatVec, Mean, Transpose
from drawn.drawn_programs import Recipe, deep_program, training_program, with_numbers
from drawn.verdict_laws import assert_verdict_agrees

H = sp.Rational(1, 2)
POINTS = ((H, H), (sp.Integer(1), sp.Integer(0)), (sp.Integer(1), H))


def plain(b: Branch) -> sp.Expr:
    return MatVec(b.weights(), b.x)


def named(b: Branch) -> sp.Expr:
    return b.let("h", plain(b))


def in_sequence(b: Branch) -> sp.Expr:
    return b.let("k", MatVec(b.weights("V"), named(b)))


def in_parallel(b: Branch) -> sp.Expr:
    return named(b) + b.let("k", MatVec(b.weights("V"), b.x))


def amplified(b: Branch) -> sp.Expr:
    return plain(b) + b.x


def damped(b: Branch) -> sp.Expr:
    return plain(b) - b.x / 2


def with_its_transpose(b: Branch) -> sp.Expr:
    return MatVec(Transpose(b.weights()), named(b))


VERDICTS = {plain: ("Depth-muP", "ODE limit", "trivial"), named: ("Depth-muP", "ODE limit", "trivial"),
            in_sequence: ("Depth-muP", "ODE limit", "trivial"), in_parallel: ("Depth-muP", "ODE limit", "trivial"),
            amplified: ("explodes at initialization", "ODE limit", "trivial"),
            damped: ("decays", "ODE limit", "trivial"),
            with_its_transpose: ("explodes at initialization", "ODE limit", "trivial")}


@pytest.mark.parametrize("block", [pytest.param(block, marks=[pytest.mark.slow] * (block is in_parallel))
                                   for block in VERDICTS], ids=lambda block: block.__name__)
def test_blocks(block: Callable[[Branch], sp.Expr]) -> None:
    assert tuple(tp.classify(*point, tp.ResNet(block=block)).name for point in POINTS) == VERDICTS[block]


def test_layers_that_double_or_forget_what_they_find_do_so_whatever_is_trained() -> None:
    """2 x + W x is larger by a factor in every layer, exp(L) after all; nothing is left of W x / sqrt(L)."""
    def forgetting(b: Branch) -> sp.Expr:
        return plain(b) / sp.sqrt(L) - b.x

    at = ((ALPHA, sp.Integer(0)), (GAMMA, sp.Integer(0)))
    ((_, grown),), ((_, lost),) = (exponents_of(tp.ResNet(block=block), at) for block in (amplified, forgetting))
    sizes = [f.name for f in Exponents.sizes()]
    assert all(getattr(grown, name).explodes and getattr(lost, name).vanishes for name in sizes)
    ((step, rate),) = grown.explosions
    assert (step, rate.at(())) == (0, 1) and not lost.explosions


@pytest.mark.parametrize("block", [amplified, damped], ids=lambda block: block.__name__)
def test_training_shows_what_the_verdict_says(block: Callable[[Branch], sp.Expr]) -> None:
    for point in POINTS[:2]:
        assert_verdict_agrees(tp.ResNet(block=block), point, True, deepest=256)


@pytest.mark.slow
def test_what_forgets_where_something_feeds_it_is_refused() -> None:
    """Its start is not forgotten in the layers next to it: there f_1 ~ L^(-1/4) comes from, in the drawn program."""
    drawn = deep_program(106)
    with pytest.raises(ValueError, match="forgets what is older than .* and is fed by what does not"):
        tp.classify(*drawn.point, net=drawn.program)
    for phi in ("tanh", "relu"):  # neither vanishes where the stream does
        with pytest.raises(ValueError, match="layers forget, and it is fed|forgets what is older than"):
            tp.classify(H, H, tp.ResNet(phi, block=lambda b: b.phi(named(b) + H) - b.x))


@pytest.mark.parametrize("function, power", [
    (Z, 1), (sp.Max(0, Z), 1), (sp.Max(0, Z + H), 0), (sp.tanh(Z), 1), (Z**2 + Z, 1), (Z**3, 3), (sp.exp(Z), 0),
    (Z * sp.erf(Z), 2), (sp.sqrt(1 + Z**2) - 1, 2), (sp.Symbol("c") * Z + sp.Symbol("d"), 0), (sp.Integer(3), 0)])
def test_functions_start_with_a_power_at_zero(function: sp.Expr, power: int) -> None:
    assert scalar_function(function).flatness == power


@pytest.mark.parametrize("gain", [1, 4])
def test_what_an_activation_makes_as_fast_as_it_is_forgotten_is_refused(gain: int) -> None:
    """gain relu(W x) - x decays at gain 1 and grows at 4: a mean gain .4 |x| enters a layer, and x leaves it."""
    with pytest.raises(ValueError, match="as fast as it forgets it; coefficients decide"):
        tp.classify(H, H, tp.ResNet("relu", block=lambda b: gain * b.phi(named(b)) - b.x))


@pytest.mark.slow
def test_growth_is_seen_when_every_stream_has_been_reached() -> None:
    """An update that reaches the second of two streams a step later does not make exponents grow for ever."""
    drawn = deep_program(211)
    program = with_numbers(drawn.program, dict(zip((ALPHA, GAMMA), drawn.point)))
    assert tp.depth_limit(tp.recursion(tp.kets(program))).regions[0].has_limit


def test_what_decays_is_stable_and_neither_nontrivial_nor_faithful() -> None:
    verdict = tp.classify(H, H, tp.ResNet(block=damped))
    assert (verdict.stable_at_init, verdict.stable_in_training) == (True, True)
    assert (verdict.nontrivial, verdict.faithful_at_init, verdict.faithful_in_training) == (False, False, False)
    assert verdict.exponents["x at initialization"] == -sp.oo


def test_a_name_for_an_activation_is_no_difference() -> None:
    def short(b: Branch) -> sp.Expr:
        h = named(b)
        return b.phi(h) - Mean(b.phi(h))

    def mixed(b: Branch) -> sp.Expr:
        h = named(b)
        z = b.let("z", b.phi(h))
        return b.phi(h) - Mean(z)

    wanted = tp.classify(H, H, tp.ResNet("relu"))
    for block in (short, mixed):
        found = tp.classify(H, H, tp.ResNet("relu", block=block))
        assert (found.name, found.exponents) == (wanted.name, wanted.exponents)


@pytest.mark.parametrize("recipe, names", [
    (Recipe(sublayers=2), ("Depth-muP", "ODE limit")), (Recipe(lag="mean"), ("Depth-muP", "ODE limit")),
    (Recipe(stream="fast"), ("Depth-muP", "ODE limit")), (Recipe(momentum=True), ("Depth-muP", "ODE limit"))], ids=str)
def test_programs(recipe: Recipe, names: tuple[str, str]) -> None:
    program = training_program(recipe)
    assert tuple(tp.classify(*point, program).name for point in POINTS[:2]) == names


@pytest.mark.parametrize("recipe, said", [
    (Recipe(tied=True), "a matrix that all layers share")], ids=str)
def test_what_has_no_rule_is_named(recipe: Recipe, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tp.classify(H, H, training_program(recipe))
