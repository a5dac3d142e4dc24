"""Muon on attention: real transformers against plain arrays and singular vectors, whose gradients lose directions."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import tpcalc as tp
from support.nightly import few
from support.plain.transformer import PlainTransformer
from tpcalc.interpreters.spectral import spectral_part
from tpcalc.lowering.array_backends import Arrays
from tpcalc.optimizers.polar import polar
from tpcalc.programs.blocks import vector
from tpcalc.programs.indices import l, t
from tpcalc.theory import Outer

ALPHA, GAMMA = 0.7, 0.4
SCALE = tp.DepthScaling(ALPHA, GAMMA)
NESTEROV = tp.Muon((0.3, 0.5, 0.2), momentum=0.8, nesterov=True, weight_decay=0.2)
OPTIMIZERS = [tp.Muon(0.3), tp.Muon((0.3, 0.5, 0.2), momentum=0.8), NESTEROV]


def plain_step(opt: tp.Muon, step: int, w: np.ndarray, seen: list, share: float) -> np.ndarray:
    """One matrix, after the step; seen: its gradients so far. Singular values that only rounding has are 0."""
    rate = opt.schedule(3)[step]
    buffer = sum(opt.momentum ** (step - k) * g for k, g in enumerate(seen))
    left, sizes, right = np.linalg.svd(seen[-1] + opt.momentum * buffer if opt.nesterov else buffer)
    rank = np.sum(sizes > 1e-10 * sizes[0])
    return (1 - rate * opt.weight_decay) * w - rate * share * left[:, :rank] @ right[:rank]


@pytest.mark.parametrize("opt", few(OPTIMIZERS, NESTEROV))
@pytest.mark.parametrize("options", [
    dict(head_dim=2), dict(head_dim=2, causal=False, mlp=None), dict(head_dim=4, qk_norm=True, norm=None, mlp=None)])
def test_real_transformers_are_plain_arrays(opt: tp.Muon, options: dict) -> None:
    """Gradients of W_q and W_k lose directions, since weights of attention add up to 1: the factor leaves them out."""
    rng, depth, n = np.random.default_rng(5), 2, 32
    task = tp.Sequences(rng.normal(size=(3, 2, 3, 2)), rng.normal(size=(3, 2, 3)))
    run = tp.train(tp.Transformer(positions=3, **options), task, opt, SCALE, depth, n, method="dense", seed=1)
    given = run.initial_weights()
    w = {**given, "U": given["U"].reshape(2, n).T, "nV": given["nV"].reshape(1, n).T}
    found = PlainTransformer(eps=depth**-ALPHA, **options).moved(w, task, partial(plain_step, opt, share=depth**-GAMMA))
    assert np.abs(found - run.outputs).max() < 1e-8 * np.abs(found).max()


@pytest.mark.parametrize("steps", [None, 5])
@pytest.mark.parametrize("causal", [True, False])
def test_rounding_is_no_direction(causal: bool, steps: int | None) -> None:
    """Of one sequence of a batch whose positions are alike keys have no gradient; of all, nothing has."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(3, 2, 3, 2)), rng.normal(size=(3, 2, 3))
    x[0, 0] = x[0, 0, 0]
    net, opt = tp.Transformer(head_dim=2, positions=3, causal=causal), tp.Muon(0.3, newton_schulz_steps=steps)

    def outputs(inputs: np.ndarray) -> np.ndarray:
        return tp.train(net, tp.Sequences(inputs, y), opt, SCALE, 2, 32, method="dense", seed=1).outputs
    assert np.abs(outputs(x) - outputs(x * (1 + 1e-15))).max() < 1e-9
    x[0, 1] = 2 * x[0, 1, 0] * np.array([[1.0], [2.0], [3.0]])  # alike after the norm
    with pytest.raises(ValueError, match="at step 0 all positions of every sequence are alike after the norm"):
        outputs(x)
    later = tp.Transformer(head_dim=2, positions=3, norm=None)
    tp.Problem(later, tp.Sequences(x, y), opt, SCALE, 2, 32)
    tp.Problem(net, tp.Sequences(x[::-1], y), opt, SCALE, 2, 32)  # nothing is read of the last update


def test_terms_that_cancel_leave_no_direction() -> None:
    """A sum that vanishes exactly is 0 within the rounding of what it is a sum of."""
    u, v = np.random.default_rng(0).normal(size=(2, 12))
    for steps in (0, 5):
        node = polar(Outer(vector("u")[t, l], vector("v")[t, l]), steps)
        left, right, values = spectral_part(Arrays(), node, [[(1.0, u, v), (0.1, u, v), (-1.1, u, v)]], [])
        assert np.abs(left.T @ right).max() < 1e-12 and not len(values)
