"""All named recipes with all optimizers of plans: each works and agrees with its audit, or is refused truthfully."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.tune.blocks import set_on_block
from tpcalc.tune.recipe import named_recipe
from tpcalc.groups import plan_shapes
from tpcalc.tune.factors import OPTIMIZERS, require_same_for_all
from tpcalc.groups.names import Shape
from tpcalc.optimizers.faithful import update_power
from tpcalc.optimizers.updates import OPTIMIZERS as ALL
from tpcalc.tune.named import NAMED

NAMES = [one.name for one in NAMED]
PAIRS = [(name, optimizer) for name in NAMES for optimizer in OPTIMIZERS]
ADAMS = {"adam", "adamw"}


def shapes(layers: int, n: int = 16) -> dict[str, Shape]:
    """A pre-norm transformer's."""
    each = {"ln_1.weight": (n,), "attn.q.weight": (n, n), "attn.k.weight": (n, n), "attn.v.weight": (n, n),
            "attn.o_proj.weight": (n, n), "ln_2.weight": (n,), "mlp.fc1.weight": (4 * n, n),
            "mlp.fc2.weight": (n, 4 * n)}
    return {"emb.weight": (9, n), **{f"h.{i}.{key}": shape for i in range(layers) for key, shape in each.items()},
            "ln_f.weight": (n,), "head.weight": (9, n)}


MATRICES = {"Wq": "attn.q", "Wk": "attn.k", "Wv": "attn.v", "Wo": "attn.o_proj", "W1": "mlp.fc1", "W2": "mlp.fc2"}


def names_only_what_was_given(said: str, name: str, optimizer: str) -> bool:
    """Is every optimizer that a sentence names the one that was given, or a part of the recipe's name?"""
    left = said.replace(repr(name), "").replace(repr(optimizer), "").lower()
    return all(word == optimizer for word in re.findall("|".join(rf"\b{one}\b" for one in ALL), left))


def published_for(name: str, optimizer: str) -> bool:
    entry = named_recipe(name)
    return entry.powers is None or optimizer == entry.optimizer or {optimizer, entry.optimizer} <= ADAMS


@pytest.mark.parametrize("name, optimizer", PAIRS)
def test_a_plan_sets_what_the_recipe_says_or_is_refused_by_what_was_given(name: str, optimizer: str) -> None:
    entry = named_recipe(name)
    unsettable = bool(entry.outside) or "norms after" in entry.block
    try:
        plan = plan_shapes(shapes(2), shapes(8), name, optimizer, forward="multiplier")
    except ValueError as refused:
        assert names_only_what_was_given(str(refused), name, optimizer), refused
        assert name in str(refused) and (unsettable or not published_for(name, optimizer))
        assert ("for which" in str(refused)) == (not unsettable)
        return
    assert published_for(name, optimizer) and not unsettable
    if entry.target is not None:
        fixed = optimizer in ("adafactor", "adamh") or optimizer.startswith("muon")  # directions of one size
        target, own = entry.target, "signsgd" if fixed else optimizer
        for part in MATRICES.values():  # updates are as large as the scaling says, gradients carrying the multiplier
            of = partial(plan.entry(f"h.3.{part}.weight").powers.of, size="L")
            moved = update_power(own, target.alpha, -of("lr"), -of("eps") if own in ADAMS else None)
            assert (of("init"), moved) == (0, target.gamma)
        assert plan.entry("h.3.mlp.fc2.weight").powers.of("multiplier", "L") == -target.alpha
        return
    given = set_on_block(entry)
    for matrix in given.powers:
        for part in (MATRICES.values() if len(given.powers) == 1 else [MATRICES[matrix]]):
            of = partial(plan.entry(f"h.3.{part}.weight").powers.of, size="L")
            rate, decay = given.of(matrix, "lr"), given.decay_of(matrix)
            assert (of("init"), of("lr")) == (given.of(matrix, "init"), rate)
            if part in ("attn.o_proj", "mlp.fc2"):
                assert of("multiplier") == given.branch
            if decay is not None and optimizer != "adam":  # the share that a step takes is the source's
                share = decay + (rate if given.decay == "decoupled" else 0)
                assert of("decay") + of("lr") == share
            eps, carries = given.eps(matrix), replace(given, gradient=None)
            if optimizer in ADAMS and eps is not None:  # eps beside gradients that carry the multiplier
                assert of("eps") - carries.gradient_power(matrix) == eps - given.gradient_power(matrix)


