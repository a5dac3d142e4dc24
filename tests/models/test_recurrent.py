"""States that go from position to position: real networks against plain arrays, particles, verdicts, and refusals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.nightly import few
from support.plain.residual import Arrays, PlainResidual
from support.slopes_of_depth import Slope
from tpcalc.interpreters.vectors import run_program
from tpcalc.lowering.nest import lowered_order
from tpcalc.theory import HeadSum, MatVec
from tpcalc.verdicts.counted import STATES, counted_program

ALPHA, GAMMA, DEPTH, WIDTH, RATE, SIZE = 0.7, 0.4, 2, 6, 0.3, 2
SCALE = tp.DepthScaling()


def shared(b: tp.Branch, name: str) -> sp.Expr:
    """A number of every head, which its first coordinate has."""
    return HeadSum(b.let(name, MatVec(b.weights(f"W{name}"), b.x)), SIZE, first_read=True)


def sigmoid(x: sp.Expr) -> sp.Expr:
    return 1 / (1 + sp.exp(-x))


def linear_attention(b: tp.Branch) -> sp.Expr:
    """Gated: a state of every head, as many vectors as keys have coordinates, forgets alike in all of them."""
    q, k = ([shared(b, f"{name}{j}") for j in range(SIZE)] for name in "qk")
    v, a = b.let("v", MatVec(b.weights("Wv"), b.x)), shared(b, "a")
    states = b.let_recurrent([f"s{j}" for j in range(SIZE)],
                             lambda *before: [sigmoid(a) * s + key * v for s, key in zip(before, k)])
    return MatVec(b.weights("Wo"), b.let("o", sp.Add(*(one * s for one, s in zip(q, states)))))


def decays(b: tp.Branch) -> sp.Expr:
    """Data-dependent, of every coordinate: exp(-softplus(a)), read behind a gate."""
    v, a, g = (b.let(name, MatVec(b.weights(f"W{name}"), b.x)) for name in "vag")
    kept = b.let("kept", 1 / (1 + sp.exp(a)))
    s = b.let_recurrent("s", lambda before: kept * before + (1 - kept) * v)
    return MatVec(b.weights("Wo"), b.let("o", s * g * sigmoid(g)))


def delta_rule(b: tp.Branch) -> sp.Expr:
    """What a state says of a key, of length 1, is taken from it, and the value put there."""
    q, k = ([shared(b, f"{name}{j}") for j in range(SIZE)] for name in "qk")
    v, rate = b.let("v", MatVec(b.weights("Wv"), b.x)), sigmoid(shared(b, "a"))
    k = [b.let(f"unit{j}", one / sp.sqrt(sp.Add(*(key**2 for key in k)))) for j, one in enumerate(k)]

    def step(*before: sp.Expr) -> list[sp.Expr]:
        said = b.let("said", sp.Add(*(s * key for s, key in zip(before, k))))
        return [s + rate * (v - said) * key for s, key in zip(before, k)]

    states = b.let_recurrent([f"s{j}" for j in range(SIZE)], step)
    return MatVec(b.weights("Wo"), b.let("o", sp.Add(*(one * s for one, s in zip(q, states)))))


def of_matrices(b: tp.Branch) -> sp.Expr:
    """h = tanh(Wh h + Wu x), of which only what was before a position is read."""
    u, seen = b.let("u", MatVec(b.weights("Wu"), b.x)), list[sp.Expr]()

    def step(before: sp.Expr) -> sp.Expr:
        seen.append(before)
        return sp.tanh(u + b.let("within", MatVec(b.weights("Wh"), before)))

    b.let_recurrent("s", step)
    return MatVec(b.weights("Wo"), b.let("o", seen[0] * u))


def squashed(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@dataclass(frozen=True)
class PlainRecurrent(PlainResidual):
    """``PlainResidual`` with a recurrence in the place of attention: a loop over rows."""

    kind: str = ""

    def attention(self, x: np.ndarray, w: Arrays, layer: int) -> np.ndarray:
        def of(name: str) -> np.ndarray:
            return x @ w["W" + name][layer].T

        heads = x.shape[1] // SIZE

        def keys(name: str) -> np.ndarray:  # (P, heads, SIZE)
            return np.stack([of(f"{name}{j}")[:, ::SIZE] for j in range(SIZE)], axis=2)

        rows = []
        if self.kind in ("linear_attention", "delta_rule"):
            q, k, v = keys("q"), keys("k"), of("v").reshape(len(x), heads, SIZE)
            rate = squashed(of("a")[:, ::SIZE])[:, :, None, None]
            state = np.zeros((heads, SIZE, SIZE), dtype=x.dtype)  # of values and keys
            if self.kind == "delta_rule":
                k = k / np.sqrt((k * k).sum(axis=2, keepdims=True))
            for row in range(len(x)):
                if self.kind == "delta_rule":
                    wrong = v[row] - np.einsum("hvk,hk->hv", state, k[row])
                    state = state + rate[row] * wrong[:, :, None] * k[row][:, None, :]
                else:
                    state = rate[row] * state + v[row][:, :, None] * k[row][:, None, :]
                rows.append(np.einsum("hvk,hk->hv", state, q[row]).ravel())
        elif self.kind == "decays":
            state, v, g = np.zeros(x.shape[1], dtype=x.dtype), of("v"), of("g")
            kept = np.exp(-np.log(1 + np.exp(of("a"))))
            for row in range(len(x)):
                state = kept[row] * state + (1 - kept[row]) * v[row]
                rows.append(state * g[row] * squashed(g[row]))
        else:
            state, u = np.zeros(x.shape[1], dtype=x.dtype), of("u")
            for row in range(len(x)):
                rows.append(state * u[row])
                state = np.tanh(u[row] + w["Wh"][layer] @ state)
        return np.stack(rows) @ w["Wo"][layer].T


BLOCKS: dict[str, Callable[[tp.Branch], sp.Expr]] = {one.__name__: one for one in (
    linear_attention, decays, delta_rule, of_matrices)}


def net(kind: str, positions: int = 4, **options: Any) -> tp.Transformer:
    return tp.Transformer(**{"head_dim": SIZE, "positions": positions, "attention": BLOCKS[kind], "norm": "rms",
                             "phi": "tanh", **options})


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("kind", BLOCKS)
def test_real_networks_train_as_plain_arrays_do(kind: str, batch: int) -> None:
    rng = np.random.default_rng(1)
    inputs, targets = rng.standard_normal((3, batch, 4, 2)), rng.standard_normal((3, batch, 4))
    run = tp.train(net(kind), tp.Sequences(inputs, targets), tp.SGD(RATE), tp.DepthScaling(ALPHA, GAMMA), DEPTH, WIDTH,
                   method="dense", seed=2)
    start = run.initial_weights()
    w = {**start, "U": start["U"].reshape(-1, WIDTH).T, "nV": start["nV"].ravel()}
    plain = PlainRecurrent(DEPTH**-ALPHA, head_dim=SIZE, norm="rms", kind=kind)
    found = plain.trained(w, inputs, targets, RATE, DEPTH**-GAMMA)
    assert np.abs(run.outputs[..., 0] - found).max() < 1e-10


@pytest.mark.parametrize("kind", BLOCKS)
def test_readings_of_real_networks_agree(kind: str) -> None:
    """Statement by statement, and in the order in which arrays are made."""
    program = tp.program(net(kind, 3), tp.Adam(RATE, eps=0.1), SCALE)
    rng = np.random.default_rng(0)
    data = {"xi": rng.standard_normal((2, 3)), "y": rng.standard_normal((2, 3))}
    one, other = (run_program(p, {"T": 2, "L": 2, "P": 3}, data, 4, seed=1) for p in (program, lowered_order(program)))
    np.testing.assert_allclose(one.series("f"), other.series("f"), rtol=0, atol=1e-12)


def test_what_is_sent_back_through_states_is_kept_beside_a_second_stream() -> None:
    """Two streams that are the same, whose sum is read, are one that is read twice."""
    rng = np.random.default_rng(1)
    task = tp.Sequences(rng.standard_normal((3, 1, 4, 1)), rng.standard_normal((3, 1, 4)))
    two = tp.train(net("decays", skip=tp.HyperConnections()), task, tp.SGD(RATE), SCALE, DEPTH, WIDTH, method="dense")
    start = two.initial_weights()
    one = tp.methods.Dense(weights={**start, "nV": 2 * start["nV"]})
    found = tp.train(net("decays"), task, tp.SGD(RATE), SCALE, DEPTH, WIDTH, method=one)
    np.testing.assert_allclose(two.outputs, found.outputs, rtol=0, atol=1e-10)


def test_a_state_may_be_a_number() -> None:
    def block(b: tp.Branch) -> sp.Expr:
        state = b.let_recurrent("s", lambda before: 0.5)
        return MatVec(b.weights("Wo"), b.let("o", state * b.x))

    text = str(tp.program(tp.Transformer(head_dim=1, attention=block, mlp=None), tp.SGD(), SCALE))
    assert "s[t, p, l] := 0.5" in text


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["of_matrices", "decays"])
def test_infinite_depth_is_that_of_deep_networks(kind: str) -> None:
    """By common draws, of states whose means are known to be finite: logistic functions are bounded."""
    one = net(kind, 2, mlp=None)
    task = tp.Sequences(np.array([[[[1.0], [-0.5]]], [[[0.8], [0.6]]]]), np.array([[[1.0, -0.7]], [[0.5, 0.2]]]))
    limit = tp.train(one, task, tp.SGD(0.2), SCALE, tp.oo)
    assert limit.method == "common_draws"
    deep = tp.train(one, task, tp.SGD(0.2), SCALE, 64, method=tp.methods.Particles(samples=4096, batches=8))
    np.testing.assert_allclose(deep.outputs, limit.outputs, rtol=0, atol=limit.error_estimate + deep.error_estimate)
    assert limit.error_estimate < 0.03


@pytest.mark.slow
@pytest.mark.parametrize("kind", BLOCKS)
def test_particles_are_wide_networks(kind: str) -> None:
    rng = np.random.default_rng(3)
    task = tp.Sequences(rng.standard_normal((3, 1, 3, 1)), rng.standard_normal((3, 1, 3)))
    limit = tp.train(net(kind, 3), task, tp.SGD(0.05), SCALE, 2)
    assert limit.method == "particles"
    found = np.array([tp.train(net(kind, 3), task, tp.SGD(0.05), SCALE, 2, 256, method=tp.methods.Dense(seed=seed)
                               ).outputs for seed in range(64)])
    error = found.std(axis=0, ddof=1) / 8 + limit.error_estimate + 1 / 256
    assert np.all(np.abs(found.mean(axis=0) - limit.outputs) < 3.5 * error)


def bounded_delta_rule(b: tp.Branch) -> sp.Expr:
    """With keys of bounded coordinates in the place of keys of length 1."""
    q, k = ([shared(b, f"{name}{j}") for j in range(SIZE)] for name in "qk")
    v, rate = b.let("v", MatVec(b.weights("Wv"), b.x)), sigmoid(shared(b, "a"))
    k = [b.let(f"unit{j}", sp.tanh(one)) for j, one in enumerate(k)]

    def step(*before: sp.Expr) -> list[sp.Expr]:
        said = b.let("said", sp.Add(*(s * key for s, key in zip(before, k))))
        return [s + rate * (v - said) * key for s, key in zip(before, k)]

    states = b.let_recurrent([f"s{j}" for j in range(SIZE)], step)
    return MatVec(b.weights("Wo"), b.let("o", sp.Add(*(one * s for one, s in zip(q, states)))))


JUDGED = {**BLOCKS, "bounded_delta_rule": bounded_delta_rule}
del JUDGED["delta_rule"]
HALF = sp.Rational(1, 2)


def judged(kind: str) -> tp.Transformer:
    return net("decays", 3, attention=JUDGED[kind], mlp=None)


@pytest.mark.parametrize("kind", few(["decays", "of_matrices"], "of_matrices"))
def test_verdicts_are_those_of_a_position_behind_others(kind: str) -> None:
    """States are of order one at every position; a matrix that acts on them is one of the block's."""
    for point, name in ((1, 0), "ODE limit"), ((HALF, HALF), "Depth-muP"), ((1, HALF), "trivial"):
        found = tp.classify(*point, judged(kind))
        assert found.name == name and set(found.matrices) == set(judged(kind).matrices_of_block)
    assert {one.name for one in tp.classify(1, 0, judged(kind)).matrices.values()} == {"learns"}
    assert not tp.classify(HALF, 0, judged(kind)).stable_in_training
    assert STATES in tp.classify(1, 0, judged(kind)).assumptions
    text = str(counted_program(judged(kind), tp.SGD(), SCALE))
    assert "first_s[t, l] := " in text and ("second_s[t, l] := " in text) == (kind == "of_matrices")


