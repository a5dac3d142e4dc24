"""What methods take is what the table says, and what a refusal expects takes the problem."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any, Iterator

import pytest

import tpcalc as tp
from tpcalc.methods.choice import ALIASES
from tpcalc.methods.takes import BLOCKS, EVERY, SIZES, TAKES, TRAITS, UPDATES
from tpcalc.optimizers.updates import kind_of_updates

TASK = tp.Task([[[1.0], [0.3]]] * 3, [[[1.0], [-0.7]]] * 3)
PAIRS = tp.Sequences([[[[1.0], [0.3]]]] * 3, [[[1.0, -0.7]]] * 3)
OPTIMIZERS = (tp.SGD(0.5), tp.SGD(0.5, momentum=0.5), tp.Muon(0.3), tp.Shampoo(0.3), tp.SOAP(0.3),
              tp.NormalizedSGD(0.3), tp.SignSGD(), tp.Adam(0.1), tp.Clipped(tp.SGD(0.5), 1.0))
NETWORKS = (tp.ResNet(), tp.ResNet(train_embedding_readout=True), tp.ResNet("tanh"), tp.ResNet("relu", "mlp"),
            tp.ResNet(visits=tp.oo), tp.ResNet("tanh", visits=tp.oo))
SCALES = (tp.DepthScaling(), tp.Parametrization(depth=tp.DepthScaling()),
          tp.Parametrization(width=tp.width.width_recipe("NTP", 3)))


def problems() -> Iterator[tp.Problem]:
    for net, opt, scale, depth, width in product(NETWORKS, OPTIMIZERS, SCALES, (4, tp.oo), (16, tp.oo)):
        try:
            yield tp.Problem(net, TASK, opt, scale, depth, width)
        except ValueError:  # no problem of anybody's: matrices move, and ends are trained
            assert net.train_embedding_readout or scale != SCALES[0]
    for opt, depth, width in product(OPTIMIZERS[:2], (4, tp.oo), (16, tp.oo)):
        yield tp.Problem(tp.Transformer(head_dim=2), PAIRS, opt, SCALES[0], depth, width)


def says_table(name: str, problem: tp.Problem) -> bool:
    takes, sizes = TAKES[name], ("finite", "infinite")
    return ((takes.visits == "infinitely many") == (problem.net.visits == tp.oo)
            and takes.depth in ("any", sizes[problem.layers is None]) and takes.width == sizes[problem.neurons is None]
            and kind_of_updates(problem.opt) in takes.updates
            and (takes.exponents == "by matrix" or isinstance(problem.scale, tp.DepthScaling))
            and (takes.powers_of_n == "any" or problem.is_mup)
            and (takes.blocks != "linear" or problem.net.visited_once.is_plain)
            and (takes.blocks != "without functions" or problem.net.is_linear)
            and (takes.blocks != "kernels" or isinstance(problem.net, tp.ResNet))
            and (takes.blocks != "attention" or getattr(problem.net, "attention", None) == "softmax")
            and (takes.ends == "trained" or not problem.net.train_embedding_readout))


def has_more_to_say(name: str, problem: tp.Problem) -> bool:
    """Rules that are no trait: Muon's blocks at infinite depth, rates in powers of n of other optimizers."""
    muon = isinstance(problem.opt, tp.Muon) and problem.net.matrices > 1 and name == "collocation"
    return muon or not problem.is_mup and not isinstance(problem.opt, tp.SGD)


def test_methods_take_what_the_table_says() -> None:
    seen = set()
    for problem, (name, kind) in product(problems(), ALIASES.items()):
        refused, taken = kind().refuses(problem), says_table(name, problem)
        assert (refused is None) <= taken, (name, problem)
        assert refused is None or not taken or has_more_to_say(name, problem), (name, problem, refused)
        seen.add((name, taken))
    assert seen == set(product(ALIASES, (True, False)))


def test_what_a_refusal_expects_takes_the_problem() -> None:
    places = {"at infinite depth": (tp.oo, tp.oo), "at finite depth": (4, tp.oo), "at finite width": (4, 16)}
    seen = 0
    for problem, (name, kind) in product(problems(), ALIASES.items()):
        refused = str(kind().refuses(problem))
        for names, place in re.findall(r"((?:'\w+'(?:, | and )?)+) (at (?:infinite depth|finite depth|finite width))",
                                       refused.partition("; expected")[2]):
            if refused.startswith(("opt:", "scale:")) and problem.is_mup:
                at = replace(problem, depth=places[place][0], width=places[place][1])
                for other in re.findall(r"'(\w+)'", names):
                    assert ALIASES[other]().refuses(at) is None, (refused, other)
                    seen += 1
    assert seen > 100


