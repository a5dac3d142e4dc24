"""Verdicts on transformers: what they say of matrices, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.verdicts.counted import BY_TABLE, TABLED, TURNED, counted_program
from tpcalc.verdicts.counting import _has_grown, training_terms
from tpcalc.limits.slow_streams import normal_form
from tpcalc.orders.affine import Affine, Exponent
from tpcalc.programs.blocks import Branch
from tpcalc.programs.language import MatVec

HALF = sp.Rational(1, 2)
POINT = tp.DepthScaling(HALF, sp.Rational(3, 4))
SMALL = tp.Transformer(head_dim=2, positions=3, mlp=None)
TABLE = np.array([[0.0, 0.0, 0.0], [0.7, -0.3, 0.0], [0.1, 0.2, 0.3]])


def test_what_is_lazy_drifts_and_learns() -> None:
    by_point = {point: tp.classify(*point, SMALL) for point in ((HALF, HALF), (1, 0), (HALF, sp.Rational(3, 4)))}
    assert [one.name for one in by_point.values()] == ["Depth-muP", "ODE limit", "trivial"]
    assert [{m.name for m in one.matrices.values()} for one in by_point.values()] == [{"drifts"}, {"learns"}, {"lazy"}]
    assert [one.exponents["change of score"] for one in by_point.values()] == [0, 0, -sp.Rational(1, 4)]
    assert all(one.exponents["score at initialization"] == 0 for one in by_point.values())
    assert "attention: not uniform at initialization, scores are of order one; the first update changes them by " \
        "L^(-1/4)" in by_point[HALF, sp.Rational(3, 4)].reasons
    assert "stand for all head_dim, queries_per_key and positions" in str(by_point[1, 0])


def test_norms_of_q_and_k_have_a_stand_in_that_no_number_changes() -> None:
    """An odd function of a coordinate over the root mean square of all, in front of scores alone."""
    net = replace(SMALL, head_dim=3, qk_norm=True)
    written = {p.statement.target.name: p.statement.value for p in counted_program(net, tp.SGD(), POINT).locations()}
    assert {v.name for v in written["score"].args} == {"nq", "nk"}
    assert written["nq"].func == sp.tanh and written["nq"].args[0].name == "over_q"
    assert str(written["over_q"]) == "q[t, l]/sqrt(mean(q[t, l]**2))"


@pytest.mark.parametrize("point", [(HALF, HALF), (1, 0)])
def test_rotations_and_tables_of_scores_change_no_power(point: tuple) -> None:
    """A table is counted, as a number beside scores: the logistic function is then neither odd nor even about it."""
    known = replace(SMALL, head_dim=2, rotation=100.0, score_table=TABLE)
    usual, found = (tp.classify(*point, net) for net in (replace(SMALL, head_dim=2), known))
    assert (found.name, found.exponents) == (usual.name, usual.exponents)
    assert [one.replace(BY_TABLE, "uniform") for one in found.reasons] == list(usual.reasons)
    assert [str(one) for one in found.sizes.values()] == [str(one) for one in usual.sizes.values()]
    assert {TURNED, TABLED} == set(found.assumptions) - set(usual.assumptions)
    shares = [p.statement.value for p in counted_program(known, tp.SGD(), POINT).locations()
              if p.statement.target.name == "share"]
    assert [one.args[0].as_coeff_Add()[0] for share in shares for one in share.atoms(sp.tanh)] == [1]


def test_attention_from_zero_is_as_its_table_makes_it() -> None:
    verdict = tp.classify(HALF, HALF, replace(SMALL, score_table=TABLE), from_zero=("Wq",))
    assert any(one.startswith("attention: as its table of scores makes it at initialization, scores are 0")
               for one in verdict.reasons)


@pytest.mark.slow
def test_verdicts_with_norms_of_q_and_k() -> None:
    verdict = tp.classify(POINT, replace(SMALL, head_dim=3, qk_norm=True))
    assert [verdict.exponents[name] for name in ("score at initialization", "change of score")] == [0, -HALF / 2]
    assert "tanh of a coordinate of q" in str(verdict)
    assert list(verdict.sizes)[2:7] == ["q", "k", "value", "nq", "nk"]


def test_one_matrix_may_be_lazy_alone() -> None:
    gammas = {"Wq": 1, "Wk": HALF, "Wv": HALF, "Wo": HALF}
    found = tp.classify(tp.Parametrization(depth={"alpha": HALF, **gammas}), SMALL)
    assert {name: one.name for name, one in found.matrices.items()} == {
        "Wq": "lazy", "Wk": "drifts", "Wv": "drifts", "Wo": "drifts"}


@pytest.mark.parametrize("norm", [None, "layer"])
def test_a_verdict_says_that_streams_without_a_norm_may_blow_up(norm: str | None) -> None:
    """A product of two vectors is x' = x^2, which ends at a finite time."""
    said = str(tp.classify(HALF, HALF, tp.Transformer(head_dim=2, positions=2, attention=squared, mlp=None, norm=norm)))
    assert ("blow up at a finite layer time" in said) == (norm is None)


