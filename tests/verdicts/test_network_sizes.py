"""Sizes in n and L: against the rules for finite width, verdicts by matrix, and real networks of several widths."""

from __future__ import annotations

from functools import partial

import pickle
from typing import Callable

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.verdicts import network_sizes
from tpcalc.verdicts.counted import Attending, softmax_of_two
from tpcalc.verdicts.network_sizes import NetworkSize
from tpcalc.interpreters.dense import run_dense
from tpcalc.programs.blocks import Branch
from tpcalc.training.builders import program
from tpcalc.programs.language import MatVec
from tpcalc.width.sizes import measure

HALF = sp.Rational(1, 2)
SMALL = tp.Transformer(head_dim=2, positions=3, mlp=None)
POINT = tp.DepthScaling(HALF, sp.Rational(3, 4))


def test_a_table_has_what_a_verdict_says() -> None:
    verdict = tp.classify(POINT, SMALL)
    sizes = pickle.loads(pickle.dumps(verdict)).sizes
    assert sizes["x"]["change"].L == verdict.exponents["change of x"] == -HALF / 2
    assert sizes["score"]["at initialization"].L == verdict.exponents["score at initialization"]
    assert sizes["score"]["change"].L == verdict.exponents["change of score"]
    assert sizes["f"] == {"at initialization": NetworkSize(-HALF, sp.Integer(0)),
                          "change": NetworkSize(sp.Integer(0), -HALF / 2)}
    for name, one in verdict.matrices.items():
        assert (sizes[name]["in a layer"].L, sizes[name]["in the stream"].L, sizes[name]["in f"].L) == (
            one.update, one.effect, one.output)
        assert sizes[name]["gradient"] == NetworkSize(sp.Integer(-1), -HALF)
        assert sizes[name]["update"] == NetworkSize(sp.Integer(-1), -one.gamma)
    assert len(sizes) == len(list(sizes)) == len(sizes.rows)
    assert "not known" not in str(sizes)


def test_a_vector_has_its_sizes_whatever_a_user_calls_it() -> None:
    """Names of vectors that stand-ins of softmax have are names like others elsewhere."""
    def bent(name: str) -> Callable[[Branch], sp.Expr]:
        def block(b: Branch) -> sp.Expr:
            return MatVec(b.weights("V"), b.let(name, sp.tanh(b.let("h", MatVec(b.weights(), b.x)))))
        return block

    row, other = (tp.classify(POINT, tp.ResNet(block=bent(name))).sizes for name in ("row", "kept"))
    assert {name.replace("row", "kept"): size for name, size in row.items()} == dict(other)
    assert row["row"]["at initialization"] == NetworkSize(sp.Integer(0), sp.Integer(0))


def test_a_stream_that_grows_does_so_in_front_of_a_norm_alone() -> None:
    """Of a network that grows before training there is nothing else to say; f is read of what has grown."""
    sizes = tp.classify(tp.DepthScaling(HALF / 2, HALF), tp.ResNet("relu", "mlp", norm="rms")).sizes
    assert {name: one["at initialization"].L for name, one in sizes.items()} == {
        "x": HALF / 2, "n": 0, "h": 0, "z": 0, "f": HALF / 2}
    assert all(list(one) == ["at initialization"] for one in sizes.values())


def test_adam_moves_by_its_directions_whatever_gradients_are() -> None:
    sizes = tp.classify(POINT, SMALL, tp.Adam()).sizes
    assert (sizes["Wq"]["gradient"].L, sizes["Wq"]["update"].L) == (-HALF, -POINT.gamma)


def test_powers_of_n_are_those_of_the_rules_for_finite_width() -> None:
    """All vectors of a first step, and what it changes of q, k and v, at two positions with inputs of their own."""
    attention = Attending(tp.theory.softmax_attention(1, HALF, causal=False), partial(softmax_of_two, False))
    net = tp.Transformer(head_dim=1, positions=2, mlp=None, attention=attention)
    one = program(net, tp.SGD(), POINT, d_in=2)
    last = {s.target.name: s.target for s in one.unroll({"T": 1, "L": 1, "P": 2})}
    moved = [last[name].at(1, *last[name].indices[1:]) - last[name] for name in ("q", "k", "value")]
    found = measure(one, {"T": 2, "L": 1, "P": 2}, asked=[*last.values(), *moved])
    sizes = tp.classify(POINT, SMALL).sizes
    for name in ("x", "n1", "q", "k", "value", "score", "share", "mixed", "f"):
        assert found.power(last[name]) == sizes[name]["at initialization"].n, name
    assert found.power(last["dx"]) - 1 == sizes["x"]["gradient"].n
    assert {found.power(e) for e in moved} == {sizes[name]["change"].n for name in ("q", "k", "value")} == {0}
    for matrix, (left, right) in {"Wq": ("dq", "n1"), "Wo": ("dx", "mixed")}.items():
        assert found.power(last[left]) + found.power(last[right]) - 1 == sizes[matrix]["gradient"].n


@pytest.mark.parametrize("opt", [tp.SGD(0.1), tp.Adam(0.1)], ids=["sgd", "adam"])
def test_real_networks_have_these_powers_of_n(opt: tp.SGD | tp.Adam) -> None:
    widths, sizes = (32, 64, 128, 256), tp.classify(POINT, SMALL, opt).sizes
    one = program(SMALL, opt, POINT, d_in=2)
    data = {"xi": np.array([[[0.7, 0.2], [-0.3, 0.9], [0.5, 0.6]]] * 2), "y": [[1.0, 2.0, 1.5]] * 2}
    squares: dict[str, list[float]] = {name: [] for name in ("f", "change of f", "change of x", "q", "change of q")}
    for width in widths:
        runs = [run_dense(one, {"T": 2, "L": 2, "P": 3}, data, width, seed, keep=("x", "q"))
                for seed in range(4096 // width)]
        for name, found in squares.items():
            kept = name.split()[-1]
            both = [run.series("f") if kept == "f" else [run.stack(kept, t, 2) for t in range(2)] for run in runs]
            found.append(float(np.mean([(b[1] - b[0] if "change" in name else b[0])**2 for b in both])))
    for name, found in squares.items():
        power = sizes[name.split()[-1]]["change" if "change" in name else "at initialization"].n
        measured = float(np.polyfit(np.log(widths), np.log(found), 1)[0]) / 2
        assert abs(measured - float(power)) < 0.1, (name, measured, power)


def test_nothing_is_counted_before_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(*arguments: object) -> None:
        raise AssertionError("counted")

    monkeypatch.setattr(network_sizes, "_sizes", counted)
    verdict = tp.classify(HALF, HALF, tp.ResNet("tanh"))
    assert "NetworkSizes(ResNet(" in repr(verdict.sizes) and str(verdict) and repr(verdict)
    with pytest.raises(AssertionError, match="counted"):
        len(verdict.sizes)


def test_what_has_no_sizes_says_so() -> None:
    forgets = tp.classify(HALF, HALF, tp.ResNet(skip=tp.Skip(keep=0.9)))
    assert "explode or forget by themselves" in str(forgets.sizes)
    assert "rational coefficients" in str(tp.classify(sp.sqrt(2) / 2, HALF).sizes)
    assert tp.classify(HALF, HALF, tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling(*sp.symbols("alpha gamma")))
                       ).sizes == {}
