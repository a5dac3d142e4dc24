"""How often audits and depth checks are wrong: fifty correct scripts from three draws each, and twenty faults in three
models each. ``pytest -m slow -s tests/pytorch/test_audits_counted.py`` prints what is not right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.nightly import few

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
audited = pytest.importorskip("support.pytorch.audited")
findings = pytest.importorskip("tpcalc.torch.findings")

NAMES = ("decay is coupled", "rates of vectors are not scaled", "last matrices shrink twice")
QUICK = [fault for fault in audited.FAULTS if fault.name in NAMES]


def audit_of(case: Any, seed: int) -> Any:
    """An audit of a correct script, from other initial values and another batch for every seed."""
    family = case.family()
    return tpt.audit(audited.shifted(family, seed), case.trainer(family), depths=audited.DEPTHS, recipe=case.recipe,
                     depth_key="depth", batch=audited.batch_of(case.name, seed))


def audit_of_fault(fault: Any, name: str) -> Any:
    return tpt.audit(*fault.script(name), depths=audited.DEPTHS, recipe="depth-mup", depth_key="depth",
                     batch=audited.batch_of(name, 0))


@pytest.mark.parametrize("case", audited.cases()[:8:3], ids=str)
def test_an_audit_and_a_depth_check_of_what_is_right(case: Any) -> None:
    found = audit_of(case, 0)
    assert found.ok, str(found)
    family = case.family()
    check = tpt.depth_check(family, case.trainer(family), depths=(4, 8, 16), steps=2, depth_key="depth")
    assert check.ok, str(check)


@pytest.mark.parametrize("fault", few(QUICK, QUICK[0]), ids=lambda fault: fault.name)
def test_a_fault_is_found_by_both(fault: Any) -> None:
    name = audited.SPOILT[0]
    assert not audit_of_fault(fault, name).ok
    check = tpt.depth_check(*fault.script(name), depths=audited.DEPTHS, steps=1, depth_key="depth", recipe="depth-mup")
    assert check.findings and not check.ok


def test_errors_of_corrected_slopes_cover() -> None:
    """Sizes L^s exp(b L_0 / L), with noise, from few seeds; without the correction they do not."""
    draw, depths, z, plain = np.random.default_rng(0), [4, 8, 16, 32], [], []
    for _ in range(400):
        logs = -0.5 * np.log(depths) + draw.normal() * 4 / np.array(depths) + 0.05 * draw.normal(size=(3, 4))
        for corrected, kept in ((True, z), (False, plain)):
            one = findings.fitted(depths, np.exp(logs).tolist(), corrected=corrected)
            kept.append((one.value + 0.5) / one.error)
    assert 0.6 < np.mean(np.abs(z) < 1) < 0.78 and np.sqrt(np.mean(np.square(z))) < 1.3
    assert np.mean(np.abs(plain) < 1) < 0.3


@pytest.mark.slow
def test_of_a_hundred_and_fifty_audits_of_correct_scripts_three_are_alarmed_at_most() -> None:
    pytest.importorskip("transformers")
    cases = audited.cases()
    assert len(set(map(str, cases))) == 50
    alarms = [(str(case), seed, *map(str, found.findings)) for case in cases for seed in range(audited.SEEDS)
              if not (found := audit_of(case, seed)).ok]
    print(len(alarms), "alarms", *alarms, sep="\n")
    assert len(alarms) <= 3


@pytest.mark.slow
def test_of_sixty_faults_fifty_seven_are_found() -> None:
    pytest.importorskip("transformers")
    assert len(audited.FAULTS) == 20
    missed = [(fault.name, name) for fault in audited.FAULTS for name in fault.named or audited.SPOILT
              if audit_of_fault(fault, name).ok]
    print(len(missed), "not found", *missed, sep="\n")
    assert len(missed) <= 3