def squared(b: Branch) -> sp.Expr:
    u = b.let("u", MatVec(b.weights("Wu"), b.x))
    return MatVec(b.weights("Wo"), b.let_total("mixed", b.let("s", u**2) + b.other(u)))


def exponential(b: Branch) -> sp.Expr:
    v = b.let("v", MatVec(b.weights("V"), b.x))
    return MatVec(b.weights("Wo"), b.let_total("mixed", sp.exp(b.let("s", v * b.other(v))) * b.other(v)))


@pytest.mark.parametrize("net, opt, said", [
    (tp.Transformer(head_dim=2, positions=1), None, "positions: got 1"),
    (tp.Transformer(head_dim=2, positions=2, train_embedding_readout=True), None, "frozen embedding and readout"),
    (tp.Transformer(head_dim=2, positions=2, tied=True), None, "tied: got True; the first output is of order one"),
    (tp.Transformer(head_dim=2, positions=2, mlp=None, attention=exponential), None, "faster than every power")])
def test_what_cannot_be_counted_is_refused(net: tp.Transformer, opt: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tp.classify(HALF, HALF, net, opt)


@pytest.mark.parametrize("opt", [tp.SGD(0.5, weight_decay=0.2), tp.AdamW(0.1, weight_decay=1.0)], ids=["sgd", "adamw"])
def test_weight_decay_moves_a_stream_as_noise(opt: tp.SGD | tp.AdamW) -> None:
    """A share of order one of a layer is gone, of signs that differ from layer to layer."""
    for alpha, moved in ((HALF, 0), (sp.Rational(3, 4), -HALF / 2)):
        verdict = tp.classify(alpha, sp.Rational(3, 4), SMALL, opt)
        assert [verdict.exponents[f"change of {name}"] for name in "hxf"] == [0, moved, sp.Rational(1, 4) - alpha]
        assert [one.name for one in verdict.matrices.values()] == ["lazy"] * 4
        assert (verdict.sizes["x"]["change"].L, str(verdict.sizes["Wq"]["decay"])) == (moved, "n^(-1/2)")
        said = "x by 1 " if moved == 0 else f"x by L^({moved}) "
        assert any(one.startswith("weight decay: ") and said in one and "f by 0" in one for one in verdict.reasons)


def test_kets_count_decay_as_the_recursion_of_a_linear_network_does() -> None:
    decaying = tp.SGD(weight_decay=0.1, decoupled=True)
    for net in (tp.ResNet(), tp.ResNet("linear", "mlp")):
        for alpha, gamma in ((0.5, 1), (1, 0.5), (0.75, 0.75), (0.75, 0.25), (1, 1)):
            exponents = tp.classify(alpha, gamma, net, decaying).exponents
            _, counted = training_terms(net, tp.DepthScaling(alpha, gamma), decaying).together()
            for name, size in {"x": counted.dx, "h": counted.dh, "f": counted.df}.items():
                assert size.at(()) == exponents[f"change of {name}"], (net, alpha, gamma, name)


@pytest.mark.parametrize("opt", [tp.SGD(0.5, weight_decay=2.0), tp.AdamW(0.1, weight_decay=1.0, independent=True)])
def test_decay_that_leaves_nothing_is_refused(opt: tp.SGD | tp.AdamW) -> None:
    with pytest.raises(ValueError, match="leaves nothing of initial matrices"):
        tp.classify(HALF, HALF, SMALL, opt)


def test_a_learned_skip_that_damps_keeps_what_it_finds() -> None:
    """Terms of a gradient that differ by a number are terms: a factor a - a/L with a name of its own is no stream."""
    net = tp.Transformer(head_dim=2, positions=2, mlp=None, skip=tp.Skip(keep=1 - 1 / sp.Symbol("L"), learned=True))
    one = counted_program(net, tp.SGD(), tp.DepthScaling())
    assert not any(location.statement.target.name.startswith("dx_") for location in one.locations())
    found = normal_form(one)
    assert not found.forgets and not found.explodes


@pytest.mark.slow
@pytest.mark.parametrize("alpha, gamma", [(0.5, 0.5), (1, 0), (0.5, 0.75), (1, 0.5)])
@pytest.mark.parametrize("options", [{"norm": "rms", "norm_position": "sandwich", "gains": True},
                                     {"skip": tp.Skip(learned=True)}], ids=["gains", "learned"])
def test_what_each_vector_alone_brings_to_outputs(options: dict, alpha: float, gamma: float) -> None:
    """Real transformers whose matrices hardly move: slopes against the depth, with a correction 1/L in the fit."""
    net = tp.Transformer(head_dim=2, positions=3, mlp=None, **options)
    rng, depths = np.random.default_rng(1), np.array([16, 32, 64, 128])
    task = tp.Sequences(np.repeat(rng.normal(size=(1, 1, 3, 2)) * 0.7, 2, axis=0), np.ones((2, 1, 3)))
    for name in net.vectors_of_block:
        scale = tp.Parametrization(depth={"alpha": alpha, **dict.fromkeys(net.trained_of_block, 9), name: gamma})
        counted = tp.classify(scale, net).matrices[name].output
        sizes = [[np.linalg.norm(np.diff(tp.train(net, task, tp.SGD(1e-2), scale, int(depth), 64, seed=seed,
                                                  method="dense").outputs, axis=0)) for seed in range(64)]
                 for depth in depths]
        terms = np.column_stack([np.log(depths), np.ones(4), 1 / depths])
        slopes = np.linalg.lstsq(terms, np.log(sizes), rcond=None)[0][0]  # a network a depth each
        slope, error = np.mean(slopes), np.std(slopes, ddof=1) / np.sqrt(len(slopes))
        print(f"{name} at ({alpha}, {gamma}): counted {counted}, measured {slope:.3f} +- {error:.3f}")
        assert abs(slope - float(counted)) < max(0.1, 3 * error) < 0.25


def test_initializations_of_single_matrices_are_refused() -> None:
    """At L^(-1/2) W_q makes attention uniform, and no power of the branch does."""
    smaller = {"*": tp.Powers(lr={"L": -HALF}), "Wq": tp.Powers(init={"L": -HALF}, lr={"L": -HALF})}
    with pytest.raises(ValueError, match="sizes at first: got Wq -1/2; what acts on Wq is not homogeneous in it"):
        tp.classify(tp.Parametrization(depth=smaller), SMALL)


def test_attention_from_zero_is_uniform_where_an_update_vanishes_in_a_layer() -> None:
    """In a network that learns at (1/2, 1/2), too: the scores that W_q brings are its update's in a layer."""
    for point, name, change in (((HALF, HALF), "Depth-muP", -HALF), ((1, 0), "ODE limit", 0)):
        verdict = tp.classify(*point, SMALL, from_zero=("Wq",))
        assert verdict.name == name and verdict.exponents["change of score"] == change
        assert verdict.exponents["score at initialization"] == -sp.oo
        assert any(one.startswith("attention: uniform at initialization") for one in verdict.reasons)
        assert "from zero: Wq; gradients of Wk vanish at the first step" in str(verdict)
        assert {one.name for key, one in verdict.matrices.items() if key != "Wk"} == {"drifts" if change else "learns"}
        assert (verdict.matrices["Wk"].name, verdict.matrices["Wk"].output) == ("lazy", -sp.oo)
        assert str(verdict.sizes["Wq"]["at initialization"]) == str(verdict.sizes["Wk"]["update"]) == "0"


@pytest.mark.parametrize("options, said", [
    ({"from_zero": "Wq"}, "from_zero: got 'Wq'"), ({"from_zero": ("U",)}, r"from_zero: got \('U',\)"),
    ({"from_zero": ("Wo",)}, "no layer adds anything"),
    ({"from_zero": ("Wq",), "opt": tp.Adam()}, "the gradient of Wk vanishes"),
    ({"from_zero": ("Wq",), "opt": tp.SGD(weight_decay=0.1)}, "with weight_decay: 0.1"),
    ({"from_zero": ("Wk",), "net": replace(SMALL, head_dim=3, qk_norm=True)}, "divides 0 by 0"),
    ({"from_zero": ("Wq", "Wo"), "net": tp.Transformer(norm="layer", norm_position="sandwich")},
     "got Wo with norm_position='sandwich'.*0 by 0"),
    ({"from_zero": ("Wq",), "net": tp.ResNet()}, r"expected \(\)")])
def test_what_may_not_start_at_zero_is_refused(options: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tp.classify(HALF, HALF, **{"net": SMALL, **options})


def test_scores_that_grow_from_zero_are_refused() -> None:
    with pytest.raises(ValueError, match="beyond where softmax is linear"):
        tp.classify(1, -HALF, SMALL, from_zero=("Wq",))


def attending_alike(b: Branch) -> sp.Expr:
    v = b.let("v", MatVec(b.weights("Wv"), b.x))
    return MatVec(b.weights("Wo"), b.let_total("mixed", b.other(v)))


@pytest.mark.parametrize("point, name", [((0.25, 0.75), "grows at initialization"),
                                         ((0.5, 0.25), "unstable in training")])
def test_gradients_that_grow_behind_an_update_leave_a_verdict(point: tuple[float, float], name: str) -> None:
    """Updates by signs are counted where gradients keep their powers, and one update is where the stream has grown."""
    net = tp.Transformer(positions=2, attention=attending_alike, mlp=None)
    verdict = tp.classify(tp.DepthScaling(*point), net, tp.Lion())
    assert verdict.name == name and verdict.exponents.get("change of f") in (None, sp.Rational(1, 4))


@pytest.mark.parametrize("before, change, grown", [(0, 0, False), (0, -HALF, False), (HALF, 0, True), (-1, HALF, True)])
def test_a_stream_of_order_one_has_not_grown(before: sp.Expr, change: sp.Expr, grown: bool) -> None:
    """Where it has, gradients of later updates decide nothing; where it is of order one, they do."""
    def power(of: sp.Expr) -> Exponent:
        return Exponent.single(Affine.of(sp.sympify(of, strict=True), ()))
    sizes = SimpleNamespace(x_init=power(before), dx=power(change))
    terms = SimpleNamespace(together=lambda: (None, sizes))
    for positions, answer in ((2, grown), (0, False)):
        assert _has_grown(SimpleNamespace(positions=positions), terms) == answer  # type: ignore[arg-type]
