"""What figures ask for is what they say of themselves, and what they conclude turns round with the losses."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

from tpcalc import DepthScaling
from tpcalc.figures.depthwise.networks import Shapes
from tpcalc.figures.depthwise.vision import BOTH, NORMED, PANELS, SCALED
from tpcalc.figures.figure import Sizes, figure_of, figures
from tpcalc.figures.grids import BASE, scaling
from tpcalc.figures.tp6.rates import ALL

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")
STEPS = re.compile(r"(\d+) steps of (\d+) (?:images|sequences)")
SEEDS = (4, 6, 8)  # those whose margins the page on figures has
COMPUTED = ("depthwise/5", "depthwise/6", "depthwise/7", "depthwise/B7")  # without real networks
ONE_OF_A_TEXT = {figure.instead: key for key, figure in figures().items()
                 if figure.asks is not None and STEPS.search(figure.instead) and key not in COMPUTED}


@pytest.mark.parametrize("key", ONE_OF_A_TEXT.values())
def test_steps_and_batches_are_those_that_are_said(key: str) -> None:
    figure = figure_of(key)
    assert figure.asks is not None
    asked = next(figure.asks(Sizes())).ravel()
    said = STEPS.search(figure.instead)
    assert said is not None
    assert {(one.data.steps, one.data.batch) for one in asked} == {tuple(map(int, said.groups()))}
    assert len({one.seed for one in asked}) in SEEDS


def test_scalings_are_those_of_their_names() -> None:
    for name, exponents in ALL.items():
        said = re.findall(r"\((\S+), (\S+)\)", name)
        assert [tuple(map(Fraction, pair)) for pair in said] == [tuple(map(Fraction, exponents))], name


def test_panels_of_vision_transformers_are_those_of_their_names() -> None:
    """Learning rates are the raw ones, so that without a branch multiplier nothing is scaled."""
    for name in (NORMED, SCALED, BOTH):
        norm, scale = PANELS[name]
        assert (norm == "layer") == ("LayerNorm" in name)
        assert scale == DepthScaling("1/2" if "1/sqrt(L)" in name else 0, 0)


@pytest.mark.parametrize("branch", [0.5, 2.0])
def test_scalings_agree_at_the_base_depth(branch: float) -> None:
    for alpha, gamma in ALL.values():
        found = scaling(alpha, gamma, branch)
        assert found.multiplier(BASE) == pytest.approx(branch / np.sqrt(BASE)) and found.update_size(BASE) == 1


def test_rates_are_neighboring_powers_of_two() -> None:
    shapes = Shapes.of(Sizes())
    values, asked = shapes.rates((-3, 2), [(4, 64)], DepthScaling())
    assert values.tolist() == [2.0**k for k in range(-3, 3)]
    assert [one.opt.lr for one in asked[0, :, 0]] == values.tolist()


@pytest.mark.parametrize("steep", ["multiplier", "rate"])
def test_transformers_depend_more_on_what_costs_more(steep: str) -> None:
    """Figure 15 of Tensor Programs VI, sent losses whose valley is steep in one of its two parameters."""
    figure = figure_of("tp6/15")
    assert figure.asks is not None
    asks, drawing = figure.asks(Sizes("toy")), None
    shape, rng = next(asks).shape, np.random.default_rng(0)
    for name in ("rate", "multiplier"):
        valley = (1.0 if name == steep else 0.1) * np.arange(shape[1])**2
        losses = valley[:, None] + 0.001 * rng.random(shape)
        try:
            shape = asks.send(np.repeat(losses[..., None], 4, axis=-1)).shape
        except StopIteration as done:
            drawing = done.value
    assert drawing is not None
    assert [one.agrees for one in drawing.conclusions] == [steep == "rate"]
