"""Other namespaces of arrays and precisions: the same program, the same draws, the same numbers to rounding."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import tpcalc as tp
from support.closeness import assert_close
from tpcalc.errors import MissingExtra
from tpcalc.interpreters import run_dense
from tpcalc.lowering import Arrays, arrays

NET = tp.ResNet("gelu", block="mlp", norm="rms", train_ends=True)
OPTIMIZERS = {"SGD": tp.SGD(0.3, momentum=0.9, weight_decay=0.1), "Adam": tp.Adam(0.1, 0.8, 0.9, eps=0.05),
              "SignSGD": tp.SignSGD(0.1)}


def run(opt: str, net: tp.ResNet = NET, **settings: Any) -> np.ndarray:
    program = tp.program(net, OPTIMIZERS[opt], tp.DepthScaling(), batch=True, d_in=3, d_out=2, probes=1)
    rng = np.random.default_rng(0)
    data = dict(xi=rng.normal(size=(3, 4, 3)), y=rng.dirichlet([1, 1], size=(3, 3)))
    return run_dense(program, {"T": 3, "L": 2, "B": 3}, data, 20, 1, "softmax", **settings).series("f")


@pytest.fixture
def generic(monkeypatch: pytest.MonkeyPatch) -> str:
    """NumPy through the standard's names alone, which takes the path of every other namespace."""
    pytest.importorskip("array_api_compat")
    monkeypatch.setitem(arrays.NAMESPACES, "generic", "array_api_compat.numpy")
    monkeypatch.setitem(arrays.SPECIAL, "generic", "scipy.special")
    return "generic"


@pytest.mark.parametrize("net", [NET, tp.ResNet("relu"), tp.ResNet("tanh", block="glu"), tp.ResNet("abs")], ids=repr)
@pytest.mark.parametrize("opt", OPTIMIZERS)
def test_any_namespace(generic: str, opt: str, net: tp.ResNet) -> None:
    assert_close(run(opt, net, namespace=generic), run(opt, net), 1e-12, 1.0)


@pytest.mark.parametrize("opt", OPTIMIZERS)
def test_torch(opt: str) -> None:
    pytest.importorskip("array_api_compat")
    pytest.importorskip("torch")
    assert_close(run(opt, namespace="torch"), run(opt), 1e-11, 1.0)
    if opt != "SignSGD":  # signs of what is nothing but rounding differ
        assert_close(run(opt, namespace="torch", dtype="float32"), run(opt, dtype="float32"), 1e-4, 1.0)


def test_float32_is_float32_throughout() -> None:
    rough, exact = run("Adam", dtype="float32"), run("Adam")
    difference = np.max(np.abs(rough - exact))
    assert 1e-9 < difference < 1e-4


def test_what_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="namespace: 'tensorflow' given; allowed are 'numpy', 'torch', 'cupy', 'jax'"):
        Arrays("tensorflow")
    with pytest.raises(ValueError, match="dtype: 'float16' given; allowed are 'float32', 'float64'"):
        Arrays("numpy", "float16")
    real = importlib.import_module

    def missing(name: str) -> Any:
        if name == "jax.numpy":
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingExtra, match=r"namespace='jax' needs jax; install it with: pip install 'tpcalc\[back"):
        Arrays("jax")
