"""The curve of linear networks at infinite depth, and of finitely many layers that start at 0."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import fractional_matrix_power

import tpcalc as tp
from tpcalc.horizon import OutputCurve
from tpcalc.horizon.end_to_end import moved, velocity

FOUND = tp.long_horizon(tp.ResNet(), tp.Stream(np.eye(2), [1.0, 0.0]), tp.SGD(0.1), tp.DepthScaling(1, 0))


def test_values_that_were_found_before() -> None:
    values = FOUND.curve([0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0]).value
    known = [0.10044656, 0.20362424, 0.31253449, 0.43077777, 0.56302152, 1.00567179, 1.84536397]
    assert np.max(np.abs(values - known)) < 6e-9


@pytest.mark.parametrize("depth, z, along, across, digits", [
    (1, 1, 1, 1, 1e-12), (2, 0.88137, 1.41421, 1.20711, 6e-6), (8, 0.78089, 1.98721, 1.45127, 6e-6),
    (64, 0.75164, 2.22050, 1.53931, 6e-6), (np.inf, 0.74749461, 2.25696212, 1.55256297, 6e-9)])
def test_kernels_where_the_output_is_1(depth: float, z: float, along: float, across: float, digits: float) -> None:
    found = OutputCurve(1.0, depth).at_values(np.array(1.0))
    assert np.max(np.abs(np.array([found.z - z, found.along - along, found.across - across]))) < digits


def test_outputs_are_infinite_at_a_finite_z() -> None:
    assert abs(float(OutputCurve(1e5).at_values(np.array(1e5)).z) + 1e-5 - 1.4514) < 5e-5
    with pytest.raises(ValueError, match="outputs grow without bound by .z. = 1.451369; expected less"):
        FOUND.curve(1.46)


def test_tangents_are_derivatives_and_the_curve_is_odd() -> None:
    z, step = np.array([-0.6, 0.2, 0.9]), 1e-4
    above, at, below = (FOUND.curve(z + sign * step) for sign in (1, 0, -1))
    assert np.allclose((above.value - below.value) / (2 * step), at.along, rtol=1e-7)
    log_det = [np.log(np.linalg.det(one.products)) for one in (above, below)]
    assert np.allclose((log_det[0] - log_det[1]) / (2 * step), at.value, rtol=1e-7)
    assert np.allclose(FOUND.curve(-z).value, -at.value) and np.allclose(FOUND.curve(-z).z, -z)
    assert np.allclose(at.products[..., 1, 0], at.value)


def test_the_velocity_is_the_mean_of_powers_of_matrices() -> None:
    rng = np.random.default_rng(0)
    product, pull = np.eye(3) + 0.3 * rng.normal(size=(3, 3)), rng.normal(size=(3, 3))

    def at(s: float) -> np.ndarray:
        return np.asarray(fractional_matrix_power(product @ product.T, 1 - s) @ pull
                          @ fractional_matrix_power(product.T @ product, s)).real

    integral = [[quad(lambda s: at(s)[i, j], 0, 1)[0] for j in range(3)] for i in range(3)]
    assert np.allclose(velocity(product, pull, np.inf), integral, atol=1e-9)
    layers = [fractional_matrix_power(product @ product.T, (5 - l) / 5) @ pull
              @ fractional_matrix_power(product.T @ product, (l - 1) / 5) for l in range(1, 6)]
    assert np.allclose(velocity(product, pull, 5), np.mean(layers, axis=0), atol=1e-9)


def test_layers_that_follow_their_own_gradients_move_the_product_so() -> None:
    """Four layers, Runge and Kutta by hand, a pull that turns."""
    depth, size, steps, time = 4, 3, 200, 0.8
    target = np.array([[0.0, 0, 0], [0, 0, 0], [1.2, -0.5, 0]])

    def pull(product: np.ndarray) -> np.ndarray:
        return np.diag([0.0, 0, 1.0]) @ (target - product) @ np.diag([1.0, 0.3, 0.0])

    def slopes(layers: np.ndarray) -> np.ndarray:
        found = []
        for l in range(depth):
            above, below = np.eye(size), np.eye(size)
            for one in layers[l + 1:]:
                above = one @ above
            for one in layers[:l]:
                below = one @ below
            found.append(above.T @ pull(above @ layers[l] @ below) @ below.T / depth)
        return np.array(found)

    layers, dt = np.tile(np.eye(size), (depth, 1, 1)), time / steps
    for _ in range(steps):
        k1 = slopes(layers)
        k2 = slopes(layers + dt / 2 * k1)
        k3 = slopes(layers + dt / 2 * k2)
        k4 = slopes(layers + dt * k3)
        layers = layers + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    product = layers[3] @ layers[2] @ layers[1] @ layers[0]
    assert np.max(np.abs(product - moved(pull, size, np.array([time]), depth)[0])) < 1e-9