@pytest.mark.slow
@pytest.mark.parametrize("kind", JUDGED)
@pytest.mark.parametrize("alpha, gamma", [(HALF, HALF), (sp.Integer(1), sp.Integer(0)), (sp.Rational(3, 4), HALF)])
def test_verdicts_are_slopes_of_real_networks(kind: str, alpha: sp.Expr, gamma: sp.Expr) -> None:
    """Of what a step changes in outputs at three positions, which tests above hold against plain arrays.

    Branches of linear attention are products of three and have far tails: what layers add to the squared stream, of the
    order L^(1 - 2 alpha) beside what the input gives, is small at such depths for large inputs alone.
    """
    rng = np.random.default_rng(5)
    far = kind == "linear_attention"
    depths, seeds, size, rate = ((32, 128, 512), 12, 6.0, 3e-4) if far else ((4, 8, 16, 32), 24, 1.0, 0.01)
    xs, ys = size * rng.standard_normal((1, 1, 3, 2)), rng.standard_normal((1, 1, 3))
    task = tp.Sequences(np.repeat(xs, 2, 0), np.repeat(ys, 2, 0))
    changes = []
    for seed in range(seeds):
        runs = [tp.train(judged(kind), task, tp.SGD(rate), tp.DepthScaling(alpha, gamma), depth, 64,
                         method=tp.methods.Dense(seed=seed)).outputs for depth in depths]
        changes.append([float(np.sqrt(np.mean((run[1] - run[0])**2))) for run in runs])
    slope, said = Slope.of(depths, changes), tp.classify(alpha, gamma, judged(kind)).exponents["change of f"]
    print(f"{kind}, L^-({alpha}), L^-({gamma}): L^{slope.value:.3f}({slope.error:.3f}), said {said}")
    slope.off(float(said))


