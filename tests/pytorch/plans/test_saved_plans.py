"""Plans in files: what is loaded does what was saved, in another process too, and damaged files are refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
models = pytest.importorskip("support.pytorch.torch_models")

TOKENS = torch.arange(24).reshape(3, 8) % 17
PLANS = {
    "gauge": lambda: tpt.plan(models.GPT, dict(n_layer=2, n=32), dict(n_layer=8, n=64)),
    "multiplier": lambda: tpt.plan(models.GPT, dict(n_layer=2), dict(n_layer=8), "completep", forward="multiplier"),
    "after": lambda: tpt.plan(lambda n_layer: models.GPT(n_layer, after=True), dict(n_layer=2), dict(n_layer=8)),
    "tied": lambda: tpt.plan(lambda **given: models.GPT(8, tied=True, **given), dict(n=32), dict(n=64)),
    "muon": lambda: tpt.plan(models.GPT, dict(n_layer=2), dict(n_layer=8), optimizer="muon")}
TARGETS = {"gauge": lambda: models.GPT(8, 64), "multiplier": lambda: models.GPT(8), "muon": lambda: models.GPT(8),
           "after": lambda: models.GPT(8, after=True), "tied": lambda: models.GPT(8, 64, tied=True)}


@pytest.mark.parametrize("ending", ["json", "yaml"])
@pytest.mark.parametrize("name", PLANS)
def test_what_is_loaded_does_what_was_saved(name: str, ending: str, tmp_path: Path) -> None:
    plan, path = PLANS[name](), tmp_path / f"plan.{ending}"
    plan.save(path)
    found = tpt.load(path)
    assert found.entries == plan.entries and found.roles == plan.roles and found.notes == plan.notes
    assert found.multipliers() == plan.multipliers() and str(found) == str(plan)
    made = []
    for one in (plan, found):
        torch.manual_seed(3)
        made.append(one.apply_(TARGETS[name]()))
    assert all(torch.equal(p, q) for p, q in zip(made[0].parameters(), made[1].parameters()))
    assert torch.equal(made[0](TOKENS), made[1](TOKENS))
    for group, other in zip(*(one.groups(model, 1e-3) for one, model in zip((plan, found), made)), strict=True):
        assert {**group, "params": 0} == {**other, "params": 0}
    found.save(path)
    assert tpt.load(path) == found


def test_another_process_needs_no_make(tmp_path: Path) -> None:
    PLANS["multiplier"]().save(tmp_path / "plan.json")
    code = f"""
import tpcalc.torch as tpt
plan = tpt.load({str(tmp_path / "plan.json")!r})
print(plan.title, plan.multipliers(), plan.entry("h.3.mlp.2.weight").power("eps"), plan.sizes["ln_f.weight"])
print(plan.explain("h.*.mlp.2.weight"))
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith("completep, adamw: depth 2 -> 8, width times 1 {'h.*.attn.proj': 0.25, 'h.*.mlp.2': 0.25} "
                           "L^(-1) 1.0\n"), said
    assert "why: tensor_programs_vi/definition_41" in said


def test_yaml_reads_the_file(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    path = tmp_path / "plan.yaml"
    PLANS["gauge"]().save(path)
    assert yaml.safe_load(path.read_text()) == json.loads(path.read_text())
    said = json.loads(path.read_text())["plan"]
    assert said["not_saved"][0].startswith("make and base") and said["parameters"][0]["pattern"] == "wte.weight"


def test_other_files_are_refused(tmp_path: Path) -> None:
    plan, path = PLANS["gauge"](), tmp_path / "plan.json"
    with pytest.raises(ValueError, match="^path: got 'plan.txt'; expected the path of a file that ends in .json"):
        plan.save("plan.txt")
    with pytest.raises(ValueError, match="^path: got .*, where nothing can be written"):
        plan.save(tmp_path / "none" / "plan.json")
    with pytest.raises(OSError):
        tpt.load(path)
    plan.save(path)
    whole = path.read_text()
    for damaged, why in ((whole[:200], "Unterminated|Expecting|delimiter"), ("{}", "does not say 'tpcalc plan, 1'"),
                         (whole.replace("branch output", "hidden"), "changed after it was written"),
                         (whole.replace('"-1/2"', '"1/2"', 1), "changed after it was written")):
        path.write_text(damaged)
        with pytest.raises(ValueError, match=f"^path: got '.*plan.json', which is no plan .*({why})"):
            tpt.load(path)


def test_a_carried_plan_makes_no_base() -> None:
    from tpcalc.torch.model_plan import carried_plan
    model = PLANS["gauge"]().apply_(models.GPT(8, 64))
    with pytest.raises(ValueError, match="^plan: got one without what makes its base"):
        carried_plan(model).init_(models.GPT(8, 64))
