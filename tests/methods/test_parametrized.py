"""Training with exponents in width and depth for every matrix: against a network written by hand, and refusals."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from tpcalc.methods import Dense, Particles
from tpcalc.programs.language import MatVec

TASK = tp.Task([1.0, 0.8, -0.6], [1.0, -0.7, 0.5])
OWN = {"alpha": "1/2", "W1": "1/2", "W2": 1}
POWERS = st.fractions(0, 1, max_denominator=4)


def by_hand(one, lr, weights, n):
    """Raw gradient descent on f = V x^L, x + L^-alpha W2 tanh(W1 x): weights given, rates by the definitions."""
    U, V = weights["U"].copy(), weights["nV"] / n
    W1, W2 = weights["W1"].copy(), weights["W2"].copy()
    depth, alpha = len(W1), float(one.alpha)
    width = one.width_scaling
    wide = {name: float(n) ** float(width.r - q) / fan for name, q, fan in zip("UWV", width.q, (1, n, n))}
    deep = {name: depth ** -float(one.update_exponent(name)) for name in ("U", "W1", "W2", "V")}
    outputs = []
    for xi, y in zip(TASK.inputs.ravel(), TASK.targets.ravel()):
        x, z = [xi * U], []
        for l in range(depth):
            z.append(np.tanh(W1[l] @ x[-1]))
            x.append(x[-1] + depth**-alpha * W2[l] @ z[-1])
        outputs.append(V @ x[-1])
        chi = outputs[-1] - y
        d, to_V = chi * V, chi * x[-1]
        for l in reversed(range(depth)):
            inner = (1 - z[l]**2) * (W2[l].T @ d)
            back = d + depth**-alpha * W1[l].T @ inner
            W2[l] -= lr * wide["W"] * deep["W2"] * np.outer(d, z[l])  # the rate undoes the branch multiplier
            W1[l] -= lr * wide["W"] * deep["W1"] * np.outer(inner, x[l])
            d = back
        V, U = V - lr * wide["V"] * deep["V"] * to_V, U - lr * wide["U"] * deep["U"] * d * xi
    return np.array(outputs)


@given(POWERS, POWERS, POWERS, POWERS, POWERS, st.sampled_from(["muP", "SP", "NTP", tp.meta_principled("1/3", 3)]))
@settings(deadline=None, max_examples=5)
def test_real_networks_are_those_written_by_hand(alpha, first, second, read_in, read_out, width):
    depth = {"alpha": alpha, "W1": first, "W2": second, "U": read_in, "V": read_out}
    one = tp.Parametrization(width, depth)
    problem = tp.Problem(tp.ResNet("tanh", "mlp", train_embedding_readout=True), TASK, tp.SGD(0.1), one, depth=3,
                         width=12)
    run = tp.train(problem, method="dense", seed=2)
    expected = by_hand(one, 0.1, run.initial_weights(), 12)
    assert np.allclose(run.outputs.ravel(), expected, rtol=1e-11, atol=1e-12)


def test_initial_weights_have_the_widths_powers():
    sp_width, mup = (tp.train(tp.Problem(tp.ResNet(), TASK, tp.SGD(0.1), tp.Parametrization(width), depth=2, width=16),
                              method="dense").initial_weights() for width in ("SP", "muP"))
    assert np.allclose(sp_width["nV"], 4 * mup["nV"]) and np.array_equal(sp_width["W"], mup["W"])


def test_one_exponent_for_all_trains_as_the_depth_scaling_does():
    scale = tp.DepthScaling("3/4", "1/4", 0.5, 2)
    one = tp.Parametrization(depth={"alpha": "3/4", "W": "1/4", "branch": 0.5, "base_depth": 2})
    plain, ours = (tp.Problem(tp.ResNet(), TASK, tp.SGD(0.5), s, depth=8) for s in (scale, one))
    assert ours.scale == scale and ours == plain
    assert np.array_equal(tp.train(ours).outputs, tp.train(plain).outputs)


@pytest.mark.slow
def test_particles_are_the_limit_of_wide_networks_with_two_exponents():
    problem = tp.Problem(tp.ResNet("tanh", "mlp"), TASK, tp.SGD(1.0), tp.Parametrization(depth=OWN), depth=6)
    limit = tp.train(problem, method=Particles(batches=8))
    wide = [tp.train(tp.ResNet("tanh", "mlp"), TASK, tp.SGD(1.0), tp.Parametrization(depth=OWN), 6, 512,
                     method=Dense(seed)).outputs.ravel() for seed in range(1, 17)]
    error = np.std(wide, axis=0) / 4 + limit.error_estimate + 0.01
    assert np.all(np.abs(np.mean(wide, axis=0) - limit.outputs.ravel()) < 3 * error)
    switched = tp.train(tp.ResNet("tanh", "mlp"), TASK, tp.SGD(1.0),
                        tp.Parametrization(depth={**OWN, "W1": 1, "W2": "1/2"}), 6, method=Particles(batches=8))
    assert np.max(np.abs(switched.outputs - limit.outputs)) > 6 * limit.error_estimate


@pytest.mark.slow
def test_infinite_depth_is_extrapolated_with_two_exponents():
    problem = tp.Problem(tp.ResNet("tanh", "mlp"), TASK, tp.SGD(1.0), tp.Parametrization(depth=OWN), depth=tp.oo)
    limit = tp.train(problem, method=tp.methods.CommonDraws(tolerance=0.03, budget=3e6))
    deep = tp.train(tp.ResNet("tanh", "mlp"), TASK, tp.SGD(1.0), tp.Parametrization(depth=OWN), 256,
                    method=Particles(batches=4, samples=2048))
    assert np.max(np.abs(limit.outputs - deep.outputs)) < 0.06  # at depth 8 it is 0.055 in f_2 alone


def test_exponents_that_grow_have_no_limit():
    problem = tp.Problem(tp.ResNet("linear", "mlp"), TASK, tp.SGD(1.0),
                         tp.Parametrization(depth={"alpha": 1, "W1": "-1/2", "W2": 0}), depth=tp.oo)
    with pytest.raises(tp.Divergence, match="W1"):
        tp.train(problem, method="common_draws")


def test_methods_that_know_one_exponent_refuse_several_by_name():
    problem = tp.Problem(tp.ResNet("linear", "post_nonlin", train_embedding_readout=True), TASK, tp.SGD(1.0),
                         tp.Parametrization(depth={"alpha": 1, "W": 0, "V": 1}), depth=4)
    refusals = {row.name: row.refusal for row in tp.methods.table(problem).rows}
    assert refusals["particles"] is refusals["coefficients"] is None
    assert "one for all" in refusals["reflection"] and "'particles' and 'coefficients'" in refusals["reflection"]
    deep = tp.Problem(tp.ResNet("linear", "mlp"), TASK, tp.SGD(1.0), tp.Parametrization(depth=OWN), depth=tp.oo)
    assert "one for all" in {row.name: row.refusal for row in tp.methods.table(deep).rows}["collocation"]
    with pytest.raises(ValueError, match="one update exponent for all"):
        problem.depth_scaling


@pytest.mark.parametrize("width, why", [("SP", "unstable: h2"), ("NTP", "kernel regime: ")])
def test_widths_without_kets_are_refused_with_what_becomes_of_them(width, why):
    problem = tp.Problem(tp.ResNet("tanh"), TASK, tp.SGD(1.0), tp.Parametrization(width), depth=4)
    table = tp.methods.table(problem)
    assert table.chosen is None and all(row.refusal for row in table.rows)
    with pytest.raises(ValueError, match=why):
        tp.train(problem, method="particles")
    real = tp.Problem(tp.ResNet("tanh"), TASK, tp.SGD(1.0), tp.Parametrization(width), depth=4, width=8)
    assert tp.methods.table(real).chosen == "dense"
    with pytest.raises(ValueError, match="expected a tp.SGD"):
        tp.train(tp.Problem(tp.ResNet("tanh"), TASK, tp.Adam(0.1), tp.Parametrization(width), depth=4, width=8),
                 method="dense")


def plainly_trained(weights, width, opt):
    """Outputs of x + tanh(W x) / L under SGD on entries in their own width powers; L = 2, (alpha, gamma) = (1, 0)."""
    U, W, V = (np.array(weights[name], dtype=float) for name in ("U", "W", "nV"))
    n, L = len(U), 2
    differ = {name: n ** float(power) for name, power in tp.Parametrization(width).beyond_mup().items()}
    rate, outputs = {name: opt.lr * differ[f"rate of {name}"] for name in ("U", "W", "V")}, []
    buffers = {"U": 0.0, "W": np.zeros((L, n, n)), "V": 0.0}
    for t, (xi, y) in enumerate(zip(TASK.inputs.ravel(), TASK.targets.ravel())):
        x = [xi * U]
        for w in W:
            x.append(x[-1] + np.tanh(w @ x[-1]) / L)
        outputs.append(V @ x[-1] / n)
        dx, grad = (outputs[-1] - y) * V, {"V": (outputs[-1] - y) * x[-1], "W": np.zeros((L, n, n))}
        for layer in reversed(range(L)):
            dh = (1 - np.tanh(W[layer] @ x[layer]) ** 2) * dx
            grad["W"][layer] = np.outer(dh, x[layer]) / n
            dx = dx + W[layer].T @ dh / L
        grad["U"] = dx * xi
        weight, after = {"U": U, "W": W, "V": V}, {}
        for name, value in weight.items():
            inside = 0.0 if opt.decoupled else opt.weight_decay / differ[f"rate of {name}"]
            step = grad[name] + inside * value
            buffers[name] = opt.momentum * buffers[name] + (1 - opt.dampening * min(t, 1)) * step
            step = step + opt.momentum * buffers[name] if opt.nesterov else buffers[name]
            share = opt.weight_decay * (1 if opt.independent else opt.lr) if opt.decoupled else 0
            after[name] = (1 - share) * value - rate[name] * step
        U, W, V = (after[name] for name in ("U", "W", "V"))
    return outputs


@pytest.mark.parametrize("width", ["SP", "SP, rate 1/n", "NTP", "MFP",
                                   tp.WidthScaling((0, 1, 2), (0, 1, 1), 1)], ids=str)
@pytest.mark.parametrize("opt", [
    tp.SGD(0.2, weight_decay=0.5), tp.SGD(0.2, momentum=0.5, nesterov=True, weight_decay=0.3),
    tp.SGD(0.2, momentum=0.4, dampening=0.2, weight_decay=0.3, decoupled=True),
    tp.SGD(0.2, weight_decay=0.1, decoupled=True, independent=True)], ids=str)
def test_real_networks_decay_in_every_width_scaling(width, opt):
    """A step's decay takes the same share of all weights, whatever powers of n their rates have."""
    def branch(b):
        return b.let("z", b.phi(b.let("h", MatVec(b.weights("W"), b.x))))

    net = tp.ResNet("tanh", branch, train_embedding_readout=True)
    problem = tp.Problem(net, TASK, opt, tp.Parametrization(width, tp.DepthScaling(1, 0)), depth=2, width=6)
    run = tp.train(problem, method="dense")
    assert np.allclose(run.outputs.ravel(), plainly_trained(run.initial_weights(), width, opt), rtol=1e-10, atol=1e-12)


def test_runs_keep_what_they_were_trained_with(tmp_path):
    for one in (tp.Parametrization(tp.meta_principled("1/2", 3), OWN), tp.Parametrization(
            {"input": {}, "hidden": {"init": "-1/2"}, "output": {"init": "-1/2"}})):
        run = tp.train(tp.Problem(tp.ResNet("tanh", "mlp"), TASK, tp.SGD(0.1), one, depth=2, width=4))
        run.save(tmp_path / "run.npz")
        assert tp.Run.load(tmp_path / "run.npz").problem.scale == one
