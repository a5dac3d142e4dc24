"""How long derivations take, and how that grows with the size of the block."""

from __future__ import annotations

from typing import Callable

import numpy as np
import sympy as sp
from support.timing import best
from sympy.core.cache import clear_cache

import tpcalc as tp

SCALE = tp.DepthScaling(*sp.symbols("alpha gamma", real=True))


def test_derivations_take_seconds(record: Callable[[str, str, str], None]) -> None:
    def derive(matrices: int) -> Callable[[], object]:
        def run() -> object:
            clear_cache()
            return tp.recursion(tp.kets(tp.program(tp.ResNet(block="mlp", matrices=matrices), tp.SGD(), SCALE)))
        return run

    sizes = np.array([1, 2, 3, 4])
    times = [best(derive(int(k)), 2) for k in sizes]
    growth = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    record("derivation of the recursion, blocks of 1, 2, 3, 4 matrices",
           ", ".join(f"{seconds:.2f}" for seconds in times) + " s", "< 10 s")
    record("its growth, power of the number of matrices", f"{growth:.1f}", "printed")
    assert max(times) < 10


def test_nonlinear_kets_take_seconds(record: Callable[[str, str, str], None]) -> None:
    nets = {"tanh": tp.ResNet("tanh"), "gelu mlp, rms": tp.ResNet("gelu", block="mlp", norm="rms"),
            "gelu glu": tp.ResNet("gelu", block="glu")}
    for name, net in nets.items():
        seconds = best(lambda: (clear_cache(), tp.kets(tp.program(net, tp.SGD(), SCALE))), 2)
        record(f"ket equations, {name}", f"{seconds:.2f} s", "< 5 s")
        assert seconds < 5
