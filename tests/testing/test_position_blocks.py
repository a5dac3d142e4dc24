"""Random transformers: verdicts' powers of L against the slopes of real networks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

from tpcalc.testing import Refused, position_blocks
from tpcalc.testing.position_blocks import assert_transformer_agrees, drawn_transformer, measured

MEAN = replace(drawn_transformer(0), mlp=None, phi="tanh")
BLOCKS, REFUSED = 60, 12  # at most a fifth


def test_all_there_is_is_drawn() -> None:
    drawn = [drawn_transformer(seed) for seed in range(BLOCKS)]
    for name, options in (("attention", position_blocks.ATTENTIONS), ("mlp", position_blocks.SECOND),
                          ("norm", position_blocks.NORMS), ("phi", position_blocks.ACTIVATIONS),
                          ("opt", position_blocks.OPTIMIZERS), ("causal", (True, False)), ("head_dim", (1, 2))):
        assert {getattr(one, name) for one in drawn} == set(options)
    assert len({one.point for one in drawn}) > 4
    assert all(one.net.matrices_of_block for one in drawn)


def test_one_agrees_and_a_wrong_power_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """At alpha + gamma = 3/4 changes grow like L^(1/4)."""
    found = {one.name: one for one in assert_transformer_agrees(MEAN, (8, 16, 32, 64), 4, 32)}
    assert found["change of f"].derived == sp.Rational(1, 4)
    right = position_blocks.classify

    def wrong(*arguments: object) -> object:
        verdict = right(*arguments)
        return replace(verdict, exponents={**verdict.exponents, "x at initialisation": sp.Integer(1)})

    monkeypatch.setattr(position_blocks, "classify", wrong)
    with pytest.raises(AssertionError, match="x at initialisation: derived"):
        assert_transformer_agrees(MEAN, (8, 16, 32, 64), 4, 32)


def test_sizes_do_not_depend_on_the_width() -> None:
    one, two = (measured(MEAN, 8, 4, width)["change of x"] for width in (64, 128))
    assert abs(np.log(one / two)) < 0.3


@pytest.mark.slow
def test_random_transformers_agree() -> None:
    refused = {}
    for seed in range(BLOCKS):
        try:
            assert_transformer_agrees(drawn_transformer(seed))
        except Refused as refusal:
            refused[seed] = refusal.reason
    assert len(refused) <= REFUSED, refused
