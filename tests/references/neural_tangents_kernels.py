"""Kernels of pre-nonlinear residual networks at finite depth by neural-tangents: run by hand, prints JSON.

x + L^(-1/2) W phi(x), L times, kernels of the stream itself; the overlaps of inputs are x x^T, which a first dense
layer divides by their length; its own tangent kernel is left out, as that of ends that are frozen. Written by version
0.6.5 with jax 0.5.3, in 64 bits.
"""

import json
import math

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

from neural_tangents import stax  # noqa: E402

INPUTS = [[1.0, 0.0], [0.5, 0.8], [-0.6, 0.7], [1.1, -0.4], [-1.0, 0.1]]
ACTIVATIONS = {"relu": stax.Relu(), "erf": stax.Erf(), "abs": stax.Abs()}
DEPTHS = (1, 3, 16)


def kernels(activation: object, depth: int) -> dict[str, list[list[float]]]:
    branch = stax.serial(activation, stax.Dense(1, W_std=1 / math.sqrt(depth), parameterization="ntk"))
    layer = stax.serial(stax.FanOut(2), stax.parallel(stax.Identity(), branch), stax.FanInSum())
    x = math.sqrt(len(INPUTS[0])) * np.array(INPUTS)
    start = stax.Dense(1, W_std=1.0, parameterization="ntk")[2](x, None)
    found = stax.repeat(layer, depth)[2](start.replace(ntk=0 * start.nngp))
    return {name: np.asarray(getattr(found, name)).tolist() for name in ("nngp", "ntk")}


if __name__ == "__main__":
    print(json.dumps({"inputs": INPUTS, **{name: {depth: kernels(activation, depth) for depth in DEPTHS}
                                           for name, activation in ACTIVATIONS.items()}}, indent=1))
