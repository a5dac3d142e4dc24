"""Hypothesis profiles: the same examples in every run, or (--hypothesis-profile=thorough) many new ones; the recipes
that fast tests print; how often Python looks for cycles of objects."""

import gc

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("same", derandomize=True, deadline=None, database=None, max_examples=40,
                          suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")

# sympy makes and drops many small objects and few cycles: at Python's own threshold a sixth of all time goes into the
# search for cycles
gc.set_threshold(100_000, 20, 50)


def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: no search for cycles looks at them again."""
    gc.collect()
    gc.freeze()


FEW = ("sp", "depth-mup", "ode", "fixup", "fixup-bottleneck", "rezero", "rezero-adam")


@pytest.fixture
def few_recipes(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """``tp.named_recipes()`` with no transformers among them, whose audits take a minute."""
    from tpcalc.tune import table

    monkeypatch.setattr(table, "NAMED", tuple(one for one in table.NAMED if one.name in FEW))
    return FEW
