"""Methods say what they refuse, and "auto" is the first that does not."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import sympy as sp

import tpcalc as tp
from support.nightly import few_of
from tpcalc.methods.choice import ALIASES, methods_by_preference

TASK = tp.Task([1.0, 0.5], [1.0, -1.0])
NETS = {"linear": tp.ResNet(), "tanh": tp.ResNet("tanh"), "pre_nonlin": tp.ResNet("tanh", "pre_nonlin"),
        "mlp": tp.ResNet("relu", "mlp"), "ends": tp.ResNet(train_embedding_readout=True)}
OPTS = {"SGD": tp.SGD(0.5), "Adam": tp.Adam(0.1, eps=0.1)}
SIZES: dict[str, tuple[Any, Any]] = {"deep": (3, tp.oo), "real": (3, 6), "limit": (tp.oo, tp.oo), "neither": (tp.oo, 6)}
TAKEN = {"deep": {"linear SGD": ["reflection", "coefficients", "particles"], "": ["particles"]},
         "real": {"linear SGD": ["dense", "conditioned"], "": ["conditioned", "dense"]},
         "limit": {"linear SGD": ["collocation", "extrapolated", "common_draws"],
                   "SGD": ["collocation", "common_draws"], "": ["common_draws"]}, "neither": {"": []}}
QUICK = tp.methods.CommonDraws(samples=128, coarsest=1, budget=1.0)


def problem(net: str, opt: str, size: str) -> tp.Problem:
    return tp.Problem(NETS[net], TASK, OPTS[opt], tp.DepthScaling(), *SIZES[size])


@pytest.mark.parametrize("net, opt", few_of(product(NETS, OPTS), *product(("linear", "tanh"), OPTS), ("ends", "SGD")))
@pytest.mark.parametrize("size", SIZES)
def test_what_is_taken_runs_and_what_is_refused_is_refused_with_the_reason_of_the_table(net: str, opt: str, size: str
                                                                                        ) -> None:
    asked = problem(net, opt, size)
    table = tp.methods.table(asked)
    assert sorted(row.name for row in table.rows) == sorted(ALIASES)
    taken = [row.name for row in table.rows if row.refusal is None]
    key = next(key for key in ("linear SGD", "SGD", "") if key in TAKEN[size] and (
        key == "" or key == opt or key == "linear SGD" and opt == "SGD" and NETS[net].is_plain))
    assert taken == (["common_draws"] if size == "limit" and net == "pre_nonlin" else TAKEN[size][key])
    assert table.chosen == (taken[0] if taken else None)
    for row in table.rows:
        line = next(line for line in str(table).splitlines() if line.split()[0] == row.name)
        if row.refusal is None:
            assert tp.train(asked, method=QUICK if row.name == QUICK.name else row.name).method == row.name
            assert line.endswith("takes it, the first to do so" if row.name == table.chosen else "takes it")
        else:
            assert line.endswith("refuses: " + row.refusal)
            for method in (row.name, ALIASES[row.name]()):
                with pytest.raises(ValueError) as caught:
                    tp.train(asked, method=method)
                assert str(caught.value) == row.refusal
            with pytest.raises(ValueError) as caught:
                ALIASES[row.name]().solve(asked)
            assert str(caught.value) == row.refusal
    if taken and taken[0] != QUICK.name:
        assert tp.train(asked).method == taken[0]


def test_where_all_refuse_the_telling_reason_is_said() -> None:
    root = sp.sqrt(2) / 2
    with pytest.raises(ValueError,
                       match="^method: got 'auto', and all methods refuse; 'collocation': block: got pre_nonlin, .* "
                             "'common_draws': depth: got tp.oo; no rule says whether there is a limit"):
        tp.train(replace(problem("pre_nonlin", "SGD", "limit"), scale=tp.DepthScaling(root, 1 - root)))
    with pytest.raises(ValueError, match="^method: got 'auto' with depth tp.oo and width 6, which no method takes"):
        tp.train(problem("tanh", "SGD", "neither"))


def test_no_limit_is_an_answer_not_a_refusal() -> None:
    asked = tp.Problem(NETS["linear"], TASK, OPTS["SGD"], tp.DepthScaling(0.25, 0.75), tp.oo)
    assert tp.methods.table(asked).chosen == "collocation"
    with pytest.raises(tp.Divergence, match="a limit needs alpha >= 1/2"):
        tp.train(asked)


def test_the_order_is_exact_first() -> None:
    names = [method.name for method in methods_by_preference(problem("linear", "SGD", "deep"))]
    assert names[:2] == ["reflection", "collocation"] and names[-2:] == ["coefficients", "particles"]


@pytest.mark.parametrize("call, said", [
    (lambda: tp.methods.table(NETS["tanh"]), "problem: got ResNet"),  # type: ignore[arg-type]
    (lambda: tp.methods.table(problem("tanh", "SGD", "deep"), []), "methods: got []"),
    (lambda: tp.methods.table(problem("tanh", "SGD", "deep"), [tp.methods.Dense]),  # type: ignore[list-item]
     "expected methods such as")])
def test_tables_of_what_is_no_problem_or_no_method_are_refused(call: Any, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        call()
    assert said in str(caught.value)