def differing(b: tp.Branch) -> sp.Expr:
    """v less that of the position before it."""
    v, seen = b.let("v", MatVec(b.weights("Wv"), b.x)), list[sp.Expr]()

    def step(before: sp.Expr) -> sp.Expr:
        seen.append(before)
        return v

    b.let_recurrent("s", step)
    return MatVec(b.weights("Wo"), b.let("o", b.phi(b.let("u", MatVec(b.weights("Wu"), b.x)) + v - seen[0])))


def alternating(b: tp.Branch) -> sp.Expr:
    v = b.let("v", MatVec(b.weights("Wv"), b.x))
    return MatVec(b.weights("Wo"), b.let("o", b.let_recurrent("s", lambda before: v - before)))


@pytest.mark.parametrize("block, where", [(differing, "o"), (alternating, "s")])
def test_verdicts_refuse_what_vanishes_where_positions_are_alike(block: Callable[[tp.Branch], sp.Expr], where: str
                                                                 ) -> None:
    for read in (lambda one: tp.classify(1, 0, one), lambda one: tp.solve(net=one)):
        with pytest.raises(tp.NotCovered, match=rf"a part of {where}\[t, p, l\] vanishes where positions are alike"):
            read(net("decays", attention=block))


def test_verdicts_refuse_states_elsewhere_by_name() -> None:
    with pytest.raises(tp.NotCovered, match="mlp: got decays, in which s go from position to position"):
        tp.classify(1, 0, net("of_matrices", attention="softmax", mlp=decays))