def test_every_trait_has_words() -> None:
    assert set(TAKES) == set(ALIASES) and {one.blocks for one in TAKES.values()} == set(BLOCKS)
    assert set(EVERY) == set(UPDATES) == {kind_of_updates(opt) for opt in OPTIMIZERS}
    rows = tp.methods.coverage().rows
    assert [row["method"] for row in rows] == list(TAKES)
    traits = {field.name for field in fields(TAKES["dense"])} - {"of_muon"}
    assert all(set(row) == {"method", *traits} for row in rows)
    assert [row["method"] for row in rows if "phi(W x) without a norm" in row["updates"]] == ["collocation"]


@pytest.mark.parametrize("opt, said", [
    (tp.Clipped(tp.SGD(), 1.0), "for clipped gradients"), (tp.SOAP(), "for other functions of whole matrices"),
    (tp.NormalizedSGD(), "for rates that depend on norms"), (tp.Adam(), "for functions of entries")])
def test_refusals_say_what_the_optimizer_is(opt: Any, said: str) -> None:
    with pytest.raises(tp.NotCovered, match=f"'reflection' takes a tp.SGD or a tp.Muon, whose .*; expected {said}"):
        tp.train(tp.ResNet(), TASK, opt, tp.DepthScaling(), 4, method="reflection")


@pytest.mark.parametrize("page", ["README.md", "docs/coverage.md"])
def test_pages_have_the_table_that_is_printed(page: str) -> None:
    covered, text = tp.methods.coverage(), (Path(__file__).parents[2] / page).read_text()
    assert f"\n\n{covered.markdown}\n\n" in text
    assert page == "README.md" or f"\n\n{covered.traits_markdown}\n\n" in text


def test_the_table_by_trait_is_what_methods_take() -> None:
    """Who is said to take a trait, and nobody else, takes some problem that asks for it."""
    asked = {"exponents": lambda one: not isinstance(one.scale, tp.DepthScaling) and one.is_mup,
             "powers_of_n": lambda one: not one.is_mup, "ends": lambda one: one.net.train_embedding_readout,
             "spheres": lambda one: getattr(one.opt, "sphere", False), "visits": lambda one: one.net.visits == tp.oo}
    found: dict[tuple[str, str], set[str]] = {}
    by_matrix = tp.Parametrization(depth={"alpha": 0.5, "W1": 0.5, "W2": 1})
    apart = (tp.Problem(tp.ResNet("linear", "mlp"), TASK, OPTIMIZERS[0], by_matrix, depth, width)
             for depth, width in ((4, 16), (4, tp.oo), (tp.oo, tp.oo)))
    on_spheres = (replace(one, opt=replace(one.opt, sphere=True)) for one in problems()
                  if isinstance(one.opt, (tp.Muon, tp.Adam)) and not one.net.train_embedding_readout)
    for problem, (name, kind) in product((*problems(), *apart, *on_spheres), ALIASES.items()):
        traits = [trait for trait, asks in asked.items() if asks(problem)]
        if kind().refuses(problem) is None:
            size = SIZES["infinite" if problem.neurons is None else "finite",
                         "infinite" if problem.layers is None else "finite"]
            for trait in traits:
                found.setdefault((trait, size), set()).add(name)
    for (trait, _), row in zip(TRAITS, tp.methods.coverage().by_trait):
        for size in SIZES.values():
            assert set(re.findall(r"`(\w+)`", row[size])) == found.get((trait, size), set()), (trait, size)


def test_the_table_by_network_is_what_methods_take() -> None:
    """Of an optimizer without a row of its own, that of any network stands for every kind of network."""
    kinds = {"one matrix a block, linear": NETWORKS[0], "blocks that close on kernels": NETWORKS[2]}
    *rows, anywhere = tp.methods.coverage().by_network
    for (kind, net), opt, size in product(kinds.items(), OPTIMIZERS, SIZES):
        width, depth = (tp.oo if one == "infinite" else 4 for one in size)
        found = tp.methods.table(tp.Problem(net, TASK, opt, SCALES[0], depth, width))
        own = [row for row in rows if row["network"] == kind and row["optimizer"] == UPDATES[kind_of_updates(opt)]]
        said = set(re.findall(r"`(\w+)`", (own or [anywhere])[0][SIZES[size]]))
        taken = {row.name for row in found.rows if row.refusal is None}
        assert taken and taken <= said
