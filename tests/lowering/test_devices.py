"""Other packages' arrays, on an accelerator where there is one: networks of every kind have NumPy's numbers."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import tpcalc as tp
from support.closeness import assert_close

NUMBERS = tp.Task([1, 0.5], [1, -0.7])
SEQUENCES = tp.Sequences([[[[1, 0.4], [0.6, -0.8]]], [[[0.3, 1.1], [-0.5, 0.7]]]], [[[1, 0.5]], [[-0.7, 1]]])
# positions see each other: the gradient of a softmax over one position is nothing but rounding, of no direction
TRANSFORMER = tp.Transformer(head_dim=4, positions=2, causal=False)
NETWORKS = {
    "two matrices": (tp.ResNet("tanh", block="mlp", norm="rms"), NUMBERS),
    "trained vectors": (tp.ResNet("relu", train_embedding_readout=True), NUMBERS),
    "visits": (tp.ResNet("gelu", block="mlp", visits=2), NUMBERS),
    "experts": (tp.ResNet(block=tp.MoE(experts=3, active=2)), NUMBERS),
    "growing experts": (tp.ResNet(block=tp.MoE(expert_dim=4, share=0.25, gate="sigmoid")), NUMBERS),
    "transformer": (TRANSFORMER, SEQUENCES)}
OPTIMIZERS = {"SGD": tp.SGD(0.3, momentum=0.5), "Adam": tp.Adam(0.02, eps=1e-3), "Muon": tp.Muon(0.1)}
METHODS = {"dense": (tp.methods.Dense, {}, 32), "conditioned": (tp.methods.Conditioned, {}, 32),
           "particles": (tp.methods.Particles, dict(samples=1024, batches=4), tp.oo)}
VECTORS, CHOICE = ("trained vectors", "experts", "growing experts"), ("experts", "particles")
TAKEN = [(network, method, opt) for network, method, opt in product(NETWORKS, METHODS, OPTIMIZERS)
         if not (opt == "Muon" and (network in VECTORS or method == "particles")) and (network, method) != CHOICE]


@pytest.fixture(params=["torch", "cupy", "jax"])
def backend(request: pytest.FixtureRequest) -> dict[str, Any]:
    """A package and its device: torch has to be told of an accelerator, the others have theirs by default."""
    pytest.importorskip("array_api_compat")
    package = pytest.importorskip(request.param)
    told = request.param == "torch" and package.cuda.is_available()
    return dict(namespace=request.param, device="cuda" if told else None)


@pytest.mark.parametrize("network, method, opt", TAKEN)
def test_numbers_are_those_of_numpy(backend: dict[str, Any], network: str, method: str, opt: str) -> None:
    kind, options, width = METHODS[method]
    problem = tp.Problem(*NETWORKS[network], OPTIMIZERS[opt], tp.DepthScaling(0.5, 0.5), 2, width)
    exact, theirs = (tp.train(problem, method=kind(**options, **more)).outputs for more in ({}, backend))
    assert np.max(np.abs(exact[1:])) > 0.002
    assert_close(theirs, exact, 1e-10, 1.0)
    if opt != "Muon":  # which takes double precision alone
        rough = tp.train(problem, method=kind(**options, **backend, dtype="float32")).outputs
        single = tp.train(problem, method=kind(**options, dtype="float32")).outputs
        assert_close(rough, single, 2e-5, 1.0)
        assert np.max(np.abs(rough - exact)) > 1e-11