@pytest.mark.nightly
def test_verdicts_refuse_roots_by_name() -> None:
    with pytest.raises(tp.NotCovered, match=r"sqrt\(h\) grows like the power 1/2"):
        tp.classify(1, 0, net("delta_rule"))


def one_state(step: Callable[..., Any], name: Any = "s") -> Callable[[tp.Branch], sp.Expr]:
    def block(b: tp.Branch) -> sp.Expr:
        v = b.let("v", MatVec(b.weights("Wv"), b.x))
        b.let_recurrent(name, lambda *before: step(b, v, *before))
        return MatVec(b.weights("Wo"), b.let("o", v))
    return block


@pytest.mark.parametrize("step, name, said", [
    (lambda b, v, s: s + b.let_total("t", b.other(v)), "s", "expected no other position, and no state within a state"),
    (lambda b, v, s: b.let_recurrent("r", lambda r: r + s), "s", "no state within a state"),
    (lambda b, v, *s: s, ["s", "v"], "name: got 'v'; expected one that the block has not used"),
    (lambda b, v, *s: s[:1], ["s", "r"], "got 1 values for s, r; expected one a state"),
    (lambda b, v, *s: v, ["s", "r"], "got 1 values for s, r; expected one a state"),
    (lambda b, v, s: None, "s", "value: got None for 's'; expected an expression"),
    (lambda b, v, s: [s + v], "s", "value: got .* for 's'; expected an expression"),
    (lambda b, v, s: s + v, "a b", "name: got 'a b'; expected identifiers"),
    (lambda b, v, s: s + v, 3, "name: got 3; expected identifiers"),
    (lambda b, v: [], [], "got no names")])
def test_what_is_no_state_is_refused(step: Callable[..., Any], name: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tp.Transformer(attention=one_state(step, name), mlp=None)
    with pytest.raises(ValueError, match="in a network without positions; expected in a tp.Transformer alone"):
        tp.ResNet("tanh", one_state(step, name))


def test_a_state_that_nothing_reads_has_no_gradient() -> None:
    unread = tp.Transformer(head_dim=1, attention=one_state(lambda b, v, s: s + v), mlp=None, norm=None)
    text = str(tp.program(unread, tp.SGD(), SCALE))
    assert "before_s[t, p + 1, l] := s[t, p, l]" in text and "ds[" not in text and "dbefore_s" not in text