@pytest.mark.parametrize("name, optimizer", [
    pair for pair in PAIRS if named_recipe(pair[0]).powers is not None and pair[1] in ALL])
def test_what_is_assumed_of_decay_is_said(name: str, optimizer: str) -> None:
    """Adam and AdamW stand for each other; notes of a plan and the caveat of a recipe say it, and name no other."""
    entry = named_recipe(name)
    given = set_on_block(entry)
    if named_recipe(name).outside or not published_for(name, optimizer):
        with pytest.raises(ValueError) as caught:
            tp.recipe(name, optimizer)
        assert names_only_what_was_given(str(caught.value), name, optimizer)
        return
    found = tp.recipe(name, optimizer)
    said = found.caveat.removeprefix(named_recipe(name).caveat)
    assert found.settings.optimizer == optimizer and names_only_what_was_given(said, name, optimizer)
    assert bool(said) == (given.decay_of(given.names[0]) is None or optimizer == "adam" or given.decay == "independent")
    assert not said or "assumed to" in said
    if "norms after" not in named_recipe(name).block:
        notes = plan_shapes(shapes(2), shapes(8), name, optimizer).notes
        assert all(names_only_what_was_given(note, name, optimizer) for note in notes)
        assert not said or said.removeprefix("; ") in notes


def inits_of(name: str) -> dict[str, sp.Expr]:
    given = set_on_block(named_recipe(name))
    return {matrix: given.of(matrix, "init") for matrix in given.names}


@pytest.mark.parametrize("name", NAMES)
def test_an_audit_refuses_recipes_whose_matrices_differ(name: str) -> None:
    """Of those that a plan takes; the sentence names matrices that start smaller, and those that do not."""
    try:
        require_same_for_all(name)
    except ValueError as refused:
        assert names_only_what_was_given(str(refused), name, "")
        if not named_recipe(name).outside and "norms after" not in named_recipe(name).block:
            inits = inits_of(name)
            smaller = ", ".join(matrix for matrix, init in inits.items() if init != 0)
            assert smaller and f"in which {smaller} start like" in str(refused) and len(set(inits.values())) == 2
        return
    given = inits_of(name)
    assert len(set(given.values())) == 1


def test_eps_that_outgrows_gradients_is_a_note() -> None:
    """"depth-mup-fixed-eps" leaves it as it is; u-muP's gradients do not carry the multiplier, so that its eps goes."""
    notes = {name: plan_shapes(shapes(2), shapes(8), name, "adam").notes for name in (
        "depth-mup-fixed-eps", "depth-mup", "completep", "unit-scaling", "branch-only")}
    outgrown = [name for name, said in notes.items() if any("outgrows" in one for one in said)]
    assert outgrown == ["depth-mup-fixed-eps"]
    plan = plan_shapes(shapes(2), shapes(8), "unit-scaling", "adam", forward="multiplier")
    assert plan.entry("h.0.mlp.fc1.weight").powers.of("eps", "L") == -sp.Rational(1, 2)
    assert plan.entry("emb.weight").powers.of("eps", "L") == 0


@pytest.mark.parametrize("name, power", [("muon", 0), ("muon-spectral", 0), ("megatron-muon-unit-rms-norm", 0),
                                         ("muon-unit-rms", -.5), ("megatron-muon-spectral", -.5)])
def test_rates_undo_what_factors_of_muon_grow_by(name: str, power: float) -> None:
    """Updates of wider matrices, factor included, have one spectral norm; a step's decay takes the share it took."""
    plan = plan_shapes(shapes(2), shapes(2, 64), name, "muon")
    factor = named_recipe(name).factor
    assert factor is not None
    for part in MATRICES.values():
        entry = plan.entry(f"h.0.{part}.weight")
        rows, columns = entry.parameter.shape
        out, into = sorted(factor.free_symbols, key=lambda s: s.name != "fan_out")
        grown = [float(factor.subs({out: rows / k, into: columns / k})) for k in (4, 1)]
        assert entry.factor("lr") == pytest.approx(grown[0] / grown[1])
        assert entry.factor("lr") == pytest.approx(4**power)
        assert entry.factor("lr") * entry.factor("weight_decay") == pytest.approx(1)
    narrow = [{**shapes(2, n), **{f"h.{i}.attn.k.weight": (4, n) for i in range(2)}} for n in (16, 64)]
    said = r"^h.\*.attn.k.weight: got the shape \(4, 64\), of which not all dimensions grow"
    with pytest.raises(ValueError, match=said):
        plan_shapes(*narrow, name, "muon")
