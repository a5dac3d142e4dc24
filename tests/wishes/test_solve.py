"""``tp.solve``: regions that are what verdicts say point by point, and the papers' scalings, which come out unasked."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Callable

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.verdicts import Verdict
from tpcalc.orders import Region
from tpcalc.orders.polytope import Polytope
from tpcalc.verdicts.wishes import WISHES, SolvedPowers
from tpcalc.verdicts.wishes.sizes import BEFORE, DepthSizes

half = sp.Rational(1, 2)
MLP = tp.ResNet("linear", "mlp")
RELU = tp.ResNet("relu", "mlp", norm="rms")
SGD_OF_ALL = ("stable", "nontrivial", "faithful", "feature learning", "diverse", "complete", "every matrix learns")

MET: dict[str, Callable[[Verdict], object]] = {
    "stable at initialization": lambda v: v.stable_at_init,
    "stable": lambda v: v.stable_at_init and v.stable_in_training,
    "nontrivial": lambda v: v.nontrivial,
    "faithful": lambda v: v.faithful_at_init and v.faithful_in_training,
    "feature learning": lambda v: v.feature_learning,
    "diverse": lambda v: v.redundant is False,
    "complete": lambda v: v.complete_in_feature_learning,
    "every matrix learns": lambda v: all(one.name == "learns" for one in v.matrices.values())}


def scale(net: tp.ResNet | tp.Transformer, point: tuple[sp.Expr, ...]) -> tp.Parametrization:
    return tp.Parametrization(depth={"alpha": point[0], **dict(zip(net.trained_of_block, point[1:]))})


def points(size: int, count: int) -> list[tuple[sp.Expr, ...]]:
    """Points on a grid on which walls lie, most of them close to these."""
    draw = random.Random(7)
    return [(sp.Rational(draw.randint(2, 6), 4), *(sp.Rational(draw.randint(-1, 4), 4) for _ in range(size - 1)))
            for _ in range(count)]


def known(found: SolvedPowers, *point: object) -> bool:
    return any(region.contains([sp.sympify(x) for x in point]) for region in found.exponents)


MORE = (tp.ResNet("tanh"), MLP, RELU, tp.ResNet("silu", "glu", norm="rms"), tp.ResNet("linear", "mlp", matrices=3))


@pytest.mark.parametrize(("net", "count"), [
    (tp.ResNet(), 20), (tp.ResNet("tanh"), 8), *(pytest.param(*one, marks=pytest.mark.nightly) for one in (
        (MLP, 8), (RELU, 4))),
    *(pytest.param(net, 40, marks=pytest.mark.slow) for net in MORE)])
def test_regions_are_what_verdicts_say_at_every_point(net: tp.ResNet, count: int) -> None:
    places = points(1 + len(net.trained_of_block), count)
    verdicts = {point: tp.classify(scale(net, point), net) for point in places}
    for want in (("stable at initialization",), ("stable",), *(("stable", name) for name in MET if name != "stable"),
                 ("stable", "faithful", "feature learning", "nontrivial")):
        found, seen = tp.solve(net, want=want), set()
        for point, verdict in verdicts.items():
            meets = all(MET[name](verdict) for name in want)
            assert known(found, *point) == bool(meets), (want, point)
            seen.add(meets)
        assert seen or found.conflict


def places(region: Region, draw: random.Random) -> list[tuple[sp.Expr, ...]]:
    """Random rational points inside a region, on each of its facets, and beside these."""
    box = Polytope.simplex((0, *[-3] * (region.size - 1)), 3 * region.size)
    part = box.where(condition.form for condition in region.conditions)

    def among(corners: list[tuple]) -> tuple[sp.Expr, ...]:
        weights = [draw.randint(1, 9) for _ in corners]
        return tuple(sp.Rational(sum(w * x for w, x in zip(weights, column)), sum(weights)) for column in zip(*corners))

    found, beside = among(list(part.corners)), []
    for wall in sorted(part.described[1], key=str):
        on = among([corner for corner in part.corners if wall.at(corner) == 0])
        step, slope = next((k, change) for k in range(region.size) if (change := wall.at(tuple(
            x + int(i == k) for i, x in enumerate(on))) - wall.at(on)) != 0)
        out = tuple(x - sp.sign(slope) * sp.Rational(draw.randint(1, 9), 7) * int(i == step) for i, x in enumerate(on))
        if not region.contains(out):  # else the wall is the box's
            beside.append((on, out))
    return [found, *(point for pair in draw.sample(beside, min(2, len(beside))) for point in pair)]


GATE, THREE, NORMED = tp.ResNet("silu", "glu", norm="rms"), tp.ResNet("linear", "mlp", matrices=3), tp.ResNet(
    "tanh", norm="rms")


@pytest.mark.parametrize(("net", "opt"), [
    (tp.ResNet(), tp.SGD()), (tp.ResNet("tanh"), tp.Adam(0.1)),
    *(pytest.param(*one, marks=pytest.mark.nightly) for one in ((MLP, tp.SignSGD(0.1)), (NORMED, tp.Muon(0.1)))),
    *(pytest.param(*one, marks=pytest.mark.slow) for one in (
        (RELU, tp.Adam(0.1)), (GATE, tp.SGD()), (THREE, tp.Lion(0.1)), (tp.ResNet("tanh", "mlp"), tp.Muon(0.1))))])
def test_regions_end_where_verdicts_do(net: tp.ResNet, opt: object) -> None:
    draw, seen = random.Random(5), set()
    for name in MET:
        want = tuple(dict.fromkeys(("stable", name)))
        found = tp.solve(net, opt, want=want)
        for region in found.exponents:
            for point in places(region, draw):
                verdict = tp.classify(scale(net, point), net, opt)
                meets = all(MET[one](verdict) for one in want)
                assert known(found, *point) == bool(meets), (want, point, str(verdict))
                seen.add((name, meets))
    assert {(name, meets) for name in ("stable", "nontrivial", "diverse") for meets in (True, False)} <= seen


def test_a_weight_decay_moves_no_wall_of_what_updates_do() -> None:
    net, opt, draw = tp.ResNet("tanh"), tp.AdamW(0.1), random.Random(11)
    for want in (("stable",), ("stable", "nontrivial"), ("stable", "diverse"), ("stable", "every matrix learns")):
        found = tp.solve(net, opt, want=want)
        assert "what weight decay changes by itself is no update here" in found.assumed
        for region in found.exponents:
            for point in places(region, draw):
                verdict = tp.classify(scale(net, point), net, opt)
                assert known(found, *point) == all(MET[one](verdict) for one in want), (want, point)


@pytest.mark.nightly
def test_what_is_complete_beyond_what_is_stable() -> None:
    """Through a kink an update is as much larger as its root, and in a product as the other, whatever grows."""
    net = tp.ResNet("relu", "mlp", matrices=3)
    found, seen = tp.solve(net, want=("complete",)), set()
    for gammas in ((0, 0, 0), (-1, -1, 0), (-2, -1, 0), (-4, -1, 0), (-1, -4, 1), (1, 1, 1), (1, 0, 1), (1, 1, 0),
                   (1, -1, 0), (1, 0, 0)):
        point = (half, *map(sp.Integer, gammas))
        seen.add(complete := tp.classify(scale(net, point), net).complete_in_feature_learning)
        assert known(found, *point) == complete, point
    assert seen == {True, False}


@pytest.mark.parametrize("net", [tp.ResNet(), MLP, RELU], ids=["linear", "mlp", "relu"])
@pytest.mark.parametrize("opt", [None, tp.AdamW(0.1), tp.SignSGD(0.1)], ids=["sgd", "adamw", "sign"])
def test_the_recipe_does_what_was_wished_for(net: tp.ResNet, opt: object) -> None:
    found = tp.solve(net, opt)
    assert found.recipe is not None and found.conflict is None
    verdict = tp.classify(found.recipe, net, opt)
    assert all(MET[name](verdict) for name in found.want)


def test_depth_mup_is_the_only_diverse_scaling_of_one_matrix() -> None:
    found = tp.solve(want=("stable", "faithful", "feature learning", "diverse"))
    assert found.recipe == tp.DepthScaling(half, half)
    assert known(found, half, half) and len(found.exponents) == 1 and len(found.exponents[0].equations) == 2
    assert tp.solve().recipe == tp.DepthScaling(half, half)  # where complete is out of reach


@pytest.mark.parametrize("net", [MLP, RELU, tp.ResNet("linear", "mlp", matrices=3)], ids=["mlp", "relu", "three"])
def test_what_is_to_be_complete_is_at_one_and_zero(net: tp.ResNet) -> None:
    found = tp.solve(net, want=("stable", "faithful", "nontrivial", "every matrix learns", "complete"))
    assert found.recipe == tp.DepthScaling(1, 0) and len(found.exponents) == 1
    assert len(found.exponents[0].equations) == len(found.symbols)  # a point
    assert tp.solve(net).recipe == tp.DepthScaling(1, 0)  # complete before diverse


@pytest.mark.parametrize("net", [MLP, RELU], ids=["linear", "relu"])
def test_stable_diverse_and_complete_exclude_each_other(net: tp.ResNet) -> None:
    found = tp.solve(net, want=("nontrivial", "stable", "diverse", "complete", "faithful"))
    assert found.region == () and found.recipe is None and found.conflict is not None
    assert list(found.conflict) == ["stable", "diverse", "complete"]
    assert "alpha <= 1/2" in found.conflict["diverse"] and ">= 1" in found.conflict["stable"]
    assert "<= 0" in found.conflict["complete"]
    for name in found.conflict:  # a smaller set does not
        rest = tuple(other for other in found.conflict if other != name)
        if "stable" in rest:
            assert tp.solve(net, want=rest).conflict is None


def test_a_matrix_alone_is_never_complete() -> None:
    found = tp.solve(want=("stable", "complete"))
    assert found.conflict == {"complete": "the block is linear in the updates of W"}


def test_complete_p_comes_out_for_a_transformer() -> None:
    net = tp.Transformer(mlp=None)
    found = tp.solve(net, tp.AdamW(0.1), want=("stable", "faithful", "every matrix learns", "complete",
                                               "visible decay", "eps in proportion"))
    powers = {kind: {power for (_, other), power in found.settings.items() if other == kind}
              for kind in ("multiplier", "lr", "eps", "decay")}
    assert powers == {"multiplier": {-1}, "lr": {0}, "eps": {-1}, "decay": {0}} and len(found.region) == 1
    named = tp.recipe("completep", optimizer="adamw").powers
    assert all(powers[key] == {named[other]} for key, other in (("multiplier", "branch"), ("lr", "lr"), ("eps", "eps")))


@pytest.mark.nightly
def test_a_block_of_gates_and_heads_is_complete_at_one_and_zero() -> None:
    """Powers of streams in the middle of layers settle at all corners of what may be set, however far."""
    found = tp.solve(tp.Transformer(heads=4, head_dim=2, positions=3, mlp="swiglu"), tp.AdamW(0.1),
                     want=("stable", "faithful", "complete"))
    assert found.region and (found.recipe.alpha, found.recipe.gamma) == (1, 0)


def test_who_sets_multipliers_alone_has_depth_mup_once_eps_is_in_charge() -> None:
    opt = tp.AdamW(0.1)
    found = tp.solve(MLP, opt, fixed={("*", "lr"): 0, ("*", "eps"): 0})
    assert found.settings[("*", "multiplier")] == -half and found.recipe == tp.DepthScaling(half, half)
    charged = tp.audit("-1/2", lr=0, eps=0).eps_in_charge
    assert charged is not None and charged.name == "Depth-muP"
    assert any("decides the size of updates" in one for one in found.assumed)
    free = tp.solve(MLP, opt, fixed={("*", "lr"): 0})  # with an eps that goes along
    assert free.recipe == tp.DepthScaling(1, 0)
    stuck = tp.solve(MLP, opt, fixed={("*", "multiplier"): 0})
    assert stuck.recipe is None and list(stuck.conflict or ()) == ["stable"]


def test_the_more_special_of_fixed_powers_wins() -> None:
    found = tp.solve(MLP, tp.SignSGD(0.1), want=("stable",), fixed={("W1", "lr"): -1, ("*", "lr"): -2})
    assert {(name, kind): power for (name, kind), power in found.settings.items() if kind == "lr"} == {
        ("W1", "lr"): -1, ("W2", "lr"): -2}
    assert all(region.contains([sp.Integer(-3)]) for region in found.region)  # the multiplier alone is free


def test_powers_are_minimized_and_maximized() -> None:
    want = ("stable", "nontrivial")
    assert tp.solve(want=want, maximize=("*", "multiplier")).settings[("*", "multiplier")] == -half
    assert tp.solve(MLP, tp.SignSGD(0.1), want=want, maximize=("W1", "lr")).settings[("W1", "lr")] == 0
    with pytest.raises(ValueError, match="as small, as one likes"):
        tp.solve(want=("stable",), minimize=("*", "multiplier"))
    with pytest.raises(ValueError, match="expected one of them"):
        tp.solve(minimize=("*", "lr"), maximize=("*", "lr"))


def test_regions_in_settings_are_those_in_exponents() -> None:
    """SGD's learning rate is L^(alpha - gamma), a sign's L^-gamma, and what is set is judged as it is there."""
    for opt in (tp.SGD(), tp.SignSGD(0.1)):
        found = tp.solve(MLP, opt)
        for point in points(3, 40):
            alpha, *gammas = point
            lrs = [(alpha if isinstance(opt, tp.SGD) else 0) - gamma for gamma in gammas]
            inside = [region.contains([-alpha, *lrs]) for region in found.region]
            assert inside == [region.contains(point) for region in found.exponents]


def test_every_facet_has_a_term_of_the_program_and_a_rule() -> None:
    found = tp.solve(RELU)
    assert found.reasons and all(term != 1 and rule for term, rule in found.reasons.values())
    wall = next(reason for facet, reason in found.reasons.items() if "+ 1" in reason.rule)
    assert "layers add it up coherently" in wall.rule and wall.term.has(sp.Sum)


def test_it_is_printed_and_pasted() -> None:
    found = tp.solve(MLP, want=("stable", "diverse", "complete"))
    assert "stable and diverse and complete exclude each other" in str(found)
    assert r"\text{stable and diverse and complete exclude each other}" in found.latex()
    assert "multiplier L^(-1/2), lr 1" in str(tp.solve()) and r"\propto L^{- \frac{1}{2}}" in tp.solve().latex()


@pytest.mark.parametrize(("given", "said"), [
    ({"want": ("stable", "fast")}, "'every matrix learns'"), ({"want": 3}, "expected a tuple of some of"),
    ({"fixed": {("*", "speed"): 0}}, "expected"), ({"fixed": {("*", "eps"): 0}}, "sgd has no eps"),
    ({"fixed": {("W9", "lr"): 0}}, "W9"), ({"fixed": {("*", "lr"): sp.sqrt(2)}}, "rational"), ({"fixed": 1}, "mapping"),
    ({"net": 3}, "tp.ResNet"), ({"minimize": "lr"}, "minimize")])
def test_bad_input_is_refused(given: dict, said: str) -> None:
    with pytest.raises(ValueError, match="(?s)" + said):
        tp.solve(**given)


def test_what_no_rule_covers_is_refused_by_name() -> None:
    with pytest.raises(tp.NotCovered, match="clipping"):
        tp.solve(opt=tp.Clipped(tp.SGD(), norm=1.0))
    with pytest.raises(tp.NotCovered, match="init"):
        tp.solve(fixed={("*", "init"): -1})
    with pytest.raises(tp.NotCovered, match="frozen"):
        tp.solve(tp.ResNet(train_embedding_readout=True))
    with pytest.raises(tp.NotCovered, match="opt: got SignSGD.*gn, trained vectors"):
        tp.solve(tp.ResNet("tanh", norm="rms", gains=True), tp.SignSGD(0.1))
    with pytest.raises(tp.NotCovered, match="norm_position='post'.*expected layers that change a stream"):
        tp.solve(tp.ResNet("gelu", "mlp", norm="rms", norm_position="post"))
    with pytest.raises(tp.NotCovered, match="tied"):
        tp.solve(tp.Transformer(tied=True))


def test_settings_that_are_missing_are_conflicts() -> None:
    for name in ("visible decay", "eps in proportion"):
        assert list(tp.solve(want=(name,)).conflict or ()) == [name]
    assert set(SGD_OF_ALL) < set(WISHES)


@pytest.mark.parametrize("net", [tp.ResNet("tanh", "mlp", norm="rms", gains=True), tp.Transformer(mlp=None)],
                         ids=["mlp with gains", "attention"])
def test_updates_of_one_parameter_know_no_other_exponents(net: tp.ResNet | tp.Transformer) -> None:
    """So forms found where the others are something else are theirs: those of sizes before training, and of one
    parameter's updates, at drawn points, and with ties broken towards others."""
    sizes, draw = DepthSizes(net), random.Random(0)

    def forms(found: dict) -> dict:
        return {name: [(one.affine, one.bound) for one in each] for name, each in found.items()}

    for _ in range(4):
        point, inner = (tuple(Fraction(draw.randint(low, 12), 4) for low in (0, *[-4] * (sizes.size - 1)))
                        for _ in range(2))
        for what in (BEFORE, *sizes.trained):
            for towards in (None, inner):
                assert forms(sizes.at(point, towards, what)) == forms(sizes._at(point, towards, what))
    first, *_, last = sizes.trained
    elsewhere = (*point[:-1], point[-1] + 1)
    assert sizes.at(elsewhere, None, first) is sizes.at(point, None, first)
    assert sizes.at(elsewhere, None, last) is not sizes.at(point, None, last)


def test_pieces_are_cut_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wishes for every matrix cut equal pieces again and again, which made many minutes of seconds."""
    count, usual = [0], Polytope.cut

    def counted(part: Polytope, form: object) -> Polytope:
        count[0] += 1
        return usual(part, form)
    monkeypatch.setattr(Polytope, "cut", counted)
    found = tp.solve(tp.Transformer(head_dim=4, positions=3, norm="layer", gains=True, mlp=None))
    assert (found.recipe.alpha, found.recipe.gamma) == (1, 0) and count[0] < 3000
