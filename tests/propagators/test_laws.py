"""The solver's densities are compiled from the action, and updates may be a matrix for every layer and step."""

from __future__ import annotations

from typing import Callable, Iterator

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.action import densities
from tpcalc.action.action import STEPS, Acting, action, at
from tpcalc.action.densities import ActionTerm, Derivative, density_terms, derive_laws
from tpcalc.propagators.laws.pair_laws import DerivedBlock, ForwardLaw, compiled_laws, kernels_of
from tpcalc.propagators.collocation import CollocationPropagator, solve_limit

TASK = tp.Task((1, .8, -.6, 1.1), (1, -.7, .5, 1.2))


@pytest.fixture
def with_action(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[..., sp.Expr]], None]]:
    """Replaces the action that densities are derived from, for one test."""
    caches = (densities.derive_densities_of_kernels, derive_laws, compiled_laws, kernels_of)

    def forget() -> None:
        for cached in caches:
            cached.cache_clear()

    def replaced(other: Callable[..., sp.Expr]) -> None:
        monkeypatch.setattr(densities, "action", other)
        forget()
    yield replaced
    forget()


def flipped(one: sp.Symbol, two: sp.Symbol, matrices: tuple[str, ...]) -> sp.Expr:
    """The action with the other sign of theta."""
    value = action(one, two, matrices)
    thetas = [e for e in value.atoms(Acting) if str(e.args[0]).startswith("theta")]
    assert len(thetas) == (1 if STEPS[two] < STEPS[one] else 0)
    return value.xreplace({e: -e for e in thetas})


def test_a_flipped_sign_in_the_action_is_seen_by_train(with_action: Callable[[Callable[..., sp.Expr]], None]) -> None:
    """theta with the other sign is a learning rate with the other sign: nothing else reads both."""
    def outputs(net: tp.ResNet, rate: float = 0.3) -> np.ndarray:
        return tp.train(net, TASK, tp.SGD(rate), tp.DepthScaling(), depth=tp.oo).outputs.ravel()

    nets = [tp.ResNet("tanh"), tp.ResNet()]
    right = [outputs(net) for net in nets]
    with_action(flipped)
    for net, f in zip(nets, right):
        assert np.max(np.abs(outputs(net)[1:] - f[1:])) > 0.05
        np.testing.assert_allclose(outputs(net, -0.3), f, rtol=0, atol=1e-10)


def test_a_term_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="whole numbers times r, w, e or C.1 and one kernel"):
        density_terms(at("r", *sp.symbols("a b")) ** 2)
    assert [str(term) for term in derive_laws().past] == [
        "-2 w C1 theta[0, 1, 0]", "2 e kappa[0, 1, 0]", "2 r C1 kappa[1, 1, 0]"]
    assert ActionTerm(1, Derivative("kappa")) == derive_laws().N0[0]


def test_matrices_of_weights_are_the_weights() -> None:
    """An optimizer that does not mix rows, given as diagonal matrices: rows solved directly, too."""
    rng = np.random.default_rng(3)
    task = tp.Task(rng.normal(size=(3, 2, 3)), rng.normal(size=(3, 2, 1)))
    opt = tp.SGD(0.7, momentum=0.4)
    w = np.kron(opt.memory(3)[1], np.ones((2, 2))) / 2

    class Diagonal:
        def weights(self, propagator: CollocationPropagator, step: int) -> np.ndarray:
            return np.broadcast_to(np.diag(w[2 * step, :2 * step]), (len(propagator.layer_times), 2 * step, 2 * step))

    for large in (1.0, 4.0):
        f, g = (solve_limit(task, opt, 1.0, large, "plain", updates=updates).trace.outputs
                for updates in (None, Diagonal()))
        np.testing.assert_allclose(f, g, rtol=0, atol=1e-9 * np.max(np.abs(f)))


def test_updates_that_mix_rows_are_of_linear_blocks() -> None:
    with pytest.raises(ValueError, match=r"drift: got matrices of shape \(2, 1, 1\) with the block of ResNet"):
        ForwardLaw(DerivedBlock(tp.ResNet("tanh")), 1.0, np.ones((2, 1, 1)), np.ones(1), np.ones(1), 1.0)
