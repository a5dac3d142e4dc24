"""Every public call with every wrong value: an answer that names parameter, value and what is allowed, before any work.

The table is tests/support/bad_values.py; its cases come from signatures, so that a new parameter is tested, or asked
for by name.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import tpcalc as tp
from support import bad_values
from support.bad_values import VALUES, Call
from support.nightly import is_drawn
from tpcalc import methods
from tpcalc._checks import short
from tpcalc.studies import cauchy

REFUSALS = (ValueError, MemoryError, tp.Divergence)


class Begun(BaseException):
    """The work has begun."""


def begun(*arguments: Any, **options: Any) -> Any:
    raise Begun


def shown(value: Any, message: str) -> bool:
    """Does a message say what was given: the value, an entry of it, its keys, or its shape?"""
    words = [short(value), str(value), short(str(value)), repr(str(value)), repr(getattr(value, "__name__", value))]
    if isinstance(value, (list, tuple, set, range, np.ndarray)):
        entries = list(np.ravel(np.array(list(value), dtype=object)))
        words += ["shape", f"got {len(entries)}", *map(short, entries), *map(str, entries)]
        words += ["NaN"] if any(entry != entry for entry in entries) else []
    elif isinstance(value, dict):
        words.append(repr(sorted(value)))
    else:
        words.append("shape ()")
    return any(word in message for word in words)


def outcome(call: Call, parameter: str, value: Any) -> str:
    """What is wrong with the answer, or nothing."""
    try:
        call.function(**{**call.right, parameter: value})
    except REFUSALS as error:
        said = str(error)
        if not re.search(rf"\b{parameter}\b", said):
            return f"does not name {parameter}: {said}"
        if not shown(value, said):
            return f"does not say what was given: {said}"
        return "" if re.search("expected|must", said) else f"does not say what is expected: {said}"
    except Begun:
        return "the work begins"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "is accepted"


@pytest.mark.parametrize("most", [pytest.param(False, id="a tenth"),
                                  pytest.param(True, id="the others", marks=pytest.mark.nightly)])
def test_every_wrong_value_is_refused_by_name_before_any_work(most: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    every = list(bad_values.cases())
    cases = [(call, parameter, label) for call, parameter, label in every
             if is_drawn(f"{call.name}({parameter}={label})") != most]
    assert len(every) > 9000 and len(cases) > (8000 if most else 800)
    for kind in (methods.Reflection, methods.Collocation, methods.LongCollocation, methods.CommonDraws,
                 methods.Coefficients, methods.Dense, methods.Conditioned, methods.Particles):
        monkeypatch.setattr(kind, "solve", begun)
    monkeypatch.setattr(cauchy, "read_coefficients", begun)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [(f"{call.name}({parameter}={label})", outcome(call, parameter, VALUES[label]))
                 for call, parameter, label in cases]
    wrong = [f"{case} {answer[:300]}" for case, answer in found if answer]
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong[:60])


def test_a_public_call_that_no_table_knows_is_asked_for() -> None:
    def grow(net: tp.ResNet, speed: float) -> None:
        """A parameter that is nowhere."""

    class Growth:
        """A public class that is nowhere."""

        def by(self, speed: float) -> None: ...

    with pytest.raises(KeyError, match="speed"):
        bad_values.call("grow", grow)
    with pytest.raises(KeyError, match="Growth: a public class"):
        list(bad_values.methods_of("Growth", Growth))


def test_the_walk_sees_a_call_that_does_not_check() -> None:
    """An inside error, an answer without the name, and a value that passes are all found."""
    def halve(depth: Any) -> Any:
        return depth / 2

    def silent(depth: Any) -> Any:
        raise ValueError("bad")

    assert outcome(Call("halve", halve, {}, {}), "depth", None).startswith("TypeError")
    assert outcome(Call("halve", halve, {}, {}), "depth", -1.5) == "is accepted"
    assert outcome(Call("silent", silent, {}, {}), "depth", -1).startswith("does not name depth")


SAID = {  # a person's own mistakes, and what is said of each
    "gradient flow like training": (lambda: tp.studies.gradient_flow(*FOUR, 4), "has no optimizer"),
    "one depth": (lambda: tp.convergence(*FOUR, 16), "depths: got 16; expected two or more growing depths"),
    "a seed of the data": (lambda: tp.tasks.digits(seed=-1), "seed: got -1; expected a whole number of at least 0"),
    "samples without steps": (lambda: tp.Task(np.ones((6, 3)), np.ones(6)), "inputs.reshape(steps, batch, 3)"),
    "one column": (lambda: tp.Task(np.ones((6, 1)), np.ones((6, 1))), "inputs.reshape(steps, batch, 1)"),
}
FOUR = bad_values.NET, bad_values.TASK, bad_values.OPT, bad_values.SCALE


@pytest.mark.parametrize("name", SAID)
def test_what_is_said(name: str) -> None:
    call, said = SAID[name]
    with pytest.raises(ValueError, match=re.escape(said)):
        call()
