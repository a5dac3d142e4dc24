"""What gradients carry: degrees read off a layer's statements, against derivatives of plain arrays."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.models.skips import Junction
from tpcalc.training.carried import carried

N, P = 6, 3  # coordinates, positions
NAMES = ("Wq", "Wk", "Wv", "Wo", "W1", "W2")
RNG = np.random.default_rng(0)
X, SIGNAL = RNG.standard_normal((2, P, N))
WEIGHTS = {name: RNG.standard_normal((N, N)) for name in NAMES}
ALONG = {name: RNG.standard_normal((N, N)) for name in NAMES}


def branch(w: dict[str, np.ndarray], name: str) -> float:
    """What the sublayer of a matrix adds, in the direction of a signal: heads of one coordinate, all positions."""
    if name in ("W1", "W2"):
        return float(np.sum(SIGNAL * (np.maximum(X @ w["W1"].T, 0) @ w["W2"].T)))
    q, k, v = (X @ w[each].T for each in ("Wq", "Wk", "Wv"))
    shares = np.exp(q[:, None] * k[None])
    mixed = np.einsum("pmn,mn->pn", shares / shares.sum(1, keepdims=True), v)
    return float(np.sum(SIGNAL * (mixed @ w["Wo"].T)))


def gradient(name: str, scales: dict[str, float], h: float = 1e-6) -> float:
    """The derivative in a matrix, along a direction, with initial matrices times numbers."""
    w = {each: scales.get(each, 1.0) * matrix for each, matrix in WEIGHTS.items()}
    ends = [branch({**w, name: w[name] + sign * h * ALONG[name]}, name) for sign in (1, -1)]
    return (ends[0] - ends[1]) / (2 * h)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_homogeneous_in_what_is_said(name: str) -> None:
    """Another matrix times 1/2, and times 1/4: the power of that number which the gradient has, if it has one."""
    power, degrees = carried(tp.Transformer(phi="relu")).of_gradients[name]
    assert power == 1
    for other in NAMES:
        found = [np.log(gradient(name, {other: c}) / gradient(name, {}) + 0j) / np.log(c) for c in (0.5, 0.25)]
        degree = degrees.get(other, 0)
        if degree is sp.nan:
            assert abs(found[0] - found[1]) > 1e-3
        else:
            assert np.allclose(found, float(degree), atol=1e-5), other


def test_matrices_at_the_end_of_branches() -> None:
    assert carried(tp.Transformer(mlp="glu")).last == ("Wo", "W3") and carried(tp.ResNet()).last == ("W",)


def test_branches_of_different_sizes_have_an_alpha_each() -> None:
    found, half, none = carried(tp.Transformer(phi="relu")), sp.Rational(1, 2), (sp.Integer(0),) * 2
    assert found.alphas(none, {"Wo": -half, "W2": sp.Integer(0)}) == (half, 0)
    assert found.alphas((-half / 2, -1), {"Wo": -half, "W1": -half}) == (3 * half / 2, 3 * half)
    assert [found.gradient(name, (-half, -1), {"Wo": -half}) for name in ("Wq", "Wo", "W1")] == [-1, -half, -1]
    assert {name: found.homes[name] for name in NAMES} == dict(zip(NAMES, (0, 0, 0, 0, 1, 1)))


def test_what_is_not_homogeneous_is_refused() -> None:
    """Scores in softmax, and what gelu acts on."""
    for net, name in ((tp.Transformer(phi="relu"), "Wq"), (tp.Transformer(), "W1"), (tp.ResNet("tanh", "mlp"), "W1")):
        with pytest.raises(ValueError, match=f"got {name} -1; what acts on {name} is not homogeneous"):
            carried(net).alphas((sp.Integer(0),) * 2, {name: sp.Integer(-1)})


def test_of_two_places_of_a_parameter_the_larger_gradient_counts() -> None:
    """A vector on the stream and in the branch: on the stream its gradient has no branch multiplier."""
    def both(junction: Junction) -> tuple[sp.Expr, ...]:
        x, = junction.streams
        kept = junction.trained("a") * x
        return (kept + junction.branch(kept, named=True),)
    found = carried(tp.ResNet("relu", "mlp", skip=both))
    assert found.of_gradients["a"][0] == 0 and found.of_gradients["W1"][0] == found.of_gradients["W2"][0] == 1
    assert found.gradient("a", (sp.Integer(-1),), {}) == 0 and found.gradient("W1", (sp.Integer(-1),), {}) == -1


def test_what_is_normalized_has_gradients_that_fall_with_its_size() -> None:
    """q over its root mean square does not change with the size of W_q, so that c^-1 is that of its gradient."""
    found = carried(tp.Transformer(qk_norm=True, phi="relu"))
    for name in ("Wq", "Wk"):
        assert found.of_gradients[name][1][name] == -1 and found.of_branches[0].get(name, 0) == 0
    assert found.of_gradients["Wq"][1].get("Wk", 0) == 0 and found.of_gradients["Wv"][1].get("Wv", 0) == 0
