"""What is given is read or refused: numbers, labels, flags, options."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from reference.particles import run_particles
from tpcalc.interpreters import run_program

NET, OPT, SCALE = tp.ResNet(), tp.SGD(0.5), tp.DepthScaling()
TASK = tp.Task([1.0, 0.5], [1.0, -1.0])
TANH = tp.ResNet("tanh")


class Quadratic:
    """A loss whose methods return what a test says."""

    def __init__(self, value: Any = None, derivative: Any = None) -> None:
        self.of_value, self.of_derivative = value, derivative

    def value(self, f: np.ndarray, y: np.ndarray) -> Any:
        right = 0.5 * np.sum((f - y)**2, axis=-1)
        return right if self.of_value is None else self.of_value(right)

    def derivative(self, f: np.ndarray, y: np.ndarray) -> Any:
        return f - y if self.of_derivative is None else self.of_derivative(f - y)


IMAGINARY: dict[str, Callable[[], Any]] = {
    "inputs": lambda: tp.Task(np.array([1 + 2j]), [1.0]),
    "inputs without imaginary part": lambda: tp.Task(np.array([1 + 0j]), [1.0]),
    "list": lambda: tp.Task([1, 2j], [1, 1]),
    "sympy": lambda: tp.Task([sp.I], [1.0]),
    "targets": lambda: tp.Task([1.0], np.array([1j])),
    "probes": lambda: tp.Task([1.0], [1.0], probes=np.array([[1j]])),
    "lr": lambda: tp.SGD(np.complex128(1 + 1j)),  # type: ignore[arg-type]
    "lr list": lambda: tp.SGD(np.array([1j, 1])),  # type: ignore[arg-type]
    "momentum": lambda: tp.SGD(momentum=np.complex64(0.5)),  # type: ignore[arg-type]
    "Adam": lambda: tp.Adam(beta1=np.complex128(0.5)),
    "Adam lr": lambda: tp.Adam(sp.I),
    "sign": lambda: tp.SignSGD(1j),
    "alpha": lambda: tp.DepthScaling(np.complex128(0.5)),
    "branch": lambda: tp.DepthScaling(branch=np.complex128(0.5)),  # type: ignore[arg-type]
    "loss derivative": lambda: tp.Task([1.0], [1.0], Quadratic(derivative=lambda d: d * (1 + 1j))),
    "loss value": lambda: tp.Task([1.0], [1.0], Quadratic(lambda v: v + 1j)),
    "run_program": lambda: run_program(tp.program(NET, OPT, SCALE), {"T": 1, "L": 1}, {"xi": [1j], "y": [1.0]}, 4),
    "loss of a program": lambda: run_program(tp.program(NET, OPT, SCALE), {"T": 1, "L": 1},
                                             {"xi": [1.0], "y": [1.0]}, 4, loss=lambda f, y: np.complex128(f - y + 1j)),
    "compiled": lambda: tp.recursion(tp.kets(tp.program(NET, OPT, SCALE))).compile()(1, np.array([1j]), [1.0]),
    "masked": lambda: tp.Task(np.ma.array([1.0, 2.0], mask=[True, False]), [1.0, 1.0]),
    "dates": lambda: tp.Task(np.array(["2020-01-01"], dtype="datetime64[D]"), [1.0]),
}


@pytest.mark.parametrize("location", IMAGINARY)
def test_nothing_loses_its_imaginary_part(location: str, recwarn: pytest.WarningsRecorder) -> None:
    with pytest.raises(ValueError, match="real|given"):
        IMAGINARY[location]()
    assert not [w for w in recwarn if "imaginary" in str(w.message)]


def test_a_derivative_that_becomes_complex_is_refused_where_it_does() -> None:
    turned = Quadratic(derivative=lambda d: np.sqrt(d.astype(complex)) if np.any(d > 0) else d)
    for depth, width in ((3, tp.oo), (3, 8), (tp.oo, tp.oo)):
        with pytest.raises(ValueError, match=r"loss: its derivative\(f, y\) has shape .* complex128"):
            tp.train(NET, tp.Task([1.0, 0.5, 0.5], [1.0, -1.0, -1.0], turned), OPT, SCALE, depth, width)


@pytest.mark.parametrize("returned", [lambda d: d.sum(), lambda d: d[:, 0], lambda d: d.tolist() + [[0.0]],
                                      lambda d: np.broadcast_to(d, (2, *d.shape)), lambda d: "x", lambda d: None])
def test_losses_of_wrong_shape_are_refused_before_any_work(returned: Any) -> None:
    with pytest.raises(ValueError, match=r"loss: its derivative\(f, y\) has shape .*; expected real numbers of"):
        tp.Task(np.ones((2, 3, 1)), np.ones((2, 3, 1)), Quadratic(derivative=returned))
    with pytest.raises(ValueError, match=r"loss: its value\(f, y\) has shape"):
        tp.Task(np.ones((2, 3, 1)), np.ones((2, 3, 1)), Quadratic(lambda v: np.sum(v)))


@pytest.mark.parametrize("loss, targets, said", [
    ("logistic", [0.0, 1.0], "targets: got 0.0 with loss='logistic'; expected the labels -1 and 1"),
    ("logistic", [0.5, 1.0], "targets: got 0.5"),
    ("softmax", [1.0, 1.0], "targets: got 1 output with loss='softmax'"),
    ("softmax", np.array([[[2.0, -1.0]], [[0.0, 1.0]]]), r"targets: got \[2.0, -1.0\] with loss='softmax'"),
    ("softmax", np.array([[[1.0, 0.0]], [[0.3, 0.3]]]), r"targets: got \[0.3, 0.3\] with loss='softmax'; expected "
                                                        "probabilities"),
    ("softmax", np.array([[[1.0, 0.0]], [[1.0, 1.0]]]), "add up to 1")])
def test_targets_follow_the_convention_of_their_loss(loss: str, targets: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tp.Task([1.0, 0.5], targets, loss) if np.ndim(targets) == 1 else tp.Task(np.ones((2, 1, 1)), targets, loss)


def test_the_conventions_hold_for_programs_and_probes_too() -> None:
    program = tp.program(NET, OPT, SCALE)
    with pytest.raises(ValueError, match="expected the labels -1 and 1"):
        run_program(program, {"T": 1, "L": 1}, {"xi": [1.0], "y": [0.0]}, 4, loss="logistic")
    task = tp.Task([1.0], [1.0], "logistic", probes=[[1.0]])
    with pytest.raises(ValueError, match="expected the labels -1 and 1"):
        tp.transfer(NET, task, OPT, SCALE, [2], [1.0], probe_targets=[[0.0]])


def test_probabilities_of_single_precision_are_probabilities() -> None:
    rows = np.random.default_rng(0).dirichlet(np.ones(7), size=(3, 2)).astype(np.float32)
    tp.Task(np.ones((3, 2, 1)), rows, "softmax")


@pytest.mark.parametrize("options, said", [
    ({"samples": "nonsense"}, "samples: got 'nonsense'; expected a whole number of at least 1"),
    ({"samples": True}, "samples: got True"), ({"samples": 0}, "samples: got 0"),
    ({"batches": 1}, "batches: got 1; expected a whole number of at least 2"), ({"batches": 2.0}, "batches: got 2.0"),
    ({"executor": 4}, "executor: got 4; expected what has submit, as executors of concurrent.futures"),
    ({"keep_nodes": True}, "keep_nodes: got True; expected None, 'all' or layer times"),
    ({"keep_nodes": "none"}, "keep_nodes: got 'none'"), ({"keep_nodes": 1.5}, "keep_nodes: got 1.5"),
    ({"progress": "yes"}, "progress: got 'yes'; expected a function, or None"),
    ({"seed": -1}, "seed: got -1; expected a whole number of at least 0"), ({"seed": "0"}, "seed: got '0'"),
    ({"seed": False}, "seed: got False"), ({"method": "magic"}, "method: got 'magic'"),
    ({"width": 50, "dtype": "float16"}, "dtype: got 'float16'; expected 'float32', 'float64'"),
    ({"width": 50, "dtype": np.float32}, "dtype: got <class 'numpy.float32'>")])
def test_options_that_mean_nothing_are_refused(options: dict, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        tp.train(TANH, TASK, OPT, SCALE, 2, **options)
    assert said in str(caught.value)


UNREAD: list[tuple[tp.ResNet, dict, dict]] = [
    (net, where, option)
    for net, where, unread in (
        (NET, {}, ("seed", "executor", "samples", "batches", "dtype")),
        (NET, {"method": "coefficients"}, ("seed", "executor", "samples", "batches", "dtype")),
        (NET, {"depth": tp.oo}, ("seed", "executor", "samples", "batches", "dtype")),
        (NET, {"width": 8}, ("executor", "samples", "batches")),
        (TANH, {"width": 8}, ("executor", "samples", "batches")),
        (TANH, {"width": 8, "method": "dense"}, ("executor", "samples", "batches")))
    for option in ({"seed": 0}, {"executor": ThreadPoolExecutor(1)}, {"samples": 4096}, {"batches": 8},
                   {"dtype": "float64"}) if set(option) <= set(unread)]


@pytest.mark.parametrize("net, where, option", UNREAD)
def test_options_that_the_method_does_not_read_are_refused(net: tp.ResNet, where: dict, option: dict) -> None:
    name, = option
    with pytest.raises(ValueError, match=f"{name}: got .*; method='.*' does not read it"):
        tp.train(net, TASK, OPT, SCALE, **{"depth": 2, **where, **option})


@pytest.mark.parametrize("net, where, options", [
    (NET, {"width": 8}, {"seed": 1}), (TANH, {"width": 8}, {"seed": 1, "dtype": "float32"}),
    (TANH, {}, {"seed": 1, "samples": 100, "batches": 3, "executor": ThreadPoolExecutor(1)})])
def test_options_that_the_method_reads_decide_something(net: tp.ResNet, where: dict, options: dict) -> None:
    base = tp.train(net, TASK, OPT, SCALE, 2, **where, **({"samples": 101} if "samples" in options else {}))
    assert np.any(base.outputs != tp.train(net, TASK, OPT, SCALE, 2, **where, **options).outputs)


@pytest.mark.parametrize("refused, said", [
    (lambda: tp.SGD(momentum=0.9, nesterov="yes"), "nesterov: got 'yes'; expected False and True"),  # type: ignore
    (lambda: tp.SGD(weight_decay=0.1, decoupled=1), "decoupled: got 1"),  # type: ignore[arg-type]
    (lambda: tp.SGD(lr=True), "lr: got True"), (lambda: tp.SGD(momentum=True), "momentum: got True"),
    (lambda: tp.SGD(momentum=[0.9]), "momentum: got [0.9]"),  # type: ignore[arg-type]
    (lambda: tp.program(NET, OPT, SCALE, batch="yes"), "batch: got 'yes'"),  # type: ignore[arg-type]
    (lambda: tp.program(NET, OPT, SCALE, batch=2), "batch: got 2"),
    (lambda: tp.ResNet(train_embedding_readout=1), "train_embedding_readout: got 1"),  # type: ignore[arg-type]
    (lambda: tp.convergence(NET, TASK, OPT, SCALE, [2, 4], executor=4), "executor: got 4"),  # type: ignore[arg-type]
    (lambda: tp.transfer(NET, TASK, OPT, SCALE, [2], [1.0], executor=4), "executor: got 4"),  # type: ignore[arg-type]
    (lambda: run_particles(tp.program(NET, OPT, SCALE), {"T": 1, "L": 1}, {"xi": [1.0], "y": [1.0]}, 200,
                           executor="threads"), "executor: got 'threads'"),  # type: ignore[arg-type]
    (lambda: tp.Task([1.0], [1.0], probes=np.zeros((0, 1))), "probes: got shape (0, 1); expected (m, 1) with m of"),
])
def test_flags_and_helpers_are_what_they_must_be(refused: Callable[[], Any], said: str) -> None:
    with pytest.raises(ValueError) as caught:
        refused()
    assert said in str(caught.value)


@pytest.mark.parametrize("location", [(0.5, 0, 0, 0, 1, 1), (True, 0, 0, 0, 1, 1), ("0", 0, 0, 0, 1, 1),
                                      (9, 0, 0, 0, 1, 1), ((0, 0.0), 0, 0, 0, 1, 1),
                                      (0, 0, 2, 0, 1, 1), (0, 0, 0, 0, 1j, 1),
                                      (0, 0, 0, 0, True, 1), (0, 0, 0, 0, 1, float("nan")), (0, 0, 0, 0, "x", 1)])
def test_places_of_a_run_are_steps_and_layer_times(location: tuple) -> None:
    run = tp.train(NET, TASK, OPT, SCALE, 2)
    for ask in (run.gamma, run.cross_covariance):
        with pytest.raises(ValueError, match="^[tsabpq]: got .*; expected"):
            ask(*location)


def test_a_dense_network_is_trained_in_the_precision_that_is_asked_for() -> None:
    """Outputs in float32 are those of float64 to its digits, and not all of them."""
    one, other = (tp.train(TANH, TASK, OPT, SCALE, 2, width=8, method="dense", dtype=dtype).outputs
                  for dtype in ("float32", "float64"))
    assert 0 < np.max(np.abs(one - other)) < 1e-5
