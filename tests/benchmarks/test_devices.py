"""What an accelerator saves: networks with their matrices, samples, where a GPU is."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest
from support.timing import best

import tpcalc as tp


@pytest.mark.parametrize("name, method, width, required", [
    ("a network of width 4096", tp.methods.Dense, 4096, 2),
    ("products of width 2^17", tp.methods.Conditioned, 2**17, 1),
    ("2^17 particles", tp.methods.Particles, tp.oo, 1)])
def test_a_gpu_against_the_same_machines_processor(record: Callable[[str, str, str], None], name: str, method: Any,
                                                   width: Any, required: float) -> None:
    """Float32, two matrices a block, 8 layers, 4 steps of SGD with momentum on 16 samples; the same draws."""
    pytest.importorskip("array_api_compat")
    if not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("no GPU is here")
    rng = np.random.default_rng(0)
    task = tp.Task(rng.normal(size=(4, 16)), rng.normal(size=(4, 16)))
    problem = tp.Problem(tp.ResNet("tanh", block="mlp"), task, tp.SGD(0.3, momentum=0.5), tp.DepthScaling(), 8, width)
    options = dict(samples=2**15, batches=4) if method is tp.methods.Particles else {}

    def run(**backend: Any) -> np.ndarray:
        return tp.train(problem, method=method(dtype="float32", **options, **backend)).outputs

    gpu = dict(namespace="torch", device="cuda")
    apart = float(np.max(np.abs(run(**gpu) - run())))
    seconds = best(run, 2), best(lambda: run(**gpu), 2)
    record(f"{name}: processor over GPU", f"{seconds[0] / seconds[1]:.1f} ({seconds[0]:.2f} / {seconds[1]:.2f} s)",
           f">= {required:g}")
    record(f"{name}: outputs apart", f"{apart:.1e}", "<= 1e-3")
    assert apart <= 1e-3
    assert seconds[0] / seconds[1] >= required
