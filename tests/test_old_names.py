"""Names that moved are found where they were, for a release, with a warning that says where they are."""

from __future__ import annotations

import pytest

import tpcalc as tp
from tpcalc import codegen, solvers
from tpcalc.lowering import recursions


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


def test_what_codegen_exported_is_found_with_a_warning() -> None:
    for name in codegen.MOVED:
        with pytest.warns(DeprecationWarning, match=f"tpcalc.codegen.{name} is tpcalc.lowering.recursions.{name} now"):
            assert getattr(codegen, name) is getattr(recursions, name)
    with pytest.raises(AttributeError, match="numba_source"):
        codegen.numba_source
