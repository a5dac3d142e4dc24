"""Steps at which all positions are alike: rounding is no gradient of queries and keys, whatever would be made of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.nightly import few
from tpcalc.training.problem import ROUNDED, SHARE
from tpcalc.models.convolution import Convolution
from tpcalc.optimizers.sign_ambiguity import depends_on_sign

SCALE = tp.DepthScaling()
JUMPING = [tp.SignSGD(0.3), tp.Lion(0.3), tp.Adam(0.3), tp.Clipped(tp.SignSGD(0.3), 1.0), tp.Clipped(tp.Lion(0.3), 1.0),
           tp.Muon(0.3), tp.Muon(0.3, newton_schulz_steps=5)]
REMEMBERING = [tp.Lion(0.3), tp.Adam(0.3), tp.Muon(0.3, momentum=0.5), tp.Muon(0.3, momentum=0.5, nesterov=True)]


def drawn(positions: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    return rng.normal(size=(3, 2, positions, 2)), rng.normal(size=(3, 2, positions))


def alike(step: int, factors: tuple[float, ...] = (1.0, 1.0, 1.0)) -> tp.Sequences:
    """Sequences whose positions are multiples of one input at a step."""
    x, y = drawn()
    x[step] = x[step, :, :1] * np.array(factors)[:, None]
    return tp.Sequences(x, y)


def outputs(net: tp.Transformer, task: tp.Sequences, opt: object, width: object = 32) -> np.ndarray:
    method = "dense" if width != tp.oo else tp.methods.Particles(512, 2)
    found: np.ndarray = tp.train(net, task, opt, SCALE, 2, width, method=method).outputs
    return found


@pytest.mark.parametrize("opt", JUMPING, ids=repr)
@pytest.mark.parametrize("causal", [True, False])
def test_no_update_comes_out_of_rounding(opt: object, causal: bool) -> None:
    net = tp.Transformer(head_dim=2, positions=3, causal=causal)
    for width in (32, tp.oo):
        with pytest.raises(ValueError, match="at step 0 all positions of every sequence are alike after the norm"):
            tp.Problem(net, alike(0, (1.0, 2.0, 0.5)), opt, SCALE, 2, width)
    tp.Problem(net, alike(2), opt, SCALE, 2, 32)  # nothing is read of the last update
    tp.Problem(net, alike(0, (1.0, -1.0, 1.0)), opt, SCALE, 2, 32)


@pytest.mark.parametrize("opt", few(REMEMBERING, *REMEMBERING[1:3]), ids=repr)
def test_what_is_remembered_is_a_direction(opt: object) -> None:
    """A later step whose positions are alike leaves the directions of those before; outputs are those of inputs that
    differ by rounding."""
    net, task = tp.Transformer(head_dim=2, positions=3, mlp=None), alike(1)
    rounded = tp.Sequences(task.inputs * (1 + 1e-15 * np.random.default_rng(0).normal(size=task.inputs.shape)),
                           task.targets)
    found = outputs(net, task, opt)
    assert np.abs(outputs(net, rounded, opt) - found).max() < 1e-9 < 1e-2 < np.abs(found[2] - found[1]).max()
    with pytest.raises(ValueError, match="at step 0"):
        tp.Problem(net, alike(0), opt, SCALE, 2, 32)


def test_without_memory_later_steps_count() -> None:
    for opt in (tp.SignSGD(0.3), tp.Muon(0.3), tp.Lion(0.3, beta1=0)):
        with pytest.raises(ValueError, match="at step 1 all positions"):
            tp.Problem(tp.Transformer(positions=3), alike(1), opt, SCALE, 2, 32)


@pytest.mark.parametrize("opt", [tp.Lion(0.3, beta2=0.0), tp.Muon(0.3, momentum=1e-8)], ids=repr)
def test_what_is_forgotten_by_the_second_step_is_no_direction(opt: object) -> None:
    net, once = tp.Transformer(head_dim=2, positions=3), alike(1)
    tp.Problem(net, once, opt, SCALE, 2, 32)
    inputs = np.array(once.inputs)[[0, 1, 1, 2]]
    with pytest.raises(ValueError, match="at step 2 all positions"):
        tp.Problem(net, tp.Sequences(inputs, np.zeros((4, 2, 3))), opt, SCALE, 2, 32)


def test_steps_of_rate_0_move_nothing() -> None:
    net = tp.Transformer(head_dim=2, positions=3)
    for opt in (tp.SignSGD((0.0, 0.3, 0.3)), tp.Lion((0.0, 0.3, 0.3)), tp.Muon((0.0, 0.3, 0.3))):
        tp.Problem(net, alike(0), opt, SCALE, 2, 32)
    with pytest.raises(ValueError, match="at step 1"):
        tp.Problem(net, alike(1), tp.SignSGD((0.0, 0.3, 0.3)), SCALE, 2, 32)


def test_continuous_updates_are_taken() -> None:
    for opt in (tp.SGD(0.3), tp.Adam(0.3, eps=1e-8), tp.Clipped(tp.SGD(0.3, momentum=0.5), 1.0)):
        tp.Problem(tp.Transformer(positions=3), alike(0), opt, SCALE, 2, 32)


@pytest.mark.parametrize("options, refused", [
    (dict(norm=None), False), (dict(norm="rms"), True), (dict(norm="layer"), True),
    (dict(norm_position="sandwich"), True),
    (dict(norm_position="output"), False), (dict(norm_position="post"), False),
    (dict(norm=None, qk_norm=True, head_dim=4), True), (dict(norm_position="output", qk_norm=True, head_dim=4), True)])
def test_alike_is_what_attention_meets(options: dict, refused: bool) -> None:
    """Multiples of one input are alike behind a norm, of the stream or of queries and keys: where they are taken,
    rounding decides nothing, and where they are refused it does."""
    net, task = tp.Transformer(positions=3, **options), alike(0, (1.0, 2.0, 0.5))
    rounded = tp.Sequences(task.inputs * (1 + 1e-15 * np.random.default_rng(0).normal(size=task.inputs.shape)),
                           task.targets)
    if refused:
        with pytest.raises(ValueError, match="alike after the norm"):
            tp.Problem(net, task, tp.SignSGD(0.3), SCALE, 2, 32)
    else:
        found = outputs(net, task, tp.SignSGD(0.3))
        assert np.abs(outputs(net, rounded, tp.SignSGD(0.3)) - found).max() < 1e-9


@pytest.mark.parametrize("opt", few([tp.SignSGD(0.3), tp.Lion(0.3), tp.Muon(0.3)], tp.SignSGD(0.3),
                                    tp.Muon(0.3)), ids=repr)
def test_one_position_moves_no_queries(opt: object) -> None:
    """The only weight is 1, exactly: queries and keys stay where they are, so that norms of theirs change nothing."""
    task = tp.Sequences(*drawn(1))
    for causal in (True, False):
        nets = [tp.Transformer(head_dim=4, positions=1, causal=causal, qk_norm=qk_norm) for qk_norm in (True, False)]
        one, other = (outputs(net, task, opt) for net in nets)
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_attention_of_ones_own_has_no_queries() -> None:
    x, y = drawn(4)
    x[0] = x[0, :, :1]
    net = tp.Transformer(positions=4, attention=Convolution(4), causal=False, mlp=None)
    for opt in (tp.SignSGD(0.3), tp.Muon(0.3)):
        assert np.all(np.isfinite(outputs(net, tp.Sequences(x, y), opt)))


@dataclass(frozen=True)
class Cubed:
    """Moves along the cube of a gradient, or, with ``jumps``, along its cubic root over its size."""

    jumps: bool
    lr: float = 0.1
    weight_decay: float = 0.0

    def schedule(self, steps: int) -> np.ndarray:
        return np.full(steps, self.lr)

    def direction(self, gradient: object, step: sp.Symbol) -> sp.Expr:
        now = gradient(step)  # type: ignore[operator]
        return now / sp.Abs(now) if self.jumps else now**3


def test_optimizers_from_elsewhere_are_told_by_what_they_do() -> None:
    assert [depends_on_sign(Cubed(jumps), ROUNDED) > SHARE for jumps in (True, False)] == [True, False]
    with pytest.raises(ValueError, match="alike"):
        tp.Problem(tp.Transformer(positions=3), alike(0), Cubed(True), SCALE, 2, 32)
    tp.Problem(tp.Transformer(positions=3), alike(0), Cubed(False), SCALE, 2, 32)


@pytest.mark.parametrize("norm, said", [("rms", "alike after the norm"), (None, "alike, differing")])
def test_softmax_in_a_block_of_ones_own_has_no_choice_either(norm: str | None, said: str) -> None:
    """What chooses is read off the layer's statements, not off the network's options."""
    def halved(b: tp.Branch) -> sp.Expr:
        return tp.theory.softmax_attention(2, sp.Rational(1, 2))(b) / 2

    for options in ({"attention": halved, "mlp": None}, {"attention": halved}):
        with pytest.raises(tp.NotCovered, match=f"at step 0 all positions of every sequence are {said}"):
            tp.Problem(tp.Transformer(head_dim=2, positions=3, norm=norm, **options), alike(0), tp.SignSGD(), SCALE, 2)
        tp.Problem(tp.Transformer(head_dim=2, positions=3, norm=norm, **options), alike(0), tp.SGD(), SCALE, 2)


def test_shared_keys_of_a_block_of_ones_own_have_no_direction_at_eps_0() -> None:
    def shared(b: tp.Branch) -> sp.Expr:
        return tp.theory.softmax_attention(2, sp.Rational(1, 2), queries_per_key=2)(b)

    net, task = tp.Transformer(head_dim=2, positions=3, attention=shared), tp.Sequences(*drawn())
    with pytest.raises(tp.NotCovered, match="heads that share keys"):
        tp.Problem(net, task, tp.Adam(eps=0), SCALE, 2)
    tp.Problem(net, task, tp.Adam(eps=0.1), SCALE, 2)
