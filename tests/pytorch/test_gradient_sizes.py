"""Raw gradients of transformers, by PyTorch, against the powers of n and L that verdicts say."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp

torch = pytest.importorskip("torch")

from support.pytorch.many_transformers import attention, normed, perceptron  # noqa: E402

import tpcalc as tp  # noqa: E402
from drawn.position_blocks import HALF, DrawnTransformer  # noqa: E402

NETWORKS = 96


def gradients(drawn: DrawnTransformer, depth: int, width: int) -> dict[str, float]:
    """Root mean squares of the loss's derivatives in entries of each family, over layers and networks."""
    draw = torch.Generator().manual_seed(depth + 1000 * width)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(NETWORKS, *shape, generator=draw, dtype=torch.float64)

    read_in, read_out = normal(len(drawn.inputs[0]), width), normal(width)
    layers = [{name: (normal(width, width) / math.sqrt(width)).requires_grad_() for name in drawn.net.matrices_of_block}
              for _ in range(depth)]
    branch = depth**-float(drawn.point[0])
    x = torch.einsum("pd,sdi->spi", torch.tensor(drawn.inputs, dtype=torch.float64), read_in).requires_grad_()
    y = x
    for layer in layers:
        y = y + branch * attention(drawn, normed(drawn, y), layer)
        y = y if drawn.mlp is None else y + branch * perceptron(drawn, normed(drawn, y), layer)
    f = (y * read_out[:, None]).mean(-1)
    (((f - torch.tensor(drawn.targets))**2).sum() / 2).backward()
    found = {name: torch.stack([layer[name].grad for layer in layers]) for name in drawn.net.matrices_of_block}
    return {name: float((one**2).mean().sqrt()) for name, one in {**found, "x": x.grad}.items()}


def test_raw_gradients_have_the_powers_that_are_said() -> None:
    """Where they are not those of updates, at alpha = 1."""
    point = sp.Integer(1), HALF
    drawn = DrawnTransformer("softmax", None, "rms", "gelu", True, 2, tp.SGD(0.05), point)
    sizes = tp.classify(*point, drawn.net, drawn.opt).sizes
    depths, widths = (8, 16, 32), (8, 16, 32)
    in_depth, in_width = [gradients(drawn, depth, 8) for depth in depths], [gradients(drawn, 4, n) for n in widths]
    for name in ("x", *drawn.net.matrices_of_block):
        for variable, found, power in ((depths, in_depth, sizes[name]["gradient"].L),
                                       (widths, in_width, sizes[name]["gradient"].n)):
            measured = float(np.polyfit(np.log(variable), np.log([one[name] for one in found]), 1)[0])
            assert abs(measured - float(power)) < 0.15, (name, measured, power)
