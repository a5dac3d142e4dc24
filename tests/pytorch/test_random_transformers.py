"""Random transformers: verdicts' powers of L against those of real networks, trained by PyTorch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

torch = pytest.importorskip("torch")

from support.nightly import few  # noqa: E402
from support.pytorch.many_transformers import before_and_changes, logs_of_sizes  # noqa: E402

from tpcalc.interpreters.dense import run_dense  # noqa: E402
from tpcalc.scaling import DepthScaling  # noqa: E402
from tpcalc.optimizers import SGD  # noqa: E402
from tpcalc.training.builders import program  # noqa: E402
from drawn.refusals import Refused  # noqa: E402
from drawn import position_blocks  # noqa: E402
from drawn.position_blocks import (  # noqa: E402
    HALF,
    OUTPUT,
    LOCATIONS,
    Compared,
    DrawnTransformer,
    assert_transformer_agrees,
    drawn_transformer,
)

BLOCKS = 60
SOME, ALWAYS, WIDE, LAYERS = 15, 8, 12, 5


NORMED = DrawnTransformer("softmax", None, "rms", "gelu", True, 3, SGD(0.05), (HALF, HALF), qk_norm=True)
DECAYING = replace(drawn_transformer(0), opt=SGD(0.05, weight_decay=4.0))


@pytest.mark.parametrize("drawn", few([*map(drawn_transformer, range(SOME)), NORMED, DECAYING], *map(
    drawn_transformer, range(ALWAYS)), NORMED, DECAYING), ids=[*map(str, range(SOME)), "normed", "decaying"])
def test_networks_are_those_that_verdicts_are_of(drawn: DrawnTransformer) -> None:
    """Gradients by PyTorch against the program's, matrix by matrix through what they change."""
    training = program(drawn.net, drawn.opt, DepthScaling(*drawn.point), d_in=len(drawn.inputs[0]))
    run = run_dense(training, {"T": 2, "L": LAYERS, "P": LOCATIONS},
                    {"xi": np.array([drawn.inputs] * 2), "y": [drawn.targets] * 2}, WIDE, 1, keep=("x",))
    given = {name: torch.tensor(value)[None] for name, value in run.initial_weights().items()}
    layers = [{name: given[name].reshape(1, LAYERS, WIDE, WIDE)[:, layer] for name in drawn.net.matrices_of_block}
              for layer in range(LAYERS)]
    x, moved, answered = before_and_changes(drawn, given["U"], given["nV"].reshape(1, WIDE), layers)
    before, after = (run.stack("x", t, LAYERS) for t in range(2))
    f = run.series("f")
    for ours, theirs in ((x, before), (moved, after - before), (answered, f[1] - f[0])):
        assert np.allclose(ours[0].numpy(), theirs, rtol=1e-9, atol=1e-12)


def small(drawn: DrawnTransformer, depth: int, number: int) -> dict[str, np.ndarray]:
    return logs_of_sizes(drawn, depth, number, networks=100)


def test_one_agrees_and_a_wrong_power_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """At alpha + gamma = 3/4 changes grow like L^(1/4), and powers wrong by 1/4 are noticed of every size."""
    mean, depths = replace(drawn_transformer(0), mlp=None, phi="tanh"), (8, 16, 32, 64)
    verdict, found = assert_transformer_agrees(mean, small, depths, 4)
    assert [one.derived for one in found] == [0, position_blocks.STEP, position_blocks.STEP]
    assert all(one.tells for one in found)
    for name in position_blocks.NAMES:
        for by in (-position_blocks.STEP, position_blocks.STEP):
            wrong = replace(verdict, exponents={**verdict.exponents, name: verdict.exponents[name] + by})
            monkeypatch.setattr(position_blocks, "classify", lambda *arguments: wrong)
            with pytest.raises(AssertionError, match=f"{name} {wrong.exponents[name]}, measured"):
                assert_transformer_agrees(mean, small, depths, 4)


def test_sizes_do_not_depend_on_the_width() -> None:
    one, two = (np.mean(logs_of_sizes(drawn_transformer(0), 8, 0, width, 64)[OUTPUT]) for width in (32, 64))
    assert abs(one - two) < 0.1


def test_a_draw_without_a_verdict_is_refused() -> None:
    alone = replace(drawn_transformer(0), point=(sp.pi / 4, sp.Rational(1, 4)))
    with pytest.raises(Refused):
        assert_transformer_agrees(alone, small)


def summary(found: list[Compared], refused: int) -> str:
    """How far measured powers are from derived ones."""
    off = np.array([one.measured - float(one.derived) for one in found])
    errors = np.array([one.error for one in found])
    return (f"{BLOCKS} drawn, {refused} refused; of {len(found)} powers the furthest is off by "
            f"{np.abs(off).max():.3f}, in root mean square {np.sqrt(np.mean(off**2)):.3f}, standard errors are "
            f"{np.median(errors):.3f} in the median and at most {errors.max():.3f}, "
            f"{np.mean(np.abs(off) <= errors):.0%} are within one")


def test_products_of_vectors_blow_up_without_a_norm_alone() -> None:
    """From inputs four times as large as those that are drawn; no power of L is said of these."""
    drawn = next(one for one in map(drawn_transformer, range(BLOCKS)) if one.attention == "linear" and one.norm is None)
    large = replace(drawn, inputs=tuple(tuple(4 * value for value in row) for row in drawn.inputs))
    for one, finite in ((drawn, True), (replace(large, norm="rms"), True), (large, False)):
        sizes = logs_of_sizes(replace(one, point=(position_blocks.HALF, position_blocks.HALF)), 64, 0, networks=16)
        assert all(np.all(np.isfinite(size)) == finite for size in sizes.values())


@pytest.mark.slow
def test_random_transformers_agree() -> None:
    """``pytest -m slow -s tests/pytorch/test_random_transformers.py`` prints every draw."""
    refused: dict[int, str] = {}
    every: list[Compared] = []
    for seed in range(BLOCKS):
        try:
            verdict, found = assert_transformer_agrees(drawn_transformer(seed), logs_of_sizes)
        except Refused as refusal:
            refused[seed] = refusal.reason
            print(seed, drawn_transformer(seed), "refused:", refusal)
            continue
        print(seed, drawn_transformer(seed), verdict.name, *found, sep="\n  ", flush=True)
        assert all(one.tells for one in found), (seed, *map(str, found))
        every += found
    print(summary(every, len(refused)))
    assert not refused
