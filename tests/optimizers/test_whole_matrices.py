"""Shampoo, SOAP, and matrices of wide hidden layers that move as wholes: real networks against n x n arrays, particles
against networks, verdicts, and what is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from models.test_hidden_width import ALPHA, DEPTH, GAMMA, SCALE, held_against_rectangles
from support.plain.transformer import PlainTransformer
from support.plain.whole_matrices import DIRECTIONS, step_of
from tpcalc.lowering.source import Lowered
from tpcalc.optimizers import soap
from tpcalc.optimizers.polar import polar
from tpcalc.optimizers.updates import finite_batches, kind_of_updates
from tpcalc.optimizers.spectral import in_whole
from tpcalc.interpreters.vectors import run_program
from tpcalc.programs.blocks import latex_name, vector
from tpcalc.theory import Family, Matrix, MatVec, Outer, Vector, factored_square, gradients_so_far

RATES = (0.3, 0.5, 0.2)
NEW = [tp.Shampoo(0.3), tp.Shampoo(RATES, beta1=0, beta2=0.9, eps=0.05, weight_decay=0.1), tp.SOAP(RATES, eps=0.05),
       tp.SOAP(0.3, betas=(0, 0.9)), tp.SOAP(0.3, beta1=0.5, weight_decay=0.2),
       tp.SOAP(0.3, beta1=0.5, beta2=0, eps=0.1), tp.Shampoo(0.3, beta1=0.5, beta2=0, eps=0.1)]
WHOLE = [tp.Muon(0.3), tp.Muon(RATES, momentum=0.8, nesterov=True, weight_decay=0.2), tp.NormalizedSGD(RATES),
         tp.NormalizedSGD(0.3, momentum=0.8, nesterov=True)]
TASK = tp.Task([[[1.0, 0.3], [0.2, -0.8]], [[-0.4, 0.8], [0.7, 0.1]], [[0.6, 0.6], [0.5, -1]]],
               [[1, -0.7], [0.5, 0.3], [-0.2, 1]])


def move(opt: Any) -> Any:
    return step_of(opt, DEPTH**ALPHA, DEPTH**-GAMMA, 3)


@pytest.mark.parametrize("opt", NEW, ids=str)
def test_real_transformers_are_plain_arrays(opt: Any) -> None:
    rng = np.random.default_rng(5)
    task = tp.Sequences(rng.normal(size=(3, 2, 3, 2)), rng.normal(size=(3, 2, 3)))
    run = tp.train(tp.Transformer(positions=3, head_dim=2), task, opt, SCALE, DEPTH, 16, method="dense", seed=1)
    given = run.initial_weights()
    w = {**given, "U": given["U"].reshape(2, 16).T, "nV": given["nV"].reshape(1, 16).T}
    found = PlainTransformer(eps=DEPTH**-ALPHA, head_dim=2).moved(w, task, move(opt))
    assert np.abs(found - run.outputs).max() < 1e-8 * np.abs(found).max()


@pytest.mark.parametrize("mlp, ratio", [pytest.param("mlp", 3, marks=pytest.mark.nightly), ("glu", 2)])
@pytest.mark.parametrize("opt", [*WHOLE, *NEW[1:3]], ids=str)
def test_matrices_of_wide_hidden_layers_move_as_wholes(mlp: str, ratio: int, opt: Any) -> None:
    """Where parts are above each other, and where their columns are next to each other."""
    held_against_rectangles(dict(head_dim=2, mlp=mlp), ratio, 2, opt, move(opt))


@pytest.mark.parametrize("opt", [tp.Muon(0.3, momentum=0.5), tp.NormalizedSGD(0.3), NEW[1], NEW[2]], ids=str)
def test_statement_by_statement_parts_move_with_the_whole_too(opt: Any) -> None:
    """The second step of both matrices, in the reading that takes statements one by one."""
    n, net = 24, tp.ResNet("tanh", "mlp", mlp_ratio=2)
    run = run_program(tp.program(net, opt, SCALE, batch=True, d_in=2, d_out=2), {"T": 3, "L": 2, "B": 2},
                      dict(xi=TASK.inputs, y=np.stack([TASK.targets[..., 0]] * 2, axis=-1),
                           **({"eta": opt.schedule(3)} if isinstance(opt.lr, tuple) else {})), width=n)

    def stack(name: str, step: int, layer: int) -> np.ndarray:
        return np.array([run.vectors[vector(name)[step, i, layer]] for i in range(2)])

    def gradient(step: int, part: int, last: bool) -> np.ndarray:
        left, right = (stack("dx", step, 1), stack(f"z_{part}", step, 1)) if last else (
            stack(f"dh_{part}", step, 1), stack("x", step, 0))
        return left.T @ right / n / 2

    read = vector("x")[1, 0, 0]
    for last in (False, True):
        seen = [np.concatenate([gradient(step, part, last) for part in (1, 2)], axis=int(last)) for step in (0, 1)]
        direction = DIRECTIONS[type(opt)](opt, seen)
        for part in (1, 2):
            W = Family(Matrix, f"W{1 + last}_{part}", latex_name(f"W{1 + last}_{part}"), layered=True)
            new, old = (run.vector(MatVec(W[step, 1], read)) for step in (2, 1))
            here = np.split(direction, 2, axis=int(last))[part - 1] * (np.sqrt(2) if last else 1)
            rate, share = opt.schedule(3)[1], 2**-GAMMA
            expected = (1 - rate * float(opt.weight_decay)) * old - rate * share * here @ run.vectors[read]
            np.testing.assert_allclose(new, expected, atol=1e-9)


@pytest.mark.parametrize("net", [tp.ResNet("tanh", "mlp"), tp.ResNet("tanh", "mlp", mlp_ratio=2)], ids=str)
@pytest.mark.parametrize("opt", [tp.Shampoo(0.3, eps=0.1), tp.SOAP(0.3, eps=0.1)], ids=str)
def test_particles_are_wide_networks(net: tp.ResNet, opt: Any) -> None:
    limit = tp.train(net, TASK, opt, tp.DepthScaling(), 3, method=tp.methods.Particles(samples=1024))
    width, seeds = 512, 24
    outputs = np.array([tp.train(net, TASK, opt, tp.DepthScaling(), 3, width, method="conditioned", seed=seed).outputs
                        for seed in range(seeds)])[..., 0]
    error = outputs.std(axis=0, ddof=1) / np.sqrt(seeds)
    apart = np.abs(outputs.mean(axis=0) - limit.outputs[..., 0])
    assert np.all(apart < 4 * error + limit.error_estimate + 4 / width) and np.abs(limit.outputs).max() > 0.1


def test_the_first_step_is_muons() -> None:
    one = tp.Task(TASK.inputs[:2], TASK.targets[:2])
    runs = [tp.train(tp.ResNet("tanh", "mlp"), one, opt, SCALE, 2, 24, method="dense").outputs
            for opt in (tp.Muon(0.3), tp.Shampoo(0.3), tp.SOAP(0.3))]
    assert max(np.abs(runs[0] - other).max() for other in runs[1:]) < 1e-10


def test_powers_are_those_of_updates_of_size_one() -> None:
    for name, opt in (("shampoo", tp.Shampoo()), ("soap", tp.SOAP())):
        assert kind_of_updates(opt) == "spectral"
        for given in (name, opt):
            muon = str(tp.classify(.5, .5, tp.ResNet("tanh", "mlp"), tp.Muon()))
            assert str(tp.classify(.5, .5, tp.ResNet("tanh", "mlp"), given)).replace(name, "muon") == muon.replace(
                f"{finite_batches('muon')[0]}; ", "")
        found, muons = (tp.recipe("depth-mup", one, 96, 12).factors for one in (opt, "muon"))
        assert {**found} == {**muons, "eps": found["eps"]}


def test_what_vanishes_at_infinite_width_is_refused() -> None:
    """Loss derivatives of 0, and eigenvectors that fluctuations choose: inputs that are alike in size."""
    alike = tp.Task([[[1.0, 0.0], [0.0, 1.0]]] * 3, [[1.0, 1.0]] * 3)
    with pytest.raises(tp.Divergence, match="may be a fluctuation"):
        tp.train(tp.ResNet("tanh"), alike, tp.SOAP(0.3), tp.DepthScaling(), 2, method=tp.methods.Particles(samples=512))
    for opt in (tp.Shampoo(0.3), tp.SOAP(0.3)):
        with pytest.raises((tp.Divergence, tp.NotCovered), match="vanish|fluctuation"):
            tp.train(tp.ResNet("tanh"), tp.Task([1.0, 0.5], [0.0, 0.0]), opt, tp.DepthScaling(), 2,
                     method=tp.methods.Particles(samples=512))
        with pytest.raises(tp.NotCovered, match="kets have no rule"):
            tp.kets(tp.program(tp.ResNet(), opt, tp.DepthScaling()))
        with pytest.raises(ValueError, match="^opt: got"):
            tp.Clipped(opt, 1.0)
    with pytest.raises(tp.NotCovered, match="embedding and readout are vectors; expected frozen ones"):
        tp.program(tp.ResNet(train_embedding_readout=True), tp.Shampoo(), tp.DepthScaling())
    for kind, bad in ((tp.Shampoo, dict(beta2=1.1)), (tp.Shampoo, dict(beta1=1)), (tp.SOAP, dict(beta2=1)),
                      (tp.SOAP, dict(eps=-1)), (tp.Shampoo, dict(betas=(0.9,)))):
        with pytest.raises(ValueError, match="got .*; expected"):
            kind(**bad)


def test_soap_moves_vectors_by_adam() -> None:
    net = tp.ResNet("tanh", train_embedding_readout=True)
    opt = tp.SOAP(0.3, beta1=0.5, beta2=0.7, eps=0.1)
    scale = tp.Parametrization(depth={"alpha": 0.5, "W": 40, "U": 0, "nV": 0})  # blocks hardly move
    runs = [tp.train(net, TASK, one, scale, 4, 32, method="dense").outputs
            for one in (opt, tp.Adam(0.3, 0.5, 0.7, 0.1))]
    assert np.abs(runs[0] - runs[1]).max() < 1e-9 < 0.1 < np.abs(runs[0][2] - runs[0][0]).max()


@dataclass(frozen=True)
class Own:
    """Optimizers of a user's own: Adafactor's, a factor and a gradient, and gradients step by step taken for a sum."""

    kind: str
    lr: float = 0.1
    weight_decay: float = 0.0

    def schedule(self, steps: int) -> np.ndarray:
        return np.full(steps, self.lr)

    def direction(self, gradient: Callable[[sp.Expr], sp.Expr], step: sp.Expr) -> sp.Expr:
        if self.kind == "a sum":
            return 2 * gradients_so_far(gradient, step) + sp.sign(gradient(step))
        if self.kind == "factored":
            return gradient(step) / sp.sqrt(factored_square(gradient, lambda of: of(step)))
        return polar(gradient(step)) + gradient(step)


@pytest.mark.parametrize("opt, said", [(Own("factored"), "averages over rows or columns, which are those of the whole"),
                                       (Own("polar"), "moves as a whole along a number times a function")])
def test_parts_do_not_move_by_themselves_where_wholes_would(opt: Any, said: str) -> None:
    tp.program(tp.ResNet("tanh", "mlp"), opt, SCALE)
    with pytest.raises(tp.NotCovered, match=said):
        tp.program(tp.ResNet("tanh", "mlp", mlp_ratio=2), opt, SCALE)


def test_gradients_step_by_step_are_no_sum() -> None:
    """Readings that multiply sums out would add them."""
    with pytest.raises(tp.NotCovered, match="gradients step by step are no sum; expected a sympy.Sum"):
        tp.train(tp.ResNet("tanh"), TASK, Own("a sum"), SCALE, 2, 16)


def test_wholes_turn_with_their_parts() -> None:
    u, v = (Family(Vector, name) for name in "uv")
    parts = [polar(Outer(u[k], v[0])) for k in range(2)]
    whole = in_whole(parts, 1, 1)
    assert whole.transposed().transposed() == whole != whole.transposed()
    assert whole.transposed() == in_whole([one.transposed() for one in parts], 1, 0)


def test_what_no_recent_gradient_spans_is_divided_by_eps() -> None:
    """Momentum remembers what averages with a small beta2 forget: 14 steps of gradients of rank one."""
    rng, n = np.random.default_rng(1), 20
    gradients = [np.outer(u, v) / n for u, v in rng.normal(size=(14, 2, n))]
    u, v = Family(Vector, "u"), Family(Vector, "v")
    for opt in (tp.SOAP(0.3, betas=(0.9, 0.01), eps=0.1), tp.SOAP(0.3, betas=(0.9, 0), eps=0.1),
                tp.Shampoo(0.3, betas=(0.9, 0.01), eps=0.1)):
        node = opt.direction(lambda k: Outer(u[k], v[k]), sp.Symbol("t"))
        for steps in (1, 2, 8, 14):
            seen = gradients[:steps]
            moved = sum(w * g for w, g in zip(0.9 ** np.arange(steps - 1.0, -1.0, -1.0), seen)) / sum(
                0.9 ** np.arange(steps))
            found, _ = node.whole(moved, seen, 1e-14)
            np.testing.assert_allclose(found, DIRECTIONS[type(opt)](opt, seen), atol=1e-9)


@pytest.mark.parametrize("kind", [tp.Shampoo, tp.SOAP])
@pytest.mark.parametrize("eps", [1e-12, 1e-30, 1e-200, 1e-300])
def test_an_eps_too_small_to_matter_does_not(kind: Any, eps: float) -> None:
    """What rounding leaves is 0, whatever it would be divided by."""
    task = tp.Task([1, 0.5, 0.2], [1, -1, 0.5])
    runs = [tp.train(tp.ResNet("tanh"), task, kind(0.3, eps=one), tp.DepthScaling(), 2, 8, method="dense").outputs
            for one in (eps, 0)]
    assert np.abs(runs[0] - runs[1]).max() < 1e-9


def test_a_large_eps_is_what_steps_divide_by() -> None:
    """Then no gap between eigenvalues counts."""
    for opt in (tp.Shampoo(0.3, eps=100.0), tp.SOAP(0.3, eps=100.0)):
        run = tp.train(tp.ResNet("tanh"), TASK, opt, tp.DepthScaling(), 2)
        said = re.search(r"what steps divide by is at least ([.0-9]+) of the largest", run.notes[1])
        assert said is not None and float(said[1]) > 0.9


def test_printed_parts_are_those_of_wholes() -> None:
    net = tp.ResNet("tanh", "mlp", mlp_ratio=2)
    for opt, name in ((tp.Muon(0.3), "polar"), (tp.Shampoo(0.3), "Preconditioned"), (tp.SOAP(0.3), "InEigenvectors")):
        program = tp.program(net, opt, SCALE)
        lines = [line for line in str(program).splitlines() if "[t + 1, l] :=" in line]
        assert len(lines) == 4 and all(re.search(rf"{name}\(\[.*z?_[12].*[;,] .*\]\)\[[12]\]", line) for line in lines)
        assert ("; " in lines[0]) and "; " not in lines[-1] and r"\right)_{2}" in program.latex()
        one = tp.program(tp.ResNet("tanh", "mlp"), opt, SCALE)
        assert "[1]" not in str(one) and r"\right)_{1}" not in one.latex()


def test_what_is_known_of_earlier_steps_is_not_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eigenvectors of a step are found once in a run, two sides of a matrix, and outputs are those of finding all."""
    task, found = tp.Task(np.random.default_rng(3).normal(size=(5, 2, 3)), np.ones((5, 2, 1))), []
    opt, made = tp.SOAP(0.1, eps=0.1), soap.eigenvectors
    monkeypatch.setattr(soap, "eigenvectors", lambda *given, **named: found.append(1) or made(*given, **named))
    outputs, counts = [], []
    for forgets in (False, True):
        if forgets:
            monkeypatch.setattr(Lowered, "beside", lambda self, at, node: at)  # every step by itself
        found.clear()
        outputs.append(tp.train(tp.ResNet("tanh", "mlp"), task, opt, tp.DepthScaling(), 2, 32, method="dense").outputs)
        counts.append(len(found))
    updates, matrices = task.steps, 4
    assert counts == [2 * matrices * updates, matrices * updates * (updates + 1)]
    np.testing.assert_allclose(*outputs, rtol=0, atol=1e-12)
