"""Powers of the rank of gradients, beside steps of real matrices, and every answer that rests on them."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.groups import plan_shapes
from tpcalc.optimizers.updates import HALF, finite_batches, rank_powers

SHAPES = {"emb.weight": (65, 64), **{f"h.{l}.{name}.weight": (64, 64) for l in range(2) for name in ("fc", "proj")},
          "head.weight": (65, 64)}
WIDE = {name: tuple(256 if size == 64 else size for size in shape) for name, shape in SHAPES.items()}
BY_RANK = [tp.Muon(), tp.NormalizedSGD(), tp.Muon(sphere=True), tp.Adam(sphere=True), tp.SignSGD(sphere=True)]


def orthogonal(g: np.ndarray) -> np.ndarray:
    u, values, v = np.linalg.svd(g)
    kept: np.ndarray = u[:, values > 1e-9 * values[0]] @ v[values > 1e-9 * values[0]]
    return kept


STEPS: dict[type, Callable[[np.ndarray], np.ndarray]] = {
    tp.Muon: orthogonal, tp.NormalizedSGD: lambda g: g / np.linalg.norm(g), tp.SignSGD: lambda g: np.sign(g) / len(g)}


def met(kind: type, n: int, rank: int) -> tuple[float, float]:
    """What a step of a gradient of random samples does to a vector of its row space, over that one's norm, and the
    step's norm over that of weights as they start."""
    rng, found = np.random.default_rng(n + rank), []
    for _ in range(6):
        out, inputs = rng.normal(size=(2, n, rank))
        u = STEPS[kind](out @ inputs.T)
        vector = inputs @ rng.normal(size=rank)
        found.append((np.linalg.norm(u @ vector) / np.linalg.norm(vector), np.linalg.norm(u) / n**0.5))
    return tuple(np.exp(np.log(found).mean(0)))  # type: ignore[return-value]


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("data", ("fixed", "width"))
def test_rates_keep_what_steps_do(kind: type, data: str) -> None:
    """At these powers of n a vector meets as much in a width that is eight times as large."""
    powers = rank_powers(kind(sphere=True))
    assert powers is not None
    at = powers.in_width(data)
    sizes = [(n, 2 if data == "fixed" else n) for n in (48, 384)]
    (little, small), (much, large) = (met(kind, *one) for one in sizes)
    kept, norm = (np.log(ratio) / np.log(8) + float(at["lr"]) for ratio in (much / little, large / small))
    assert abs(kept) < 0.06 and abs(norm - float(at["relative step"])) < 0.01


@pytest.mark.parametrize("opt", BY_RANK, ids=str)
def test_every_answer_says_what_is_taken_for_granted(opt: Any) -> None:
    """Once, in the same words; and of a free Adam none does."""
    note, = finite_batches(opt)
    answers = [tp.recipe("depth-mup", opt).assumed, tp.solve(opt=opt).assumed, tp.classify(1, 0, opt=opt).assumptions,
               tp.classify(1, 0, tp.Transformer(positions=2), opt).assumptions, tp.audit(-1, 0, opt).assumed,
               tp.classify(1, 0, opt=opt, steps=1).horizon.assumptions]
    if not isinstance(opt, tp.Adam):
        answers.append(tp.solve(tp.width.Perceptron(), opt).assumed)
    for said in answers:
        assert said.count(note) == 1
    assert note in str(tp.recipe("depth-mup", opt)) and note in str(tp.audit(-1, 0, opt))
    assert note not in tp.classify(1, 0, opt=opt, steps=1, data="width").horizon.assumptions
    assert finite_batches("adam") == finite_batches(tp.SGD()) == () == tp.recipe("depth-mup", "adam").assumed


def test_plans_say_it_where_the_width_grows() -> None:
    note, = finite_batches("muon")
    assert note in plan_shapes(SHAPES, WIDE, optimizer="muon").notes
    for said in (plan_shapes(SHAPES, WIDE, optimizer="muon", data="width"),
                 plan_shapes(SHAPES, SHAPES, optimizer="muon"), plan_shapes(SHAPES, WIDE, optimizer="adam")):
        assert note not in said.notes
    note, = finite_batches(tp.Muon(sphere=True))
    assert note in plan_shapes(SHAPES, WIDE, optimizer="muonh", data="fixed").notes
    assert note not in plan_shapes(SHAPES, WIDE, optimizer="muonh", data="width").notes


@pytest.mark.parametrize("data", ("fixed", "width"))
def test_recipes_have_the_powers_of_plans(data: str) -> None:
    """A plan's rate on spheres is that of a step relative to the norm."""
    found = tp.recipe("depth-mup", tp.Muon(sphere=True), data=data)
    entry = plan_shapes(SHAPES, WIDE, optimizer="muonh", data=data).entry("h.0.fc.weight")
    assert entry.powers.of("lr", "n") == found.of_width["relative step"] == (-HALF if data == "fixed" else 0)
    assert found.of_width["lr"] == 0 == found.assumed.count("rank")
    assert tp.recipe("muon-unit-rms", data=data).of_width["lr"] == -HALF
    assert tp.recipe("depth-mup", tp.NormalizedSGD(), data=data).of_width["lr"] == (0 if data == "fixed" else HALF)
    assert "learning rate, in width" in str(found)


def test_recipes_of_spheres_have_no_decay() -> None:
    assert any("decay" in name for name in tp.recipe("depth-mup", "muon").powers)
    for opt in BY_RANK[2:]:
        assert not any("decay" in name for name in tp.recipe("depth-mup", opt).powers)
        with pytest.raises(ValueError, match="weight_decay: got -1 with .* keep their norms"):
            tp.audit(-1, 0, opt, weight_decay=-1)
    for name, opt in (("completep", tp.Adam(sphere=True)), ("muon", tp.Muon(sphere=True))):
        with pytest.raises(tp.NotCovered, match=f"keep their norms, with '{name}', which was published for weights"):
            tp.recipe(name, opt)
    decays = tp.Parametrization(depth={"*": tp.Powers(decay={"L": 1})})
    with pytest.raises(tp.NotCovered, match="which have a weight decay"):
        tp.recipe(decays, tp.Muon(sphere=True))


def test_refusals() -> None:
    with pytest.raises(ValueError, match="data: got 'width' with 'adam', of which no power of the width"):
        tp.recipe("depth-mup", "adam", data="width")
    with pytest.raises(ValueError, match="data: got 'narrow'; expected 'fixed', 'width'"):
        tp.recipe("depth-mup", "muon", data="narrow")
    assert rank_powers(tp.Shampoo()) is None and rank_powers("MUON").rate == sp.S.Zero  # type: ignore[union-attr]
