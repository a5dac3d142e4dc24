"""Places of norms, gains and skips of both networks, against plain arrays with gradients by complex steps."""

from __future__ import annotations

import numpy as np
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import tpcalc as tp
from support.plain.residual import PlainResidual

DEPTH, WIDTH, STEPS = 2, 6, 3
L, layer = sp.symbols("L l")
KEEPS = {"1": (1, 1.0), "0.8": (0.8, 0.8), "1 - 1/L": (1 - 1 / L, 1 - 1 / DEPTH), "root": (L**0.25, DEPTH**0.25)}

norms = st.one_of(
    st.just({}),
    st.builds(lambda norm, location, gains, scaled: {
        "norm": norm, "norm_position": location, "gains": gains,
        **({"norm_scale": 1 / sp.sqrt(layer)} if scaled and location in ("pre", "sandwich") else {})},
        st.sampled_from(["rms", "layer"]), st.sampled_from(["pre", "output", "sandwich", "post"]), st.booleans(),
        st.booleans()))
skips = st.one_of(
    st.builds(lambda keep, inject, learned: {"keep": keep, "inject": inject, "learned": learned},
              st.sampled_from(sorted(KEEPS)), st.sampled_from([0.0, 0.3]), st.booleans()),
    st.just({"hyper": ((0.7, 0.3), ((1, 0.2), (-0.1, 0.9)), (1, 0.5))}))
trainings = st.fixed_dictionaries({
    "ends": st.booleans(), "decay": st.sampled_from([0.0, 0.1]), "sign": st.booleans(),
    "branch": st.sampled_from([1.0, -0.7]), "biases": st.booleans()})


def held(is_transformer: bool, norm: dict, skip: dict, ends: bool, decay: float, sign: bool, branch: float,
         biases: bool) -> None:
    """Outputs over the steps of real networks, beside those of plain arrays that start with their weights."""
    rng = np.random.default_rng(0)
    scale = tp.DepthScaling(0.7, 0.4, branch=branch)
    options = {**norm, "biases": biases, "skip": tp.HyperConnections(*skip["hyper"]) if "hyper" in skip else tp.Skip(
        KEEPS[skip["keep"]][0], skip["inject"], skip["learned"]), "train_embedding_readout": ends}
    if is_transformer:
        net: tp.Transformer | tp.ResNet = tp.Transformer(head_dim=2, positions=2, **{"norm": None, **options})
        inputs, targets = rng.standard_normal((STEPS, 2, 2, 2)), rng.standard_normal((STEPS, 2, 2))
        task: tp.Sequences | tp.Task = tp.Sequences(inputs, targets)
    else:
        net = tp.ResNet("tanh", "mlp", **options)
        inputs, targets = rng.standard_normal((STEPS, 2, 2)), rng.standard_normal((STEPS, 2))
        task = tp.Task(inputs, targets)
        inputs, targets = inputs[:, :, None], targets[:, :, None]
    rate = 0.02 if sign else 0.3 if norm else 0.05
    opt = tp.Lion(rate, beta1=0.0, weight_decay=decay) if sign else tp.SGD(rate, weight_decay=decay, decoupled=True)
    run = tp.train(net, task, opt, scale, DEPTH, width=WIDTH, method="dense", seed=2)
    start = run.initial_weights()
    plain = PlainResidual(
        eps=branch * DEPTH**-0.7, phi="gelu" if is_transformer else "tanh", head_dim=2 if is_transformer else None,
        norm=norm.get("norm"), norm_position=norm.get("norm_position", "pre"), gains=norm.get("gains", False),
        norm_scale=(lambda k: k**-0.5) if "norm_scale" in norm else lambda k: 1.0, hyper=skip.get("hyper"),
        keep=KEEPS[skip.get("keep", "1")][1], inject=skip.get("inject", 0.0), learned=skip.get("learned", False),
        biases=biases)
    weights = {**{name: value for name, value in start.items() if name.startswith("W")},
               **{name: start[name].reshape(-1, WIDTH).T for name in ("U", "nV")},
               **{name: np.full((DEPTH, WIDTH), float(name[0] != "b")) for name, _ in plain.vectors}}
    weights["nV"] = weights["nV"].ravel()
    found = plain.trained(weights, inputs, targets, rate, DEPTH**-0.4, decay, ends, sign)
    assert np.abs(run.outputs.reshape(found.shape) - found).max() < 1e-9
    assert set(net.vectors_of_block) == {name for name, _ in plain.vectors}


@settings(deadline=None, max_examples=8)
@given(norm=norms, skip=skips, how=trainings)
def test_residual_networks_train_as_plain_arrays_do(norm: dict, skip: dict, how: dict) -> None:
    held(False, norm, skip, **how)


@settings(deadline=None, max_examples=3)
@given(norm=norms, skip=skips, how=trainings)
def test_transformers_train_as_plain_arrays_do(norm: dict, skip: dict, how: dict) -> None:
    held(True, norm, skip, **how)


def test_a_skip_that_adds_to_the_stream_is_none() -> None:
    """So that networks that are the same are equal; any other skip is kept as it is given."""
    assert tp.ResNet(skip=tp.Skip()) == tp.ResNet() and tp.Transformer(skip=tp.Skip()).skip is None
    for skip in (tp.Skip(0.5), tp.HyperConnections((0.5, 0.5), ((1, 0), (0.2, 0.8)), (1, 0.5))):
        assert tp.ResNet(skip=skip).skip == skip != tp.Skip()
