"""Mixtures of a fixed number of experts at infinite depth: against exact limits of what they come to, and against deep
networks, of particles and real."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.propagators.depth_orders import depth_orders
from tpcalc.models.gates import ONE_FOR_ALL, LINEAR, gate_of_one, linear_gates, with_gates
from tpcalc.theory import MatVec

HALF = sp.Rational(1, 2)
TASK = tp.Task([1, 0.8, -0.6], [1, -0.7, 0.5])
MUP, ODE = tp.DepthScaling(), tp.DepthScaling(1, 0)
FEW = tp.methods.CommonDraws(samples=512, coarsest=4, budget=1)  # three depths at least


def net(experts: int = 2, **options: object) -> tp.ResNet:
    return tp.ResNet("tanh", tp.MoE(experts, **options), norm="rms")  # type: ignore[arg-type]


def with_gate_a_half(shared: int) -> tp.ResNet:
    """Two experts whose gates stay at 1/2, and shared ones, by hand."""
    def block(b: tp.Branch) -> sp.Expr:
        def expert(e: int) -> sp.Expr:
            return MatVec(b.weights(f"B{e}"), b.let(f"z{e}", b.phi(b.let(f"h{e}", MatVec(b.weights(f"A{e}"), b.x)))))
        return sp.Add(*(expert(e) for e in range(2))) / 2 / sp.sqrt(2) + sp.Add(
            *(expert(2 + e) for e in range(shared)))

    return tp.ResNet("tanh", block, norm="rms")


@pytest.mark.parametrize("one, known", [
    (net(), tp.ResNet("tanh", "mlp", norm="rms", mlp_ratio=2)),
    pytest.param(net(3), tp.ResNet("tanh", "mlp", norm="rms", mlp_ratio=3), marks=pytest.mark.nightly),
    pytest.param(net(gate="sigmoid"), with_gate_a_half(0), marks=pytest.mark.nightly),
    (net(gate="sigmoid", shared=1), with_gate_a_half(1))],
    ids=["softmax", "three", "sigmoid", "shared"])
def test_at_depth_mup_gates_stay_so_that_limits_are_exact_elsewhere(one: tp.ResNet, known: tp.ResNet) -> None:
    """Routers move logits by 1/L there, and not at all by a softmax: what is left closes on kernels."""
    exact = tp.train(known, TASK, tp.SGD(0.5), MUP, tp.oo)
    found = tp.train(one, TASK, tp.SGD(0.5), MUP, tp.oo, method=FEW)
    assert exact.method == "collocation" and {LINEAR, ONE_FOR_ALL} <= set(found.notes)
    assert found.error_estimate < 0.03 < np.abs(exact.outputs[1]).max()
    np.testing.assert_allclose(found.outputs, exact.outputs, rtol=0, atol=found.error_estimate)


def routers_at(gamma: sp.Expr) -> tp.Parametrization:
    one = net(gate="sigmoid")
    return tp.Parametrization(depth={"alpha": HALF, **dict.fromkeys(one.matrices_of_block, HALF),
                                     **dict.fromkeys(one.vectors_of_block, gamma)})


@pytest.mark.nightly
def test_routers_may_have_exponents_of_their_own() -> None:
    """As fast as gradients of what experts learn are slow, gates move; faster, and there is no limit."""
    one, task = net(gate="sigmoid"), tp.Task([1, 0.8, 0.9, 0.7], [1, 1.2, 1.5, 0.9])
    few = tp.methods.Particles(samples=2048, batches=2)
    slow, fast = (tp.train(one, task, tp.SGD(1.0), scale, tp.oo, method=FEW).outputs for scale in (
        MUP, routers_at(-HALF)))  # of common draws, so that the difference is more precise than each
    still, deep = (tp.train(one, task, tp.SGD(1.0), scale, 16, method=few).outputs for scale in (
        routers_at(sp.Integer(60)), routers_at(-HALF)))
    assert np.abs(fast - slow).max() > 0.04
    np.testing.assert_allclose(fast - slow, deep - still, rtol=0, atol=0.003)
    with pytest.raises(tp.Divergence, match="explodes at step 2"):
        tp.train(one, task, tp.SGD(1.0), routers_at(-sp.Rational(3, 4)), tp.oo, method=FEW)


def test_one_expert_stands_for_all_where_powers_are_counted() -> None:
    """Regimes, and powers of corrections, are those that two have, whose gates are linear."""
    for gate in ("softmax", "sigmoid"):
        for scale in (MUP, ODE, tp.DepthScaling(HALF, 0)):
            found = []
            for gates in (gate_of_one, linear_gates):
                try:
                    found.append(depth_orders(with_gates(net(gate=gate), gates), scale).first(2))
                except tp.Divergence as error:
                    found.append(str(error))
            assert found[0] == found[1], (gate, scale)


def test_what_fluctuations_decide_is_refused_here_too() -> None:
    for one, opt, says in ((net(4, active=2), tp.SGD(), "fluctuations of real networks decide"),
                           (net(), tp.SignSGD(), "their first gradients vanish at infinite width")):
        with pytest.raises(tp.NotCovered, match=says):
            tp.train(one, TASK, opt, MUP, tp.oo)
    with pytest.raises(tp.Divergence, match="a limit needs alpha >= 1/2"):
        tp.train(net(), TASK, tp.SGD(), tp.DepthScaling(HALF, 0), tp.oo)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [MUP, ODE], ids=["depth-mup", "ode"])
def test_infinite_depth_is_that_of_deep_wide_networks(scale: tp.DepthScaling) -> None:
    """At (1, 0) gates of a sigmoid move by order one."""
    one = net(gate="sigmoid", shared=1)
    limit = tp.train(one, TASK, tp.SGD(0.5), scale, tp.oo, method=tp.methods.CommonDraws(tolerance=5e-3))
    assert limit.error_estimate < 5e-3
    few, many = (tp.train(one, TASK, tp.SGD(0.5), scale, depth, method=tp.methods.Particles(samples=2048, batches=8))
                 for depth in (16, 32))
    error = limit.error_estimate + 3 * max(few.error_estimate, many.error_estimate) + 1 / 16**2
    np.testing.assert_allclose(2 * many.outputs - few.outputs, limit.outputs, rtol=0, atol=error)
    real = np.array([tp.train(one, TASK, tp.SGD(0.5), scale, 32, 128, method=tp.methods.Dense(seed=seed)).outputs
                     for seed in range(48)])
    error = real.std(axis=0, ddof=1) / 48**0.5 + limit.error_estimate / 3 + 1 / 3 / 32
    z = np.abs(real.mean(axis=0) - limit.outputs) / error
    print(f"{scale}: limit {limit.outputs.ravel()}, real {real.mean(axis=0).ravel()}, {z.max():.2f} errors at most")
    assert z.max() < 3.5


@pytest.mark.slow
@pytest.mark.parametrize("mlp", [tp.MoE(2), tp.MoE(2, gate="sigmoid", shared=1)], ids=["softmax", "sigmoid"])
def test_beside_attention_too(mlp: tp.MoE) -> None:
    one = tp.Transformer(head_dim=2, positions=2, phi="tanh", mlp=mlp)
    task = tp.Sequences(np.array([[[[1.0], [-0.5]]], [[[0.8], [0.6]]]]), np.array([[[1.0, -0.7]], [[0.5, 0.2]]]))
    limit = tp.train(one, task, tp.SGD(0.2), MUP, tp.oo)
    deep = tp.train(one, task, tp.SGD(0.2), MUP, 32, method=tp.methods.Particles(samples=1024, batches=16))
    assert limit.method == "common_draws" and limit.error_estimate < 0.02 < np.abs(limit.outputs[1]).max()
    np.testing.assert_allclose(deep.outputs, limit.outputs, rtol=0,
                               atol=limit.error_estimate + deep.error_estimate + 1 / 3 / 32)
    if mlp.gate == "softmax":
        wide = tp.Transformer(head_dim=2, positions=2, phi="tanh", mlp="mlp", mlp_ratio=2)
        known = tp.train(wide, task, tp.SGD(0.2), MUP, tp.oo)
        np.testing.assert_allclose(known.outputs, limit.outputs, rtol=0,
                                   atol=limit.error_estimate + known.error_estimate)
