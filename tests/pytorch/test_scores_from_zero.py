"""How far an update takes attention from uniform where W_q starts at 0: verdicts against real transformers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

torch = pytest.importorskip("torch")

from support.nightly import few  # noqa: E402
from support.pytorch.many_transformers import attention, before_and_changes, normed, times  # noqa: E402

import tpcalc as tp  # noqa: E402
from drawn.measured_powers import measured_power  # noqa: E402
from drawn.position_blocks import HALF, Compared, DrawnTransformer, corrections_at  # noqa: E402

SOFTMAX = DrawnTransformer("softmax", None, "rms", "gelu", True, 2, tp.SGD(0.05), (HALF, HALF))
NETWORKS, WIDTH, DEPTHS = 1024, 16, (8, 16, 32, 64)


def logs_after_an_update(drawn: DrawnTransformer, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Of each network the logarithms of the root mean square of q . k over layers, which is 0 before, and of that of
    what W_q alone changes of outputs."""
    draw = torch.Generator().manual_seed(depth)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(NETWORKS, *shape, generator=draw)

    read_in, read_out = normal(len(drawn.inputs[0]), WIDTH), normal(WIDTH)
    layers = [{name: normal(WIDTH, WIDTH) / math.sqrt(WIDTH) * (name != "Wq") for name in drawn.net.matrices_of_block}
              for _ in range(depth)]
    _, _, moved = before_and_changes(drawn, read_in, read_out, layers, ["Wq"])
    scores = torch.zeros(NETWORKS)
    with torch.no_grad():
        x = torch.einsum("pd,sdi->spi", torch.tensor(drawn.inputs), read_in)
        for layer in layers:
            q, k = (times(normed(drawn, x), layer[name]) for name in ("Wq", "Wk"))
            scores += (q[:, :, None] * k[:, None]).square().flatten(1).mean(1) / depth
            x = x + depth**-float(drawn.point[0]) * attention(drawn, normed(drawn, x), layer)
    return tuple(torch.log(one.double()).numpy() / 2 for one in (scores, moved.square().mean(1)))


@pytest.mark.parametrize("point", few([(HALF, HALF), (sp.Integer(1), sp.Integer(0))], (HALF, HALF)))
def test_scores_leave_zero_by_what_an_update_does_in_a_layer(point: tuple[sp.Rational, sp.Rational]) -> None:
    drawn = replace(SOFTMAX, point=point)
    verdict = tp.classify(*point, drawn.net, from_zero=("Wq",))
    scores, outputs = zip(*(logs_after_an_update(drawn, depth) for depth in DEPTHS))
    for logs, power in ((scores, verdict.exponents["change of score"]), (outputs, verdict.matrices["Wq"].output)):
        found = Compared("Wq", power, *measured_power(DEPTHS, logs, corrections_at(point, DEPTHS, 0)))
        print(point, found)
        assert found.agrees and found.error < 0.1, found
