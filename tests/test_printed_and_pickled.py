"""Printing raises nothing, whatever a result has to say; results go through processes."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

import tpcalc as tp

TASK = tp.Task([1, 0.8], [1, -0.7])
TEXTS = ("__str__", "__repr__", "_repr_html_", "_repr_latex_")


def audit(branch: Any) -> Any:
    raw = {"branch": tp.Powers(multiplier={"L": branch}), "*": tp.Powers(eps={"L": -1})}
    return tp.theory.audit_matrices(tp.Parametrization(depth=raw), tp.ResNet("linear", "mlp"), "adam")


@pytest.mark.parametrize("branch", [0, "-1/4", -1])
def test_audits_of_networks_that_explode_say_what_is_not_known(branch: Any) -> None:
    found = audit(branch)
    for value in (found, found.verdict, found.verdict.matrices, found.verdict.sizes):
        assert all(isinstance(getattr(value, name)(), str) for name in TEXTS if hasattr(value, name))
    explodes = branch != -1
    assert ("W1, W2: branch" in str(found)) and ("explodes at initialization" in str(found)) == explodes
    assert str(found.verdict.matrices).count("not known (") == (2 if explodes else 0)


def mean_fields() -> dict[str, Any]:
    raw = tp.theory.raw_problem(tp.theory.DepthwiseScaling(mu0=0.5), tp.ResNet(), TASK, depth=4)
    run = tp.train(tp.ResNet(), TASK, tp.SGD(1.0), tp.DepthScaling(), 4)
    return {"dmft": tp.theory.dmft(raw), "order parameters": tp.theory.order_parameters(run), "audit": audit(0),
            "run": run}


def test_results_go_through_pickle_and_through_processes() -> None:
    found = mean_fields()
    for value in found.values():
        assert repr(pickle.loads(pickle.dumps(value))) == repr(value)
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        back = dict(zip(found, pool.map(_same, found.values())))
    assert {name: repr(value) for name, value in back.items()} == {name: repr(value) for name, value in found.items()}
    assert (back["dmft"].G == found["dmft"].G).all() and dict(back["dmft"].standard_errors) == {}


def _same(value: Any) -> Any:
    return value
