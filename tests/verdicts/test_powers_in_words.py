"""Powers of L in words, and weight decays that are seen whatever eps does."""

from __future__ import annotations

import pytest
import sympy as sp

from tpcalc.scaling.parametrization import Frozen, as_power
from tpcalc.optimizers.faithful import decay_fate, decay_power
from tpcalc.scaling import Powers
from tpcalc.models import ResNet
from tpcalc.training.settings import Settings

HALF = sp.Rational(1, 2)


def test_powers_are_written_as_people_do() -> None:
    assert [as_power(sp.Rational(one)) for one in ("0", "1", "1/2", "-1",
                                                   "2")] == ["1", "L", "L^(1/2)", "L^(-1)", "L^(2)"]
    assert as_power(sp.Integer(1), "n") == "n"


@pytest.mark.parametrize("kind", ["decoupled", "coupled"])
@pytest.mark.parametrize("init", [-HALF, 0])
@pytest.mark.parametrize("eps", [-2, -HALF, 0, HALF])
@pytest.mark.parametrize("optimizer", ["adam", "signsgd", "sgd"])
def test_a_visible_decay_takes_a_share_that_does_not_depend_on_the_depth(optimizer: str, eps: sp.Expr, init: sp.Expr,
                                                                         kind: str) -> None:
    one = Powers(init={"L": init}, lr={"L": -HALF}, eps={"L": eps})
    found = Settings(ResNet(), Frozen({"W": one}), optimizer, -HALF).visible_decay("W", kind)

    def fate(w: sp.Expr) -> str:
        return decay_fate(decay_power(optimizer, HALF, w, HALF, -sp.sympify(eps), -sp.sympify(init), kind))

    if found is None:
        assert "visible" not in {fate(sp.Rational(w, 4)) for w in range(-12, 13)}
    else:
        assert fate(-found) == "visible"
