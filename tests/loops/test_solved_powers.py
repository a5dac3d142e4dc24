"""Powers of the number of visits that are solved for, and planes of them: point by point what verdicts say."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.verdicts.phases import PhaseDiagram
from tpcalc.verdicts.visits import VisitVerdict
from tpcalc.verdicts.wishes import SolvedPowers

HALF = sp.Rational(1, 2)
P, Q = sp.symbols("p q", real=True)
TANH = tp.ResNet("tanh", "mlp")
NETS = {"linear": tp.ResNet(), "tanh": TANH, "relu, rms": tp.ResNet("relu", "mlp", norm="rms"),
        "gelu": tp.ResNet("gelu", "mlp"), "silu": tp.ResNet("silu", "glu", norm="rms")}
MET = {"stable at initialization": lambda v: v.stable_at_init, "stable": lambda v: v.stable_at_init and v.stable,
       "nontrivial": lambda v: v.stable_at_init and v.stable and v.nontrivial,
       "feature learning": lambda v: v.stable_at_init and v.stable and v.feature_learning}


def points(count: int, seed: int) -> list[tuple[Fraction, Fraction]]:
    """Powers (branch, lr) of 1/N, most of them on lines that decide."""
    draw = random.Random(seed)
    fixed = [(Fraction(a, 4), Fraction(r, 4)) for a, r in ((4, 0), (5, 0), (5, -1), (4, 2), (4, -1), (2, 0))]
    return fixed + [(Fraction(draw.randint(1, 7), 4), Fraction(draw.choice((-3, -2, -1, 0, 0, 0, 1, 2)), 4))
                    for _ in range(count)]


def has(found: SolvedPowers, branch: Fraction, lr: Fraction) -> bool:
    """Are these powers of 1/N among those that were solved for? eps is 0 there, smaller than all else."""
    values = {"multiplier": -branch, "lr": -lr, "eps": Fraction(-50)}
    at = [values[kind] for _, kind in found.powers]
    return any(region.contains(at) for region in found.region)


@pytest.mark.parametrize("opt", ["sgd", "adam"])
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ("gelu", "silu")))
                                  for name in NETS])
def test_solved_powers_are_what_verdicts_say_at_every_point(name: str, opt: str) -> None:
    net, seen = NETS[name], set()
    verdicts = {point: tp.theory.classify_visits(*point, net, opt) for point in points(24, 3)}
    for wish, met in MET.items():
        want = (wish,) if wish.startswith("stable") else ("stable", wish)
        found = tp.solve(net, opt, want, grows="N")
        for point, verdict in verdicts.items():
            assert has(found, *point) == bool(met(verdict)), (wish, point, verdict.name)
            seen.add((wish, bool(met(verdict))))
    assert len(seen) == 2 * len(MET)


@pytest.mark.parametrize("net", [TANH, NETS["gelu"], NETS["silu"], pytest.param(
    tp.Transformer(), marks=pytest.mark.slow)], ids=["tanh", "gelu", "silu", "transformer"])
@pytest.mark.parametrize("opt", ["sgd", "adam", "muon"])
def test_the_known_powers_come_out(net: tp.ResNet, opt: str) -> None:
    """1/(N sqrt L), and rates that do not depend on N."""
    visits = tp.solve(net, opt, grows="N")
    assert {kind: power for (_, kind), power in visits.settings.items() if kind != "eps"} == {"multiplier": -1, "lr": 0}
    assert tp.recipe("depth-mup", opt, depth=16, visits=8).factors["branch"] == 1 / (8 * 4)
    assert visits.grows == "N" and visits.recipe is None and "multiplier N^(-1)" in str(visits)


@pytest.mark.parametrize("net", [TANH, NETS["gelu"]], ids=["tanh", "gelu"])
@pytest.mark.parametrize("fixed, wish", [
    ({("*", "multiplier"): -HALF}, "stable"),
    ({("*", "multiplier"): -sp.Rational(3, 4)}, "stable"),
    ({("*", "lr"): -1}, "feature learning")], ids=["(N L)^(-1/2)", "DeepNorm", "rates over N"])
def test_what_is_wrong_with_others(net: tp.ResNet, fixed: dict, wish: str) -> None:
    found = tp.solve(net, "adam", fixed=fixed, grows="N")
    assert found.conflict is not None and wish in found.conflict and not found.region


def test_one_signed_blocks_grow_as_their_mirror_images_do() -> None:
    """A drawn matrix and its negative have one law, so that a block and its negative grow alike."""
    def mirrored(b: tp.Branch) -> sp.Expr:
        return -tp.theory.MatVec(b.weights("W"), b.x)
    for branch in (1, HALF):
        both = [tp.theory.classify_visits(branch, 0, tp.ResNet(block=block)) for block in ("post_nonlin", mirrored)]
        assert both[0] == both[1]
    u = sp.Symbol("u", real=True)
    grown = [tp.theory.classify_visits(HALF, 0, tp.ResNet(phi, "mlp")) for phi in (sp.tanh(u), -sp.tanh(u))]
    assert grown[0].exponents == grown[1].exponents == {"x at initialization": HALF}


def test_what_is_not_counted_is_refused() -> None:
    layers, depth = sp.symbols("l L")
    for net, said in ((tp.ResNet(skip=tp.Skip(keep=1 - 1 / depth)), "whose x depends on L"),
                      (tp.ResNet(skip=tp.Skip(learned=True)), "gradients of a are no multiple"),
                      (tp.ResNet(norm="rms", norm_scale=1 / sp.sqrt(layers)), "norm_scale: got"),
                      (tp.ResNet(visits=2, inject=1), "inject: got 1")):
        for call in (lambda: tp.theory.classify_visits(1, 0, net), lambda: tp.solve(net, grows="N"),
                     lambda: tp.phase_diagram(net, visits=(P, Q))):
            with pytest.raises(tp.NotCovered, match=said):
                call()
    with pytest.raises(tp.NotCovered, match="'diverse', which is counted in powers of L alone"):
        tp.solve(TANH, want=("diverse",), grows="N")
    for net, grows, said in ((tp.ResNet(), "n", "'L' or 'N'"), (tp.width.Perceptron(), "N", "'n'"), (None, 3, "got 3")):
        with pytest.raises(ValueError, match=f"grows: .*{said}"):
            tp.solve(net, grows=grows)


def agrees(diagram: PhaseDiagram, net: tp.ResNet, opt: str, point: tuple[Fraction, Fraction],
           powers: tuple[Fraction, Fraction], verdict: VisitVerdict) -> None:
    own, = [one for one in diagram.regions if one.region.contains(point)]
    assert own is diagram.at(*point)
    try:
        said = tp.theory.classify_visits(*powers, net, opt)
    except tp.NotCovered:
        assert verdict.name == "not counted", point
        return
    assert (verdict.name, verdict.said) == (said.name, said.said), point


@pytest.mark.parametrize("name, opt, count", [
    ("linear", "sgd", 60), *(pytest.param("tanh", opt, 60, marks=pytest.mark.slow) for opt in ("sgd", "adam")),
    *(pytest.param(*one, 60, marks=pytest.mark.slow) for one in (("relu, rms", "adam"), ("gelu", "sgd")))])
def test_planes_are_what_verdicts_say_at_every_point(name: str, opt: str, count: int) -> None:
    net = NETS[name]
    diagram = tp.phase_diagram(net, optimizer=opt, visits=(P, Q))
    for point in [(0, 0), (-1, 1), (1, 0), (1, -HALF), *points(count, 5)]:
        agrees(diagram, net, opt, point, point, diagram.at(*point).verdict)
    assert diagram.at(1, 0).name == "does not depend on the number of visits"
    assert diagram.symbols == (P, Q) and diagram.picture.axes == ("p", "q") and diagram.limits == ()
    assert diagram.rate(1, 0) is None and diagram.latex() and diagram.html()


def test_powers_of_a_plane_are_read_as_those_of_verdicts() -> None:
    scale = tp.DepthScaling(P, HALF)
    found, known = (tp.phase_diagram(tp.ResNet(), scale, visits=(Q, third)) for third in (0.3, sp.Rational(3, 10)))
    assert [(one.row["where"], one.name) for one in found.regions] == [
        (one.row["where"], one.name) for one in known.regions]
    for power in (float("nan"), sp.oo, 1j, None, "q"):
        with pytest.raises(ValueError, match="visits: got .*; expected a (finite )?real number"):
            tp.phase_diagram(tp.ResNet(), scale, visits=(Q, power))


@pytest.mark.parametrize("scale, visits", [
    (tp.DepthScaling(P, HALF), (Q, 0)), pytest.param(tp.DepthScaling(P, Q), (P, 0), marks=pytest.mark.slow)], ids=str)
def test_a_plane_of_both_sizes_has_both_verdicts(scale: tp.DepthScaling, visits: tuple) -> None:
    """The branch (N L)^-p, and powers of L and of N apart."""
    net = tp.ResNet()
    diagram = tp.phase_diagram(net, scale, "adam", visits)
    for p, q in [(HALF, 1), (HALF, HALF), (1, 0), *points(20, 11)]:
        at = {P: sp.sympify(p), Q: sp.sympify(q)}
        own = diagram.at(p, q).verdict
        powers = tuple(sp.sympify(e).subs(at) for e in visits)
        agrees(diagram, net, "adam", (p, q), powers, own.visits)
        alone = tp.classify(sp.sympify(scale.alpha).subs(at), sp.sympify(scale.gamma).subs(at), net)
        assert (own.depth.name, own.depth.said) == (alone.name, alone.said), (p, q)
        assert own.name == f"{alone.name}; {own.visits.name}"
    assert len(diagram.regions) > 4 and diagram.html()


@pytest.mark.parametrize("arguments, said", [
    (dict(visits=(P, 0)), "with 1 symbols"), (dict(visits=(P, Q, 0)), "expected a pair"), (dict(visits=3), "got 3"),
    (dict(visits=(P, P * Q)), "affine forms in p, q"), (dict(visits=("a b", 0)), "visits: got"),
    (dict(scale=tp.WidthScaling([0, 0, P], [0, 0, P], Q), visits=(P, Q)), "scale: got"),
    (dict(net=tp.Transformer(), scale=tp.DepthScaling(P, 0), visits=(Q, 0)), "net: got"),
    (dict(net=3, visits=(P, Q)), "net: got 3")], ids=str)
def test_what_is_no_plane_is_refused_by_name(arguments: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tp.phase_diagram(**arguments)
