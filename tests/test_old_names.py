"""Names that moved are found where they were, for a release, with a warning that says where they are."""

from __future__ import annotations

from importlib import import_module

import pytest

import tpcalc as tp
from tpcalc import solvers


def test_what_solvers_exported_is_found_with_a_warning() -> None:
    for name in ("Run", "train", "convergence", "cauchy_differences", "gradient_correlation", "gradient_flow",
                 "tangent_kernel", "transfer"):
        with pytest.warns(DeprecationWarning, match=f"tpcalc.solvers.{name} is tpcalc"):
            assert getattr(solvers, name) is getattr(tp, name)


def test_all_moved_names_exist() -> None:
    for name in solvers.MOVED:
        with pytest.warns(DeprecationWarning):
            assert getattr(solvers, name).__name__ == name
    with pytest.raises(AttributeError, match="collocation"):
        solvers.collocation


@pytest.mark.parametrize("old", ["calculus.block_kernels", "calculus.between_layers", "calculus.densities",
                                 "calculus.gaussian", "calculus.overlaps", "codegen", "limits", "solvers"])
def test_every_name_of_an_old_module_says_where_it_is(old: str) -> None:
    module = import_module(f"tpcalc.{old}")
    for name, room in module.MOVED.items():
        with pytest.warns(DeprecationWarning, match=f"tpcalc.{old}.{name} is tpcalc.{room}.{name} now"):
            assert getattr(module, name) is getattr(import_module(f"tpcalc.{room}"), name)
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        module.nothing_of_that_name
